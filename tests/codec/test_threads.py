"""Threads that use the same decoders, messages and caches. `tests/isolated/threads.py` runs the same for longer."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from ..isolated import threads
from ..support.tables import rows

WITHOUT_GIL = """
import sys
sys._is_gil_enabled = lambda: False
import jsonrpc_fast.codec as codec
print(codec.BACKEND, codec.CORE_FAULT, sep=": ")
"""


@rows("max_items", [None, 1])
@rows("framing", threads.FRAMINGS)
def test_a_shared_decoder_returns_each_message_once(impl: ModuleType, framing: str, max_items: int | None) -> None:
    threads.share_a_decoder(impl, framing, max_items, 60)


@rows("framing", threads.FRAMINGS)
def test_torn_messages_do_no_harm(impl: ModuleType, framing: str) -> None:
    threads.tear_messages(impl, framing, 60, 1)


def test_messages_profiles_and_payloads_are_shared(impl: ModuleType) -> None:
    threads.share_messages(impl, 60)


def test_the_core_is_not_used_without_the_gil(impl: ModuleType) -> None:
    if not impl.__name__.endswith("_core"):
        pytest.skip("about the core")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_GIL],
        env={**os.environ, "JSONRPC_FAST_PURE": ""},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "python: the core needs the GIL, which PYTHON_GIL=0 or -X gil=0 keeps off\n"
