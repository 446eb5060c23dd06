"""An MCP server with a tool, a resource and a prompt. It needs the extra `mcp`.

jsonrpc-fast list --mcp -- python examples/mcp_server.py
jsonrpc-fast call --mcp convert celsius=20 -- python examples/mcp_server.py
"""

from jsonrpc_fast.mcp.server import Context, Server

server = Server("weather", "1.0", instructions="Converts temperatures.")


@server.tool()
def convert(context: Context, celsius: float) -> dict[str, float]:
    """Convert degrees Celsius to Fahrenheit.

    Args:
        celsius: The temperature.
    """
    context.report_progress(1, 1, "converted")
    return {"fahrenheit": celsius * 9 / 5 + 32}


@server.resource("weather://{city}/now", description="The weather of a city.")
def now(city: str) -> str:
    return f"It is sunny in {city}."


@server.prompt()
def ask(city: str) -> str:
    """Ask for clothes that suit the weather."""
    return f"What should I wear in {city} today? {now(city)}"


if __name__ == "__main__":
    raise SystemExit(server.serve_stdio())
