"""Programs on HTTP, and URLs on stdio: `jsonrpc-fast relay` in both directions, with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import HttpStatusError, RpcError
from jsonrpc_fast.mcp.http import programs
from jsonrpc_fast.mcp.http.endpoint import McpEndpoint
from jsonrpc_fast.mcp.http.programs import ProgramServer

from ...support.asgi_servers import serving
from ...support.clock import moving_clock
from ...support.http_script import HttpRequest, Reply, http_script, legacy, modern
from ...support.mcp_http import ACCEPT, INITIALIZED, call, initialize, request
from ...support.places import PEERS
from ...support.tables import rows
from ...support.waiting import eventually, settle

pytestmark = [pytest.mark.time_limit(80), pytest.mark.usefixtures("no_child_left")]

RELAY = [sys.executable, "-m", "jsonrpc_fast", "relay"]
SAMPLE = [sys.executable, str(PEERS / "sample_server.py")]
DYING = """# may be forked
import os, sys
from jsonrpc_fast.mcp.server.server import Server
server = Server("dying", "1")
server.tool("die")(lambda: os._exit(3))
server.tool("pid")(lambda: str(os.getpid()))
sys.exit(server.serve_stdio())
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
    with running_relay([sys.executable, "-c", DYING]) as url:
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


async def test_a_session_has_a_process_of_its_own_and_ends_with_it(dying: str) -> None:
    async with mcp.connect(dying, mode="legacy") as one, mcp.connect(dying, mode="legacy") as other:
        pids = [(await client.call_tool("pid"))["content"][0]["text"] for client in (one, one, other)]
        assert pids[0] == pids[1] != pids[2]
        with pytest.raises(RpcError) as caught:
            await one.call_tool("die")
        assert caught.value.code == -32000
        # The client begins a new session, and so gets a new process.
        assert (await one.call_tool("pid"))["content"][0]["text"] not in pids
        assert (await other.call_tool("pid"))["content"][0]["text"] == pids[2]


async def test_requests_of_2026_07_28_share_processes_one_after_the_other(dying: str) -> None:
    async with mcp.connect(dying) as client:
        pids = {(await client.call_tool("pid"))["content"][0]["text"] for _ in range(3)}
        assert len(pids) == 1
        with pytest.raises(RpcError):
            await client.call_tool("die")
        assert (await client.call_tool("pid"))["content"][0]["text"] not in pids


@pytest.mark.ci
async def test_the_number_of_processes_is_bounded() -> None:
    async with served("--max-processes", "1") as (url, _), mcp.connect(url, mode="legacy") as client:
        await client.ping()
        with pytest.raises(HttpStatusError) as caught:
            async with mcp.connect(url, mode="legacy"):
                pass
        assert caught.value.status == 503


DYING_COMMAND = [sys.executable, "-c", DYING]


