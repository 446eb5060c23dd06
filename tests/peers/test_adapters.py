"""The command that measures libraries with their adapters."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..support.places import ROOT


@pytest.mark.ci
def test_it_measures_the_core_or_nothing() -> None:
    command = [sys.executable, "-m", "tests.peers.adapters", "--no-tests", "json"]
    environment = {**os.environ, "JSONRPC_FAST_PURE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the core, which is not in use: JSONRPC_FAST_PURE is set" in done.stderr
