"""A WebSocket server on a TCP port.

Rules:
  - A browser sends the Origin header of the page that opens a connection. Without `origins` such a connection is
    refused (403): otherwise any web page could call a server on localhost, or one that knows its user by a cookie.
  - A request that is not a valid handshake gets the status that says why, such as 405 or 431, and the connection ends.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Unpack, cast

from websockets.datastructures import Headers
from websockets.exceptions import SecurityError
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.http11 import Request
from websockets.protocol import State as WireState
from websockets.server import ServerProtocol

from ...errors import run_callback
from ...profile import JSONRPC
from ...support import check_callable, check_items, check_type
from ...types import UNSET, Unset
from ..channel import CloseCode
from ..stream.server import ListeningOptions, Serve, TcpServer
from ..stream.tls import ssl as tls
from ..stream.transport import SocketChannel, SocketOrLayer, SocketTransport
from .channel import Phase, WebSocketChannel, WebSocketOptions, WebSocketTransport, limits_of

Authorize = Callable[[str, Headers], HTTPStatus | None]


class WebSocketServerOptions(WebSocketOptions, ListeningOptions, total=False):
    """Keyword options of a WebSocket server; `WebSocketServer` describes them."""


class AcceptedChannel(WebSocketChannel):
    """The server's side of a WebSocket, with the path and the headers of the handshake request."""

    is_server = True

    def __init__(self, server: WebSocketServer, socket: SocketOrLayer) -> None:
        super().__init__(socket)
        self.path: str = ""
        self.headers: Headers = Headers()
        self._server = server

    def handshake_received(self, data: bytes) -> None:
        wire = self.wire
        wire.receive_data(data)
        # The library ends the stream without a response to most heads that it cannot parse. A client should learn why.
        if wire.handshake_exc is not None:
            self._refuse(_status_of(data, wire.handshake_exc))
            return
        for event in wire.events_received():
            request = cast("Request", event)
            self.path, self.headers = request.path, request.headers
            # The library decides first: `authorize` sees only valid requests of allowed origins.
            response = wire.accept(request)
            if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
                status = self._server.status_for(request)
                if status is not None:
                    response = wire.reject(status, f"{status.phrase}\n")
            wire.send_response(response)
        self.write_wire()
        if wire.state is WireState.OPEN:
            self.begin_frames()
            self.handshake.set_result(True)
        elif wire.close_expected():
            self._end_refused()

    def head_too_long(self) -> None:
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _refuse(self, status: HTTPStatus) -> None:
        """Refuse a request that the library cannot read."""
        # RFC 9110, section 15.5.6: a 405 has to name the methods that are allowed.
        allow = "Allow: GET\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else ""
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\n{allow}Content-Length: 0\r\nConnection: close\r\n\r\n"
        self.socket.write(head.encode())
        self.socket.finish()
        self._end_refused()

    def _end_refused(self) -> None:
        self.end_handshake()
        # Data that a refused client still sends is read and dropped: a close with unread bytes would reset the
        # connection, and the client would lose the response (RFC 9112, section 9.6).
        self._phase = Phase.ENDING
        self.end_soon()


class AcceptedWebSocket(WebSocketTransport):
    """A connection that a `WebSocketServer` accepted."""

    channel: AcceptedChannel

    def __init__(self, server: WebSocketServer, socket: SocketOrLayer, options: WebSocketOptions) -> None:
        channel = AcceptedChannel(server, socket)
        super().__init__(channel, **options)
        channel.begin_handshake(server.new_wire(channel.max_bytes))

    @property
    def path(self) -> str:
        """The path and query of the handshake request."""
        return self.channel.path

    @property
    def headers(self) -> Headers:
        """The headers of the handshake request."""
        return self.channel.headers

    def request_stop(self, grace_seconds: float | None, drain_seconds: float | Unset | None = UNSET) -> None:
        self.channel.closing_code = CloseCode.GOING_AWAY
        super().request_stop(grace_seconds, drain_seconds)


