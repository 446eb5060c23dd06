"""What an exception of a function ends, and what is undone when one is raised."""

from __future__ import annotations

import ast
import asyncio

import pytest

from jsonrpc_fast.handlers.failures import is_failure, on_failure

from ..support.places import PACKAGE
from ..support.tables import rows


class Cancelled(BaseException):
    """Like trio's."""


@rows(
    ("error", "expected"),
    [
        (ValueError(), True),
        (SystemExit(), True),
        (KeyboardInterrupt(), False),
        (Cancelled(), False),
        (None, False),
        (asyncio.CancelledError(), True),  # there is no task that could be cancelled
    ],
)
def test_which_exceptions_fail_only_the_message(error: BaseException | None, expected: bool) -> None:
    assert is_failure(error) is expected


async def test_the_cancellation_of_the_task_itself_passes_on() -> None:
    found = []

    async def wait() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        for waited in (future, asyncio.get_running_loop().create_future()):
            try:
                await waited
            except asyncio.CancelledError as error:
                found.append(is_failure(error))

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert found == [True, False]


@rows("error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, Cancelled])
async def test_what_was_begun_is_undone_whatever_is_raised(error: type[BaseException]) -> None:
    undone = []

    async def undo() -> None:
        await asyncio.sleep(0)
        undone.append("async")

    with pytest.raises(error), on_failure(lambda: undone.append("sync")):
        raise error
    with pytest.raises(error):
        async with on_failure(lambda: undone.append("sync")):
            raise error
    with pytest.raises(error):
        async with on_failure(undo):
            raise error
    assert undone == ["sync", "sync", "async"]


async def test_nothing_is_undone_without_a_failure() -> None:
    undone: list[str] = []
    with on_failure(lambda: undone.append("sync")):
        pass
    async with on_failure(lambda: undone.append("sync")):
        pass
    assert undone == []


@pytest.mark.ci
def test_few_places_catch_whatever_is_raised() -> None:
    found = []
    for folder in ("handlers", "http", "mcp"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            handlers = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ExceptHandler)]
            names = [ast.unparse(handler.type) if handler.type else "" for handler in handlers]
            found += [path.relative_to(PACKAGE).as_posix() for name in names if name in ("", "BaseException")]
    assert found == ["handlers/awaiting.py", "handlers/awaiting.py", "mcp/server/connection.py"]
