"""One MCP server made of two programs, whose payloads it passes on undecoded. It needs the extra `mcp`.

jsonrpc-fast list --mcp -- python examples/mcp_gateway.py
jsonrpc-fast call --mcp weather_convert celsius=20 -- python examples/mcp_gateway.py
"""

import sys
from pathlib import Path

from jsonrpc_fast.mcp import Gateway

folder = Path(__file__).parent
gateway = Gateway(
    {
        "weather": [sys.executable, folder / "mcp_server.py"],
        "calls": {"command": sys.executable, "args": [str(folder / "mcp_middleware.py")]},
    },
    instructions="The weather, and sums.",
)

if __name__ == "__main__":
    raise SystemExit(gateway.serve_stdio())
