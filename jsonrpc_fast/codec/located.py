"""Stream decoders that yield messages with their frames, for reports and logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from ..framing.frames import Frame, Framing
from ..profile import Profile
from ._backend import Decoder, Message, ParseError, decode, places, too_large_fault
from ._stream import Place, StreamDecoder

_BLOCK_BYTES: Final = 32 * 1024
"""The block size: the decoded messages of this much text fit in the caches of a processor."""

__all__ = ["ItemBlock", "Located", "LocatingDecoder"]

Located: TypeAlias = "tuple[Frame, Message | list[Message]]"
"""An item of a stream, and the frame that holds it."""


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

    @classmethod
    def of(cls, pairs: Iterable[Located]) -> ItemBlock:
        """Return the block of items with their frames."""
        found = list(pairs)
        items = [item for _, item in found]
        return cls(items, _count_kinds(items), [pair for pair in found if _has_fault(pair[1])])


class LocatingDecoder(StreamDecoder[Any]):
    """A stream decoder, for either backend, that yields each item after its frame."""

    # The frames have read the stream up to `_offset`, and the backend's decoder `_unread`, too.
    __slots__ = ("_decoder", "_offset", "_places", "_unread")
    _fault_class = ParseError

    def __init__(self, framing: Framing, profile: Profile, raw: bool) -> None:
        super().__init__(framing, profile, None, raw)
        self._decoder = Decoder(framing, profile, raw=raw)
        self._places = places(self._decoder) if self._detector is None else None
        self._offset = 0
        self._unread = b""

    def feed_located(self, data: bytes) -> Iterator[Located]:
        """Yield the items that `feed` returns, each with its frame."""
        seen = self._detect(data)
        if seen is not None:
            for frame in self._frames.feed(seen):
                yield frame, self._item(frame)

    def close_located(self) -> Iterator[Located]:
        """Yield the items that `close` returns, each with its frame."""
        self._frames.feed(self._unread)
        if self._detector is not None:
            seen = self._settle("newline", self._detector)
            for frame in self._frames.feed(seen):
                yield frame, self._item(frame)
        for frame in self._frames.close():
            yield frame, self._last_item(frame)

    def feed_blocks(self, data: bytes) -> Iterator[ItemBlock]:
        """Yield the items that `feed` returns in blocks.

        The backend's decoder reads them, and the frames read only those with a fault, to locate it: any framing costs
        little more than with `Decoder.feed`. With a backend that keeps no places, each item is decoded after its frame.
        """
        if self._places is None:
            yield ItemBlock.of(self.feed_located(data))
            return
        for start in range(0, len(data), _BLOCK_BYTES):
            yield self._read_block(data[start : start + _BLOCK_BYTES], self._places)

    def _read_block(self, block: bytes, places: list[Place]) -> ItemBlock:
        items: list[Any] = self._decoder.feed(block)
        text, at = self._unread + block, self._offset
        faults: list[Located] = []
        frames: list[Frame] = []
        for begin, end, back, item in places:
            if begin > at:
                self._frames.skip(text[at - self._offset : begin - self._offset])
                at = begin
            if end > at:
                frames = self._frames.feed(text[at - self._offset : end - self._offset])
                at = end
            if back:
                faults.append((frames[-back], item))
        if places[-1][1] <= self._offset + len(self._unread):
            # No frame has ended in the block, so the unread part stays short.
            self._frames.feed(text[at - self._offset :])
            at = self._offset + len(text)
        places.clear()
        self._unread = text[at - self._offset :]
        self._offset = at
        return ItemBlock(items, _count_kinds(items), faults)

    def _decode(self, text: bytes) -> Any:
        return decode(text, self._profile, raw=self._raw)

    def _too_large(self, head: bytes) -> Message:
        return too_large_fault(head, self._profile)


def _count_kinds(items: list[Any]) -> Counter[type]:
    """Return the number of items of each class. A counter would take as long as the decoding of a short message."""
    kinds = list(map(type, items))
    found: Counter[type] = Counter()
    for kind in set(kinds):
        found[kind] = kinds.count(kind)
    return found


def _has_fault(item: Message | list[Message]) -> bool:
    kind = type(item)
    return kind is ParseError or (kind is list and ParseError in map(type, item))  # type: ignore[arg-type]