def _status_of(head: bytes, fault: Exception) -> HTTPStatus:
    """Return the status for a request that the library could not read."""
    # The library's exceptions do not distinguish another method from other faults.
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    if method.isalpha() and method != b"GET" and b" HTTP/1." in rest:
        return HTTPStatus.METHOD_NOT_ALLOWED
    # RFC 6585, section 5, for what the library calls a SecurityError: too many headers, or one that is too long.
    causes = (fault, fault.__cause__, fault.__context__)
    if any(isinstance(cause, SecurityError) for cause in causes):
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return HTTPStatus.BAD_REQUEST


class WebSocketServer(TcpServer):
    """A WebSocket server on a TCP port.

    Args:
        serve: As in `StreamServer`; it is called when the handshake is done, with an `AcceptedWebSocket`.
        host, port: As in `TcpServer`.
        origins: The Origin headers that are accepted: strings such as "https://example.org", or compiled patterns. A
            request without an Origin header is always accepted. None: any origin, for servers that identify callers in
            another way.
        subprotocols: The subprotocols that are supported, the preferred ones first.
        authorize: Called with the path and the headers of each valid handshake request. It returns None to accept the
            connection, or the status to refuse it with. If it raises, the connection is refused with 500, and the
            exception goes to the loop's exception handler.
        compression: Whether to accept permessage-deflate. It saves bytes, and costs time and memory on both sides.
            Without `limits`, a message may then have at most 1 MiB.
        ssl: As in `TcpServer`.
        options: `sock` as in `TcpServer`, options of `Admission`, and those of `WebSocketTransport` for each
            connection.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    _known = WebSocketServerOptions.__annotations__

    def __init__(
        self,
        serve: Serve,
        host: str | None = None,
        port: int | None = None,
        *,
        origins: Sequence[str | re.Pattern[str]] | None = (),
        subprotocols: Sequence[str] | None = None,
        authorize: Authorize | None = None,
        compression: bool = False,
        ssl: tls.SSLContext | None = None,
        **options: Unpack[WebSocketServerOptions],
    ) -> None:
        check_items("origins", origins, str, re.Pattern)
        check_items("subprotocols", subprotocols, str)
        check_callable("authorize", authorize)
        check_type("compression", compression, bool)
        # None is included: browsers always send an Origin, so a client without one is not a web page (RFC 6455, section
        # 10.2).
        self._origins = None if origins is None else [None, *origins]
        self._subprotocols = subprotocols
        self._authorize = authorize
        self._compression = compression
        options["limits"] = limits_of(compression, options.get("limits"), options.get("profile", JSONRPC))
        super().__init__(serve, host, port, ssl=ssl, **cast("Any", options))

    def new_wire(self, max_bytes: int) -> ServerProtocol:
        """Return the state of a new connection in the library."""
        return ServerProtocol(
            origins=cast("Any", self._origins),
            extensions=[ServerPerMessageDeflateFactory()] if self._compression else None,
            subprotocols=cast("Any", self._subprotocols),
            max_size=max_bytes,
        )

    def status_for(self, request: Request) -> HTTPStatus | None:
        """Return the status to refuse a request with, 500 if the application's function fails; None to accept it."""
        found: list[HTTPStatus | None] = []

        def ask() -> None:
            assert self._authorize is not None
            status = self._authorize(request.path, request.headers)
            found.append(None if status is None else HTTPStatus(status))

        if self._authorize is None:
            return None
        run_callback(_report, ask)
        return found[0] if found else HTTPStatus.INTERNAL_SERVER_ERROR

    def _check_options(self) -> None:
        WebSocketTransport(WebSocketChannel(SocketChannel(None, self.admission)), **self._options)

    def _new_connection(self, channel: SocketOrLayer) -> SocketTransport:
        return AcceptedWebSocket(self, channel, cast("WebSocketOptions", self._options))


def _report(fault: BaseException) -> None:
    context = {"message": "exception in authorize of a transport", "exception": fault}
    asyncio.get_running_loop().call_exception_handler(context)
