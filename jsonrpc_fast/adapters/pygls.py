"""The servers and clients of pygls 2, on this package's codec and transports. Needs pygls.

A program changes one import:

    from jsonrpc_fast.adapters.pygls import LanguageServer    # was pygls.lsp.server
    from jsonrpc_fast.adapters.pygls import LanguageClient    # was pygls.lsp.client

Or it calls `install` before it imports them from pygls; `jsonrpc-fast run` does that for an unchanged program.

Rules:
  - The classes are subclasses of pygls' own with the same methods. A user's own protocol class is kept.
  - Each message is written before the handler continues, and any thread may send, as in pygls.
  - Pygls' own reader is used in WebAssembly, and for streams without a descriptor.
  - A call ends with an exception when its request cannot be encoded, its response cannot be structured, or the
    connection is lost.
  - An error response without an id ends the only call in flight. A content type is not read, so that a body may have
    any charset that JSON may have.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache, partial
from typing import TYPE_CHECKING, Any, BinaryIO

from ..codec import ParseError
from ..codes import ParseErrorCode
from ..errors import ConnectionLost
from . import replace
from .json import to_bytes

if TYPE_CHECKING:
    from ..transports import Connection, TcpServer

try:
    import pygls.client
    import pygls.lsp.client
    import pygls.lsp.server
    import pygls.server
    from pygls import IS_WASM
    from pygls.exceptions import FeatureRequestError, JsonRpcException, JsonRpcInternalError, JsonRpcRequestCancelled
    from pygls.protocol import JsonRPCProtocol
    from pygls.protocol.json_rpc import RPCRequest, RPCResponse
except ImportError as _missing:
    raise ImportError('this adapter needs pygls 2: pip install "pygls>=2"') from _missing

__all__ = ["JsonRPCClient", "JsonRPCServer", "LanguageClient", "LanguageServer", "install"]

_log = logging.getLogger("pygls.protocol.json_rpc")


class _FastProtocol(JsonRPCProtocol):
    """A mixin for pygls' protocol classes: it encodes with orjson, and accepts messages of this package."""

    _connected: Any = None  # the writer of a connection

    def adopt(self, writer: Any) -> None:
        """Use the writer of a connection for all further messages."""
        self._connected = writer
        self.set_writer(writer)

    def withdraw(self, id: Any) -> None:
        """Handle a request that was cancelled before its handler was called: LSP requires a response in any case."""
        self._send_response(id, error=JsonRpcRequestCancelled().to_response_error())

    def refuse(self, text: bytes | bytearray, fault: ParseError) -> None:
        """Handle a text that the profile refuses."""
        message = _as_pygls_reads(text)
        if message is None:
            self.lose(fault)
        else:
            self.receive(message)

    def receive(self, message: dict[str, Any]) -> None:
        """Handle a message from the peer."""
        try:
            if "method" in message:
                if self.get_message_type(message["method"]) is None:
                    message.setdefault("params", None)  # pygls' own classes require it
            elif "error" in message and message.get("id") is None:
                # An error without an id would leave its call waiting forever. With several calls in flight it is not
                # certain which one is meant.
                message["id"] = self._only_call()
            structured = self.structure_message(message)
        except Exception as error:
            self._reject(message, error)
        else:
            self.handle_message(structured)

    def _reject(self, message: dict[str, Any], error: Exception) -> None:
        """Handle a message that cannot be structured."""
        source: Any = JsonRpcException
        id: Any = message.get("id")
        if isinstance(id, (int, str)):
            if "method" in message:
                known = error if isinstance(error, JsonRpcException) else JsonRpcInternalError(str(error))
                self._send_response(id, error=known.to_response_error())
                source = FeatureRequestError
            else:
                self._end_call(id, error)
        self._server._report_server_error(error, source)

    def lose(self, fault: Exception) -> None:
        """Handle an invalid message, or the loss of the connection."""
        _log.error("Unable to handle message: %s", fault)
        if isinstance(fault, ParseError):
            if not fault.reply_expected:
                for id in fault.settles:
                    self._end_call(id, fault)
            # After either of these the stream ends, so no response can be read.
            elif fault.code not in (ParseErrorCode.INVALID_FRAMING, ParseErrorCode.TRUNCATED):
                self._send_data(fault.to_response().to_dict())
        if not isinstance(fault, OSError):
            self._server._report_server_error(fault, JsonRpcException)

    def abandon(self) -> None:
        """End the calls to a peer that is lost."""
        for id in list(self._result_types):
            self._end_call(id, ConnectionLost("the connection is closed"))

    def _only_call(self) -> Any:
        """Return the id of the call in flight if there is exactly one; otherwise None."""
        ids = [id for id in self._result_types if id in self._request_futures]
        return ids[0] if len(ids) == 1 else None

    def _end_call(self, id: Any, error: Exception) -> None:
        self._result_types.pop(id, None)
        # The program may have cancelled it.
        future = self._request_futures.pop(id, None)
        if isinstance(future, Future) and not future.done():
            future.set_exception(error)

    def _send_data(self, data: Any) -> None:
        # A writer that the program has set itself, or none: pygls' own way.
        if not data or self.writer is not self._connected:
            super()._send_data(data)
            return
        try:
            text = self._encode(data)
            if _log.isEnabledFor(logging.INFO):
                _log.info("Sending data: %s", text.decode())
            self.writer.write(text)
        except Exception as error:
            _log.exception("Error sending data", exc_info=True)
            self._server._report_server_error(error, JsonRpcInternalError)
            if isinstance(data, RPCRequest):
                self._end_call(data.id, error)
            elif isinstance(data, RPCResponse):
                # The client waits for a response, so it gets an error in place of the result.
                known = JsonRpcInternalError(f"the result cannot be sent: {error}")
                self._send_response(data.id, error=known.to_response_error())

    def _encode(self, data: Any) -> bytes:
        text = to_bytes(data if isinstance(data, dict) else self._serialize_message(data))
        return json.dumps(data, default=self._serialize_message).encode() if text is None else text


