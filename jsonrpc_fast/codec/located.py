"""Streams of messages, each with the place where it stands: what reports and logs of a stream are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..framing.frames import Frame
from ._backend import Message, ParseError, decode, too_large_fault
from ._stream import StreamDecoder


class LocatingDecoder(StreamDecoder[Message]):
    """The stream decoder, for either twin, that tells of each item which frame it was in."""

    __slots__ = ()
    _fault_class = ParseError

    def feed_located(self, data: bytes) -> Iterator[tuple[Frame, Message | list[Message]]]:
        """What `feed` returns, each item behind its frame."""
        seen = self._detect(data)
        if seen is not None:
            for frame in self._frames.feed(seen):
                yield frame, self._item(frame)

    def close_located(self) -> Iterator[tuple[Frame, Message | list[Message]]]:
        """What `close` returns, each item behind its frame."""
        seen = self._undetected()
        for frame in self._frames.feed(seen):
            yield frame, self._item(frame)
        for frame in self._frames.close():
            yield frame, self._last_item(frame)

    def _decode(self, text: bytes) -> Any:
        return decode(text, self._profile, raw=self._raw)

    def _too_large(self, head: bytes) -> Message:
        return too_large_fault(head, self._profile)
