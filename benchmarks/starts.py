"""Measure the start of an MCP server on stdio to its first answers: `python -m benchmarks.starts` prints a table.

Each server has one tool, and runs as a program of its own: it is started, asked for `initialize` and `tools/list`, and
ended by the end of its input. The processor time of the program is counted, not the time on the clock: it depends less
on what else the machine does. The servers take turns; the least of all rounds counts.

Run it in an environment that has all three (`pip install mcp fastmcp`): what else is installed there costs, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from .tables import markdown

TOOL: Final = '''
@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

'''
SERVERS: Final = {
    "jsonrpc_fast": f"""
from jsonrpc_fast.mcp.server import Server
server = Server("adder", "1.0")
{TOOL}
server.serve_stdio()
""",
    "mcp": f"""
from mcp.server import MCPServer
server = MCPServer("adder")
{TOOL}
server.run()
""",
    "fastmcp": f"""
from fastmcp import FastMCP
server = FastMCP("adder")
{TOOL}
server.run(show_banner=False)
""",
}
"""The program of each distribution, as its documentation writes it."""

REVISION: Final = "2025-06-18"
_INITIALIZE: Final = {
    "protocolVersion": REVISION,
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1.0"},
}
MESSAGES: Final[tuple[dict[str, Any], ...]] = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _INITIALIZE},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def start(program: Path) -> tuple[float, int]:
    """Start a server once, and wait for its answers.

    Returns:
        The seconds of processor time of the program, and the number of modules that it has loaded.
    """
    # Only the children that have ended are counted, so nothing else may end meanwhile.
    before = os.times()
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in MESSAGES:
            server.stdin.write(json.dumps(message).encode() + b"\n")
            server.stdin.flush()
            if "id" in message:
                answer = json.loads(server.stdout.readline())
                assert answer["id"] == message["id"], answer
        assert [tool["name"] for tool in answer["result"]["tools"]] == ["add"]
        server.stdin.close()
        server.wait(60)
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    command = [sys.executable, "-c", program.read_text().split("server = ")[0] + "import sys; print(len(sys.modules))"]
    return seconds, int(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)


def table(rounds: int) -> str:
    """Return the table."""
    least: dict[str, float] = {}
    modules: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, text in SERVERS.items():
                program = Path(folder, f"server_of_{name}.py")
                program.write_text(text)
                seconds, modules[name] = start(program)
                least[name] = min(seconds, least.get(name, seconds))
    rows = [("server", "processor time, ms", "to ours", "modules")]
    for name, seconds in least.items():
        label = name if name == "jsonrpc_fast" else f"{name} {version(name)}"
        rows.append((label, f"{seconds * 1e3:.0f}", f"{seconds / least['jsonrpc_fast']:.1f}", str(modules[name])))
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(table(options.rounds))


if __name__ == "__main__":
    main()
