"""Bytes in, events out; calls in, bytes out. No clock runs here: every `now` is a literal."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import JSONRPC, LSP, Decoder, Error, Limits, Notification, ParseError, Request, decode
from jsonrpc_fast.errors import StateError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.session import InboundRequest
from jsonrpc_fast.session.calls import Call
from jsonrpc_fast.session.conventions import LspConvention, McpConvention
from jsonrpc_fast.session.inbound import PAUSE_SECONDS, STALL_SECONDS

from ..support.engines import End, Fault, fault_from, receive, request_from
from ..support.tables import rows

INVALID = b'{"code":-32600,"message":"Invalid Request"}'


def test_a_call_and_its_result() -> None:
    end = End()
    call, data = end.call("add", [1, 2], 0.0)
    assert data == b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}\n'
    assert receive(end, b'{"jsonrpc":"2.0","id":1,"result":3}') == [call]
    assert (call.outcome, call.settled_by) == (Outcome.RESULT, 3)


def test_a_call_and_its_error() -> None:
    end = End()
    call, _ = end.call("add", None, 0.0)
    assert receive(end, b'{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"no","data":null}}') == [call]
    assert (call.outcome, call.settled_by) == (Outcome.ERROR, Error(5, "no", None))


def test_both_roles_use_one_id_each() -> None:
    end = End()
    call, _ = end.call("theirs", None, 0.0)
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":1,"method":"ours"}'))
    assert end.answer(request, "done") == b'{"jsonrpc":"2.0","id":1,"result":"done"}\n'
    assert receive(end, b'{"jsonrpc":"2.0","id":1,"result":null}') == [call]
    assert len(end.calls) == len(end.serving) == 0


@rows("params", ["text", 5, object(), {1}, [object()]])
def test_params_that_cannot_be_encoded_leave_no_call(params: object) -> None:
    end = End(convention=McpConvention())
    with pytest.raises(TypeError):
        end.call("m", params, 0.0, 5.0, 1.0)
    with pytest.raises(TypeError):
        end.call_batch([("m", None), ("m", params)], 0.0)
    assert len(end.calls) == 0
    assert end.calls.next_deadline() == inf


def test_progress_for_something_that_cannot_be_called_is_refused() -> None:
    end = End(convention=McpConvention())
    with pytest.raises(TypeError, match=r"^on_progress must be callable, not int$"):
        end.call("m", None, 0.0, on_progress=3)  # type: ignore[arg-type]
    assert len(end.calls) == 0


def test_a_notification() -> None:
    end = End()
    assert end.engine.calls.notify("log", {"a": 1}) == b'{"jsonrpc":"2.0","method":"log","params":{"a":1}}\n'
    assert receive(end, b'{"jsonrpc":"2.0","method":"log"}') == [Notification("log")]


@rows("id", [b"2", b'"1"', b"1.0", b"null", b"-1", b"1e0", b"123456789012345678901234567890"], ids=bytes.decode)
def test_an_answer_to_no_call_is_a_fault_without_reply(id: bytes) -> None:
    end = End()
    call, _ = end.call("m", None, 0.0)
    fault = fault_from(receive(end, b'{"jsonrpc":"2.0","id":%b,"result":1}' % id))
    assert isinstance(fault.error, StateError)
    assert fault.response == b""
    assert call.outcome is None


def test_a_second_answer_is_a_fault() -> None:
    end = End()
    end.call("m", None, 0.0)
    answer = b'{"jsonrpc":"2.0","id":1,"result":1}'
    assert len(receive(end, answer)) == 1
    assert isinstance(fault_from(receive(end, answer)).error, StateError)


def test_a_late_answer_is_dropped() -> None:
    end = End()
    timed_out, _ = end.call("m", None, 0.0, timeout=1.0)
    cancelled, _ = end.call("m", None, 0.0)
    assert end.expire(1.0) == [timed_out]
    assert end.engine.calls.cancel(cancelled) == b""
    assert receive(end, b'{"jsonrpc":"2.0","id":1,"result":1}') == []
    assert receive(end, b'{"jsonrpc":"2.0","id":2,"result":1,"error":null}') == []
    assert (timed_out.outcome, cancelled.outcome) == (Outcome.TIMEOUT, Outcome.CANCELLED)


@rows(
    "answer",
    [
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"5","message":"no"}}',
        b'{"jsonrpc":"2.0","id":1,"error":"no"}',
        b'{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":5,"message":"no"}}',
        b'{"jsonrpc":"1.0","id":1,"result":1}',
        b'{"id":1,"result":1,"error":null}',
    ],
    ids=bytes.decode,
)
def test_a_malformed_answer_settles_its_call(answer: bytes) -> None:
    end = End()
    call, _ = end.call("m", None, 0.0)
    assert receive(end, answer) == [call]
    assert call.outcome is Outcome.FAULT
    assert isinstance(call.settled_by, ParseError)


def test_a_batch_of_answers_over_the_limit_settles_its_calls() -> None:
    end = End(decoder=Decoder(profile=JSONRPC.replace(limits=Limits(batch_items=2))))
    alone, _ = end.call("alone", None, 0.0)
    calls, _ = end.call_batch([("a", None), ("b", None), ("c", None)], 0.0)
    result = b'{"jsonrpc":"2.0","id":%d,"result":0}'
    assert receive(end, b"[%b,%b,%b]" % (result % 3, result % 2, result % 4)) == [calls[1], calls[0], calls[2]]
    assert {type(call and call.settled_by) for call in calls} == {ParseError}
    assert alone.outcome is None


def test_a_batch_of_answers_that_the_protocol_forbids_settles_its_calls() -> None:
    end = End(decoder=Decoder(profile=LSP))
    call, _ = end.call("m", None, 0.0)
    assert receive(end, b'[{"jsonrpc":"2.0","id":1,"result":1}]') == [call]
    assert call.outcome is Outcome.FAULT


def test_a_malformed_request_settles_no_call() -> None:
    end = End()
    call, _ = end.call("m", None, 0.0)
    fault = fault_from(receive(end, b'{"jsonrpc":"2.0","id":1,"method":5}'))
    assert fault.response == b'{"jsonrpc":"2.0","id":1,"error":%b}\n' % INVALID
    assert call.outcome is None


@rows(
    "text",
    [
        b'{"jsonrpc":"2.0","id":9,"result":1,"error":{}}',
        b'{"jsonrpc":"2.0","result":1}',
        b'{"jsonrpc":"2.0","id":true,"result":1}',
        b'{"jsonrpc":"2.0","id":9,"error":5}',
        b'{"jsonrpc":"2.0","id":9,"method":"m","result":5}',
        b'{"jsonrpc":"2.0","method":"m","params":5}',
    ],
    ids=bytes.decode,
)
def test_what_looks_like_an_answer_or_a_notification_gets_no_reply(text: bytes) -> None:
    fault = fault_from(receive(End(response_policy="always"), text))
    assert isinstance(fault.error, ParseError)
    assert fault.response == b""


def test_a_request_with_an_id_in_flight_is_refused_and_the_first_one_continues() -> None:
    end = End()
    first = request_from(receive(end, b'{"jsonrpc":"2.0","id":7,"method":"m"}'))
    fault = fault_from(receive(end, b'{"jsonrpc":"2.0","id":7,"method":"other"}'))
    assert isinstance(fault.error, StateError)
    assert fault.response == b'{"jsonrpc":"2.0","id":7,"error":%b}\n' % INVALID
    # Another type is another id.
    for id in (b'"7"', b"7.0", b"null"):
        request_from(receive(end, b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % id))
    assert end.answer(first, 1) == b'{"jsonrpc":"2.0","id":7,"result":1}\n'
    request_from(receive(end, b'{"jsonrpc":"2.0","id":7,"method":"m"}'))


def test_a_result_that_cannot_be_encoded_is_answered_with_an_internal_error() -> None:
    end = End()
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":7,"method":"m"}'))
    assert end.answer(request, object()) == (
        b'{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Internal error"}}\n'
    )


def test_a_request_is_answered_once() -> None:
    end = End()
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":7,"method":"m"}'))
    assert end.answer(request, 1) != b""
    assert end.answer(request, 1) == b""
    assert end.refuse(request, 1, "no") == b""


def test_nothing_is_answered_after_the_connection_is_lost() -> None:
    end = End()
    call, _ = end.call("m", None, 0.0, timeout=5.0)
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":7,"method":"m"}'))
    assert end.lose() == [call]
    assert call.outcome is Outcome.LOST
    assert end.answer(request, 1) == b""
    assert end.lose() == []
    assert end.expire(1e9) == []


# The response policy.

UNREADABLE = [b"{", b"5", b'{"jsonrpc":"2.0","id":true,"method":"m"}', b"[]", b'"\xff"']


@rows("text", UNREADABLE)
def test_always(text: bytes) -> None:
    reply = fault_from(receive(End(response_policy="always"), text)).response
    answer = decode(reply)
    assert answer.id is None  # type: ignore[union-attr]
    assert answer.error.code in (-32700, -32600)  # type: ignore[union-attr]


@rows("text", UNREADABLE)
def test_never(text: bytes) -> None:
    assert fault_from(receive(End(response_policy="never"), text)).response == b""


def test_never_still_answers_requests_with_an_id() -> None:
    end = End(response_policy="never")
    reply = fault_from(receive(end, b'{"jsonrpc":"2.0","id":7,"method":5}')).response
    assert reply == b'{"jsonrpc":"2.0","id":7,"error":%b}\n' % INVALID


def test_limited() -> None:
    end = End(response_policy="limited")
    times = (5.0,) * 11 + (5.9, 6.0, 6.0, 8.0, 8.0, 8.0)
    replies = [bool(fault_from(receive(end, b"{", now)).response) for now in times]
    assert replies == [True] * 10 + [False, False, True, False, True, True, False]


def test_limited_is_ten_at_once() -> None:
    end = End(response_policy="limited")
    assert sum(bool(fault_from(receive(end, b"{", 5.0)).response) for _ in range(100)) == 10
    assert sum(bool(fault_from(receive(end, b"{", 1e9)).response) for _ in range(100)) == 10


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="response_policy"):
        End(response_policy="sometimes")


def test_two_ends_do_not_answer_each_other_forever() -> None:
    one, other = End(), End()
    data = fault_from(receive(one, b"nonsense")).response
    [event] = other.receive(data)
    assert isinstance(event, Fault)
    assert event.response == b""


# Batches.


def test_a_batch_is_answered_by_one_array_after_its_last_request() -> None:
    end = End()
    events = receive(
        end,
        b'[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n"},5,'
        b'{"jsonrpc":"2.0","id":1,"method":"again"},{"jsonrpc":"2.0","id":"b","method":"b"}]',
    )
    first, notification, unreadable, duplicate, second = events
    assert notification == Notification("n")
    assert isinstance(unreadable, Fault)
    assert isinstance(duplicate, Fault)
    assert unreadable.response == duplicate.response == b""
    assert isinstance(first, InboundRequest)
    assert isinstance(second, InboundRequest)
    assert end.refuse(second, 5, "no") == b""
    assert end.answer(first, [1]) == (
        b'[{"jsonrpc":"2.0","id":1,"result":[1]},{"jsonrpc":"2.0","id":null,"error":%b},'
        b'{"jsonrpc":"2.0","id":1,"error":%b},{"jsonrpc":"2.0","id":"b","error":{"code":5,"message":"no"}}]\n'
    ) % (INVALID, INVALID)


def test_a_batch_without_requests_is_answered_at_once_or_not_at_all() -> None:
    end = End()
    first, second = receive(end, b"[1,2]")
    assert first.response == b""
    error = b'{"jsonrpc":"2.0","id":null,"error":%b}' % INVALID
    assert second.response == b"[%b,%b]\n" % (error, error)
    assert receive(end, b'[{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","method":"m"}]') == [
        Notification("n"),
        Notification("m"),
    ]
    # Two messages that look like responses to no call.
    events = receive(end, b'[{"jsonrpc":"2.0","id":1,"result":1},{"jsonrpc":"2.0","id":2,"result":1,"error":1}]')
    assert [type(event) for event in events] == [Fault, Fault]
    assert [type(event) for event in receive(End(response_policy="never"), b"[1,2]")] == [Fault, Fault]


def test_the_calls_of_a_batch_settle_one_by_one() -> None:
    end = End()
    calls, data = end.call_batch([("a", [1]), Notification("n"), ("b", None)], 0.0, timeout=5.0)
    assert data == (
        b'[{"jsonrpc":"2.0","id":1,"method":"a","params":[1]},{"jsonrpc":"2.0","method":"n"},'
        b'{"jsonrpc":"2.0","id":2,"method":"b"}]\n'
    )
    first, nothing, second = calls
    assert nothing is None
    assert receive(end, b'[{"jsonrpc":"2.0","id":2,"result":2},{"jsonrpc":"2.0","id":1,"result":1}]') == [second, first]
    assert end.calls.next_deadline() == inf


def test_an_error_without_an_id_settles_the_whole_batch() -> None:
    end = End()
    alone, _ = end.call("alone", None, 0.0)
    calls, _ = end.call_batch([("a", None), ("b", None)], 0.0)
    assert receive(end, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}') == calls
    assert [call.settled_by for call in calls if call is not None] == [Error(-32600, "no")] * 2
    assert alone.outcome is None
    # There is no other batch for a second response, and one call.
    assert receive(end, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}') == [alone]


@rows("code", [-32601, -32602])
def test_a_response_to_a_notification_settles_no_call(code: int) -> None:
    """Some peers send one, with an id that the notification does not have."""
    error = b'{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"no"}}' % code
    end = End()
    end.engine.calls.notify("unknown", [1])
    call, _ = end.call("a", None, 0.0)
    assert isinstance(fault_from(receive(end, error)).error, StateError)
    assert receive(end, b'{"jsonrpc":"2.0","id":1,"result":1}') == [call]
    assert call.settled_by == 1
    (_, batched), _ = end.call_batch([Notification("unknown"), ("b", None)], 0.0)
    fault, settled = receive(end, b'[%b,{"jsonrpc":"2.0","id":2,"result":2}]' % error)
    assert isinstance(fault, Fault)
    assert settled is batched
    assert settled.settled_by == 2


@rows("batches", [0, 2])
def test_an_ambiguous_error_without_an_id_settles_nothing(batches: int) -> None:
    end = End()
    for _ in range(batches):
        end.call_batch([("a", None)], 0.0)
    fault_from(receive(end, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}'))
    assert len(end.calls) == batches


def test_an_error_without_an_id_ignores_a_batch_with_an_answer() -> None:
    end = End()
    end.call_batch([("a", None), ("b", None), ("c", None)], 0.0)
    assert len(receive(end, b'{"jsonrpc":"2.0","id":1,"result":1}')) == 1
    fault_from(receive(end, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}'))
    assert len(end.calls) == 2


def test_an_error_without_an_id_settles_the_only_call() -> None:
    end = End()
    text = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}'
    first, _ = end.call("first", None, 0.0)
    second, _ = end.call("second", None, 0.0, timeout=1.0)
    fault_from(receive(end, text))  # which one?
    assert receive(end, b'{"jsonrpc":"2.0","id":1,"result":1}') == [first]
    assert receive(end, text) == [second]
    assert (second.outcome, second.settled_by) == (Outcome.ERROR, Error(-32600, "no"))
    fault_from(receive(end, text))  # no call is left in flight
    given_up, _ = end.call("given up", None, 0.0, timeout=1.0)
    assert end.expire(1.0) == [given_up]
    last, _ = end.call("last", None, 2.0)
    fault = fault_from(receive(end, text))  # it may be the late response
    assert last.outcome is None
    assert str(fault.error) == "received an error with an unknown id: code -32600"
    assert repr(fault.error.__cause__) == "RpcError(-32600, 'no', UNSET)"
    later, _ = end.call("later", None, 2.0)
    assert receive(end, b'{"jsonrpc":"2.0","id":4,"result":1}') == [last]
    assert receive(end, text) == [later]  # the peer has read the fourth since it read the third


def test_a_call_that_was_not_sent_is_no_call_with_a_response() -> None:
    end = End()
    text = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}'
    end.call("given up", None, 0.0, timeout=1.0)
    assert len(end.expire(1.0)) == 1
    with pytest.raises(TypeError):
        end.call("m", [object()], 2.0)
    with pytest.raises(ValueError, match="timeout"):
        end.call("m", None, 2.0, timeout=-1.0)
    last, _ = end.call("last", None, 2.0)
    fault_from(receive(end, text))
    assert last.outcome is None


def test_an_error_without_an_id_ignores_a_batch_that_was_given_up() -> None:
    end = End()
    end.call_batch([("a", None), ("b", None)], 0.0, timeout=1.0)
    assert len(end.expire(1.0)) == 2
    calls, _ = end.call_batch([("c", None)], 2.0)
    assert receive(end, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}') == calls


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        End().call_batch([], 0.0)


def test_a_batch_of_notifications() -> None:
    calls, data = End().call_batch([Notification("n")], 0.0)
    assert calls == [None]
    assert data == b'[{"jsonrpc":"2.0","method":"n"}]\n'


# The stream.


def test_chunks_of_any_size() -> None:
    stream = (
        b'{"jsonrpc":"2.0","method":"a"}\nnonsense\n[{"jsonrpc":"2.0","method":"b"}]\n{"jsonrpc":"2.0","method":"c"}'
    )
    for size in (1, 7, 1000):
        end = End()
        events = [event for start in range(0, len(stream), size) for event in end.receive(stream[start : start + size])]
        events += end.receive_end()
        assert [event.method if isinstance(event, Notification) else type(event) for event in events] == [
            "a",
            Fault,
            "b",
            "c",
        ]


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"")),
            st.sampled_from(UNREADABLE),
            st.builds(
                lambda *parts: b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % parts,
                st.sampled_from([b"1", b"2", b"3", b"4", b'"1"', b"null", b"1.0", b"[]"]),
                st.sampled_from([b"method", b"result", b"error"]),
                st.sampled_from([b'"m"', b"1", b'{"code":1,"message":""}', b"null"]),
            ),
        ),
        max_size=20,
    ),
    st.booleans(),
)
def test_no_input_breaks_an_engine_and_no_response_is_answered(lines: list[bytes], batched: bool) -> None:
    end = End()
    calls = [end.call("m", None, 0.0)[0] for _ in range(3)]
    settled: list[Call] = []
    texts = [b"[" + b",".join(lines) + b"]"] if batched else lines
    for text in texts:
        for event in receive(end, text):
            if isinstance(event, Call):
                settled.append(event)
            elif isinstance(event, Fault) and event.response:
                assert b'"error":' in event.response
                assert batched or not text.startswith(b"{") or b'"result"' not in text
    assert len(settled) == len({call.id for call in settled})
    assert len(end.calls) + len(settled) == 3
    assert {call.id for call in [*settled, *end.lose()]} == {call.id for call in calls}


# A peer that does not read.


def test_a_pause_still_has_its_limit_after_the_peer_has_read_a_little() -> None:
    """Found by the simulation: two ends that both paused waited for each other."""
    end = End(max_inbox=1, response_bytes=10)
    end.call("m", None, 0.0)
    end.unwritten_bytes = 100
    for id in (b"1", b"2"):
        receive(end, b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % id)
    assert not end.is_reading
    end.engine.drained()
    assert not end.is_reading
    end.expire(PAUSE_SECONDS)
    assert end.is_reading


@rows("waits", [False, True])
def test_a_peer_that_reads_nothing_and_asks_on_is_not_read(waits: bool) -> None:
    """Unless this side waits for a response, which may come: it is always read."""
    end = End(max_inbox=1, response_bytes=10)
    end.unwritten_bytes = 100
    if waits:
        end.call("m", None, 0.0)
    for id in (b"1", b"2"):
        receive(end, b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % id)
    end.expire(PAUSE_SECONDS)
    assert end.is_reading is waits
    if waits:
        receive(end, b'{"jsonrpc":"2.0","id":3,"method":"m"}')  # it is refused
        assert end.engine.refused_bytes
        end.unwritten_bytes += end.engine.refused_bytes
    assert end.engine.fault is None
    end.expire(PAUSE_SECONDS + STALL_SECONDS)
    assert end.is_reading is waits
    assert str(end.engine.fault) == ("None" if waits else "the peer reads none of the responses")


def test_a_peer_that_reads_slowly_is_not_given_up() -> None:
    end = End(max_inbox=1, response_bytes=100)
    end.unwritten_bytes = 1000
    for id in (b"1", b"2"):
        receive(end, b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % id)
    end.expire(PAUSE_SECONDS)
    for number in range(1, 5):
        assert not end.is_reading
        end.unwritten_bytes -= 10
        end.expire(PAUSE_SECONDS + number * STALL_SECONDS)
        assert end.engine.fault is None
    end.unwritten_bytes = 0
    end.engine.drained()
    end.expire(PAUSE_SECONDS + 4 * STALL_SECONDS)
    assert end.is_reading


def test_what_a_turn_had_no_time_for_waits_while_nothing_is_read() -> None:
    end = End(max_inbox=1, response_bytes=10)
    end.unwritten_bytes = 100
    end.engine.be_late()
    for id in (b"1", b"2", b"3", b"4"):
        receive(end, b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % id)
    end.engine.turn()
    assert (len(end.engine.queue), len(end.engine.late)) == (2, 2)
    end.engine.turn()
    assert (len(end.engine.queue), len(end.engine.late)) == (2, 2)
    assert not end.is_reading
    end.engine.finish_late()  # all of it, because the conversation ends
    assert not end.engine.late
    assert len(end.engine.requests) == 4


def test_cancellations_that_wait_for_many_turns_are_read_a_few_times_each() -> None:
    class Counting(LspConvention):
        reads = 0

        def read(self, method: str, params: Any) -> Any:
            Counting.reads += 1
            return super().read(method, params)

    end = End(convention=Counting())
    end.turn_end = lambda: end.now  # type: ignore[method-assign]
    end.engine.be_late()
    for id in range(200):
        receive(end, b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%d}}' % id)
    for _ in range(200):
        assert end.engine.late
        end.engine.turn()
    assert not end.engine.late
    assert Counting.reads == 3 * 200  # when it arrives, ahead, and when it is received


@rows("is_lost", [False, True])
def test_the_faults_that_wait_for_a_turn_when_the_stream_ends_are_reported(is_lost: bool) -> None:
    end = End(response_policy="always")
    unanswered, _ = end.call("m", None, 0.0)
    malformed, _ = end.call("m", None, 0.0)
    end.engine.be_late()
    late = [b"a log", b'[1,{"jsonrpc":"2.0","result":1}]', b'{"jsonrpc":"2.0","id":2,"result":1,"error":2}']
    assert [receive(end, text) for text in late] == [[], [], []]
    end.engine.lose_calls()
    steps = end.take()
    assert [step.error.code.name for step in steps[:2]] == ["MALFORMED_JSON", "MISSING_ID"]
    assert steps[2:] == [malformed, unanswered]
    assert (malformed.outcome, unanswered.outcome) == (Outcome.FAULT, Outcome.LOST)
    if is_lost:
        end.engine.lose()
    else:
        end.engine.finish_late()
    [step] = end.take()
    assert step.error.code.name == "NOT_AN_OBJECT"
    assert step.response.startswith(b"{" if is_lost else b"[{")


def test_a_request_behind_a_large_batch_whose_cancellation_was_read_never_begins() -> None:
    end = End(convention=LspConvention())
    end.turn_end = lambda: end.now  # type: ignore[method-assign]
    notes = [Notification("m")] * 65
    end.engine.receive(notes)
    assert len(end.engine.late) == 1
    end.engine.receive(Request(7, "m"))
    end.engine.receive(Notification("$/cancelRequest", {"id": 7}))
    end.turn_end = lambda: inf  # type: ignore[method-assign]
    end.engine.turn()
    end.engine.turn()
    assert end.take().count(notes[0]) == 65
    assert not end.engine.late
    assert not end.engine.requests


def test_what_waits_for_slots_alone_stops_no_reading() -> None:
    """Those that run may wait for a message that is still to be read."""
    end = End(max_handlers=1, max_inbox=2, response_bytes=100)
    receive(end, b'{"jsonrpc":"2.0","id":0,"method":"m"}')
    end.unwritten_bytes = 1000
    for id in (b"1", b"2", b"3"):
        receive(end, b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % id)
    assert not end.is_reading
    end.unwritten_bytes = 0
    end.expire(PAUSE_SECONDS)  # the peer has read
    end.expire(2 * PAUSE_SECONDS)
    assert end.is_reading
    end.expire(10 * STALL_SECONDS)
    assert end.engine.fault is None


def test_an_end_that_drains_is_idle_although_the_peer_has_not_read_its_refusal() -> None:
    """Found by the simulation."""
    end = End(handlers=Handlers(), response_bytes=10)
    end.unwritten_bytes = 100
    receive(end, b'{"jsonrpc":"2.0","id":1,"method":"unknown"}')
    end.engine.begin_draining()
    assert not end.is_idle
    end.engine.drained()
    assert end.take() == [b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}\n']
    assert end.is_idle


def batch_of_notes(number: int) -> bytes:
    return b"[%b]" % b",".join([b'{"jsonrpc":"2.0","method":"m","params":["%b"]}' % (b"p" * 100)] * 40)


def batch_of_requests(number: int) -> bytes:
    return b"[%b]" % b",".join(b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % (100 * number + id) for id in range(40))


@rows(
    ("batch", "bounds"),
    [
        (batch_of_notes, {"max_inbox": 3, "response_bytes": 10}),
        (batch_of_requests, {"max_inbox": 3, "response_bytes": 10}),
        (batch_of_notes, {"inbox_bytes": 400, "response_bytes": 10}),
    ],
)
def test_one_batch_is_held_beyond_the_bounds_and_no_other_one(
    batch: Callable[[int], bytes], bounds: dict[str, int]
) -> None:
    """Found by the simulation: each time that a peer had read a little, one more batch was held."""
    end = End(**bounds)
    end.unwritten_bytes = 10_000
    receive(end, batch(0))
    assert (len(end.engine.queue), end.is_reading) == (40, False)
    for number in range(1, 6):
        end.expire(number * 100.0)
        if end.is_reading:
            receive(end, batch(2 * number))
        end.unwritten_bytes -= 1000
        end.engine.drained()
        if end.is_reading:
            receive(end, batch(2 * number + 1))
    assert len(end.engine.queue) <= 40
