"""Random requests of 2026-07-28, before a server with a handshake and one without: each gets one response, and what is
left at the end is nothing."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response
from jsonrpc_fast.mcp import Gateway
from jsonrpc_fast.mcp.protocol.versions import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from jsonrpc_fast.profile import MCP_2025_11_25
from jsonrpc_fast.transports.memory import memory_pair

from ...support.mcp_conversation import modern_meta
from ...support.mcp_gateway import Shop
from ...support.waiting import settle

pytestmark = [pytest.mark.timeout(60), pytest.mark.virtual_time]

REQUESTS = 600
CODES = {None, -5, -32000, -32021, -32022, -32600, -32601, -32602}
"""The codes of responses: -5 is a tool's, and -32600 is what a server with a handshake has for a missing capability."""
JUNK = [None, True, 5, 1.5, "", "x", [], {}, {"a": 1}, 2**53, "shop://one/stock", "one_ask"]
SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}}
METHODS = [
    *["tools/call"] * 8,
    *("tools/list", "prompts/get", "resources/list", "resources/read", "completion/complete", "server/discover"),
    *("subscriptions/listen", "logging/setLevel", "resources/subscribe", "ping", "unknown"),
]


class Chaos:
    """Makes requests, and remembers what the gateway asked for."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.asked: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def often(self, share: float) -> bool:
        return self.random.random() < share

    def meta(self) -> dict[str, Any]:
        some = self.random.choice
        meta = modern_meta(some([{}, {"sampling": {}}, {"sampling": {}, "roots": {}}]))
        if self.often(0.3):
            meta["progressToken"] = some([1, "t", *JUNK])
        if self.often(0.3):
            meta["io.modelcontextprotocol/logLevel"] = some(["debug", "error", "x"])
        if self.often(0.05):
            meta[some(list(meta))] = some(JUNK)
        return meta

    def request(self, id: int) -> Request:
        some = self.random.choice
        method = some(METHODS)
        params: dict[str, Any] = {
            "name": some(["one_ask", "two_ask", "one_price", "two_log", "one_fail", "two_work", "one_greet", *JUNK]),
            "arguments": some([{"question": "1"}, {"item": "a"}, {"steps": 2}, {"who": "x"}, *JUNK]),
            "uri": some(["shop://one/stock", "shop://two/item/x", *JUNK]),
            "ref": some([{"type": "ref/prompt", "name": "one_greet"}, *JUNK]),
            "notifications": some([{"toolsListChanged": True}, {"resourceSubscriptions": ["shop://two/stock"]}, *JUNK]),
        }
        if self.asked and self.often(0.6):
            params, result = some(self.asked)
            responses = {key: some([SAID, SAID, *JUNK]) for key in result["inputRequests"]}
            params = {**params, "requestState": result["requestState"], "inputResponses": responses}
        if self.often(0.1):
            params[some(["requestState", "inputResponses", "cursor"])] = some(JUNK)
        return Request(id, method, {"_meta": self.meta(), **params})


@pytest.mark.parametrize("seed", range(4))
async def test_each_request_gets_one_response(seed: int) -> None:
    chaos = Chaos(seed)
    one, two = Shop("one", HANDSHAKE_VERSIONS), Shop("two", MODERN_VERSIONS)
    gateway = Gateway({"one": one.server, "two": two.server}, max_servers=20)
    ours, theirs = memory_pair(profile=MCP_2025_11_25)
    sent: dict[int, Request] = {}
    received: dict[int, Response] = {}
    cancelled: set[int] = set()

    def receive(message: Any) -> None:
        assert type(message) is not Request  # such a client takes none
        if type(message) is Response:
            assert message.id not in received
            received[message.id] = message
            if message.error is None and message.result["resultType"] == "input_required":
                chaos.asked = [*chaos.asked[-20:], (dict(sent[message.id].params), message.result)]

    theirs.onmessage = receive
    serving = asyncio.ensure_future(gateway.run(ours))
    await theirs.start()
    for id in range(REQUESTS):
        sent[id] = chaos.request(id)
        theirs.send(sent[id])
        if chaos.often(0.15) or sent[id].method == "subscriptions/listen":
            cancelled.add(id)
        for _ in range(chaos.random.choice([0, 0, 1, 5, 30])):
            await asyncio.sleep(0)
        if id in cancelled:
            theirs.send(Notification("notifications/cancelled", {"requestId": id}))
        if chaos.often(0.05):
            two.server.resource_updated("shop://two/stock")
            one.server.list_changed("tools")
    await asyncio.sleep(1)
    assert sent.keys() - received.keys() <= cancelled
    codes = {None if response.error is None else response.error.code for response in received.values()}
    assert codes <= CODES
    assert sum(response.error is None for response in received.values()) > REQUESTS // 10
    await theirs.close()
    await serving
    await settle()
    assert gateway.running == []
