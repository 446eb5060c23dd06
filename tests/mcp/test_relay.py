"""The relay: what arrives on one side when the other one sends, byte by byte; then many calls, and real processes."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import JSONRPC, MCP_2025_03_26, MCP_2025_11_25, ParseErrorCode, Profile, Raw, encode
from jsonrpc_fast.errors import ConnectionLost, RpcError, StateError
from jsonrpc_fast.mcp.client.client import connect
from jsonrpc_fast.mcp.relay import RELAY_ERROR, Relay
from jsonrpc_fast.session import McpConvention, ReplyBudget, Session, SessionContext
from jsonrpc_fast.transports.base import HIGH_WATER_BYTES
from jsonrpc_fast.transports.memory import MemoryTransport, memory_pair
from jsonrpc_fast.transports.stdio.client import StdioClient

from ..support.examples import scaled_examples
from ..support.places import PEERS

pytestmark = pytest.mark.timeout(60)


class End:
    """The peer at one end: sends lines, and keeps those that come, in the order of their coming."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self.lines: list[bytes] = []
        self.is_closed = False
        transport.onmessage = lambda message: self.lines.append(encode(message, delimited=False))
        transport.onclose = self._close
        transport.pauses_when_blocked = False

    def _close(self) -> None:
        self.is_closed = True

    async def send(self, *lines: bytes) -> None:
        for line in lines:
            self.transport.send(line)
        await turns()

    async def end(self) -> None:
        """Says no more, but listens."""
        self.transport._finish()
        await turns()

    def take(self) -> list[bytes]:
        lines, self.lines = self.lines, []
        return lines


async def turns() -> None:
    """Enough turns of the loop for a message to go from one end to the other, and for the answer of the relay."""
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def relayed(
    profile: Profile = JSONRPC, **options: Any
) -> AsyncIterator[tuple[End, End, list[tuple[str, Exception]], Relay]]:
    """Both ends, with a relay between them, and the faults that it tells."""
    faults: list[tuple[str, Exception]] = []
    outer_left, left = memory_pair(profile=profile, raw=True)
    outer_right, right = memory_pair(profile=profile, raw=True)
    options.setdefault("on_fault", lambda side, fault: faults.append((side, fault)))
    async with Relay(left, right, **options) as relay:
        await outer_left.start()
        await outer_right.start()
        try:
            yield End(outer_left), End(outer_right), faults, relay
        finally:
            await outer_left.disconnect()
            await outer_right.disconnect()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 50))


def over(profile: Profile = JSONRPC, **options: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[[], None]]:
    """Runs a test with both ends and the faults of a relay."""

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[[], None]:
        async def whole() -> None:
            async with relayed(profile, **options) as (left, right, faults, _):
                await test(left, right, faults)

        def wrapped() -> None:
            run(whole)

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate


IDS = [b"7", b'"7"', b"0", b'""', b"-1", b"18446744073709551616", b"9" * 40, b"null", b"1.5", b'"\\u00e9"']


@over()
async def test_an_answer_has_the_id_of_its_request(left: End, right: End, faults: list[Any]) -> None:
    await left.send(*[b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % id for id in IDS])
    assert right.take() == [b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % number for number in range(1, len(IDS) + 1)]
    for number in reversed(range(1, len(IDS) + 1)):
        await right.send(b'{"jsonrpc":"2.0","id":%d,"result":%d}' % (number, number))
    expected = [b'{"jsonrpc":"2.0","id":%b,"result":%d}' % (id, number) for number, id in enumerate(IDS, 1)]
    expected[-1] = '{"jsonrpc":"2.0","id":"é","result":10}'.encode()
    assert left.take() == list(reversed(expected))
    assert faults == []


