"""The relay's bounds, flow control and closing."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from jsonrpc_fast import MCP_2025_11_25, Raw
from jsonrpc_fast.errors import RpcError, StateError
from jsonrpc_fast.mcp.relay import Relay
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.base import HIGH_WATER_BYTES
from jsonrpc_fast.transports.memory import memory_pair
from jsonrpc_fast.transports.stdio.client import StdioClient

from ..support.mcp_relay import LISTEN, SUBSCRIBED, End, over, relayed, turns

pytestmark = pytest.mark.timeout(60)


@over(max_pending=2)
async def test_only_so_many_requests_wait(left: End, right: End, faults: list[Any]) -> None:
    await left.send(*[b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % id for id in range(3)])
    error = b'{"code":-32000,"message":"too many requests wait for the other side"}'
    assert left.take() == [b'{"jsonrpc":"2.0","id":2,"error":%b}' % error]
    await right.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}', b'{"jsonrpc":"2.0","id":2,"result":1}')
    await left.send(b'{"jsonrpc":"2.0","id":2,"method":"m"}')
    assert right.take()[2:] == [b'{"jsonrpc":"2.0","id":3,"method":"m"}']


@over()
async def test_a_lost_side_answers_what_waits_for_it_and_closes_the_other(
    left: End, right: End, faults: list[Any]
) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":"a","method":"m"}', b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    await right.transport.disconnect()
    await turns()
    error = b'{"code":-32000,"message":"the connection to the other side is closed"}'
    assert left.take() == [b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id, error) for id in (b'"a"', b"1")]
    assert left.is_closed


async def test_a_side_that_ends_its_stream_gets_its_answers_first() -> None:
    async with relayed() as (left, right, _, relay):
        await left.send(b'{"jsonrpc":"2.0","id":5,"method":"m"}', b'{"jsonrpc":"2.0","id":6,"method":"m"}')
        await right.send(b'{"jsonrpc":"2.0","id":1,"method":"r"}')
        left.take(), right.take()
        await left.end()
        error = b'{"code":-32000,"message":"the connection to the other side is closed"}'
        assert right.take() == [b'{"jsonrpc":"2.0","id":1,"error":%b}' % error]
        await right.send(b'{"jsonrpc":"2.0","id":2,"method":"r"}', b'{"jsonrpc":"2.0","id":1,"result":5}')
        assert right.take() == [b'{"jsonrpc":"2.0","id":2,"error":%b}' % error]
        assert left.take() == [b'{"jsonrpc":"2.0","id":5,"result":5}']
        assert not right.is_closed
        await right.send(b'{"jsonrpc":"2.0","id":2,"result":6}')
        await relay.wait_closed()
        await turns()
        assert left.take() == [b'{"jsonrpc":"2.0","id":6,"result":6}']


async def test_a_subscription_is_not_waited_for() -> None:
    async with relayed(MCP_2025_11_25) as (left, right, _, relay):
        await left.send(LISTEN, b'{"jsonrpc":"2.0","id":1,"method":"m"}')
        await left.end()
        assert left.take() == []
        await right.send(b'{"jsonrpc":"2.0","id":2,"result":{}}')
        await asyncio.wait_for(relay.wait_closed(), 1)
        await turns()
        error = b'{"code":-32000,"message":"the connection to the other side is closed"}'
        assert left.take() == [
            b'{"jsonrpc":"2.0","id":1,"result":{}}',
            b'{"jsonrpc":"2.0","id":"s","error":%b}' % error,
        ]


async def test_closing_that_is_cancelled_drops_what_is_not_written() -> None:
    async with relayed() as (left, right, _, relay):
        right.transport.pause_reading()
        await left.send(b'{"jsonrpc":"2.0","method":"n","params":["' + b"x" * 1_000_000 + b'"]}')
        closing = asyncio.create_task(relay.close())
        await turns()
        assert not closing.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await asyncio.wait_for(relay.wait_closed(), 1)
        right.transport.resume_reading()
        await turns()
        assert right.take() == []


async def test_a_side_that_waits_in_vain_is_closed_all_the_same() -> None:
    async with relayed(close_seconds=0.05) as (left, right, _, relay):
        await left.send(b'{"jsonrpc":"2.0","id":5,"method":"m"}')
        await left.end()
        assert not right.is_closed
        await relay.wait_closed()
        await turns()
        assert right.is_closed
        error = b'{"code":-32000,"message":"the connection to the other side is closed"}'
        assert left.take() == [b'{"jsonrpc":"2.0","id":5,"error":%b}' % error]


async def test_closing_answers_what_is_in_flight() -> None:
    async with relayed() as (left, right, _, relay):
        await left.send(b'{"jsonrpc":"2.0","id":5,"method":"m"}')
        await right.send(b'[{"jsonrpc":"2.0","id":6,"method":"m"},{"jsonrpc":"2.0","id":7,"method":"m"}]')
        left.take(), right.take()
        await asyncio.gather(relay.close(), relay.close())
        await turns()
        error = b'"error":{"code":-32000,"message":"the connection to the other side is closed"}}'
        assert left.take() == [b'{"jsonrpc":"2.0","id":5,%b' % error]
        assert right.take() == [b'[{"jsonrpc":"2.0","id":6,%b,{"jsonrpc":"2.0","id":7,%b]' % (error, error)]
        assert left.is_closed
        assert right.is_closed


async def test_a_relay_starts_once_and_closes_what_it_started() -> None:
    outer, inner = memory_pair(raw=True)
    relay = Relay(inner, StdioClient(["/no/such/program"], raw=True))
    with pytest.raises(StateError):
        await relay.wait_closed()
    await relay.close()
    with pytest.raises(OSError, match="No such file"):
        await relay.start()
    assert not inner.is_connected
    with pytest.raises(StateError):
        await relay.start()
    await outer.disconnect()


async def test_what_is_not_raw_is_written_again() -> None:
    (outer_left, left), (outer_right, right) = memory_pair(), memory_pair()
    async with (
        Relay(left, right),
        Session(outer_right, {"add": lambda a, b: a + b}),
        Session(outer_left) as session,
    ):
        assert await session.call("add", [1, 2.5]) == 3.5
        deep = b"[" * 300 + b"]" * 300
        outer_left.send(b'{"jsonrpc":"2.0","method":"n","params":%b}' % deep)
        with pytest.raises(RpcError) as caught:
            await session.call("add", Raw(deep))
        assert caught.value.code == -32603
        assert await session.call("add", [1, 2]) == 3
        # An answer that can be read, but not written again.
        answer = b'{"jsonrpc":"2.0","id":%d,"result":%b}'
        outer_right.onmessage = lambda message: outer_right.send(answer % (message.id, deep))
        with pytest.raises(RpcError) as caught:
            await session.call("add", [1, 2])
        assert caught.value.code == -32603
        # A subscription.
        told: list[Any] = []
        outer_left.onmessage = told.append
        outer_left.send(LISTEN)
        outer_right.onmessage = None
        await turns()
        outer_right.send(SUBSCRIBED % (b"notifications/tools/list_changed", b"5"))
        await turns()
        assert told[0].params == {"_meta": {"io.modelcontextprotocol/subscriptionId": "s"}}


@over()
async def test_a_side_that_does_not_read_holds_up_the_other_one(left: End, right: End, faults: list[Any]) -> None:
    right.transport.pause_reading()
    text = b'{"jsonrpc":"2.0","method":"n","params":["' + b"x" * 50_000 + b'"]}'
    sent = 0
    while left.transport.write_buffer_bytes <= HIGH_WATER_BYTES:
        await left.send(text)
        sent += 1
        assert sent < 100
    # What the relay holds is bounded; the rest waits in the buffer of the sender.
    assert sent * len(text) < 4 * HIGH_WATER_BYTES
    await right.send(b'{"jsonrpc":"2.0","method":"other way"}')
    assert left.take() == [b'{"jsonrpc":"2.0","method":"other way"}']
    right.transport.resume_reading()
    while len(right.lines) < sent:
        await asyncio.sleep(0)
    assert right.take() == [text] * sent


@over(reply_policy="always")
async def test_a_storm_of_faults_is_held_up_by_its_own_answers(left: End, right: End, faults: list[Any]) -> None:
    left.transport.pause_reading()
    sent = 0
    while left.transport.write_buffer_bytes <= HIGH_WATER_BYTES:
        left.transport._write(b"{\n" * 10_000)
        await turns()
        sent += 10_000
        assert sent < 1_000_000
    left.transport.resume_reading()
    while len(left.lines) < sent:
        await asyncio.sleep(0)
    assert len(faults) == sent


async def test_what_was_relayed_is_not_kept() -> None:
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'

    async with relayed(on_fault=lambda side, fault: None) as (left, right, _, _):
        left.transport.onmessage = right.transport.onmessage = None

        async def some(first: int) -> None:
            for id in range(first, first + 100):
                await left.send(b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % id)
                if id % 2:
                    await left.send(cancel % id)
                await right.send(b'{"jsonrpc":"2.0","id":%d,"result":1}' % (id + 1))

        await some(0)
        gc.collect()
        tracemalloc.start()
        for first in range(100, 1100, 100):
            await some(first)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 60_000
