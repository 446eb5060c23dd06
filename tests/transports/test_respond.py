"""`Transport.respond`: what it returns is sent, and what stands in its way."""

from __future__ import annotations

from typing import Any

import pytest

from jsonrpc_fast import Request, Response, encode_result
from jsonrpc_fast.transports import MemoryTransport, memory_pair

from ..support.waiting import eventually

COUNTS = pytest.mark.parametrize("count", [1, 3], ids=["alone", "together"])


def respond(message: Any) -> bytes | None:
    return encode_result(message.id, message.params) if isinstance(message, Request) else None


async def pair(transport: MemoryTransport, other: MemoryTransport) -> list[Any]:
    received: list[Any] = []
    transport.onmessage = received.append
    transport.respond = respond
    await transport.start()
    await other.connect()
    return received


async def responses_of(other: MemoryTransport, count: int) -> list[Any]:
    found: list[Any] = []
    other.onmessage = found.append
    await other.start()
    for number in range(count):
        other.send(Request(number, "echo", [number]))
    await eventually(lambda: len(found) == count)
    return found


@COUNTS
async def test_responses_are_sent(count: int) -> None:
    left, right = memory_pair()
    received = await pair(left, right)
    assert await responses_of(right, count) == [Response(number, [number]) for number in range(count)]
    assert received == []
    right.send([Request(5, "echo"), Request(6, "echo")])  # a batch goes the other way
    await eventually(lambda: received == [[Request(5, "echo"), Request(6, "echo")]])
    await left.disconnect()


@COUNTS
async def test_another_onmessage_takes_its_place(count: int) -> None:
    left, right = memory_pair()
    received = await pair(left, right)
    left.onmessage = lambda message: left.send(Response(message.id, "own")) if message.method == "echo" else None
    assert await responses_of(right, count) == [Response(number, "own") for number in range(count)]
    assert received == []
    await left.disconnect()


@COUNTS
async def test_another_send_is_not_passed_by(count: int) -> None:
    left, right = memory_pair()
    left.send = lambda message: None  # type: ignore[method-assign]
    received = await pair(left, right)
    await right.start()
    for number in range(count):
        right.send(Request(number, "echo"))
    await eventually(lambda: len(received) == count)
    await left.disconnect()


async def test_a_response_to_a_closed_connection_is_dropped() -> None:
    left, right = memory_pair()
    faults: list[Exception] = []
    left.onmessage = left.onerror = faults.append

    def close(message: Any) -> bytes:
        left.abort()
        return encode_result(message.id, None)

    left.respond = close
    await left.start()
    await right.start()
    right.send(Request(1, "close"))
    await left.wait_closed()
    assert faults == []
