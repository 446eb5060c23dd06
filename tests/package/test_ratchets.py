"""What the tests are to have less of: the numbers can fall, and not grow."""

from __future__ import annotations

from ..support.ratchets import private_uses, real_sleeps

REAL_SLEEPS = 0
"""How many waits in real time the tests have that are not marked as slow."""

PRIVATE_USES = 0
"""How often tests use a private name of a module that is not theirs."""


def test_real_sleeps() -> None:
    found = list(real_sleeps())
    assert len(found) <= REAL_SLEEPS, "\n".join(found)


def test_private_uses() -> None:
    found = list(private_uses())
    assert len(found) <= PRIVATE_USES, "\n".join(found)
