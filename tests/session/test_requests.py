"""The requests that are being served, and the responses to a received batch."""

from __future__ import annotations

from jsonrpc_fast import MessageId, Request
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Convention, Driver, Engine, InboundRequest, Rules
from jsonrpc_fast.session.requests import InboundBatch


def test_a_batch_is_answered_after_its_last_reply_and_in_its_order() -> None:
    batch = InboundBatch([None] * 3, is_refused=False)
    assert [batch.next() for _ in range(3)] == [None] * 3
    for _ in range(2):
        batch.wait()
    assert batch.finish(2, b"2") == b""
    batch.index = 1
    batch.put(b"1")
    assert batch.end() == b""
    assert batch.finish(0, b"0") == b"[0,1,2]\n"


def test_a_batch_without_replies_gets_no_answer() -> None:
    batch = InboundBatch([None], is_refused=False)
    assert batch.next() is None
    batch.wait()
    assert batch.finish(0, b"") == b""
    assert batch.end() == b""


def test_the_repr_of_a_request_is_short() -> None:
    shown = repr(InboundRequest(Request(1, "add", {"a": "x" * 1000}), None, None))
    assert shown.startswith("InboundRequest(id=1, method='add', params={'a': 'xxx")
    assert shown.endswith("xxx'}, is_cancelled=False)")
    assert len(shown) < 200


def test_a_request_has_the_members_of_its_message() -> None:
    request = InboundRequest(Request("a", "m", [1]), None, None)
    assert (request.id, request.method, request.params, request.is_cancelled) == ("a", "m", [1], False)
    assert (request.batch, request.index) == (None, 0)


def test_requests_in_flight_are_distinguished_by_type_and_value() -> None:
    engine = Engine(Driver(), Handlers(), Rules(convention=Convention()))
    ids: list[MessageId] = [7, "7", 7.0, 1, "1", 1.0, None]
    begun = {(type(id), id): engine.register(Request(id, "m")) for id in ids}
    assert all(begun.values())
    assert not any(engine.register(Request(id, "again")) for id in ids)
    assert [engine.find_request(id) for id in ids] == list(begun.values())
    assert engine.find_request(True) is None
