"""A real `nats-server` in a process of its own, on a free port."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import nats

from . import needs
from .waiting import blocking_eventually

PROGRAM = needs.program("nats-server")
needs_server = needs.mark("nats-server")


class NatsServer:
    """A server that can be killed and then started again on the same port.

    Args:
        folder: A folder of its own.
        config: The text of a configuration file.
        jetstream: Whether JetStream is enabled.
    """

    def __init__(self, folder: Path, config: str = "", *, jetstream: bool = False) -> None:
        self._folder = folder
        self._config = config
        self._jetstream = jetstream
        self._process: subprocess.Popen[bytes] | None = None
        self._port = -1  # any free port

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    def start(self) -> None:
        assert PROGRAM is not None
        for old in self._folder.glob("*.ports"):
            old.unlink()
        file = self._folder / "nats.conf"
        file.write_text(self._config)
        arguments = [PROGRAM, "-c", str(file), "-a", "127.0.0.1", "-p", str(self._port)]
        arguments += ["--ports_file_dir", str(self._folder), "-l", str(self._folder / "log")]
        if self._jetstream:
            arguments += ["-js", "-sd", str(self._folder / "streams")]
        self._process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._port = blocking_eventually(self._find_port)

    def _find_port(self) -> int | None:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
            ports = json.loads(next(iter(self._folder.glob("*.ports")), Path()).read_text())
            return int(ports["nats"][0].rsplit(":", 1)[1])
        return None

    def pause(self) -> None:
        """Stop the process, so that it does not read."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(20)
            self._process = None


@contextlib.contextmanager
def nats_server(folder: Path, config: str = "", *, jetstream: bool = False) -> Iterator[NatsServer]:
    server = NatsServer(folder, config, jetstream=jetstream)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextlib.asynccontextmanager
async def connected(server: NatsServer, **options: Any) -> AsyncIterator[Any]:
    """Yield a connection of nats-py."""
    connection = await nats.connect(server.url, **options)
    try:
        yield connection
    finally:
        await connection.close()
