"""The files on the page docs/deploy/nats.md work together, with a real `nats-server`."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from jsonrpc_fast.adapters.nats import Service, ServiceClient

from ..support.nats_server import NatsServer, nats_server, needs_server
from ..support.pages import write_scripts
from ..support.places import PACKAGE, ROOT
from ..support.waiting import eventually

pytestmark = [needs_server, pytest.mark.time_limit(60)]

PAGE = ROOT / "docs" / "deploy" / "nats.md"
PASSWORDS = {"WORKER_PASSWORD": "w-secret", "CLIENT_PASSWORD": "c-secret"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NatsServer]:
    """The server with the configuration on the page, and storage in a folder of the test."""
    for name, value in PASSWORDS.items():
        monkeypatch.setenv(name, value)
    (config,) = re.findall(
        r"^```\n# nats\.conf\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert 'listen: "0.0.0.0:4222"' in config
    config = config.replace('listen: "0.0.0.0:4222"\n', "").replace("/var/lib/nats", str(tmp_path / "streams"))
    with nats_server(tmp_path, config) as running:
        yield running


@pytest.mark.ci
def test_worker_and_client(server: NatsServer, tmp_path: Path) -> None:
    names = [script.name for script in write_scripts(PAGE, tmp_path)]
    assert names == ["worker.py", "client.py"]
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "NATS_URL": server.url}
    worker = subprocess.Popen(
        [sys.executable, "-W", "error", "worker.py"], cwd=tmp_path, env=env, stderr=subprocess.PIPE
    )
    try:
        command = [sys.executable, "-W", "error", "client.py"]
        end = time.monotonic() + 60
        while True:
            run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False)
            if run.returncode == 0 or time.monotonic() > end:
                break  # otherwise the worker is still starting
        assert (run.stdout, run.stderr) == (b"3\n", b"")
        worker.send_signal(signal.SIGTERM)
        assert worker.communicate(timeout=60)[1] == b""
        assert worker.returncode == 0
    finally:
        worker.kill()
        worker.wait()


@contextlib.asynccontextmanager
async def connected(server: NatsServer, user: str, errors: list[Exception]) -> Any:
    async def keep(error: Exception) -> None:
        errors.append(error)

    password = PASSWORDS[f"{user.upper()}_PASSWORD"]
    connection = await nats.connect(server.url, user=user, password=password, error_cb=keep)
    try:
        yield connection
    finally:
        await connection.close()


async def test_permissions(server: NatsServer) -> None:
    anonymous = nats.aio.client.Client()
    with pytest.raises(nats.errors.Error, match="Authorization"):
        await anonymous.connect(server.url, allow_reconnect=False)
    await anonymous.close()
    errors: list[Exception] = []
    async with connected(server, "client", errors) as client:
        await client.subscribe("rpc.calculator")
        await client.flush()
        await client.publish("_INBOX.other", b"{}")
        await client.flush()
        await eventually(lambda: len(errors) >= 2)
    assert all("permissions violation" in str(error).lower() for error in errors)


async def test_calls_through_a_stream(server: NatsServer) -> None:
    errors: list[Exception] = []
    async with connected(server, "worker", errors) as worker, connected(server, "client", errors) as client:
        stream = worker.jetstream()
        await stream.add_stream(name="calculator", subjects=["rpc.calculator"], retention="workqueue")
        async with Service(worker, "rpc.calculator", {"add": lambda a, b: a + b}, jetstream=stream):
            caller = ServiceClient(client, "rpc.calculator", jetstream=client.jetstream(), timeout=10)
            assert await caller.call("add", [1, 2]) == 3

            async def is_acknowledged() -> bool:
                return not (await stream.stream_info("calculator")).state.messages

            await eventually(is_acknowledged)
    assert errors == []


def test_links() -> None:
    for target in re.findall(r"\]\(([^)\s]+)", PAGE.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (PAGE.parent / target.partition("#")[0]).is_file()
