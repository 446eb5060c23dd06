"""The files on docs/deploy/sessions.md: workers that share a socket, and a rolling restart."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from jsonrpc_fast.session import ReconnectingSession
from jsonrpc_fast.transports import TcpClient

from ..support import needs
from ..support.pages import blocks, write_scripts
from ..support.places import PACKAGE, ROOT
from ..support.transports import inheriting
from ..support.waiting import eventually, free_port

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="the workers inherit their socket")]

PAGE = ROOT / "docs" / "deploy" / "sessions.md"


@pytest.fixture
def worker(tmp_path: Path) -> list[str]:
    """The command of a worker."""
    write_scripts(PAGE, tmp_path)
    return [sys.executable, str(tmp_path / "worker.py")]


Start = Callable[[list[str]], Awaitable[asyncio.subprocess.Process]]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}


@asynccontextmanager
async def workers_at(listening: socket.socket) -> AsyncIterator[Start]:
    """Start workers. At the end each one gets SIGTERM, and must end by it without any complaint."""
    started: list[asyncio.subprocess.Process] = []

    async def start(command: list[str]) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *inheriting(command), stdin=listening, stderr=subprocess.PIPE, env=ENVIRONMENT
        )
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            if process.returncode is None:
                process.terminate()
    for process in started:
        _, said = await process.communicate()
        assert process.returncode == -signal.SIGTERM
        assert re.fullmatch(rb"listening on 127\.0\.0\.1:\d+\n", said)


@pytest.mark.parametrize("restarts", [1, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.ci
async def test_a_restart_loses_no_call(worker: list[str], restarts: int) -> None:
    served: Counter[int] = Counter()  # by worker
    is_over = False

    async def call(client: ReconnectingSession) -> None:
        while not is_over:
            assert await client.call("add", [40, 2], timeout=30) == 42
            served[await client.call("worker", timeout=30)] += 1

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = listening.getsockname()
        async with workers_at(listening) as start, AsyncExitStack() as stack:
            old = await start(worker)
            clients = [
                await stack.enter_async_context(
                    ReconnectingSession(lambda: TcpClient(*address), min_delay_seconds=0.005, max_delay_seconds=0.05)
                )
                for _ in range(8)
            ]
            calls = [asyncio.create_task(call(client)) for client in clients for _ in range(4)]
            for _ in range(restarts):
                await eventually(lambda old=old: served[old.pid] > 50)  # type: ignore[misc]
                new = await start(worker)
                old.send_signal(signal.SIGTERM)
                await old.wait()
                served[old.pid] = 0
                await eventually(lambda new=new: served[new.pid] > 50)  # type: ignore[misc]
                assert not served[old.pid]
                old = new
            is_over = True
            await asyncio.gather(*calls)


@pytest.mark.slow
def test_systemd_passes_the_socket(worker: list[str]) -> None:
    launcher = needs.require("systemd-socket-activate")
    port = free_port()
    command = [launcher, "--listen", f"127.0.0.1:{port}", f"--setenv=PYTHONPATH={PACKAGE.parent}", *worker]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 20
        while True:
            try:
                client = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        with client:
            client.settimeout(20)
            client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"add","params":[40,2]}\n')
            assert client.recv(100) == b'{"jsonrpc":"2.0","id":1,"result":42}\n'
        process.terminate()
        assert process.wait(20) == -signal.SIGTERM


def test_the_units_are_valid(tmp_path: Path) -> None:
    verify = needs.require("systemd-analyze")
    for name, text in zip(("rpc.socket", "rpc@.service"), blocks(PAGE, "ini"), strict=True):
        assert text.startswith(f"# {name}\n")
        program = shutil.which("true") or "true"
        (tmp_path / name).write_text(text.replace("/usr/bin/python3 /opt/rpc/worker.py", program))
    command = [verify, "verify", "--man=no", str(tmp_path / "rpc.socket"), str(tmp_path / "rpc@1.service")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
