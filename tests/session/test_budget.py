"""The number of error responses that a budget and a policy allow."""

from __future__ import annotations

import pytest

from jsonrpc_fast.session.budget import ResponseBudget, budget_for

from ..support.tables import rows


def test_a_burst_and_then_so_many_per_second() -> None:
    budget = ResponseBudget(per_second=2.0, burst=3)
    times = (0, 0, 0, 0, 0.4, 0.5, 0.5, 1.5, 1.5, 1.5, 100, 100, 100, 100)
    taken = [budget.take(now) for now in times]
    assert taken == [*(True, True, True, False, False, True, False, True, True, False), *(True, True, True, False)]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    budget = ResponseBudget(burst=1)
    assert [budget.take(now) for now in (10.0, 5.0, 6.0)] == [True, False, True]


def test_policies() -> None:
    always, never, limited = budget_for("always"), budget_for("never"), budget_for("limited")
    times = [number * 1e-6 for number in range(20_000)]
    assert all(always.take(now) for now in times)
    assert not any(never.take(now) for now in [*times, 1e9])
    assert sum(limited.take(now) for now in times) == 10
    own = ResponseBudget(per_second=5, burst=1)
    assert budget_for(own) is own


@rows("policy", ["sometimes", "", None, True, [], 1])
def test_what_is_not_a_policy(policy: object) -> None:
    with pytest.raises(ValueError, match=r'^response_policy must be "always", "never", "limited" or a ResponseBudget$'):
        budget_for(policy)  # type: ignore[arg-type]
