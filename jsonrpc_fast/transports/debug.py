"""What the transports do, told on stderr: starts and stops, kinds, methods, ids, sizes and times, never a payload.

The logger is `jsonrpc_fast`, and silent unless it is turned on: by `enable`, by `JSONRPC_FAST_DEBUG=1` in the
environment, or by the application's own `logging.getLogger("jsonrpc_fast").setLevel(logging.DEBUG)`. A transport asks
once, when it connects.

A peer chooses the methods and ids. They are shortened, and what does not print is escaped, so that none of them can
forge a line.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import deque
from typing import Any, Final

from .._repr import shorten
from ..codec import Decoder, Notification, ParseError, Request, Response, classify
from ..codes import ParseErrorCode
from ..framing.detector import Frames, frames_of
from ..framing.frames import Frame
from ..profile import Limits
from ..types import Classification

logger: Final = logging.getLogger("jsonrpc_fast")
if logger.level == logging.NOTSET:
    # An application that turns on the root logger did not ask for a line for each message.
    logger.setLevel(logging.WARNING)


class _StderrHandler(logging.Handler):
    """Writes to what `sys.stderr` is at the time: it may be replaced, or missing."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if sys.stderr is not None:
                sys.stderr.write(self.format(record) + "\n")
                sys.stderr.flush()
        except Exception:
            self.handleError(record)


def enable() -> None:
    """Turns the log on, to stderr, for every transport that connects from now on. A second call does nothing."""
    if not any(isinstance(handler, _StderrHandler) for handler in logger.handlers):
        handler = _StderrHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(name)s: %(message)s", "%H:%M:%S"))
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False


if os.environ.get("JSONRPC_FAST_DEBUG", "") not in ("", "0"):
    enable()


def log_for(label: str, decoder: Decoder[Any], limits: Limits) -> Log | None:
    """The log of one transport, which is connected now; None when nobody wants it."""
    return Log(label, decoder, limits) if logger.isEnabledFor(logging.DEBUG) else None


def _size_of(frame: Frame) -> str:
    if frame.fault is ParseErrorCode.MESSAGE_TOO_LARGE:
        return "over the limit"
    return "of unknown size" if frame.text is None else f"{len(frame.text)} bytes"


class Log:
    """What is told of one transport. `label` says which."""

    def __init__(self, label: str, decoder: Decoder[Any], limits: Limits) -> None:
        self._label = label
        self._decoder = decoder
        self._limit = limits.message_bytes
        self._frames: Frames | None = None
        self._sizes: deque[str] = deque()  # of frames whose items the decoder has not given yet
        self._undetected = b""  # what came while the framing was not known
        self._started = time.monotonic()
        self._received = 0
        self._sent = 0
        logger.debug("%s connected, framing %s", label, decoder.framing)

    def feed(self, data: bytes | bytearray | memoryview, max_items: int | None = None) -> list[Any]:
        """The decoder's `feed`, that tells of what it gives."""
        items = self._decoder.feed(data, max_items)
        self._sizes += self._sizes_of(data)
        for item in items:
            self._received += 1
            size = self._sizes.popleft() if self._sizes else "of unknown size"
            logger.debug("%s <- %s, %s", self._label, _description(item), size)
        return items

    def _sizes_of(self, data: bytes | bytearray | memoryview) -> list[str]:
        """How long the frames are that `data` ends. The decoder splits it once more, for it does not tell."""
        if self._frames is None:
            self._undetected += data
            framing = self._decoder.framing
            if framing == "auto":
                return []
            self._frames = frames_of(framing, self._limit)
            data, self._undetected = self._undetected, b""
        frames = self._frames.feed(data)
        return [_size_of(frame) for frame in frames]

    def sent(self, frame: bytes, message: object) -> None:
        """A message was accepted; `frame` is how it goes out."""
        self._sent += 1
        logger.debug("%s -> %s, %d bytes", self._label, _description(message), len(frame))

    def fault(self, fault: Exception) -> None:
        """Something went to `onerror`."""
        # A ParseError is told where it was received. Another's text may hold anything.
        if not isinstance(fault, ParseError):
            number = f" {fault.errno}" if isinstance(fault, OSError) and fault.errno is not None else ""
            logger.debug("%s fault: %s%s", self._label, type(fault).__name__, number)

    def closed(self, fault: Exception | None) -> None:
        """The channel is closed."""
        logger.debug(
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
    found = _classification(message)
    parts: list[str] = [found.kind]
    if found.method is not None:
        parts.append(shorten(found.method))
    if found.kind not in ("notification", "batch", "invalid"):
        parts.append(f"id {shorten(found.id)}")
    return " ".join(parts)


def _classification(message: object) -> Classification:
    if isinstance(message, Request):
        return Classification("request", message.method, message.id)
    if isinstance(message, Notification):
        return Classification("notification", message.method)
    if isinstance(message, Response):
        return Classification("error" if message.is_error else "result", None, message.id)
    assert isinstance(message, (bytes, bytearray, memoryview))
    return classify(message)
