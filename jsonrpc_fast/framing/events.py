"""The framing `sse`: the data of each server-sent event is a frame."""

from __future__ import annotations

from typing import Any, Final

from ..codes import Hint, ParseErrorCode
from .frames import Frame
from .hints import looks_like
from .sse import Event, EventDecoder, OversizedEvent

_EVENT_NAMES: Final = frozenset({b"data", b"event", b"id", b"retry"})


class EventFrames:
    """Splits a stream of server-sent events into the data of those that are messages and have any.

    A line that looks like another framing is ignored as any unknown field is, but the first is told as a fault.
    """

    __slots__ = ("_events", "_told")
    ended: Final = False

    def __init__(self, limit: int) -> None:
        self._events = EventDecoder(limit)
        self._told = False

    def save(self) -> tuple[Any, ...]:
        return self._told, self._events.save()

    def restore(self, saved: tuple[Any, ...]) -> None:
        self._told, events = saved
        self._events.restore(events)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames that end in `data`."""
        return self._frames_of(self._events.read(data))

    def close(self) -> list[Frame]:
        """What had come of an event that the end of the stream cuts off."""
        frames = self._frames_of(self._events.rest())
        return [found._replace(fault=ParseErrorCode.TRUNCATED) if found.fault is None else found for found in frames]

    def _frames_of(self, read: list[tuple[Event | bytes, int]]) -> list[Frame]:
        frames = []
        for found, offset in read:
            if not isinstance(found, Event):
                hint = looks_like(found)
                if not self._told and hint in (Hint.NEWLINE_FRAMING, Hint.CONTENT_LENGTH_FRAMING):
                    self._told = True
                    frames.append(Frame(None, None, offset, ParseErrorCode.INVALID_FRAMING, hint))
            elif found.type == "message" and found.data != b"":
                if isinstance(found, OversizedEvent):
                    frames.append(Frame(found.head, None, offset, ParseErrorCode.MESSAGE_TOO_LARGE))
                else:
                    frames.append(Frame(found.data, None, offset))
        return frames
