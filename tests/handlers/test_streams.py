"""Async generators as handlers, without a session: their items are one list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jsonrpc_fast import encode_notification, encode_request
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import CallNext, Handlers, RequestContext, options

from ..support.tables import rows

ended: list[str] = []


async def count(upto: int) -> AsyncIterator[int]:
    try:
        for number in range(upto):
            await asyncio.sleep(0)
            yield number
    finally:
        ended.append("count")


async def count_in_context(context: RequestContext, upto: int) -> AsyncIterator[str]:
    for number in range(upto):
        yield f"{context.method} {number}"


async def fail(upto: int) -> AsyncIterator[int]:
    for number in range(upto):
        yield number
    raise RpcError(5, "no")


class Counter:
    async def __call__(self, upto: int) -> AsyncIterator[int]:
        for number in range(upto):
            yield number


@rows(
    ("function", "options", "params", "answer"),
    [
        (count, {}, [3], '"result":[0,1,2]'),
        (count, {}, {"upto": 0}, '"result":[]'),
        (count, {"typed": True}, ["x"], '"error":{"code":-32602'),
        (count, {"typed": True}, {"upto": 2}, '"result":[0,1]'),
        (count, {"timeout": 5}, [1], '"result":[0]'),
        (count, {"ordered": True}, [1], '"result":[0]'),
        (count, {}, [], '"error":{"code":-32602'),
        (count_in_context, {}, [2], '"result":["m 0","m 1"]'),
        (fail, {}, [2], '"error":{"code":5,"message":"no"}'),
        (Counter(), {}, [2], '"result":[0,1]'),
    ],
)
async def test_the_items_are_the_result(function: Any, options: Any, params: Any, answer: str) -> None:
    if "typed" in options:
        pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
    handlers = Handlers()
    handlers.register("m", function, **options)
    assert answer in (await handlers.dispatch_async(encode_request(1, "m", params))).decode()


async def test_middleware_sees_the_result() -> None:
    seen: list[Any] = []

    async def around(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        seen.append(await call_next(params))
        return seen[-1]

    handlers = Handlers({"m": count}, middleware=[around])
    assert b"[0,1]" in await handlers.dispatch_async(encode_request(1, "m", [2]))
    assert seen == [[0, 1]]


async def test_the_items_of_a_notification_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "MAX_ITEMS", 1)
    ended.clear()
    assert await Handlers({"m": count}).dispatch_async(encode_notification("m", [5])) == b""
    assert ended == ["count"]


async def test_too_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "MAX_ITEMS", 3)
    ended.clear()
    handlers = Handlers({"m": count})
    assert b"[0,1,2]" in await handlers.dispatch_async(encode_request(1, "m", [3]))
    assert b'"message":"too many items for one response"' in await handlers.dispatch_async(encode_request(1, "m", [4]))
    assert ended == ["count"] * 2


def test_dispatch_cannot_await() -> None:
    assert b"-32603" in Handlers({"m": count}).dispatch(encode_request(1, "m", [1]))


def test_a_thread_cannot_run_one() -> None:
    with pytest.raises(TypeError, match="async"):
        Handlers().register("m", count, thread=True)
