"""How the tests are run: an async one must leave nothing behind, and a run says how many slow ones it left out."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..support.async_tests import make_callable, run
from ..support.places import ROOT
from ..support.tables import rows
from ..support.waiting import forever


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


def test_a_test_has_its_arguments_and_its_loop() -> None:
    seen: list[int] = []

    async def note(number: int) -> None:
        assert asyncio.get_running_loop().is_running()
        seen.append(number)

    made_callable(note)(number=7)
    assert seen == [7]


def test_hypothesis_finds_what_an_async_test_refuses() -> None:
    @given(st.integers(0, 100))
    async def test(number: int) -> None:
        await asyncio.sleep(0)
        assert number < 50, f"refused {number}"

    with pytest.raises(AssertionError, match=r"^refused 50"):
        made_callable(test)()


@rows(("options", "said"), [([], True), (["--slow"], False)])
@pytest.mark.slow
def test_a_run_says_what_it_left_out(options: list[str], said: bool) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "a_slow_one or limited", *options]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    run = subprocess.run([*command, __file__], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout
    assert ("\n1 slow test left out: run it with --slow\n" in run.stdout) is said
    assert ("2 passed" in run.stdout) is not said


@pytest.mark.slow
def test_a_slow_one() -> None:
    """For the test above."""
