"""Tests of a client: what it sends, and what it does with the responses.

pip install pytest
pytest examples/test_prices.py
"""

import asyncio

import pytest

from jsonrpc_fast import RpcError
from jsonrpc_fast.session import Session
from jsonrpc_fast.testing import ExpectedCalls, sessions


async def total(session: Session, *items: str) -> float:
    """The client that is tested."""
    return sum([await session.call("price", {"item": item}, returns=float) for item in items])


async def total_of(calls: ExpectedCalls, *items: str) -> float:
    async with sessions(calls) as (client, _):
        return await total(client, *items)


def test_the_total(jsonrpc_calls: ExpectedCalls) -> None:
    jsonrpc_calls.expect("price", {"item": "tea"}).respond(2.5)
    jsonrpc_calls.expect("price", {"item": "milk"}).respond(1.5)
    assert asyncio.run(total_of(jsonrpc_calls, "tea", "milk")) == 4.0


def test_an_unknown_item(jsonrpc_calls: ExpectedCalls) -> None:
    jsonrpc_calls.expect("price").respond_error(404, "no such item")
    with pytest.raises(RpcError, match="no such item"):
        asyncio.run(total_of(jsonrpc_calls, "gold"))
