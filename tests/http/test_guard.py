"""Work that is cancelled when its time is over or its client is gone, on each loop; cancellation at every await."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from jsonrpc_fast.http import Endpoint
from jsonrpc_fast.http import guard as module
from jsonrpc_fast.http.guard import Cancellable, closing_fields

from ..support.asgi import Client
from ..support.clock import START
from ..support.tables import rows
from ..support.waiting import forever

pytestmark = [pytest.mark.usefixtures("each_loop"), pytest.mark.virtual_time]

log: list[str] = []


@pytest.fixture(autouse=True)
def short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.005)
    log.clear()


async def guarded(work: Coroutine[Any, Any, Any], **options: Any) -> Any:
    try:
        return await Cancellable(work, work.send(None), **options)
    except StopIteration as end:
        return end.value


async def steps(count: int) -> str:
    """Suspend several times; the second time is longer."""
    try:
        for number in range(count):
            await asyncio.sleep(0.001 if number == 1 else 0)
            log.append(f"step {number}")
    finally:
        log.append("end")
    return "done"


@rows(
    ("version", "headers", "closes"),
    [
        ("1.1", {b"content-length": b"5"}, True),
        ("1.0", {b"transfer-encoding": b"chunked"}, True),
        ("1.1", {b"content-length": b"0"}, False),
        ("1.1", {}, False),
        ("2", {b"content-length": b"5"}, False),
        ("2", {}, False),
    ],
)
def test_only_an_unread_body_of_http_1_closes_its_connection(
    version: str, headers: dict[bytes, bytes], closes: bool
) -> None:
    assert closing_fields({"http_version": version}, headers) == [(b"connection", b"close")] * closes


async def test_work_that_ends() -> None:
    for count in range(4):
        assert await guarded(steps(count), seconds=5) == "done"
    with pytest.raises(ZeroDivisionError):
        await guarded(fail(), seconds=5)


async def fail() -> None:
    await asyncio.sleep(0)
    raise ZeroDivisionError


async def test_work_that_fails_after_the_watch_has_begun_leaves_no_watcher() -> None:
    """`run` (support/async_tests.py) fails if a task is left."""

    async def fail_late() -> None:
        await asyncio.sleep(4 * module.WATCH_SECONDS)
        raise ZeroDivisionError

    async def receive() -> Any:
        log.append("watched")
        await forever()

    with pytest.raises(ZeroDivisionError):
        await guarded(fail_late(), receive=receive)
    assert log == ["watched"]
    await asyncio.sleep(0)


async def test_its_time_is_over() -> None:
    assert await guarded(asyncio.sleep(60, "late"), seconds=0.01) is None
    assert asyncio.get_running_loop().time() < START + 1
    await asyncio.sleep(0)  # the task was not left cancelled
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_work_that_does_not_end_at_once() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
            return "late"
        return "never cancelled"

    assert await guarded(stubborn(), seconds=0.01) == "late"
    await asyncio.sleep(0)


@rows("ticks", range(1, 7))
async def test_cancelled_from_elsewhere(ticks: int) -> None:
    """At each of its awaits, and it leaves nothing behind."""
    log.clear()
    task = asyncio.create_task(guarded(steps(5), seconds=5))
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log in ([], [*log[:-1], "end"])


async def test_cancelled_by_both() -> None:
    """What was cancelled from elsewhere stays cancelled."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.02, task.cancel)
        try:
            await asyncio.sleep(60)
        finally:
            assert asyncio.get_running_loop().time() < START + 0.01  # its time is over
            await asyncio.sleep(0.03)  # the other cancellation arrives here

    task = asyncio.create_task(guarded(work(), seconds=0.005))
    with pytest.raises(asyncio.CancelledError):
        await task


async def wait(seconds: float = 60) -> str:
    log.append("begin")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        log.append("cancelled")
        raise
    log.append("end")
    return "done"


WAIT = b'{"jsonrpc":"2.0","id":1,"method":"wait","params":[%s]}'
ENDPOINT = Endpoint({"wait": wait})


async def run(client: Client) -> None:
    await ENDPOINT(client.scope, client.receive, client.send)


@rows("body", [WAIT % b"", b"[%s,%s]" % (WAIT % b"", WAIT % b"50")])
async def test_the_client_goes(body: bytes) -> None:
    log.clear()
    client = Client([body, b""])
    task = asyncio.create_task(run(client))
    await asyncio.sleep(0.02)
    assert set(log) == {"begin"}
    client.gone.set()
    await task
    assert client.answer is None
    assert log.count("cancelled") == log.count("begin")


async def test_the_client_stays() -> None:
    before = asyncio.all_tasks()
    client = Client(WAIT % b"0.02")
    await run(client)
    assert client.answer is not None
    assert client.answer.body == b'{"jsonrpc":"2.0","id":1,"result":"done"}'
    assert asyncio.all_tasks() <= before


@rows("milliseconds", [0, 1, 4, 5, 6, 9, 10, 11, 14])
async def test_the_client_goes_at_any_time(milliseconds: int) -> None:
    """Before the watch, while it begins, and when the function ends: a response or none, and the task continues."""
    log.clear()
    client = Client(WAIT % b"0.01")
    asyncio.get_running_loop().call_later(milliseconds / 1000, client.gone.set)
    await run(client)
    assert log == ["begin", "cancelled" if milliseconds < 10 else "end"]
    assert (client.answer is None) is (milliseconds < 10)
    await asyncio.sleep(0.01)


@rows("ticks", range(8))
async def test_the_server_cancels_a_request(ticks: int) -> None:
    log.clear()

    async def slow_receive() -> Any:
        await asyncio.sleep(0)
        return await client.receive()

    client = Client([WAIT[:5], WAIT[5:] % b""])
    task = asyncio.create_task(ENDPOINT(client.scope, slow_receive, client.send))
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert client.answer is None
    assert log.count("begin") == log.count("cancelled")


async def test_a_function_that_returns_although_it_is_cancelled() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "late"
        return "never"

    client = Client(b'{"jsonrpc":"2.0","id":1,"method":"stubborn"}')
    asyncio.get_running_loop().call_later(0.01, client.gone.set)
    await Endpoint({"stubborn": stubborn})(client.scope, client.receive, client.send)
    assert client.answer is not None
    assert client.answer.body == b'{"jsonrpc":"2.0","id":1,"result":"late"}'
    assert asyncio.get_running_loop().time() < START + 1
    await asyncio.sleep(0)


async def test_a_receive_that_returns_although_it_is_cancelled() -> None:
    async def receive() -> Any:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            return {"type": "http.disconnect"}

    cancelled: list[bool] = []
    assert await guarded(wait(0.02), receive=receive) == "done"
    assert cancelled == [True]
    await asyncio.sleep(0)
