"""The connections of the adapter for pygls. They are loaded when a server or a client starts, not with its classes."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, BinaryIO, Final, NamedTuple

from ..codec import Notification, ParseError, Request, Response, decode
from ..errors import ConnectionLost
from ..profile import LSP
from ..session import LspConvention, Withdrawn, look_ahead
from ..transports import Connection, PipeChannel, StdioServer, StreamTransport, TcpClient, TcpServer

PROFILE: Final = LSP.replace(name="pygls", null_members=True)
"""The rules of `LSP`, relaxed as in pygls."""


class Refused(NamedTuple):
    """A JSON text that the profile refuses."""

    text: bytes | bytearray
    fault: ParseError


def read(text: bytes | bytearray) -> Request | Notification | Response | Refused:
    """Return the message in a JSON text, or the text itself if the profile refuses it."""
    received: Any = decode(text, PROFILE)
    return Refused(text, received) if type(received) is ParseError else received


_MESSAGES: Final[dict[str, Any]] = {"profile": PROFILE, "decode": read}
_OPTIONS: Final[dict[str, Any]] = {"framing": "content-length", **_MESSAGES}
_HEAD: Final = re.compile(
    rb"Content-Length: ([1-9][0-9]{0,14})\r\n"
    rb"(?:Content-Type: application/vscode-jsonrpc(?:; ?charset=utf-?8)?\r\n)?\r\n"
)
"""A usual head. Other heads are rewritten without the content type: pygls reads a body of any charset as JSON."""
_LENGTH: Final = re.compile(rb"Content-Length:[ \t]*([0-9]{1,15})[ \t]*\r?\n", re.IGNORECASE)
_TYPE: Final = re.compile(rb"Content-Type:", re.IGNORECASE)
_LINE_BYTES: Final = 200
"""A longer line is skipped, except its end, which may contain a header."""
_log = logging.getLogger("pygls.protocol.json_rpc")


class MessageWriter:
    """Takes the place of pygls' writers. `write` takes the text of one message, from any thread."""

    def __init__(self, transport: Connection, output: BinaryIO | None) -> None:
        self._transport = transport
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def write(self, data: bytes) -> None:
        if threading.get_ident() == self._thread:
            self._write(data)
        else:
            # The transport belongs to the thread of the loop; pygls lets any thread send.
            self._loop.call_soon_threadsafe(self._write, data)

    def _write(self, data: bytes) -> None:
        try:
            self._transport.send(data)
        except ConnectionLost as fault:
            _log.error("Error sending data: %s", fault)
        else:
            self._transport.flush()  # the handler may run for long

    async def close(self) -> None:
        """Write the rest, and close. pygls ends the process afterwards."""
        await self._transport.close()
        if self._output is not None:
            self._output.close()


