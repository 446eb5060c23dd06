"""The gateway in front of six servers of other packages, driven by clients of other packages over HTTP.

The servers everything, filesystem and memory come from npm; those for time, git and fetching pages come from PyPI.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx", reason="the extra `http` is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp import connect

from ..support.waiting import free_port
from .node import PEERS, install, node_command
from .test_mcp_http import output_of, running
from .test_ports import repository
from .venvs import python_for, python_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.time_limit(400),
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="it finds the servers in /proc"),
]

PAGE = b"<html><body><article><h1>News</h1><p>The page says hello.</p></article></body></html>"
SERVERS = {"everything": 13, "fetch": 1, "fs": 14, "git": 12, "memory": 9, "time": 2}
"""The servers, and how many tools each must have at least; later releases may have more."""


class Pages(http.server.BaseHTTPRequestHandler):
    """Has one page."""

    def do_GET(self) -> None:
        is_page = self.path == "/page"
        self.send_response(200 if is_page else 404)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(PAGE) if is_page else 0))
        self.end_headers()
        self.wfile.write(PAGE if is_page else b"")

    def log_message(self, *_: object) -> None:
        pass


class Place:
    """A gateway that runs, and what its servers can use.

    Attributes:
        url: The URL of the gateway.
        process: Its process id.
        calls: A call for each server.
        expected: What the text of each result must contain.
    """

    url: str
    process: int

    def __init__(self, folder: Path, page: str) -> None:
        repo = repository(folder)
        (folder / "a.txt").write_text("hello from a file")
        entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
        times = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kathmandu"}
        made = {
            "everything_echo": ({"message": "hello"}, "Echo: hello"),
            "fs_read_text_file": ({"path": str(folder / "a.txt")}, "hello from a file"),
            "memory_create_entities": ({"entities": [entity]}, "["),
            "memory_read_graph": ({}, "writes programs"),
            "time_convert_time": (times, "+5.75h"),
            "git_git_log": ({"repo_path": str(repo), "max_count": 1}, "second\n\nwith a body"),
            "fetch_fetch": ({"url": page}, "The page says hello."),
        }
        self.calls = [(name, arguments) for name, (arguments, _) in made.items()]
        self.expected = [text for _, text in made.values()]
        modules = install_servers()
        python = python_of("servers")
        node = {
            "everything": [modules / "server-everything" / "dist" / "index.js", "stdio"],
            "fs": [modules / "server-filesystem" / "dist" / "index.js", folder],
            "memory": [modules / "server-memory" / "dist" / "index.js"],
        }
        self.entries: dict[str, dict[str, Any]] = {
            name: {"command": "node", "args": list(map(str, words))} for name, words in node.items()
        }
        self.entries["memory"]["env"] = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
        for name in ("time", "git", "fetch"):
            self.entries[name] = {"command": python, "args": ["-m", f"mcp_server_{name}"]}
        self.entries["fetch"]["args"].append("--allow-private-ips")

    def kill(self, name: str) -> int:
        """Kill the processes of a server, and return how many there were."""
        word = next(word for word in self.entries[name]["args"] if word != "-m")
        found = 0
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if word.encode() in words and parent == self.process:
                os.kill(int(process.name), signal.SIGKILL)
                found += 1
        return found


def install_servers() -> Path:
    """Return the folder of the servers from npm."""
    install(PEERS / "servers")
    return PEERS / "servers" / "node_modules" / "@modelcontextprotocol"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("gateway")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as pages:
        thread = threading.Thread(target=pages.serve_forever)
        thread.start()
        try:
            here = Place(folder, f"http://127.0.0.1:{pages.server_port}/page")
            path = folder / "servers.json"
            path.write_text(json.dumps({"mcpServers": here.entries}))
            port = free_port()
            # On a busy machine, a list waits for the slowest start: it includes all `SERVERS` from the first time.
            options = ["--http", f"127.0.0.1:{port}", "--list-seconds", "60"]
            command = [sys.executable, "-m", "jsonrpc_fast", "gateway", str(path), *options]
            with running(["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(folder / "pid"), *command], port) as url:
                here.url, here.process = url, int((folder / "pid").read_text())
                yield here
        finally:
            pages.shutdown()
            thread.join()


@pytest.mark.parametrize("client", ["sdk1", "sdk2", "fastmcp", "typescript 1", "typescript 2"])
def test_clients(place: Place, client: str) -> None:
    package, _, release = client.partition(" ")
    calls = json.dumps(place.calls)
    if package == "typescript":
        found = output_of(node_command("calls_client.mjs", release, place.url, calls))
    else:
        found = output_of([python_for(package), str(PEERS / "calls_client.py"), package, place.url, calls])
    for text, expected in zip(found["texts"], place.expected, strict=True):
        assert expected in text
    for server, number in SERVERS.items():
        assert sum(tool.startswith(f"{server}_") for tool in found["tools"]) >= number, server
    assert found["resources"] > 0
    assert found["prompts"]


async def test_a_server_that_is_killed_fails_its_calls_alone_and_is_started_again(place: Place) -> None:
    slow = ("everything_trigger-long-running-operation", {"duration": 60, "steps": 2})
    async with connect(place.url, timeout=200) as client:
        await client.call_tool("everything_echo", {"message": "up"})
        await client.call_tool(*place.calls[4])
        waiting = asyncio.create_task(client.call_tool(*slow))
        await asyncio.sleep(1)
        assert place.kill("everything") >= 1  # those of earlier clients, too
        with pytest.raises(RpcError, match="the server 'everything' was lost"):
            await waiting
        assert (await client.call_tool(*place.calls[4]))["structuredContent"]["time_difference"] == "+5.75h"
        assert (await client.call_tool("everything_echo", {"message": "again"}))["content"][0]["text"] == "Echo: again"
        for name in ("time", "git", "fetch", "fs", "memory"):
            place.kill(name)
        for (name, arguments), expected in zip(place.calls, place.expected, strict=True):
            assert expected in (await client.call_tool(name, arguments))["content"][0]["text"]


async def test_a_slow_server_delays_only_its_own_calls(place: Place) -> None:
    steps: list[Any] = []
    async with connect(place.url, timeout=200) as client:
        await asyncio.gather(*[client.call_tool(*call) for call in place.calls[:2]])
        slow = client.call_tool(
            "everything_trigger-long-running-operation", {"duration": 10, "steps": 5}, on_progress=steps.append
        )
        waiting = asyncio.create_task(slow)
        began, done = time.monotonic(), 0
        while not steps or time.monotonic() - began < 3:
            assert (await client.call_tool(*place.calls[1]))["content"][0]["text"] == "hello from a file"
            done += 1
        assert not waiting.done()
        assert done >= 3
        assert "Long running operation completed" in (await waiting)["content"][0]["text"]
    assert [step["progress"] for step in steps] == [1, 2, 3, 4, 5]


async def test_floods(place: Place) -> None:
    """Ten clients at a time, each with a hundred calls; one of them leaves in the middle."""

    broken_off: list[asyncio.Task[Any]] = []

    async def flood(number: int) -> int:
        async with connect(place.url, timeout=300) as client:
            await client.call_tool("everything_echo", {"message": "up"})
            calls = [
                asyncio.create_task(client.call_tool("everything_echo", {"message": f"{number} {each}"}))
                for each in range(100)
            ]
            if number == 0:
                await calls[0]
                broken_off.extend(calls)
                return 0
            results = await asyncio.gather(*calls)
            texts = [result["content"][0]["text"] for result in results]
            assert texts == [f"Echo: {number} {each}" for each in range(100)]
            return len(texts)

    async with connect(place.url, timeout=200) as client:
        flooding = asyncio.gather(*[flood(number) for number in range(10)])
        while not flooding.done():
            assert (await client.call_tool(*place.calls[1]))["content"][0]["text"] == "hello from a file"
            await asyncio.sleep(0.2)
        assert sum(await flooding) == 900
    await asyncio.gather(*broken_off, return_exceptions=True)
