"""Servers that lie, flood, break and die, and clients that vanish: how this affects the others."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from jsonrpc_fast.errors import ConnectionLost, RpcError
from jsonrpc_fast.mcp import Gateway
from jsonrpc_fast.profile import MCP_2025_11_25
from jsonrpc_fast.transports.memory import memory_pair

from ...support.mcp_gateway import Scripted, Shop, client_of, text_of
from ...support.mcp_script import INITIALIZED
from ...support.tables import rows
from ...support.waiting import eventually, forever, settle

pytestmark = pytest.mark.virtual_time

TOOLS = {"tools": [{"name": "t", "inputSchema": {}}]}
SECRET = "xyzzy"


def beside(answers: dict[str, Any]) -> tuple[Scripted, Gateway]:
    """A server with prepared responses, and the gateway to it and to a good one."""
    bad = Scripted(answers)
    return bad, Gateway({"bad": bad, "good": Shop("good").server})


def deep(depth: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","x":' + b"[" * depth + b"]" * depth + b"}]}}"


@rows(
    "answer",
    [
        {},
        {"tools": 5},
        {"tools": [5]},
        {"tools": [{"name": [SECRET]}]},
        {"tools": [{}]},
        {"tools": [], "nextCursor": 5},
        {"tools": [], "nextCursor": "a"},
        RpcError(-32603, SECRET),
        b'{"jsonrpc":"2.0","id":%s,"result":["xyzzy"]}',
        b'{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"xyzzy\\ud800"}]}}',
        deep(300),
    ],
)
async def test_a_list_that_is_wrong_is_left_out(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    _, gateway = beside({"tools/list": answer})
    with caplog.at_level(logging.DEBUG, "jsonrpc_fast.gateway"):
        async with client_of(gateway) as client:
            assert len(await client.list_tools()) == 7
            assert text_of(await client.call_tool("good_price", {"item": "tea"})) == "good: tea"
    assert SECRET not in caplog.text


async def test_names_that_collide_or_hold_the_separator() -> None:
    names = ["t", "t", "good_price", "_", "a_b_c", "", "t"]
    answers = {
        "tools/list": {"tools": [{"name": name, "n": n} for n, name in enumerate(names)]},
        "tools/call": lambda params: {"content": [{"type": "text", "text": params["name"]}]},
    }
    _, gateway = beside(answers)
    async with client_of(gateway) as client:
        tools = {tool["name"]: tool.get("n") for tool in await client.list_tools() if tool["name"].startswith("bad_")}
        assert tools == {"bad_t": 0, "bad_good_price": 2, "bad__": 3, "bad_a_b_c": 4, "bad_": 5}
        for name in tools:
            result = await client.call("tools/call", {"name": name})
            assert text_of(result) == name.removeprefix("bad_")
        assert text_of(await client.call_tool("good_price", {"item": "tea"})) == "good: tea"


async def test_a_server_cannot_take_the_resources_of_one_before_it() -> None:
    resources = {"resources": [{"uri": "shop://good/stock", "name": "stolen"}, {"uri": "a://b", "name": "b"}]}
    bad = Scripted({"resources/list": resources, "resources/read": {"contents": []}})
    gateway = Gateway({"good": Shop("good").server, "bad": bad})
    async with client_of(gateway) as client:
        assert [each["name"] for each in await client.list_resources()] == ["stock", "b"]
        contents = (await client.read_resource("shop://good/stock"))["contents"]
        assert contents[0]["text"] == "stock of good"


async def test_a_server_that_lies_in_ids_answers_nothing_else() -> None:
    bad, gateway = beside({"tools/list": TOOLS, "tools/call": None})
    async with client_of(gateway) as client:
        first = asyncio.ensure_future(client.call("tools/call", {"name": "bad_t"}))
        second = asyncio.ensure_future(client.call("tools/call", {"name": "good_price", "arguments": {"item": "a"}}))
        await eventually(lambda: bad.scripts and len(bad.script.requests) > 1)
        id = bad.script.requests[-1]["id"]
        for wrong in (id + 1, id + 2, str(id), -1, None, 1.5):
            bad.script.write({"id": wrong, "result": {"content": [SECRET]}})
        bad.script.write({"method": "notifications/cancelled", "params": {"requestId": id}})
        bad.script.write({"method": "notifications/progress", "params": {"progressToken": id, "progress": 1}})
        assert text_of(await second) == "good: a"
        assert not first.done()
        bad.script.reply(id, {"content": [{"type": "text", "text": "right"}]})
        assert text_of(await first) == "right"
        bad.script.reply(id, {"content": []})  # again
        assert len(await client.list_tools()) == 8


@rows(
    ("answer", "said"),
    [
        (b'{"jsonrpc":"2.0","id":%s,"result":"xyzzy"}', "the server 'bad' sent an invalid message"),
        (b'{"jsonrpc":"2.0","id":%s,"result":{},"error":{}}', "the server 'bad' sent an invalid message"),
        (b'{"jsonrpc":"2.0","id":%s}', "the server 'bad' sent an invalid message"),
    ],
)
async def test_a_response_that_is_wrong(answer: bytes, said: str) -> None:
    _, gateway = beside({"tools/call": answer})
    async with client_of(gateway) as client:
        with pytest.raises(RpcError) as caught:
            await client.call("tools/call", {"name": "bad_t"})
        assert (caught.value.code, caught.value.message) == (-32000, said)


async def test_a_server_that_dies_fails_its_calls_and_starts_again_three_times() -> None:
    bad, gateway = beside({"tools/call": None})
    async with client_of(gateway) as client:
        for start in range(1, 5):
            call = asyncio.ensure_future(client.call("tools/call", {"name": "bad_t"}))
            await eventually(lambda count=start: len(bad.scripts) == count and len(bad.script.requests) == 2)
            await bad.script.transport.disconnect()
            with pytest.raises(RpcError, match="'bad' was lost"):
                await call
            await eventually(lambda: gateway.running == ["good"])
        with pytest.raises(RpcError, match=r"'bad' has ended; it is started again at most 3 times in a minute"):
            await client.call("tools/call", {"name": "bad_t"})
        assert text_of(await client.call_tool("good_price", {"item": "tea"})) == "good: tea"
        await asyncio.sleep(61)
        bad.answers["tools/call"] = {"content": [{"type": "text", "text": "again"}]}
        assert text_of(await client.call("tools/call", {"name": "bad_t"})) == "again"


async def test_servers_that_are_gone_are_an_error_and_not_an_empty_list() -> None:
    gateway = Gateway({"one": ["/nowhere/program"], "other": Scripted({"tools/list": RpcError(-5, SECRET)})})
    async with client_of(gateway) as client:
        with pytest.raises(RpcError) as caught:
            await client.list_tools()
        text = (
            "the server 'one' cannot be started: it cannot be run: No such file or directory; "
            "the server 'other' responds to tools/list with the error -5"
        )
        assert (caught.value.code, caught.value.message) == (-32000, text)
        assert await client.list_prompts() == []  # the other one has none


async def test_a_server_that_was_left_out_is_announced_when_it_returns() -> None:
    bad, gateway = beside({"initialize": RpcError(-5, "not yet")})
    notes: list[Any] = []
    async with client_of(gateway, on_notification=lambda method, params: notes.append((method, params))) as client:
        assert len(await client.list_tools()) == 7
        data = "the server 'bad' cannot be started: it responded with the error -5; it is left out of tools/list"
        await eventually(lambda: notes)
        assert notes == [("notifications/message", {"level": "error", "logger": "gateway", "data": data})]
        await asyncio.sleep(10)
        assert len(notes) == 1
        assert len(bad.scripts) <= 4
        bad.answers["initialize"] = {**INITIALIZED, "capabilities": {"tools": {}}}
        bad.answers["tools/list"] = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        await asyncio.sleep(120)
        assert [method for method, _ in notes[1:]] == ["notifications/tools/list_changed"]
        assert "bad_t" in [tool["name"] for tool in await client.list_tools()]
        # Lost, and gone: told once.
        bad.answers["initialize"] = RpcError(-5, "no more")
        await bad.script.transport.disconnect()
        await asyncio.sleep(300)
        assert [method for method, _ in notes[2:]] == ["notifications/tools/list_changed"]
        assert len(await client.list_tools()) == 7
        # A program is not started for ever.
        assert len(bad.scripts) < 20


async def test_a_server_that_was_lost_and_is_back_is_announced() -> None:
    bad, gateway = beside({"tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}})
    notes: list[Any] = []
    async with client_of(gateway, on_notification=lambda method, params: notes.append(method)) as client:
        await client.list_tools()
        await bad.script.transport.disconnect()
        await asyncio.sleep(60)
        assert notes == ["notifications/tools/list_changed"]
        assert (len(bad.scripts), gateway.running) == (2, ["bad", "good"])


async def test_a_server_that_ends_slowly_is_started_again_three_times() -> None:
    """The next request arrives before the connection is closed: the session still waits for the server's request."""
    bad, gateway = beside({"tools/call": None})
    async with client_of(gateway, handlers={"sampling/createMessage": lambda _: forever()}) as client:
        for start in range(1, 5):
            call = asyncio.ensure_future(client.call("tools/call", {"name": "bad_t"}))
            await eventually(lambda count=start: len(bad.scripts) == count and len(bad.script.requests) == 2)
            bad.script.write({"id": 1, "method": "sampling/createMessage", "params": {}})
            await settle()
            bad.script.transport.channel.finish()
            with pytest.raises(RpcError, match="'bad' was lost"):
                await call
            assert gateway.running == ["bad", "good"]
        with pytest.raises(RpcError, match=r"'bad' has ended; it is started again at most 3 times in a minute"):
            await client.call("tools/call", {"name": "bad_t"})
        assert (len(bad.scripts), gateway.running) == (4, ["good"])


