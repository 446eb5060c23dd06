"""What tests must not do, wait or read clocks at import, and modules of the package, use each other's private names."""

from __future__ import annotations

import re

import pytest

from ..support.ratchets import early_clocks, private_uses_in_package, real_sleeps, sources

pytestmark = pytest.mark.lint


def test_no_test_waits_in_real_time_unless_it_is_slow() -> None:
    found = list(real_sleeps())
    assert found == [], "wait for a condition (`eventually`), mark virtual_time or slow; to hang: `forever()`"


def test_no_test_reads_a_clock_or_takes_a_port_when_its_module_is_imported() -> None:
    found = list(early_clocks())
    assert found == [], "read it in the test or in a fixture, which run minutes after the import"


def test_no_module_uses_a_private_name_of_another() -> None:
    found = list(private_uses_in_package())
    assert found == [], "give the name a public home and a docstring, or do what needs it in the module that has it"


def test_no_test_takes_a_returned_exception_for_a_raised_one() -> None:
    """`gather(return_exceptions=True)` cannot tell: `results_of` (support/waiting.py) can."""
    found = [name for name, _ in sources(re.compile(r"return_exceptions=True"))]
    assert sorted(found) == ["isolated/hostile_clients.py", "package/test_ratchets.py", "support/waiting.py"]
