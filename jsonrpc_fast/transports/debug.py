"""The debug log of the transports: kinds, methods, ids, sizes and times of messages, never a payload.

Rules:
  - Lines go to the logger `jsonrpc_fast.transports` at level DEBUG.
  - Methods and ids come from the peer: they are shortened and escaped, so they cannot forge a log line.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from ..codec import Notification, ParseError, Request, Response, classify
from ..support import logger_of, shorten
from ..types import MessageId
from .channel import Channel

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
