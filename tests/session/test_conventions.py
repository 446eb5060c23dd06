"""Cancellation and progress in the conventions of LSP and MCP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC, LSP, MCP_2025_06_18, Decoder, Notification, Raw, Response, decode
from jsonrpc_fast.errors import CallCancelled, CallTimeout
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.session.conventions import AcpConvention, Cancellation, Convention, LspConvention, McpConvention

from ..support.engines import Cancelled, End, receive, request_from
from ..support.session_pairs import Faults, session_and_wire, settle
from ..support.tables import rows
from ..support.waiting import results_of


def test_json_rpc_itself_has_no_cancellation() -> None:
    end = End()
    call, data = end.call("m", {"a": 1}, 0.0, idle_timeout=1.0, on_progress=print)
    assert data == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}\n'
    assert end.engine.calls.cancel(call, "reason") == b""
    assert receive(end, b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}') == [
        Notification("$/cancelRequest", {"id": 1})
    ]


def lsp() -> End:
    return End(decoder=Decoder(profile=LSP), convention=LspConvention())


def mcp() -> End:
    return End(decoder=Decoder(profile=MCP_2025_06_18), convention=McpConvention())


def test_lsp_cancels() -> None:
    end = lsp()
    call, _ = end.call("m", None, 0.0)
    assert end.engine.calls.cancel(call) == b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}\n'
    assert end.engine.calls.cancel(call) == b""
    assert receive(end, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}') == []


def test_lsp_answers_a_cancelled_request() -> None:
    end = lsp()
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":"x","method":"m"}'))
    assert receive(end, b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"x"}}') == [Cancelled(request)]
    assert request.is_cancelled
    assert end.respond_cancelled(request) == (
        b'{"jsonrpc":"2.0","id":"x","error":{"code":-32800,"message":"Request cancelled"}}\n'
    )


def test_lsp_allows_a_result_for_a_cancelled_request() -> None:
    end = lsp()
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":"x","method":"m"}'))
    receive(end, b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"x"}}')
    assert end.answer(request, 1) == b'{"jsonrpc":"2.0","id":"x","result":1}\n'


def test_mcp_cancels_with_a_reason() -> None:
    end = mcp()
    call, _ = end.call("tools/call", {}, 0.0)
    assert end.engine.calls.cancel(call, "enough") == (
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}\n'
    )


def test_mcp_gives_a_cancelled_request_no_answer() -> None:
    end = mcp()
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":5,"method":"tools/call"}'))
    text = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"enough"}}'
    assert receive(end, text) == [Cancelled(request)]
    assert end.answer(request, {}) == b""
    assert len(end.serving) == 0


def test_mcp_never_cancels_initialize() -> None:
    end = mcp()
    call, _ = end.call("initialize", {}, 0.0, timeout=1.0)
    assert end.engine.calls.cancel(call) == b""
    assert call.outcome is Outcome.CANCELLED
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":5,"method":"initialize"}'))
    assert receive(end, b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}') == []
    assert end.answer(request, {}) != b""


@rows("id", ["6", '"5"', "5.0", "null", "true", "[]", "{}"])
def test_a_cancellation_without_a_request_does_nothing(id: str) -> None:
    end = mcp()
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":5,"method":"m"}'))
    receive(end, b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % id.encode())
    assert not request.is_cancelled


@pytest.mark.parametrize("convention", [LspConvention(), McpConvention()])
def test_a_malformed_notification_of_the_convention_is_served_like_any_other(convention: Convention) -> None:
    for method in convention.methods:
        for params in (b"", b',"params":[1]', b',"params":{}', b',"params":{"id":[],"token":1.5,"progressToken":true}'):
            events = receive(
                End(convention=convention), b'{"jsonrpc":"2.0","method":"%b"%b}' % (method.encode(), params)
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
    end = make()
    seen: list[Any] = []
    call, data = end.call("m", {"a": 1}, 0.0, timeout=10.0, idle_timeout=2.0, on_progress=seen.append)
    assert data == b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}\n' % params
    assert receive(end, progress, 1.5) == []
    assert seen == [value]
    assert end.expire(2.0) == []
    assert end.expire(3.4) == []
    assert end.expire(3.5) == [call]
    # The token is free again.
    assert [type(event) for event in receive(end, progress, 4.0)] == [Notification]


@pytest.mark.parametrize(("make", "params", "progress", "value"), PROGRESS, ids=["lsp", "mcp"])
def test_progress_on_a_request_is_reported_to_the_peer_that_asked(
    make: Any, params: bytes, progress: bytes, value: Any
) -> None:
    end = make()
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":9,"method":"m","params":%b}' % params))
    assert end.report_progress(request, value) == progress + b"\n"
    end.answer(request, {})
    assert end.report_progress(request, value) == b""
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":9,"method":"m"}'))
    assert end.report_progress(request, value) == b""


def test_a_token_in_the_params_is_used() -> None:
    end = lsp()
    seen: list[Any] = []
    _, data = end.call("m", {"workDoneToken": "mine"}, 0.0, on_progress=seen.append)
    assert data == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"workDoneToken":"mine"}}\n'
    text = b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":"mine","value":1}}'
    assert receive(end, text) == []
    assert seen == [1]


@rows(
    "convention, asked, members",
    [
        (LspConvention, b'{"workDoneToken":%d}', {"workDoneToken": 2**64}),
        (LspConvention, b'{"partialResultToken":%d}', {"workDoneToken": 2**64}),
        (McpConvention, b'{"_meta":{"progressToken":%d}}', {"_meta": {"progressToken": 2**64}}),
    ],
)
def test_a_token_may_be_an_integer_beyond_64_bits(convention: Any, asked: bytes, members: Any) -> None:
    end = End(decoder=Decoder(profile=JSONRPC), convention=convention(), id_factory=lambda: 2**64)
    for number in (2**64 - 1, 2**64, -(2**63), -(2**63) - 1):
        text = b'{"jsonrpc":"2.0","id":9,"method":"m","params":%b}' % (asked % number)
        request = request_from(receive(end, text))
        write = end.engine.item if b"partial" in asked else end.engine.progress
        sent = write(request, {"progress": 1})
        assert b"%d" % number in sent
        end.answer(request, None)
    seen: list[Any] = []
    _, data = end.call("m", {}, 0.0, on_progress=seen.append)
    assert decode(data).params == members  # type: ignore[union-attr]
    name = "token" if convention is LspConvention else "progressToken"
    message = b'{"jsonrpc":"2.0","method":"%b","params":{"%b":18446744073709551616,"progress":1,"value":1}}'
    methods = {LspConvention: b"$/progress", McpConvention: b"notifications/progress"}
    assert receive(end, message % (methods[convention], name.encode())) == []
    assert len(seen) == 1


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
    end = End(decoder=Decoder(raw=True), convention=LspConvention())
    seen: list[Any] = []
    end.call("m", Raw(b'{"a":1}'), 0.0, on_progress=seen.append)
    text = b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":1,"value":[2]}}'
    assert receive(end, text) == []
    assert seen == [[2]]
    request = request_from(receive(end, b'{"jsonrpc":"2.0","id":9,"method":"m","params":{"workDoneToken":4}}'))
    assert request.params == Raw(b'{"workDoneToken":4}')
    assert end.report_progress(request, 1) == (
        b'{"jsonrpc":"2.0","method":"$/progress","params":{"token":4,"value":1}}\n'
    )


class Shouting(Convention):
    """A user's convention."""

    methods = frozenset({"STOP"})
    cancelled_error = (1, "STOPPED")

    def cancellation(self, id: int | str, reason: str | None) -> tuple[str, dict[str, Any]]:
        return "STOP", {"it": id}


