"""Expected calls: what is served, and what `check` reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import pytest

from jsonrpc_fast.errors import CallTimeout, RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.testing import Expectation, ExpectedCalls, sessions

from ..support.tables import rows
from ..support.waiting import settle


async def test_responses() -> None:
    async def later(params: Any) -> Any:
        await asyncio.sleep(0)
        return [params]

    calls = ExpectedCalls()
    calls.expect("null")
    calls.expect("price", {"item": "tea"}).respond(2.5)
    calls.expect("price", {"item": ANY}).respond_error(5, "no", [1])
    calls.expect("later", [1]).respond_with(later)
    calls.expect("note")
    async with sessions(calls) as (client, _):
        assert await client.call("null") is None
        assert await client.call("price", {"item": "tea"}) == 2.5
        with pytest.raises(RpcError) as caught:
            await client.call("price", {"item": "tea"})
        assert (caught.value.code, caught.value.message, caught.value.data) == (5, "no", [1])
        assert await client.call("later", [1]) == [[1]]
        await client.notify("note", [2])
        await settle()
    calls.check()
    assert calls.messages[2:] == [("price", {"item": "tea"}), ("later", [1]), ("note", [2])]


@pytest.mark.virtual_time
async def test_silence() -> None:
    calls = ExpectedCalls()
    calls.expect("wait").stay_silent()
    async with sessions(calls) as (client, _):
        with pytest.raises(CallTimeout):
            await client.call("wait", timeout=100)
    calls.check()


async def test_times() -> None:
    calls = ExpectedCalls()
    calls.expect("a").times(2).respond(1)
    calls.expect("a").respond(2)
    calls.expect("b").times(None).respond(3)
    calls.expect("c").times(0)
    async with sessions(calls) as (client, _):
        assert [await client.call("a") for _ in range(3)] == [1, 1, 2]
        calls.check()
        assert [await client.call("b") for _ in range(3)] == [3, 3, 3]
    calls.check()


Act = Callable[[ExpectedCalls], Expectation]


@rows(
    "expect, text",
    [
        (lambda calls: calls.expect("b", [1]), "unexpected: 'a' with [1]\nmissing: 'b' with [1], 0 of 1 served"),
        (lambda calls: calls.expect("a", [2]), "unexpected: 'a' with [1]\nmissing: 'a' with [2], 0 of 1 served"),
        (lambda calls: calls.expect("a", None), "unexpected: 'a' with [1]\nmissing: 'a' with None, 0 of 1 served"),
        (lambda calls: calls.expect("a").times(0), "unexpected: 'a' with [1]"),
        (lambda calls: calls.expect("a").times(2), "missing: 'a' with any params, 1 of 2 served"),
    ],
)
def test_check(expect: Act, text: str) -> None:
    calls = ExpectedCalls()
    expect(calls)
    response = calls.dispatch('{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}')
    reason = b'"error":{"code":-32601,"message":"the test does not expect \'a\' with [1]"}'
    assert (reason in response) == ("unexpected" in text)
    with pytest.raises(AssertionError) as caught:
        calls.check()
    assert str(caught.value) == text


def test_raw_params_and_functions_beside() -> None:
    calls = ExpectedCalls()
    calls.expect("a", [1]).respond(1)
    calls.register("own", lambda: 2)
    dispatch = calls.prepare(raw=True)
    assert b'"result":1' in dispatch.serve(b'{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}')
    assert b'"result":2' in dispatch.serve(b'{"jsonrpc":"2.0","id":1,"method":"own"}')
    calls.check()
    assert isinstance(calls, Handlers)


@rows(
    "act, error",
    [
        (lambda calls: calls.expect(1), TypeError),
        (lambda calls: calls.expect("a").times(-1), ValueError),
        (lambda calls: calls.expect("a").respond_with(1), TypeError),
    ],
)
def test_wrong_arguments(act: Callable[[Any], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        act(ExpectedCalls())
