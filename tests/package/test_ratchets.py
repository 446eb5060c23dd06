"""What the tests do without: waits in real time, and private names of modules that are not theirs."""

from __future__ import annotations

from ..support.ratchets import private_uses, real_sleeps


def test_no_test_waits_in_real_time_unless_it_is_slow() -> None:
    assert list(real_sleeps()) == []


def test_no_test_uses_a_private_name_of_a_module_that_is_not_its_own() -> None:
    assert list(private_uses()) == []
