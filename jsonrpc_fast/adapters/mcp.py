"""The stdio transports of the MCP SDK for Python, on this package's codec and transports.

An SDK server or client changes one import:

    from jsonrpc_fast.adapters.mcp import stdio_server                           # was mcp.server.stdio
    from jsonrpc_fast.adapters.mcp import StdioServerParameters, stdio_client    # was mcp.client.stdio

Rules:
  - Signatures and streams are the SDK's: a read stream and a write stream of `SessionMessage`, with real SDK models.
  - A malformed message arrives as an exception on the read stream; the next message is unaffected.
  - The SDK's own function is called with streams of the caller's, with a replaced `sys.stdin` or `sys.stdout`, with an
    encoding other than UTF-8, on an event loop other than asyncio's, and for the client on Windows.
  - The SDK's session drops its unanswered requests at the end of the stream. So it sees the end only after it has
    answered all of them, or half a second after its last answer.

Messages follow the rules of `MCP_2025_11_25`. Like the SDK, the adapter accepts null for absent `params`, null beside a
result or an error, and an empty method. The SDK's models also accept the following messages, and the adapter does not:
the session gets a `ParseError` instead, so a request among them is never answered.

  - a duplicate member; a method beside a result or an error; a result beside an error;
  - a request whose id is null, a boolean, an array, an object, or a number with a fraction or an exponent (the SDK
    treats it as a notification);
  - NaN, Infinity, and numbers beyond the range of a double; bytes that are not UTF-8 (the SDK replaces them);
  - an error whose code is not an integer;
  - a method longer than 1,024 bytes, an id longer than 512, a message larger than 64 MiB (16 MiB with the pure backend;
    see `Limits`).
"""

from __future__ import annotations

import asyncio
import codecs
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, TextIO

import anyio
import anyio.lowlevel
from mcp.client.stdio import StdioServerParameters, get_default_environment
from mcp.client.stdio import stdio_client as _sdk_stdio_client
from mcp.server.stdio import stdio_server as _sdk_stdio_server
from mcp.shared.message import SessionMessage
from pydantic_core import to_jsonable_python
from typing_extensions import Self

from ..codec import Notification, Request, encode_error, encode_notification, encode_request, encode_result
from ..errors import ConnectionLost, EncodeError
from ..profile import MCP_2025_11_25
from ..transports.base import ByteTransport
from ..transports.protocol import Received
from ..transports.stdio.client import StdioClient
from ..transports.stdio.server import StdioServer
from ..types import UNSET

try:
    import mcp_types
except ImportError:  # the SDK before 2.0
    from mcp import types as mcp_types  # type: ignore[no-redef]

__all__ = ["StdioServerParameters", "stdio_client", "stdio_server"]

types: Any = mcp_types

MAX_READ_AHEAD: Final = 256
"""Maximum number of messages that wait for the session; reading pauses at it."""

_ANSWER_SECONDS: Final = 0.5
"""How long after its last answer a session with unanswered requests sees the end of the stream."""

_LINGER_TURNS: Final = 8
"""How many turns of the loop an answer waits for others: some 100 microseconds of an idle loop."""

PROFILE: Final = MCP_2025_11_25.replace(
    name="mcp-sdk", big_ints="exact", null_params=True, null_companions=True, empty_methods=True
)
"""The rules of `MCP_2025_11_25`, and what the SDK tolerates in addition."""

# Before 2.0 the SDK wraps each message in another model.
_wrap: Callable[[Any], Any] | None = types.JSONRPCMessage if isinstance(types.JSONRPCMessage, type) else None


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
    if are_replaced or not _is_on_asyncio():
        async with _sdk_stdio_server(stdin, stdout) as streams:
            yield streams
        return
    async with streams_over(StdioServer(profile=PROFILE)) as streams:
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
        exit_seconds=2.0,
        terminate_seconds=2.0,
        drain_seconds=2.0,
        profile=PROFILE,
    )
    async with streams_over(transport) as streams:
        yield streams


