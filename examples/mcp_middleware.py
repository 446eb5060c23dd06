"""An MCP server that times every method, hides a tool from clients without a key, and limits the calls of each client.

jsonrpc-fast list --mcp -- python examples/mcp_middleware.py
jsonrpc-fast call --mcp add a=1 b=2 -- python examples/mcp_middleware.py
"""

import os
import sys
import time
from collections import Counter
from typing import Any

from jsonrpc_fast.handlers import CallNext
from jsonrpc_fast.mcp.server import Context, Server, ToolError

MAX_CALLS = 3
calls: Counter[Any] = Counter()


async def measure(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
    began = time.perf_counter()
    try:
        return await call_next(params)
    finally:
        print(f"{context.method}: {(time.perf_counter() - began) * 1000:.1f} ms", file=sys.stderr)


async def limit(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
    if context.method == "tools/call":
        calls[context.session] += 1
        if calls[context.session] > MAX_CALLS:
            raise ToolError(f"You have made {MAX_CALLS} calls: that is all.")
    return await call_next(params)


async def hide(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
    has_key = os.environ.get("KEY") == "open"  # over HTTP: context.claims
    if context.method == "tools/call" and params.get("name") == "reset" and not has_key:
        raise ToolError("There is no such tool.")
    result = await call_next(params)
    if context.method == "tools/list" and not has_key:
        result["tools"] = [tool for tool in result["tools"] if tool["name"] != "reset"]
    return result


server = Server("limited", "1.0", middleware=[measure, limit, hide], show_errors=(ZeroDivisionError,))


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def divide(a: float, b: float) -> float:
    """Divide two numbers."""
    return a / b


@server.tool(timeout=5)
async def reset() -> None:
    """Let everybody call again."""
    calls.clear()


if __name__ == "__main__":
    raise SystemExit(server.serve_stdio())