@over()
async def test_the_ids_of_both_sides_do_not_clash(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":5,"method":"a"}', b'{"jsonrpc":"2.0","id":1,"method":"b"}')
    await right.send(b'{"jsonrpc":"2.0","id":2,"method":"c"}', b'{"jsonrpc":"2.0","id":1,"method":"d"}')
    assert right.take() == [b'{"jsonrpc":"2.0","id":1,"method":"a"}', b'{"jsonrpc":"2.0","id":2,"method":"b"}']
    assert left.take() == [b'{"jsonrpc":"2.0","id":1,"method":"c"}', b'{"jsonrpc":"2.0","id":2,"method":"d"}']
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":"A"}', b'{"jsonrpc":"2.0","id":2,"result":"B"}')
    await left.send(b'{"jsonrpc":"2.0","id":2,"result":"D"}', b'{"jsonrpc":"2.0","id":1,"result":"C"}')
    assert left.take() == [b'{"jsonrpc":"2.0","id":5,"result":"A"}', b'{"jsonrpc":"2.0","id":1,"result":"B"}']
    assert right.take() == [b'{"jsonrpc":"2.0","id":1,"result":"D"}', b'{"jsonrpc":"2.0","id":2,"result":"C"}']


PAYLOAD = (
    b'{ "a":1e5,"a": -0.0 ,"b":[123456789012345678901234567890, 0.1000000000000000000001],'
    b'"\\u0063":"\\/\\ud83d\\ude00"}'
)


@over()
async def test_payloads_are_passed_as_the_bytes_they_are(left: End, right: End, faults: list[Any]) -> None:
    await left.send(
        b'{"params":%b,"method":"m","id":1,"jsonrpc":"2.0","other":1}' % PAYLOAD,
        b'{"jsonrpc":"2.0","method":"n","params":[%b]}' % PAYLOAD,
    )
    assert right.take() == [
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}' % PAYLOAD,
        b'{"jsonrpc":"2.0","method":"n","params":[%b]}' % PAYLOAD,
    ]
    await right.send(b'{"jsonrpc":"2.0","result":%b,"id":1}' % PAYLOAD)
    await right.send(b'{"jsonrpc":"2.0","method":"n"}')
    assert left.take() == [
        b'{"jsonrpc":"2.0","id":1,"result":%b}' % PAYLOAD,
        b'{"jsonrpc":"2.0","method":"n"}',
    ]


ERRORS = [
    b'{"code":-32602,"message":"Invalid params"}',
    b'{"code":5,"message":"","data":null}',
    b'{"code":-4000000000000000000,"message":"\xc3\xa9","data":%b}' % PAYLOAD,
    b'{"code":0,"message":"m","data":false}',
]


@pytest.mark.parametrize("error", ERRORS)
def test_errors_are_passed_as_they_are(error: bytes) -> None:
    @over()
    async def test(left: End, right: End, faults: list[Any]) -> None:
        await left.send(b'{"jsonrpc":"2.0","id":"x","method":"m"}')
        await right.send(b'{"jsonrpc":"2.0","id":1,"error":%b}' % error)
        assert left.take() == [b'{"jsonrpc":"2.0","id":"x","error":%b}' % error]

    test()


@over()
async def test_an_id_in_flight_is_refused_and_the_first_goes_on(left: End, right: End, faults: list[Any]) -> None:
    request = b'{"jsonrpc":"2.0","id":5,"method":"m"}'
    await left.send(request, request, b'{"jsonrpc":"2.0","id":"5","method":"m"}')
    assert left.take() == [b'{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"Invalid Request"}}']
    assert [str(fault) for _, fault in faults] == ["the peer used an id that is in flight"]
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":1}')
    assert left.take() == [b'{"jsonrpc":"2.0","id":5,"result":1}']
    await left.send(request)
    assert right.take()[2:] == [b'{"jsonrpc":"2.0","id":3,"method":"m"}']


# Cancellation, progress, subscriptions.


@over(MCP_2025_11_25)
async def test_a_cancelled_request_is_cancelled_on_the_other_side(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":"a","method":"m"}', b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    params = b'{"requestId":%b,"reason":"r","_meta":{"x":1}}'
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":' + params + b"}"
    await left.send(cancel % b"1")
    assert right.take()[2:] == [cancel % b"2"]
    # Its answer comes too late, and its id is free again; the other request is not touched.
    await right.send(b'{"jsonrpc":"2.0","id":2,"result":{}}')
    await left.send(b'{"jsonrpc":"2.0","id":1,"method":"again"}')
    assert right.take() == [b'{"jsonrpc":"2.0","id":3,"method":"again"}']
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"jsonrpc":"2.0","id":3,"result":{}}')
    assert left.take() == [b'{"jsonrpc":"2.0","id":"a","result":{}}', b'{"jsonrpc":"2.0","id":1,"result":{}}']
    assert faults == []


