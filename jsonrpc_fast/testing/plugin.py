"""The pytest plugin: fixtures for sessions in memory, expected calls and recorded servers.

    pytest_plugins = ["jsonrpc_fast.testing.plugin"]  # in conftest.py, beside the configuration of pytest

There is no entry point: with one, pytest rewrites and compiles the whole package in each run of everybody who has it
installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

try:
    import pytest
except ImportError as _error:
    raise ImportError('the plugin needs pytest: pip install "pytest>=8"') from _error

from ..session import Session
from ..transports import Transport
from . import ExpectedCalls, recorded, replayed, sessions

Sessions: TypeAlias = Callable[..., AbstractAsyncContextManager[tuple[Session, Session]]]
Recording: TypeAlias = Callable[..., AbstractAsyncContextManager[Transport]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--jsonrpc-record", action="store_true", help="record the conversations of jsonrpc_recording with real servers"
    )


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


@pytest.fixture
def jsonrpc_recording(request: pytest.FixtureRequest) -> Recording:
    """A function that opens a recorded server, or the real one with `--jsonrpc-record`.

    It is called with the name of the recording, which is a file in the folder `recordings` next to the test, and a
    function that returns a transport to the real server. Further arguments are those of
    `jsonrpc_fast.testing.replayed`.
    """
    folder = request.path.parent / "recordings"
    is_recorded = request.config.getoption("jsonrpc_record")

    def opened(
        name: str, make_transport: Callable[[], Transport], **options: Any
    ) -> AbstractAsyncContextManager[Transport]:
        path: Path = folder / f"{name}.ndjson"
        if is_recorded:
            return recorded(path, make_transport())
        if not path.is_file():
            pytest.fail(f"there is no recording {name}: make it with --jsonrpc-record", pytrace=False)
        return replayed(path, **options)

    return opened
