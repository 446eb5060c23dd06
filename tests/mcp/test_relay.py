"""The relay: what arrives on the other side, byte by byte, its bounds, flow control and end, including under load."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import JSONRPC, MCP_2025_03_26, MCP_2025_11_25, ParseErrorCode, Raw
from jsonrpc_fast.errors import ConnectionLost, RpcError, StateError
from jsonrpc_fast.mcp.client import connect
from jsonrpc_fast.mcp.relay import RELAY_ERROR, FaultLog, Relay
from jsonrpc_fast.session import McpConvention, ResponseBudget, Session, SessionContext
from jsonrpc_fast.transports.channel import HIGH_WATER_BYTES
from jsonrpc_fast.transports.memory import memory_pair
from jsonrpc_fast.transports.stdio.client import StdioClient

from ..support.examples import scaled_examples
from ..support.mcp_relay import LISTEN, SUBSCRIBED, End, relayed, through_relay
from ..support.memory import measured
from ..support.places import PEERS
from ..support.tables import rows
from ..support.waiting import forever, results_of, settle

IDS = [b"7", b'"7"', b"0", b'""', b"-1", b"18446744073709551616", b"9" * 40, b"null", b"1.5", b'"\\u00e9"']


@through_relay()
async def test_a_response_gets_the_id_of_its_request(left: End, right: End, faults: list[Any]) -> None:
    await left.send(*[b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % id for id in IDS])
    assert right.received() == [b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % number for number in range(1, len(IDS) + 1)]
    for number in reversed(range(1, len(IDS) + 1)):
        await right.send(b'{"jsonrpc":"2.0","id":%d,"result":%d}' % (number, number))
    expected = [b'{"jsonrpc":"2.0","id":%b,"result":%d}' % (id, number) for number, id in enumerate(IDS, 1)]
    expected[-1] = '{"jsonrpc":"2.0","id":"é","result":10}'.encode()
    assert left.received() == list(reversed(expected))
    assert faults == []


@through_relay()
async def test_the_ids_of_both_sides_do_not_clash(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":5,"method":"a"}', b'{"jsonrpc":"2.0","id":1,"method":"b"}')
    await right.send(b'{"jsonrpc":"2.0","id":2,"method":"c"}', b'{"jsonrpc":"2.0","id":1,"method":"d"}')
    assert right.received() == [b'{"jsonrpc":"2.0","id":1,"method":"a"}', b'{"jsonrpc":"2.0","id":2,"method":"b"}']
    assert left.received() == [b'{"jsonrpc":"2.0","id":1,"method":"c"}', b'{"jsonrpc":"2.0","id":2,"method":"d"}']
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":"A"}', b'{"jsonrpc":"2.0","id":2,"result":"B"}')
    await left.send(b'{"jsonrpc":"2.0","id":2,"result":"D"}', b'{"jsonrpc":"2.0","id":1,"result":"C"}')
    assert left.received() == [b'{"jsonrpc":"2.0","id":5,"result":"A"}', b'{"jsonrpc":"2.0","id":1,"result":"B"}']
    assert right.received() == [b'{"jsonrpc":"2.0","id":1,"result":"D"}', b'{"jsonrpc":"2.0","id":2,"result":"C"}']


PAYLOAD = (
    b'{ "a":1e5,"a": -0.0 ,"b":[123456789012345678901234567890, 0.1000000000000000000001],'
    b'"\\u0063":"\\/\\ud83d\\ude00"}'
)


@through_relay()
async def test_payloads_are_passed_verbatim(left: End, right: End, faults: list[Any]) -> None:
    await left.send(
        b'{"params":%b,"method":"m","id":1,"jsonrpc":"2.0","other":1}' % PAYLOAD,
        b'{"jsonrpc":"2.0","method":"n","params":[%b]}' % PAYLOAD,
    )
    assert right.received() == [
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}' % PAYLOAD,
        b'{"jsonrpc":"2.0","method":"n","params":[%b]}' % PAYLOAD,
    ]
    await right.send(b'{"jsonrpc":"2.0","result":%b,"id":1}' % PAYLOAD)
    await right.send(b'{"jsonrpc":"2.0","method":"n"}')
    assert left.received() == [b'{"jsonrpc":"2.0","id":1,"result":%b}' % PAYLOAD, b'{"jsonrpc":"2.0","method":"n"}']


ERRORS = [
    b'{"code":-32602,"message":"Invalid params"}',
    b'{"code":5,"message":"","data":null}',
    b'{"code":-4000000000000000000,"message":"\xc3\xa9","data":%b}' % PAYLOAD,
    b'{"code":0,"message":"m","data":false}',
]


@rows("error", ERRORS)
async def test_errors_are_passed_verbatim(error: bytes) -> None:
    async with relayed() as (left, right, _, _):
        await left.send(b'{"jsonrpc":"2.0","id":"x","method":"m"}')
        await right.send(b'{"jsonrpc":"2.0","id":1,"error":%b}' % error)
        assert left.received() == [b'{"jsonrpc":"2.0","id":"x","error":%b}' % error]


@through_relay()
async def test_a_request_with_an_id_in_flight_is_refused(left: End, right: End, faults: list[Any]) -> None:
    request = b'{"jsonrpc":"2.0","id":5,"method":"m"}'
    await left.send(request, request, b'{"jsonrpc":"2.0","id":"5","method":"m"}')
    assert left.received() == [b'{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"Invalid Request"}}']
    assert [str(fault) for _, fault in faults] == ["the peer reused an id that is in flight"]
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":1}')
    assert left.received() == [b'{"jsonrpc":"2.0","id":5,"result":1}']
    await left.send(request)
    assert right.received()[2:] == [b'{"jsonrpc":"2.0","id":3,"method":"m"}']


@through_relay(MCP_2025_11_25)
async def test_a_cancelled_request_is_cancelled_on_the_other_side(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":"a","method":"m"}', b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    params = b'{"requestId":%b,"reason":"r","_meta":{"x":1}}'
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":' + params + b"}"
    await left.send(cancel % b"1")
    assert right.received()[2:] == [cancel % b"2"]
    # The late response is dropped, and the id is free again; the other request is unaffected.
    await right.send(b'{"jsonrpc":"2.0","id":2,"result":{}}')
    await left.send(b'{"jsonrpc":"2.0","id":1,"method":"again"}')
    assert right.received() == [b'{"jsonrpc":"2.0","id":3,"method":"again"}']
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"jsonrpc":"2.0","id":3,"result":{}}')
    assert left.received() == [b'{"jsonrpc":"2.0","id":"a","result":{}}', b'{"jsonrpc":"2.0","id":1,"result":{}}']
    assert faults == []


@through_relay(MCP_2025_11_25)
async def test_the_right_side_cancels_as_well(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":9,"method":"m"}')
    await right.send(b'{"jsonrpc":"2.0","id":9,"method":"m"}')
    await right.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}')
    assert left.received()[1:] == [b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}']
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert left.received() == [b'{"jsonrpc":"2.0","id":9,"result":{}}']


@through_relay(MCP_2025_11_25)
async def test_initialize_cannot_be_cancelled(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":0,"method":"initialize"}')
    await left.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}')
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert left.received() == [b'{"jsonrpc":"2.0","id":0,"result":{}}']


@through_relay()
async def test_a_request_that_lsp_cancels_still_gets_its_response(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":7,"method":"m"}')
    await left.send(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":7}}')
    assert right.received()[1:] == [b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}']
    await right.send(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}')
    assert left.received() == [b'{"jsonrpc":"2.0","id":7,"error":{"code":-32800,"message":"Request cancelled"}}']


@rows(
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
async def test_a_cancellation_without_a_request_is_dropped(params: bytes) -> None:
    async with relayed() as (left, right, _, _):
        await left.send(b'{"jsonrpc":"2.0","id":8,"method":"m"}', b'{"jsonrpc":"2.0","id":1,"method":"m"}')
        right.received()
        await right.send(b'{"jsonrpc":"2.0","id":2,"result":{}}')  # ends the request with the id 1
        await left.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled"%b}' % params)
        assert right.received() == []
        await right.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        assert left.received()[1:] == [b'{"jsonrpc":"2.0","id":8,"result":{}}']


@through_relay(MCP_2025_11_25)
async def test_progress_is_passed_with_its_token(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"_meta":{"progressToken":5}}}')
    assert right.received() == [b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":5}}}']
    progress = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":0.50}}'
    await right.send(progress)
    assert left.received() == [progress]


@through_relay(MCP_2025_11_25)
async def test_the_id_of_a_subscription_is_translated(left: End, right: End, faults: list[Any]) -> None:
    await left.send(LISTEN, b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    right.received()
    acknowledged, changed = b"notifications/subscriptions/acknowledged", b"notifications/tools/list_changed"
    await right.send(SUBSCRIBED % (acknowledged, b"1"), SUBSCRIBED % (changed, b"1"))
    assert left.received() == [SUBSCRIBED % (acknowledged, b'"s"'), SUBSCRIBED % (changed, b'"s"')]
    # An id that does not belong to a subscription stays unchanged.
    for strange in (b"2", b"3", b'"1"', b"null", b"{}"):
        await right.send(SUBSCRIBED % (acknowledged, strange))
        assert left.received() == [SUBSCRIBED % (acknowledged, strange)]
    await right.send(SUBSCRIBED % (b"notifications/message", b"1"))
    assert left.received() == [SUBSCRIBED % (b"notifications/message", b"1")]
    meta = b'{"_meta":{"io.modelcontextprotocol/subscriptionId":%b}}'
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":%b}' % (meta % b"1"))
    assert left.received() == [b'{"jsonrpc":"2.0","id":"s","result":%b}' % (meta % b'"s"')]


@through_relay(MCP_2025_11_25)
async def test_a_server_ends_a_subscription(left: End, right: End, faults: list[Any]) -> None:
    await left.send(LISTEN, b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}'
    await right.send(cancel % b"2")  # not a subscription
    assert left.received() == []
    await right.send(cancel % b"1")
    assert left.received() == [cancel % b'"s"']
    await left.send(LISTEN)
    assert right.received()[2:] == [b'{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen"}']


@through_relay(MCP_2025_03_26)
async def test_a_batch_is_split_and_answered_by_one_array(left: End, right: End, faults: list[Any]) -> None:
    await left.send(
        b'[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":"x","method":"b"},'
        b'{"jsonrpc":"2.0","id":3},{"jsonrpc":"2.0","id":4,"method":"c"}]'
    )
    assert right.received() == [
        b'{"jsonrpc":"2.0","id":1,"method":"a"}',
        b'{"jsonrpc":"2.0","method":"n"}',
        b'{"jsonrpc":"2.0","id":2,"method":"b"}',
        b'{"jsonrpc":"2.0","id":3,"method":"c"}',
    ]
    await right.send(b'{"jsonrpc":"2.0","id":2,"result":{"b":1}}')
    await left.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}')
    assert left.received() == []
    await right.send(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a"}}')
    items = [
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a"}}',
        b'{"jsonrpc":"2.0","id":"x","result":{"b":1}}',
        b'{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"Invalid Request"}}',
    ]
    assert left.received() == [b"[" + b",".join(items) + b"]"]


@through_relay()
async def test_a_batch_may_mix_requests_and_responses(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}', b'{"jsonrpc":"2.0","id":2,"method":"m"}')
    await right.send(
        b'[{"jsonrpc":"2.0","id":2,"result":2},{"jsonrpc":"2.0","id":1,"method":"r"},'
        b'{"jsonrpc":"2.0","id":1,"method":"r"},{"jsonrpc":"2.0","id":1,"result":1}]'
    )
    assert left.received() == [
        b'{"jsonrpc":"2.0","id":2,"result":2}',
        b'{"jsonrpc":"2.0","id":1,"method":"r"}',
        b'{"jsonrpc":"2.0","id":1,"result":1}',
    ]
    right.received()
    await left.send(b'{"jsonrpc":"2.0","id":1,"result":3}')
    refused = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid Request"}}'
    assert right.received() == [b'[{"jsonrpc":"2.0","id":1,"result":3},%b]' % refused]


@through_relay()
async def test_a_batch_of_notifications_is_not_answered(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'[{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","method":"n"}]')
    assert (len(right.received()), left.received()) == (2, [])


@through_relay(max_calls=1)
async def test_a_batch_of_refused_requests_gets_one_array(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    await left.send(b'[{"jsonrpc":"2.0","id":2,"method":"m"},{"jsonrpc":"2.0","id":3,"method":"m"}]')
    refused = b'"error":{"code":-32000,"message":"too many requests wait for the other side"}}'
    assert left.received() == [b'[{"jsonrpc":"2.0","id":2,%b,{"jsonrpc":"2.0","id":3,%b]' % (refused, refused)]


@through_relay(MCP_2025_11_25)
async def test_a_malformed_message_is_not_passed_on(left: End, right: End, faults: list[Any]) -> None:
    left.transport.channel.write(b'{"jsonrpc":"2.0","id":5,"method":""}\n{"a":1\n')
    left.transport.channel.write(b'{"jsonrpc":"2.0","id":1,"result":1}\n{"id":null}\n')
    await settle()
    assert right.received() == []
    assert left.received() == [b'{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"Invalid Request"}}']
    assert [(side, fault.code) for side, fault in faults] == [
        ("left", ParseErrorCode.EMPTY_METHOD),
        ("left", ParseErrorCode.MALFORMED_JSON),
        ("left", ParseErrorCode.INVALID_RESULT_TYPE),
        ("left", ParseErrorCode.MISSING_JSONRPC),
    ]
    await left.send(b'{"jsonrpc":"2.0","method":"n"}')
    assert right.received() == [b'{"jsonrpc":"2.0","method":"n"}']


@rows(("policy", "replies"), [("never", 0), ("always", 30), ("limited", 10), (ResponseBudget(1e-9, 3), 3)])
async def test_the_reply_policy_for_messages_without_an_id(policy: Any, replies: int) -> None:
    async with relayed(response_policy=policy) as (left, _, faults, _):
        left.transport.channel.write(b"{\n" * 30)
        await settle()
        response = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
        assert left.received() == [response] * replies
        assert len(faults) == 30


@through_relay(MCP_2025_11_25)
async def test_a_malformed_response_becomes_an_error(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":"q","method":"m"}')
    right.transport.channel.write(b'{"jsonrpc":"2.0","id":1,"result":[]}\n')
    await settle()
    unreadable = b'{"code":-32603,"message":"the other side sent an invalid response: result is not an object"}'
    assert left.received() == [b'{"jsonrpc":"2.0","id":"q","error":%b}' % unreadable]
    assert right.received()[1:] == []
    assert [(side, fault.code) for side, fault in faults] == [("right", ParseErrorCode.INVALID_RESULT_TYPE)]


@through_relay(MCP_2025_11_25)
async def test_an_unreadable_response_ends_its_request_and_a_line_of_a_log_ends_none(
    left: End, right: End, faults: list[Any]
) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":"q","method":"m"}')
    right.transport.channel.write(b"id 1: NaN\n")
    await settle()
    assert left.received() == []
    right.transport.channel.write(b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}\n')
    await settle()
    unreadable = b'{"code":-32603,"message":"the other side sent an invalid response: the text is not JSON"}'
    assert left.received() == [b'{"jsonrpc":"2.0","id":"q","error":%b}' % unreadable]
    assert [(side, fault.code) for side, fault in faults] == [("right", ParseErrorCode.MALFORMED_JSON)] * 2
    await left.send(b'{"jsonrpc":"2.0","id":"q","method":"again"}')
    await right.send(b'{"jsonrpc":"2.0","id":2,"result":{}}')
    assert left.received() == [b'{"jsonrpc":"2.0","id":"q","result":{}}']


@through_relay()
async def test_a_response_without_a_request_is_dropped(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":1,"result":1}')
    await left.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}')
    assert (left.received(), right.received()) == ([], [])
    assert [(side, type(fault), str(fault)) for side, fault in faults] == [
        ("left", StateError, "received a response with an unknown id"),
        ("left", StateError, "received an error with an unknown id: code 1"),
    ]


@through_relay()
async def test_an_empty_method_is_refused_with_any_profile(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":1,"method":""}', b'{"jsonrpc":"2.0","method":""}')
    assert right.received() == []
    assert left.received() == [b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid Request"}}']
    assert [fault.code for _, fault in faults] == [ParseErrorCode.EMPTY_METHOD] * 2


async def test_faults_are_logged_without_on_fault(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "jsonrpc_fast.relay"):
        async with relayed(on_fault=None) as (left, *_):
            left.transport.channel.write(b'{"secret"\n')
            await settle()
    assert caplog.messages == ["left: ParseError: the text is not JSON"]


@pytest.mark.virtual_time
async def test_a_side_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = FaultLog()
    for _ in range(1000):
        log("right", StateError("a fault"))
    assert caplog.messages == ["server: a fault"] * 10
    await asyncio.sleep(1)
    log("left", OSError())
    log("left", OSError())
    assert caplog.messages[10:] == ["client: OSError (990 more before)"]


def test_an_invalid_reply_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="response_policy"):
        Relay(*memory_pair(), response_policy="often")  # type: ignore[arg-type]


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
    async with Relay(left, right), Session(outer_right, {"add": lambda a, b: a + b}), Session(outer_left) as session:
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
    """One side of a conversation.

    Attributes:
        end: The peer.
        unanswered: How many requests with each id have no response yet.
        cancelled: How many requests with each id were cancelled.
        requests: The ids of the requests that it has received and not responded to.
    """

    def __init__(self, end: End) -> None:
        self.end = end
        self.unanswered: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()
        self.requests: list[int] = []

    async def act(self, action: str, value: Any) -> None:
        if action == "ask":
            items = [{"jsonrpc": "2.0", "id": id, "method": "m"} for id in value]
            self.unanswered.update(map(json.dumps, value))
            await self.end.send(json.dumps(items if len(items) > 1 else items[0]).encode())
        elif action == "cancel":
            self.cancelled[json.dumps(value)] += self.unanswered[json.dumps(value)] > 0
            params = {"requestId": value}
            message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            await self.end.send(json.dumps(message).encode())
        elif action == "answer" and self.requests:
            id = self.requests.pop(value % len(self.requests))
            await self.end.send(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % id)
        elif action == "garbage":
            self.end.transport.channel.write(value + b"\n")
            await settle()

    def receive(self) -> None:
        for line in self.end.received():
            messages = json.loads(line)
            for message in messages if isinstance(messages, list) else [messages]:
                if "method" not in message:
                    self.unanswered[json.dumps(message["id"])] -= 1
                elif "id" in message:
                    self.requests.append(message["id"])
                else:
                    self.requests = [id for id in self.requests if id != message["params"]["requestId"]]


@scaled_examples(0.2)
@given(st.lists(st.tuples(st.booleans(), actions), max_size=30))
async def test_each_request_gets_one_response(conversation: list[tuple[bool, tuple[str, Any]]]) -> None:
    """A cancelled request may get none."""

    async with relayed(JSONRPC) as (left, right, _, relay):
        talkers = Talker(left), Talker(right)
        for is_right, (action, value) in conversation:
            await talkers[is_right].act(action, value)
            for talker in talkers:
                talker.receive()
        await relay.close()
        await settle()
        for talker in talkers:
            talker.receive()
            assert all(0 <= left <= talker.cancelled[id] for id, left in talker.unanswered.items())


class Server:
    """The handlers of both sides."""

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
            await forever()
        finally:
            self.cancelled += 1

    def handlers(self) -> dict[str, Callable[..., Any]]:
        return {"echo": self.echo, "fail": self.fail, "wait": self.wait}


async def talk(session: Session, name: str, chance: random.Random, calls: int) -> dict[str, int]:
    """Make calls, 50 at a time, and check every response. Returns the number of calls by outcome."""
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
                reported: list[Any] = []

                def stop(value: Any) -> None:
                    reported.append(value)
                    call.cancel()

                params = {"number": number}
                call = asyncio.ensure_future(session.call("wait", params, on_progress=stop))
                with pytest.raises(asyncio.CancelledError):
                    await call
                assert reported == [{"progress": number}]
                ends["cancelled"] += 1

    await asyncio.gather(*map(one, range(calls)))
    return ends


@pytest.mark.time_limit(100)
@pytest.mark.parametrize("calls", [400, pytest.param(3000, marks=pytest.mark.slow)])
async def test_calls_in_both_directions(calls: int) -> None:
    (outer_left, left), (outer_right, right) = memory_pair(raw=True), memory_pair(raw=True)
    one, other = Server(), Server()
    faults: list[Any] = []
    relay = Relay(left, right, on_fault=lambda *fault: faults.append(fault))
    first = Session(outer_left, one.handlers(), convention=McpConvention())
    second = Session(outer_right, other.handlers(), convention=McpConvention())
    async with relay, first, second:
        talks = talk(first, "first", random.Random(1), calls), talk(second, "second", random.Random(2), calls)
        ends = await asyncio.gather(*talks)
        assert all(min(found.values()) > calls / 10 and sum(found.values()) == calls for found in ends)
        await settle()
        assert (one.cancelled, other.cancelled) == (ends[1]["cancelled"], ends[0]["cancelled"])
        assert faults == []
        for side in (relay._left, relay._right):
            assert side.engine.is_idle


ECHO = """
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.stdio import run_stdio

