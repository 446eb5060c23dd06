"""Hooks that record their events."""

from __future__ import annotations

from typing import Any


class Recorder:
    """Implements all hooks. It checks the seconds of each event, and records the event without them."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def note(self, *event: Any) -> None:
        assert 0 <= event[-1] < 5
        self.events.append(event[:-1])

    def call_started(self, id: Any, method: str) -> str:
        self.events.append(("call", id, method))
        return f"trace of call {id}"

    def call_settled(self, trace: Any, *event: Any) -> None:
        assert trace == f"trace of call {event[0]}"
        self.note("settled", *event)

    def request_started(self, id: Any, method: str) -> str:
        self.events.append(("request", id, method))
        return f"trace of request {id}"

    def request_served(self, trace: Any, *event: Any) -> None:
        self.note("served" if trace == f"trace of request {event[0]}" else "served without", *event)
