from __future__ import annotations

import pytest

import jsonrpc_fast

from . import walks


def test_the_walk_of_a_tool_call_begins_with_its_bytes_and_ends_with_the_reply() -> None:
    pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
    walk = walks.call_tool()
    assert walk[0] == "transports/connection.py:Connection.received"
    assert "session/inbound.py:Serving._call" in walk
    assert walk[-1].startswith("transports/memory.py:")
    assert len(walk) == len(set(walk))


def test_the_compiled_core_cannot_be_seen() -> None:
    walk = walks.encode_result()
    assert (walk == []) == (jsonrpc_fast.BACKEND == "cython")
    assert all(function.startswith(("codec/", "support.py:")) for function in walk)


def test_the_walk_of_the_command_line() -> None:
    assert walks.check_file()[0].startswith("cli/")
