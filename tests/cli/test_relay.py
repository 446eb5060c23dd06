"""`jsonrpc-fast relay`: a program over HTTP and a URL on stdio, each through a gateway of one server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra `http` is not installed")
pytest.importorskip("msgspec", reason="the extra `mcp` is not installed")

import httpx2

from jsonrpc_fast import mcp
from jsonrpc_fast.cli.main import main
from jsonrpc_fast.errors import RpcError

from ..support.command_line import run
from ..support.http_script import HttpRequest, Reply, http_script, modern
from ..support.mcp_http import ACCEPT, INITIALIZED, call, initialize, request
from ..support.places import PEERS
from ..support.tables import rows

pytestmark = [pytest.mark.time_limit(80), pytest.mark.usefixtures("no_child_left")]

RELAY = [sys.executable, "-m", "jsonrpc_fast", "relay"]
SAMPLE = [sys.executable, str(PEERS / "sample_server.py")]
DYING = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    params = request.get("params", {})
    if params.get("name") == "die":
        os._exit(3)
    result = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "dying", "version": "1"}, "instructions": "Do not call die."},
        "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("die", "pid")]},
        "tools/call": {"content": [{"type": "text", "text": str(os.getpid())}]},
    }.get(request["method"])
    answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""


@contextlib.asynccontextmanager
async def served(*arguments: str, command: list[str] = SAMPLE) -> AsyncIterator[tuple[str, list[str]]]:
    """Run `relay --http` with a command. Yield its URL and the lines of its stderr."""
    pytest.importorskip("uvicorn")
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    process = await asyncio.create_subprocess_exec(
        *RELAY, "--http", "127.0.0.1:0", *arguments, "--", *command, stderr=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stderr is not None
    lines: list[str] = []
    found = asyncio.get_running_loop().create_future()

    async def read(stderr: asyncio.StreamReader) -> None:
        while line := (await stderr.readline()).decode():
            lines.append(line)
            match = re.search(r"running on (http://127\.0\.0\.1:\d+)", line)
            if match and not found.done():
                found.set_result(match[1])

    reading = asyncio.create_task(read(process.stderr))
    try:
        yield f"{await asyncio.wait_for(found, 30)}/mcp", lines
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 30)
        await reading


@contextlib.contextmanager
def running_relay(command: list[str]) -> Iterator[str]:
    """Run `relay --http` with a command for all tests of this module that end its sessions. Yield its URL."""
    pytest.importorskip("uvicorn")
    relay = [*RELAY, "--http", "127.0.0.1:0", "--", *command]
    with subprocess.Popen(relay, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = None
        while found is None:
            line = process.stderr.readline()
            assert line
            found = re.search(r"running on (http://127\.0\.0\.1:\d+)", line)
        reading = threading.Thread(target=process.stderr.read)
        reading.start()
        try:
            yield f"{found[1]}/mcp"
        finally:
            process.terminate()
            process.wait(30)
            reading.join()


@pytest.fixture(scope="module")
def sample() -> Iterator[str]:
    with running_relay(SAMPLE) as url:
        yield url


@pytest.fixture(scope="module")
def dying() -> Iterator[str]:
    with running_relay([sys.executable, "-S", "-c", DYING]) as url:
        yield url


@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_a_program_over_http(mode: str, revision: str, sample: str) -> None:
    progress: list[Any] = []
    async with mcp.connect(sample, mode=mode) as client:
        assert client.server.revision.version == revision
        assert {tool["name"] for tool in await client.list_tools()} >= {"add", "count"}
        result = await client.call_tool("count", {"to": 3}, on_progress=progress.append)
        assert result["content"] == [{"type": "text", "text": revision}]
        assert [value["progress"] for value in progress] == [1, 2, 3]
        results = await asyncio.gather(*[client.call_tool("add", {"a": number}) for number in range(3)])
        assert [result["structuredContent"] for result in results] == [{"sum": number + 1} for number in range(3)]


@pytest.mark.ci
async def test_a_url_over_stdio(sample: str) -> None:
    progress: list[Any] = []
    async with mcp.connect(*RELAY, sample, mode="legacy") as client:
        await client.call_tool("count", {"to": 3}, on_progress=progress.append)
        assert [value["progress"] for value in progress] == [1, 2, 3]
        with pytest.raises(RpcError):
            await client.get_prompt("unknown")


async def test_each_client_has_a_process_of_its_own(dying: str) -> None:
    async with mcp.connect(dying, mode="legacy") as one, mcp.connect(dying, mode="legacy") as other:
        assert one.server.instructions == other.server.instructions == "Do not call die."
        pids = [(await client.call_tool("pid"))["content"][0]["text"] for client in (one, one, other)]
        assert pids[0] == pids[1] != pids[2]
        with pytest.raises(RpcError) as caught:
            await one.call_tool("die")
        assert caught.value.code == -32000
        # The next request starts a new process, in the same session.
        assert (await one.call_tool("pid"))["content"][0]["text"] not in pids
        assert (await other.call_tool("pid"))["content"][0]["text"] == pids[2]


@pytest.mark.ci
async def test_the_number_of_processes_is_bounded() -> None:
    async with served("--max-processes", "1") as (url, _), mcp.connect(url, mode="legacy") as client:
        await client.list_tools()
        async with mcp.connect(url, mode="legacy") as other:
            with pytest.raises(RpcError, match="too many servers are running"):
                await other.list_tools()


@pytest.mark.ci
async def test_a_program_that_cannot_be_started() -> None:
    async with served(command=["/nowhere/server"]) as (url, lines), mcp.connect(url, mode="legacy") as client:
        with pytest.raises(RpcError) as caught:
            await client.list_tools()
    assert caught.value.code == -32000
    assert any("cannot be started" in line for line in lines), lines


@pytest.mark.ci
async def test_the_program_has_the_environment_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", "tea")
    program = [sys.executable, "-S", "-c", DYING.replace("str(os.getpid())", "os.environ['SHOP']")]
    async with served(command=program) as (url, _), mcp.connect(url) as client:
        assert (await client.call_tool("pid"))["content"][0]["text"] == "tea"


@pytest.mark.ci
async def test_the_headers_of_the_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.send(status=401, headers={"www-authenticate": "Bearer"})

    environment = {**os.environ, "TOKEN": "secret"}
    async with http_script(modern(answer)) as server:
        relay = [*RELAY, "--header", "Authorization: Bearer ${TOKEN}", server.url]
        async with mcp.connect(*relay, env=environment, stderr="discard") as client:
            with pytest.raises(RpcError) as caught:
                await client.call_tool("add")
        assert (caught.value.code, caught.value.message) == (
            -32000,
            "the server 'server' responded with the HTTP status 401",
        )
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer secret"}


@pytest.mark.ci
@rows("version", ["2025-03-26", "2025-06-18"])
async def test_batches_over_http_are_those_of_the_revision(version: str, sample: str) -> None:
    url = sample
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:
        answer = await http.post(url, json=initialize(version))
        assert answer.status_code == 200
        http.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        assert (await http.post(url, json=INITIALIZED)).status_code == 202
        calls = [request(id, "tools/call", name="add", arguments={"a": 1, "b": 5}) for id in ("x", 2)]
        batch = [*calls, {"jsonrpc": "2.0", "id": 3}, {"jsonrpc": "2.0", "method": "notifications/other"}]
        answer = await http.post(url, json=batch)
        if version == "2025-06-18":
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
            return
        assert answer.status_code == 200, answer.text
        found = {message["id"]: message for message in answer.json()}
        sums = [json.loads(found[id]["result"]["content"][0]["text"]) for id in ("x", 2)]
        assert sums == [{"sum": 6}] * 2
        assert found[3]["error"]["code"] == -32600
        answer = await http.post(url, json=[{"jsonrpc": "2.0", "method": "notifications/other"}])
        assert (answer.status_code, answer.content) == (202, b"")


@pytest.mark.ci
async def test_a_cancelled_call_of_a_program_ends_its_stream(sample: str) -> None:
    url = sample
    async with httpx2.AsyncClient(headers=ACCEPT, timeout=60) as http:
        answer = await http.post(url, json=initialize())
        http.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        await http.post(url, json=INITIALIZED)
        async with http.stream("POST", url, json=call(7, "count", to=100_000)) as stream:
            lines = stream.aiter_lines()
            while '"progress":1' not in await anext(lines):
                pass
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            assert (await http.post(url, json=cancelled)).status_code == 202
            assert not [line async for line in lines if "result" in line or "error" in line]


@rows(
    ("arguments", "said"),
    [
        ([], "expected a URL, or --http and a command after --"),
        (["http://a/mcp", "--", "server"], "expected a URL, or --http and a command after --"),
        (["--http", "127.0.0.1:0"], "--http needs a command after --, and no URL"),
        (["--http", "127.0.0.1:0", "http://a/mcp", "--", "server"], "--http needs a command after --, and no URL"),
        (["--http", "nowhere", "--", "server"], "the address nowhere must be HOST:PORT"),
        (
            ["--http", "127.0.0.1:0", "--header", "A: b", "--", "server"],
            "--header is for the URL of a remote server; a command has none",
        ),
        (["--header", "x", "http://a/mcp"], "a header must be NAME: VALUE"),
    ],
)
def test_a_command_line_that_is_wrong(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["relay", *arguments]) == 2
    assert said in capsys.readouterr().err


WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split()))
from jsonrpc_fast.cli.main import main
for words in sys.argv[1:]:
    print(main(words.split()))
"""


