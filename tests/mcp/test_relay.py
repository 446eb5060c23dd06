"""The relay: what arrives on one side when the other side sends, byte by byte."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast import MCP_2025_03_26, MCP_2025_11_25, ParseErrorCode
from jsonrpc_fast.errors import StateError
from jsonrpc_fast.mcp.relay import FaultLog, Relay
from jsonrpc_fast.session import ResponseBudget
from jsonrpc_fast.transports.memory import memory_pair

from ..support.mcp_relay import LISTEN, SUBSCRIBED, End, relayed, through_relay
from ..support.tables import rows
from ..support.waiting import settle

pytestmark = pytest.mark.timeout(60)

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
    assert left.received() == [
        b'{"jsonrpc":"2.0","id":1,"result":%b}' % PAYLOAD,
        b'{"jsonrpc":"2.0","method":"n"}',
    ]


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
    # An id that is not of a subscription stays as it is.
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
    unreadable = b'{"code":-32603,"message":"the other side sent an invalid response"}'
    assert left.received() == [b'{"jsonrpc":"2.0","id":"q","error":%b}' % unreadable]
    assert right.received()[1:] == []
    assert [(side, fault.code) for side, fault in faults] == [("right", ParseErrorCode.INVALID_RESULT_TYPE)]


@through_relay(MCP_2025_11_25)
async def test_a_response_whose_id_is_uncertain_ends_no_request(left: End, right: End, faults: list[Any]) -> None:
    """It may as well be a line of a log. The fault is reported, and the client can cancel its request."""
    await left.send(b'{"jsonrpc":"2.0","id":"q","method":"m"}')
    right.transport.channel.write(b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}\nid 1: NaN\n')
    await settle()
    assert left.received() == []
    assert [(side, fault.code) for side, fault in faults] == [("right", ParseErrorCode.MALFORMED_JSON)] * 2
    cancellation = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}'
    await left.send(cancellation % b'"q"')
    assert right.received()[1:] == [cancellation % b"1"]
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
