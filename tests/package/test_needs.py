"""What tests need that may not be installed: they are skipped with the command that installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ..support import needs
from ..support.places import ROOT

pytestmark = pytest.mark.lint


def test_a_program_that_is_missing_skips_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(needs, "_FOLDERS", ())
    with pytest.raises(pytest.skip.Exception, match=r"^node is not installed: apt-get install nodejs$"):
        needs.require("node")
    assert needs.mark("node").args == (True,)


def test_the_page_for_contributors_names_every_program() -> None:
    packages = " ".join(sorted(set(needs.DEBIAN.values())))
    assert f"apt-get install {packages}\n" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.mark.ci
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
