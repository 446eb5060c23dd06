"""Clients of other packages use this package's server, and its client uses their servers over Streamable HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra `http` is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from jsonrpc_fast.mcp import connect

from ..support.chromium import visit
from ..support.http_process import serving
from ..support.waiting import free_port
from .conformance.suites import running_server
from .node import PEERS, install, node_command
from .venvs import python_for

pytestmark = pytest.mark.slow

SECONDS = 90
EXPECTED = {
    "has_tool": True,
    "text": "This is a simple text response for testing.",
    "progress": [[0, 100], [50, 100], [100, 100]],
    "asked": 'User response: action=accept, content={"response": "yes"}',
    "resource": "This is the content of the static text resource.",
    "prompt": "Prompt with arguments: arg1='a', arg2='b'",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture(scope="module")
def gateway_url(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway to the same server, whose name is `g`, and to one on stdio."""
    servers = {"g": {"url": url}, "other": {"command": sys.executable, "args": [str(PEERS / "sample_server.py")]}}
    path = tmp_path_factory.mktemp("gateway") / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    port = free_port()
    command = [sys.executable, "-m", "jsonrpc_fast", "gateway", str(path), "--http", f"127.0.0.1:{port}"]
    with running(command, port):
        yield f"http://127.0.0.1:{port}/mcp"


def output_of(command: list[str], **environment: str) -> Any:
    """Return the last line that a command prints, decoded from JSON."""
    env = {**os.environ, **environment}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.fixture(params=["http", "stdio"])
def target(request: pytest.FixtureRequest, url: str) -> list[str]:
    """The URL of the server, or the command that starts it."""
    if request.param == "http":
        return [url]
    return [sys.executable, str(PEERS / "conformance" / "server.py"), "stdio"]


CLIENTS = ["fastmcp", "langchain", "mcp-use", "openai-agents", "pydantic-ai", "sdk1", "sdk2,legacy", "sdk2,auto"]
TYPESCRIPT_CLIENTS = ["1", "2,legacy", "2,auto", "2,2026-07-28"]
REVISIONS = {"sdk1": "2025-11-25", "sdk2,legacy": "2025-11-25", "sdk2,auto": "2026-07-28"}
LACKING = {"mcp-use": {"progress"}, "openai-agents": {"progress", "asked"}}
"""The features that a client lacks, as of the last release tried."""


def python_client(client: str, *target: str) -> list[str]:
    return [python_for(client.partition(",")[0]), str(PEERS / "mcp_client.py"), client, *target]


@pytest.mark.parametrize("client", CLIENTS)
def test_python_clients(target: list[str], client: str) -> None:
    found = output_of(python_client(client, *target), MCP_USE_ANONYMIZED_TELEMETRY="false")
    assert found.pop("version", None) == REVISIONS.get(client)
    assert found == {name: text for name, text in EXPECTED.items() if name not in LACKING.get(client, ())}


@pytest.mark.parametrize("client", ["sdk1", "sdk2,legacy", "sdk2,auto", "fastmcp"])
def test_python_clients_through_a_gateway(gateway_url: str, client: str) -> None:
    found = output_of(python_client(client, gateway_url), MCP_PREFIX="g_")
    assert found.pop("version", None) == REVISIONS.get(client)
    assert found == EXPECTED


def check_typescript(client: str, *target: str, **environment: str) -> None:
    found = output_of(node_command("mcp_client.mjs", client, *target), **environment)
    assert found.pop("progress")[:2] == [[0, 100], [50, 100]]  # it drops the last one if the response comes with it
    assert found == {name: text for name, text in EXPECTED.items() if name != "progress"}


@pytest.mark.parametrize("client", TYPESCRIPT_CLIENTS)
def test_typescript_clients_through_a_gateway(gateway_url: str, client: str) -> None:
    check_typescript(client, gateway_url, MCP_PREFIX="g_")


@pytest.mark.parametrize("client", TYPESCRIPT_CLIENTS)
def test_typescript_clients(target: list[str], client: str) -> None:
    check_typescript(client, *target)


def test_the_inspector(target: list[str]) -> None:
    folder = PEERS / "inspector"
    node = install(folder)
    program = folder / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients/launcher/build/index.js"
    how = [*target, "--transport", "http"] if len(target) == 1 else target

    def inspect(*arguments: str) -> Any:
        command = [node, str(program), "--cli", *how, *arguments]
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        assert run.returncode == 0, run.stderr[-3000:]
        return json.loads(run.stdout)

    assert "greet" in [tool["name"] for tool in inspect("--method", "tools/list")["tools"]]
    call = inspect("--method", "tools/call", "--tool-name", "greet", "--tool-arg", "name=Ann")
    assert call["content"] == [{"type": "text", "text": "Hello, Ann!"}]
    [contents] = inspect("--method", "resources/read", "--uri", "test://static-text")["contents"]
    assert contents["text"] == EXPECTED["resource"]
    prompt = ("--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=a", "arg2=b")
    [message] = inspect("--method", "prompts/get", *prompt)["messages"]
    assert message["content"]["text"] == EXPECTED["prompt"]


def test_a_page_in_chromium(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    with serving("uvicorn-h11", "tests.support.mcp_browser_app:app") as server:
        [report], _, _ = visit(f"http://localhost:{server.port}/", ["window.report"], tmp_path)
    assert report == "2025-11-25 202 1 2 3 counted notifications/tools/list_changed 200 refused 2"


@contextlib.contextmanager
def running(command: list[str], port: int) -> Iterator[str]:
    """Run a server of another package, and yield its URL."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + SECONDS
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise AssertionError(log.read()[-3000:].decode(errors="replace"))
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("package", "mode", "revision"),
    [
        ("sdk1", "auto", "2025-11-25"),
        ("sdk2", "auto", "2026-07-28"),
        ("sdk2", "legacy", "2025-11-25"),
        ("fastmcp", "auto", None),
    ],
)
async def test_python_servers(package: str, mode: str, revision: str | None) -> None:
    port = free_port()
    command = [python_for(package), str(PEERS / "http_server.py"), package, str(port)]
    with running(command, port) as url:
        async with connect(url, mode=mode, timeout=60) as client:
            assert revision in (None, client.server.revision.version)
            assert [tool["name"] for tool in await client.list_tools()] == ["add"]
            assert (await client.call_tool("add", {"a": 2, "b": 3}))["structuredContent"] == {"result": 5}
            [message] = (await client.get_prompt("hello", {"name": "Ann"}))["messages"]
            assert message["content"]["text"] == "Hello Ann"
            [contents] = (await client.read_resource("memo://x"))["contents"]
            assert contents["text"] == "about x"


@pytest.mark.parametrize(("release", "revision"), [("1", "2025-11-25"), ("2", "2026-07-28")])
async def test_typescript_servers(release: str, revision: str) -> None:
    port = free_port()
    with running(node_command("http_server.mjs", release, str(port)), port) as url:
        async with connect(url, timeout=60) as client:
            assert client.server.revision.version == revision
            [tool] = await client.list_tools()
            assert tool["name"] == "add"
            result = await client.call_tool("add", {"a": 2, "b": 3})
            assert result["content"] == [{"type": "text", "text": "5"}]
