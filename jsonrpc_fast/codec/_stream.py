"""The stream decoder, generic over the `decode` of either backend.

Rules:
  - A decoder is open, in use (inside `feed`), or closed: by `close`, or by an exception that left `feed`. `_refusal`
    says which: None while it is open, otherwise the reason why calls are refused.
  - An exception that is due to a mistake of the caller, such as a wrong argument, is raised before anything is read.
    Any other exception may have lost a part of a frame, so it closes the decoder.
  - Bytes go to the framing, which keeps an incomplete frame; complete frames wait in `_waiting` until they are decoded,
    in order. With "auto", the detector keeps all bytes until it knows the framing.
  - A fault of the framing is one frame. After one that ends the stream, `feed` returns nothing.
"""

from __future__ import annotations

import sys
from _thread import RLock
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NoReturn, TypeAlias, TypeVar

from ..codes import ParseErrorCode
from ..errors import ParseError, with_hint
from ..framing.detector import Frames, FramingDetector, frames_of
from ..framing.frames import FRAMINGS, Frame, Framing, StreamFraming, unknown_framing
from ..framing.hints import hint_of_line
from ..profile import JSONRPC, Limits, Profile, check_profile
from ..support import check_count

M = TypeVar("M")
"""A decoded message, or the fault of one."""

Place: TypeAlias = tuple[int, int, int, Any]
"""The place of the frame of an item, as `_pure.places` gives it."""


# Why a decoder refuses a call.
IN_USE: Final = "the decoder is in use"
CLOSED: Final = "the decoder is closed"
FAILED: Final = "the decoder is closed: an exception interrupted it"


_NO_FRAMES: Final[deque[Frame]] = deque()
"""The waiting frames of a decoder that has read none itself: that of the core leaves this to its reader."""


