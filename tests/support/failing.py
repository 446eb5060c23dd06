"""Functions of a user that fail, in every way and with every kind of exception."""

from __future__ import annotations

import asyncio
from typing import Any


def raising(error: BaseException) -> Any:
    def function(*arguments: Any) -> Any:
        raise error

    return function


def raising_later(error: BaseException) -> Any:
    async def function(*arguments: Any) -> Any:
        await asyncio.sleep(0)
        raise error

    return function


async def of_a_cancelled_future(*arguments: Any) -> Any:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.cancel)
    await future


ERRORS = [ValueError("in secret-token"), SystemExit("in secret-token"), asyncio.CancelledError("in secret-token")]

FAILING_SYNC = [raising(error) for error in ERRORS]
FAILING_ASYNC = [*map(raising_later, ERRORS), of_a_cancelled_future]
FAILING = FAILING_SYNC + FAILING_ASYNC
