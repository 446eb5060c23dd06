"""The pytest plugin of jsonrpc_fast: fixtures for sessions in memory, expected calls and recorded servers.

It is a module next to the package, and each fixture imports what it needs, so that tests without them do not import the
package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jsonrpc_fast.session import Session
    from jsonrpc_fast.testing import ExpectedCalls
    from jsonrpc_fast.transports import Transport

    Sessions = Callable[..., AbstractAsyncContextManager[tuple[Session, Session]]]
    Recording = Callable[..., AbstractAsyncContextManager[Transport]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--jsonrpc-record", action="store_true", help="record the conversations of jsonrpc_recording with real servers"
    )


@pytest.fixture
def jsonrpc_sessions() -> Sessions:
    """A function that connects a client and a server in memory: `jsonrpc_fast.testing.sessions`."""
    from jsonrpc_fast.testing import sessions

    return sessions


@pytest.fixture
def jsonrpc_calls() -> Iterator[ExpectedCalls]:
    """Expected calls, which are checked when the test has ended: `jsonrpc_fast.testing.ExpectedCalls`."""
    from jsonrpc_fast.testing import ExpectedCalls

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
    from jsonrpc_fast.testing import recorded, replayed

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
