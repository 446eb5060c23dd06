"""A child process: how it is started, signalled and reaped.

Rules:
  - The system reports the end of a process once, to whoever waits for it: only `Child` does.
  - A child in its own session is signalled together with the processes that it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final, Literal

END_SECONDS: Final = 2.0
"""How long a child may take to end when its stdin is closed, and again after SIGTERM, as in the SDKs of MCP."""

_running: Final[weakref.WeakSet[Child]] = weakref.WeakSet()


@dataclass(slots=True, eq=False, repr=False)
class Program:
    """A program to run; `StdioClient` describes the fields."""

    command: list[str]
    env: Mapping[str, str] | None
    cwd: str | None
    stderr: Literal["inherit", "discard"] | IO[Any] | Callable[[str], None]
    own_session: bool
    exit_seconds: float

    def start(self, stdin: int, stdout: int, stderr: IO[Any] | int | None) -> subprocess.Popen[bytes]:
        """Start the program with these files.

        Raises:
            OSError: The program or its working directory cannot be used.
        """
        # Not by `loop.subprocess_exec`: under uvloop the child inherits its pipes twice, and a cancelled task loses the
        # child.
        try:
            return subprocess.Popen(
                self.command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=self.own_session,
                env=self.env,
                cwd=self.cwd,
            )
        except OSError as fault:
            if self.cwd is not None and fault.filename == self.cwd:
                # Without this, the text would say that the program is missing.
                text = f"the working directory cannot be used: {fault.strerror}"
            elif isinstance(fault, FileNotFoundError) and len(self.command) == 1 and " " in self.command[0]:
                text = f"{fault.strerror}; pass the program and its arguments separately"
            else:
                raise
            raise OSError(fault.errno, text, fault.filename) from None


class Child:
    """A process, which is reaped when it ends.

    Args:
        process: The process, which has just been started.
        leads_session: Whether it leads a session.
        on_exit: Called on the loop's thread when it has ended.

    Attributes:
        pid: Its id.
        returncode: Its exit code, -N if signal N ended it; None while it runs.
        is_closing: Whether this side ends it. Then the processes that it started and left behind end with it, unless
            they lead sessions of their own, as daemons do.
    """

    def __init__(self, process: subprocess.Popen[bytes], leads_session: bool, on_exit: Callable[[int], None]) -> None:
        self.pid: int = process.pid
        self.returncode: int | None = None
        self.is_closing: bool = False
        self._process = process
        self._leads_session = leads_session
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._has_ended = asyncio.Event()
        self._pidfd = -1
        _running.add(self)
        # A pidfd becomes readable when the process ends (pidfd_open(2)). It needs neither a thread nor the handler of
        # SIGCHLD, of which a process has only one.
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # a sandbox may refuse it
                self._pidfd = os.pidfd_open(process.pid)
                self._loop.add_reader(self._pidfd, self._reap)
        if self._pidfd < 0:
            threading.Thread(target=self._wait, name="jsonrpc_fast child", daemon=True).start()

    async def wait(self) -> None:
        """Wait until the process has ended, and `on_exit` has been called."""
        await self._has_ended.wait()

    def send_signal(self, name: Literal["SIGTERM", "SIGKILL"]) -> None:
        """Send a signal to a process that runs."""
        if self.returncode is not None:
            return
        # The leader of a session also leads a process group with the same number, to which its children belong.
        if sys.platform != "win32" and self._leads_session:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGTERM if name == "SIGTERM" else signal.SIGKILL)
        elif name == "SIGTERM":
            self._process.terminate()
        else:
            self._process.kill()

    def close(self) -> None:
        """Stop watching."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _reap(self) -> None:
        self.close()
        self._end_group()
        self._ended(self._process.wait())

    def _end_group(self) -> None:
        """End what the process has left behind. Until the process is reaped, no other group can have its number."""
        if self.is_closing and sys.platform != "win32" and self._leads_session:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGTERM)

    def _wait(self) -> None:
        if hasattr(os, "waitid"):  # not on Windows, nor on macOS before 3.13
            with contextlib.suppress(OSError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
                self._end_group()
        returncode = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ended, returncode)

    def _ended(self, returncode: int) -> None:
        self.returncode = returncode
        self._has_ended.set()
        _running.discard(self)
        self._on_exit(returncode)


def signal_children(name: Literal["SIGTERM", "SIGKILL"]) -> None:
    """Signal the children of all clients in this process, because the process ends. A signal handler may call this."""
    for child in list(_running):
        child.send_signal(name)
