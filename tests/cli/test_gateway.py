"""The command `gateway`: its options, its file, and a client of stdin and stdout, and of HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.cli.main import main
from jsonrpc_fast.errors import ConnectionLost, RpcError
from jsonrpc_fast.mcp import connect
from jsonrpc_fast.session import McpConvention, Session
from jsonrpc_fast.transports import StdioClient

from ..support.http_process import running
from ..support.tables import rows
from ..support.waiting import eventually, free_port

pytestmark = pytest.mark.time_limit(100)

SERVER = """# may be forked
import os, sys
from jsonrpc_fast.mcp.server import Server
server = Server("s", "1")
@server.tool
def pid() -> int:
    return os.getpid()
@server.tool
def variables() -> list[str]:
    return sorted(os.environ)
@server.tool
def die() -> None:
    os._exit(3)
@server.tool
def size(text: str) -> int:
    return len(text)
sys.exit(server.serve_stdio())
"""


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    """The file of two servers, one of which exits at once."""
    (tmp_path / "server.py").write_text(SERVER)
    good = {"command": sys.executable, "args": ["${FOLDER:-" + str(tmp_path) + "}/server.py"], "env": {"KEY": "value"}}
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"good": good, "bad": {"command": sys.executable, "args": ["-c", "1"]}}}))
    return path


def command(path: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "jsonrpc_fast", "gateway", str(path), *options]


def value_of(result: dict[str, Any]) -> Any:
    return result["structuredContent"]["result"]


@rows(
    ("arguments", "said"),
    [
        (["nowhere.json"], "nowhere.json: No such file or directory"),
        ([__file__], "the file of servers cannot be read: it is not plain JSON, at line 1, column 3\n"),
        ([__file__, "--http", "nowhere"], "the address nowhere must be HOST:PORT"),
        ([__file__, "--allow-host", "a"], "--allow-host and --allow-origin need --http"),
        ([__file__, "--status", "--http", "127.0.0.1:8000"], "--status serves nothing: leave out --http"),
        (["nowhere.json", "--status"], "nowhere.json: No such file or directory"),
    ],
)
def test_a_command_line_that_is_wrong(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_what_the_file_has_twice_or_misspelled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "servers.json"
    path.write_text('{"mcpServers":{"a":{"command":"x"},"a":{"command":"y"}}}')
    assert main(["gateway", str(path)]) == 2
    assert capsys.readouterr().err == (
        "jsonrpc-fast gateway: the file of servers cannot be read: it has the member 'a' twice\n"
    )
    path.write_text('{"mcpServers":{"a":{"command":"no-such-program","arg":["y"]}}}')
    assert main(["gateway", "--status", str(path)]) == 1
    assert capsys.readouterr().err == ("jsonrpc-fast gateway: the server 'a': 'arg' is unknown; did you mean 'args'?\n")


@pytest.mark.ci
def test_the_status_of_the_servers(servers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(servers.read_text())
    content["mcpServers"]["good"] |= {"excludeTools": ["die"], "tools": {"pidd": {"name": "process"}}}
    content["mcpServers"]["bad"]["args"] = ["-c", "raise SystemExit('no database')"]
    servers.write_text(json.dumps(content))
    assert main(["gateway", str(servers), "--status"]) == 1
    good, unfit, bad, *reason = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"good  ok  s 1, 2026-07-28: 4 tools \(1 not shown\); \d+\.\d s", good)
    assert unfit == "    its rules name tools or arguments that it does not have: pidd"
    assert bad.startswith("bad   FAILED  ")
    assert "no database" in "".join(reason)
    del content["mcpServers"]["bad"]
    servers.write_text(json.dumps(content))
    assert main(["gateway", str(servers), "--status"]) == 0


@pytest.mark.ci
async def test_a_client_on_stdio(servers: Path) -> None:
    lines: list[str] = []
    program, *arguments = command(servers)
    async with connect(program, *arguments, env=dict(os.environ), stderr=lines.append) as client:
        assert [tool["name"] for tool in await client.list_tools()] == [
            "good_pid",
            "good_variables",
            "good_die",
            "good_size",
        ]
        text = "é" * 1_000_000
        assert value_of(await client.call_tool("good_size", {"text": text})) == len(text)
        variables = value_of(await client.call_tool("good_variables", {}))
        assert "KEY" in variables
        assert "PYTHONPATH" not in variables  # a server inherits only variables without secrets
        pid = value_of(await client.call_tool("good_pid", {}))
        with pytest.raises(RpcError, match="the server 'good' ended with exit code 3"):
            await client.call_tool("good_die", {})
        again = value_of(await client.call_tool("good_pid", {}))
        assert again != pid
    await eventually(lambda: not Path(f"/proc/{again}").exists())
    assert any("bad: cannot be started" in line for line in lines)


STUBBORN = """
import json, os, signal, sys
if sys.argv[1] == "ignores":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    elif message["method"] == "tools/call":
        print("at work", os.getpid(), file=sys.stderr, flush=True)
while True:
    signal.pause()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("how", ["ends", pytest.param("ignores", marks=pytest.mark.slow)])
async def test_a_signal_ends_the_servers_at_once(how: str, tmp_path: Path) -> None:
    """One of two has a call in flight; neither ends when its stdin is closed."""
    (tmp_path / "server.py").write_text(STUBBORN)
    entry = {"command": sys.executable, "args": ["-S", str(tmp_path / "server.py"), how]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"a": entry, "b": entry}}))
    lines: list[str] = []
    transport = StdioClient(command(tmp_path / "servers.json"), stderr=lines.append)
    async with Session(transport, convention=McpConvention()) as session:
        info = {"name": "c", "version": "1"}
        await session.call("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        calls = [asyncio.ensure_future(session.call("tools/call", {"name": f"{name}_wait"})) for name in "ab"]
        await eventually(lambda: len([line for line in lines if line.startswith("at work")]) == 2)
        children = [line.split()[-1] for line in lines if line.startswith("at work")]
        assert transport.pid is not None
        calls.pop().cancel()
        begun = time.monotonic()
        os.kill(transport.pid, signal.SIGTERM)
        with pytest.raises(RpcError if how == "ends" else (RpcError, ConnectionLost)) as caught:
            await calls[0]
        await session.wait_closed()
        assert transport.returncode == -signal.SIGTERM
        # A client of this package kills it after 2.
        assert how == "ends" or time.monotonic() - begun < 3
    assert how == "ignores" or str(caught.value) == "the server 'a' ended by signal 15 (-32000)"
    await eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
    assert not any("has ended" in line for line in lines)


@pytest.mark.ci
async def test_clients_over_http(servers: Path) -> None:
    port = free_port()
    with running(command(servers, "--http", f"127.0.0.1:{port}", "--separator", "."), port) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        async with connect(url, mode="legacy") as one, connect(url, mode="legacy") as other:
            pids = [value_of(await client.call_tool("good.pid", {})) for client in (one, other)]
            assert pids[0] != pids[1]
            assert value_of(await one.call_tool("good.pid", {})) == pids[0]
        await eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        async with connect(url) as one, connect(url) as other:  # single requests of clients that look the same
            pids = [value_of(await client.call_tool("good.pid", {})) for client in (one, other)]
            assert pids[0] == pids[1]


@pytest.mark.ci
async def test_connect_reads_the_file(servers: Path) -> None:
    async with connect(servers) as client:
        assert value_of(await client.call_tool("good_size", {"text": "abc"})) == 3
    content = json.loads(servers.read_text())
    del content["mcpServers"]["bad"]
    async with connect(content) as client:  # one server: its own names
        assert value_of(await client.call_tool("size", {"text": "abc"})) == 3
