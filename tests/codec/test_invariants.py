"""What the core relies on in CPython is checked when it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jsonrpc_fast

BREAK_SLOTS = """
import sys, types
package = sys.modules["jsonrpc_fast"] = types.ModuleType("jsonrpc_fast")
package.__path__ = [sys.argv[1]]  # so that errors.py is there before the core
from jsonrpc_fast.errors import ParseError
{change}
from jsonrpc_fast.codec import _backend
print(_backend.BACKEND, _backend.CORE_FAULT)
"""


def backend_after(change: str) -> str:
    folder = Path(jsonrpc_fast.__file__).parent
    command = [sys.executable, "-c", BREAK_SLOTS.format(change=change), str(folder)]
    env = {name: value for name, value in os.environ.items() if name != "JSONRPC_FAST_PURE"}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.mark.skipif(jsonrpc_fast.BACKEND != "cython", reason="the core is not in use")
def test_where_an_invariant_does_not_hold_the_pure_backend_is_used() -> None:
    assert backend_after("pass") == "cython None"
    broken = "python this Python does not keep what the core relies on: exceptions"
    assert backend_after("ParseError._offset = ParseError._index") == broken
