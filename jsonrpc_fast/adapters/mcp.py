"""The stdio transports of the MCP SDK for Python, on this package's codec and transports.

An SDK server or client changes one import:

    from jsonrpc_fast.adapters.mcp import stdio_server                           # was mcp.server.stdio
    from jsonrpc_fast.adapters.mcp import StdioServerParameters, stdio_client    # was mcp.client.stdio

`install` replaces the SDK's functions for code that imports them itself, such as `MCPServer.run` and fastmcp.

Rules:
  - Signatures and streams are the SDK's: a read stream, on which a malformed message arrives as an exception, and a
    write stream of `SessionMessage`, with real SDK models.
  - The SDK's own function is called with the caller's own streams, with a replaced `sys.stdin` or `sys.stdout`, with an
    encoding other than UTF-8, on an event loop other than asyncio's, and for the client on Windows.
  - The SDK's session drops its pending requests at the end of the stream. So it sees the end only after it has
    responded to all of them, or half a second after its last response.
  - The SDK's models read what the rules of `MCP_2025_11_25` refuse, as in the SDK: duplicate members, NaN, ids with a
    fraction. A message that the models refuse too, or that is larger than `Limits.message_bytes`, arrives as a
    `ParseError`.
"""

from __future__ import annotations

import asyncio
import codecs
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TextIO

try:
    import anyio
    import anyio.lowlevel
    from anyio.abc import ObjectReceiveStream, ObjectSendStream
    from mcp import types as _types
    from mcp.client.stdio import StdioServerParameters, get_default_environment
    from mcp.client.stdio import stdio_client as _sdk_stdio_client
    from mcp.server.stdio import stdio_server as _sdk_stdio_server
    from mcp.shared.message import SessionMessage
except ModuleNotFoundError as _missing:
    raise ImportError('this adapter needs the MCP SDK for Python: pip install "mcp>=2"') from _missing

