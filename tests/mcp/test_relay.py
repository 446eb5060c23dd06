"""The relay: what arrives on one side when the other side sends, byte by byte."""

from __future__ import annotations

from typing import Any

import pytest

from jsonrpc_fast import MCP_2025_03_26, MCP_2025_11_25, ParseErrorCode
from jsonrpc_fast.errors import StateError
from jsonrpc_fast.mcp.relay import Relay
from jsonrpc_fast.session import ReplyBudget
from jsonrpc_fast.transports.memory import memory_pair

from ..support.mcp_relay import LISTEN, SUBSCRIBED, End, over, turns

pytestmark = pytest.mark.timeout(60)

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
async def test_errors_are_passed_as_they_are(error: bytes) -> None:
    @over()
    async def test(left: End, right: End, faults: list[Any]) -> None:
        await left.send(b'{"jsonrpc":"2.0","id":"x","method":"m"}')
        await right.send(b'{"jsonrpc":"2.0","id":1,"error":%b}' % error)
        assert left.take() == [b'{"jsonrpc":"2.0","id":"x","error":%b}' % error]

    await test()


@over()
async def test_an_id_in_flight_is_refused_and_the_first_goes_on(left: End, right: End, faults: list[Any]) -> None:
    request = b'{"jsonrpc":"2.0","id":5,"method":"m"}'
    await left.send(request, request, b'{"jsonrpc":"2.0","id":"5","method":"m"}')
    assert left.take() == [b'{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"Invalid Request"}}']
    assert [str(fault) for _, fault in faults] == ["the peer reused an id that is in flight"]
    await right.send(b'{"jsonrpc":"2.0","id":1,"result":1}')
    assert left.take() == [b'{"jsonrpc":"2.0","id":5,"result":1}']
    await left.send(request)
    assert right.take()[2:] == [b'{"jsonrpc":"2.0","id":3,"method":"m"}']


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
async def test_a_cancellation_of_nothing_ends_here(params: bytes) -> None:
    @over()
    async def test(left: End, right: End, faults: list[Any]) -> None:
        await left.send(b'{"jsonrpc":"2.0","id":8,"method":"m"}', b'{"jsonrpc":"2.0","id":1,"method":"m"}')
        right.take()
        await right.send(b'{"jsonrpc":"2.0","id":2,"result":{}}')  # the one with the id 1
        await left.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled"%b}' % params)
        assert right.take() == []
        await right.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        assert left.take()[1:] == [b'{"jsonrpc":"2.0","id":8,"result":{}}']

    await test()


@over(MCP_2025_11_25)
async def test_progress_is_passed_with_its_token(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"_meta":{"progressToken":5}}}')
    assert right.take() == [b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":5}}}']
    progress = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":5,"progress":0.50}}'
    await right.send(progress)
    assert left.take() == [progress]


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
async def test_unreadable_messages_without_an_id_are_answered_as_the_policy_says(policy: Any, replies: int) -> None:
    @over(reply_policy=policy)
    async def test(left: End, right: End, faults: list[Any]) -> None:
        left.transport._write(b"{\n" * 30)
        await turns()
        assert left.take() == [b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'] * replies
        assert len(faults) == 30

    await test()


@over(MCP_2025_11_25)
async def test_an_unreadable_answer_is_an_error(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":"q","method":"m"}')
    right.transport._write(b'{"jsonrpc":"2.0","id":1,"result":[]}\n')
    await turns()
    unreadable = b'{"code":-32603,"message":"the other side sent an invalid response"}'
    assert left.take() == [b'{"jsonrpc":"2.0","id":"q","error":%b}' % unreadable]
    assert right.take()[1:] == []
    assert [(side, fault.code) for side, fault in faults] == [("right", ParseErrorCode.INVALID_RESULT_TYPE)]


@over()
async def test_an_answer_to_nothing_is_dropped(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":1,"result":1}')
    await left.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}')
    assert (left.take(), right.take()) == ([], [])
    assert [(side, type(fault), str(fault)) for side, fault in faults] == [
        ("left", StateError, "the peer answered no call that is in flight")
    ] * 2


@over()
async def test_an_empty_method_is_refused_by_any_profile(left: End, right: End, faults: list[Any]) -> None:
    await left.send(b'{"jsonrpc":"2.0","id":1,"method":""}', b'{"jsonrpc":"2.0","method":""}')
    assert right.take() == []
    assert left.take() == [b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid Request"}}']
    assert [fault.code for _, fault in faults] == [ParseErrorCode.EMPTY_METHOD] * 2


async def test_faults_are_logged_where_nobody_takes_them(caplog: pytest.LogCaptureFixture) -> None:
    @over(on_fault=None)
    async def test(left: End, right: End, faults: list[Any]) -> None:
        left.transport._write(b'{"secret"\n')
        await turns()

    with caplog.at_level("DEBUG", "jsonrpc_fast.relay"):
        await test()
    assert caplog.messages == ["left: ParseError: the text is not JSON"]


def test_a_wrong_policy_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="reply_policy"):
        Relay(*memory_pair(), reply_policy="often")  # type: ignore[arg-type]
