"""A WebSocket server on a TCP port.

Rules:
  - The connections, their bounds and the closing are those of `TcpServer`.
  - A browser sends the Origin header of the page that opens a connection. Without `origins` such a connection is
    refused (403): otherwise any web page could call a server on localhost, or one that knows its user by a cookie.
  - A request that is not a valid handshake gets the status that says why, such as 405 and 431, and the connection ends.
"""

from __future__ import annotations

import asyncio
import re
import ssl as tls
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from websockets.datastructures import Headers
from websockets.exceptions import SecurityError
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.http11 import Request
from websockets.protocol import State as WireState
from websockets.server import ServerProtocol

from ..._checks import check_callable, check_type
from ...errors import LOOP_EXITS
from ...profile import JSONRPC
from ..stream.server import AcceptedTransport, ListeningOptions, Serve, TcpServer
from ..stream.tls import HANDSHAKE_SECONDS
from .transport import CLOSE_SECONDS, CloseCode, WebSocketOptions, WebSocketTransport, limits_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

Authorize = Callable[[str, Headers], HTTPStatus | None]


class WebSocketServerOptions(WebSocketOptions, ListeningOptions, total=False):
    """Keyword options of a WebSocket server; `WebSocketServer` describes them."""

    reuse_port: bool


class AcceptedWebSocket(AcceptedTransport, WebSocketTransport):
    """A connection that a `WebSocketServer` accepted.

    Attributes:
        path: The path and query of the handshake request.
        headers: The headers of the handshake request.
    """

    _is_server = True
    _server: WebSocketServer

    def __init__(self, server: WebSocketServer, options: WebSocketOptions) -> None:
        self._server = server
        self._admission = server._admission
        super().__init__(**options)
        self.path: str = ""
        self.headers: Headers = Headers()
        self._handshake: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def _new_wire(self) -> ServerProtocol:
        server = self._server
        return ServerProtocol(
            origins=cast("Any", server._origins),
            extensions=[ServerPerMessageDeflateFactory()] if server._compression else None,
            subprotocols=cast("Any", server._subprotocols),
            max_size=self.profile.limits.message_bytes,
        )

    async def opened(self) -> bool:
        """Wait for the handshake. Return False if it fails."""
        loop = asyncio.get_running_loop()
        seconds = self._server._handshake_seconds
        timer = None if seconds is None else loop.call_later(seconds, self.abort_channel)
        try:
            return await self._handshake
        finally:
            if timer is not None:
                timer.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._channel = cast("asyncio.Transport", transport)
        if self._server._admits(self._channel):
            super().connection_made(transport)
            self._server._accept(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server._leave(self._channel)
        if not self._handshake.done():
            self._handshake.set_result(False)
        super().connection_lost(exc)

    def buffer_updated(self, nbytes: int) -> None:
        super().buffer_updated(nbytes)
        self._admission.received(nbytes)

    def write_messages(self, texts: list[bytes]) -> None:
        super().write_messages(texts)
        self._admission.sent(sum(map(len, texts)))

    def _handshake_received(self, data: bytes) -> None:
        if self._handshake.done():
            self._drop_received(len(data), is_fault=True)
            return
        wire = cast("ServerProtocol", self._wire)
        wire.receive_data(data)
        if wire.handshake_exc is not None:
            self._refuse(_status_of(data, wire.handshake_exc))
            return
        for event in wire.events_received():
            request = cast("Request", event)
            self.path, self.headers = request.path, request.headers
            response = wire.accept(request)
            if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS and self._server._authorize is not None:
                status = self._authorize(request)
                if status is not None:
                    response = wire.reject(status, f"{status.phrase}\n")
            wire.send_response(response)
        self._write_wire()
        if wire.state is WireState.OPEN:
            self._begin_frames()
            self._handshake.set_result(True)
        elif wire.close_expected():
            self._end_handshake()

    def _authorize(self, request: Request) -> HTTPStatus | None:
        """Return the status to refuse a request with, 500 if the application's function fails; None to accept it."""
        assert self._server._authorize is not None
        try:
            status = self._server._authorize(request.path, request.headers)
            return None if status is None else HTTPStatus(status)
        except LOOP_EXITS:
            raise
        except BaseException as error:  # asyncio would reset the connection
            self._report_unhandled(error, "authorize")
            return HTTPStatus.INTERNAL_SERVER_ERROR

    def _on_long_head(self) -> None:
        self._is_head_read = True
        self._clear_unread()
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer a request that the library cannot read."""
        allow = "Allow: GET\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else ""
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\n{allow}Content-Length: 0\r\nConnection: close\r\n\r\n"
        self._channel.write(head.encode())
        if self._channel.can_write_eof():
            self._write_end_when_written()
        else:
            self._channel.close()
        self._end_handshake()

    def _end_handshake(self) -> None:
        self._handshake.set_result(False)
        self._end_timer = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.abort_channel)

    def _request_stop(self, grace_seconds: float | None, drain_seconds: float | None) -> None:
        self._close_code = CloseCode.GOING_AWAY
        super()._request_stop(grace_seconds, drain_seconds)


def _status_of(head: bytes, fault: Exception) -> HTTPStatus:
    """Return the status that says what is wrong with a request that the library could not read."""
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    if method.isalpha() and method != b"GET" and b" HTTP/1." in rest:
        return HTTPStatus.METHOD_NOT_ALLOWED
    causes = (fault, fault.__cause__, fault.__context__)
    if any(isinstance(cause, SecurityError) for cause in causes):
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return HTTPStatus.BAD_REQUEST


class _Checked(WebSocketTransport):
    """A transport that is made only to check its options."""

    def _new_wire(self) -> ServerProtocol:
        return ServerProtocol()


class WebSocketServer(TcpServer):
    """A WebSocket server on a TCP port.

    Args:
        serve: As in `StreamServer`; it is called when the handshake is done, with an `AcceptedWebSocket`.
        host: As in `TcpServer`.
        port: As in `TcpServer`.
        origins: The Origin headers that are accepted, besides none: strings such as "https://example.org", or compiled
            patterns. None: any, for servers that check who calls in another way.
        subprotocols: The subprotocols that are supported, the preferred ones first.
        authorize: Called with the path and the headers of each handshake request that is valid. It returns None to
            accept the connection, or the status to refuse it with. If it raises, the connection is refused with 500,
            and the exception goes to the loop's exception handler.
        compression: Whether to accept permessage-deflate. It saves bytes, and costs time and memory on both sides.
            Without `limits`, a message may then have 1 MiB.
        ssl: As in `TcpServer`.
        handshake_seconds: How long a client may take for the TLS handshake, and then for the one of WebSocket; None: no
            limit.
        options: `sock`, `backlog` and `reuse_port` as in `TcpServer`, options of `Admission`, and those of
            `WebSocketTransport` for each connection.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

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
        handshake_seconds: float | None = HANDSHAKE_SECONDS,
        **options: Unpack[WebSocketServerOptions],
    ) -> None:
        check_type("origins", origins, list, tuple, may_be_none=True)
        for origin in origins or ():
            check_type("an origin in origins", origin, str, re.Pattern)
        check_type("subprotocols", subprotocols, list, tuple, may_be_none=True)
        check_callable("authorize", authorize)
        check_type("compression", compression, bool)
        self._origins = None if origins is None else [None, *origins]
        self._subprotocols = subprotocols
        self._authorize = authorize
        self._compression = compression
        options["limits"] = limits_of(compression, options.get("limits"), options.get("profile", JSONRPC))
        super().__init__(serve, host, port, ssl=ssl, handshake_seconds=handshake_seconds, **cast("Any", options))

    def _check_options(self) -> None:
        _Checked(**self._options)

    def _new_protocol(self) -> asyncio.BufferedProtocol:
        return AcceptedWebSocket(self, cast("WebSocketOptions", self._options))
