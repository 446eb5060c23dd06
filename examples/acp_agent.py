"""An agent of the Agent Client Protocol: it repeats the words of a prompt in capitals, if the user permits it.

python examples/acp_client.py "hello world" -- python examples/acp_agent.py
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from jsonrpc_fast import LSP
from jsonrpc_fast.session import AcpConvention, SessionContext, serving
from jsonrpc_fast.transports import run_stdio

numbers = count(1)
turns: dict[str, asyncio.Task[Any] | None] = {}


def initialize(protocolVersion: int, **params: Any) -> dict[str, Any]:
    return {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}


def new_session(cwd: str, **params: Any) -> dict[str, Any]:
    id = f"session-{next(numbers)}"
    turns[id] = None
    return {"sessionId": id}


async def prompt(context: SessionContext, sessionId: str, prompt: list[dict[str, Any]], **params: Any) -> Any:
    turns[sessionId] = asyncio.current_task()
    try:
        tool = {"toolCallId": "1", "title": "Use capitals", "kind": "think", "status": "pending"}
        options = [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
        request = {"sessionId": sessionId, "toolCall": tool, "options": options}
        answer = await context.session.call("session/request_permission", request, timeout=None)
        if answer["outcome"].get("optionId") != "yes":
            return {"stopReason": "refusal"}
        for word in " ".join(block.get("text", "") for block in prompt).split():
            chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": word.upper() + " "}}
            await context.session.notify("session/update", {"sessionId": sessionId, "update": chunk})
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        if context.is_cancelled:  # by $/cancel_request
            raise
        return {"stopReason": "cancelled"}
    finally:
        turns[sessionId] = None
    return {"stopReason": "end_turn"}


def cancel(sessionId: str, **params: Any) -> None:
    if (turn := turns.get(sessionId)) is not None:
        turn.cancel()


handlers: dict[str, Callable[..., Any]] = {
    "initialize": initialize,
    "session/new": new_session,
    "session/prompt": prompt,
    "session/cancel": cancel,
}


if __name__ == "__main__":
    profile = LSP.replace(null_request_ids=True)
    raise SystemExit(run_stdio(serving(handlers, convention=AcpConvention()), profile=profile))
