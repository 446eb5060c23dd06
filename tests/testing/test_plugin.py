"""The pytest plugin, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.places import ROOT

TESTS = """
import asyncio

def test_sessions(jsonrpc_sessions):
    async def main():
        async with jsonrpc_sessions({"add": lambda a, b: a + b}) as (client, server):
            assert await client.call("add", [1, 2]) == 3

    asyncio.run(main())

def test_calls(jsonrpc_calls, jsonrpc_sessions):
    jsonrpc_calls.expect("add", [1, 2]).respond(3)

    async def main():
        async with jsonrpc_sessions(jsonrpc_calls) as (client, server):
            assert await client.call("add", [1, 2]) == 3

    asyncio.run(main())
"""
UNMET = """
def test_calls(jsonrpc_calls):
    jsonrpc_calls.expect("add", [1, 2]).respond(3)
"""


def run(folder: Path) -> tuple[int, str]:
    (folder / "conftest.py").write_text('pytest_plugins = ["jsonrpc_fast.testing.plugin"]\n')
    (folder / "pytest.ini").write_text("[pytest]\n")  # otherwise pytest uses that of a project around the folder
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False, env=env)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.ci
def test_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(TESTS)
    status, text = run(tmp_path)
    assert (status, "2 passed" in text) == (0, True)


@pytest.mark.ci
def test_a_call_that_did_not_come(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(UNMET)
    status, text = run(tmp_path)
    assert (status, "missing: 'add' with [1, 2], 0 of 1 served" in text) == (1, True)


def test_an_installation_costs_nothing_where_the_plugin_is_not_used() -> None:
    """pytest rewrites all modules of a distribution with an entry point for it, in each run of everybody."""
    assert "pytest11" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
