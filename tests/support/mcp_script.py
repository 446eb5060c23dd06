"""An MCP server with prepared responses, and a client connected to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp import connect
from jsonrpc_fast.mcp.client import Client
from jsonrpc_fast.profile import MCP_2025_11_25
from jsonrpc_fast.transports.memory import MemoryTransport, memory_pair
from jsonrpc_fast.types import UNSET

INITIALIZED = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}

DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete", "ttlMs": 0}


class Script:
    """The server. It has a response for each method, and keeps the messages that it receives.

    A response is a result, an RpcError, bytes to send verbatim (`%s` is the id), or None for no response. A list
    contains one response for each request, in order. A function is called with the params and returns the response.
    """

    def __init__(self, transport: MemoryTransport, answers: Mapping[str, Any]) -> None:
        self.transport = transport
        self.answers = {"initialize": INITIALIZED, "server/discover": DISCOVERED, **answers}
        self.requests: list[dict[str, Any]] = []
        self.notifications: list[dict[str, Any]] = []
        self.responses: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        transport.onmessage = self._on_message

    def _on_message(self, received: Any) -> None:
        if isinstance(received, list):
            for item in received:
                self._on_message(item)
            return
        message = received.to_dict()
        if "method" not in message:
            self.responses.put_nowait(message)
        elif "id" not in message:
            self.notifications.append(message)
        else:
            self.requests.append(message)
            answer = self.answers.get(message["method"], RpcError(-32601, "Method not found"))
            if isinstance(answer, list):
                answer = answer.pop(0)
            if callable(answer):
                answer = answer(message.get("params"))
            self.reply(message["id"], answer)

    def reply(self, id: int, answer: object) -> None:
        """Send a response to a request."""
        if isinstance(answer, bytes):
            self.write(answer.replace(b"%s", b"%d" % id))
        elif isinstance(answer, RpcError):
            data = {} if answer.data is UNSET else {"data": answer.data}
            self.write({"id": id, "error": {"code": answer.code, "message": answer.message, **data}})
        elif answer is not None:
            self.write({"id": id, "result": answer})

    def write(self, message: bytes | dict[str, Any]) -> None:
        """Send a message, given as a text or as its members without `jsonrpc`."""
        text = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.transport.channel.write(text + b"\n")

    async def ask(self, method: str, params: Any = None, id: Any = "q") -> dict[str, Any]:
        """Send a request and return the response."""
        self.write({"id": id, "method": method, **({} if params is None else {"params": params})})
        return await self.responses.get()


@asynccontextmanager
async def scripted(answers: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[tuple[Client, Script]]:
    """Yield a client, in legacy mode by default, and the script to which it is connected."""
    profile = options.pop("profile", MCP_2025_11_25)
    ours, theirs = memory_pair(profile=profile)
    script = Script(theirs, answers or {})
    await theirs.start()
    try:
        async with connect(ours, **{"mode": "legacy", "timeout": 5, **options}) as client:
            yield client, script
    finally:
        await theirs.disconnect()
