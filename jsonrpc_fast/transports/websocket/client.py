"""A connection to a WebSocket server."""

from __future__ import annotations

import asyncio
import contextlib
import ssl as tls
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.protocol import State as WireState
from websockets.uri import parse_uri

from ..._checks import check_seconds, check_type
from ..._typing import Unpack
from ...errors import ConnectionLost
from ...profile import JSONRPC
from ..channel import Events
from ..stream.client import CONNECT_SECONDS, open_connection, within
from ..stream.transport import Connect, SocketChannel
from .channel import WebSocketChannel
from .transport import WebSocketOptions, WebSocketTransport, limits_of


class ClientChannel(WebSocketChannel):
    """The client's side of a WebSocket.

    Args:
        connect: Connects the socket.
        new_wire: Returns the state of a new connection in the library, with a maximum size of messages.
        headers: Further headers of the handshake request.
        connect_seconds: Until when the connection has to be open; None: no limit.
        name: The name of the channel.
    """

    def __init__(
        self,
        connect: Connect,
        new_wire: Callable[[int], ClientProtocol],
        headers: list[tuple[str, str]],
        connect_seconds: float | None,
        name: str,
    ) -> None:
        super().__init__(SocketChannel(connect))
        self._new_wire = new_wire
        self._headers = headers
        self._connect_seconds = connect_seconds
        self._name = name
        self._handshake: asyncio.Future[None] | None = None
        self._socket_ended: asyncio.Future[None] | None = None  # done when the latest socket is closed

    @property
    def name(self) -> str:
        return self._name

    async def open(self, events: Events) -> None:
        self.events = events
        await within(self._connect_seconds, self._open())

    async def _open(self) -> None:
        if self._socket_ended is not None:
            await self._socket_ended  # its end would be taken for that of the new one
        # New for each attempt: the library's state serves one connection, and `connect` may be called again.
        wire = self._new_wire(self.max_bytes)
        self.begin_handshake(wire)
        loop = asyncio.get_running_loop()
        self._handshake, self._socket_ended = loop.create_future(), loop.create_future()
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self._abort_handshake, self._handshake)
            await self.socket.open(self.socket_events)
            self.socket.set_reading(True)  # for the handshake; `begin_frames` sets what the connection wants
            request = wire.connect()
            for name, value in self._headers:
                request.headers[name] = value
            wire.send_request(request)
            self.write_wire()
            await self._handshake
            on_failure.pop_all()

    def _abort_handshake(self, handshake: asyncio.Future[None]) -> None:
        # A socket that was never connected reports no loss, and the next attempt would wait for it.
        if self.socket.transport is None:
            self._socket_ended = None
        handshake.cancel()
        self.socket.abort()

    def handshake_received(self, data: bytes) -> None:
        assert self._handshake is not None
        self.wire.receive_data(data)
        for _ in self.wire.events_received():
            if self._handshake.done():
                return
            if self.wire.state is WireState.OPEN:
                self.begin_frames()
                self._handshake.set_result(None)
            else:
                self._end_handshake(self.wire.handshake_exc)

    def head_too_long(self) -> None:
        self._end_handshake(ConnectionLost("the head of the handshake is too long"))

    def handshake_lost(self, fault: Exception | None) -> bool:
        self._end_handshake(fault)
        if self._socket_ended is not None and not self._socket_ended.done():
            self._socket_ended.set_result(None)
        return False  # `open` raises: a channel that was not opened reports no loss

    def _end_handshake(self, fault: Exception | None) -> None:
        if self._handshake is not None and not self._handshake.done():
            self._handshake.set_exception(
                fault or ConnectionLost("the server ended the connection during the handshake")
            )


class WebSocketClient(WebSocketTransport):
    """A connection to a WebSocket server.

    `connect` raises `websockets.exceptions.InvalidHandshake` if the server refuses it, and TimeoutError after
    `connect_seconds`.

    Args:
        uri: A URI with the scheme `ws` or `wss`. Its user and password are sent as basic authorization.
        headers: Further headers of the handshake request.
        origin: The Origin header, for servers that ask for it.
        subprotocols: The subprotocols to offer, the preferred ones first.
        compression: Whether to offer permessage-deflate. It saves bytes, and costs time and memory on both sides.
            Without `limits`, a message may then have 1 MiB.
        ssl: The TLS settings for `wss`; by default those of `ssl.create_default_context`.
        connect_seconds: Until when the connection has to be open, with TLS and the handshake; None: no limit.
        options: Options of `WebSocketTransport`, `SocketTransport` and `Connection`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
        websockets.exceptions.InvalidURI: `uri` is not a WebSocket URI.
    """

    def __init__(
        self,
        uri: str,
        *,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        origin: str | None = None,
        subprotocols: Sequence[str] | None = None,
        compression: bool = False,
        ssl: tls.SSLContext | None = None,
        connect_seconds: float | None = CONNECT_SECONDS,
        **options: Unpack[WebSocketOptions],
    ) -> None:
        check_seconds("connect_seconds", connect_seconds)
        check_type("ssl", ssl, tls.SSLContext, may_be_none=True)
        check_type("uri", uri, str)
        check_type("headers", headers, Iterable)
        check_type("origin", origin, str, may_be_none=True)
        check_type("subprotocols", subprotocols, list, tuple, may_be_none=True)
        parsed = parse_uri(uri)
        if ssl is not None and not parsed.secure:
            raise ValueError("ssl needs a URI with the scheme wss")
        options["limits"] = limits_of(compression, options.get("limits"), options.get("profile", JSONRPC))
        extensions = [ClientPerMessageDeflateFactory()] if compression else None

        def new_wire(max_bytes: int) -> ClientProtocol:
            return ClientProtocol(
                parsed,
                origin=cast("Any", origin),
                extensions=extensions,
                subprotocols=cast("Any", subprotocols),
                max_size=max_bytes,
            )

        # Pairs, because a field may occur several times (RFC 9110, section 5.3); a list, because each `connect` sends
        # them.
        fields = list(headers.items() if isinstance(headers, Mapping) else headers)
        context = (ssl or tls.create_default_context()) if parsed.secure else None

        async def connect(protocol: asyncio.BufferedProtocol) -> None:
            await open_connection(protocol, parsed.host, parsed.port, context)

        channel = ClientChannel(connect, new_wire, fields, connect_seconds, f"WebSocket to {parsed.host}:{parsed.port}")
        super().__init__(channel, **options)
