"""Hooks that check that each call settles exactly once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jsonrpc_fast.session import Outcome


class Ledger:
    """A ledger of the calls of a session.

    Args:
        expected: The types of exceptions that may be reported as faults.

    Attributes:
        calls: How many calls began.
        open: The ids of the calls that are not settled, by the number of the call.
        outcomes: The number of calls by outcome.
        faults: The number of reported faults by type.
        violations: The number of unexpected faults, and of calls that were settled without being started.
    """

    def __init__(self, *expected: type[BaseException]) -> None:
        self.calls = 0
        self.open: dict[int, int | str] = {}
        self.outcomes: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.violations = 0
        self._expected = expected or (BaseException,)

    def call_started(self, id: int | str, method: str) -> int:
        self.calls += 1
        self.open[self.calls] = id
        return self.calls

    def call_settled(self, trace: int, id: int | str, method: str, outcome: Outcome, code: Any, seconds: float) -> None:
        self.violations += trace not in self.open
        self.open.pop(trace, None)
        self.outcomes[outcome.value] += 1

    def fault(self, error: BaseException) -> None:
        self.faults[type(error).__name__] += 1
        self.violations += not isinstance(error, self._expected)
