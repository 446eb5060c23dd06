"""The framing "sse": the data of each server-sent event is a frame."""

from __future__ import annotations

from typing import Final

from ..codes import Hint, ParseErrorCode
from .frames import Frame
from .hints import looks_like
from .sse import Event, EventDecoder, OversizedEvent


class EventFrames:
    """Split a stream of server-sent events into the data of its events of type "message".

    A line that looks like another framing is ignored, like any unknown field, but the first such line is reported as a
    fault.
    """

    __slots__ = ("_events", "_reported")
    ended: Final = False

    def __init__(self, limit: int) -> None:
        self._events = EventDecoder(limit)
        self._reported = False

    @property
    def is_between_events(self) -> bool:
        """Whether the next byte begins an event, or ends a blank line, which has no meaning here."""
        return self._events.is_between_events

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Return the frames that end in `data`."""
        return self._frames_of(self._events.read(data))

    def skip(self, data: bytes) -> None:
        """Count `data`, whose frames the caller has read itself. The last one ends with it."""
        self._events.skip(data)

    def close(self) -> list[Frame]:
        """Return the beginning of an event that the end of the stream cuts off."""
        frames = self._frames_of(self._events.rest())
        return [found._replace(fault=ParseErrorCode.TRUNCATED) if found.fault is None else found for found in frames]

    def _frames_of(self, read: list[tuple[Event | bytes, int]]) -> list[Frame]:
        frames = []
        for found, offset in read:
            if not isinstance(found, Event):
                hint = looks_like(found)
                if not self._reported and hint in (Hint.NEWLINE_FRAMING, Hint.CONTENT_LENGTH_FRAMING):
                    self._reported = True
                    frames.append(Frame(None, None, offset, ParseErrorCode.INVALID_FRAMING, hint))
            elif found.type == "message" and found.data != b"":
                if isinstance(found, OversizedEvent):
                    frames.append(Frame(found.head, None, offset, ParseErrorCode.MESSAGE_TOO_LARGE))
                else:
                    frames.append(Frame(found.data, None, offset))
        return frames
