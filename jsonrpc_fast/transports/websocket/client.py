"""A connection to a WebSocket server.

Rules:
  - Each `connect` makes new state in the library: after a failed handshake, `connect` may be called again.
  - The first outcome of the handshake counts: no redirect is followed, and data after a failure changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack, cast

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidURI
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.protocol import State as WireState
from websockets.uri import parse_uri

from ...errors import ConnectionLost
from ...profile import JSONRPC
from ...support import MAX_PORT, check_items, check_seconds, check_type
from ..channel import Events
from ..stream.client import CONNECT_SECONDS, tcp_channel
from ..stream.tls import check_context
from ..stream.tls import ssl as tls
from ..stream.transport import SocketOrLayer
from .channel import WebSocketChannel, WebSocketOptions, WebSocketTransport, limits_of


class ClientChannel(WebSocketChannel):
    """The client's side of a WebSocket. `new_wire` returns the state of a new connection in the library, with a maximum
    size of messages."""

    def __init__(
        self,
        socket: SocketOrLayer,
        new_wire: Callable[[int], ClientProtocol],
        headers: list[tuple[str, str]],
        name: str,
    ) -> None:
        super().__init__(socket)
        self._new_wire = new_wire
        self._headers = headers
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def open(self, events: Events) -> None:
        self.events = events
        # New for each attempt: the library's state serves one connection, and `connect` may be called again.
        wire = self._new_wire(self.max_bytes)
        self.begin_handshake(wire)

        def send_request() -> None:
            request = wire.connect()
            for name, value in self._headers:
                request.headers[name] = value
            wire.send_request(request)
            self.write_wire()

        if not await self.shake_hands(send_request):
            raise self.refusal or ConnectionLost("the server ended the connection during the handshake")

    def handshake_received(self, data: bytes) -> None:
        self.wire.receive_data(data)
        for _ in self.wire.events_received():
            if self.handshake.done():  # it has failed; later data changes nothing
                return
            if self.wire.state is WireState.OPEN:
                self.begin_frames()
                self.handshake.set_result(True)
            else:
                self.end_handshake(self.wire.handshake_exc)

    def head_too_long(self) -> None:
        self.end_handshake(ConnectionLost("the head of the handshake is too long"))


class WebSocketClient(WebSocketTransport):
    """A connection to a WebSocket server.

    `connect` raises `websockets.exceptions.InvalidHandshake` if the server refuses it, and TimeoutError after
    `connect_seconds`.

    Args:
        uri: A URI with the scheme `ws` or `wss`. Its user and password are sent as basic authorization.
        headers: Further headers of the handshake request, such as the Origin that a server requires.
        subprotocols: The subprotocols to offer, the preferred ones first.
        compression: Whether to offer permessage-deflate. It saves bytes, and costs time and memory on both sides.
            Without `limits`, a message may then have at most 1 MiB.
        ssl: The TLS settings for `wss`; by default those of `ssl.create_default_context`.
        connect_seconds: How long connecting may take, with TLS and the handshake; None: no limit.
        options: Options of `WebSocketTransport` and `Connection`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
        websockets.exceptions.InvalidURI: `uri` is not a WebSocket URI.
    """

    def __init__(
        self,
        uri: str,
        *,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        subprotocols: Sequence[str] | None = None,
        compression: bool = False,
        ssl: tls.SSLContext | None = None,
        connect_seconds: float | None = CONNECT_SECONDS,
        **options: Unpack[WebSocketOptions],
    ) -> None:
        check_seconds("connect_seconds", connect_seconds)
        check_context(ssl)
        check_type("uri", uri, str)
        check_type("headers", headers, Iterable)
        check_items("subprotocols", subprotocols, str)
        try:
            parsed = parse_uri(uri)
        except InvalidURI:
            raise
        except ValueError:  # of the standard library
            raise ValueError(f"the host of the URI is malformed, or its port is not 0 to {MAX_PORT}") from None
        if ssl is not None and not parsed.secure:
            raise ValueError("ssl needs a URI with the scheme wss")
        options["limits"] = limits_of(compression, options.get("limits"), options.get("profile", JSONRPC))
        extensions = [ClientPerMessageDeflateFactory()] if compression else None

        def new_wire(max_bytes: int) -> ClientProtocol:
            return ClientProtocol(
                parsed, extensions=extensions, subprotocols=cast("Any", subprotocols), max_size=max_bytes
            )

        # Pairs, because a field may occur several times (RFC 9110, section 5.3); a list, because each `connect` sends
        # them.
        fields = list(headers.items() if isinstance(headers, Mapping) else headers)
        context = (ssl or tls.create_default_context()) if parsed.secure else None

        socket = tcp_channel(parsed.host, parsed.port, context)
        channel = ClientChannel(socket, new_wire, fields, f"WebSocket to {parsed.host}:{parsed.port}")
        super().__init__(channel, **options)
        self._connect_seconds = connect_seconds
