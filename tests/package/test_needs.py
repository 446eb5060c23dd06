"""The report on skipped tests: a few lines, with the command that installs what is missing."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from ..support import needs
from ..support.places import ROOT


def test_a_program_that_is_missing_skips_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(needs, "_FOLDERS", ())
    with pytest.raises(pytest.skip.Exception, match=r"^node is not installed: apt-get install nodejs$"):
        needs.require("node")
    assert needs.mark("node").args == (True,)


def test_what_is_missing_is_one_line_for_each_command() -> None:
    reasons = Counter(
        {
            needs.reason("node"): 7,
            needs.reason("npm"): 1,
            needs.reason("redis-server"): 20,
            "could not import 'starlette.middleware.cors': No module named 'starlette'": 2,
            "web3 is not installed": 3,
            "the extra `websocket` is not installed": 4,
            "the extra `bench` is not installed": 6,
            "matplotlib is not installed (extra `bench`)": 1,
            "mypy is not installed (extra `dev`)": 1,
            "asyncio has no Unix sockets on Windows": 5,
        }
    )
    assert needs.summary(reasons) == [
        "5 skipped: asyncio has no Unix sockets on Windows",
        "7 skipped without bench, matplotlib: pip install -e '.[bench]' brings them",
        "1 skipped without mypy: pip install -e '.[dev]' brings them",
        "9 skipped without starlette.middleware.cors, web3, websocket: pip install -e '.[test]' brings them",
        "28 skipped without a program: apt-get install nodejs npm redis-server",
    ]


def test_the_page_for_contributors_names_every_program() -> None:
    packages = " ".join(sorted(set(needs.DEBIAN.values())))
    assert f"apt-get install {packages}\n" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_programs_whose_processes_come_and_go_start_without_pytest() -> None:
    """Importing pytest would take a fifth of the time in which a peer of theirs starts."""
    script = """
import sys

sys.modules["pytest"] = None
from tests.isolated import session_chaos, transport_soak
"""
    pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
