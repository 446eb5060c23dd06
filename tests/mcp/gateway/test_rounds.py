"""Requests of 2026-07-28 that take several rounds: who owns a state, how long a call waits, and what breaks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast import Request
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp import Gateway
from jsonrpc_fast.mcp.client import Client
from jsonrpc_fast.mcp.gateway import modern as gateway_clients
from jsonrpc_fast.mcp.protocol.capabilities import ClientCapabilities, Sampling
from jsonrpc_fast.profile import MCP_2025_11_25
from jsonrpc_fast.transports.memory import memory_pair

from ...support.mcp_gateway import Scripted, Shop, client_of, text_of
from ...support.mcp_revisions import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from ...support.tables import rows
from ...support.waiting import eventually, results_of, settle

pytestmark = pytest.mark.virtual_time

NO_PROBE = {"server/discover": RpcError(-32601, "Method not found")}
SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}}
CAN_SAMPLE = ClientCapabilities(sampling=Sampling())


@asynccontextmanager
async def modern(gateway: Gateway, **options: Any) -> AsyncIterator[Client]:
    """A client whose rounds the test makes itself."""
    async with client_of(gateway, "modern", **{"capabilities": CAN_SAMPLE, **options}) as client:
        yield client


async def once(client: Client, name: str, arguments: Any = None, **members: Any) -> Any:
    """Send one round of a call, and return its result."""
    params = {"name": name, "arguments": arguments or {}, **members}
    return await client.session.call("tools/call", client.server.params(params))


def answered(result: Any) -> dict[str, Any]:
    """Return the members of the next round."""
    responses = dict.fromkeys(result.get("inputRequests", {}), SAID)
    return {"requestState": result["requestState"], "inputResponses": responses}


def meta_of(info: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the `_meta` of a request."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    return meta if info is None else {**meta, "io.modelcontextprotocol/clientInfo": info}


async def refused(awaitable: Any, code: int = -32602) -> str:
    with pytest.raises(RpcError) as caught:
        await awaitable
    assert caught.value.code == code
    return caught.value.message


@pytest.mark.parametrize("versions", [HANDSHAKE_VERSIONS, MODERN_VERSIONS])
async def test_a_state_is_for_its_own_request(versions: Any) -> None:
    gateway = Gateway({"one": Shop("one", versions).server, "other": Shop("other", versions).server})
    question = {"question": "1"}
    async with modern(gateway) as client:
        first = await once(client, "one_ask", question)
        assert first["resultType"] == "input_required"
        [request] = first["inputRequests"].values()
        assert request["method"] == "sampling/createMessage"
        assert request["params"]["messages"][0]["content"]["text"] == "1"
        given = answered(first)
        for state in ("", "x", given["requestState"][:-1], given["requestState"].swapcase(), 5, {}):
            await refused(once(client, "one_ask", question, **{**given, "requestState": state}))
        await refused(once(client, "other_ask", question, **given))
        await refused(once(client, "one_ask", {"question": "2"}, **given))
        await refused(once(client, "one_price", question, **given))
        assert text_of(await once(client, "one_ask", question, **given)) == "yes"


async def test_a_state_of_another_gateway_is_refused_unless_they_share_a_key() -> None:
    key = b"k" * 32
    states = []
    for options in ({}, {"state_key": key}, {"state_key": key}):
        gateway = Gateway({"one": Shop("one", MODERN_VERSIONS).server}, **options)
        async with modern(gateway) as client:
            for given in states[:1]:
                await refused(once(client, "one_ask", {"question": "1"}, **given))
            for given in states[1:]:
                # The gateway knows it; the server, which is a different one now, does not.
                message = await refused(once(client, "one_ask", {"question": "1"}, **given))
                assert message == "requestState is invalid or has expired"
            states.append(answered(await once(client, "one_ask", {"question": "1"})))


async def test_a_call_that_waits_goes_on_once() -> None:
    gateway = Gateway({"one": Shop("one", HANDSHAKE_VERSIONS).server})
    async with modern(gateway) as client:
        given = answered(await once(client, "one_ask", {"question": "1"}))
        both = [once(client, "one_ask", {"question": "1"}, **given) for _ in range(2)]
        first, second = await results_of(*both)
        assert text_of(first) == "yes"
        assert isinstance(second, RpcError)
        assert second.code == -32602


@rows("response", [5, None, [], "x"])
async def test_a_response_that_is_no_object_is_refused_and_the_call_waits(response: Any) -> None:
    gateway = Gateway({"one": Shop("one", HANDSHAKE_VERSIONS).server})
    async with modern(gateway) as client:
        first = await once(client, "one_ask", {"question": "1"})
        given = answered(first)
        wrong = {**given, "inputResponses": dict.fromkeys(given["inputResponses"], response)}
        await refused(once(client, "one_ask", {"question": "1"}, **wrong))
        assert text_of(await once(client, "one_ask", {"question": "1"}, **given)) == "yes"


async def test_a_response_that_is_missing_is_asked_for_again() -> None:
    gateway = Gateway({"one": Shop("one", HANDSHAKE_VERSIONS).server})
    async with modern(gateway) as client:
        result = await once(client, "one_ask", {"question": "1"})
        for responses in ({}, {"unknown": SAID}):
            again = await once(
                client, "one_ask", {"question": "1"}, requestState=result["requestState"], inputResponses=responses
            )
            assert again["inputRequests"] == result["inputRequests"]
            result = again
        assert text_of(await once(client, "one_ask", {"question": "1"}, **answered(result))) == "yes"


async def test_a_call_waits_for_ten_minutes() -> None:
    script = Scripted({**NO_PROBE, "tools/call": None})
    gateway = Gateway({"bad": script}, idle_seconds=60)
    async with modern(gateway) as client:
        call = asyncio.ensure_future(once(client, "bad_t"))
        await eventually(lambda: script.scripts and len(script.script.requests) == 3)
        script.script.write({"id": "q", "method": "sampling/createMessage", "params": {"n": 1}})
        given = answered(await call)
        await asyncio.sleep(599)
        assert (gateway.running, script.script.responses.qsize()) == (["bad"], 0)
        await asyncio.sleep(1.1)
        assert script.script.notifications[-1]["method"] == "notifications/cancelled"
        assert script.script.responses.get_nowait()["error"]["message"] == "the client did not respond in time"
        await refused(once(client, "bad_t", **given))
        await asyncio.sleep(61)
        assert gateway.running == []


async def test_calls_that_wait_are_bounded() -> None:
    gateway = Gateway({"one": Shop("one", HANDSHAKE_VERSIONS).server}, max_servers=6)
    async with modern(gateway) as client:
        first = [await once(client, "one_ask", {"question": f"{n}"}) for n in range(3)]
        assert await refused(once(client, "one_ask", {"question": "3"}), -32000) == "too many calls wait for input"
        await once(client, "one_ask", {"question": "0"}, **answered(first[0]))
        assert (await once(client, "one_ask", {"question": "3"}))["resultType"] == "input_required"


async def test_a_call_beyond_the_processes_cannot_ask() -> None:
    gateway = Gateway({"one": Shop("one", HANDSHAKE_VERSIONS).server})
    async with modern(gateway) as client:
        waiting = [await once(client, "one_ask", {"question": f"{n}"}) for n in range(8)]
        assert gateway.running == ["one"] * 8
        await refused(once(client, "one_ask", {"question": "8"}), -32000)
        assert text_of(await once(client, "one_ask", {"question": "0"}, **answered(waiting[0]))) == "yes"


async def test_a_server_that_dies_while_its_call_waits() -> None:
    script = Scripted({**NO_PROBE, "tools/call": None})
    async with modern(Gateway({"bad": script})) as client:
        call = asyncio.ensure_future(once(client, "bad_t"))
        await eventually(lambda: script.scripts and len(script.script.requests) == 3)
        script.script.write({"id": "q", "method": "sampling/createMessage", "params": {"n": 1}})
        given = answered(await call)
        await script.script.transport.disconnect()
        await settle()
        assert await refused(once(client, "bad_t", **given), -32000) == "the server 'bad' was lost"


async def test_a_client_that_cancels_a_round_cancels_the_call() -> None:
    shop = Shop("one", HANDSHAKE_VERSIONS)
    async with modern(Gateway({"one": shop.server})) as client:
        call = asyncio.ensure_future(once(client, "one_hang"))
        await eventually(lambda: shop.seen)
        call.cancel()
        await eventually(lambda: shop.cancelled)


async def test_a_call_that_is_cancelled_at_any_moment_frees_its_server() -> None:
    gateway = Gateway({"one": Shop("one", HANDSHAKE_VERSIONS).server})
    async with modern(gateway) as client:
        await once(client, "one_price", {"item": "a"})
        for turns in range(30):
            call = asyncio.ensure_future(once(client, "one_ask", {"question": "1"}))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            await settle()
            if not call.cancelled():  # its question has arrived already
                await once(client, "one_ask", {"question": "1"}, **answered(call.result()))
                break
        assert turns > 3
        await asyncio.sleep(600)  # its question was under way when some were cancelled
        running = gateway.running
        for _ in running:
            assert (await once(client, "one_ask", {"question": "1"}))["resultType"] == "input_required"
        assert gateway.running == running


async def test_what_a_server_with_a_handshake_is_sent() -> None:
    """Nothing that only 2026-07-28 has, and unchanged numbers."""
    script = Scripted({**NO_PROBE, "tools/call": {"content": [], "resultType": "input_required", "_meta": {"a": 1}}})
    async with modern(Gateway({"bad": script})) as client:
        meta = {"_meta": {"own": 1}, "inputResponses": {}}
        result = await client.session.call(
            "tools/call", client.server.params({"name": "bad_t", "arguments": {"n": 1.50}, **meta})
        )
        sent = script.script.requests[-1]["params"]
        assert sent == {"_meta": {"own": 1}, "name": "t", "arguments": {"n": 1.5}}
        # Such a server cannot ask in its result.
        assert result == {"resultType": "complete", "content": [], "_meta": {"a": 1}}
        assert [each["method"] for each in script.script.requests] == ["server/discover", "initialize", "tools/call"]
        assert script.script.requests[1]["params"]["capabilities"] == {"sampling": {}}


async def test_a_server_with_a_handshake_is_probed_once() -> None:
    script = Scripted({"server/discover": None, "tools/call": {"content": []}})  # it does not respond
    gateway = Gateway({"bad": script})
    begun = asyncio.get_running_loop().time()
    async with modern(gateway) as client, modern(gateway, info=None) as other:
        await once(client, "bad_t")
        assert asyncio.get_running_loop().time() - begun == pytest.approx(10, abs=0.1)
        await once(other, "bad_t")
        assert asyncio.get_running_loop().time() - begun == pytest.approx(10, abs=0.1)
        assert [each["method"] for each in script.script.requests] == ["initialize", "tools/call"]


async def test_a_program_that_ends_at_the_probe_is_started_again() -> None:
    script = Scripted({"tools/call": {"content": []}})

    def end(params: Any) -> None:
        script.script.transport.channel.abort()

    script.answers["server/discover"] = end
    async with modern(Gateway({"bad": script})) as client:
        await once(client, "bad_t")
        assert len(script.scripts) == 2
        assert [each["method"] for each in script.script.requests] == ["initialize", "tools/call"]


ASKS = {"resultType": "input_required", "inputRequests": {"a": {"method": "sampling/createMessage", "params": {}}}}


def only_modern(**answers: Any) -> Scripted:
    """A server of 2026-07-28 with prepared responses."""
    capabilities = {"tools": {}, "resources": {"subscribe": True}}
    discovered = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "resultType": "complete"}
    refusal = RpcError(-32022, "Unsupported protocol version", {"supported": ["2026-07-28"]})
    return Scripted({"server/discover": discovered, "initialize": refusal, **answers})


@rows(
    ("result", "said"),
    [
        ({"resultType": "input_required"}, "the server 'bad' sent an invalid message"),
        ({**ASKS, "inputRequests": {"a": {"method": 5}}}, "the server 'bad' sent an invalid message"),
        ({**ASKS, "inputRequests": {"a": 5}}, "the server 'bad' sent an invalid message"),
        ({**ASKS, "inputRequests": 5}, "the server 'bad' sent an invalid message"),
        (ASKS, "the server 'bad' asked for input too many times"),
        ({"resultType": "input_required", "requestState": "s"}, "the server 'bad' asked for input too many times"),
    ],
)
async def test_a_server_that_asks_wrongly(result: Any, said: str) -> None:
    script = only_modern(**{"tools/call": result})
    handlers = {"sampling/createMessage": lambda params: SAID}
    async with client_of(Gateway({"bad": script}), handlers=handlers) as client:
        assert await refused(client.call("tools/call", {"name": "bad_t"}), -32000) == said


async def test_a_state_that_is_no_text_is_not_passed_on() -> None:
    script = only_modern(**{"tools/call": {**ASKS, "requestState": 5}})
    async with modern(Gateway({"bad": script})) as client:
        message = await refused(once(client, "bad_t"), -32000)
        assert message == "the server 'bad' sent an invalid message"


async def test_a_server_may_not_ask_what_the_client_cannot() -> None:
    asks = {**ASKS, "inputRequests": {"a": {"method": "elicitation/create", "params": {}}}}
    script = only_modern(**{"tools/call": asks})
    handlers = {"sampling/createMessage": lambda params: SAID}
    async with client_of(Gateway({"bad": script}), handlers=handlers) as client:
        await refused(client.call("tools/call", {"name": "bad_t"}), -32601)
        answer = await script.script.ask("sampling/createMessage", {"a": "xyzzy"})
        assert answer["error"]["code"] == -32601  # it may not send requests


async def test_a_subscription_that_ends_is_opened_again_and_replaced_when_it_grows() -> None:
    script = only_modern(**{"subscriptions/listen": None, "tools/call": {"resultType": "complete", "content": []}})
    async with client_of(Gateway({"bad": script})) as client:
        await client.call("tools/call", {"name": "bad_t"})
        await settle()
        listens = lambda: [  # noqa: E731
            each["params"]["notifications"]
            for each in script.script.requests
            if each["method"] == "subscriptions/listen"
        ]
        assert listens() == []
        await client.call("resources/subscribe", {"uri": "a://b"})
        await settle()
        assert listens() == [{"resourceSubscriptions": ["a://b"]}]
        script.script.reply(script.script.requests[-1]["id"], {"resultType": "complete"})
        await asyncio.sleep(4.9)
        assert len(listens()) == 1
        await asyncio.sleep(0.2)
        assert len(listens()) == 2
        await client.call("resources/subscribe", {"uri": "a://c"})
        await settle()
        assert listens()[2:] == [{"resourceSubscriptions": ["a://b", "a://c"]}]
        assert script.script.notifications == []
        script.script.write({"method": "notifications/subscriptions/acknowledged", "params": {}})
        await settle()
        assert [each["method"] for each in script.script.notifications] == ["notifications/cancelled"]


async def test_clients_that_differ_have_servers_of_their_own_up_to_a_bound() -> None:
    gateway = Gateway({"one": Shop("one").server}, max_servers=2)
    ours, theirs = memory_pair(profile=MCP_2025_11_25)
    responses: list[Any] = []
    theirs.onmessage = responses.append
    serving = asyncio.ensure_future(gateway.run(ours))
    await theirs.start()
    for number, name in enumerate(["a", "b", "a", "c"]):
        params = {"name": "one_price", "arguments": {"item": "tea"}, "_meta": meta_of({"name": name, "version": "1"})}
        theirs.send(Request(number, "tools/call", params))
        await eventually(lambda count=number: len(responses) > count)
    assert gateway.running == ["one", "one"]
    assert [response.error for response in responses[:3]] == [None, None, None]
    assert responses[3].error.message == "too many servers are running"
    await theirs.close()
    await serving
    assert gateway.running == []


async def test_clients_for_which_nothing_runs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_clients, "MAX_CLIENTS", 2)
    ours, theirs = memory_pair(profile=MCP_2025_11_25)
    responses: list[Any] = []
    theirs.onmessage = responses.append
    serving = asyncio.ensure_future(Gateway({"one": Shop("one").server}).run(ours))
    await theirs.start()

    async def message_for(name: str, tool: str) -> str:
        params = {"name": tool, "arguments": {"item": "a"}, "_meta": meta_of({"name": name, "version": "1"})}
        theirs.send(Request(1, "tools/call", params))
        before = len(responses)
        await eventually(lambda: len(responses) > before)
        return "" if responses[-1].error is None else str(responses[-1].error.message)

    assert await message_for("a", "one_price") == ""
    assert await message_for("b", "unknown") == "Unknown tool"
    assert await message_for("c", "unknown") == "there are too many clients"
    await asyncio.sleep(1)
    assert await message_for("c", "one_price") == ""
    await asyncio.sleep(1)
    assert await message_for("d", "unknown") == "there are too many clients"
    assert await message_for("a", "one_price") == ""
    assert await message_for("x" * 65536, "one_price") == "_meta describes the client in more than 65536 bytes"
    await theirs.close()
    await serving


async def test_payloads_pass_as_they_are() -> None:
    number = b'{"n":1.50,"w":123456789012345678901234567890,"e":1e2}'
    answer = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":' + number + b"}}"
    script = Scripted({**NO_PROBE, "tools/call": answer})
    seen: list[bytes] = []
    ours, client = memory_pair(profile=MCP_2025_11_25, raw=True)
    serving = asyncio.ensure_future(Gateway({"bad": script}).run(ours))
    client.onmessage = lambda message: seen.append(bytes(message.result))
    await client.start()
    client.send(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bad_t","_meta":'
        + json.dumps(meta_of()).encode()
        + b',"arguments":'
        + number
        + b"}}"
    )
    await eventually(lambda: seen)
    assert seen[0].endswith(b'"content":[],"structuredContent":' + number + b"}")
    await client.close()
    await serving
