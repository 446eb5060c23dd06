"""Which unreadable messages get an error reply, and how many of them."""

from __future__ import annotations

from typing import Literal

ReplyPolicy = Literal["always", "never", "limited"]


class ReplyBudget:
    """How many unreadable messages are answered: `burst` at once, and `per_second` in the long run."""

    __slots__ = ("_burst", "_left", "_per_second", "_seen")

    def __init__(self, per_second: float = 1.0, burst: int = 10) -> None:
        self._per_second = per_second
        self._burst = self._left = float(burst)
        self._seen: float | None = None

    def take(self, now: float) -> bool:
        """Whether one more may be answered, `now` in seconds."""
        if self._seen is not None:
            self._left = min(self._burst, self._left + max(0.0, now - self._seen) * self._per_second)
        self._seen = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
