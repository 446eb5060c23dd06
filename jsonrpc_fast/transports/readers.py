"""Decoders that call a function for each text, with the methods of `Decoder` that a connection uses.

They log each text, decode it in another way than the codec does, or look at it before it is decoded: `listen` is called
with each text until it returns True. Until then, a step has one item.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ..codec import ParseError
from ..codec._backend import too_large_fault
from ..codec._stream import StreamDecoder
from ..codes import ParseErrorCode
from ..framing.frames import Frame, Framing
from ..profile import Profile
from .debug import WireLog

Read: TypeAlias = "Callable[[Any], Any]"
Listen: TypeAlias = "Callable[[Any], bool]"


class StreamReader(StreamDecoder[Any]):
    """Splits a stream of bytes. `read` decodes a text. `listen` is called with each text, or with the part of it that
    has arrived."""

    __slots__ = ("_listen", "_log", "_read_text")
    _fault_class = ParseError

    def __init__(
        self,
        framing: Framing,
        profile: Profile,
        resync: bool,
        read: Read,
        listen: Listen | None,
        log: WireLog | None,
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
