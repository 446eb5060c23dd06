"""Calls of tools that need no context: they run in the task of their HTTP request, and get what other calls get."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import orjson
import pytest

from jsonrpc_fast import Request
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.http import MemoryEventStore
from jsonrpc_fast.mcp.http.endpoint import McpEndpoint
from jsonrpc_fast.mcp.server import Context, Server, ToolError, WholeResult

from ...support import memory
from ...support.mcp_http import Exchange, begin_session, body_of, call, modern, request
from ...support.session_pairs import sessions
from ...support.tables import rows

pytestmark = pytest.mark.virtual_time

WAITED = (
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"waited"}],'
    b'"structuredContent":{"result":"waited"}}}'
)
UNSENT = "Tool {} returned a value that cannot be sent: "
INTERNAL = {"code": -32603, "message": "Internal error"}
variable: ContextVar[str] = ContextVar("variable", default="before")


def text(value: str, **members: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **members}


def raise_error(error: BaseException) -> Any:
    raise error


ACTIONS: dict[str, tuple[Callable[[], Any], Any]] = {
    "a text": (lambda: "x", text("x")),
    "an object": (lambda: {"a": [1, None]}, text('{"a":[1,null]}', structuredContent={"a": [1, None]})),
    "nothing": (lambda: None, {"content": []}),
    "a whole result": (lambda: WholeResult({"content": [], "own": 1}), {"content": [], "own": 1}),
    "a ToolError": (lambda: raise_error(ToolError("no luck")), text("no luck", isError=True)),
    "an exception": (lambda: raise_error(ValueError("secret")), text("Tool {} failed", isError=True)),
    "an RpcError": (
        lambda: raise_error(RpcError(-7, "seven", {"a": 1})),
        {"code": -7, "message": "seven", "data": {"a": 1}},
    ),
    "data that cannot be written": (lambda: raise_error(RpcError(-7, "seven", object())), INTERNAL),
    "an invalid result": (
        lambda: WholeResult({"content": [1]}),
        text(f"{UNSENT}/content/0 must not be of type int", isError=True),
    ),
    "a result that cannot be written": (
        lambda: WholeResult({"content": [], "own": "\ud800"}),
        text(f"{UNSENT}str is not valid UTF-8: surrogates not allowed, at /own", isError=True),
    ),
    "an exit": (lambda: raise_error(SystemExit(3)), INTERNAL),
    "a cancellation of its own": (lambda: raise_error(asyncio.CancelledError()), INTERNAL),
}


class Tools:
    """A server with each action as a sync and an async tool, with and without the context, and with a tool that waits.

    Attributes:
        server: The server.
        entered: Set when `wait` runs.
        opened: Lets it end.
        outcome: How it has ended.
    """

    def __init__(self, **options: Any) -> None:
        self.server = server = Server("tools", "1.0", **options)
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.outcome = ""
        for number, (action, _) in enumerate(ACTIONS.values()):
            self._add(number, action)

        @server.tool
        async def wait() -> str:
            self.entered.set()
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.outcome = "cancelled"
                raise
            self.outcome = "waited"
            return "waited"

    def _add(self, number: int, action: Callable[[], Any]) -> None:
        def sync() -> Any:
            return action()

        def sync_context(context: Context) -> Any:
            return action() if context.request_id == 5 else None

        async def late() -> Any:
            return action()

        async def later() -> Any:
            await asyncio.sleep(0.01)
            return action()

        async def late_context(context: Context) -> Any:
            return action() if context.request_id == 5 else None

        for function in (sync, sync_context, late, later, late_context):
            self.server.tool(name=f"{function.__name__}{number}", description="")(function)


async def wait_in(app: McpEndpoint, session: bytes | None, id: int = 1) -> tuple[Exchange, asyncio.Task[Any]]:
    """Begin a call of `wait`."""
    message = call(id, "wait")
    if session is None:
        given = modern(message)
        exchange = Exchange(app, given["json"], headers=given["headers"])
    else:
        exchange = Exchange(app, message, session)
    return exchange, asyncio.create_task(exchange.events())


@rows("name", [*ACTIONS])
@rows("kind", ["sync", "sync_context", "late", "later", "late_context"])
@pytest.mark.ci
async def test_the_response_is_the_same_with_and_without_a_context(
    kind: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = Tools()
    app = McpEndpoint(tools.server)
    tool = f"{kind}{[*ACTIONS].index(name)}"
    expected = ACTIONS[name][1]
    is_error = "code" in expected
    if not is_error and "{}" in str(expected):
        expected = text(expected["content"][0]["text"].format(tool), isError=True)
    with caplog.at_level(logging.ERROR):
        start, body = await Exchange(app, call(5, tool), await begin_session(app)).events()
        assert start["status"] == 200
        assert orjson.loads(body["body"]) == {"jsonrpc": "2.0", "id": 5, "error" if is_error else "result": expected}
        is_logged = expected == INTERNAL or tool in str(expected)
        assert len(caplog.records) == is_logged
        given = modern(call(5, tool))
        start, body = await Exchange(app, given["json"], headers=given["headers"]).events()
        response = orjson.loads(body["body"])
        if is_error:
            assert response == {"jsonrpc": "2.0", "id": 5, "error": expected}
        else:
            meta = {"io.modelcontextprotocol/serverInfo": {"name": "tools", "version": "1.0"}}
            assert response["result"] == {**expected, "resultType": "complete", "_meta": meta}
    await app.close()


async def test_a_modern_client_is_asked_for_input_by_a_tool_without_a_context() -> None:
    server = Server("tools", "1.0")
    asked = {"name": {"method": "roots/list"}}

    @server.tool
    async def ask() -> WholeResult:
        return WholeResult({"resultType": "input_required", "inputRequests": asked})

    app = McpEndpoint(server)
    message = call(1, "ask")
    message["params"]["_meta"] = {"io.modelcontextprotocol/clientCapabilities": {"roots": {}}}
    given = modern(message)
    _, body = await Exchange(app, given["json"], headers=given["headers"]).events()
    result = orjson.loads(body["body"])["result"]
    assert (result["resultType"], result["inputRequests"], type(result["requestState"])) == (
        "input_required",
        asked,
        str,
    )
    await app.close()


async def test_a_tool_runs_in_the_task_of_its_request_from_its_first_step_to_its_last() -> None:
    server = Server("tools", "1.0")
    tasks: list[Any] = []

    @server.tool
    async def limited(seconds: float) -> str:
        tasks.append(asyncio.current_task())
        variable.set("inside")
        try:
            async with asyncio.timeout(1), asyncio.TaskGroup() as group:  # type: ignore[attr-defined]
                group.create_task(asyncio.sleep(0.1))
                await asyncio.sleep(seconds)
        except TimeoutError:
            return f"late {variable.get()}"
        tasks.append(asyncio.current_task())
        return f"in time {variable.get()}"

    app = McpEndpoint(server)
    session = await begin_session(app)
    for seconds, expected in ((0.5, "in time inside"), (5, "late inside")):
        task = asyncio.create_task(Exchange(app, call(1, "limited", seconds=seconds), session).events())
        _, *bodies = await task
        assert expected in body_of(bodies).decode()
        assert set(tasks) == {task}
        tasks.clear()
        assert not task.cancelling()  # type: ignore[attr-defined]
    await app.close()


@rows("is_modern", [False, True])
async def test_a_response_that_comes_soon_is_json_and_a_late_one_an_event(is_modern: bool) -> None:
    for seconds, kind in ((0.01, b"application/json"), (1.0, b"application/json"), (40.0, b"text/event-stream")):
        tools = Tools()
        app = McpEndpoint(tools.server, event_store=None, keep_alive_seconds=15.0)
        exchange, task = await wait_in(app, None if is_modern else await begin_session(app))
        await asyncio.sleep(seconds)
        tools.opened.set()
        await task
        answer = exchange.answer
        assert answer is not None
        assert answer.headers[b"content-type"] == kind
        assert answer.body.count(b'"text":"waited"') == 1
        assert answer.body.startswith(b": keep-alive\n\n") is (seconds == 40.0)
        await app.close()


async def test_a_cancelled_request_gets_no_response_and_its_task_goes_on() -> None:
    tools = Tools()
    app = McpEndpoint(tools.server, event_store=None)
    session = await begin_session(app)
    exchange, task = await wait_in(app, session)
    await tools.entered.wait()
    refused = await Exchange(app, call(1, "wait"), session).events()
    assert (refused[0]["status"], b"the id is in flight" in refused[1]["body"]) == (400, True)
    notice: Any = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": True}}
    for other in (True, 1.0, "1", [1]):  # the first two are equal to 1 in Python
        notice["params"]["requestId"] = other
        await Exchange(app, notice, session).events()
    assert not task.done()
    notice["params"]["requestId"] = 1
    await Exchange(app, notice, session).events()
    await task
    assert tools.outcome == "cancelled"
    assert (body_of(exchange.sent), exchange.is_complete) == (b"", True)
    tools.opened.set()
    assert (await Exchange(app, call(1, "wait"), session).events())[1]["body"] == WAITED
    await app.close()


async def test_the_end_of_the_session_cancels_the_tool() -> None:
    tools = Tools()
    app = McpEndpoint(tools.server, event_store=None)
    session = await begin_session(app)
    _, task = await wait_in(app, session)
    await tools.entered.wait()
    assert (await Exchange(app, None, session, "DELETE").events())[0]["status"] == 200
    await task
    assert tools.outcome == "cancelled"
    await app.close()


@rows("is_modern", [False, True])
async def test_a_tool_that_does_not_end_in_time_gets_an_error_when_the_server_ends(is_modern: bool) -> None:
    tools = Tools()
    app = McpEndpoint(tools.server)
    exchange, task = await wait_in(app, None if is_modern else await begin_session(app))
    await tools.entered.wait()
    await app.close(1.0)
    await task
    assert tools.outcome == "cancelled"
    text = b"the server or the session was closed before the function ended"
    assert b'"id":1,"error":{"code":-32603,"message":"%b"}}' % text in body_of(exchange.sent)


async def test_a_client_that_leaves_finds_the_response_in_the_store() -> None:
    tools = Tools()
    store = MemoryEventStore()
    app = McpEndpoint(tools.server, event_store=store, keep_alive_seconds=1.0)
    session = await begin_session(app)
    exchange, task = await wait_in(app, session)
    await exchange.until(lambda events: b"keep-alive" in body_of(events))
    exchange.gone.set()
    await asyncio.sleep(1.0)
    tools.opened.set()
    await task
    assert tools.outcome == "waited"
    [last] = [line[4:] for line in body_of(exchange.sent).decode().split("\n") if line.startswith("id: ")]
    resumed = await Exchange(app, None, session, "GET", headers={"last-event-id": last}).events()
    assert WAITED in body_of(resumed)
    await app.close()


@rows("seconds", [0.0, 5.0])
@rows("is_modern", [False, True])
async def test_a_server_that_cancels_the_request_cancels_the_tool(is_modern: bool, seconds: float) -> None:
    tools = Tools()
    app = McpEndpoint(tools.server, keep_alive_seconds=1.0)
    exchange, task = await wait_in(app, None if is_modern else await begin_session(app))
    await tools.entered.wait()
    await asyncio.sleep(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(1)
    assert (tools.outcome, app.requests) == ("cancelled", 0)
    assert not exchange.is_complete
    await app.close()


async def test_a_future_that_was_cancelled_elsewhere_is_a_failure_of_the_tool() -> None:
    server = Server("tools", "1.0")

    @server.tool
    async def depend() -> str:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.1, future.cancel)
        return str(await future)

    app = McpEndpoint(server)
    session = await begin_session(app)
    task = asyncio.create_task(Exchange(app, call(1, "depend"), session).events())
    assert orjson.loads(body_of(await task)) == {"jsonrpc": "2.0", "id": 1, "error": INTERNAL}
    assert not task.cancelled()
    await app.close()


async def test_the_timeout_of_a_tool_ends_it() -> None:
    server = Server("tools", "1.0")

    @server.tool(timeout=0.2)
    async def hang() -> None:
        await asyncio.Event().wait()

    app = McpEndpoint(server)
    _, body = await Exchange(app, call(1, "hang"), await begin_session(app)).events()
    expected = text("Tool hang did not finish within 0.2 seconds", isError=True)
    assert orjson.loads(body["body"])["result"] == expected
    await app.close()


async def test_a_tool_that_waits_for_another_session_has_no_slot() -> None:
    tools, opened = Tools(), asyncio.Event()

    async def respond() -> str:
        await opened.wait()
        return "far"

    async with sessions({"far": respond}) as (client, _):

        @tools.server.tool
        async def ask() -> str:
            await asyncio.sleep(0)
            text: str = await client.call("far")
            return text

        app = McpEndpoint(tools.server, session_options={"max_handlers": 1})
        session = await begin_session(app)
        asking = asyncio.create_task(Exchange(app, call(1, "ask"), session).events())
        await asyncio.sleep(0.1)
        assert b'"text":"x"' in body_of(await asyncio.wait_for(Exchange(app, call(2, "late0"), session).events(), 5))
        opened.set()
        assert b'"text":"far"' in body_of(await asking)
        await app.close()


async def test_a_hook_and_a_middleware_see_each_call() -> None:
    seen: list[Any] = []

    class Hooks:
        def request_served(self, trace: Any, id: Any, method: str, outcome: Any, code: Any, seconds: float) -> None:
            seen.append((id, method))

    async def watch(context: Context, params: dict[str, Any], call_next: Any) -> Any:
        seen.append(params["name"])
        return await call_next(params)

    table: list[tuple[Any, Any, Any]] = [
        (
            {},
            {"session_options": {"hooks": Hooks()}},
            [(0, "initialize"), (None, "notifications/initialized"), (7, "tools/call")],
        ),
        ({"middleware": [watch]}, {}, ["sync0"]),
    ]
    for options, app_options, expected in table:
        app = McpEndpoint(Tools(**options).server, **app_options)
        session = await begin_session(app)
        _, body = await Exchange(app, call(7, "sync0"), session).events()
        assert b'"text":"x"' in body["body"]
        assert seen == expected
        seen.clear()
        await app.close()


async def test_params_that_the_protocol_refuses_are_refused() -> None:
    app = McpEndpoint(Tools().server)
    session = await begin_session(app)
    for params, message in (
        ({"name": "sync0", "arguments": [1]}, "arguments must be an object"),
        ({"name": 7}, "name must be a string"),
        ({"name": "no such"}, "Unknown tool"),
    ):
        _, body = await Exchange(app, request(1, "tools/call", **params), session).events()
        assert orjson.loads(body["body"])["error"] == {"code": -32602, "message": message}
    given = modern(request(1, "tools/call", name="sync0", arguments={}, requestState="forged"))
    _, body = await Exchange(app, given["json"], headers=given["headers"]).events()
    assert orjson.loads(body["body"])["error"]["code"] == -32602
    await app.close()


async def test_the_end_of_the_session_leaves_no_cycle() -> None:
    app = McpEndpoint(Tools().server, event_store=None)

    async def run() -> None:
        for _ in range(5):
            session = await begin_session(app)
            assert (await Exchange(app, None, session, "DELETE").events())[0]["status"] == 200

    await run()
    memory.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await run()
        gc.collect()
        found = {type(each).__name__ for each in gc.garbage if type(each).__module__.startswith("jsonrpc_fast")}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert found == set()
    await app.close()


async def test_a_tool_that_may_run_as_a_task_takes_only_itself_off_the_shortest_way() -> None:
    server = Server("shop", "1.0")
    server.tool(name="now")(lambda: "now")
    server.tool(name="later", task_support="optional")(lambda: "later")
    for name, is_short in (("now", True), ("later", False)):
        params = modern(request(1, "tools/call", name=name, arguments={}))["json"]["params"]
        assert (server.call_plain(Request(1, "tools/call", params), None) is not None) is is_short


async def test_log_messages_of_a_request_are_written_with_the_default_of_the_endpoint() -> None:
    server = Server("shop", "1.0")

    @server.tool
    def say(context: Context) -> None:
        context.log("error", {"where": Path("shelf")})

    app = McpEndpoint(server, {"default": str})
    meta = {"io.modelcontextprotocol/logLevel": "debug"}
    sent = modern(request(1, "tools/call", name="say", arguments={}, _meta=meta))
    posted = Exchange(app, sent["json"], headers=sent["headers"])
    assert b'"data":{"where":"shelf"}' in body_of(await posted.events())
