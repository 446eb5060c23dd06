"""A test that is dearer than its tier fails, and what a run leaves out runs if its file is named."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.needs import unmeasured
from ..support.places import ROOT

CONFTEST = """
from tests.conftest import *
from tests.support import tiers
tiers.LIMITS.update(default=0.04, ci=1.0)
tiers.MARGIN = 2.0
tiers.pace = lambda: tiers.PACE
"""
TESTS = """
import subprocess, sys, time
import pytest

def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(10_000))

warm = []

def test_cheap(): pass
def test_dear(): work(0.2)
def test_dear_child():
    code = "import time\\nwhile time.process_time() < 0.2: sum(range(10_000))"
    subprocess.run([sys.executable, "-S", "-c", code])

def test_dear_the_first_time():
    if not warm:
        warm.append(work(0.2))
@pytest.mark.ci
def test_dear_and_marked(): work(0.2)
@pytest.mark.slow
def test_slow(): pass
def test_fails_and_is_dear():
    work(0.2)
    assert False, "its own failure"
"""


def run(folder: Path, *arguments: str) -> str:
    """Run the tests above in a folder, and return what pytest prints."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_costs.py").write_text(TESTS)
    options = ("-q", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *options, "-rA", *arguments]
    env = unmeasured(PYTHONPATH=str(ROOT), HYPOTHESIS_PROFILE="dev")
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.ci
def test_a_test_that_is_dearer_than_its_tier_fails(tmp_path: Path) -> None:
    everything = run(tmp_path, "test_costs.py")
    passed = {line.partition("::")[2] for line in everything.splitlines() if line.startswith("PASSED")}
    assert passed == {"test_cheap", "test_dear_the_first_time", "test_dear_and_marked"}, everything
    # On a CI machine, pytest prints the reasons twice.
    assert set(re.findall(r"::(\w+) passed, but took", everything)) == {"test_dear", "test_dear_child"}
    assert "its own failure" in everything
    assert "1 test left out: --slow includes them" in everything


@pytest.mark.ci
def test_a_run_that_names_no_file_leaves_out_the_tests_of_ci(tmp_path: Path) -> None:
    assert "1 test left out: --ci includes them" in run(tmp_path, ".", "-k", "marked")
    assert "PASSED test_costs.py::test_dear_and_marked" in run(tmp_path, ".", "-k", "marked", "--ci")
