"""Decoders that call a function for each text, and the debug log, which is one reason for them.

They log each text, decode it in another way than the codec does, or look at it before it is decoded: `listen` is called
with each text until it returns True. Until then, a step has one item. They have the methods of `Decoder` that a
connection uses.

The log has kinds, methods, ids, sizes and times of messages, never a payload. Methods and ids come from the peer: they
are shortened and escaped, so they cannot forge a line. The lines go to `jsonrpc_fast.transports` at level DEBUG.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ..codec import Notification, ParseError, Request, Response, classify
from ..codec._backend import too_large_fault
from ..codec._stream import StreamDecoder
from ..codes import ParseErrorCode
from ..framing.frames import Frame, Framing
from ..profile import Profile
from ..support import logger_of, shorten
from ..types import MessageId
from .channel import Channel

Read: TypeAlias = "Callable[[Any], Any]"
Listen: TypeAlias = "Callable[[Any], bool]"


class StreamReader(StreamDecoder[Any]):
    """Splits a stream of bytes. `read` decodes a text. `listen` is called with each text, or with the part of it that
    has arrived."""

    __slots__ = ("_listen", "_log", "_read_text")
    _fault_class = ParseError

    def __init__(
        self, framing: Framing, profile: Profile, resync: bool, read: Read, listen: Listen | None, log: WireLog | None
    ) -> None:
        super().__init__(framing, profile, resync=resync)
        self._read_text = read
        self._listen = listen
        self._log = log

    def _feed(self, data: bytes, max_items: int | None) -> list[Any]:
        # While `listen` is asked, each item is delivered before `listen` gets the next text.
        return super()._feed(data, max_items if self._listen is None else 1)

    def _item(self, frame: Frame) -> Any:
        if self._listen is not None and frame.text is not None and self._listen(frame.text):
            self._listen = None
        item = super()._item(frame)
        if self._log is not None:
            text = None if frame.fault is ParseErrorCode.MESSAGE_TOO_LARGE else frame.text
            self._log.received(item, None if text is None else len(text))
        return item

    def _decode(self, text: bytes) -> Any:
        return self._read_text(text)

    def _too_large(self, head: bytes) -> ParseError:
        return too_large_fault(head, self._profile)


class TextReader:
    """Reads whole texts, with any white space: each is one message or batch, or a fault. See `StreamReader`."""

    __slots__ = ("_listen", "_log", "_read_text")
    framing: Final = None
    ended: Final = False
    has_more: Final = False

    def __init__(self, read: Read, listen: Listen | None, log: WireLog | None) -> None:
        self._read_text = read
        self._listen = listen
        self._log = log

    def feed(self, data: Any, max_items: int | None = None) -> list[Any]:
        """Decode a text, or each of a list of texts that have arrived together."""
        return [self._item(text) for text in data] if type(data) is list else [self._item(data)] if data else []

    def close(self) -> list[Any]:
        """Return what is incomplete: nothing."""
        return []

    def _item(self, text: Any) -> Any:
        if self._listen is not None and self._listen(text):
            self._listen = None
        item = self._read_text(text)
        if self._log is not None:
            self._log.received(item, len(text.encode(errors="replace") if isinstance(text, str) else text))
        return item


Reader = StreamReader | TextReader


_logger: Final = logger_of("transports")


def log_for(channel: Channel) -> WireLog | None:
    """Return the log for a new transport; None if the logger is not enabled for DEBUG."""
    return WireLog(channel) if _logger.isEnabledFor(logging.DEBUG) else None


class WireLog:
    """The log of one transport.

    Args:
        channel: The channel of the transport, whose name is in each line.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._label = ""
        self._started = 0.0
        self._received = 0
        self._sent = 0

    def connected(self, framing: str | None) -> None:
        """Log that the channel is open."""
        self._label = self._channel.name
        self._started = time.monotonic()
        _logger.debug("%s connected, framing %s", self._label, framing or "none")

    def received(self, item: object, size: int | None) -> None:
        """Log the item that was decoded from a text of `size` bytes; None: its size is not known."""
        self._received += 1
        shown = "of unknown size" if size is None else f"{size} bytes"
        _logger.debug("%s <- %s, %s", self._label, _description(item), shown)

    def sent(self, frame: bytes, message: object) -> None:
        """Log a message that was accepted for sending as `frame`."""
        self._sent += 1
        _logger.debug("%s -> %s, %d bytes", self._label, _description(message), len(frame))

    def fault(self, fault: Exception) -> None:
        """Log an exception that went to `onerror`, without its text."""
        # `received` has already logged each ParseError. The text of any other exception may contain payload data.
        if not isinstance(fault, ParseError):
            number = f" {fault.errno}" if isinstance(fault, OSError) and fault.errno is not None else ""
            _logger.debug("%s fault: %s%s", self._label, type(fault).__name__, number)

    def closed(self, fault: Exception | None) -> None:
        """Log that the channel has closed."""
        _logger.debug(
            "%s closed%s after %.3f s, %d received, %d sent",
            self._label,
            "" if fault is None else f" by {type(fault).__name__}",
            time.monotonic() - self._started,
            self._received,
            self._sent,
        )


def _description(message: object) -> str:
    if isinstance(message, (list, tuple)):
        return f"batch of {len(message)}"
    if isinstance(message, ParseError):
        return f"invalid {message.code.name}" + (f" id {shorten(message.id)}" if message.id is not None else "")
    method: str | None = None
    id: MessageId = None
    if isinstance(message, Request):
        kind, method, id = "request", message.method, message.id
    elif isinstance(message, Notification):
        kind, method = "notification", message.method
    elif isinstance(message, Response):
        kind, id = "error" if message.is_error else "result", message.id
    else:
        assert isinstance(message, (bytes, bytearray, memoryview))
        kind, method, id = classify(message)
    shown = "" if kind in ("notification", "batch", "invalid") else f" id {shorten(id)}"
    return f"{kind}{'' if method is None else f' {shorten(method)}'}{shown}"
