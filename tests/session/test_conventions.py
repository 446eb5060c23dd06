"""Cancellation and progress in the conventions of LSP and MCP."""

from __future__ import annotations

from typing import Any

import pytest

from jsonrpc_fast import LSP, MCP_2025_06_18, Decoder, Notification, Raw, decode
from jsonrpc_fast.session.conventions import Convention, LspConvention, McpConvention
from jsonrpc_fast.session.events import Cancelled, Progressed
from jsonrpc_fast.session.peer import Peer
from jsonrpc_fast.session.tracker import Outcome

from ..support.peer_events import receive, request_from
from ..support.tables import rows


def test_json_rpc_itself_has_no_cancellation() -> None:
    peer = Peer()
    call, data = peer.call("m", {"a": 1}, 0.0, idle_timeout=1.0, on_progress=print)
    assert data == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}\n'
    assert peer.cancel(call, "reason") == b""
    assert receive(peer, b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}') == [
        Notification("$/cancelRequest", {"id": 1})
    ]


def lsp() -> Peer:
    return Peer(decoder=Decoder(profile=LSP), convention=LspConvention())


def mcp() -> Peer:
    return Peer(decoder=Decoder(profile=MCP_2025_06_18), convention=McpConvention())


def test_lsp_cancels() -> None:
    peer = lsp()
    call, _ = peer.call("m", None, 0.0)
    assert peer.cancel(call) == b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}\n'
    assert peer.cancel(call) == b""
    assert receive(peer, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}') == []


def test_lsp_answers_a_cancelled_request() -> None:
    peer = lsp()
    request = request_from(receive(peer, b'{"jsonrpc":"2.0","id":"x","method":"m"}'))
    assert receive(peer, b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"x"}}') == [
        Cancelled(request, None)
    ]
    assert request.is_cancelled
    assert peer.answer_cancelled(request) == (
        b'{"jsonrpc":"2.0","id":"x","error":{"code":-32800,"message":"Request cancelled"}}\n'
    )


def test_lsp_allows_a_result_for_a_cancelled_request() -> None:
    peer = lsp()
    request = request_from(receive(peer, b'{"jsonrpc":"2.0","id":"x","method":"m"}'))
    receive(peer, b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"x"}}')
    assert peer.answer(request, 1) == b'{"jsonrpc":"2.0","id":"x","result":1}\n'


def test_mcp_cancels_with_a_reason() -> None:
    peer = mcp()
    call, _ = peer.call("tools/call", {}, 0.0)
    assert peer.cancel(call, "enough") == (
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}\n'
    )


def test_mcp_gives_a_cancelled_request_no_answer() -> None:
    peer = mcp()
    request = request_from(receive(peer, b'{"jsonrpc":"2.0","id":5,"method":"tools/call"}'))
    text = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"enough"}}'
    assert receive(peer, text) == [Cancelled(request, "enough")]
    assert peer.answer(request, {}) == b""
    assert len(peer.serving) == 0


def test_mcp_never_cancels_initialize() -> None:
    peer = mcp()
    call, _ = peer.call("initialize", {}, 0.0, timeout=1.0)
    assert peer.cancel(call) == b""
    assert call.outcome is Outcome.CANCELLED
    request = request_from(receive(peer, b'{"jsonrpc":"2.0","id":5,"method":"initialize"}'))
    assert receive(peer, b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}') == []
    assert peer.answer(request, {}) != b""


@rows("id", ["6", '"5"', "5.0", "null", "true", "[]", "{}"])
def test_a_cancellation_without_a_request_does_nothing(id: str) -> None:
    peer = mcp()
    request = request_from(receive(peer, b'{"jsonrpc":"2.0","id":5,"method":"m"}'))
    receive(peer, b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % id.encode())
    assert not request.is_cancelled


@pytest.mark.parametrize("convention", [LspConvention(), McpConvention()])
def test_a_malformed_notification_of_the_convention_is_served_like_any_other(convention: Convention) -> None:
    for method in convention.methods:
        for params in (b"", b',"params":[1]', b',"params":{}', b',"params":{"id":[],"token":1.5,"progressToken":true}'):
            events = receive(
                Peer(convention=convention), b'{"jsonrpc":"2.0","method":"%b"%b}' % (method.encode(), params)
            )
            assert [type(event) for event in events] == [Notification]


