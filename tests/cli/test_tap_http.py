"""`jsonrpc-fast tap --http`: a real process between a client and a server on HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from jsonrpc_fast import Raw, mcp
from jsonrpc_fast.errors import HttpStatusError
from jsonrpc_fast.testing.recordings import read_recording

from ..support.http_script import HttpRequest, Reply, http_script, legacy
from ..support.waiting import eventually

pytestmark = pytest.mark.usefixtures("no_child_left")

TEXT = {"content": [{"type": "text", "text": "secret"}]}
NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"secret"}}'


@contextlib.asynccontextmanager
async def tapping(url: str, log: Path, *options: str) -> AsyncIterator[str]:
    pytest.importorskip("uvicorn")
    command = ["tap", "--http", "127.0.0.1:0", "--log", str(log), "--profile", "mcp-2025-11-25", *options, url]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "jsonrpc_fast", *command, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        match = None
        while match is None:
            line = await asyncio.wait_for(process.stderr.readline(), 30)
            assert line, "the tap ended"
            match = re.search(rb"running on (http://127\.0\.0\.1:\d+)", line)
        yield f"{match[1].decode()}/mcp"
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.communicate(), 30)


def without_times(log: Path) -> list[str]:
    return [line.partition(" ")[2] for line in log.read_text().splitlines()]


async def answer(request: HttpRequest, reply: Reply) -> None:
    if request.rpc != "tools/call":
        await reply.accept()
    elif request.message["params"]["name"] == "refused":
        await reply.send(b"no", 403, "text/plain")
    else:
        await reply.begin()
        await reply.event(NOTE)
        await reply.event(request.result(TEXT))


@pytest.mark.ci
async def test_the_log_of_a_conversation(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with http_script(legacy(answer)) as server:
        async with (
            tapping(f"http://127.0.0.1:{server.port}", log) as url,
            mcp.connect(url, mode="legacy", headers={"X-Key": "k"}) as client,
        ):
            assert await client.call_tool("add", {"a": "secret"}) == TEXT
            with pytest.raises(HttpStatusError):
                await client.call_tool("refused")
        assert {request.headers["x-key"] for request in server.requests} == {"k"}
        assert {request.headers["host"] for request in server.requests} == {f"127.0.0.1:{server.port}"}
        assert {request.path for request in server.requests} == {"/mcp"}
    text = log.read_text()
    assert "secret" not in text
    lines = [re.sub(r"^[\d:.]+ |\d+ B|[\d.]+ ms", "", line).strip() for line in text.splitlines()]
    assert [line for line in lines if "405" not in line] == [
        "-> request initialize id=1",
        "<- result initialize id=1",
        "-> notification notifications/initialized",
        "<- status 202",
        "-> request tools/call id=2",
        "<- notification notifications/message",
        "<- result tools/call id=2",
        "-> request tools/call id=3",
        "<- status 403",
        "-> DELETE",
        "-- the tap ended; requests without a response: 1 (1 of the client)",  # the refused one
    ]
    assert lines.count("<- status 405") == 2  # of the GET and of the DELETE


@pytest.mark.ci
async def test_bytes_pass_unchanged_and_a_server_that_is_not_there_is_502(tmp_path: Path) -> None:
    async def echo(request: HttpRequest, reply: Reply) -> None:
        await reply.send(request.body, 418, "text/x", {"x-answer": request.headers.get("x-question", "")})

    async with (
        http_script(echo) as server,
        tapping(f"http://127.0.0.1:{server.port}", tmp_path / "log") as url,
        httpx2.AsyncClient() as http,
    ):
        body = bytes(range(256)) * 1000
        answered = await http.post(f"{url}/x%20y?a=%2F", content=body, headers={"x-question": "7"})
        assert (answered.status_code, answered.content, answered.headers["x-answer"]) == (418, body, "7")
        assert server.requests[-1].path == "/mcp/x%20y?a=%2F"
    log, record = tmp_path / "down", tmp_path / "record"
    request = b'{"jsonrpc":"2.0","id":1,"method":"pay"}'
    async with (
        tapping("http://127.0.0.1:9", log, "--record", str(record)) as url,
        httpx2.AsyncClient() as http,
    ):
        refused = await http.post(url, content=request)
        assert (await http.get(url)).status_code == 502
    why = "the server cannot be reached: All connection attempts failed"
    assert (refused.status_code, refused.text) == (502, f"{why}\n")
    assert without_times(log) == [
        "-> request pay id=1 39 B",
        f"<- no response: {why}",
        f"<- no response: {why}",
        "-- the tap ended; requests without a response: 1 (1 of the client)",
    ]
    with open(record, "rb") as file:
        assert [line.message for line in read_recording(file)] == [Raw(request)]


@pytest.mark.ci
async def test_a_server_that_was_reached_may_have_processed_the_request(tmp_path: Path) -> None:
    async def fail(request: HttpRequest, reply: Reply) -> None:
        reply.must_close = True
        if request.rpc == "banner":
            await reply.raw(b"SSH-2.0-secret\r\n")
        elif request.rpc == "junk":
            await reply.raw(b"secret\r\n\r\n")
        elif request.rpc == "reset":
            own = reply.writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reply.writer.transport.abort()

    async with (
        http_script(fail) as server,
        tapping(f"http://127.0.0.1:{server.port}", tmp_path / "log", "--json") as url,
        httpx2.AsyncClient(timeout=30) as http,
    ):
        answers = [
            await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": method})
            for method in ("close", "banner", "junk", "reset")
        ]
    reasons = [
        "the server closed the connection, and sent no HTTP response; it may have processed the request",
        "the server closed the connection, and sent no HTTP response; it may have processed the request",
        "what the server sent is not valid HTTP; it may have processed the request",
        "the connection to the server broke; it may have processed the request",
    ]
    assert [(answer.status_code, answer.text) for answer in answers] == [(502, f"{reason}\n") for reason in reasons]
    entries = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(entry["connection"], entry["note"]) for entry in entries[1:-1:2]] == [
        (number, f"no response: {reason}") for number, reason in enumerate(reasons, 1)
    ]
    assert entries[-1]["note"] == "the tap ended; requests without a response: 4 (4 of the client)"


@pytest.mark.ci
async def test_what_of_an_exchange_is_not_logged_is_told(tmp_path: Path) -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        kind = request.headers["x-kind"]
        await reply.send(request.result(TEXT), kind=kind)

    log = tmp_path / "log"
    async with (
        http_script(answer) as server,
        tapping(f"http://127.0.0.1:{server.port}", log) as url,
        httpx2.AsyncClient(timeout=30) as http,
    ):
        for kind in ("application/json-rpc", "text/plain"):
            await http.post(url, content=b'{"jsonrpc":"2.0","id":1,"method":"m"}', headers={"x-kind": kind})
        _, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(url).port)
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        writer.close()
        await eventually(lambda: "the client left" in log.read_text())
    assert [re.sub(r" \d+ B| [\d.]+ ms", "", line) for line in without_times(log)] == [
        "-> request m id=1",
        "<- result m id=1",
        "-> request m id=1",
        "<- status 200, and a body that is not logged: its Content-Type is not that of JSON",
        "<- no response: the client left within its request",
        "-> the request was not read to its end",
        "-- the tap ended; requests without a response: 1 (1 of the client)",
    ]


@pytest.mark.ci
async def test_a_status_that_is_none_is_502(tmp_path: Path) -> None:
    async def answer(request: HttpRequest, reply: Reply) -> None:
        await reply.send(b"{}", int(request.path.rpartition("/")[2]))

    async with (
        http_script(answer) as server,
        tapping(f"http://127.0.0.1:{server.port}", tmp_path / "log") as url,
        httpx2.AsyncClient() as http,
    ):
        found = [(await http.get(f"{url}/{status}")).status_code for status in (200, 599, 600, 999)]
    assert found == [200, 599, 502, 502]
    assert "<- status 999" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("by", ["client", "server"])
@pytest.mark.ci
async def test_a_stream_that_one_side_closes_is_closed_on_the_other(by: str, tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def stream(request: HttpRequest, reply: Reply) -> None:
        await reply.begin()
        await reply.event(NOTE)
        if by == "client":
            await reply.is_closed.wait()
            closed.set()

    async with (
        http_script(stream) as server,
        tapping(f"http://127.0.0.1:{server.port}", tmp_path / "log") as url,
        httpx2.AsyncClient(timeout=30) as http,
        http.stream("GET", url) as response,
    ):
        chunks = response.aiter_raw()
        assert NOTE in await anext(chunks)
        if by == "client":
            await response.aclose()
            await closed.wait()
        else:
            assert [chunk async for chunk in chunks] == []


@pytest.mark.ci
async def test_a_response_that_breaks_off_is_logged(tmp_path: Path) -> None:
    async def cut(request: HttpRequest, reply: Reply) -> None:
        reply.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
        await reply.writer.drain()
        reply.writer.close()

    async with (
        http_script(cut) as server,
        tapping(f"http://127.0.0.1:{server.port}", tmp_path / "log") as url,
        httpx2.AsyncClient(timeout=30) as http,
    ):
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.post(url, json={})
    assert "<- the response broke off: RemoteProtocolError" in (tmp_path / "log").read_text()
