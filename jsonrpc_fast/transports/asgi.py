"""WebSocket connections of an ASGI server, such as uvicorn: an application to mount next to others.

Rules:
  - The ASGI server does the handshake, the frames, pings and TLS, and bounds the size of a message before this side
    sees it (`ws_max_size` of uvicorn).
  - Each message is sent as one text frame. A received text or binary message is one JSON text in UTF-8.
  - A connection closes with 1000, and with 1008 after more than `max_faults` invalid messages; when the ASGI server
    stops, it chooses the code. If the peer closes with 1000, 1001 or without a code, the connection is closed without a
    fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from typing import Any, Unpack

from ..errors import ConnectionLost
from ..support import check_items
from ..types import TURN_SECONDS
from .channel import CloseCode, Events, QueuedChannel, fault_of
from .connection import Connection, State
from .protocol import MAX_FAULTS, MessageOptions

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class AsgiChannel(QueuedChannel):
    """A channel of texts: a WebSocket of an ASGI server; `AsgiWebSocket` describes the arguments.

    Attributes:
        close_code: The code with which the peer closed; None before it has closed.
        tasks: The tasks that read and write.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, subprotocol: str | None) -> None:
        super().__init__()
        self.scope: Scope = scope
        self.closing_code: int = CloseCode.NORMAL.value
        self.close_code: int | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self._receive = receive
        self._send = send
        self._subprotocol = subprotocol
        # ASGI servers raise if a handshake is received twice, or accepted or refused twice.
        self._has_received = False
        self._is_handshake_open = True
        self._is_lost = False  # `lost` was reported; the other task may end later, for the same reason

    @property
    def name(self) -> str:
        peer = self.peer
        return "WebSocket" if peer is None else f"WebSocket from {peer[0]}:{peer[1]}"

    @property
    def peer(self) -> Any:
        """The peer's address, as the ASGI server reports it; None if it is not known."""
        client = self.scope.get("client")
        return None if client is None else tuple(client)

    async def open(self, events: Events) -> None:
        await self._receive_handshake()
        if not self._is_handshake_open:
            raise ConnectionLost("the peer closed the connection")
        self._is_handshake_open = False
        try:
            await self._send({"type": "websocket.accept", "subprotocol": self._subprotocol})
        except OSError as fault:
            raise ConnectionLost("the peer closed the connection") from fault
        self._events = events
        loop = asyncio.get_running_loop()
        self.tasks = [loop.create_task(self._read()), loop.create_task(self._write())]

    async def refuse(self) -> None:
        """Refuse the handshake, unless it already has a response."""
        await self._receive_handshake()
        if self._is_handshake_open:
            self._is_handshake_open = False
            await self._send({"type": "websocket.close", "code": CloseCode.POLICY_VIOLATION.value})

    async def _receive_handshake(self) -> None:
        if not self._has_received:
            self._has_received = True
            event = await self._receive()
            self._is_handshake_open = event["type"] == "websocket.connect"

    async def _read(self) -> None:
        """Receive events until the connection is closed. Events of an unknown type are ignored."""
        time = asyncio.get_running_loop().time
        seconds = 0.0  # spent on messages since the loop had its turn: the ASGI server may have more without waiting
        try:
            while True:
                event = await self._receive()
                begun = time()
                if event["type"] == "websocket.disconnect":
                    break
                if event["type"] == "websocket.receive":
                    text = event.get("text")
                    self._events.received((event["bytes"] if text is None else text) or b" ")
                if not self._may_read.is_set():
                    await self._may_read.wait()
                    seconds = 0.0
                    continue
                seconds += time() - begun
                if seconds >= TURN_SECONDS:
                    await asyncio.sleep(0)
                    seconds = 0.0
        except Exception as fault:  # the ASGI server is at fault
            self._lose(ConnectionLost("the connection is closed"), fault)
            return
        self.close_code = code = event.get("code", CloseCode.NO_CODE)
        self._lose(None if self._is_finishing else fault_of(code, event.get("reason")))

    async def _write(self) -> None:
        """Send all queued texts, then close the connection if this side closes."""
        try:
            while True:
                while self._outgoing:
                    text = self._outgoing[0]  # removed when it is sent: until then it is unwritten
                    await self._send({"type": "websocket.send", "text": text.decode()})
                    self._outgoing.popleft()
                    self._unwritten -= len(text)
                    self._events.drained()
                if self._is_finishing:
                    await self._send({"type": "websocket.close", "code": self.closing_code})
                    break
                self._may_write.clear()
                await self._may_write.wait()
        except Exception as fault:  # each ASGI server raises its own exceptions when the peer has disconnected
            self._lose(ConnectionLost("the connection is closed"), fault)
        else:
            self._lose(None)

    def abort(self) -> None:
        # Later, because no event is reported inside `abort` (channel.py).
        if self.tasks:
            asyncio.get_running_loop().call_soon(self._lose, None)

    def _lose(self, fault: Exception | None, cause: Exception | None = None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._outgoing.clear()
        # One of the tasks usually calls this, and ends on its own.
        for task in self.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if fault is not None:
            fault.__cause__ = cause
        self._events.lost(fault)


class AsgiWebSocket(Connection):
    """A connection of an ASGI server, given to `serve` by a `WebSocketEndpoint`.

    Args:
        scope: The connection's scope: its path, headers and whatever the framework adds.
        receive: The ASGI server's function.
        send: The ASGI server's function.
        subprotocol: The subprotocol to accept.
        options: Options of `Connection`.
    """

    channel: AsgiChannel

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, subprotocol: str | None, **options: Unpack[MessageOptions]
    ) -> None:
        options.setdefault("max_faults", MAX_FAULTS)
        super().__init__(AsgiChannel(scope, receive, send, subprotocol), **options)

    @property
    def scope(self) -> Scope:
        """The connection's scope."""
        return self.channel.scope

    @property
    def close_code(self) -> int | None:
        """The close code of the peer; None before it has closed."""
        return self.channel.close_code

    @property
    def peer(self) -> Any:
        """The peer's address, as the ASGI server reports it; None if it is not known."""
        return self.channel.peer

    def finish_channel(self) -> None:
        if self.fault is not None:
            self.channel.closing_code = CloseCode.POLICY_VIOLATION.value
        super().finish_channel()


