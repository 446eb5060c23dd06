"""A real `redis-server` in a process of its own, on a Unix socket."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from . import needs
from .waiting import blocking_eventually

PROGRAM = needs.program("redis-server")
needs_server = needs.mark("redis-server")


class RedisServer:
    """A server that can be killed, started again and paused.

    Args:
        folder: A folder of its own, with a short path.
        options: Lines for its configuration.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.socket: Path = folder / "redis.sock"
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self, *options: str) -> None:
        """Start the server, with further lines for its configuration."""
        self._options += options
        assert PROGRAM is not None
        lines = ["port 0", f'unixsocket "{self.socket}"', f'dir "{self._folder}"', 'save ""', *self._options]
        file = self._folder / "redis.conf"
        file.write_text("\n".join(lines) + "\n")
        self._process = subprocess.Popen([PROGRAM, str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        blocking_eventually(self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(b"PING\r\n")
            return connection.recv(100) == b"+PONG\r\n"
        return False

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self.send_signal(signal.SIGKILL)
            self._process.wait(20)
            self._process = None
            self.socket.unlink(missing_ok=True)


@contextlib.contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[RedisServer]:
    server = RedisServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
