"""The state of other processes, as the system reports it: tests wait for a state, not for a time. Only on POSIX."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from .waiting import blocking_eventually

if sys.platform != "win32":
    import fcntl
    import termios

_PROC: Final = Path("/proc")


def end_process(process: subprocess.Popen[bytes], seconds: float = 30) -> None:
    """End a process by SIGTERM, or by SIGKILL if it does not end in time."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_asleep(pid: int) -> None:
    """Wait until a process sleeps: for input, for room in a pipe, or for a signal. It has then handled all signals."""
    blocking_eventually(lambda: _state_of(pid) in "SI")


def wait_until_busy(pid: int) -> None:
    """Wait until a process is running."""
    blocking_eventually(lambda: _state_of(pid) == "R")


def wait_until_read(descriptor: int) -> None:
    """Wait until the other end of a pipe has read everything that was written."""
    blocking_eventually(lambda: unread_bytes(descriptor) == 0)


def unread_bytes(descriptor: int) -> int:
    """Return how many bytes are in a pipe, given either end."""
    return _count(descriptor, termios.FIONREAD)


def wait_until_received(connection: socket.socket) -> None:
    """Wait until the peer of a Unix socket has read everything that was written."""
    blocking_eventually(lambda: _count(connection.fileno(), termios.TIOCOUTQ) == 0)


def resident_bytes(pid: int | str = "self") -> int:
    """Return the memory of a process that is in use (Linux)."""
    return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _count(descriptor: int, request: int) -> int:
    return int.from_bytes(fcntl.ioctl(descriptor, request, bytes(4)), "little")


def _state_of(pid: int) -> str:
    """Return R if a process runs, S or I if it sleeps. Other letters depend on the system."""
    if _PROC.joinpath("self", "stat").exists():
        return (_PROC / str(pid) / "stat").read_text().rpartition(") ")[2][0]
    command = ("ps", "-o", "state=", "-p", str(pid))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()[0]