PROGRESS: list[tuple[Any, bytes, bytes, Any]] = [
    (
        lsp,
        b'{"a":1,"workDoneToken":1}',
        b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":1,"value":{"percentage":5}}}',
        {"percentage": 5},
    ),
    (
        mcp,
        b'{"a":1,"_meta":{"progressToken":1}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":5}}',
        {"progress": 5},
    ),
]


@pytest.mark.parametrize(("make", "params", "progress", "value"), PROGRESS, ids=["lsp", "mcp"])
def test_progress_extends_the_idle_deadline(make: Any, params: bytes, progress: bytes, value: Any) -> None:
    peer = make()
    seen: list[Any] = []
    call, data = peer.call("m", {"a": 1}, 0.0, timeout=10.0, idle_timeout=2.0, on_progress=seen.append)
    assert data == b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}\n' % params
    assert receive(peer, progress, 1.5) == [Progressed(call, value)]
    assert peer.expire(2.0) == []
    assert peer.expire(3.4) == []
    assert peer.expire(3.5) == [call]
    # The token is free again.
    assert [type(event) for event in receive(peer, progress, 4.0)] == [Notification]


@pytest.mark.parametrize(("make", "params", "progress", "value"), PROGRESS, ids=["lsp", "mcp"])
def test_progress_on_a_request_is_reported_to_the_peer_that_asked(
    make: Any, params: bytes, progress: bytes, value: Any
) -> None:
    peer = make()
    request = request_from(receive(peer, b'{"jsonrpc":"2.0","id":9,"method":"m","params":%b}' % params))
    assert peer.report_progress(request, value) == progress + b"\n"
    peer.answer(request, {})
    assert peer.report_progress(request, value) == b""
    request = request_from(receive(peer, b'{"jsonrpc":"2.0","id":9,"method":"m"}'))
    assert peer.report_progress(request, value) == b""


def test_a_token_in_the_params_is_used() -> None:
    peer = lsp()
    call, data = peer.call("m", {"workDoneToken": "mine"}, 0.0, on_progress=print)
    assert data == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"workDoneToken":"mine"}}\n'
    text = b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":"mine","value":1}}'
    assert receive(peer, text) == [Progressed(call, 1)]


@rows("params", [[1], {"_meta": 5}])
def test_params_that_cannot_carry_a_token_are_unchanged(params: Any) -> None:
    _, data = mcp().call("m", params, 0.0, idle_timeout=1.0)
    assert decode(data).params == params  # type: ignore[union-attr]


def test_the_callers_params_are_not_changed() -> None:
    params = {"_meta": {"a": 1}}
    _, data = mcp().call("m", params, 0.0, idle_timeout=1.0)
    assert params == {"_meta": {"a": 1}}
    assert decode(data).params == {"_meta": {"a": 1, "progressToken": 1}}  # type: ignore[union-attr]


def test_raw_payloads() -> None:
    peer = Peer(decoder=Decoder(raw=True), convention=LspConvention())
    call, _ = peer.call("m", Raw(b'{"a":1}'), 0.0, on_progress=print)
    text = b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":1,"value":[2]}}'
    assert receive(peer, text) == [Progressed(call, [2])]
    request = request_from(receive(peer, b'{"jsonrpc":"2.0","id":9,"method":"m","params":{"workDoneToken":4}}'))
    assert request.params == Raw(b'{"workDoneToken":4}')
    assert peer.report_progress(request, 1) == (
        b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":4,"value":1}}\n'
    )


class Shouting(Convention):
    """One of a user's own."""

    methods = frozenset({"STOP"})
    cancelled_error = (1, "STOPPED")

    def cancellation(self, id: int | str, reason: str | None) -> tuple[str, dict[str, Any]]:
        return "STOP", {"it": id}


def test_a_custom_convention() -> None:
    peer = Peer(convention=Shouting())
    call, _ = peer.call("m", None, 0.0)
    assert peer.cancel(call) == b'{"jsonrpc":"2.0","method":"STOP","params":{"it":1}}\n'