@cache
def _fast(protocol: Any) -> Any:
    """Return a protocol class with this module's methods. pygls itself refuses anything but a class."""
    if issubclass(protocol, _FastProtocol) or not issubclass(protocol, JsonRPCProtocol):
        return protocol
    # A subclass of the user's class, so that `isinstance` and the user's methods keep working.
    return type(protocol.__name__, (_FastProtocol, protocol), {})


class JsonRPCServer(pygls.server.JsonRPCServer):
    """`pygls.server.JsonRPCServer` on this package's transports."""

    def __init__(self, protocol_cls: type[JsonRPCProtocol], *args: Any, **options: Any) -> None:
        kind: Any = protocol_cls
        super().__init__(_fast(kind), *args, **options)
        self._end: Callable[[], object] | None = None

    def start_io(self, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
        """Serve over stdin and stdout, or over the given streams, until the client closes them."""
        from . import pygls_connections as connections

        input = _descriptor(stdin or getattr(sys.stdin, "buffer", None))
        output = _descriptor(stdout or getattr(sys.stdout, "buffer", None))
        if IS_WASM or input is None or output is None:
            super().start_io(stdin, stdout)
            return
        transport: Connection
        if (stdin, stdout) == (None, None) and (input, output) == (0, 1):
            transport = connections.stdio_server()
        else:
            # Text that Python has buffered must not be written in the middle of a message.
            (stdout or sys.stdout).flush()
            transport = connections.pipes(input, output)
        self._stop_event = threading.Event()
        try:
            asyncio.run(self._serve_one(transport, stdout))
        except (KeyboardInterrupt, SystemExit):
            pass  # like pygls
        finally:
            self.shutdown()

    def start_tcp(self, host: str, port: int) -> None:
        """Serve over TCP until a client disconnects."""
        self._run_server("tcp", host, port)

    def start_ws(self, host: str, port: int) -> None:
        """Serve over WebSocket until a client disconnects. Needs the extra `websocket`."""
        self._run_server("ws", host, port)

    def shutdown(self) -> None:
        """Stop serving; any thread may call this."""
        self._server = None  # pygls closes it at once, but only the thread of its loop may do that: see `_listen`
        super().shutdown()  # type: ignore[no-untyped-call]
        end, self._end = self._end, None
        if end is not None:
            end()

    def _run_server(self, kind: str, host: str, port: int) -> None:
        from .pygls_connections import server

        self._stop_event = threading.Event()
        asyncio.run(self._listen(server(kind, self._serve_one, host, port)))

    async def _listen(self, server: TcpServer) -> None:
        loop = asyncio.get_running_loop()
        is_stopped = asyncio.Event()
        self._end = partial(_call_in, loop, is_stopped.set)
        await server.start()
        self._server = server._server
        await is_stopped.wait()
        await server.close()

    async def _serve_one(self, transport: Connection, output: BinaryIO | None = None) -> None:
        """Serve a connection until it is closed. The server ends with it, as in pygls."""
        assert self._stop_event is not None
        if self._end is None:  # stdio
            self._end = partial(_call_in, asyncio.get_running_loop(), transport.begin_closing, 5.0)
        from .pygls_connections import attach

        protocol: Any = self.protocol
        await attach(protocol, transport, self._stop_event, output)
        await transport.wait_closed()
        self.shutdown()


class LanguageServer(pygls.lsp.server.LanguageServer, JsonRPCServer):
    """`pygls.lsp.server.LanguageServer` on this package's transports."""


class JsonRPCClient(pygls.client.JsonRPCClient):
    """`pygls.client.JsonRPCClient` on this package's transports."""

    def __init__(self, protocol_cls: type[JsonRPCProtocol] = JsonRPCProtocol, *args: Any, **options: Any) -> None:
        kind: Any = protocol_cls
        super().__init__(_fast(kind), *args, **options)
        self._transport: Connection | None = None

    async def start_io(self, cmd: str, *args: str, **kwargs: Any) -> None:
        """Start a server as a child process, and connect to its stdin and stdout."""
        from . import pygls_connections as connections

        pipes = [*os.pipe(), *os.pipe()]
        child_input, output, input, child_output = pipes
        try:
            self._server = await asyncio.create_subprocess_exec(
                cmd, *args, stdin=child_input, stdout=child_output, stderr=asyncio.subprocess.PIPE, **kwargs
            )
            transport = connections.pipes(input, output)
        finally:
            # The child has its own copies, and the channel as well. An open copy here would hide the end of the stream.
            for descriptor in pipes:
                os.close(descriptor)
        await self._start(transport, ends_calls=False)  # pygls ends them when the process has ended
        ended: Any = self._server_exit()  # type: ignore[no-untyped-call]
        self._async_tasks.append(asyncio.create_task(ended))

    async def start_tcp(self, host: str, port: int) -> None:
        """Connect to a server over TCP."""
        await self._connect("tcp", host, port)

    async def start_ws(self, host: str, port: int) -> None:
        """Connect to a server over WebSocket. Needs the extra `websocket`."""
        await self._connect("ws", host, port)

    async def stop(self) -> None:
        """Wait until the server's process has ended, and close the connection."""
        self._stop_event.set()
        if self._server is not None:
            await self._server.wait()
        if self._transport is not None:
            await self._transport.close()
        await super().stop()  # type: ignore[no-untyped-call]

    async def _connect(self, kind: str, host: str, port: int) -> None:
        from .pygls_connections import client

        await self._start(client(kind, host, port))

    async def _start(self, transport: Connection, ends_calls: bool = True) -> None:
        from .pygls_connections import attach

        protocol: Any = self.protocol
        await attach(protocol, transport, self._stop_event, ends_calls=ends_calls)
        self._transport = transport
        self._async_tasks.append(asyncio.create_task(transport.wait_closed()))


class LanguageClient(pygls.lsp.client.LanguageClient, JsonRPCClient):
    """`pygls.lsp.client.LanguageClient` on this package's transports."""


def install() -> None:
    """Replace pygls' classes in this process. Call it before the program makes subclasses of them."""
    replace(
        (pygls.server.JsonRPCServer, JsonRPCServer),
        (pygls.client.JsonRPCClient, JsonRPCClient),
        (pygls.lsp.server.LanguageServer, LanguageServer),
        (pygls.lsp.client.LanguageClient, LanguageClient),
    )


def _as_pygls_reads(text: bytes | bytearray) -> dict[str, Any] | None:
    """Return the message in a JSON text; None if pygls would not handle it."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and message.get("jsonrpc") == "2.0" else None


def _descriptor(stream: Any) -> int | None:
    """Return the descriptor of a binary stream, None if it has none."""
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: Any) -> None:
    """Call a function on a loop, unless the loop is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *args)
