"""The relay's bounds, flow control and closing."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from jsonrpc_fast import MCP_2025_11_25, Raw
from jsonrpc_fast.errors import RpcError, StateError
from jsonrpc_fast.mcp.relay import Relay
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.channel import HIGH_WATER_BYTES
from jsonrpc_fast.transports.memory import memory_pair
from jsonrpc_fast.transports.stdio.client import StdioClient

from ..support.mcp_relay import LISTEN, SUBSCRIBED, End, relayed, through_relay
from ..support.memory import measured
from ..support.waiting import settle

pytestmark = pytest.mark.timeout(60)


@through_relay(max_calls=2)
async def test_requests_beyond_max_pending_are_refused(left: End, right: End, faults: list[Any]) -> None:
    await left.send(*[b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % id for id in range(3)])
    error = b'{"code":-32000,"message":"too many requests wait for the other side"}'
    assert left.received() == [b'{"jsonrpc":"2.0","id":2,"error":%b}' % error]
    await right.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}', b'{"jsonrpc":"2.0","id":2,"result":1}')
    await left.send(b'{"jsonrpc":"2.0","id":2,"method":"m"}')
    assert right.received()[2:] == [b'{"jsonrpc":"2.0","id":3,"method":"m"}']


@through_relay()
async def test_when_a_side_is_lost_its_requests_get_errors_and_the_other_is_closed(
    left: End, right: End, faults: list[Any]
) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":"a","method":"m"}', b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    await right.transport.disconnect()
    await settle()
    error = b'{"code":-32000,"message":"the connection to the other side is closed"}'
    assert left.received() == [b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id, error) for id in (b'"a"', b"1")]
    assert left.is_closed


async def test_a_side_that_half_closes_still_gets_its_responses() -> None:
    async with relayed() as (left, right, _, relay):
        await left.send(b'{"jsonrpc":"2.0","id":5,"method":"m"}', b'{"jsonrpc":"2.0","id":6,"method":"m"}')
        await right.send(b'{"jsonrpc":"2.0","id":1,"method":"r"}')
        left.received(), right.received()
        await left.half_close()
        error = b'{"code":-32000,"message":"the connection to the other side is closed"}'
        assert right.received() == [b'{"jsonrpc":"2.0","id":1,"error":%b}' % error]
        await right.send(b'{"jsonrpc":"2.0","id":2,"method":"r"}', b'{"jsonrpc":"2.0","id":1,"result":5}')
        assert right.received() == [b'{"jsonrpc":"2.0","id":2,"error":%b}' % error]
        assert left.received() == [b'{"jsonrpc":"2.0","id":5,"result":5}']
        assert not right.is_closed
        await right.send(b'{"jsonrpc":"2.0","id":2,"result":6}')
        await relay.wait_closed()
        await settle()
        assert left.received() == [b'{"jsonrpc":"2.0","id":6,"result":6}']


async def test_closing_does_not_wait_for_a_subscription() -> None:
    async with relayed(MCP_2025_11_25) as (left, right, _, relay):
        await left.send(LISTEN, b'{"jsonrpc":"2.0","id":1,"method":"m"}')
        await left.half_close()
        assert left.received() == []
        await right.send(b'{"jsonrpc":"2.0","id":2,"result":{}}')
        await relay.wait_closed()
        await settle()
        error = b'{"code":-32000,"message":"the connection to the other side is closed"}'
        assert left.received() == [
            b'{"jsonrpc":"2.0","id":1,"result":{}}',
            b'{"jsonrpc":"2.0","id":"s","error":%b}' % error,
        ]


async def test_cancelling_close_drops_unwritten_data() -> None:
    async with relayed() as (left, right, _, relay):
        right.transport.pause_reading()
        await left.send(b'{"jsonrpc":"2.0","method":"n","params":["' + b"x" * 1_000_000 + b'"]}')
        closing = asyncio.create_task(relay.close())
        await settle()
        assert not closing.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await relay.wait_closed()
        right.transport.resume_reading()
        await settle()
        assert right.received() == []


@pytest.mark.virtual_time
async def test_a_half_closed_side_is_closed_after_close_seconds() -> None:
    async with relayed(close_seconds=0.05) as (left, right, _, relay):
        await left.send(b'{"jsonrpc":"2.0","id":5,"method":"m"}')
        await left.half_close()
        assert not right.is_closed
        await relay.wait_closed()
        await settle()
        assert right.is_closed
        error = b'{"code":-32000,"message":"the connection to the other side is closed"}'
        assert left.received() == [b'{"jsonrpc":"2.0","id":5,"error":%b}' % error]


async def test_closing_answers_the_requests_in_flight() -> None:
    async with relayed() as (left, right, _, relay):
        await left.send(b'{"jsonrpc":"2.0","id":5,"method":"m"}')
        await right.send(b'[{"jsonrpc":"2.0","id":6,"method":"m"},{"jsonrpc":"2.0","id":7,"method":"m"}]')
        left.received(), right.received()
        await asyncio.gather(relay.close(), relay.close())
        await settle()
        error = b'"error":{"code":-32000,"message":"the connection to the other side is closed"}}'
        assert left.received() == [b'{"jsonrpc":"2.0","id":5,%b' % error]
        assert right.received() == [b'[{"jsonrpc":"2.0","id":6,%b,{"jsonrpc":"2.0","id":7,%b]' % (error, error)]
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


async def test_payloads_are_encoded_again_without_raw() -> None:
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
        # A response that can be decoded, but not encoded again.
        answer = b'{"jsonrpc":"2.0","id":%d,"result":%b}'
        outer_right.onmessage = lambda message: outer_right.send(answer % (message.id, deep))
        with pytest.raises(RpcError) as caught:
            await session.call("add", [1, 2])
        assert caught.value.code == -32603
        # A subscription.
        notified: list[Any] = []
        outer_left.onmessage = notified.append
        outer_left.send(LISTEN)
        outer_right.onmessage = None
        await settle()
        outer_right.send(SUBSCRIBED % (b"notifications/tools/list_changed", b"5"))
        await settle()
        assert notified[0].params == {"_meta": {"io.modelcontextprotocol/subscriptionId": "s"}}


@through_relay()
async def test_reading_pauses_while_the_other_side_does_not_read(left: End, right: End, faults: list[Any]) -> None:
    right.transport.pause_reading()
    text = b'{"jsonrpc":"2.0","method":"n","params":["' + b"x" * 50_000 + b'"]}'
    sent = 0
    while left.transport.write_buffer_bytes <= HIGH_WATER_BYTES:
        await left.send(text)
        sent += 1
        assert sent < 100
    # The relay's buffers are bounded; the rest waits in the sender's.
    assert sent * len(text) < 4 * HIGH_WATER_BYTES
    await right.send(b'{"jsonrpc":"2.0","method":"other way"}')
    assert left.received() == [b'{"jsonrpc":"2.0","method":"other way"}']
    right.transport.resume_reading()
    while len(right.lines) < sent:
        await asyncio.sleep(0)
    assert right.received() == [text] * sent


@pytest.mark.virtual_time
async def test_a_side_that_takes_nothing_is_disconnected() -> None:
    """Its peer is not read meanwhile, so that nothing else would end the relay."""
    async with relayed() as (left, right, faults, relay):
        right.transport.pause_reading()
        text = b'{"jsonrpc":"2.0","method":"m","params":["' + b"x" * 65536 + b'"]}'
        while left.transport.write_buffer_bytes <= HIGH_WATER_BYTES:
            await left.send(text)
        began = asyncio.get_running_loop().time()
        await relay.wait_closed()
        assert asyncio.get_running_loop().time() - began == pytest.approx(300, abs=6)
        assert [str(error) for _, error in faults] == ["the side takes nothing"]
        assert left.is_closed


@through_relay(response_policy="always")
@pytest.mark.slow
async def test_reading_pauses_while_error_responses_are_unread(left: End, right: End, faults: list[Any]) -> None:
    left.transport.pause_reading()
    sent = 0
    while left.transport.channel.unwritten <= HIGH_WATER_BYTES:
        left.transport.channel.write((b"{" + b" " * 100 + b"\n") * 1_000)
        await settle()
        sent += 1_000
        assert sent < 1_000_000
    left.transport.resume_reading()
    while len(left.lines) < sent:
        await asyncio.sleep(0)
    assert len(faults) == sent


@pytest.mark.slow
async def test_the_relay_keeps_no_finished_requests() -> None:
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
        with measured() as memory:
            for first in range(100, 1100, 100):
                await some(first)
            gc.collect()
        assert memory.held < 60_000