@asynccontextmanager
async def streams_over(transport: ByteTransport) -> AsyncGenerator[tuple[_ReadStream, _WriteStream], None]:
    """Start a transport, yield a session's streams over it, and close it."""
    unanswered = _Unanswered(transport)
    read_stream, write_stream = _ReadStream(transport, unanswered), _WriteStream(transport, unanswered)
    await transport.start()
    try:
        yield read_stream, write_stream
    finally:
        read_stream.close()
        write_stream.close()
        with anyio.CancelScope(shield=True):
            await transport.close()


def _is_replaced(stream: TextIO | None, descriptor: int) -> bool:
    """Return whether a standard stream no longer uses its own descriptor."""
    if stream is (sys.__stdin__, sys.__stdout__)[descriptor]:
        return False  # also None: the process was started without it
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


def to_session_message(received: Received) -> SessionMessage:
    """Return the SDK's message for a decoded one. Raises pydantic's ValidationError, a ValueError."""
    assert not isinstance(received, list)  # the profile has no batches
    message: Any
    if isinstance(received, Request):
        if received.params is None:
            message = types.JSONRPCRequest(jsonrpc="2.0", id=received.id, method=received.method)
        else:
            message = types.JSONRPCRequest(
                jsonrpc="2.0", id=received.id, method=received.method, params=received.params
            )
    elif isinstance(received, Notification):
        if received.params is None:
            message = types.JSONRPCNotification(jsonrpc="2.0", method=received.method)
        else:
            message = types.JSONRPCNotification(jsonrpc="2.0", method=received.method, params=received.params)
    elif received.error is None:
        message = types.JSONRPCResponse(jsonrpc="2.0", id=received.id, result=received.result)
    else:
        error = received.error
        data = {} if error.data is UNSET else {"data": error.data}
        message = types.JSONRPCError(
            jsonrpc="2.0", id=received.id, error=types.ErrorData(code=error.code, message=error.message, **data)
        )
    return SessionMessage(message if _wrap is None else _wrap(message))


def to_line(message: Any) -> bytes:
    """Encode one of the SDK's messages, with its newline."""
    try:
        if not message.model_extra:
            if isinstance(message, types.JSONRPCResponse):
                return encode_result(message.id, message.result, default=to_jsonable_python)
            if isinstance(message, types.JSONRPCRequest):
                return encode_request(message.id, message.method, message.params, default=to_jsonable_python)
            if isinstance(message, types.JSONRPCNotification):
                return encode_notification(message.method, message.params, default=to_jsonable_python)
            error = message.error
            if not error.model_extra:
                data = error.data if "data" in error.model_fields_set else UNSET
                return encode_error(message.id, error.code, error.message, data, default=to_jsonable_python)
    except EncodeError:
        pass  # such as an integer beyond 64 bits, which the SDK can encode
    line: str = message.model_dump_json(by_alias=True, exclude_unset=True)
    return line.encode()


class _Unanswered:
    """The peer's requests that the session has not answered. While there are any, answers are written together.

    The SDK's session needs several turns of the loop for a request, and so answers one request per turn. A separate
    write for each answer would cost as much as the rest of the transport.
    """

    def __init__(self, transport: ByteTransport) -> None:
        self._transport = transport
        self._ids: set[Any] = set()
        self.onanswer: Callable[[], None] | None = None

    def __bool__(self) -> bool:
        return bool(self._ids)

    def add(self, id: Any) -> None:
        self._ids.add(id)
        self._transport.linger_turns = _LINGER_TURNS

    def remove(self, id: Any) -> None:
        self._ids.discard(id)  # a cancelled request may still be answered
        if not self._ids:
            self._transport.linger_turns = 0