@rows(
    ("missing", "commands"),
    [
        (
            "uvicorn",
            [
                "relay --http 127.0.0.1:0 -- server",
                "tap --http 127.0.0.1:0 http://127.0.0.1:1",
                "serve --http 127.0.0.1:0 --template-dir .",
            ],
        ),
        ("httpx2", ["relay http://127.0.0.1:1/mcp", "tap --http 127.0.0.1:0 http://127.0.0.1:1"]),
        ("jinja2", ["serve --template-dir ."]),
        ("msgspec", ["serve --http 127.0.0.1:0 --template-dir ."]),
    ],
)
@pytest.mark.ci
def test_a_missing_extra_is_named(missing: str, commands: list[str]) -> None:
    words = [sys.executable, "-c", WITHOUT, missing, *commands]
    done = subprocess.run(words, capture_output=True, timeout=50, text=True, check=True)
    assert done.stdout.split() == ["2"] * len(commands)
    named = [
        re.search(r"pip install .jsonrpc_fast\[(http|mcp-http|mcp-http,mcp-templates|mcp-templates|http,mcp)\]", line)
        for line in done.stderr.splitlines()
    ]
    assert len(named) == len(commands), done.stderr
    assert None not in named


LIST = b"".join(
    json.dumps(message).encode() + b"\n" for message in (initialize(), INITIALIZED, request(2, "tools/list"))
)


@pytest.mark.ci
def test_a_server_that_is_dead() -> None:
    """The client gets an error that says why."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # and nothing listens
        done = run("relay", f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", data=LIST)
        why = "the server 'server' cannot be reached: it has no connection: All connection attempts failed"
        assert f'"error":{{"code":-32000,"message":"{why}"}}' in done.stdout
        assert why.partition(" it ")[2] in done.stderr
        assert done.returncode == 0