def is_running(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@contextlib.asynccontextmanager
async def sessions_of(server: ProgramServer, count: int) -> AsyncIterator[list[httpx2.AsyncClient]]:
    """Serve a program, and yield clients that have a session each and read no stream."""
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(serving(McpEndpoint(server)))
        clients = [httpx2.AsyncClient(base_url=url, headers=ACCEPT, timeout=30) for _ in range(count)]
        for client in clients:
            await stack.enter_async_context(client)
        yield clients


async def begun(client: httpx2.AsyncClient) -> int:
    """Begin a session, and return the status."""
    answer = await client.post("/mcp", json=initialize("2025-06-18"))
    if answer.status_code == 200:
        client.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        await client.post("/mcp", json=INITIALIZED)
    return answer.status_code


async def pid_of(client: httpx2.AsyncClient) -> int:
    answer = await client.post("/mcp", json=call(1, "pid"))
    return int(answer.json()["result"]["content"][0]["text"])


@pytest.mark.ci
async def test_a_process_that_is_idle_makes_room_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with sessions_of(ProgramServer(DYING_COMMAND, max_processes=2), 3) as (first, second, third):
        assert [await begun(client) for client in (first, second, third)] == [200, 200, 503]
        pids = [await pid_of(first), await pid_of(second)]
        monkeypatch.setattr(programs, "MIN_IDLE_SECONDS", 1.0)
        move = moving_clock()
        move(2)
        await pid_of(second)  # so the first one has been idle longest
        async with first.stream("GET", "/mcp"), second.stream("GET", "/mcp"):
            move(2)
            assert await begun(third) == 503  # a client that reads its stream is connected
        await pid_of(second)
        move(2)
        assert await begun(third) == 200
        assert await pid_of(third) not in pids
        assert [is_running(pid) for pid in pids] == [False, True]
        assert (await first.post("/mcp", json=call(2, "pid"))).status_code == 404


@pytest.mark.ci
async def test_a_client_that_does_not_come_back_ends_its_process() -> None:
    move = moving_clock()
    async with sessions_of(ProgramServer(DYING_COMMAND, idle_seconds=2), 1) as [client]:
        await begun(client)
        pid = await pid_of(client)
        async with client.stream("GET", "/mcp"):
            move(4)  # it is connected
            await settle()
            assert is_running(pid)
        move(4)
        await eventually(lambda: not is_running(pid))
        assert (await client.post("/mcp", json=call(2, "pid"))).status_code == 404


async def test_a_program_that_cannot_be_started() -> None:
    async with served(command=["/nowhere/server"]) as (url, lines):
        with pytest.raises(HttpStatusError) as caught:
            async with mcp.connect(url, mode="legacy"):
                pass
        assert caught.value.status == 502
    assert any("the program cannot be started" in line for line in lines)


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
        assert (caught.value.code, caught.value.message) == (-32000, "HTTP status 401")
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer secret"}


@rows("listens", [True, False], ids=["later", "at once"])
@pytest.mark.ci
async def test_a_session_of_the_relay_ends_with_its_client(listens: bool) -> None:
    has_listened = asyncio.Event()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        assert request.rpc == "GET", request.rpc
        has_listened.set()
        await reply.send(status=405)

    async with http_script(legacy(answer, listens=True)) as server:
        async with mcp.connect(*RELAY, server.url, mode="legacy"):
            if listens:
                await asyncio.wait_for(has_listened.wait(), 60)
        sent = [request.rpc for request in server.requests]
    # A client that leaves at once may do so before the relay opens the stream of the session.
    expected = ["initialize", "notifications/initialized", "GET", "DELETE"]
    assert sent == expected if listens else [rpc for rpc in sent if rpc != "GET"] == [*expected[:2], "DELETE"]


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


@pytest.mark.slow
async def test_a_client_of_the_relay_that_reads_nothing_holds_the_server_back() -> None:
    sent, is_held_back = 0, asyncio.Event()
    event = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 10_000}}).encode()

    async def answer(request: HttpRequest, reply: Reply) -> None:
        nonlocal sent
        await reply.begin()
        while True:
            await reply.event(event)
            sent += len(event)
            assert sent < 100_000_000

    async def watch() -> None:
        before = -1
        while not sent or sent != before:
            before = sent
            await asyncio.sleep(1)
        is_held_back.set()

    async with http_script(legacy(answer)) as server:
        process = subprocess.Popen([*RELAY, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for message in (initialize(), INITIALIZED, call(1, "flood")):
                process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            watching = asyncio.create_task(watch())
            await asyncio.wait_for(is_held_back.wait(), 60)
            await watching
            process.stdin.close()
            deadline = asyncio.get_running_loop().time() + 60
            while process.poll() is None:
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.05)
            assert process.returncode == 1  # it says on stderr that it dropped output
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


LATE = """
import json, os, sys, threading, time
def send(**members):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **members}) + "\\n")
    sys.stdout.flush()
served = []
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    meta = message["params"].get("_meta", {})
    token = meta.get("progressToken")
    # Everything below belongs to the requests before this one, and arrives late.
    for id, earlier in served:
        if earlier is not None:
            send(method="notifications/progress", params={"progressToken": earlier, "progress": 1})
        send(method="notifications/message", params={"level": "info", "data": "late"})
        send(method="notifications/resources/updated",
             params={"uri": "a:b", "_meta": {"io.modelcontextprotocol/subscriptionId": id}})
        send(id="ask", method="roots/list")
    served.append((message["id"], token))
    if "io.modelcontextprotocol/logLevel" in meta:
        send(method="notifications/message", params={"level": "info", "data": "own"})
    if token is not None:
        send(method="notifications/progress", params={"progressToken": token, "progress": 2})
    send(id=message["id"], result={"resultType": "complete", "pid": os.getpid()})
"""


@rows("log", [False, True])
@pytest.mark.ci
async def test_what_a_process_sends_late_never_reaches_the_next_request(log: bool) -> None:
    async def call(http: httpx2.AsyncClient, token: int | None, *, log: bool = False) -> tuple[list[Any], int]:
        meta: dict[str, Any] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        meta["io.modelcontextprotocol/clientCapabilities"] = {}
        if token is not None:
            meta["progressToken"] = token
        if log:
            meta["io.modelcontextprotocol/logLevel"] = "info"
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "_meta": meta}}
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "add"}
        headers["accept"] = "application/json, text/event-stream"
        answer = await http.post(url, json=message, headers=headers)
        assert answer.status_code == 200
        lines = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith(("data:", "{"))]
        *notifications, response = [json.loads(line) for line in lines if line.strip()]
        return [message["params"] for message in notifications], response["result"]["pid"]

    own = [{"level": "info", "data": "own"}] if log else []
    async with served(command=[sys.executable, "-c", LATE]) as (url, _), httpx2.AsyncClient() as http:
        first, pid = await call(http, 7, log=log)
        assert first == [*own, {"progressToken": 7, "progress": 2}]
        # Without log messages, the same process serves the next request, which has another token.
        pids = []
        for token in range(8, 28):
            notifications, other = await call(http, token, log=log)
            assert notifications == [*own, {"progressToken": token, "progress": 2}]
            notifications, last = await call(http, None, log=log)
            assert notifications == own
            pids += [other, last]
            if pid in pids or (len(pids) > 6 and log):
                break
        assert (pid in pids) is not log
        # The same token again needs another process, because late progress could not be distinguished.
        fourth, another = await call(http, 7, log=log)
        assert fourth == [*own, {"progressToken": 7, "progress": 2}]
        assert another != pid
        fifth, _ = await call(http, None, log=True)
        assert fifth == [{"level": "info", "data": "own"}]