class _ReadStream:
    """The session's read stream over a transport: the part of anyio's stream that the SDK uses.

    Delivered messages wait in a queue, from which a busy session receives them without a turn of the loop.
    """

    def __init__(self, transport: ByteTransport, unanswered: _Unanswered) -> None:
        self._transport = transport
        self._unanswered = unanswered
        self._waiting: deque[SessionMessage | Exception] = deque()
        self._receiver: asyncio.Future[None] | None = None
        self._has_ended = False
        self._is_closed = False
        self._received = 0
        self._end_timer: asyncio.TimerHandle | None = None
        transport.onmessage = self._on_message
        transport.onerror = self._put
        transport.onend = self._end_soon
        transport.onclose = self._end

    def _on_message(self, received: Received) -> None:
        if isinstance(received, Request):
            self._unanswered.add(received.id)
        elif isinstance(received, Notification) and received.method == "notifications/cancelled":
            id = received.params.get("requestId") if isinstance(received.params, dict) else None
            if isinstance(id, (str, int)):
                self._unanswered.remove(id)
        try:
            self._put(to_session_message(received))
        except ValueError as fault:  # the SDK's models have more rules
            if isinstance(received, Request):
                self._unanswered.remove(received.id)
            self._put(fault)

    def _put(self, item: SessionMessage | Exception) -> None:
        if self._is_closed:
            return
        self._waiting.append(item)
        if len(self._waiting) == MAX_READ_AHEAD:
            self._transport.pause_reading()
        self._wake()

    def _end_soon(self) -> None:
        """End the stream, but delay that while requests are unanswered: the SDK would drop them."""
        if self._end_timer is not None:
            self._end_timer.cancel()
        if self._unanswered and not self._is_closed:
            self._unanswered.onanswer = self._end_soon
            self._end_timer = asyncio.get_running_loop().call_later(_ANSWER_SECONDS, self._end)
        else:
            self._end()

    def _end(self) -> None:
        if self._end_timer is not None:
            self._end_timer.cancel()
        self._unanswered.onanswer = None
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message or fault. Raises anyio.EndOfStream after the last one."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        waiting = self._waiting
        if not waiting:
            if self._receiver is not None:
                raise anyio.BusyResourceError("receiving from")
            while not waiting:
                if self._has_ended:
                    raise anyio.EndOfStream
                self._receiver = asyncio.get_running_loop().create_future()
                try:
                    await self._receiver
                finally:
                    self._receiver = None
                if self._is_closed:
                    raise anyio.ClosedResourceError
        else:
            # A peer that sends without a pause must not block the loop, nor cancellation.
            self._received += 1
            if self._received % 32 == 0:
                await anyio.lowlevel.checkpoint()
        item = waiting.popleft()
        if len(waiting) == MAX_READ_AHEAD // 2:
            self._transport.resume_reading()
        return item

    def close(self) -> None:
        """Receive nothing more, and drop the messages that wait."""
        self._is_closed = True
        if self._end_timer is not None:
            self._end_timer.cancel()
        self._waiting.clear()
        self._transport.resume_reading()
        self._wake()

    async def aclose(self) -> None:
        self.close()
        await anyio.lowlevel.checkpoint()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _WriteStream:
    """The session's write stream over a transport."""

    def __init__(self, transport: ByteTransport, unanswered: _Unanswered) -> None:
        self._transport = transport
        self._unanswered = unanswered
        self._is_closed = False

    async def send(self, item: SessionMessage) -> None:
        """Send a message, and wait while the write buffer is full."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        message: Any = item.message if _wrap is None else item.message.root  # type: ignore[union-attr]
        line = to_line(message)
        is_answer = isinstance(message, types.JSONRPCResponse | types.JSONRPCError)
        if is_answer:
            self._unanswered.remove(message.id)
        try:
            self._transport.send(line)
            if is_answer and self._unanswered.onanswer is not None:
                self._unanswered.onanswer()
            await self._transport.drain()
        except ConnectionLost as fault:
            raise anyio.BrokenResourceError from fault

    def close(self) -> None:
        self._is_closed = True

    async def aclose(self) -> None:
        self.close()
        await anyio.lowlevel.checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