async def test_the_level_and_the_subscriptions_are_set_again() -> None:
    bad, gateway = beside({"resources/subscribe": {}, "logging/setLevel": {}, "tools/call": {"content": []}})
    bad.answers["initialize"]["capabilities"]["logging"] = {}
    notes: list[Any] = []
    async with client_of(gateway, on_notification=lambda method, params: notes.append(params)) as client:
        await client.set_level("error")
        await client.call("resources/subscribe", {"uri": "a://b"})
        await bad.script.transport.disconnect()
        await settle()
        await client.call("tools/call", {"name": "bad_t"})
        sent = [(each["method"], each.get("params")) for each in bad.script.requests]
        assert sent[1:3] == [("logging/setLevel", {"level": "error"}), ("resources/subscribe", {"uri": "a://b"})]
        bad.script.write({"method": "notifications/resources/updated", "params": {"uri": "a://b"}})
        await eventually(lambda: notes == [{"uri": "a://b"}])


@rows(
    ("answer", "reason"),
    [
        (None, "did not respond in time"),
        (RpcError(-32603, SECRET), "responded with the error -32603"),
        ({"protocolVersion": SECRET}, "sent an invalid message"),
        ({}, "sent an invalid message"),
        (b"{}", "did not respond in time"),
        (b'{"jsonrpc":"2.0","id":%s}', "sent an invalid message"),
    ],
)
async def test_a_server_that_does_not_begin(answer: Any, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    bad, gateway = beside({})
    bad.answers["initialize"] = answer
    with caplog.at_level(logging.DEBUG, "jsonrpc_fast.gateway"):
        async with client_of(gateway, timeout=200) as client:
            assert len(await client.list_tools()) == 7
            with pytest.raises(RpcError, match=f"'bad' cannot be started: it {reason}"):
                await client.call("tools/call", {"name": "bad_t"})
            assert gateway.running == ["good"]
    assert f"bad: cannot be started: {reason}" in caplog.text
    assert SECRET not in caplog.text


@rows(
    ("entry", "text"),
    [
        ({"command": f"/nowhere/{SECRET}"}, "cannot be run: No such file or directory"),
        (
            {"command": "true", "cwd": f"/nowhere/{SECRET}"},
            "cannot be run in its working directory: No such file or directory",
        ),
    ],
)
async def test_a_program_that_cannot_be_run_tells_nothing_of_its_entry(
    entry: dict[str, Any], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    entry = {"args": ["--token", SECRET], "env": {"TOKEN": SECRET}, **entry}
    gateway = Gateway({"bad": entry, "good": Shop("good").server})
    with caplog.at_level(logging.DEBUG, "jsonrpc_fast"):
        async with client_of(gateway) as client:
            assert len(await client.list_tools()) == 7
            with pytest.raises(RpcError) as caught:
                await client.call("tools/call", {"name": "bad_t"})
            for _ in range(4):
                with pytest.raises(RpcError) as last:
                    await client.call("tools/call", {"name": "bad_t"})
    said = f"the server 'bad' cannot be started: it {text}"
    assert caught.value.message == said
    assert last.value.message == f"{said}; it is started again at most 3 times in a minute"
    assert f"bad: cannot be started: {text}" in caplog.text
    assert "a connection broke" not in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.ci
async def test_a_flood_of_notifications_reaches_the_client_in_bounds() -> None:
    bad, gateway = beside({"tools/list": TOOLS, "tools/call": {"content": []}})
    notes: list[str] = []
    async with client_of(gateway, on_notification=lambda method, _: notes.append(method)) as client:
        await client.list_tools()
        for _ in range(20_000):
            bad.script.write({"method": "notifications/tools/list_changed"})
        await client.call("tools/call", {"name": "bad_t"})
        await asyncio.sleep(1)
        assert 1 <= len(notes) <= 25
        for _ in range(1000):
            bad.script.write({"method": "notifications/nothing", "params": {"a": SECRET}})
            bad.script.write({"method": "notifications/resources/updated", "params": {"uri": "a://b"}})
        assert text_of(await client.call_tool("good_price", {"item": "tea"})) == "good: tea"
        await asyncio.sleep(1)
        assert len(notes) <= 25


async def test_a_server_cannot_fill_the_changes_of_a_resource() -> None:
    bad, gateway = beside({"tools/call": {"content": []}, "resources/subscribe": {}})
    notes: list[Any] = []
    async with client_of(gateway, on_notification=lambda method, params: notes.append(params)) as client:
        await client.call("resources/subscribe", {"uri": "a://b"})
        for number in range(1000):
            params = {"uri": "a://b", "number": number, "more": SECRET}
            bad.script.write({"method": "notifications/resources/updated", "params": params})
        bad.script.write({"method": "notifications/resources/updated", "params": {"uri": ["a://b"]}})
        await client.call("tools/call", {"name": "bad_t"})
        await asyncio.sleep(1)
        assert 1 <= len(notes) <= 25
        assert all(params == {"uri": "a://b"} for params in notes)


async def test_a_connection_keeps_no_changes_of_resources_that_it_did_not_subscribe_to() -> None:
    """One client of 2026-07-28 has several connections, one of which may not read."""
    _, gateway = beside({})
    _, transport = memory_pair(profile=MCP_2025_11_25, raw=True)
    connection = gateway.connection(transport, {})
    await connection.start()
    connection.subscriptions.changed_soon("notifications/resources/updated", "a://b")
    assert not connection.subscriptions.changes
    await connection.close()


@pytest.mark.ci
async def test_a_flood_of_requests_to_the_client_is_bounded() -> None:
    bad, gateway = beside({"tools/call": {"content": []}})
    asked = 0

    async def sample(params: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        await asyncio.get_running_loop().create_future()
        return {}

    async with client_of(gateway, handlers={"sampling/createMessage": sample}) as client:
        await client.call("tools/call", {"name": "bad_t"})
        for number in range(5000):
            bad.script.write({"id": number, "method": "sampling/createMessage", "params": {"a": "b"}})
        await eventually(lambda: asked and bad.script.responses.qsize() >= 3000)
        assert asked <= 1200
        assert text_of(await client.call_tool("good_price", {"item": "tea"})) == "good: tea"


async def test_what_a_server_may_not_ask() -> None:
    bad, gateway = beside({"tools/call": {"content": []}})
    async with client_of(gateway) as client:
        await client.call("tools/call", {"name": "bad_t"})
        for method in ("sampling/createMessage", "roots/list", "elicitation/create", "tools/list", "initialize"):
            answer = await bad.script.ask(method, {"a": SECRET})
            assert answer["error"]["code"] == -32601
        assert (await bad.script.ask("ping"))["result"] == {}


async def test_the_progress_of_what_a_server_asked_reaches_it() -> None:
    bad, gateway = beside({"tools/call": {"content": []}})
    ours, theirs = memory_pair(profile=MCP_2025_11_25)
    sent: list[Any] = []
    theirs.onmessage = sent.append
    serving = asyncio.ensure_future(gateway.run(ours))
    await theirs.start()

    def write(**message: Any) -> None:
        theirs.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    info = {"name": "c", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {"sampling": {}}, "clientInfo": info}
    write(id=1, method="initialize", params=params)
    write(method="notifications/initialized")
    write(id=2, method="tools/call", params={"name": "bad_t"})
    await eventually(lambda: len(sent) == 2)
    bad.script.write({"id": 7, "method": "sampling/createMessage", "params": {"_meta": {"progressToken": "p"}}})
    await eventually(lambda: len(sent) == 3)
    token = sent[2].params["_meta"]["progressToken"]
    assert token != "p"
    write(method="notifications/progress", params={"progressToken": token, "progress": 1})
    write(method="notifications/progress", params={"progressToken": "p", "progress": 2})
    await eventually(lambda: len(bad.script.notifications) > 1)
    assert bad.script.notifications[1:] == [
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "p", "progress": 1}}
    ]
    await theirs.disconnect()  # the client vanishes
    await serving
    assert gateway.running == []


async def test_payloads_pass_verbatim() -> None:
    number = b'{"n":1.50,"w":123456789012345678901234567890,"e":1e2}'
    answer = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":' + number + b"}}"
    _, gateway = beside({"tools/call": answer})
    seen: list[bytes] = []
    ours, client = memory_pair(profile=MCP_2025_11_25, raw=True)
    serving = asyncio.ensure_future(gateway.run(ours))
    client.onmessage = lambda message: seen.append(bytes(message.result))
    await client.start()
    client.send(
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        b'"clientInfo":{"name":"c","version":"1"}}}'
    )
    call = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bad_t","arguments":' + number + b"}}"
    client.send(call)
    await eventually(lambda: len(seen) == 2)
    assert b'{"content":[],"structuredContent":' + number + b"}" in seen
    await client.close()
    await serving


async def test_a_client_that_vanishes_leaves_nothing() -> None:
    bad, gateway = beside({"tools/call": None})
    before = len(asyncio.all_tasks())
    async with client_of(gateway) as client:
        call = asyncio.ensure_future(client.call("tools/call", {"name": "bad_t"}))
        await eventually(lambda: bad.scripts and len(bad.script.requests) == 2)
        await client.session.close(0.0)
        with pytest.raises(ConnectionLost):
            await call
    await eventually(lambda: gateway.running == [])
    await asyncio.sleep(20)
    assert len(asyncio.all_tasks()) <= before


async def test_a_client_that_leaves_cancels_its_calls_soon() -> None:
    shop = Shop()
    gateway = Gateway({"one": shop.server})
    async with client_of(gateway) as client:
        call = asyncio.ensure_future(client.call_tool("one_hang", {}))
        await eventually(lambda: shop.seen == ["hang"])
        left = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - left < 6
    with pytest.raises(ConnectionLost):
        await call
    assert (shop.cancelled, gateway.running) == (1, [])
