"""A client's end: stdin and stdout of a child process.

How a client ends its child: it writes what was accepted, closes the child's stdin, waits, terminates it, waits, kills
it. A child that ends by itself closes the transport, after what it had written was delivered.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from ...errors import ConnectionLost
from ..base import Options, State
from ..options import check_seconds
from .descriptors import Reader, open_reader, open_writer
from .transport import DescriptorTransport

if TYPE_CHECKING:
    from typing_extensions import Unpack


LINE_BYTES: Final = 64 * 1024
"""A longer line of a child's stderr is given in parts."""


KILL_SECONDS: Final = 5.0
"""How long a killed child is waited for: the system cannot end one that hangs in a driver."""


class StdioClient(DescriptorTransport):
    """A child process, its stdin and stdout.

    command            the program, searched for on PATH, and its arguments
    env                its whole environment; None: this process's own
    cwd                its working directory; None: this process's own
    stderr             "inherit": it goes where this process's own goes; "discard"; a file with a descriptor; or a
                       function, which is called with each line, as text without its line ending
    own_session        the child leads a session (POSIX): Ctrl-C at the terminal does not reach it, and when it is to be
                       terminated or killed so are the processes that it started
    exit_seconds       how long it may take to end after its stdin is closed, before SIGTERM
    terminate_seconds  how long after SIGTERM, before SIGKILL
    options            those of `ByteTransport`

    `connect` raises OSError when the program cannot be run. An exit code other than 0 that nobody asked for goes to
    `onerror` as a ConnectionLost.
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: Literal["inherit", "discard"] | IO[Any] | Callable[[str], None] = "inherit",
        own_session: bool = True,
        exit_seconds: float = 5.0,
        terminate_seconds: float = 2.0,
        **options: Unpack[Options],
    ) -> None:
        if isinstance(command, (str, bytes)):
            raise TypeError("command must be a sequence of strings: the program and its arguments")
        if not callable(stderr) and stderr not in ("inherit", "discard") and not hasattr(stderr, "fileno"):
            raise ValueError('stderr must be "inherit", "discard", a file or a function')
        check_seconds("exit_seconds", exit_seconds, may_be_none=False)
        check_seconds("terminate_seconds", terminate_seconds, may_be_none=False)
        super().__init__(**options)
        self._command = [os.fspath(part) for part in command]
        self._env = env
        self._cwd = cwd
        self._stderr = stderr
        self._own_session = own_session and sys.platform != "win32"
        self._exit_seconds = exit_seconds
        self._terminate_seconds = terminate_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: _ExitWatcher | None = None
        self._guard: AsyncGenerator[None, None] | None = None
        self._pid = 0
        self._stage: asyncio.TimerHandle | None = None  # the next step towards the child's end
        self._lines: Reader | None = None
        self._has_exited = False
        self._is_asked_to_end = False  # by this side
        self.returncode: int | None = None
        """The child's exit code, -N when it was ended by signal N; None while it runs."""

    @property
    def pid(self) -> int | None:
        """The child's process id; None before `connect`."""
        return self._pid or None

    def _label(self) -> str:
        return f"stdio client of process {self._pid}"

    async def _open(self) -> None:
        theirs: list[int] = []
        ours: list[int] = []
        try:
            stdin, to_child = os.pipe()
            theirs.append(stdin)
            ours.append(to_child)
            from_child, stdout = os.pipe()
            theirs.append(stdout)
            ours.append(from_child)
            stderr: IO[Any] | int | None = None
            if not isinstance(self._stderr, str):
                stderr = None if callable(self._stderr) else self._stderr
            elif self._stderr == "discard":
                stderr = subprocess.DEVNULL
            if callable(self._stderr):
                lines, stderr = os.pipe()
                theirs.append(stderr)
                ours.append(lines)
            # Not by the loop: uvloop has the child inherit its pipes twice, and loses it when the task is cancelled.
            process = subprocess.Popen(
                self._command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=self._env,
                cwd=self._cwd,
                start_new_session=self._own_session,
            )
        except BaseException:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self._process = process
        self._pid = process.pid
        self._reader = open_reader(self._loop, from_child, self)
        self._writer = open_writer(self._loop, to_child, self)
        if callable(self._stderr):
            self._lines = open_reader(self._loop, lines, _Lines(self, self._stderr))
            self._lines.read(True)
        self._watcher = _ExitWatcher(self._loop, process, self._exited)
        self._guard = self._end_with_the_loop()
        await anext(self._guard)

    async def _end_with_the_loop(self) -> AsyncGenerator[None, None]:
        """Ends a child that nobody did: `asyncio.run` closes generators after all tasks, which may still use it."""
        try:
            yield
        finally:
            self._guard = None
            if self._state is not State.CLOSED:
                await self.disconnect()
                warnings.warn(f"unclosed {self._label()}", ResourceWarning, stacklevel=1, source=self)

    async def start(self) -> None:
        await super().start()
        if self._has_exited:
            self._loop.call_soon(self._read_last)

    # Its end, step by step. Each step leaves a timer for the next.

    def _finish(self) -> None:
        self._is_asked_to_end = not self._has_ended
        self._reader.read(not self._has_ended)
        self._writer.finish(self._await_exit)

    def _abort(self) -> None:
        """Drops the channel: the child is not given the time to end by itself."""
        self._writer.close()
        self._terminate()

    def _await_exit(self) -> None:
        """Its stdin is closed."""
        if self._closing_timer is not None:
            self._closing_timer.cancel()
        self._next(self._exit_seconds, self._terminate)

    def _terminate(self) -> None:
        self._signal("SIGTERM")
        self._next(self._terminate_seconds, self._kill)

    def _kill(self) -> None:
        self._signal("SIGKILL")
        self._next(KILL_SECONDS, self._gone)

    def _next(self, seconds: float, step: Callable[[], None]) -> None:
        if self._stage is not None:
            self._stage.cancel()
        self._stage = self._loop.call_later(
            0 if self._has_exited else seconds, self._gone if self._has_exited else step
        )

    def _signal(self, name: Literal["SIGTERM", "SIGKILL"]) -> None:
        if self._has_exited or self._process is None:
            return
        self._is_asked_to_end = True
        if sys.platform != "win32" and self._own_session:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, getattr(signal, name))
        elif name == "SIGTERM":
            self._process.terminate()
        else:
            self._process.kill()

    def _write_failed(self, fault: OSError) -> None:
        """The child has closed its stdin, most often by its end, which tells more."""
        self._break(fault)
        self._await_exit()

    def _exited(self, returncode: int) -> None:
        self._has_exited = True
        self.returncode = returncode
        if not self._is_asked_to_end and returncode:
            how = f"with exit code {returncode}" if returncode > 0 else f"by signal {-returncode}"
            cause, self._fault = self._fault, ConnectionLost(f"the child process ended {how}")
            self._fault.__cause__ = cause
        # One that was not yet started keeps what the child wrote, until it is.
        if self._state not in (State.CONNECTING, State.IDLE, State.CONNECTED):
            self._read_last()

    def _read_last(self) -> None:
        """The child has ended. What a process that it started may still write is not waited for."""
        if not self._is_asked_to_end and self._writer.unwritten_bytes:
            self._break(ConnectionLost("the child process ended before it read what was sent"))
        self._stop_sending()
        self._writer.close()
        if self._stage is not None:
            self._stage.cancel()
        if self._lines is not None:
            self._lines.read_rest()
        if self._reader.read_rest():
            self._gone()
        else:
            self._stage = self._loop.call_later(1.0, self._gone)

    def _end_received(self) -> None:
        super()._end_received()
        if self._has_exited:
            self._loop.call_soon(self._gone)

    def _gone(self) -> None:
        """Nothing can come from the child any more."""
        super()._end_received()
        if self._stage is not None:
            self._stage.cancel()
        self._reader.close()
        self._writer.close()
        if self._lines is not None:
            self._lines.close()
        if self._watcher is not None:
            self._watcher.close()
        self._lost(self._fault)

    def _put_away(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            with contextlib.suppress(StopIteration):
                guard.aclose().send(None)  # it awaits nothing now


class _ExitWatcher:
    """Reaps a process when it has ended, and tells its exit code on the loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes], exited: Callable[[int], None]
    ) -> None:
        self._loop = loop
        self._process = process
        self._exited = exited
        self._pidfd = -1
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # a sandbox may refuse it
                self._pidfd = os.pidfd_open(process.pid)
                loop.add_reader(self._pidfd, self._reap)
        if self._pidfd < 0:
            threading.Thread(target=self._wait, name="jsonrpc_fast child", daemon=True).start()

    def close(self) -> None:
        """Tells nothing more."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _reap(self) -> None:
        self.close()
        self._exited(self._process.wait())

    def _wait(self) -> None:
        returncode = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._exited, returncode)


class _Lines:
    """Hands on what a child writes to its stderr, line by line."""

    def __init__(self, client: StdioClient, callback: Callable[[str], None]) -> None:
        self._client = client
        self._callback = callback
        self._begun = b""

    def _bytes_received(self, data: bytes) -> None:
        *lines, begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._tell(line)
        if len(begun) >= LINE_BYTES:
            self._tell(begun)
            begun = b""
        self._begun = begun

    def _end_received(self) -> None:
        if self._begun:
            self._tell(self._begun)
            self._begun = b""

    def _read_failed(self, fault: OSError) -> None:
        self._end_received()

    def _tell(self, line: bytes) -> None:
        line = line.removesuffix(b"\r")
        for at in range(0, max(len(line), 1), LINE_BYTES):
            try:
                self._callback(line[at : at + LINE_BYTES].decode(errors="backslashreplace"))
            except Exception as error:
                self._client._report_fault_of_callback(error)
