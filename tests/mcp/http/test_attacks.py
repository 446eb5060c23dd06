"""The attacks of `tests.isolated.mcp_hostile`, in a short version."""

from __future__ import annotations

import sys

import pytest

from ...isolated import mcp_hostile

pytestmark = [
    pytest.mark.slow,
    pytest.mark.time_limit(280),
    pytest.mark.skipif(sys.platform != "linux", reason="descriptors and memory are read from /proc"),
]


async def test_hostile_clients() -> None:
    results = await mcp_hostile.run(is_short=True)
    assert len(results) == len(mcp_hostile.ATTACKS)
    assert all("descriptors back" in result for result in results)