def test_a_custom_convention() -> None:
    end = End(convention=Shouting())
    call, _ = end.call("m", None, 0.0)
    assert end.engine.calls.cancel(call) == b'{"jsonrpc":"2.0","method":"STOP","params":{"it":1}}\n'


def test_the_convention_of_acp() -> None:
    convention = AcpConvention()
    assert convention.cancellation(1, "too late") == ("$/cancel_request", {"requestId": 1})
    for id in (1, "a"):
        assert convention.read("$/cancel_request", {"requestId": id}) == Cancellation(id, None)
    for params in (None, [], {}, {"requestId": None}, {"requestId": True}, {"id": 1}):
        assert convention.read("$/cancel_request", params) is None
    assert convention.cancelled_error == (-32800, "Request cancelled")


class Raising(LspConvention):
    """A user's convention that fails."""

    methods = frozenset({"$/cancelRequest", "rpc.goodbye"})

    def cancellation(self, id: int | str, reason: str | None) -> tuple[str, dict[str, Any]]:
        if id:
            raise ValueError("mine")
        return "$/cancelRequest", {"id": id}

    def goodbye(self, last: Any) -> tuple[str, dict[str, Any]]:
        raise ValueError("mine")

    def read(self, method: str, params: Any) -> None:
        raise ValueError("mine")

    def trace(self, params: Any, extra: Any) -> dict[str, str]:
        raise ValueError("mine")


