"""A handler's awaitable that will not be awaited is ended: its request is given up before the first step."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from jsonrpc_fast import encode_notification, encode_request
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import LspConvention, Session
from jsonrpc_fast.transports import memory_pair

from ..support.memory import collect
from ..support.tables import rows
from ..support.waiting import forever, settle

pytestmark = [pytest.mark.usefixtures("loop"), pytest.mark.timeout(60)]


@pytest.fixture(autouse=True)
def nothing_unawaited() -> Iterator[None]:
    """A coroutine that the test never awaits is reported in this test."""
    yield
    collect()


class Work:
    """An object with `__await__`, of which nothing has to be ended."""

    def __await__(self) -> Generator[Any, None, None]:
        return forever().__await__()


KINDS: dict[str, Callable[[], Any]] = {
    "coroutine": forever,
    "object": Work,
    "future": lambda: asyncio.get_running_loop().create_future(),
    "task": lambda: asyncio.get_running_loop().create_task(forever()),
}


async def cancel_tasks(session: Session, client: Any, others: set[Any]) -> None:
    while not (tasks := {task for task in asyncio.all_tasks() - others if task.get_name() == "m"}):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()


async def cancel_requests(session: Session, client: Any, others: set[Any]) -> None:
    for id in (2, 1):
        client.send(encode_notification("$/cancelRequest", {"id": id}))


async def lose_connection(session: Session, client: Any, others: set[Any]) -> None:
    client.abort()


async def close_session(session: Session, client: Any, others: set[Any]) -> None:
    await session.close(0)


@rows("give_up", [cancel_tasks, cancel_requests, lose_connection, close_session])
@rows("turns", [0, 1, 2, 3, 4, 5])
@rows("is_timed", [False, True])
@rows("kind", list(KINDS))
async def test_what_is_not_awaited_is_ended(kind: str, is_timed: bool, turns: int, give_up: Any) -> None:
    made: list[Any] = []

    def function() -> Any:
        made.append(KINDS[kind]())
        return made[-1]

    server, client = memory_pair()
    await client.start()
    handlers = Handlers({"m": function}, timeout=60 if is_timed else None)
    session = Session(server, handlers, convention=LspConvention(), max_handlers=1, max_inbox=1, close_seconds=0.01)
    await session.start()
    others = asyncio.all_tasks()
    for id in range(1, 5):  # one begins, one waits in the queue, and two are refused
        client.send(encode_request(id, "m"))
    for _ in range(turns):
        await asyncio.sleep(0)
    await give_up(session, client, others)
    await settle()
    await session.close(0)
    await client.disconnect()
    for work in made:
        if inspect.iscoroutine(work):
            assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
        elif not isinstance(work, Work):
            assert work.cancelled()


async def test_nothing_that_is_held_is_called_after_the_connection_is_lost() -> None:
    called: list[str] = []

    async def begin(name: str) -> None:
        called.append(name)
        await forever()

    server, client = memory_pair()
    await client.start()
    handlers = Handlers({"begin": begin}, timeout=60)
    handlers.register("first", begin, ordered=True)
    async with Session(server, handlers, close_seconds=0.01) as session:
        client.send(encode_request(1, "first", ["first"]))
        for id in range(2, 5):
            client.send(encode_request(id, "begin", ["held"]))
        await settle()
        client.abort()
        await session.wait_closed()
        await settle()
    assert called == ["first"]