class Frames:
    """Passes the frames of a stream on without their content types, as pygls reads them."""

    def __init__(self, receive: Callable[[bytes | bytearray | memoryview], None], *, skips_text: bool) -> None:
        self._receive = receive
        self._skips_text = skips_text  # other lines between frames; if not, they are passed on, as faults
        self._left = 0  # bytes of a body that have not arrived
        self._is_in_head = False
        self._text = b""  # the beginning of a line that has not arrived completely
        self._size = 0  # the size of the body, after its header was read
        self._has_logged = False  # once for each piece of text, which may have any number of lines

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        if not data:  # the end
            if self._text and not self._skips_text:
                self._receive(self._text)
            self._receive(data)
        while len(data):
            data = self._read_lines(data) if self._is_in_head else self._pass_frames(data)

    def _pass_frames(self, data: bytes | bytearray | memoryview) -> bytes:
        """Pass frames with a usual head on. Return the rest."""
        at = self._left
        # Fast path: whole frames with a usual head are passed on in one piece, without a copy.
        while at < len(data) and (head := _HEAD.match(data, at)) is not None:
            at = head.end() + int(head[1])
        # The last body may continue in the next chunk: only its length is known.
        self._left = max(0, at - len(data))
        if at:
            self._receive(data[:at])
        rest = bytes(data[at:])
        self._is_in_head = bool(rest)
        return rest

    def _read_lines(self, data: bytes | bytearray | memoryview) -> bytes:
        """Read lines up to the end of a head, and pass that on. Return the rest."""
        text = self._text + data
        at = 0
        while (end := text.find(b"\n", at)) >= 0:
            line = text[at : end + 1]
            at = end + 1
            if not self._skips_text and _TYPE.match(line) is None:
                self._receive(line)
            # `search`, because a program may have printed text in front of the header, on the same line.
            header = None if self._size else _LENGTH.search(line)
            if header is not None:
                self._size = int(header[1])
                self._log_skipped(line[: header.start()])
            elif self._size == 0:
                self._log_skipped(line)
            # A blank line ends the head. Without a length before it, it is text.
            elif not line.strip():
                if self._skips_text:
                    self._receive(b"Content-Length: %d\r\n\r\n" % self._size)
                self._left, self._size, self._text = self._size, 0, b""
                self._is_in_head = self._has_logged = False
                return text[at:]
        self._text = text[at:]
        if not self._skips_text:
            if len(self._text) > 8192:
                self._receive(self._text)  # larger than the headers may be: a fault, which ends the stream
                self._text = b""
        elif len(self._text) > _LINE_BYTES:
            self._log_skipped(self._text)
            # Bounded, but long enough for the part of a header at its end.
            self._text = self._text[-_LINE_BYTES:]
        return b""

    def _log_skipped(self, data: bytes) -> None:
        if self._skips_text and data.strip() and not self._has_logged and _TYPE.match(data) is None:
            _log.warning("Skipped text between messages: %r", data[:200])
            self._has_logged = True


def stdio_server() -> Connection:
    """Return the connection over stdin and stdout of this process."""
    return StdioServer(**_OPTIONS)


def pipes(input: int, output: int) -> Connection:
    """Return a connection over two descriptors."""
    return Connection(PipeChannel(input, output), **_OPTIONS)


def server(kind: str, serve: Callable[[Any], Coroutine[Any, Any, object]], host: str, port: int) -> TcpServer:
    """Return a server of connections over TCP ("tcp") or WebSocket ("ws")."""
    if kind == "tcp":
        return TcpServer(serve, host, port, **_OPTIONS)
    from ..transports.websocket import WebSocketServer  # needs another extra

    return WebSocketServer(serve, host, port, origins=None, **_MESSAGES)


def client(kind: str, host: str, port: int) -> Connection:
    """Return a connection to a server over TCP or WebSocket."""
    if kind == "tcp":
        return TcpClient(host, port, **_OPTIONS)
    from ..transports.websocket import WebSocketClient

    return WebSocketClient(f"ws://{host}:{port}", **_MESSAGES)


async def attach(
    protocol: Any,
    transport: Connection,
    stop_event: threading.Event,
    output: BinaryIO | None = None,
    ends_calls: bool = True,
) -> None:
    """Start a transport for the protocol of a server or client; `output` is a stream to close with it."""

    def on_message(received: Any) -> None:
        if isinstance(received, Withdrawn):
            protocol.withdraw(received.id)
        elif isinstance(received, Refused):
            protocol.refuse(received.text, received.fault)
        else:
            protocol.receive(received.to_dict())
        if stop_event.is_set():
            transport.begin_closing(5.0)

    if not transport.channel.carries_texts:
        # Over TCP text between frames may be a request from a browser.
        skips_text = not isinstance(transport, StreamTransport)
        received: Any = Frames(transport.channel_events.received, skips_text=skips_text).receive
        transport.channel_events.received = received
    transport.onmessage = on_message
    # A cancellation that was read together with its request withdraws the request before its handler is called.
    transport.onread = partial(look_ahead, LspConvention())
    transport.onerror = protocol.lose
    transport.onclose = protocol.abandon if ends_calls else None
    await transport.connect()
    protocol.adopt(MessageWriter(transport, output))
    await transport.start()
