"""`tap --listen` between real sockets."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jsonrpc_fast.cli.main import main
from jsonrpc_fast.session import Session, serving
from jsonrpc_fast.testing.recordings import read_recording
from jsonrpc_fast.transports import TcpServer, UnixClient

from ..support.command_line import environment
from ..support.tables import rows
from ..support.waiting import accepts_at, eventually

LINE = re.compile(r"\d\d:\d\d:\d\d\.\d\d\d (.*?)(?: [\d.]+ ms)?$")


@asynccontextmanager
async def tapped(folder: Path, target: str) -> AsyncIterator[tuple[Path, asyncio.subprocess.Process]]:
    """Run a tap in front of a server, and yield its socket."""
    path = folder / "tap"
    options = ["--listen", f"unix:{path}", "--log", str(folder / "log"), "--record", str(folder / "record")]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "jsonrpc_fast", "tap", *options, target, env=environment(), stderr=subprocess.PIPE
    )
    try:
        await eventually(lambda: accepts_at(path))
        yield path, process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        _, said = await asyncio.wait_for(process.communicate(), 20)
        assert said == b""


def log_of(folder: Path) -> list[str]:
    lines = (folder / "log").read_text().splitlines()
    return [found[1] for line in lines if (found := LINE.match(line))]


@pytest.mark.ci
async def test_a_conversation_is_passed_on_and_logged(tmp_path: Path) -> None:
    server = TcpServer(serving({"add": lambda a, b: a + b}), "127.0.0.1", 0)
    await server.start()
    try:
        async with tapped(tmp_path, f"tcp://127.0.0.1:{server.address[1]}") as (path, process):
            for number in (1, 2):  # two connections
                async with Session(UnixClient(str(path)), timeout=20) as client:
                    assert await client.call("add", [number, 2]) == number + 2
    finally:
        await server.close(0)
    assert process.returncode == 128 + signal.SIGTERM
    assert [line for line in log_of(tmp_path) if "goodbye" not in line] == [
        "-> request add id=1 54 B",
        "<- result add id=1 35 B",
        "-> request add id=1 54 B",
        "<- result add id=1 35 B",
        "-- the tap ended; requests without a response: 0",
    ]
    with open(tmp_path / "record", "rb") as file:
        calls = [line for line in read_recording(file) if line.message is not None and b'"add"' in bytes(line.message)]
    first, second = [line.connection for line in calls]
    assert second == first + 1


@pytest.mark.ci
async def test_an_end_is_passed_on_and_what_breaks_is_told(tmp_path: Path) -> None:
    async def answer_after_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()
        writer.write(data * 1000)
        writer.close()

    server = await asyncio.start_server(answer_after_the_end, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with tapped(tmp_path, f"tcp://127.0.0.1:{port}") as (path, _):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"x" * 1000)
        writer.write_eof()
        async with asyncio.timeout(20):
            assert await reader.read() == b"x" * 1_000_000
        writer.close()
        server.close()
        reader, writer = await asyncio.open_unix_connection(str(path))
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()
    assert any("the server cannot be reached: " in line for line in log_of(tmp_path))


@pytest.mark.ci
async def test_a_server_that_leaves_with_a_request_in_flight(tmp_path: Path) -> None:
    """It ends its stream, or resets the connection; the requests are counted although the connections are closed."""
    resets: list[bool] = []

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readline():  # not a probe of the socket
            resets.append(bool(resets))
        if resets and resets[-1]:
            own = writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    server = await asyncio.start_server(leave, "127.0.0.1", 0)
    async with server, tapped(tmp_path, f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}") as (path, _):
        for _ in range(2):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(b'{"jsonrpc":"2.0","id":1,"method":"pay"}\n')
            async with asyncio.timeout(20):
                assert await reader.read() == b""
            writer.close()
            async with asyncio.timeout(20):
                await writer.wait_closed()
    assert log_of(tmp_path) == [
        "-> request pay id=1 39 B",
        "<- the server ended its stream with requests in flight",
        "-> the client ended its stream with requests in flight",
        "-> request pay id=1 39 B",
        "<- the connection broke: Connection reset by peer",
        "-- the tap ended; requests without a response: 2 (2 of the client)",
    ]


async def test_connections_that_are_open_at_the_end(tmp_path: Path) -> None:
    """They are closed, and stderr has no traceback of them."""
    server = TcpServer(serving({"add": lambda a, b: a + b}), "127.0.0.1", 0)
    await server.start()
    try:
        async with (
            tapped(tmp_path, f"tcp://127.0.0.1:{server.address[1]}") as (path, process),
            Session(UnixClient(str(path)), timeout=20) as client,
        ):
            assert await client.call("add", [1, 2]) == 3
            process.send_signal(signal.SIGTERM)
            await client.wait_closed()
            await process.wait()
    finally:
        await server.close(0)


@rows(
    ("arguments", "status", "said"),
    [
        (["--listen", "x:1", "--", "program"], 2, "--listen needs the TARGET"),
        (["--listen", "1", "--http", "2", "tcp://h:1"], 2, "exclude each other"),
        (["--listen", "1"], 2, "--listen needs the TARGET"),
        (["--listen", "0", "http://h"], 2, "is not tcp://HOST:PORT or unix:PATH"),
        (["--listen", "x", "tcp://h:1"], 2, "must be HOST:PORT"),
        (["--listen", "unix:/nonexistent/folder/socket", "tcp://h:1"], 3, "cannot listen on"),
    ],
)
def test_usage(arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tap", *arguments]) == status
    assert said in capsys.readouterr().err
