"""What a server sends on its own: requests, notifications, batches, requests for input and progress."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast import ParseError, ParseErrorCode
from jsonrpc_fast.codec import parse
from jsonrpc_fast.errors import CallTimeout, RpcError, StateError
from jsonrpc_fast.mcp.client import connect
from jsonrpc_fast.mcp.client.client import MAX_ROUNDS
from jsonrpc_fast.profile import JSONRPC, MCP_2025_11_25, Profile
from jsonrpc_fast.transports.memory import memory_pair

from ...support.mcp_script import INITIALIZED, Script, scripted, turns

pytestmark = pytest.mark.timeout(60)


async def test_requests_of_the_server() -> None:
    class Hooks:
        def __init__(self) -> None:
            self.faults: list[Exception] = []

        def fault(self, error: Exception) -> None:
            self.faults.append(error)

    def refuse(params: dict[str, Any]) -> dict[str, Any]:
        raise RpcError(-1, "no roots")

    async def sample(params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"model": params["x"]}

    hooks = Hooks()
    handlers: dict[str, Any] = {
        "roots/list": refuse,
        "sampling/createMessage": sample,
        "elicitation/create": lambda params: None,
    }
    async with scripted(handlers=handlers, hooks=hooks) as (_, script):
        base = {"jsonrpc": "2.0", "id": "q"}
        assert await script.ask("ping") == {**base, "result": {}}
        assert await script.ask("roots/list") == {**base, "error": {"code": -1, "message": "no roots"}}
        said = await script.ask("sampling/createMessage", {"x": "m"})
        assert said == {**base, "result": {"model": "m"}}
        internal = {"code": -32603, "message": "Internal error"}
        assert await script.ask("elicitation/create", {}) == {**base, "error": internal}
        assert await script.ask("sampling/createMessage", {}) == {**base, "error": internal}
        unknown = {"code": -32601, "message": "Method not found"}
        assert await script.ask("unknown/method") == {**base, "error": unknown}
        assert [type(fault) for fault in hooks.faults] == [TypeError, KeyError]


async def test_requests_are_checked_although_the_transport_lets_all_through() -> None:
    async with scripted(profile=JSONRPC) as (client, script):
        assert (await script.ask("roots/list", [1]))["error"]["code"] == -32602
        assert (await script.ask("", {}))["error"] == {"code": -32600, "message": "Invalid Request"}
        await client.notify("notifications/roots/list_changed")
        await turns()
        assert script.told[1:] == [{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}]


@pytest.mark.parametrize(("profile", "times"), [(MCP_2025_11_25, 0), (JSONRPC, 1)])
async def test_requests_are_judged_again_only_where_the_transport_is_looser(
    profile: Profile, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[Any] = []

    def counted(obj: Any, rules: Profile) -> Any:
        judged.append(obj["method"])
        return parse(obj, rules)

    async with scripted(profile=profile, handlers={"roots/list": lambda params: {"roots": []}}) as (_, script):
        monkeypatch.setattr("jsonrpc_fast.validator.parse", counted)
        assert (await script.ask("roots/list"))["result"] == {"roots": []}
        assert (await script.ask("sampling/createMessage", {}))["error"]["code"] == -32601
    assert judged == times * ["roots/list", "sampling/createMessage"]


async def test_requests_before_the_handshake() -> None:
    ours, theirs = memory_pair(profile=MCP_2025_11_25)
    script = Script(theirs, {"initialize": lambda params: None})
    await theirs.start()
    connecting = asyncio.create_task(connect(ours, mode="legacy").__aenter__())
    await turns()
    assert (await script.ask("ping"))["result"] == {}
    assert (await script.ask("roots/list"))["error"]["code"] == -32600
    script.answer(1, INITIALIZED)
    client = await connecting
    assert (await script.ask("roots/list"))["error"]["code"] == -32601
    await client.close()
    await theirs.disconnect()


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_batch_comes_from_one_revision_alone(version: str) -> None:
    told: list[str] = []
    faults: list[Any] = []

    class Hooks:
        fault = staticmethod(faults.append)

    answers = {"initialize": {**INITIALIZED, "protocolVersion": version}, "ping": {}}
    options: dict[str, Any] = {"on_notification": lambda method, params: told.append(method), "hooks": Hooks()}
    profile = MCP_2025_11_25.replace(batches=True)
    async with scripted(answers, profile=profile, **options) as (client, script):
        script.write(b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":"q","method":"ping"}]')
        await client.ping()
        if version == "2025-03-26":
            await turns()
            assert (told, faults) == (["a"], [])
        else:
            assert (told, [fault.code for fault in faults]) == ([], [ParseErrorCode.BATCH_NOT_ALLOWED])


async def test_notifications() -> None:
    told: list[Any] = []

    async def listen(method: str, params: dict[str, Any]) -> None:
        told.append((method, params))
        if method == "a":
            raise ValueError("of the callback")

    faults: list[Exception] = []

    class Hooks:
        fault = staticmethod(faults.append)

    async with scripted({"ping": {}}, on_notification=listen, hooks=Hooks()) as (client, script):
        script.write({"method": "a", "params": {"x": 1}})
        script.write({"method": "b"})
        script.write(b"not a message at all")
        script.write({"method": "notifications/progress", "params": {"progressToken": 77, "progress": 1}})
        await client.ping()
        await turns()
        assert told == [
            ("a", {"x": 1}),
            ("b", {}),
            ("notifications/progress", {"progressToken": 77, "progress": 1}),
        ]
        assert {type(fault) for fault in faults} == {ValueError, ParseError}
    async with scripted({"ping": {}}) as (client, script):
        script.write({"method": "nobody/listens"})
        await client.ping()


async def test_handlers_of_notifications() -> None:
    heard: list[Any] = []
    faults: list[BaseException] = []

    class Hooks:
        fault = faults.append

    async def updated(params: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        heard.append(("updated", params))

    def changed(params: dict[str, Any]) -> None:
        heard.append(("changed", params))
        raise KeyError("of its own")

    handlers = {"notifications/resources/updated": updated, "notifications/tools/list_changed": changed}
    told: dict[str, Any] = {"hooks": Hooks(), "on_notification": lambda *what: heard.append(what)}
    async with scripted(handlers=handlers, **told) as (_, script):
        assert script.requests[0]["params"]["capabilities"] == {}
        script.write({"method": "notifications/tools/list_changed"})
        script.write({"method": "notifications/prompts/list_changed"})
        script.write({"method": "notifications/resources/updated", "params": {"uri": "a:b"}})
        await turns()
        assert heard == [
            ("changed", {}),
            ("notifications/prompts/list_changed", {}),
            ("updated", {"uri": "a:b"}),
        ]
        assert [repr(fault) for fault in faults] == ["KeyError('of its own')"]
        # They serve no requests, and a handler of requests hears nothing.
        assert (await script.ask("notifications/tools/list_changed"))["error"]["code"] == -32601
        assert len(heard) == 3
    async with scripted(handlers={"roots/list": changed}, on_notification=lambda *what: None) as (_, script):
        script.write({"method": "roots/list"})
        await turns()
        assert len(heard) == 3


async def test_input_is_asked_for_again_and_again() -> None:
    asking = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}, "requestState": "s"}
    handlers = {"roots/list": lambda params: {"roots": []}}
    async with scripted({"tools/call": asking}, mode="modern", handlers=handlers) as (client, script):
        with pytest.raises(ValueError, match="it asks for input more than 10 times"):
            await client.call_tool("t", {"a": 1})
        first, *others = [sent["params"] for sent in script.requests[1:]]
        assert len(others) == MAX_ROUNDS
        assert (first.keys(), first["arguments"]) == ({"name", "arguments", "_meta"}, {"a": 1})
        for repeated in others:
            assert repeated["inputResponses"] == {"r": {"roots": []}}
            assert (repeated["requestState"], repeated["arguments"]) == ("s", {"a": 1})


async def test_input_that_nobody_gives() -> None:
    asking = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list", "params": {}}}}
    async with scripted({"tools/call": asking}, mode="modern") as (client, _):
        with pytest.raises(StateError, match="no handler"):
            await client.call_tool("t")
    handlers = {"roots/list": lambda params: []}
    async with scripted({"tools/call": asking}, mode="modern", handlers=handlers) as (client, _):  # type: ignore
        with pytest.raises(TypeError, match="must return a dict"):
            await client.call_tool("t")


def progress_of(token: object, **members: Any) -> dict[str, Any]:
    return {"method": "notifications/progress", "params": {"progressToken": token, **members}}


@pytest.mark.parametrize("factory", [None, getattr(asyncio, "eager_task_factory", None)])
async def test_an_async_on_progress_is_awaited(factory: Any) -> None:
    heard: list[Any] = []
    faults: list[BaseException] = []

    class Hooks:
        fault = faults.append

    async def hear(progress: dict[str, Any]) -> None:
        heard.append(progress["progress"])
        for _ in range(3):
            await asyncio.sleep(0)
        heard.append(-progress["progress"])
        if progress["progress"] == 2:
            raise KeyError("two")

    if factory is not None:
        asyncio.get_running_loop().set_task_factory(factory)

    def tell(params: dict[str, Any]) -> dict[str, Any]:
        for step in (1, 2, 3):
            script.write(progress_of(params["_meta"]["progressToken"], progress=step))
        return {"content": []}

    async with scripted({"tools/call": tell}, hooks=Hooks()) as (client, script):
        await client.call_tool("t", on_progress=hear)
        assert heard == [1, -1, 2, -2, 3, -3]
        assert [repr(fault) for fault in faults] == ["KeyError('two')"]


async def test_an_async_on_progress_ends_with_its_call() -> None:
    ended: list[str] = []
    begun: list[int] = []

    async def hear(progress: dict[str, Any]) -> None:
        begun.append(progress["progress"])
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with scripted() as (client, script):
        for answer in (None, {"content": []}, RpcError(-32000, "no")):

            def tell(params: dict[str, Any], answer: Any = answer) -> Any:
                for step in range(3):
                    script.write(progress_of(params["_meta"]["progressToken"], progress=step))
                return answer

            script.answers["tools/call"] = tell
            calling = client.call_tool("t", on_progress=hear, timeout=0.3)
            if isinstance(answer, dict):
                assert await calling == answer  # it came in time
            else:
                with pytest.raises((CallTimeout, RpcError)):
                    await calling
            await turns()
        assert ended == ["cancelled"] * 3
        assert begun == [0, 0, 0]


async def test_reports_that_are_too_many_are_dropped() -> None:
    heard: list[int] = []

    async def hear(progress: dict[str, Any]) -> None:
        heard.append(progress["progress"])

    def tell(params: dict[str, Any]) -> dict[str, Any]:
        for step in range(1000):
            script.write(progress_of(params["_meta"]["progressToken"], progress=step))
        return {"content": []}

    async with scripted({"tools/call": tell}) as (client, script):
        await client.call_tool("t", on_progress=hear)
        assert heard[0] == 0
        assert heard[-1] == 999
        assert heard == sorted(heard)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"progress": "1"},
        {"progress": True},
        {"progress": None},
        {"progress": [1]},
        {"progress": 1, "total": "2"},
        {"progress": 1, "total": False},
        {"progress": 1, "message": 3},
    ],
)
async def test_malformed_progress_does_not_reach_on_progress(wrong: dict[str, Any]) -> None:
    heard: list[Any] = []

    def tell(params: dict[str, Any]) -> dict[str, Any]:
        token = params["_meta"]["progressToken"]
        script.write(progress_of(token, **wrong))
        script.write(progress_of(token, progress=0.5, total=None, message=None))
        script.write(progress_of(token, progress=1, total=2, message="m"))
        return {"content": []}

    async with scripted({"tools/call": tell}) as (client, script):
        await client.call_tool("t", on_progress=heard.append)
        assert heard == [{"progress": 0.5}, {"progress": 1, "total": 2, "message": "m"}]