class StreamDecoder(Generic[M]):
    """Decode a stream of frames, chunk by chunk. Any chunking gives the same items, in linear time.

    A fault in one message affects only that message. Only headers that hide where the next frame begins end the stream
    (`ended`). Memory is bounded by `Limits.message_bytes`, the last chunk, and the data fed while `has_more` is true; a
    chunk of tiny frames makes items of many times its size, unless `max_items` bounds them.
    An exception that leaves `feed` while it reads closes the decoder, because it may have torn a message.
    One thread at a time uses a decoder: concurrent calls are executed one after another, or refused.

    Args:
        framing: "newline": one message per line; "content-length": LSP's headers; "sse": the data of server-sent
            events; "concatenated": JSON values in any spacing; "json-seq": RFC 7464; "etx", "nul": each message ends in
            byte 3, or 0; "auto": "newline" or "content-length", detected from the first bytes.
        profile: The rules.
        limits: The bounds; None for those of the profile.
        raw: Leave payloads as `Raw`.
        resync: In "content-length", skip what is not a header, such as text that a program prints, up to the next
            header: one INVALID_FRAMING, whose `offset` is the number of skipped bytes. In the other framings a fault
            never ends the stream.

    Raises:
        TypeError: `profile` is not a Profile.
        ValueError: `framing` is not one of these.
    """

    __slots__ = ("_detector", "_frames", "_framing", "_lock", "_profile", "_raw", "_refusal", "_resync", "_waiting")

    if TYPE_CHECKING:  # see `_messages.py`
        _fault_class: type[Any]  # the ParseError of the backend
        _frames: Frames

    def __init__(
        self,
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
        *,
        resync: bool = False,
    ) -> None:
        if framing not in FRAMINGS:
            raise unknown_framing(FRAMINGS)
        check_profile(profile)
        self._profile = profile if limits is None else profile.replace(limits=limits)
        self._raw = raw
        self._resync = resync
        self._refusal: str | None = None
        try:
            self._lock = RLock()
        except RuntimeError:  # "can't allocate lock"
            raise MemoryError from None
        self._waiting: deque[Frame] = _NO_FRAMES  # frames beyond `max_items`, not decoded yet
        self._framing = framing
        self._detector = FramingDetector() if framing == "auto" else None
        self._begin("newline" if framing == "auto" else framing)

    def __repr__(self) -> str:
        state = "open" if self._refusal in (None, IN_USE) else "closed"
        return f"<Decoder {state} framing={self._framing!r}>"

    @property
    def framing(self) -> Framing:
        """The framing of the stream; "auto" until it is detected."""
        return self._framing

    @property
    def ended(self) -> bool:
        """Whether a fault of the framing ended the stream, and `feed` has returned it: nothing more is read."""
        return self._frames.ended and not self.has_more

    @property
    def has_more(self) -> bool:
        """Whether items wait that `feed(b"")` returns, because a call had returned `max_items`."""
        return bool(self._waiting)

    def feed(self, data: bytes | bytearray | memoryview, max_items: int | None = None) -> list[M | list[M]]:
        """Feed bytes of the stream, and return the items that are complete.

        Args:
            data: The next bytes of the stream, or `b""`.
            max_items: The maximum number of items to return, 1 or more; None for no maximum. A batch adds its
                messages; the last batch may exceed the maximum. The other items stay in the decoder (`has_more`), and
                further calls return them first: `feed(b"", max_items)`.

        Returns:
            One item for each frame, in the order of the stream, as `decode` returns it. An empty list after the stream
            has ended.

        Raises:
            TypeError: `data` is not bytes, or `max_items` is not an int.
            ValueError: `max_items` is below 1, the decoder is closed, or another call is not finished. `data` stays
                unread.
            BaseException: A MemoryError or RecursionError, or what a signal handler or a trace function raises. The
                decoder is then closed, and the items of the call are lost.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes, bytearray or memoryview, not {type(data).__name__}")
        # A reentrant lock: a finalizer or a signal handler that runs in this thread and calls `feed` again must get a
        # ValueError from `_refusal` instead of waiting for itself.
        with self._lock:
            if self._refusal is not None:
                raise ValueError(self._refusal)
            if type(data) is not bytes:
                # Converted through a memoryview, because `bytes(data)` would call `__bytes__` of a subclass.
                data = bytes(memoryview(data))
            check_count("max_items", max_items, 1, None)
            try:
                # Set first and cleared last: an exception that interrupts the reading leaves the decoder closed,
                # because it may hold half a frame.
                self._refusal = IN_USE
                items = self._feed(data, max_items)
                self._refusal = None
                return items
            except BaseException:
                self._fail()
                raise

    def close(self) -> list[M | list[M]]:
        """End the stream.

        Returns:
            All items that still wait (`has_more`), and the item of a last frame without its ending. An empty list when
            called again, or after an exception has closed the decoder.

        Raises:
            ValueError: Another call is not finished. The decoder stays open.
        """
        with self._lock:
            refusal = self._why_refused()
            if refusal == IN_USE:
                raise ValueError(IN_USE)
            if refusal is not None:
                return []
            self._end()
            rest = b"" if self._detector is None else self._settle("newline", self._detector)
            items = self._read(rest, None)
            return items + list(map(self._last_item, self._frames.close()))

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def _begin(self, framing: StreamFraming) -> None:
        self._frames = frames_of(framing, self._profile.limits.message_bytes, self._resync)

    def _why_refused(self) -> str | None:
        """Why a call would be refused now, or None."""
        return self._refusal

    def _end(self) -> None:
        """Refuse all further calls."""
        self._refusal = CLOSED

    def _fail(self) -> None:
        """Close the decoder after an exception."""
        self._refusal = FAILED
        self._waiting = _NO_FRAMES

    def _feed(self, data: bytes, max_items: int | None) -> list[Any]:
        detected = self._detect(data)
        return [] if detected is None else self._read(detected, max_items)

    def _detect(self, data: bytes) -> bytes | None:
        """The bytes to read, or None while the framing is unknown."""
        detector = self._detector
        if detector is None:
            return data
        framing = detector.feed(data)
        return None if framing is None else self._settle(framing, detector)

    # Until the framing is known, `_frames` is a reader of lines that has read nothing.

    def _settle(self, framing: Literal["newline", "content-length"], detector: FramingDetector) -> bytes:
        """The bytes seen so far, to be read in the framing that is known now."""
        self._framing = framing
        self._detector = None
        self._begin(framing)
        return bytes(detector.seen)

    def _read(self, data: bytes, max_items: int | None) -> list[Any]:
        if self._waiting is _NO_FRAMES:
            self._waiting = deque()
        waiting = self._waiting
        waiting += self._frames.feed(data)
        maximum = sys.maxsize if max_items is None else max_items
        items: list[Any] = []
        weight = 0
        while waiting and weight < maximum:
            item = self._item(waiting.popleft())
            # Each message of a batch is counted, or a peer could pack any number of messages into one item.
            weight += len(item) or 1 if type(item) is list else 1
            items.append(item)
        return items

    def _decode(self, text: bytes) -> Any:
        """Decode the text of a frame; implemented by the backend."""
        raise NotImplementedError

    def _too_large(self, head: bytes) -> Any:
        """The fault of a frame over the size limit, from its beginning; implemented by the backend."""
        raise NotImplementedError

    def _item(self, frame: Frame) -> Any:
        text, line, _, fault, hint, skipped = frame
        # A frame carries either its text, or the fault that the framing found; the head of a text over the limit comes
        # with its fault, for the id.
        if fault is ParseErrorCode.TRUNCATED and text is not None:
            return self._truncated(text, self._decode(text))
        if fault is ParseErrorCode.MESSAGE_TOO_LARGE and text is not None:
            return self._too_large(text)
        if text is None or fault is not None:
            return self._fault_class(fault, hint=hint, offset=skipped or None)
        item = self._decode(text)
        # A line that may not be a message at all gets a hint of what it looks like.
        if (
            line is not None
            and isinstance(item, ParseError)
            and item.code in (ParseErrorCode.MALFORMED_JSON, ParseErrorCode.INVALID_UTF8)
        ):
            hint = hint_of_line(text)
            if hint is not None:
                with_hint(item, hint)
        return item

    def _last_item(self, frame: Frame) -> Any:
        """The item of the last frame: a message, or TRUNCATED for the beginning of one."""
        item = self._item(frame)
        text = frame.text
        if frame.fault is None and text is not None and isinstance(item, ParseError):
            # If the scanner reports the very end of a text, it is cut off, not malformed: more bytes could make it
            # JSON.
            end = len(text)
            if item.code is ParseErrorCode.INVALID_UTF8 and item.offset is not None and _is_begun(text[item.offset :]):
                # Cut off inside a character: the text before it must be the beginning of JSON, too.
                end = item.offset
                begun = self._decode(text[:end])
            else:
                begun = self._decode(text)
            if isinstance(begun, ParseError) and begun.code is ParseErrorCode.MALFORMED_JSON and begun.offset == end:
                return self._truncated(text, begun)
        return item

    def _truncated(self, text: bytes, begun: Any) -> Any:
        """The fault of a text that is cut off. begun: what `_decode` returns for it."""
        if not isinstance(begun, ParseError):
            return self._fault_class.truncated(offset=len(text))
        return self._fault_class.truncated(offset=len(text), reply_expected=begun.reply_expected, settles=begun.settles)


def _is_begun(tail: bytes) -> bool:
    """Whether `tail` is the beginning of one UTF-8 character."""
    # Two- to four-byte characters need up to three continuation bytes; E0 and F0 restrict the second byte (RFC 3629,
    # section 4): A0 and 90 are allowed after them.
    for rest in (b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\xa0\x80", b"\x90\x80\x80"):
        try:
            return len((tail + rest).decode()) == 1
        except UnicodeDecodeError:
            pass
    return False
