"""Readers turn the data of a channel, a stream of bytes or whole texts, into messages and faults.

Rules:
  - Data is decoded by `feed` as it arrives, unless earlier data is kept: then it is kept too, and `next_items` decodes
    it later. So items are always returned in the order of the stream.
  - One step decodes at most TURN_ITEMS messages and faults, so that no peer blocks the loop. `has_more` says whether
    another step has something to do. A step may return nothing, for example a part of a long message.
  - The end of a stream is noted by `end`, and reaches the decoder only after all kept data: an incomplete message is
    then reported as the last item.
  - After a fault of the framing (`has_ended`) no further data is decoded.
  - While `listen` is set, texts are decoded one at a time: each is delivered before `listen` gets the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from ..codec import Decoder, ParseError, decode
from ..codec._backend import too_large_fault
from ..codec._stream import StreamDecoder
from ..codes import ParseErrorCode
from ..framing.frames import Frame, Framing
from ..profile import Profile
from .debug import WireLog

TURN_ITEMS: Final = 64
"""How many messages and faults are decoded at a time. A batch ends such a step."""
SMALL_BYTES: Final = 256
"""Chunks of bytes up to this size are decoded at once, since they hold few items."""
STEP_BYTES: Final = 4096
"""A longer text is decoded in its own step."""

Read: TypeAlias = "Callable[[Any], Any]"
Listen: TypeAlias = "Callable[[Any], bool]"


class _TextDecoder(StreamDecoder[Any]):
    """Splits a stream like `Decoder`, but passes each text to functions."""

    __slots__ = ("_decode_text", "_listen", "_log")
    _fault_class = ParseError

    def __init__(
        self,
        framing: Framing,
        profile: Profile,
        resync: bool,
        decode: Read,
        listen: Listen | None,
        log: WireLog | None = None,
    ) -> None:
        super().__init__(framing, profile, resync=resync)
        self._decode_text = decode
        self._listen = listen
        self._log = log

    def _read(self, data: bytes, max_items: int | None) -> list[Any]:
        # While `listen` is asked, each item is delivered before `listen` gets the next text.
        return super()._read(data, max_items if self._listen is None or max_items is None else 1)

    def _item(self, frame: Frame) -> Any:
        if self._listen is not None and frame.text is not None and self._listen(frame.text):
            self._listen = None
        item = super()._item(frame)
        if self._log is not None:
            text = None if frame.fault is ParseErrorCode.MESSAGE_TOO_LARGE else frame.text
            self._log.received(item, None if text is None else len(text))
        return item

    def _decode(self, data: bytes) -> Any:
        return self._decode_text(data)

    def _too_large(self, head: bytes) -> ParseError:
        return too_large_fault(head, self._profile)


class StreamReader:
    """Reads a stream of bytes.

    Args:
        framing: As in `Decoder`.
        profile: The rules, with the limits.
        raw: Whether payloads are left undecoded.
        read: Decodes each text in place of the codec; None: the codec decodes.
        listen: Called with each text before it is decoded, or with the part of it that has arrived, until it returns
            True.
        resync: As in `Decoder`.

    Attributes:
        feed: Decodes data that has just arrived, while no data is kept. Returns at most the given number of items, if
            one is given; see `has_more`. A batch adds the number of its messages.
        partial_bytes: About how many bytes of an incomplete message were fed; the delivery counts them.
        small_bytes: The size up to which a chunk is decoded at once.
    """

    __slots__ = ("_decoder", "_is_last_due", "_kept", "_options", "feed", "partial_bytes", "small_bytes")

    def __init__(
        self,
        framing: Framing,
        profile: Profile,
        raw: bool,
        read: Read | None,
        listen: Listen | None = None,
        resync: bool = False,
    ) -> None:
        # The backend's decoder cannot call a function for each text, so this one splits the stream in Python.
        self._options = (framing, profile, raw, read, listen, resync)
        self._decoder: StreamDecoder[Any]
        is_plain = read is None and listen is None
        self._decoder = Decoder(framing, profile, raw=raw, resync=resync) if is_plain else self._new_decoder()
        self.feed: Callable[..., list[Any]] = self._decoder.feed
        self.partial_bytes: int = 0
        self.small_bytes: int = SMALL_BYTES if listen is None else 0
        self._kept = bytearray()
        self._is_last_due = False  # the stream has ended, and the decoder does not know yet

    def _new_decoder(self, log: WireLog | None = None) -> _TextDecoder:
        framing, profile, raw, read, listen, resync = self._options
        return _TextDecoder(framing, profile, resync, read or partial(decode, profile=profile, raw=raw), listen, log)

    @property
    def framing(self) -> Framing:
        """The framing of both directions; "auto" until it is known."""
        return self._decoder.framing

    @property
    def has_ended(self) -> bool:
        """Whether a fault of the framing has ended the stream, so that nothing more is read."""
        return self._decoder.ended

    @property
    def has_more(self) -> bool:
        """Whether `next_items` has something to do."""
        decoder = self._decoder
        return decoder.has_more or (bool(self._kept or self._is_last_due) and not decoder.ended)

    @property
    def held_bytes(self) -> int:
        """About how many bytes are kept."""
        return self.partial_bytes + len(self._kept)

    def keep(self, data: Any) -> None:
        """Keep received data for `next_items`."""
        self._kept += data

    def next_items(self) -> list[Any]:
        """Decode one step of the kept data. Return the items that were completed, if any."""
        if self._decoder.has_more:
            return self.feed(b"", TURN_ITEMS)
        if self._kept:
            data, self._kept = self._kept, bytearray()
            return self.feed(data, TURN_ITEMS)
        if not self._is_last_due:
            return []
        self._is_last_due = False
        return self._decoder.close()

    def end(self) -> None:
        """Record the end of the stream: an incomplete message is then the last item."""
        self._is_last_due = True

    def clear(self) -> None:
        """Drop the kept data."""
        self._kept.clear()

    def set_log(self, log: WireLog) -> None:
        """Log received data. Called before any data is read."""
        self._decoder = self._new_decoder(log)
        self.feed = self._decoder.feed


_NOTHING_KEPT: Final[deque[Any]] = deque()
"""The texts of a reader that has kept none."""


class TextReader:
    """Reads whole texts, with any white space: each is one message or batch, or a fault.

    The arguments and members are those of `StreamReader`; there is no framing, and no partial message.
    """

    __slots__ = ("_kept", "_log", "_read", "partial_bytes")
    framing: None = None
    small_bytes: int = SMALL_BYTES
    has_ended: bool = False

    def __init__(self, profile: Profile, raw: bool, read: Read | None, listen: Listen | None = None) -> None:
        read = partial(decode, profile=profile, raw=raw) if read is None else read
        self._read: Read = read if listen is None else partial(_read_after, listen, read)
        self.partial_bytes: int = 0
        self._kept: deque[Any] = _NOTHING_KEPT
        self._log: WireLog | None = None

    def feed(self, data: Any, max_items: int | None = None) -> list[Any]:
        item = self._read(data)
        if self._log is not None:
            self._log.received(item, len(data.encode(errors="replace") if isinstance(data, str) else data))
        return [item]

    @property
    def has_more(self) -> bool:
        return bool(self._kept)

    @property
    def held_bytes(self) -> int:
        return sum(map(len, self._kept))

    def keep(self, data: Any) -> None:
        if self._kept is _NOTHING_KEPT:
            self._kept = deque()
        self._kept += data if type(data) is list else (bytes(data) if type(data) is memoryview else data,)

    def next_items(self) -> list[Any]:
        kept, read = self._kept, self._read
        items: list[Any] = []
        # Short texts share a step: one step for each would cost more than decoding them.
        while kept and len(items) < TURN_ITEMS:
            text = kept.popleft()
            item = read(text) if self._log is None else self.feed(text)[0]
            items.append(item)
            # A fault may close the connection, and then nothing after it may be decoded.
            if len(text) > STEP_BYTES or type(item) is ParseError:
                break
        return items

    def clear(self) -> None:
        self._kept.clear()

    def set_log(self, log: WireLog) -> None:
        self._log = log

    def end(self) -> None:
        pass


def _read_after(listen: Listen, read: Read, text: Any) -> Any:
    listen(text)
    return read(text)


Reader = StreamReader | TextReader
"""The reader of a connection."""
