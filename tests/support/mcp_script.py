"""An MCP server that answers as a test wants, and a client connected to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.client import Client, connect
from jsonrpc_fast.profile import MCP_2025_11_25
from jsonrpc_fast.transports.memory import MemoryTransport, memory_pair

INITIALIZED = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}

DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete", "ttlMs": 0}


class Script:
    """The server's end: answers requests by their methods, and keeps all that came.

    An answer is a result, an RpcError, bytes to be sent as they are (`%s` is the id), or None for none. A list is
    used up, one answer after the other; a function is called with the params.
    """

    def __init__(self, transport: MemoryTransport, answers: Mapping[str, Any]) -> None:
        self.transport = transport
        self.answers = {"initialize": INITIALIZED, "server/discover": DISCOVERED, **answers}
        self.requests: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self.responses: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        transport.onmessage = self.take

    def take(self, received: Any) -> None:
        if isinstance(received, list):
            for item in received:
                self.take(item)
            return
        message = received.to_dict()
        if "method" not in message:
            self.responses.put_nowait(message)
        elif "id" not in message:
            self.told.append(message)
        else:
            self.requests.append(message)
            answer = self.answers.get(message["method"], RpcError(-32601, "Method not found"))
            if isinstance(answer, list):
                answer = answer.pop(0)
            if callable(answer):
                answer = answer(message.get("params"))
            self.answer(message["id"], answer)

    def answer(self, id: int, answer: object) -> None:
        if isinstance(answer, bytes):
            self.write(answer.replace(b"%s", b"%d" % id))
        elif isinstance(answer, RpcError):
            self.write({"id": id, "error": {"code": answer.code, "message": answer.message}})
        elif answer is not None:
            self.write({"id": id, "result": answer})

    def write(self, message: bytes | dict[str, Any]) -> None:
        text = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.transport._write(text + b"\n")

    async def ask(self, method: str, params: Any = None, id: Any = "q") -> dict[str, Any]:
        self.write({"id": id, "method": method, **({} if params is None else {"params": params})})
        return await self.responses.get()


@asynccontextmanager
async def scripted(answers: Mapping[str, Any] | None = None, **options: Any) -> AsyncIterator[tuple[Client, Script]]:
    """A client that is connected to a script, in legacy mode where nothing else is said."""
    profile = options.pop("profile", MCP_2025_11_25)
    ours, theirs = memory_pair(profile=profile)
    script = Script(theirs, answers or {})
    await theirs.start()
    try:
        async with connect(ours, **{"mode": "legacy", "timeout": 5, **options}) as client:
            yield client, script
    finally:
        await theirs.disconnect()


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
