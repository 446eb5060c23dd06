"""The soak test at a small size. `python -m tests.isolated.session_soak` runs it at full size."""

from __future__ import annotations

import pytest

from ..isolated.session_soak import CHANNELS, kill, soak

pytestmark = [pytest.mark.usefixtures("each_loop"), pytest.mark.slow]


@pytest.mark.parametrize("channel", CHANNELS)
async def test_each_call_settles_once_and_nothing_is_left(channel: str) -> None:
    reports = await soak(channel, 1500, seed=7)
    assert [report.calls for report in reports] == [1500, 1500]
    for report in reports:
        # A call that waits for no response has an outcome, too, so there are more outcomes than calls.
        assert sum(report.outcomes.values()) >= 1500
        assert {"result", "error", "timeout", "cancelled"} <= report.outcomes.keys()


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_peer_that_is_killed(channel: str) -> None:
    for seed in (1, 2):
        outcomes = await kill(channel, seed)
        assert outcomes["lost"] > 0