from ..codec import (
    Notification,
    ParseError,
    Request,
    Response,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from ..errors import ConnectionLost
from ..profile import MCP_2025_11_25
from ..support import Waiters
from ..transports import Connection, StdioClient, StdioServer
from ..types import UNSET
from . import replace

__all__ = ["StdioServerParameters", "install", "stdio_client", "stdio_server"]

types: Any = _types  # not mcp_types, which stays installed after a downgrade to an SDK before 2.0

MAX_READ_AHEAD: Final = 256
"""Maximum number of messages that wait for the session; reading pauses at it."""


PROFILE: Final = MCP_2025_11_25.replace(name="mcp-sdk", null_members=True, empty_methods=True)
"""The rules of `MCP_2025_11_25`, relaxed as in the SDK."""

_IS_WRAPPED: Final = isinstance(types.JSONRPCMessage, type)
"""Whether each message is wrapped in another model, as before 2.0 of the SDK."""

_validate: Final[Callable[[str], Any]] = (
    types.JSONRPCMessage.model_validate_json
    if _IS_WRAPPED
    else partial(types.jsonrpc_message_adapter.validate_json, by_name=False)
)
"""How the SDK reads a line."""

_sdk_servers: Final[list[None]] = []
"""One item for each running server of the SDK that uses a standard stream: the SDK refuses a second server."""


def read(data: bytes, errors: str = "strict") -> SessionMessage | Exception:
    """Return the SDK's message for a line, or why it is none; `errors` as the SDK decodes: servers with "replace"."""
    # The codec reads usual messages. The SDK's models read the messages that it refuses, so that the same messages are
    # accepted as in the SDK.
    received: Any = decode(data, PROFILE)
    try:
        if isinstance(received, (Request, Notification, Response)):
            return to_session_message(received)
        return SessionMessage(_validate(data.decode("utf-8", errors)))
    except ValueError as fault:  # the models have more rules
        return received if isinstance(received, ParseError) else fault  # pydantic's text contains the input


OPTIONS: Final[dict[str, Any]] = {"profile": PROFILE, "decode": read}
"""The options of a transport for `streams_over`."""


def install() -> None:
    """Replace the SDK's `stdio_server` and `stdio_client` in this process.

    Modules that have imported the functions already, and those that will, use the adapter. So do fastmcp, and the
    `MCPServer`, `FastMCP` and `Client` of the SDK.
    """
    replace((_sdk_stdio_server, stdio_server), (_sdk_stdio_client, stdio_client))


@asynccontextmanager
async def stdio_server(
    stdin: anyio.AsyncFile[str] | None = None, stdout: anyio.AsyncFile[str] | None = None
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Serve MCP over this process's stdin and stdout, like `mcp.server.stdio.stdio_server`.

    Inside the `async with` block, `print` writes to stderr.

    Args:
        stdin: An anyio text file to read instead of `sys.stdin`.
        stdout: An anyio text file to write instead of `sys.stdout`.

    Yields:
        The session's read stream and write stream.

    Raises:
        ConnectionLost: The process was started without stdin or stdout.
        StateError: Another transport uses them already.
    """
    are_replaced = stdin is not None or stdout is not None or _is_replaced(sys.stdin, 0) or _is_replaced(sys.stdout, 1)
    if are_replaced or _sdk_servers or not _is_on_asyncio():
        has_standard_stream = stdin is None or stdout is None
        # While the SDK's own server uses a standard stream, a second server must get the SDK's refusal.
        _sdk_servers.extend([None] * has_standard_stream)
        try:
            async with _sdk_stdio_server(stdin, stdout) as streams:
                yield streams
        finally:
            del _sdk_servers[:has_standard_stream]
        return
    transport = StdioServer(profile=PROFILE, decode=partial(read, errors="replace"))
    async with streams_over(transport) as streams:
        yield streams


@asynccontextmanager
async def stdio_client(
    server: StdioServerParameters, errlog: TextIO = sys.stderr
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Run an MCP server as a child process and connect to it, like `mcp.client.stdio.stdio_client`.

    At the end of the `async with` block the child's stdin is closed. A child that does not exit is terminated after 2
    seconds and killed after 2 more.

    Args:
        server: The program. Its `env` is merged into the SDK's `get_default_environment()`.
        errlog: An open file with a descriptor, for the child's stderr.

    Yields:
        The session's read stream and write stream.

    Raises:
        OSError: The program cannot be started.
    """
    is_utf8 = codecs.lookup(server.encoding).name == "utf-8" and server.encoding_error_handler == "strict"
    if not is_utf8 or not _is_on_asyncio() or sys.platform == "win32":
        async with _sdk_stdio_client(server, errlog) as streams:
            yield streams
        return
    transport = StdioClient(
        [server.command, *server.args],
        env=get_default_environment() | (server.env or {}),
        cwd=server.cwd,
        stderr=errlog,
        drain_seconds=2.0,
        **OPTIONS,
    )
    async with streams_over(transport) as streams:
        yield streams


@asynccontextmanager
async def streams_over(transport: Connection) -> AsyncGenerator[tuple[_ReadStream, _WriteStream], None]:
    """Start a transport with `OPTIONS`, yield a session's streams over it, and close it."""
    read_stream = _ReadStream(transport)
    write_stream = _WriteStream(transport, read_stream)
    await transport.start()
    try:
        yield read_stream, write_stream
    finally:
        read_stream.close()
        write_stream.close()
        # The block may end by a cancellation, and the transport still has to close in order.
        with anyio.CancelScope(shield=True):
            await transport.close()


def _is_replaced(stream: TextIO | None, descriptor: int) -> bool:
    """Return whether a standard stream no longer uses its own descriptor."""
    if stream is (sys.__stdin__, sys.__stdout__)[descriptor]:
        return False  # or None: the process was started without it
    try:
        return stream is None or stream.buffer.fileno() != descriptor
    except (AttributeError, OSError, ValueError):
        return True


def _is_on_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # trio's
        return False
    return True


def to_session_message(received: Request | Notification | Response) -> SessionMessage:
    """Return the SDK's message for a decoded one. Raises pydantic's ValidationError, a ValueError."""
    model: Any
    if type(received) is Response:
        model = types.JSONRPCResponse if received.error is None else types.JSONRPCError
    else:
        model = types.JSONRPCRequest if type(received) is Request else types.JSONRPCNotification
    # The validator itself: `model_validate` takes twice as long.
    message = model.__pydantic_validator__.validate_python(received.to_dict())
    return SessionMessage(types.JSONRPCMessage(message) if _IS_WRAPPED else message)


def _inner(item: SessionMessage) -> Any:
    """Return the model of a request, a notification or a response."""
    return item.message.root if _IS_WRAPPED else item.message  # type: ignore[union-attr]


def to_line(message: Any) -> bytes:
    """Encode one of the SDK's messages, with its newline."""
    try:
        if not message.model_extra:
            if isinstance(message, types.JSONRPCResponse):
                return encode_result(message.id, message.result)
            if isinstance(message, types.JSONRPCRequest):
                return encode_request(message.id, message.method, message.params)
            if isinstance(message, types.JSONRPCNotification):
                return encode_notification(message.method, message.params)
            error = message.error
            if not error.model_extra:
                data = error.data if "data" in error.model_fields_set else UNSET
                return encode_error(message.id, error.code, error.message, data)
    except (TypeError, ValueError):
        pass  # for example a model in a payload, an integer beyond 64 bits, or a long id
    line: str = message.model_dump_json(by_alias=True, exclude_none=_IS_WRAPPED, exclude_unset=not _IS_WRAPPED)
    return line.encode()


class _ReadStream(ObjectReceiveStream[SessionMessage | Exception]):
    """The session's read stream over a transport.

    Delivered messages wait in a queue, from which a busy session receives them without a turn of the loop.

    While the peer has requests without a response, responses are written together. The SDK's session needs several
    turns of the loop for a request, and so sends one response per turn. A separate write for each response would cost
    as much as the rest of the transport.
    """

    def __init__(self, transport: Connection) -> None:
        self._transport = transport
        self._open_requests: set[Any] = set()  # the ids of the peer's requests without a response
        self._is_ending = False
        self._waiting: deque[SessionMessage | Exception] = deque()
        self._receiver = Waiters()
        self._has_ended = False
        self._is_closed = False
        self._received = 0
        self._end_timer: asyncio.TimerHandle | None = None
        transport.onmessage = self._on_message
        transport.onerror = self._put
        transport.onend = self._end_soon
        transport.onclose = self._end

    def _on_message(self, received: Any) -> None:
        if isinstance(received, SessionMessage):
            message: Any = _inner(received)
            if isinstance(message, types.JSONRPCRequest):
                self._open_requests.add(message.id)
                # The transport waits for this many turns, some 100 microseconds of an idle loop, before it writes:
                # several responses take one system call.
                self._transport.linger_turns = 8
            elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
                id = (message.params or {}).get("requestId")
                # The SDK sends no response to a cancelled request, so it must not hold back the end of the stream.
                if type(id) is str or type(id) is int:  # True is equal to 1
                    self.settle(id)
        self._put(received)

    def settle(self, id: Any) -> None:
        """Record that a request gets its response now, or none."""
        self._open_requests.discard(id)  # a cancelled request may still get a response
        if not self._open_requests:
            self._transport.linger_turns = 0
        if self._is_ending:
            self._end_soon()  # restarts the timer

    def _put(self, item: SessionMessage | Exception) -> None:
        if self._is_closed:
            return
        self._waiting.append(item)
        if len(self._waiting) == MAX_READ_AHEAD:
            self._transport.pause_reading()
        self._receiver.wake()

    def _end_soon(self) -> None:
        """End the stream, but only when no request is pending: the SDK would drop it."""
        if self._end_timer is not None:
            self._end_timer.cancel()
        # The end of the stream is delayed only while responses still come.
        if self._open_requests and not self._is_closed:
            self._is_ending = True
            # How long after its last response a session with pending requests sees the end of the stream.
            self._end_timer = asyncio.get_running_loop().call_later(0.5, self._end)
        else:
            self._end()

    def _end(self) -> None:
        if self._end_timer is not None:
            self._end_timer.cancel()
        self._is_ending = False
        self._has_ended = True
        self._receiver.wake()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message or fault. Raises anyio.EndOfStream after the last one."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        waiting = self._waiting
        if not waiting:
            if self._receiver:
                # Like anyio's streams: two tasks must not receive from one stream.
                raise anyio.BusyResourceError("receiving from")
            while not waiting:
                if self._has_ended:
                    raise anyio.EndOfStream
                await self._receiver.wait()
                if self._is_closed:
                    raise anyio.ClosedResourceError
        else:
            # A peer that sends without a pause must block neither the loop nor cancellation.
            self._received += 1
            if self._received % 32 == 0:
                await anyio.lowlevel.checkpoint()
        item = waiting.popleft()
        if len(waiting) == MAX_READ_AHEAD // 2:
            self._transport.resume_reading()
        return item

    def close(self) -> None:
        """Stop receiving, and drop the messages that wait."""
        self._is_closed = True
        if self._end_timer is not None:
            self._end_timer.cancel()
        self._waiting.clear()
        self._transport.resume_reading()
        self._receiver.wake()

    async def aclose(self) -> None:
        self.close()
        await anyio.lowlevel.checkpoint()


class _WriteStream(ObjectSendStream[SessionMessage]):
    """The session's write stream over a transport."""

    def __init__(self, transport: Connection, read_stream: _ReadStream) -> None:
        self._transport = transport
        self._read_stream = read_stream
        self._is_closed = False

    async def send(self, item: SessionMessage) -> None:
        """Send a message, and wait while the write buffer is full."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        message = _inner(item)
        line = to_line(message)
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._read_stream.settle(message.id)
        try:
            self._transport.send(line)
            await self._transport.drain()
        except ConnectionLost as fault:
            raise anyio.BrokenResourceError from fault

    def close(self) -> None:
        self._is_closed = True

    async def aclose(self) -> None:
        self.close()
        await anyio.lowlevel.checkpoint()
