"""The responses to a received batch."""

from __future__ import annotations

from jsonrpc_fast import Request
from jsonrpc_fast.session.requests import InboundBatch, InboundRequest


def test_a_batch_is_answered_after_its_last_reply_and_in_its_order() -> None:
    batch = InboundBatch(4)
    for _ in range(3):
        batch.wait()
    assert batch.finish(2, b"2") == b""
    batch.put(1, b"1")
    assert batch.finish(3, b"") == b""
    assert batch.finish(0, b"0") == b"[0,1,2]\n"


def test_a_batch_without_replies_gets_no_answer() -> None:
    batch = InboundBatch(2)
    batch.wait()
    assert batch.finish(0, b"") == b""


def test_a_request_has_the_members_of_its_message() -> None:
    request = InboundRequest(Request("a", "m", [1]))
    assert (request.id, request.method, request.params, request.is_cancelled) == ("a", "m", [1], False)
    assert (request.batch, request.index) == (None, 0)
