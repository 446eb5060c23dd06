"""Stream decoders that yield messages with their frames, for reports and logs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

from ..framing.frames import Frame, Framing
from ..framing.lines import LineFrames
from ..profile import JSONRPC, Profile
from ._backend import Decoder, Message, ParseError, decode, too_large_fault
from ._stream import StreamDecoder

_LOCATED_BYTES: Final = 4096

Located: TypeAlias = "tuple[Frame, Message | list[Message]]"


class LocatingDecoder(StreamDecoder[Message]):
    """A stream decoder, for either backend, that yields each item after its frame."""

    __slots__ = ("_blocks",)
    _fault_class = ParseError

    def __init__(self, framing: Framing = "newline", profile: Profile = JSONRPC, *, raw: bool = False) -> None:
        super().__init__(framing, profile, None, raw)
        self._blocks = Decoder("newline", profile, raw=raw)
        self._blocks.feed(b"\n")  # it never reads the start of a stream, where a byte order mark is dropped

    def feed_located(self, data: bytes) -> Iterator[Located]:
        """Yield the items that `feed` returns, each with its frame."""
        seen = self._detect(data)
        if seen is not None:
            for frame in self._frames.feed(seen):
                yield frame, self._item(frame)

    def close_located(self) -> Iterator[Located]:
        """Yield the items that `close` returns, each with its frame."""
        if self._detector is not None:
            seen = self._settle("newline", self._detector)
            for frame in self._frames.feed(seen):
                yield frame, self._item(frame)
        for frame in self._frames.close():
            yield frame, self._last_item(frame)

    def feed_in_blocks(self, data: bytes) -> Iterator[list[Message | list[Message]] | Iterator[Located]]:
        """Yield the items that `feed` returns: lists of valid ones, and iterators of items with their frames.

        Each iterator has to be used up before the next value is taken. The backend's decoder reads blocks of whole
        lines, and only a block with a fault is split again, to locate the fault: valid lines cost little more than
        `Decoder.feed`. In other framings each item has its frame.
        """
        lines = self._frames
        if not isinstance(lines, LineFrames) or self._detector is not None:
            yield self.feed_located(data)
            return
        start = 0
        if not lines.is_between_lines:
            start = data.find(b"\n") + 1 or len(data)
            yield self.feed_located(data[:start])
        end = data.rfind(b"\n", start) + 1 or start
        yield from self._read_block(lines, data[start:end])
        yield self.feed_located(data[end:])

    def _read_block(self, lines: LineFrames, block: bytes) -> Iterator[list[Any] | Iterator[Located]]:
        """Yield the items of whole lines. Halves of a block with a fault are read again, down to some lines."""
        items: list[Any] = self._blocks.feed(block)
        if not _has_fault(items):
            lines.skip(block)
            yield items
            return
        half = block.find(b"\n", len(block) // 2) + 1
        if len(block) <= _LOCATED_BYTES or half == len(block):
            yield self.feed_located(block)
        else:
            yield from self._read_block(lines, block[:half])
            yield from self._read_block(lines, block[half:])

    def _decode(self, text: bytes) -> Any:
        return decode(text, self._profile, raw=self._raw)

    def _too_large(self, head: bytes) -> Message:
        return too_large_fault(head, self._profile)


def _has_fault(items: list[Message | list[Message]]) -> bool:
    kinds = set(map(type, items))
    if list in kinds:
        kinds.update(map(type, chain.from_iterable(item for item in items if isinstance(item, list))))
    return ParseError in kinds
