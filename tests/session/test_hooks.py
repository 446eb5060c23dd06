"""What is reported to hooks, and that failing hooks change nothing."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Any

import pytest

from jsonrpc_fast import Request
from jsonrpc_fast.errors import CallTimeout, RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.http import Endpoint
from jsonrpc_fast.session import LspConvention, Outcome, Session, SessionContext
from jsonrpc_fast.transports import memory_pair

from ..support.recorder import Recorder
from ..support.session_pairs import session_and_wire, sessions
from ..support.tables import rows
from ..support.waiting import settle

pytestmark = pytest.mark.usefixtures("loop")


def refuse() -> None:
    raise RpcError(5, "no")


@pytest.mark.virtual_time
async def test_a_client_and_a_server() -> None:
    client_hooks, server_hooks = Recorder(), Recorder()

    handlers = {"sync": lambda: 1, "async": lambda: asyncio.sleep(0, 2), "refuse": refuse, "object": object}
    async with sessions(handlers, hooks=server_hooks, client_options={"hooks": client_hooks}) as (client, _):
        for method in ("sync", "async"):
            await client.call(method)
        for method in ("refuse", "object", "unknown"):
            with pytest.raises(RpcError):
                await client.call(method)
        await client.notify("sync")
        await client.notify("unknown")
        await settle()
    assert client_hooks.events == [
        ("call", 1, "sync"),
        ("settled", 1, "sync", Outcome.RESULT, None),
        ("call", 2, "async"),
        ("settled", 2, "async", Outcome.RESULT, None),
        ("call", 3, "refuse"),
        ("settled", 3, "refuse", Outcome.ERROR, 5),
        ("call", 4, "object"),
        ("settled", 4, "object", Outcome.ERROR, -32603),
        ("call", 5, "unknown"),
        ("settled", 5, "unknown", Outcome.ERROR, -32601),
    ]
    assert server_hooks.events == [
        ("request", 1, "sync"),
        ("served", 1, "sync", Outcome.RESULT, None),
        ("request", 2, "async"),
        ("served", 2, "async", Outcome.RESULT, None),
        ("request", 3, "refuse"),
        ("served", 3, "refuse", Outcome.ERROR, 5),
        ("request", 4, "object"),
        ("served", 4, "object", Outcome.ERROR, -32603),
        ("served without", 5, "unknown", Outcome.ERROR, -32601),
        ("request", None, "sync"),
        ("served", None, "sync", Outcome.RESULT, None),
    ]


@pytest.mark.virtual_time
async def test_calls_without_an_answer() -> None:
    hooks = Recorder()

    async with session_and_wire(hooks=hooks) as (session, _):
        with pytest.raises(CallTimeout):
            await session.call("timeout", timeout=0)
        session.cancel(session.call_soon("cancelled"))
        session.call_soon("lost")
        with pytest.raises(TypeError):
            session.call_soon("unwritable", 5)
    assert [event[3] for event in hooks.events if event[0] == "settled"] == [
        Outcome.TIMEOUT,
        Outcome.CANCELLED,
        Outcome.LOST,
    ]
    assert len([event for event in hooks.events if event[0] == "call"]) == 3


@pytest.mark.virtual_time
async def test_a_request_that_is_cancelled() -> None:
    hooks = Recorder()

    handlers = {"wait": lambda: asyncio.sleep(5)}
    async with session_and_wire(handlers, hooks=hooks, convention=LspConvention(), max_handlers=1) as (_, wire):
        for id in (1, 2):
            wire.send(b'{"jsonrpc":"2.0","id":%d,"method":"wait"}' % id)
        await settle()
        for id in (2, 1):
            wire.send(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%d}}' % id)
            await settle()
        wire.send(b'{"jsonrpc":"2.0","id":3,"method":"wait"}')  # it is read together with its cancellation
        wire.send(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":3}}')
        await settle()
    assert hooks.events == [
        ("request", 1, "wait"),
        ("request", 2, "wait"),
        ("served", 2, "wait", Outcome.CANCELLED, None),
        ("served", 1, "wait", Outcome.CANCELLED, None),
        ("served without", 3, "wait", Outcome.CANCELLED, None),
    ]


@pytest.mark.virtual_time
async def test_each_request_has_its_own_context() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    seen: list[tuple[str, int]] = []

    class Hooks:
        def request_started(self, id: Any, method: str) -> None:
            seen.append(("started", variable.get()))
            variable.set(id)

        def request_served(self, *event: Any) -> None:
            seen.append(("served", variable.get()))

    async def waits(context: SessionContext) -> None:
        await asyncio.sleep(0.01)
        seen.append(("handler", variable.get()))

    handlers: dict[str, Any] = {"sync": lambda: seen.append(("handler", variable.get())), "async": waits}
    async with sessions(handlers, hooks=Hooks()) as (client, _):
        await client.call("sync")
        await client.call("async")
    assert seen == [("started", 0), ("handler", 1), ("served", 1), ("started", 0), ("handler", 2), ("served", 2)]


@rows("error", [KeyError, asyncio.CancelledError])
async def test_hooks_that_fail_change_nothing(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            def fail(*arguments: Any) -> None:
                raise error(*arguments)

            return fail

    with caplog.at_level(logging.ERROR, "jsonrpc_fast.session"):
        async with sessions(
            {"refuse": refuse, "two": lambda: 2}, hooks=Broken(), client_options={"hooks": Broken()}
        ) as (client, _):
            assert await client.call("two") == 2
            with pytest.raises(RpcError):
                await client.call("refuse")
    assert error.__name__ in caplog.text
    assert "sesame" not in caplog.text


def fail() -> None:
    raise ValueError("x")


async def test_a_fault_says_whose_handler_failed() -> None:
    class Named:
        def __init__(self) -> None:
            self.faults: list[Any] = []

        def fault(self, error: BaseException, method: str | None, id: Any) -> None:
            self.faults.append((type(error).__name__, method, id))

    class Unnamed(Named):
        def fault(self, *errors: BaseException) -> None:  # type: ignore[override]
            self.faults.append(len(errors))

    class Single:
        def __init__(self) -> None:
            self.faults: list[Any] = []

        def fault(self, error: BaseException, detail: str = "none") -> None:
            self.faults.append((type(error).__name__, detail))

    for hooks, expected in (
        (
            Named(),
            [
                ("ValueError", "fail", 1),
                ("EncodeError", "object", "b"),
                ("ValueError", "fail", None),
                ("StateError", None, None),
            ],
        ),
        (Unnamed(), [3, 3, 3, 3]),
        (Single(), [("ValueError", "none"), ("EncodeError", "none"), ("ValueError", "none"), ("StateError", "none")]),
    ):
        async with session_and_wire({"fail": fail, "object": object}, hooks=hooks) as (_, wire):
            wire.send(b'{"jsonrpc":"2.0","id":1,"method":"fail"}')
            wire.send(b'{"jsonrpc":"2.0","id":"b","method":"object"}')
            wire.send(b'{"jsonrpc":"2.0","method":"fail"}')
            wire.send(b'{"jsonrpc":"2.0","id":9,"result":1}')  # to no call
            await settle()
        assert hooks.faults == expected


@rows(
    "found",
    [
        LookupError("a bug"),
        None,
        1,
        "ab",
        (None,),
        (None, None),
        (None, {"id": "9"}),
        (None, {"jsonrpc": "1.0"}),
        (None, {5: "a"}),
        (None, {"traceparent": 5}),
        (None, {"traceparent": "\ud800"}),
    ],
)
async def test_a_trace_context_that_is_not_one_does_not_stop_a_call(
    found: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def call_prepared(self, id: object, method: str) -> Any:
            if isinstance(found, Exception):
                raise found
            return found

    async with session_and_wire(hooks=Broken()) as (session, wire):
        call = session.call_soon("m", [1])
        assert await wire.next() == Request(call, "m", [1])
    assert [record.getMessage() for record in caplog.records] == ["an exception in a callback or a hook"]
    caplog.clear()


@rows("hook, expected", [(asyncio.sleep, "the hook fault must not be async"), (5, "the hook fault must be callable, ")])
async def test_what_is_not_a_hook_is_refused(hook: Any, expected: str) -> None:
    class Hooks:
        fault = staticmethod(hook) if callable(hook) else hook

    with pytest.raises(TypeError, match=expected):
        Session(memory_pair()[0], hooks=Hooks())


class Misspelt:
    def request_serve(self, *details: Any) -> None: ...


@rows("hooks", [Misspelt(), 3, "log", print])
async def test_an_object_without_any_hook_is_refused(hooks: Any) -> None:
    for take in (
        lambda: Session(memory_pair()[0], hooks=hooks),
        lambda: Endpoint({}, hooks=hooks),
        lambda: Handlers().prepare(hooks=hooks),
    ):
        with pytest.raises(TypeError, match=r"^hooks must have a method such as request_served: "):
            take()
