"""The ASGI applications of `bench_mcp_http`: MCP servers with the same two tools.

uvicorn --factory benchmarks.mcp_http_servers:fast
"""

from typing import Any, Final

FAST: Final = "jsonrpc_fast"
CEILING: Final = "uvicorn alone"
"""An application that checks nothing. No server under uvicorn can serve more calls per second."""
SDK_JSON: Final = "SDK, JSON"
SDK_STREAM: Final = "SDK, streams"
SDK_STATELESS_JSON: Final = "SDK, stateless, JSON"
SDK_STATELESS_STREAM: Final = "SDK, stateless, streams"

FACTORIES: Final = {
    FAST: "fast",
    CEILING: "ceiling",
    SDK_JSON: "sdk_json",
    SDK_STREAM: "sdk_stream",
    SDK_STATELESS_JSON: "sdk_stateless_json",
    SDK_STATELESS_STREAM: "sdk_stateless_stream",
}


def fast() -> Any:
    from jsonrpc_fast.mcp.server import Context, Server

    server = Server("benchmark", "1.0")

    @server.tool
    async def greet(text: str, count: int) -> str:
        """Greet."""
        return f"{text} {count}"

    @server.tool
    async def greet_and_log(text: str, count: int, context: Context) -> str:
        """Greet, and send a log message before."""
        context.log("info", "greeting")
        return f"{text} {count}"

    return server.asgi_app(max_sessions=100_000)


def ceiling() -> Any:
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

    return serve


def _sdk(*, is_json: bool, is_stateless: bool) -> Any:
    from mcp.server.mcpserver import Context, MCPServer

    server = MCPServer("benchmark", version="1.0", log_level="ERROR")

    @server.tool()
    async def greet(text: str, count: int) -> str:
        """Greet."""
        return f"{text} {count}"

    @server.tool()
    async def greet_and_log(text: str, count: int, context: Context) -> str:
        """Greet, and send a log message before."""
        await context.info("greeting")
        return f"{text} {count}"

    return server.streamable_http_app(json_response=is_json, stateless_http=is_stateless, max_sessions=None)


def sdk_json() -> Any:
    return _sdk(is_json=True, is_stateless=False)


def sdk_stream() -> Any:
    return _sdk(is_json=False, is_stateless=False)


def sdk_stateless_json() -> Any:
    return _sdk(is_json=True, is_stateless=True)


def sdk_stateless_stream() -> Any:
    return _sdk(is_json=False, is_stateless=True)
