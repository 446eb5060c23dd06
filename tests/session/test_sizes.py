"""The memory of params."""

from __future__ import annotations

import time

from jsonrpc_fast import Raw
from jsonrpc_fast.session.room import memory_of


def test_the_memory_of_params_is_counted_up_to_a_bound() -> None:
    """A container over the bound is recognised by its length, without visiting its items."""
    assert memory_of(None, 1000) == 0
    assert 1000 < memory_of({"a": ["x" * 1000]}, 10_000) < 2000
    assert 10_000 < memory_of([[1] * 10] * 100, 100_000) < 100_000
    assert memory_of(Raw(b'["' + b"x" * 1000 + b'"]'), 100) > 1000
    params = [0] * 1_000_000
    assert memory_of({"a": params, "b": "x"}, 1000) > 1000
    began = time.thread_time()
    for _ in range(1000):
        memory_of(params, 1_000_000)
    assert time.thread_time() - began < 5
