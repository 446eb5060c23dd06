"""A client in the server's event loop that can send any message. It keeps the received messages as JSON values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jsonrpc_fast import ParseError
from jsonrpc_fast.codec._json import dumps
from jsonrpc_fast.mcp.protocol.meta import CLIENT_CAPABILITIES_KEY, PROTOCOL_VERSION_KEY
from jsonrpc_fast.mcp.server.server import Server
from jsonrpc_fast.session import SessionOptions
from jsonrpc_fast.transports import memory_pair

from .waiting import settle

SECONDS = 30


def modern_meta(capabilities: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return the `_meta` of a request of 2026-07-28."""
    return {PROTOCOL_VERSION_KEY: "2026-07-28", CLIENT_CAPABILITIES_KEY: capabilities or {}, **more}


def answered(result: dict[str, Any], response: Any) -> dict[str, Any]:
    """Return the params of the request that follows an input_required result. Each input gets the same response."""
    return {"inputResponses": dict.fromkeys(result["inputRequests"], response), "requestState": result["requestState"]}


class Conversation:
    """The client's side of a connection.

    Attributes:
        transport: The client's transport.
        version: The revision that requests name; "" for none.
        notifications: The notifications and requests of the server, in order.
        responses: The responses by id.
    """

    def __init__(self, transport: Any, version: str, capabilities: dict[str, Any] | None = None) -> None:
        self.transport = transport
        self.version = version
        self._capabilities = capabilities or {}
        self.notifications: list[dict[str, Any]] = []
        self.responses: dict[Any, Any] = {}
        self._arrived = asyncio.Event()
        self._last_id = 0
        transport.onmessage = self._on_message
        transport.onerror = self._on_message

    def _on_message(self, message: Any) -> None:
        if isinstance(message, list):
            for item in message:
                self._on_message(item)
            return
        assert not isinstance(message, Exception) or isinstance(message, ParseError), message
        members = message.to_dict()
        if "method" in members:
            self.notifications.append(members)
        else:
            assert members.get("id") not in self.responses
            self.responses[members.get("id")] = members
        self._arrived.set()

    def send(self, message: Any) -> None:
        """Send any JSON value."""
        self.transport.send(dumps(message))

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def request(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request of the revision `version`, and return its id."""
        self._last_id += 1
        if self.version == "2026-07-28":
            params = {**(params or {}), "_meta": {**modern_meta(self._capabilities), **(params or {}).get("_meta", {})}}
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return self._last_id

    async def answer(self, id: Any) -> dict[str, Any]:
        """Return the response to a request, as a dict."""
        while id not in self.responses:
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), SECONDS)
        answer: dict[str, Any] = self.responses[id]
        return answer

    async def notification(self, method: str) -> dict[str, Any]:
        """Remove and return the first notification of a method."""
        while True:
            for message in self.notifications:
                if message["method"] == method:
                    self.notifications.remove(message)
                    return message
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), SECONDS)

    async def result(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request and return its result."""
        answer = await self.answer(self.request(method, params))
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, params: dict[str, Any] | None = None) -> tuple[int, str, Any]:
        """Send a request and return the code, the message and the data of its error."""
        error = (await self.answer(self.request(method, params)))["error"]
        return error["code"], error["message"], error.get("data")

    async def initialize(self, version: str) -> dict[str, Any]:
        """Perform the handshake and return its result."""
        result: dict[str, Any] = await self.result(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": self._capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            },
        )
        self.notify("notifications/initialized")
        await self.result("ping")  # when this returns, the notification has arrived
        return result

    async def settle(self) -> None:
        """Wait until all messages have arrived and all requests have their responses."""
        await settle()


@asynccontextmanager
async def converse(
    server: Server,
    version: str,
    capabilities: dict[str, Any] | None = None,
    session: SessionOptions | None = None,
    **options: Any,
) -> AsyncIterator[Conversation]:
    """Yield a conversation with a server.

    Args:
        server: The server.
        version: The revision. If it has `initialize`, the handshake is performed. "" performs none.
        capabilities: The capabilities of the client.
        session: Options of the server's session.
        options: Options of both transports.
    """
    ours, theirs = memory_pair(**{"profile": server.profile, **options})
    serving = asyncio.create_task(server.run(theirs, **(session or {})))
    conversation = Conversation(ours, version, capabilities)
    await ours.start()
    try:
        if version not in ("", "2026-07-28"):
            await conversation.initialize(version)
        yield conversation
    finally:
        await ours.close()
        await asyncio.wait_for(serving, SECONDS)
