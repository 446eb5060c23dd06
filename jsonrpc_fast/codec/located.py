"""A stream decoder that yields each message with its frame, for reports and logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..framing.frames import Frame
from ._backend import Message, ParseError, decode, too_large_fault
from ._stream import StreamDecoder


class LocatingDecoder(StreamDecoder[Message]):
    """A stream decoder, for either backend, that yields each item after its frame."""

    __slots__ = ()
    _fault_class = ParseError

    def feed_located(self, data: bytes) -> Iterator[tuple[Frame, Message | list[Message]]]:
        """Yield the items that `feed` returns, each with its frame."""
        seen = self._detect(data)
        if seen is not None:
            for frame in self._frames.feed(seen):
                yield frame, self._item(frame)

    def close_located(self) -> Iterator[tuple[Frame, Message | list[Message]]]:
        """Yield the items that `close` returns, each with its frame."""
        seen = self._undetected()
        for frame in self._frames.feed(seen):
            yield frame, self._item(frame)
        for frame in self._frames.close():
            yield frame, self._last_item(frame)

    def _decode(self, text: bytes) -> Any:
        return decode(text, self._profile, raw=self._raw)

    def _too_large(self, head: bytes) -> Message:
        return too_large_fault(head, self._profile)