class Unwritable(LspConvention):
    """A user's convention whose params are not JSON."""

    def cancellation(self, id: int | str, reason: str | None) -> tuple[str, dict[str, Any]]:
        return "$/cancelRequest", {"id": object()}

    def goodbye(self, last: Any) -> tuple[str, dict[str, Any]]:
        return "rpc.goodbye", {"last": object()}


class Seen(Faults):
    """Hooks that record faults and trace contexts, and return something."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[Any] = []

    def fault(self, error: Exception) -> bytes:  # type: ignore[override]
        self.seen.append(error)
        return b"not a message"

    def request_received(self, id: Any, method: str, trace: dict[str, str]) -> None:
        self.traces.append(trace)


FAILING = [(Raising(), "ValueError('mine')"), (Unwritable(), "EncodeError('Type is not JSON serializable: object: ")]


@rows("convention, fault", FAILING)
@pytest.mark.virtual_time
@pytest.mark.usefixtures("each_loop")
async def test_a_cancellation_that_fails_is_reported_and_every_call_ends(convention: Convention, fault: str) -> None:
    faults = Faults()
    async with session_and_wire(convention=convention, hooks=faults) as (session, wire):
        calls = [asyncio.create_task(session.call("m", timeout=seconds)) for seconds in (1, 1, 2)]
        cancelled = asyncio.create_task(session.call("m"))
        await settle()
        assert session.cancel(4)
        outcomes = await results_of(*calls, cancelled)
        assert [type(outcome) for outcome in outcomes] == [CallTimeout, CallTimeout, CallTimeout, CallCancelled]
        assert [repr(error).startswith(fault) for error in faults.seen] == [True] * 4
        assert [message.method for message in wire.received] == ["m"] * 4


@rows("convention, fault", FAILING)
@pytest.mark.usefixtures("each_loop")
async def test_a_goodbye_that_fails_is_reported_and_the_session_closes(convention: Convention, fault: str) -> None:
    faults = Seen()
    async with session_and_wire({"m": lambda: 1}, convention=convention, hooks=faults) as (session, wire):
        wire.send(b'{"jsonrpc":"2.0","id":7,"method":"m"}\n')
        assert await wire.next() == Response(7, 1)
        faults.seen.clear()
        await session.close()
        assert not session.is_connected
        assert [repr(error).startswith(fault) for error in faults.seen] == [True]
        await settle()
        assert wire.received == []


@pytest.mark.usefixtures("each_loop")
async def test_a_batch_goes_on_when_the_convention_cannot_read_one_of_its_notifications() -> None:
    faults = Seen()
    handlers: dict[str, Any] = {"m": lambda: 1, "$/cancelRequest": lambda **params: None}
    async with session_and_wire(handlers, convention=Raising(), hooks=faults) as (_, wire):
        wire.send(
            b'[{"jsonrpc":"2.0","id":1,"method":"m"},'
            b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}},'
            b'{"jsonrpc":"2.0","id":2,"method":"m"}]\n'
        )
        assert await wire.next() == [Response(1, 1), Response(2, 1)]
        assert faults.traces == [{}, {}, {}]
        assert [repr(error) for error in faults.seen] == ["ValueError('mine')"] * 4
