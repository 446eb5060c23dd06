"""Stream decoders that yield messages with their frames, for reports and logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from ..framing.frames import Frame, Framing
from ..framing.lines import LineFrames
from ..profile import JSONRPC, Profile
from ._backend import Decoder, Message, ParseError, decode, too_large_fault
from ._stream import StreamDecoder

_BLOCK_BYTES: Final = 32 * 1024
"""Decoded messages of this much text stay in the caches of a processor."""

Located: TypeAlias = "tuple[Frame, Message | list[Message]]"


class ItemBlock(NamedTuple):
    """Items of a stream.

    Attributes:
        items: The messages and batches, in order.
        kinds: The number of items of each class.
        faults: The items that are or hold faults, with their frames. They are among `items`, too.
    """

    items: list[Message | list[Message]]
    kinds: Counter[type]
    faults: list[Located]


class LocatingDecoder(StreamDecoder[Message]):
    """A stream decoder, for either backend, that yields each item after its frame."""

    __slots__ = ("_blocks",)
    _fault_class = ParseError

    def __init__(self, framing: Framing = "newline", profile: Profile = JSONRPC, *, raw: bool = False) -> None:
        super().__init__(framing, profile, None, raw)
        self._blocks = Decoder("newline", profile, raw=raw)
        # An empty line first: blocks begin in the middle of a file, and only at its start a byte order mark is dropped.
        self._blocks.feed(b"\n")

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

    def feed_blocks(self, data: bytes) -> Iterator[ItemBlock]:
        """Yield the items that `feed` returns in blocks.

        The backend's decoder reads whole lines, and only a block with a fault is split, to locate the fault: lines cost
        little more than with `Decoder.feed`. In other framings each item is decoded after its frame.
        """
        lines = self._frames
        if not isinstance(lines, LineFrames) or self._detector is not None:
            yield block_of(self.feed_located(data))
            return
        start = 0
        # The rest of a line that began in an earlier chunk, or the first line, which may begin with a byte order mark.
        if not lines.is_between_lines:
            start = data.find(b"\n") + 1 or len(data)
            yield block_of(self.feed_located(data[:start]))
        last = data.rfind(b"\n", start) + 1
        while start < last:
            # The last line that ends within a block, or else the whole of a longer line.
            end = data.rfind(b"\n", start, start + _BLOCK_BYTES) + 1 or data.find(b"\n", start) + 1
            yield self._read_lines(lines, data[start:end])
            start = end
        yield block_of(self.feed_located(data[start:]))

    def _read_lines(self, lines: LineFrames, text: bytes) -> ItemBlock:
        """Return the items of whole lines."""
        items: list[Any] = self._blocks.feed(text)
        kinds = count_kinds(items)
        faults: list[Located] = []
        if ParseError in kinds or (list in kinds and any(map(_has_fault, items))):
            faulty = [at for at, item in enumerate(items) if _has_fault(item)]
            faults = list(zip(lines.frames_at(text, len(items), faulty), [items[at] for at in faulty], strict=True))
        lines.skip(text)
        return ItemBlock(items, kinds, faults)

    def _decode(self, text: bytes) -> Any:
        return decode(text, self._profile, raw=self._raw)

    def _too_large(self, head: bytes) -> Message:
        return too_large_fault(head, self._profile)


def block_of(pairs: Iterable[Located]) -> ItemBlock:
    """Return the block of items with their frames."""
    found = list(pairs)
    items = [item for _, item in found]
    return ItemBlock(items, count_kinds(items), [pair for pair in found if _has_fault(pair[1])])


def count_kinds(items: list[Any]) -> Counter[type]:
    """Return the number of items of each class. A counter would take as long as the decoding of a short message."""
    kinds = list(map(type, items))
    found: Counter[type] = Counter()
    for kind in set(kinds):
        found[kind] = kinds.count(kind)
    return found


def _has_fault(item: Message | list[Message]) -> bool:
    kind = type(item)
    return kind is ParseError or (kind is list and ParseError in map(type, item))  # type: ignore[arg-type]