async def serve(transport):
    session = Session(transport, {"echo": lambda *params: params})
    await session.start()
    await session.wait_closed()

run_stdio(serve)
"""


@pytest.mark.ci
async def test_requests_to_a_killed_process_get_errors() -> None:
    outer, left = memory_pair(raw=True)
    right = StdioClient([sys.executable, "-c", ECHO], raw=True)
    faults: list[Any] = []
    async with Relay(left, right, on_fault=lambda *fault: faults.append(fault)) as relay, Session(outer) as session:
        calls = [asyncio.ensure_future(session.call("echo", [number])) for number in range(2000)]
        assert (await calls[500]).decode() == [500]
        assert right.pid is not None
        os.kill(right.pid, signal.SIGSTOP)
        calls += [asyncio.ensure_future(session.call("echo", [number])) for number in range(100)]
        await settle()
        os.kill(right.pid, signal.SIGKILL)
        done = await results_of(*calls)
        await relay.wait_closed()
    lost = [error for error in done if isinstance(error, Exception)]
    assert len(lost) >= 100
    assert {(type(error), getattr(error, "code", None)) for error in lost} == {(RpcError, RELAY_ERROR)}
    assert right.returncode == -signal.SIGKILL
    assert [(side, type(fault)) for side, fault in faults] == [("right", ConnectionLost)]


@pytest.mark.ci
def test_requests_from_a_pipe_are_answered_before_the_relay_exits() -> None:
    """The pipe ends at once, and the requests still get responses."""
    relay = [sys.executable, str(PEERS / "relay.py"), sys.executable, "-c", ECHO]
    requests = b"".join([b'{"jsonrpc":"2.0","id":"%d","method":"echo","params":{}}\n' % id for id in range(200)])
    done = subprocess.run(relay, input=requests, capture_output=True, timeout=30)
    # The server's results are arrays, which MCP does not allow.
    refused = b'{"code":-32603,"message":"the other side sent an invalid response: result is not an object"}'
    assert sorted(done.stdout.splitlines()) == sorted(
        [b'{"jsonrpc":"2.0","id":"%d","error":%b}' % (id, refused) for id in range(200)]
    )
    assert (done.stderr, done.returncode) == (b"", 0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_and_a_server_of_another_library_through_a_relay(mode: str) -> None:
    pytest.importorskip("mcp.server.mcpserver")

    command = [sys.executable, str(PEERS / "relay.py"), sys.executable, str(PEERS / "lowlevel_server.py")]
    notifications: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
    sample = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "4"}}
    handlers = {
        "roots/list": lambda params: {"roots": [{"uri": "file:///a"}]},
        "sampling/createMessage": lambda params: sample,
    }
    async with connect(
        *command, mode=mode, handlers=handlers, on_notification=lambda *what: notifications.put_nowait(what)
    ) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["ask", "changed", "error", "again", "level"]
        assert (await client.call_tool("ask"))["content"][0]["text"] == "file:///a 4"
        with pytest.raises(RpcError) as caught:
            await client.call_tool("error")
        assert (caught.value.code, caught.value.data) == (-32050, {"why": [1, None]})
        if client.server.revision.is_modern:
            wanted = {"notifications": {"toolsListChanged": True}}
            listening = asyncio.create_task(client.call("subscriptions/listen", wanted, timeout=None))
            method, params = await notifications.get()
            assert method == "notifications/subscriptions/acknowledged"
            await client.call_tool("changed")
            method, changed = await notifications.get()
            assert (method, changed["_meta"]) == ("notifications/tools/list_changed", params["_meta"])
            listening.cancel()
        else:
            await client.call_tool("changed")
            assert (await notifications.get())[0] == "notifications/tools/list_changed"
