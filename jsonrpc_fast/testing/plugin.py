"""The pytest plugin: fixtures for sessions in memory and expected calls.

    pytest_plugins = ["jsonrpc_fast.testing.plugin"]  # in conftest.py, beside the configuration of pytest

There is no entry point: with one, pytest rewrites and compiles the whole package in each run of everybody who has it
installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

try:
    import pytest
except ImportError as _error:
    raise ImportError('the plugin needs pytest: pip install "pytest>=8"') from _error

from ..session import Session
from . import ExpectedCalls, sessions

Sessions: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[Session, Session]]]


@pytest.fixture
def jsonrpc_sessions() -> Sessions:
    """A function that connects a client and a server in memory: `jsonrpc_fast.testing.sessions`."""
    return sessions


@pytest.fixture
def jsonrpc_calls() -> Iterator[ExpectedCalls]:
    """Expected calls, which are checked when the test has ended: `jsonrpc_fast.testing.ExpectedCalls`."""
    calls = ExpectedCalls()
    yield calls
    calls.check()
