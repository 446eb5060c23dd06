"""The session of a client: requests and notifications of the server, batches, and requests for input."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast import ParseError, ParseErrorCode
from jsonrpc_fast.codec import parse
from jsonrpc_fast.errors import InvalidResponse, RpcError, StateError
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.mcp import connect
from jsonrpc_fast.mcp.client.client import MAX_ROUNDS
from jsonrpc_fast.mcp.server import Server
from jsonrpc_fast.profile import JSONRPC, MCP_2025_11_25, Profile
from jsonrpc_fast.transports.memory import memory_pair

from ...support.mcp_script import INITIALIZED, Script, scripted
from ...support.session_pairs import Faults
from ...support.tables import rows
from ...support.waiting import settle


async def test_requests_of_the_server() -> None:
    def refuse(params: dict[str, Any]) -> dict[str, Any]:
        raise RpcError(-1, "no roots")

    async def sample(params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"model": params["x"]}

    hooks = Faults()
    handlers: dict[str, Any] = {
        "roots/list": refuse,
        "sampling/createMessage": sample,
        "elicitation/create": lambda params: None,
    }
    async with scripted(handlers=handlers, hooks=hooks) as (_, script):
        base = {"jsonrpc": "2.0", "id": "q"}
        assert await script.ask("ping") == {**base, "result": {}}
        assert await script.ask("roots/list") == {**base, "error": {"code": -1, "message": "no roots"}}
        assert await script.ask("sampling/createMessage", {"x": "m"}) == {**base, "result": {"model": "m"}}
        internal = {"code": -32603, "message": "Internal error"}
        assert await script.ask("elicitation/create", {}) == {**base, "error": internal}
        assert await script.ask("sampling/createMessage", {}) == {**base, "error": internal}
        unknown = {"code": -32601, "message": "Method not found"}
        assert await script.ask("unknown/method") == {**base, "error": unknown}
        assert [type(fault) for fault in hooks.seen] == [TypeError, KeyError]


@pytest.mark.virtual_time
@rows(("mode", "ping"), [("2025-11-25", "ping"), ("2026-07-28", "server/discover")])
async def test_a_heartbeat_pings_as_the_revision_can(mode: str, ping: str) -> None:
    class Calls:
        def __init__(self) -> None:
            self.settled: list[tuple[str, str]] = []

        def call_settled(self, _: Any, id: int, method: str, outcome: Outcome, *rest: Any) -> None:
            self.settled.append((method, outcome.value))

    calls = Calls()
    async with connect(Server("s", "1"), mode=mode, heartbeat_seconds=20, hooks=calls):
        calls.settled.clear()
        await asyncio.sleep(50)
    assert calls.settled == [(ping, "result"), (ping, "result")]


async def test_requests_are_checked_with_a_lenient_transport() -> None:
    async with scripted(profile=JSONRPC) as (client, script):
        assert (await script.ask("roots/list", [1]))["error"]["code"] == -32602
        assert (await script.ask("", {}))["error"] == {"code": -32600, "message": "Invalid Request"}
        await client.notify("notifications/roots/list_changed")
        await settle()
        assert script.notifications[1:] == [{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}]


@rows(("profile", "times"), [(MCP_2025_11_25, 0), (JSONRPC, 1)])
async def test_requests_are_checked_again_only_with_a_lenient_transport(
    profile: Profile, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Any] = []

    def counted(obj: Any, rules: Profile) -> Any:
        checked.append(obj["method"])
        return parse(obj, rules)

    async with scripted(profile=profile, handlers={"roots/list": lambda params: {"roots": []}}) as (_, script):
        monkeypatch.setattr("jsonrpc_fast.validator.parse", counted)
        assert (await script.ask("roots/list"))["result"] == {"roots": []}
        assert (await script.ask("sampling/createMessage", {}))["error"]["code"] == -32601
    assert checked == times * ["roots/list", "sampling/createMessage"]


async def test_requests_before_the_handshake() -> None:
    ours, theirs = memory_pair(profile=MCP_2025_11_25)
    script = Script(theirs, {"initialize": lambda params: None})
    await theirs.start()
    connecting = asyncio.create_task(connect(ours, mode="legacy").__aenter__())
    await settle()
    assert (await script.ask("ping"))["result"] == {}
    assert (await script.ask("roots/list"))["error"]["code"] == -32600
    script.reply(1, INITIALIZED)
    client = await connecting
    assert (await script.ask("roots/list"))["error"]["code"] == -32601
    await client.close()
    await theirs.disconnect()


@rows("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_only_one_revision_allows_batches(version: str) -> None:
    notifications: list[str] = []
    hooks = Faults()

    answers = {"initialize": {**INITIALIZED, "protocolVersion": version}, "ping": {}}
    options: dict[str, Any] = {"on_notification": lambda method, params: notifications.append(method), "hooks": hooks}
    profile = MCP_2025_11_25.replace(batches=True)
    async with scripted(answers, profile=profile, **options) as (client, script):
        script.write(b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":"q","method":"ping"}]')
        await client.ping()
        if version == "2025-03-26":
            await settle()
            assert (notifications, hooks.seen) == (["a"], [])
        else:
            assert (notifications, [fault.code for fault in hooks.seen]) == ([], [ParseErrorCode.BATCH_NOT_ALLOWED])


async def test_notifications() -> None:
    notifications: list[Any] = []

    async def listen(method: str, params: dict[str, Any]) -> None:
        notifications.append((method, params))
        if method == "a":
            raise ValueError("of the callback")

    hooks = Faults()

    async with scripted({"ping": {}}, on_notification=listen, hooks=hooks) as (client, script):
        script.write({"method": "a", "params": {"x": 1}})
        script.write({"method": "b"})
        script.write(b"not a message at all")
        script.write({"method": "notifications/progress", "params": {"progressToken": 77, "progress": 1}})
        await client.ping()
        await settle()
        assert notifications == [
            ("a", {"x": 1}),
            ("b", {}),
            ("notifications/progress", {"progressToken": 77, "progress": 1}),
        ]
        assert {type(fault) for fault in hooks.seen} == {ValueError, ParseError}
    async with scripted({"ping": {}}) as (client, script):
        script.write({"method": "nobody/listens"})
        await client.ping()


async def test_handlers_of_notifications() -> None:
    received: list[Any] = []
    hooks = Faults()

    async def updated(params: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        received.append(("updated", params))

    def changed(params: dict[str, Any]) -> None:
        received.append(("changed", params))
        raise KeyError("of its own")

    handlers = {"notifications/resources/updated": updated, "notifications/tools/list_changed": changed}
    options: dict[str, Any] = {"hooks": hooks, "on_notification": lambda *what: received.append(what)}
    async with scripted(handlers=handlers, **options) as (_, script):
        assert script.requests[0]["params"]["capabilities"] == {}
        script.write({"method": "notifications/tools/list_changed"})
        script.write({"method": "notifications/prompts/list_changed"})
        script.write({"method": "notifications/resources/updated", "params": {"uri": "a:b"}})
        await settle()
        assert received == [("changed", {}), ("notifications/prompts/list_changed", {}), ("updated", {"uri": "a:b"})]
        assert [repr(fault) for fault in hooks.seen] == ["KeyError('of its own')"]
        # A handler of notifications serves no requests, and a handler of requests gets no notifications.
        assert (await script.ask("notifications/tools/list_changed"))["error"]["code"] == -32601
        assert len(received) == 3
    async with scripted(handlers={"roots/list": changed}, on_notification=lambda *what: None) as (_, script):
        script.write({"method": "roots/list"})
        await settle()
        assert len(received) == 3


async def test_a_request_is_repeated_with_input_up_to_a_maximum() -> None:
    asking = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}, "requestState": "s"}
    handlers = {"roots/list": lambda params: {"roots": []}}
    async with scripted({"tools/call": asking}, mode="modern", handlers=handlers) as (client, script):
        with pytest.raises(InvalidResponse, match="it asks for input more than 10 times"):
            await client.call_tool("t", {"a": 1})
        first, *others = [sent["params"] for sent in script.requests[1:]]
        assert len(others) == MAX_ROUNDS
        assert (first.keys(), first["arguments"]) == ({"name", "arguments", "_meta"}, {"a": 1})
        for repeated in others:
            assert repeated["inputResponses"] == {"r": {"roots": []}}
            assert (repeated["requestState"], repeated["arguments"]) == ("s", {"a": 1})


async def test_input_without_a_valid_handler() -> None:
    asking = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list", "params": {}}}}
    async with scripted({"tools/call": asking}, mode="modern") as (client, _):
        with pytest.raises(StateError, match="no handler"):
            await client.call_tool("t")
    handlers = {"roots/list": lambda params: []}
    async with scripted({"tools/call": asking}, mode="modern", handlers=handlers) as (client, _):  # type: ignore
        with pytest.raises(TypeError, match="must return a dict"):
            await client.call_tool("t")
