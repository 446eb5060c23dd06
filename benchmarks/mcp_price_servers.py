"""The servers of `bench_mcp_price`: the same tool in four packages. Each runs in the environment of its package.

python benchmarks/mcp_price_servers.py NAME          on stdin and stdout
python benchmarks/mcp_price_servers.py NAME PORT     over HTTP, with uvicorn
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

HOST = "127.0.0.1"


async def greet(text: str, count: int) -> str:
    """Greet."""
    return f"{text} {count}"


def jsonrpc_fast() -> tuple[Any, Any]:
    from jsonrpc_fast.mcp.server import Server

    server = Server("price", "1.0")
    server.tool(greet)
    # Imported by those who serve HTTP, as the others do.
    return server.serve_stdio, lambda: import_module("jsonrpc_fast.mcp.http").McpEndpoint(server)


def sdk() -> tuple[Any, Any]:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("price", log_level="ERROR")
    server.tool()(greet)
    return server.run, server.streamable_http_app


def sdk_json() -> tuple[Any, Any]:
    run, app = sdk()
    return run, lambda: app(json_response=True)


def sdk1() -> tuple[Any, Any]:
    server = import_module("mcp.server.fastmcp").FastMCP("price", log_level="ERROR")
    server.tool()(greet)
    return server.run, server.streamable_http_app


def fastmcp() -> tuple[Any, Any]:
    server = import_module("fastmcp").FastMCP("price")
    server.tool(greet)
    return lambda: server.run(show_banner=False), server.http_app


def ceiling() -> tuple[Any, Any]:
    """An application that checks nothing. It shows the processor time of uvicorn itself."""
    import orjson

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        event = await receive()
        if scope["type"] == "lifespan":
            while event["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
                event = await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        message = orjson.loads(event["body"])
        arguments = message.get("params", {}).get("arguments", {})
        greeting = f"{arguments.get('text')} {arguments.get('count')}"
        result = {"content": [{"type": "text", "text": greeting}], "structuredContent": {"result": greeting}}
        text = orjson.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result})
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": 200 if "id" in message else 202, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    return None, lambda: serve


def main() -> None:
    name, *ports = sys.argv[1:]
    run, make_app = globals()[name]()
    if not ports:
        run()
        return
    import uvicorn

    options: dict[str, Any] = {"loop": "uvloop", "http": "httptools", "ws": "none", "access_log": False}
    uvicorn.run(make_app(), host=HOST, port=int(ports[0]), log_level="error", timeout_keep_alive=600, **options)


if __name__ == "__main__":
    main()
