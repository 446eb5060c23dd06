"""The gateway in front of six servers of other packages, driven by clients of other packages over HTTP.

The servers everything, filesystem and memory come from npm; those for time, git and fetching pages come from PyPI.
"""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra `http` is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")


from ..support.waiting import free_port
from .node import PEERS, install, node_command
from .test_mcp_http import output_of, running
from .test_ports import repository
from .venvs import python_for, python_of

pytestmark = pytest.mark.slow

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
        calls: A call for each server.
        expected: What the text of each result must contain.
    """

    url: str

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
            with running(command, port) as here.url:
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
