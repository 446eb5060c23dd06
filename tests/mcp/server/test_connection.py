"""One connection of a server: changes, log messages, invalid messages, limits."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC, MCP_2025_11_25, Error, Limits, Profile, Response, encode_request, parse
from jsonrpc_fast.codes import SessionErrorCode
from jsonrpc_fast.mcp.protocol.definitions import Prompt, Resource
from jsonrpc_fast.mcp.protocol.meta import LOG_LEVEL_KEY, SUBSCRIPTION_ID_KEY
from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.providers import Provider
from jsonrpc_fast.mcp.server.server import Server
from jsonrpc_fast.transports import memory_pair

from ...support.mcp_conversation import Conversation, converse
from ...support.mcp_sample import sample
from ...support.mcp_schemas import Schemas
from ...support.tables import rows
from ...support.waiting import eventually

NOT_FOUND = (-32601, "Method not found", None)


async def test_a_legacy_client_gets_one_notification_for_simultaneous_changes() -> None:
    server = sample()
    async with converse(server, "2025-11-25") as client:
        server.tool("one")(lambda: None)
        server.tool("two")(lambda: None)
        server.unregister("tools", "echo")
        server.prompt("more")(lambda: "")
        server.resource("notes://more")(lambda: "")
        server.unregister("resources", "notes://{name}/{number}")
        await client.result("ping")
        assert client.notifications == [
            {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
            {"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"},
            {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"},
        ]
        assert (await client.result("resources/templates/list"))["resourceTemplates"] == []
        with pytest.raises(KeyError):
            server.unregister("tools", "echo")


async def test_no_notification_of_undeclared_lists_or_before_initialized() -> None:
    server = Server("empty", "1")
    server.prompt("one")(lambda: "")
    async with converse(server, "") as client:
        server.prompt("early")(lambda: "")
        await client.settle()
        await client.initialize("2025-11-25")
        await client.result("ping")
        server.tool("late")(lambda: None)
        server.resource_updated("notes://a")
        await client.result("ping")
        assert client.notifications == []
        assert await client.error("tools/list") == NOT_FOUND


async def test_a_legacy_client_subscribes_to_a_resource() -> None:
    server = sample()
    async with converse(server, "2025-11-25") as client:
        assert await client.result("resources/subscribe", {"uri": "notes://index"}) == {}
        server.resource_updated("notes://index")
        server.resource_updated("notes://index")
        server.resource_updated("notes://blob")
        await client.result("ping")
        assert client.notifications == [
            {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "notes://index"}}
        ]
        await client.result("resources/unsubscribe", {"uri": "notes://index"})
        server.resource_updated("notes://index")
        await client.result("ping")
        assert len(client.notifications) == 1
        assert (await client.error("resources/subscribe", {"uri": "no uri"}))[0] == -32602


async def test_a_modern_client_subscribes(schemas: Schemas) -> None:
    server = sample()
    async with converse(server, "2026-07-28") as client:
        filter = {"toolsListChanged": True, "promptsListChanged": False, "resourceSubscriptions": ["notes://index"]}
        first = client.request("subscriptions/listen", {"notifications": filter})
        second = client.request("subscriptions/listen", {"notifications": {"promptsListChanged": True}})
        for id, kept in (
            (first, {"toolsListChanged": True, "resourceSubscriptions": ["notes://index"]}),
            (second, {"promptsListChanged": True}),
        ):
            acknowledgement = await client.notification("notifications/subscriptions/acknowledged")
            assert acknowledgement["params"] == {"_meta": {SUBSCRIPTION_ID_KEY: id}, "notifications": kept}
            schemas.check("2026-07-28", "SubscriptionsAcknowledgedNotification", acknowledgement)
        server.tool("new")(lambda: None)
        server.resource("notes://new")(lambda: "")
        server.resource_updated("notes://index")
        assert await client.notification("notifications/tools/list_changed") == {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": {SUBSCRIPTION_ID_KEY: first}},
        }
        updated = await client.notification("notifications/resources/updated")
        assert updated["params"] == {"_meta": {SUBSCRIPTION_ID_KEY: first}, "uri": "notes://index"}
        schemas.check("2026-07-28", "ResourceUpdatedNotification", updated)
        client.notify("notifications/cancelled", {"requestId": first})
        await client.result("tools/list")
        server.tool("newer")(lambda: None)
        server.prompt("new")(lambda: "")
        heard = await client.notification("notifications/prompts/list_changed")
        assert heard["params"] == {"_meta": {SUBSCRIPTION_ID_KEY: second}}
        await client.result("tools/list")
        assert client.notifications == []


async def test_a_stream_that_is_cancelled_immediately() -> None:
    server = sample()
    async with converse(server, "2026-07-28") as client:
        for _ in range(200):  # more than the limit
            id = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            client.notify("notifications/cancelled", {"requestId": id})
        await client.result("tools/list")
        await client.settle()  # the last cancellations take some turns of the loop
        client.notifications.clear()
        server.tool("new")(lambda: None)
        await client.result("tools/list")
        assert client.notifications == []


@rows(
    "filter",
    [
        None,
        [],
        {"toolsListChanged": 1},
        {"resourceSubscriptions": "notes://a"},
        {"resourceSubscriptions": [1]},
        {"resourceSubscriptions": ["a:"] * 1025},
        {"resourceSubscriptions": ["a:" + "b" * 2048]},
    ],
)
async def test_an_invalid_filter(filter: Any) -> None:
    async with converse(sample(), "2026-07-28") as client:
        assert (await client.error("subscriptions/listen", {"notifications": filter}))[0] == -32602


async def test_a_stream_ends_with_a_response_when_the_server_ends(schemas: Schemas) -> None:
    server = sample()
    ours, theirs = memory_pair(profile=server.profile)
    serving = asyncio.create_task(server.run(theirs))
    client = Conversation(ours, "2026-07-28")
    await ours.start()
    id = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    await client.notification("notifications/subscriptions/acknowledged")
    serving.cancel()
    answer = await client.answer(id)
    assert answer["result"]["_meta"][SUBSCRIPTION_ID_KEY] == id
    schemas.check("2026-07-28", "SubscriptionsListenResultResponse", answer)
    with pytest.raises(asyncio.CancelledError):
        await serving
    await ours.close()


@rows("ends", ["the client", "the server"])
async def test_a_stream_that_is_opened_after_the_end_ends_at_once(ends: str) -> None:
    """Otherwise a client that sends the request and ends its stream would keep the server forever."""
    server = busy_server(False, release := asyncio.Event())
    ours, theirs = memory_pair(profile=server.profile)
    serving = asyncio.create_task(server.run(theirs))
    client = Conversation(ours, "2026-07-28")
    await ours.start()
    call = client.request("tools/call", {"name": "slow"})
    await client.settle()
    if ends == "the server":
        server.on_signal()
    id = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    if ends == "the client":
        ours.channel.finish()  # before the function of the subscription begins
    assert (await client.answer(id))["result"]["_meta"][SUBSCRIPTION_ID_KEY] == id
    assert [heard["method"] for heard in client.notifications] == ["notifications/subscriptions/acknowledged"]
    release.set()
    assert "result" in await client.answer(call)
    await ours.close()
    await asyncio.wait_for(serving, 30)


async def test_a_client_that_has_ended_its_stream_gets_the_log_messages_of_its_call() -> None:
    server = sample()
    ours, theirs = memory_pair(profile=server.profile)
    serving = asyncio.create_task(server.run(theirs))
    client = Conversation(ours, "2026-07-28")
    await ours.start()
    id = client.request("tools/call", {"name": "work", "arguments": {"steps": 2}, "_meta": {LOG_LEVEL_KEY: "debug"}})
    ours.channel.finish()
    assert "result" in await client.answer(id)
    assert [heard["params"]["data"] for heard in client.notifications] == [{"step": 0}, {"step": 1}]
    await asyncio.wait_for(serving, 30)


@pytest.mark.virtual_time
async def test_progress_that_a_client_does_not_read_is_dropped_and_the_function_knows() -> None:
    server = Server("reports", "1")
    sent: list[bool] = []

    @server.tool
    async def work(context: Context) -> None:
        for step in range(100):
            sent.append(context.report_progress(step, message="x" * 100_000))
            await asyncio.sleep(0)

    async with converse(server, "2026-07-28") as client:
        id = client.request("tools/call", {"name": "work", "_meta": {"progressToken": "p"}})
        client.transport.pause_reading()
        await client.settle()
        await asyncio.sleep(1)
        assert len(sent) == 100
        assert 5 < sum(sent) < 20  # a megabyte waits at most
        client.transport.resume_reading()
        assert "result" in await client.answer(id)
        assert len(client.notifications) == sum(sent)


async def test_a_modern_request_sets_its_own_log_level() -> None:
    server = sample()
    async with converse(server, "2026-07-28") as client:
        server.log("emergency", "no")
        call = {"name": "work", "arguments": {"steps": 1}}
        assert (await client.result("tools/call", call))["content"] == [{"type": "text", "text": "2026-07-28"}]
        await client.result("tools/call", {**call, "_meta": {LOG_LEVEL_KEY: "error"}})
        await client.result("tools/call", {**call, "_meta": {LOG_LEVEL_KEY: "debug"}})
        assert [heard["params"] for heard in client.notifications] == [
            {"level": "info", "data": {"step": 0}, "logger": "worker"}
        ]
        assert await client.error("logging/setLevel", {"level": "debug"}) == NOT_FOUND


async def test_only_clients_of_2025_03_26_may_send_batches() -> None:
    batch = [{"jsonrpc": "2.0", "id": f"b{number}", "method": "ping"} for number in range(2)] + [{"id": "b2"}]
    async with converse(sample(), "2025-03-26") as client:
        client.send(batch)
        assert (await client.answer("b0"))["result"] == (await client.answer("b1"))["result"] == {}
        assert (await client.answer("b2"))["error"]["code"] == -32600
    for version in ("", "2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"):
        async with converse(sample(), version) as client:
            client.send(batch)
            assert (await client.answer(client.request("tools/call", {"name": "none"})))["error"]
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.answer("b0"), 0.02)


@pytest.mark.virtual_time
@rows("version", ["", "2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
@rows("policy", ["always", "never"])
async def test_a_batch_that_is_not_allowed_is_one_fault(version: str, policy: Any) -> None:
    """All of it gets one response, or none, as `response_policy` says; nothing in it is served."""
    faults: list[BaseException] = []
    received: list[Any] = []

    class Hooks:
        def fault(self, error: BaseException) -> None:
            faults.append(error)

    server = sample()
    ours, theirs = memory_pair(profile=server.profile)
    ours.onmessage = received.append
    serving = asyncio.create_task(server.run(theirs, response_policy=policy, hooks=Hooks()))
    await ours.start()
    if version not in ("", "2026-07-28"):
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        ours.send(encode_request(0, "initialize", params))
    batch = b'[{"jsonrpc":"2.0","id":"b0","method":"ping"},{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":"b1"}]'
    ours.send(batch)
    ours.send(encode_request(9, "none"))
    await eventually(lambda: received and received[-1].id == 9)
    await ours.close()
    await serving
    unread = [message for message in received if message.id not in (0, 9)]
    answer = Response(None, error=Error(-32600, "Invalid Request"))
    assert unread == ([answer] if policy == "always" else [])
    assert [type(fault).__name__ for fault in faults] == ["ParseError"]


async def test_requests_are_checked_even_if_the_transport_accepts_all() -> None:
    async with converse(sample(), "2025-11-25", profile=JSONRPC) as client:
        client.send({"jsonrpc": "2.0", "id": "a", "method": ""})
        client.send({"jsonrpc": "2.0", "id": "b", "method": "tools/list", "params": [1]})
        client.send({"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"})
        for id in ("a", "b", 1.5):
            assert (await client.answer(id))["error"] == {"code": -32600, "message": "Invalid Request"}


@rows("version", ["2025-11-25", "2026-07-28"])
@rows(
    ("profile", "limits", "times"),
    [
        (None, None, 0),
        (MCP_2025_11_25, Limits(message_bytes=10_000), 0),
        (MCP_2025_11_25, Limits(id_bytes=513), 1),
        (JSONRPC, None, 1),
    ],
)
async def test_messages_are_checked_again_only_if_the_transport_is_looser(
    profile: Profile | None, limits: Limits | None, times: int, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = sample()
    checked: list[Any] = []

    def counted(obj: Any, rules: Profile) -> Any:
        checked.append(obj["method"])
        assert rules == server.profile
        return parse(obj, rules)

    async with converse(server, version, profile=profile or server.profile, limits=limits) as client:
        monkeypatch.setattr("jsonrpc_fast.validator.parse", counted)
        for _ in range(3):
            result = await client.result("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
            assert result["structuredContent"] == {"sum": 3}
        assert (await client.result("tools/call", {"name": "fail"}))["isError"]
        assert (await client.error("tools/call", {"name": "none"}))[0] == -32602
    assert checked == 5 * times * ["tools/call"]


@rows("returned", [[1], "text", None, 7])
async def test_an_invalid_result_becomes_an_error_and_is_logged(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("wrong", "1")
    server.method("vendor/wrong")(lambda: returned)

    with caplog.at_level(logging.ERROR, "jsonrpc_fast"):
        async with converse(server, "2025-11-25") as client:
            assert await client.error("vendor/wrong") == (-32603, "Internal error", None)
    assert "INVALID_RESULT_TYPE at /result" in caplog.text


@pytest.mark.virtual_time
async def test_a_client_that_does_not_read_does_not_fill_the_memory() -> None:
    server = sample()
    async with converse(server, "2025-11-25") as client:
        client.transport.pause_reading()
        await client.settle()
        [connection] = server.connections
        for _ in range(40):
            for _ in range(100):
                server.log("error", "x" * 1000)
            server.list_changed("tools")
            await asyncio.sleep(0)
        assert connection.is_blocked
        client.transport.resume_reading()
        await client.notification("notifications/tools/list_changed")
        while connection.subscriptions.changes:  # until the client reads again
            await asyncio.sleep(0.01)
        await client.result("ping")
        kept = sum(heard["method"] == "notifications/message" for heard in client.notifications)
        assert 900 < kept < 1100  # of a little more than 1000 bytes each, up to 1 MiB


async def test_a_function_is_called_for_a_notification(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    with caplog.at_level(logging.ERROR, "jsonrpc_fast"):
        server = Server("listening", "1")

        @server.notification("notifications/initialized")
        def initialized() -> None:
            heard.append("initialized")

        @server.notification("notifications/roots/list_changed")
        async def roots_changed(context: Context) -> None:
            assert context.request_id is None
            heard.append(await context.call("roots/list"))

        @server.notification("vendor/number")
        def number_sent(number: int, context: Context) -> None:
            heard.append((number, context.params["_meta"]))
            raise ValueError

        async with converse(server, "2025-11-25", {"roots": {}}) as client:
            assert heard == ["initialized"]
            client.notify("notifications/roots/list_changed")
            asked = await client.notification("roots/list")
            client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
            await client.settle()
            client.notify("vendor/number", {"number": 3, "_meta": {"a": 1}})
            client.notify("vendor/number", {"number": "three"})
            client.notify("vendor/other")
            client.notify("notifications/initialized")
            await client.result("ping")
            assert heard == ["initialized", {"roots": []}, (3, {"a": 1})]
            assert client.notifications == []
        heard.clear()
        # The function is not called before `initialize`, nor for a modern client.
        async with converse(server, "2026-07-28", {"roots": {}}) as client:
            client.notify("notifications/roots/list_changed")
            client.notify("notifications/initialized")
            await client.result("server/discover")
            assert heard == []
    assert [name in caplog.text for name in ("ValueError", "RpcError")] == [True, True]


class Pages(Provider):
    """A provider with one prompt and one resource."""

    kinds = ("prompts", "resources")

    async def list_prompts(self, context: Context) -> list[Prompt]:
        await asyncio.sleep(0)
        return [Prompt(name="of the provider")]

    async def list_resources(self, context: Context) -> list[Resource]:
        await asyncio.sleep(0)
        return [Resource(uri="provider:one", name="of the provider")]


def busy_server(has_provider: bool, release: asyncio.Event) -> Server:
    server = Server("busy", "1")

    @server.tool
    async def slow() -> str:
        await release.wait()
        return "done"

    @server.tool
    async def quick() -> str:
        return "quick"

    server.prompt("own")(lambda: "")
    server.resource("own:one", name="own")(lambda: "")
    if has_provider:
        server.mount(Pages())
    return server


@rows("has_provider", [False, True])
@rows("version", ["2025-11-25", "2026-07-28"])
async def test_slow_calls_do_not_delay_ping_and_lists(version: str, has_provider: bool) -> None:
    release = asyncio.Event()
    async with converse(busy_server(has_provider, release), version) as client:
        calls = [client.request("tools/call", {"name": "slow"}) for _ in range(300)]
        names = ["of the provider", "own"] if has_provider else ["own"]
        if version == "2025-11-25":
            assert await client.result("ping") == {}
            assert await client.result("logging/setLevel", {"level": "error"}) == {}
            assert await client.result("resources/subscribe", {"uri": "own:one"}) == {}
        else:
            assert (await client.result("server/discover"))["supportedVersions"] == ["2026-07-28"]
            client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            await client.notification("notifications/subscriptions/acknowledged")
        assert len((await client.result("tools/list"))["tools"]) == 2
        assert sorted(prompt["name"] for prompt in (await client.result("prompts/list"))["prompts"]) == sorted(names)
        listed = (await client.result("resources/list"))["resources"]
        assert sorted(resource["name"] for resource in listed) == names
        assert (await client.result("resources/templates/list"))["resourceTemplates"] == []
        assert await client.error("vendor/unknown") == NOT_FOUND
        # A function has to wait for a slot.
        waiting = client.request("tools/call", {"name": "quick"})
        await client.settle()
        assert waiting not in client.responses
        release.set()
        for id in [*calls, waiting]:
            assert "result" in await client.answer(id)


async def test_subscriptions_need_no_slot() -> None:
    server = busy_server(False, asyncio.Event())
    async with converse(server, "2026-07-28", session={"max_handlers": 2}) as client:
        streams = []
        for _ in range(20):
            streams.append(client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
            await client.notification("notifications/subscriptions/acknowledged")
        assert (await client.result("tools/call", {"name": "quick"}))["content"][0]["text"] == "quick"
        for id in streams[1:]:
            client.notify("notifications/cancelled", {"requestId": id})
        await client.result("tools/list")
        server.tool("new")(lambda: None)
        notified = await client.notification("notifications/tools/list_changed")
        assert notified["params"]["_meta"][SUBSCRIPTION_ID_KEY] == streams[0]
        await client.result("tools/list")
        assert client.notifications == []
        server.on_signal()
        assert (await client.answer(streams[0]))["result"]["_meta"][SUBSCRIPTION_ID_KEY] == streams[0]


@rows("has_provider", [False, True])
async def test_calls_over_the_limits_are_refused_but_lists_are_not(has_provider: bool) -> None:
    release = asyncio.Event()
    server = busy_server(has_provider, release)
    async with converse(server, "2025-11-25", session={"max_handlers": 2, "max_inbox": 3}) as client:
        calls = [client.request("tools/call", {"name": "slow"}) for _ in range(9)]
        assert await client.result("ping") == {}
        lists = [client.request(method) for method in ("prompts/list", "resources/list", "prompts/list")]
        for id in lists:
            assert "result" in await client.answer(id)
        refused = [await client.answer(id) for id in calls[5:]]
        assert {answer["error"]["code"] for answer in refused} == {SessionErrorCode.SERVER_BUSY}
        release.set()
        for id in calls[:5]:
            assert "result" in await client.answer(id)
