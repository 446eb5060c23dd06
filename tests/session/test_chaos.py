"""Chaos at a small size. `python -m tests.isolated.session_chaos` runs it at full size."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..isolated.session_chaos import CHANNELS, chaos
from ..support.certificates import write_certificates

pytestmark = [pytest.mark.usefixtures("each_loop"), pytest.mark.slow]


@pytest.mark.timeout(120)
@pytest.mark.time_limit(100)
async def test_whatever_happens_to_its_peer_a_session_loses_nothing_in_silence(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    totals = await chaos(list(CHANNELS), seconds=0, round_seconds=1, seed=1, folder=tmp_path)
    assert totals["rounds"] == len(CHANNELS)
    assert totals["calls right"] > 100
    assert totals["gaps"] > 0
