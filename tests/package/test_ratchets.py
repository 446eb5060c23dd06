"""What the tests are to have less of: the numbers can fall, and not grow."""

from __future__ import annotations

from ..support.ratchets import real_sleeps

REAL_SLEEPS = 27
"""How many waits in real time the tests have that are not marked as slow."""


def test_real_sleeps() -> None:
    found = list(real_sleeps())
    assert len(found) <= REAL_SLEEPS, "\n".join(found)