WAITING = """# may be forked
import os, sys, time
from jsonrpc_fast.mcp.server.server import Server
server = Server("waiting", "1")

@server.tool
async def wait(path: str) -> str:
    os.remove(path)
    while not os.path.exists(path):
        time.sleep(0.001)
    return "done"

sys.exit(server.serve_stdio())
"""


@pytest.mark.ci
async def test_an_endpoint_that_closes_lets_a_session_finish(tmp_path: Path) -> None:
    path = tmp_path / "place"
    path.touch()
    endpoint = McpEndpoint(ProgramServer([sys.executable, "-c", WAITING]))
    async with serving(endpoint) as url, httpx2.AsyncClient(base_url=url, headers=ACCEPT, timeout=30) as client:
        await begun(client)
        sent = asyncio.create_task(client.post("/mcp", json=call(1, "wait", path=str(path))))
        await eventually(lambda: not path.exists())
        closing = asyncio.create_task(endpoint.close(30.0))
        await eventually(lambda: endpoint.is_closing)
        await settle()
        path.touch()
        assert (await sent).json()["result"]["content"] == [{"type": "text", "text": "done"}]
        await closing


SILENT = """
import json, sys
for line in sys.stdin:
    print(json.loads(line)["method"], file=sys.stderr, flush=True)
"""


@pytest.mark.ci
async def test_an_endpoint_closes_while_a_request_of_2026_07_28_is_in_flight() -> None:
    lines: list[str] = []
    server = ProgramServer([sys.executable, "-c", SILENT], stderr=lines.append)
    endpoint = McpEndpoint(server)
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    headers = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": "ping"}
    async with serving(endpoint) as url, httpx2.AsyncClient(headers=headers, timeout=30) as client:
        sent = asyncio.create_task(client.post(f"{url}/mcp", json=request(1, "ping", _meta=meta)))
        await eventually(lambda: bool(server.connections))
        await endpoint.close(0.0)
        assert (await sent).json()["error"]["code"] == -32000
        # The program learns that no client waits for its response; otherwise it would run until it is terminated.
        await eventually(lambda: lines == ["ping", "notifications/cancelled"])
