"""A connection to a WebSocket server."""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.protocol import State as WireState
from websockets.uri import parse_uri

from ..._checks import check_seconds, check_type
from ...errors import ConnectionLost
from ...profile import JSONRPC
from ..base import State
from ..stream.client import CONNECT_SECONDS, check_context, open_connection, within
from .transport import WebSocketOptions, WebSocketTransport, limits_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
        options: Options of `WebSocketTransport`, `SocketTransport` and `BaseTransport`.

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
        check_context(ssl)
        check_type("uri", uri, str)
        check_type("headers", headers, Iterable)
        check_type("origin", origin, str, may_be_none=True)
        check_type("subprotocols", subprotocols, list, tuple, may_be_none=True)
        self._uri = parse_uri(uri)
        if ssl is not None and not self._uri.secure:
            raise ValueError("ssl needs a URI with the scheme wss")
        self._ssl = ssl
        self._origin = origin
        self._subprotocols = subprotocols
        self._extensions = [ClientPerMessageDeflateFactory()] if compression else None
        self._headers = headers
        self._connect_seconds = connect_seconds
        self._handshake: asyncio.Future[None] | None = None
        self._lost: asyncio.Future[None] | None = None  # done when the latest channel is closed
        options["limits"] = limits_of(compression, options.get("limits"), options.get("profile", JSONRPC))
        super().__init__(**options)

    def channel_name(self) -> str:
        return f"WebSocket to {self._uri.host}:{self._uri.port}"

    def _new_wire(self) -> ClientProtocol:
        return ClientProtocol(
            self._uri,
            origin=cast("Any", self._origin),
            extensions=self._extensions,
            subprotocols=cast("Any", self._subprotocols),
            max_size=self.profile.limits.message_bytes,
        )

    async def open_channel(self) -> None:
        await within(self._connect_seconds, self._open())

    async def _open(self) -> None:
        if self._lost is not None:
            await self._lost  # its end would be taken for that of the new channel
        wire = self._wire = self._new_wire()
        self._handshake = None
        self._is_channel_lost = self._is_head_read = self._awaits_close = False
        self._clear_unread()
        context = (self._ssl or tls.create_default_context()) if self._uri.secure else None
        await open_connection(self._loop, self, self._uri.host, self._uri.port, context)
        self._handshake = self._loop.create_future()
        if self._is_channel_lost:
            self._end_handshake(None)
        try:
            request = wire.connect()
            for name, value in self._headers.items() if isinstance(self._headers, Mapping) else self._headers:
                request.headers[name] = value
            wire.send_request(request)
            self._write_wire()
            await self._handshake
        except BaseException:
            self.abort_channel()
            raise

    def _handshake_received(self, data: bytes) -> None:
        assert self._handshake is not None
        self._wire.receive_data(data)
        for _ in self._wire.events_received():
            if self._handshake.done():
                return
            if self._wire.state is WireState.OPEN:
                self._begin_frames()
                self._handshake.set_result(None)
            else:
                self._end_handshake(self._wire.handshake_exc)

    def _end_handshake(self, fault: Exception | None) -> None:
        if self._handshake is not None and not self._handshake.done():
            error = fault or ConnectionLost("the server ended the connection during the handshake")
            self._handshake.set_exception(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._lost = self._loop.create_future()
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        assert self._lost is not None
        self._lost.set_result(None)
        if self._is_open or self._state not in (State.IDLE, State.CONNECTING):
            super().connection_lost(exc)
        else:
            self._is_channel_lost = True
            self._end_handshake(exc)
