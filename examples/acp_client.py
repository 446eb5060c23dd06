"""A client of the Agent Client Protocol: it starts an agent, prompts it, permits everything, prints the response.

python examples/acp_client.py "hello world" -- python examples/acp_agent.py
"""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from jsonrpc_fast import LSP
from jsonrpc_fast.session import AcpConvention, Session
from jsonrpc_fast.transports import StdioClient


def update(sessionId: str, update: dict[str, Any], **params: Any) -> None:
    if update["sessionUpdate"] == "agent_message_chunk" and update["content"]["type"] == "text":
        print(update["content"]["text"], end="", flush=True)


def permit(sessionId: str, toolCall: dict[str, Any], options: list[dict[str, Any]], **params: Any) -> dict[str, Any]:
    allowed = next(option for option in options if option["kind"].startswith("allow"))
    return {"outcome": {"outcome": "selected", "optionId": allowed["optionId"]}}


async def main(text: str, command: list[str]) -> None:
    transport = StdioClient(command, profile=LSP.replace(null_request_ids=True))
    handlers: dict[str, Callable[..., Any]] = {"session/update": update, "session/request_permission": permit}
    async with Session(transport, handlers, convention=AcpConvention()) as session:
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        await session.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
        created = await session.call("session/new", {"cwd": os.getcwd(), "mcpServers": []})
        prompt = {"sessionId": created["sessionId"], "prompt": [{"type": "text", "text": text}]}
        result = await session.call("session/prompt", prompt, timeout=None)
        print(f"({result['stopReason']})")


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[3:]))
