"""How the tests are run: an async one must leave nothing behind, and has a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..support.async_tests import make_callable, run
from ..support.tables import rows
from ..support.waiting import forever, results_of


async def leave_a_task() -> None:
    leave_a_task.kept = asyncio.get_running_loop().create_task(forever(), name="left")  # type: ignore[attr-defined]


async def leave_a_timer() -> None:
    asyncio.get_running_loop().call_later(60, print)


async def make_the_loop_report() -> None:
    asyncio.get_running_loop().call_exception_handler({"message": "left"})


@rows("test", [leave_a_task, leave_a_timer, make_the_loop_report])
def test_a_test_that_leaves_something_behind_fails(test: Callable[[], Any]) -> None:
    with pytest.raises(AssertionError, match=r"left|TimerHandle"):
        run(test())


def made_callable(test: Callable[..., Awaitable[None]], *marks: pytest.Mark) -> Callable[..., None]:
    item: Any = SimpleNamespace(obj=test, get_closest_marker={mark.name: mark for mark in marks}.get)
    make_callable(item)
    return item.obj  # type: ignore[no-any-return]


def test_a_test_has_a_limited_time() -> None:
    async def wait() -> None:
        await forever()

    with pytest.raises(asyncio.TimeoutError):
        made_callable(wait, pytest.mark.time_limit(0.01).mark)()


@pytest.mark.ci
def test_hypothesis_finds_what_an_async_test_refuses() -> None:
    @given(st.integers(0, 100))
    async def test(number: int) -> None:
        await asyncio.sleep(0)
        assert number < 50, f"refused {number}"

    with pytest.raises(AssertionError, match=r"^refused 50"):
        made_callable(test)()


async def test_an_exception_that_is_returned_is_no_outcome() -> None:
    async def of(value: Any) -> Any:
        return value

    async def fail(error: BaseException) -> Any:
        raise error

    error, cancelled = ValueError("x"), asyncio.CancelledError()
    assert await results_of(of(1), fail(error), of([error])) == [1, error, [error]]
    assert [type(found) for found in await results_of(fail(cancelled))] == [asyncio.CancelledError]
    with pytest.raises(AssertionError, match=r"^returned, and not raised: ValueError\('x'\)"):
        await results_of(of(1), of(error))