@over(MCP_2025_11_25)
async def test_the_right_side_cancels_as_well(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":9,"method":"m"}')
    await right.send(b'{"jsonrpc":"2.0","id":9,"method":"m"}')
    await right.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}')
    assert left.take()[1:] == [b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}']
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert left.take() == [b'{"jsonrpc":"2.0","id":9,"result":{}}']


@over(MCP_2025_11_25)
async def test_initialize_is_answered_in_spite_of_a_cancellation(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":0,"method":"initialize"}')
    await left.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}')
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert left.take() == [b'{"jsonrpc":"2.0","id":0,"result":{}}']


@over()
async def test_lsp_cancels_and_is_answered(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":7,"method":"m"}')
    await left.send(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":7}}')
    assert right.take()[1:] == [b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}']
    await right.send(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}')
    assert left.take() == [b'{"jsonrpc":"2.0","id":7,"error":{"code":-32800,"message":"Request cancelled"}}']


@pytest.mark.parametrize(
    "params",
    [
        b"",
        b',"params":[1]',
        b',"params":{}',
        b',"params":{"requestId":2}',
        b',"params":{"requestId":"1"}',
        b',"params":{"requestId":true}',
        b',"params":{"requestId":1.0}',
        b',"params":{"requestId":null}',
        b',"params":{"requestId":[1]}',
        b',"params":{"requestId":' + b"9" * 400 + b"}",
        b',"params":{"requestId":8,"deep":' + b"[" * 300 + b"]" * 300 + b"}",
    ],
)
def test_a_cancellation_of_nothing_ends_here(params: bytes) -> None:
    @over()
    async def test(left: End, right: End, faults: list[Any]) -> None:
        await left.send(b'{"jsonrpc":"2.0","id":8,"method":"m"}', b'{"jsonrpc":"2.0","id":1,"method":"m"}')
        right.take()
        await right.send(b'{"jsonrpc":"2.0","id":2,"result":{}}')  # the one with the id 1
        await left.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled"%b}' % params)
        assert right.take() == []
        await right.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        assert left.take()[1:] == [b'{"jsonrpc":"2.0","id":8,"result":{}}']

    test()


@over(MCP_2025_11_25)
async def test_progress_is_passed_with_its_token(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"_meta":{"progressToken":5}}}')
    assert right.take() == [b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":5}}}']
    progress = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":0.50}}'
    await right.send(progress)
    assert left.take() == [progress]


SUBSCRIBED = b'{"jsonrpc":"2.0","method":"%b","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%b}}}'
LISTEN = b'{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen"}'


@over(MCP_2025_11_25)
async def test_the_id_of_a_subscription_is_the_one_its_side_gave(left: End, right: End, faults: list[Any]) -> None:
    await left.send(LISTEN, b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    right.take()
    acknowledged, changed = b"notifications/subscriptions/acknowledged", b"notifications/tools/list_changed"
    await right.send(SUBSCRIBED % (acknowledged, b"1"), SUBSCRIBED % (changed, b"1"))
    assert left.take() == [SUBSCRIBED % (acknowledged, b'"s"'), SUBSCRIBED % (changed, b'"s"')]
    # Of no subscription, of a request that is none, of no notification that has such.
    for strange in (b"2", b"3", b'"1"', b"null", b"{}"):
        await right.send(SUBSCRIBED % (acknowledged, strange))
        assert left.take() == [SUBSCRIBED % (acknowledged, strange)]
    await right.send(SUBSCRIBED % (b"notifications/message", b"1"))
    assert left.take() == [SUBSCRIBED % (b"notifications/message", b"1")]
    meta = b'{"_meta":{"io.modelcontextprotocol/subscriptionId":%b}}'
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":%b}' % (meta % b"1"))
    assert left.take() == [b'{"jsonrpc":"2.0","id":"s","result":%b}' % (meta % b'"s"')]


@over(MCP_2025_11_25)
async def test_a_server_ends_a_subscription(left: End, right: End, faults: list[Any]) -> None:
    await left.send(LISTEN, b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}'
    await right.send(cancel % b"2")  # a server cancels nothing else
    assert left.take() == []
    await right.send(cancel % b"1")
    assert left.take() == [cancel % b'"s"']
    await left.send(LISTEN)
    assert right.take()[2:] == [b'{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen"}']


# Batches.


@over(MCP_2025_03_26)
async def test_a_batch_is_taken_apart_and_answered_by_one_array(left: End, right: End, faults: list[Any]) -> None:
    await left.send(
        b'[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":"x","method":"b"},'
        b'{"jsonrpc":"2.0","id":3},{"jsonrpc":"2.0","id":4,"method":"c"}]'
    )
    assert right.take() == [
        b'{"jsonrpc":"2.0","id":1,"method":"a"}',
        b'{"jsonrpc":"2.0","method":"n"}',
        b'{"jsonrpc":"2.0","id":2,"method":"b"}',
        b'{"jsonrpc":"2.0","id":3,"method":"c"}',
    ]
    await right.send(b'{"jsonrpc":"2.0","id":2,"result":{"b":1}}')
    await left.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}')
    assert left.take() == []
    await right.send(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a"}}')
    items = [
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a"}}',
        b'{"jsonrpc":"2.0","id":"x","result":{"b":1}}',
        b'{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"Invalid Request"}}',
    ]
    assert left.take() == [b"[" + b",".join(items) + b"]"]


@over()
async def test_a_batch_may_hold_answers_and_refusals(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}', b'{"jsonrpc":"2.0","id":2,"method":"m"}')
    await right.send(
        b'[{"jsonrpc":"2.0","id":2,"result":2},{"jsonrpc":"2.0","id":1,"method":"r"},'
        b'{"jsonrpc":"2.0","id":1,"method":"r"},{"jsonrpc":"2.0","id":1,"result":1}]'
    )
    assert left.take() == [
        b'{"jsonrpc":"2.0","id":2,"result":2}',
        b'{"jsonrpc":"2.0","id":1,"method":"r"}',
        b'{"jsonrpc":"2.0","id":1,"result":1}',
    ]
    right.take()
    await left.send(b'{"jsonrpc":"2.0","id":1,"result":3}')
    refused = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid Request"}}'
    assert right.take() == [b'[{"jsonrpc":"2.0","id":1,"result":3},%b]' % refused]


@over()
async def test_a_batch_of_notifications_is_not_answered(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'[{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","method":"n"}]')
    assert (len(right.take()), left.take()) == (2, [])


@over(max_pending=1)
async def test_a_batch_that_is_refused_as_a_whole_is_answered_once(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    await left.send(b'[{"jsonrpc":"2.0","id":2,"method":"m"},{"jsonrpc":"2.0","id":3,"method":"m"}]')
    refused = b'"error":{"code":-32000,"message":"too many requests wait for the other side"}}'
    assert left.take() == [b'[{"jsonrpc":"2.0","id":2,%b,{"jsonrpc":"2.0","id":3,%b]' % (refused, refused)]


# Faults.


@over(MCP_2025_11_25)
async def test_a_faulty_message_is_not_passed_on(left: End, right: End, faults: list[Any]) -> None:
    left.transport._write(b'{"jsonrpc":"2.0","id":5,"method":""}\n{"a":1\n')
    left.transport._write(b'{"jsonrpc":"2.0","id":1,"result":1}\n{"id":null}\n')
    await turns()
    assert right.take() == []
    assert left.take() == [b'{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"Invalid Request"}}']
    assert [(side, fault.code) for side, fault in faults] == [
        ("left", ParseErrorCode.EMPTY_METHOD),
        ("left", ParseErrorCode.MALFORMED_JSON),
        ("left", ParseErrorCode.INVALID_RESULT_TYPE),
        ("left", ParseErrorCode.MISSING_JSONRPC),
    ]
    await left.send(b'{"jsonrpc":"2.0","method":"n"}')
    assert right.take() == [b'{"jsonrpc":"2.0","method":"n"}']


@pytest.mark.parametrize(
    ("policy", "replies"), [("never", 0), ("always", 30), ("limited", 10), (ReplyBudget(1e-9, 3), 3)]
)
def test_unreadable_messages_without_an_id_are_answered_as_the_policy_says(policy: Any, replies: int) -> None:
    @over(reply_policy=policy)
    async def test(left: End, right: End, faults: list[Any]) -> None:
        left.transport._write(b"{\n" * 30)
        await turns()
        assert left.take() == [b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'] * replies
        assert len(faults) == 30

    test()


@over(MCP_2025_11_25)
async def test_an_unreadable_answer_is_an_error(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":"q","method":"m"}')
    right.transport._write(b'{"jsonrpc":"2.0","id":1,"result":[]}\n')
    await turns()
    unreadable = b'{"code":-32603,"message":"the answer of the other side broke a rule of the protocol"}'
    assert left.take() == [b'{"jsonrpc":"2.0","id":"q","error":%b}' % unreadable]
    assert right.take()[1:] == []
    assert [(side, fault.code) for side, fault in faults] == [("right", ParseErrorCode.INVALID_RESULT_TYPE)]


@over()
async def test_an_answer_to_nothing_is_dropped(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":1,"result":1}')
    await left.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}')
    assert (left.take(), right.take()) == ([], [])
    assert [(side, type(fault), str(fault)) for side, fault in faults] == [
        ("left", StateError, "the peer answered no request that is in flight")
    ] * 2


@over()
async def test_an_empty_method_is_refused_by_any_profile(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":1,"method":""}', b'{"jsonrpc":"2.0","method":""}')
    assert right.take() == []
    assert left.take() == [b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid Request"}}']
    assert [fault.code for _, fault in faults] == [ParseErrorCode.EMPTY_METHOD] * 2


def test_faults_are_logged_where_nobody_takes_them(caplog: pytest.LogCaptureFixture) -> None:
    @over(on_fault=None)
    async def test(left: End, right: End, faults: list[Any]) -> None:
        left.transport._write(b'{"secret"\n')
        await turns()

    with caplog.at_level("DEBUG", "jsonrpc_fast.relay"):
        test()
    assert caplog.messages == ["left: ParseError: the text is not JSON"]


def test_a_wrong_policy_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="reply_policy"):
        Relay(*memory_pair(), reply_policy="often")  # type: ignore[arg-type]


# Bounds, and the end.


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


def test_a_side_that_ends_its_stream_gets_its_answers_first() -> None:
    async def test() -> None:
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

    run(test)


def test_a_subscription_is_not_waited_for() -> None:
    async def test() -> None:
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

    run(test)


def test_closing_that_is_cancelled_drops_what_is_not_written() -> None:
    async def test() -> None:
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

    run(test)


def test_a_side_that_waits_in_vain_is_closed_all_the_same() -> None:
    async def test() -> None:
        async with relayed(close_seconds=0.05) as (left, right, _, relay):
            await left.send(b'{"jsonrpc":"2.0","id":5,"method":"m"}')
            await left.end()
            assert not right.is_closed
            await relay.wait_closed()
            await turns()
            assert right.is_closed
            error = b'{"code":-32000,"message":"the connection to the other side is closed"}'
            assert left.take() == [b'{"jsonrpc":"2.0","id":5,"error":%b}' % error]

    run(test)


def test_closing_answers_what_is_in_flight() -> None:
    async def test() -> None:
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

    run(test)


def test_a_relay_starts_once_and_closes_what_it_started() -> None:
    async def test() -> None:
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

    run(test)


def test_what_is_not_raw_is_written_again() -> None:
    async def test() -> None:
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

    run(test)


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


def test_what_was_relayed_is_not_kept() -> None:
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}'

    async def test() -> None:
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

    run(test)


# Any conversation: what each side asked is answered once; or not at all when it was cancelled, and then perhaps, too.

ids = st.sampled_from([0, 1, "1", ""])
actions = st.one_of(
    st.tuples(st.just("ask"), st.lists(ids, min_size=1, max_size=3)),
    st.tuples(st.just("cancel"), ids),
    st.tuples(st.just("answer"), st.integers(0, 5)),
    st.tuples(
        st.just("garbage"), st.sampled_from([b"{", b"[]", b"1", b'{"jsonrpc":"2.0","id":1,"result":1}', b"[[]]"])
    ),
)


class Talker:
    """One side of a conversation: what it asked and has not been answered, and what it was asked."""

    def __init__(self, end: End) -> None:
        self.end = end
        self.asked: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()
        self.questions: list[int] = []

    async def act(self, action: str, value: Any) -> None:
        if action == "ask":
            items = [{"jsonrpc": "2.0", "id": id, "method": "m"} for id in value]
            self.asked.update(map(json.dumps, value))
            await self.end.send(json.dumps(items if len(items) > 1 else items[0]).encode())
        elif action == "cancel":
            self.cancelled[json.dumps(value)] += self.asked[json.dumps(value)] > 0
            params = {"requestId": value}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            await self.end.send(json.dumps(message).encode())
        elif action == "answer" and self.questions:
            id = self.questions.pop(value % len(self.questions))
            await self.end.send(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % id)
        elif action == "garbage":
            self.end.transport._write(value + b"\n")
            await turns()

    def hear(self) -> None:
        for line in self.end.take():
            messages = json.loads(line)
            for message in messages if isinstance(messages, list) else [messages]:
                if "method" not in message:
                    self.asked[json.dumps(message["id"])] -= 1
                elif "id" in message:
                    self.questions.append(message["id"])
                else:
                    self.questions = [id for id in self.questions if id != message["params"]["requestId"]]


@scaled_examples(0.2)
@given(st.lists(st.tuples(st.booleans(), actions), max_size=30))
def test_any_conversation(conversation: list[tuple[bool, tuple[str, Any]]]) -> None:
    async def test() -> None:
        async with relayed(JSONRPC) as (left, right, _, relay):
            talkers = Talker(left), Talker(right)
            for is_right, (action, value) in conversation:
                await talkers[is_right].act(action, value)
                for talker in talkers:
                    talker.hear()
            await relay.close()
            await turns()
            for talker in talkers:
                talker.hear()
                assert all(0 <= left <= talker.cancelled[id] for id, left in talker.asked.items())

    run(test)


# Many calls at once, in both directions, with the same ids on both sides.

CALLS = 3000


class Server:
    """What both sides serve."""

    def __init__(self) -> None:
        self.cancelled = 0

    async def echo(self, name: str, number: int) -> list[object]:
        if number % 3:
            await asyncio.sleep(0)
        return [name, number]

    def fail(self, number: int) -> None:
        raise RpcError(number, "failed", {"number": number})

    async def wait(self, context: SessionContext, number: int, **members: object) -> None:
        context.report_progress({"progress": number})
        try:
            await asyncio.sleep(3600)
        finally:
            self.cancelled += 1

    def handlers(self) -> dict[str, Callable[..., Any]]:
        return {"echo": self.echo, "fail": self.fail, "wait": self.wait}


async def talk(session: Session, name: str, chance: random.Random) -> dict[str, int]:
    """Makes CALLS calls, 50 at a time, and checks every answer. Returns how many ended how."""
    ends = {"result": 0, "error": 0, "cancelled": 0}
    limit = asyncio.Semaphore(50)

    async def one(number: int) -> None:
        async with limit:
            kind = chance.random()
            if kind < 0.7:
                assert (await session.call("echo", [name, number])).decode() == [name, number]
                ends["result"] += 1
            elif kind < 0.85:
                with pytest.raises(RpcError) as caught:
                    await session.call("fail", [number])
                assert (caught.value.code, caught.value.data.decode()) == (number, {"number": number})
                ends["error"] += 1
            else:
                told: list[Any] = []

                def stop(value: Any) -> None:
                    told.append(value)
                    call.cancel()

                params = {"number": number}
                call = asyncio.ensure_future(session.call("wait", params, on_progress=stop))
                with pytest.raises(asyncio.CancelledError):
                    await call
                assert told == [{"progress": number}]
                ends["cancelled"] += 1

    await asyncio.gather(*map(one, range(CALLS)))
    return ends


@pytest.mark.timeout(120)
def test_thousands_of_calls_in_both_directions() -> None:
    async def test() -> None:
        (outer_left, left), (outer_right, right) = memory_pair(raw=True), memory_pair(raw=True)
        one, other = Server(), Server()
        faults: list[Any] = []
        relay = Relay(left, right, on_fault=lambda *fault: faults.append(fault))
        first = Session(outer_left, one.handlers(), convention=McpConvention())
        second = Session(outer_right, other.handlers(), convention=McpConvention())
        async with relay, first, second:
            talks = talk(first, "first", random.Random(1)), talk(second, "second", random.Random(2))
            ends = await asyncio.gather(*talks)
            assert all(min(found.values()) > 300 and sum(found.values()) == CALLS for found in ends)
            await turns()
            assert (one.cancelled, other.cancelled) == (ends[1]["cancelled"], ends[0]["cancelled"])
            assert faults == []
            for side in (relay._left, relay._right):
                assert (len(side.calls), len(side.asking)) == (0, 0)

    asyncio.run(asyncio.wait_for(test(), 100))


ECHO = """
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.stdio import run_stdio

async def serve(transport):
    session = Session(transport, {"echo": lambda *params: params})
    await session.start()
    await session.wait_closed()

run_stdio(serve)
"""


def test_a_killed_process_settles_what_is_in_flight() -> None:
    async def test() -> None:
        outer, left = memory_pair(raw=True)
        right = StdioClient([sys.executable, "-c", ECHO], raw=True)
        faults: list[Any] = []
        async with Relay(left, right, on_fault=lambda *fault: faults.append(fault)) as relay, Session(outer) as session:
            calls = [asyncio.ensure_future(session.call("echo", [number])) for number in range(2000)]
            assert (await calls[500]).decode() == [500]
            assert right.pid is not None
            os.kill(right.pid, signal.SIGSTOP)
            calls += [asyncio.ensure_future(session.call("echo", [number])) for number in range(100)]
            await asyncio.sleep(0.05)
            os.kill(right.pid, signal.SIGKILL)
            done = await asyncio.gather(*calls, return_exceptions=True)
            await relay.wait_closed()
        lost = [error for error in done if isinstance(error, Exception)]
        assert len(lost) >= 100
        assert {(type(error), getattr(error, "code", None)) for error in lost} == {(RpcError, RELAY_ERROR)}
        assert right.returncode == -signal.SIGKILL
        assert [(side, type(fault)) for side, fault in faults] == [("right", ConnectionLost)]

    run(test)


# Whole programs.


def test_a_program_that_is_fed_and_ends() -> None:
    """Requests from a pipe that ends at once: they are answered before the relay and its server end."""
    relay = [sys.executable, str(PEERS / "relay.py"), sys.executable, "-c", ECHO]
    requests = b"".join([b'{"jsonrpc":"2.0","id":"%d","method":"echo","params":{}}\n' % id for id in range(200)])
    done = subprocess.run(relay, input=requests, capture_output=True, timeout=30)
    # The server's results are arrays, which the protocol of this relay does not have.
    refused = b'{"code":-32603,"message":"the answer of the other side broke a rule of the protocol"}'
    assert sorted(done.stdout.splitlines()) == sorted(
        [b'{"jsonrpc":"2.0","id":"%d","error":%b}' % (id, refused) for id in range(200)]
    )
    assert (done.stderr, done.returncode) == (b"", 0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_client_and_a_server_of_another_library_see_no_relay(mode: str) -> None:
    pytest.importorskip("mcp.server.mcpserver")

    async def test() -> None:
        command = [sys.executable, str(PEERS / "relay.py"), sys.executable, str(PEERS / "lowlevel_server.py")]
        told: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        said = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "4"}}
        handlers = {
            "roots/list": lambda params: {"roots": [{"uri": "file:///a"}]},
            "sampling/createMessage": lambda params: said,
        }
        async with connect(
            *command, mode=mode, handlers=handlers, on_notification=lambda *what: told.put_nowait(what)
        ) as client:
            assert [tool["name"] for tool in await client.list_tools()] == ["ask", "changed", "error", "again", "level"]
            assert (await client.call_tool("ask"))["content"][0]["text"] == "file:///a 4"
            with pytest.raises(RpcError) as caught:
                await client.call_tool("error")
            assert (caught.value.code, caught.value.data) == (-32050, {"why": [1, None]})
            if client.server.revision.is_modern:
                wanted = {"notifications": {"toolsListChanged": True}}
                listening = asyncio.create_task(client.call("subscriptions/listen", wanted, timeout=None))
                method, params = await told.get()
                assert method == "notifications/subscriptions/acknowledged"
                await client.call_tool("changed")
                method, changed = await told.get()
                assert (method, changed["_meta"]) == ("notifications/tools/list_changed", params["_meta"])
                listening.cancel()
            else:
                await client.call_tool("changed")
                assert (await told.get())[0] == "notifications/tools/list_changed"

    run(test)
