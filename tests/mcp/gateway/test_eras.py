"""The gateway between clients and servers with a handshake and without: each with each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp import Gateway
from jsonrpc_fast.mcp.protocol.versions import HANDSHAKE_VERSIONS, MODERN_VERSIONS, VERSIONS

from ...support.mcp_gateway import Shop, client_of, text_of, two
from ...support.waiting import eventually, settle

pytestmark = [pytest.mark.timeout(60), pytest.mark.virtual_time]

PAIRS = pytest.mark.parametrize(
    ("mode", "versions", "spoken"),
    [
        ("legacy", HANDSHAKE_VERSIONS, "2025-11-25"),
        ("legacy", VERSIONS, "2025-11-25"),
        ("legacy", MODERN_VERSIONS, "2026-07-28"),
        ("modern", HANDSHAKE_VERSIONS, "2025-11-25"),
        ("modern", VERSIONS, "2026-07-28"),
        ("modern", MODERN_VERSIONS, "2026-07-28"),
    ],
)


def answering(text: str) -> Any:
    def sample(params: dict[str, Any]) -> dict[str, Any]:
        asked = params["messages"][0]["content"]["text"]
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": f"{text}: {asked}"}}

    return {"sampling/createMessage": sample}


@PAIRS
async def test_tools_prompts_and_resources(mode: str, versions: Any, spoken: str) -> None:
    _, _, gateway = two(versions)
    async with client_of(gateway, mode) as client:
        assert client.server.revision.version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        assert len(await client.list_tools()) == 14
        assert text_of(await client.call_tool("other_price", {"item": "tea"})) == "other: tea"
        assert text_of(await client.call_tool("one_who", {})) == f"jsonrpc_fast {spoken}"
        assert [prompt["name"] for prompt in await client.list_prompts()] == ["one_greet", "other_greet"]
        prompt = await client.get_prompt("other_greet", {"who": "Ada"})
        assert prompt["messages"][0]["content"]["text"] == "other greets Ada"
        assert len(await client.list_resources()) == 2
        found = await client.read_resource("shop://other/stock")
        assert found["contents"][0]["text"] == "stock of other"
        with pytest.raises(RpcError) as caught:
            await client.read_resource("shop://nowhere/stock")
        assert caught.value.code == (-32002 if (mode, spoken) == ("legacy", "2025-11-25") else -32602)
        with pytest.raises(RpcError) as caught:
            await client.call_tool("one_fail", {})
        assert (caught.value.code, caught.value.message, caught.value.data) == (-5, "closed", {"why": [1.5]})
    assert gateway.running == []


@PAIRS
async def test_a_server_asks_the_client_that_called_it(mode: str, versions: Any, spoken: str) -> None:
    _, _, gateway = two(versions)
    async with (
        client_of(gateway, mode, handlers=answering("a")) as a,
        client_of(gateway, mode, handlers=answering("b")) as b,
        client_of(gateway, mode) as mute,
    ):
        asked = [client.call_tool("one_ask", {"question": f"{n}"}) for n, client in enumerate([a, b, a, a])]
        texts = [text_of(result) for result in await asyncio.gather(*asked)]
        assert texts == ["a: 0", "b: 1", "a: 2", "a: 3"]
        with pytest.raises(RpcError):
            await mute.call_tool("one_ask", {"question": "4"})


@PAIRS
async def test_progress_and_cancellation(mode: str, versions: Any, spoken: str) -> None:
    one, _, gateway = two(versions)
    async with client_of(gateway, mode) as client:
        progress: dict[str, list[Any]] = {"a": [], "b": []}
        await asyncio.gather(
            client.call_tool("one_work", {"steps": 2}, on_progress=progress["a"].append),
            client.call_tool("other_work", {"steps": 3}, on_progress=progress["b"].append),
        )
        assert {name: [each["progress"] for each in seen] for name, seen in progress.items()} == {
            "a": [1, 2],
            "b": [1, 2, 3],
        }
        call = asyncio.ensure_future(client.call_tool("one_hang", {}))
        await eventually(lambda: one.seen)
        call.cancel()
        await eventually(lambda: one.cancelled)


@PAIRS
async def test_log_messages_have_the_level_that_the_client_asks_for(mode: str, versions: Any, spoken: str) -> None:
    _, _, gateway = two(versions)
    notes: list[Any] = []
    async with client_of(gateway, mode, on_notification=lambda method, params: notes.append(params)) as client:
        await client.set_level("error")
        await client.call_tool("one_log", {})
        await settle()
        assert [(note["level"], note["data"]) for note in notes] == [("error", "one is full")]
        await client.set_level("critical")
        await client.call_tool("one_log", {})
        await client.call_tool("other_log", {})
        await settle()
        assert len(notes) == 1


@pytest.mark.parametrize("versions", [HANDSHAKE_VERSIONS, MODERN_VERSIONS])
async def test_a_subscription_tells_what_it_asks_for(versions: Any) -> None:
    one, other, gateway = two(versions)
    notes: list[Any] = []

    def keep(method: str, params: dict[str, Any]) -> None:
        notes.append((method, {name: value for name, value in params.items() if name != "_meta"}))

    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["shop://other/stock"]}
    async with client_of(gateway, "modern", on_notification=keep) as client:
        await client.list_tools()
        listen = client.call("subscriptions/listen", {"notifications": wanted}, timeout=None)
        stream = asyncio.ensure_future(listen)
        await eventually(lambda: notes)
        assert notes == [("notifications/subscriptions/acknowledged", {"notifications": wanted})]
        one.server.tool("new")(lambda: "new")
        one.server.prompt("also")(lambda: "new")
        one.server.resource_updated("shop://one/stock")
        other.server.resource_updated("shop://other/stock")
        await asyncio.sleep(1)
        assert sorted(notes[1:]) == [
            ("notifications/resources/updated", {"uri": "shop://other/stock"}),
            ("notifications/tools/list_changed", {}),
        ]
        stream.cancel()
        await settle()
        other.server.resource_updated("shop://other/stock")
        one.server.tool("newer")(lambda: "new")
        await asyncio.sleep(10)
        assert len(notes) == 3


async def test_a_client_with_a_handshake_hears_changes_of_a_server_without() -> None:
    one, other, gateway = two(MODERN_VERSIONS)
    notes: list[Any] = []
    async with client_of(gateway, on_notification=lambda method, params: notes.append((method, params))) as client:
        await client.list_tools()
        one.server.tool("new")(lambda: "new")
        await asyncio.sleep(1)
        assert notes == [("notifications/tools/list_changed", {})]
        await client.call("resources/subscribe", {"uri": "shop://other/stock"})
        await asyncio.sleep(1)
        other.server.resource_updated("shop://other/stock")
        await asyncio.sleep(1)
        assert notes[1:] == [("notifications/resources/updated", {"uri": "shop://other/stock"})]
        await client.call("resources/unsubscribe", {"uri": "shop://other/stock"})
        await asyncio.sleep(1)
        other.server.resource_updated("shop://other/stock")
        await asyncio.sleep(1)
        assert len(notes) == 2


async def test_an_idle_server_of_a_client_without_a_handshake_is_ended() -> None:
    gateway = Gateway({"one": Shop("one").server}, idle_seconds=60)
    async with client_of(gateway, "modern") as client:
        await client.call_tool("one_price", {"item": "tea"})
        await asyncio.sleep(59)
        assert gateway.running == ["one"]
        await asyncio.sleep(2)
        assert gateway.running == []
        assert text_of(await client.call_tool("one_price", {"item": "tea"})) == "one: tea"
