"""Cancelling a part of a task leaves the rest running, and a cancellation of the task propagates."""

from __future__ import annotations

import asyncio

import pytest

from jsonrpc_fast.support import TaskPart

from .support.tables import rows

pytestmark = pytest.mark.usefixtures("each_loop")


class Work:
    """A task with a part that waits until it is cancelled, unless `catches`: then the part continues after that."""

    def __init__(self, catches: bool = False) -> None:
        self.part: TaskPart
        self.task = asyncio.get_running_loop().create_task(self._run(catches))

    async def _run(self, catches: bool) -> str:
        with TaskPart() as self.part:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                if not catches:
                    raise
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "went on"


@rows("catches", [False, True])
async def test_a_part_is_cancelled_alone(catches: bool) -> None:
    work = Work(catches)
    await asyncio.sleep(0)
    assert work.part.task is work.task
    assert work.part.cancel()
    assert await work.task == "went on"
    assert not work.part.is_task_cancelled
    assert not work.part.cancel()


@rows("also_the_part", [False, True])
async def test_a_cancellation_of_the_task_goes_on(also_the_part: bool) -> None:
    work = Work()
    await asyncio.sleep(0)
    if also_the_part:
        work.part.cancel()
    work.task.cancel()
    await asyncio.wait([work.task])
    assert work.task.cancelled()
    assert work.part.is_task_cancelled


async def test_another_exception_passes() -> None:
    with pytest.raises(ValueError, match="of the block"), TaskPart() as part:
        raise ValueError("of the block")
    assert not part.cancel()
    assert part.cancellations == 0
