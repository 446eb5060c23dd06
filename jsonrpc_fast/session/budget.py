"""The response budget: how many malformed messages without a certain id get an error response."""

from __future__ import annotations

from math import inf
from typing import Final, Literal, get_args

ResponsePolicy = Literal["always", "never", "limited"]


class ResponseBudget:
    """A token bucket for error responses.

    Args:
        per_second: Responses per second in the long run.
        burst: Maximum number of responses at once.
    """

    __slots__ = ("_burst", "_left", "_per_second", "_seen")

    def __init__(self, per_second: float = 1.0, burst: float = 10) -> None:
        self._per_second = per_second
        self._burst = self._left = float(burst)
        self._seen: float | None = None

    def take(self, now: float) -> bool:
        """Return whether one more error response may be sent, and count it. `now` is in seconds."""
        if self._seen is not None:
            # A clock that goes back must not take tokens away.
            self._left = min(self._burst, self._left + max(0.0, now - self._seen) * self._per_second)
        self._seen = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


_UNLIMITED: Final = ResponseBudget(burst=inf)
"""The budget of all sessions that respond always: its state has no effect."""


def budget_for(policy: ResponsePolicy | ResponseBudget) -> ResponseBudget:
    """Return the budget of a response policy.

    Raises:
        ValueError: `policy` is neither a policy nor a budget.
    """
    if isinstance(policy, ResponseBudget):
        return policy
    if policy not in get_args(ResponsePolicy):
        raise ValueError('response_policy must be "always", "never", "limited" or a ResponseBudget')
    return ResponseBudget() if policy == "limited" else _UNLIMITED if policy == "always" else ResponseBudget(burst=0)
