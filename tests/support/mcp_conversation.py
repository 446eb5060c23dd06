"""A client in the server's own loop, that says what it is told to: what comes back is kept as JSON has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jsonrpc_fast import ParseError
from jsonrpc_fast.codec._json import dumps
from jsonrpc_fast.mcp.protocol.meta import CLIENT_CAPABILITIES_KEY, PROTOCOL_VERSION_KEY
from jsonrpc_fast.mcp.server.server import Server
from jsonrpc_fast.transports import memory_pair

SECONDS = 10


def modern_meta(capabilities: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The `_meta` of a request of 2026-07-28."""
    return {PROTOCOL_VERSION_KEY: "2026-07-28", CLIENT_CAPABILITIES_KEY: capabilities or {}, **more}


class Conversation:
    """What the client has said and heard.

    notifications  what came with a method, in order: requests, too
    """

    def __init__(self, transport: Any, version: str, capabilities: dict[str, Any] | None = None) -> None:
        self.transport = transport
        self.version = version
        self._capabilities = capabilities or {}
        self.notifications: list[dict[str, Any]] = []
        self._answers: dict[Any, Any] = {}
        self._heard = asyncio.Event()
        self._last_id = 0
        transport.onmessage = self._hear
        transport.onerror = self._hear

    def _hear(self, message: Any) -> None:
        if isinstance(message, list):
            for item in message:
                self._hear(item)
            return
        assert not isinstance(message, Exception) or isinstance(message, ParseError), message
        heard = message.to_dict()
        if "method" in heard:
            self.notifications.append(heard)
        else:
            assert heard.get("id") not in self._answers
            self._answers[heard.get("id")] = heard
        self._heard.set()

    def send(self, message: Any) -> None:
        """Sends anything that is JSON."""
        self.transport.send(dumps(message))

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def request(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Sends a request of the conversation's version, and returns its id."""
        self._last_id += 1
        if self.version == "2026-07-28":
            params = {**(params or {}), "_meta": {**modern_meta(self._capabilities), **(params or {}).get("_meta", {})}}
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return self._last_id

    async def answer(self, id: Any) -> dict[str, Any]:
        """The whole answer to a request."""
        while id not in self._answers:
            self._heard.clear()
            await asyncio.wait_for(self._heard.wait(), SECONDS)
        answer: dict[str, Any] = self._answers[id]
        return answer

    async def notification(self, method: str) -> dict[str, Any]:
        """The first notification of a method that was not asked for yet."""
        while True:
            for heard in self.notifications:
                if heard["method"] == method:
                    self.notifications.remove(heard)
                    return heard
            self._heard.clear()
            await asyncio.wait_for(self._heard.wait(), SECONDS)

    async def result(self, method: str, params: dict[str, Any] | None = None) -> Any:
        answer = await self.answer(self.request(method, params))
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, params: dict[str, Any] | None = None) -> tuple[int, str, Any]:
        """Code, message and data of the error that a request is answered with."""
        error = (await self.answer(self.request(method, params)))["error"]
        return error["code"], error["message"], error.get("data")

    async def initialize(self, version: str) -> dict[str, Any]:
        result: dict[str, Any] = await self.result(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": self._capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            },
        )
        self.notify("notifications/initialized")
        await self.result("ping")  # now it has arrived
        return result

    async def settle(self) -> None:
        """Lets what was sent arrive on both sides, and be answered."""
        for _ in range(20):
            await asyncio.sleep(0)


@asynccontextmanager
async def converse(
    server: Server, version: str, capabilities: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[Conversation]:
    """A conversation with a server, initialized where the version has that; "" for one that is not.

    capabilities  of the client
    """
    ours, theirs = memory_pair(**{"profile": server.profile, **options})
    serving = asyncio.create_task(server.run(theirs))
    conversation = Conversation(ours, version, capabilities)
    await ours.start()
    try:
        if version not in ("", "2026-07-28"):
            await conversation.initialize(version)
        yield conversation
    finally:
        await ours.close()
        await asyncio.wait_for(serving, SECONDS)