class WebSocketEndpoint:
    """An ASGI application that serves WebSocket connections.

    Mount it in Starlette with `WebSocketRoute(path, endpoint)` or `Mount(path, endpoint)`, in FastAPI with
    `app.mount(path, endpoint)`, or serve it on its own.

    Args:
        serve: Called with each new connection, a transport that is not started: it sets the callbacks and starts it.
            The connection lasts until both `serve` has returned and the transport is closed. One that `serve` does not
            start is refused.
        origins: The Origin headers that are accepted: strings such as "https://example.org", or compiled patterns. A
            request without an Origin header is always accepted. None: any origin, for applications that identify
            callers in another way.
        subprotocols: The subprotocols that are supported, the preferred ones first.
        options: Options of `Connection`, for each connection.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(
        self,
        serve: Callable[[AsgiWebSocket], Coroutine[Any, Any, object]],
        *,
        origins: Sequence[str | re.Pattern[str]] | None = (),
        subprotocols: Sequence[str] | None = None,
        **options: Unpack[MessageOptions],
    ) -> None:
        check_items("origins", origins, str, re.Pattern)
        check_items("subprotocols", subprotocols, str)
        # A wrong option raises here, not when the first client connects.
        AsgiWebSocket({}, _nothing, _nothing, None, **options)
        self._serve = serve
        self._origins = origins
        self._subprotocols = subprotocols or ()
        self._options = options

    def __repr__(self) -> str:
        return f"<{type(self).__name__} origins={'any' if self._origins is None else self._origins}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or refuse a request that is not for WebSocket (426)."""
        if scope["type"] == "http":
            headers = [(b"upgrade", b"websocket"), (b"connection", b"upgrade"), (b"content-length", b"0")]
            # RFC 9110, section 15.5.22: a 426 has to name the protocol to change to.
            await send({"type": "http.response.start", "status": 426, "headers": headers})
            await send({"type": "http.response.body"})
            return
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send)
            return
        offered = scope.get("subprotocols") or ()
        subprotocol = next((name for name in self._subprotocols if name in offered), None)
        transport = AsgiWebSocket(scope, receive, send, subprotocol, **self._options)
        channel = transport.channel
        if not self._accepts(scope):
            await channel.refuse()
            return
        try:
            await self._serve(transport)
            if transport.state in (State.IDLE, State.CONNECTED):  # `serve` did not start it
                await transport.close()
            await transport.wait_closed()
            await channel.refuse()  # a transport that was closed before it was opened
        except asyncio.CancelledError:  # the server is stopping
            await transport.disconnect()
            raise
        except ConnectionLost:
            await transport.disconnect()
            await channel.refuse()
        except Exception:  # the ASGI server reports it
            await transport.close()
            raise
        finally:
            for task in channel.tasks:
                task.cancel()
            await asyncio.gather(*channel.tasks, return_exceptions=True)

    def _accepts(self, scope: Scope) -> bool:
        if self._origins is None:
            return True
        found = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"origin"]
        return all(
            any(
                origin == accepted if isinstance(accepted, str) else accepted.fullmatch(origin)
                for accepted in self._origins
            )
            for origin in found
        )


async def _nothing(*_: object) -> Any:
    raise NotImplementedError


async def _run_lifespan(receive: Receive, send: Send) -> None:
    """Respond to the lifespan events of a server. Only an application that is not mounted receives them."""
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            event = await receive()
            await send({"type": f"{event['type']}.complete"})
            if event["type"] == "lifespan.shutdown":
                return
