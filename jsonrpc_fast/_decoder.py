"""Streams of messages, over either twin's `decode`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .codes import ParseErrorCode
from .errors import ParseError
from .framing import LineFrames
from .profile import JSONRPC, Limits, Profile

if TYPE_CHECKING:
    from ._pure import Message


class StreamDecoder:
    """Decodes a stream of frames, chunk by chunk. Any chunking gives the same items; the cost is linear.

    framing  "newline": a message a line
    profile  the rules
    limits   the bounds; the profile's own if None
    raw      leave payloads as `Raw`

    A fault in one message costs that message alone. Memory is bounded by `Limits.message_bytes` and the last chunk.
    """

    __slots__ = ("_closed", "_frames", "_profile", "_raw")

    def __init__(
        self,
        framing: Literal["newline"] = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
    ) -> None:
        if framing != "newline":
            raise ValueError('framing must be "newline"')
        if not isinstance(profile, Profile):
            raise TypeError(f"profile must be a Profile, not {type(profile).__name__}")
        self._profile = profile if limits is None else profile.replace(limits=limits)
        self._frames = LineFrames(self._profile.limits.message_bytes)
        self._raw = raw
        self._closed = False

    def feed(self, data: bytes | bytearray | memoryview) -> list[Message | list[Message]]:
        """The items that `data` completes: what `decode` returns, one for each frame.

        Raises TypeError for what is not bytes, ValueError after `close`.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes, bytearray or memoryview, not {type(data).__name__}")
        if self._closed:
            raise ValueError("the decoder is closed")
        return self._feed(data)

    def close(self) -> list[Message | list[Message]]:
        """Ends the stream: the item of a last frame that lacks its ending, or nothing. A second call gives nothing."""
        if self._closed:
            return []
        self._closed = True
        return [self._decode_last(text) for text in self._rest()]

    def _feed(self, data: bytes | bytearray | memoryview) -> list[Message | list[Message]]:
        return [self._decode(text) for text, _, _ in self._frames.feed(data)]

    def _rest(self) -> list[bytes | None]:
        """The frame that the end of the stream ends, if there is one."""
        return [text for text, _, _ in self._frames.close()]

    def _decode(self, text: bytes | None) -> Message | list[Message]:
        """The twin's part: what `decode` makes of a frame, which is None when it was over the limit."""
        raise NotImplementedError

    def _decode_last(self, text: bytes | None) -> Message | list[Message]:
        """What the stream ended in: a message, or TRUNCATED for the beginning of one."""
        item = self._decode(text)
        if text is not None and isinstance(item, ParseError):
            end = len(text)
            if item.code is ParseErrorCode.INVALID_UTF8 and item.offset is not None and _is_begun(text[item.offset :]):
                # Cut inside a character: is the text before it cut, too?
                end = item.offset
                begun = self._decode(text[:end])
            else:
                begun = item
            if begun == ParseError.malformed_json(offset=end):
                return type(item).truncated(offset=len(text))
        return item


def _is_begun(tail: bytes) -> bool:
    """Whether `tail` is the beginning of one UTF-8 character: whether some bytes more make it one."""
    for rest in (b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\xa0\x80", b"\x90\x80\x80"):
        try:
            return len((tail + rest).decode()) == 1
        except UnicodeDecodeError:
            pass
    return False
