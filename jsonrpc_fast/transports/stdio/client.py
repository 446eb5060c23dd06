"""The client's side of stdio: stdin and stdout of a child process.

Rules:
  - To close, a client writes all accepted messages, closes the child's stdin, waits `exit_seconds`, terminates the
    child, waits as long again, and kills it.
  - When the child ends on its own, its output is delivered, then the transport closes. It does not outlive the loop.
  - Text that a child prints between its messages is a fault for `onerror`, and gets no response: a child that does not
    read while it prints would block both sides.
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
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, ClassVar, Final, Literal, Unpack

from ...errors import ConnectionLost
from ...support import check_seconds, check_texts, check_type, checked_path
from ..channel import Events
from ..connection import Connection, State
from ..protocol import TransportOptions
from .descriptors import DescriptorChannel, Reader, open_reader, open_writer

LINE_BYTES: Final = 64 * 1024
"""Longer lines of a child's stderr are split."""


class ChildChannel(DescriptorChannel):
    """A channel over stdin and stdout of a child process.

    Attributes:
        child: The process; None before `open`.
        connection: Has the callbacks of this channel; set before `open`.
    """

    connection: StdioClient

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.child: Child | None = None
        self._stderr_reader: Reader | None = None
        self._next_step: asyncio.TimerHandle | None = None  # the next step of ending the child
        self._is_begun = False  # the child's output may be read to its end: reading has begun, or the channel is ending
        self._has_ended = False  # the child's stdout has ended
        self._has_reported_end = False
        self._is_ended_here = False  # this side has begun to end the child, so its exit code is not a fault
        self._is_lost = False  # everything is released, and `lost` was reported; late events do nothing

    @property
    def pid(self) -> int | None:
        """The child's process id; None before `open`."""
        return None if self.child is None else self.child.pid

    @property
    def returncode(self) -> int | None:
        """The child's exit code, -N if signal N ended it; None while it runs."""
        return None if self.child is None else self.child.returncode

    @property
    def unread_bytes(self) -> int | None:
        """How much of its stdin the child had not read when it was closed; None: not known, or not closed."""
        return None if self.child is None else self._writer.unread_bytes

    @property
    def name(self) -> str:
        return f"stdio client of process {self.pid}"

    async def wait_exited(self) -> None:
        """Wait until the child has ended, and its stderr has been reported."""
        if self.child is not None:
            await self.child.wait()

    async def open(self, events: Events) -> None:
        self._events = events
        # The child's ends of the pipes are always closed here: a copy in this process would hide the end of the stream.
        # This side's ends are closed only if the child does not start.
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:

            def pipe(stack_of_reader: contextlib.ExitStack, stack_of_writer: contextlib.ExitStack) -> tuple[int, int]:
                reader, writer = os.pipe()
                stack_of_reader.callback(os.close, reader)
                stack_of_writer.callback(os.close, writer)
                return reader, writer

            stdin, to_child = pipe(theirs, ours)
            from_child, stdout = pipe(ours, theirs)
            stderr: IO[Any] | int | None = None
            wanted = self.program.stderr
            if callable(wanted):
                lines, stderr = pipe(ours, theirs)
            elif not isinstance(wanted, str):
                stderr = wanted
            elif wanted == "discard":
                stderr = subprocess.DEVNULL
            process = self.program.start(stdin, stdout, stderr)
            try:
                self.child = Child(process, self.program.own_session, self._on_exit)
            except BaseException:  # such as KeyboardInterrupt: nobody else would end it
                process.kill()
                raise
            ours.pop_all()
        self._reader = open_reader(from_child, self.received, self._read_failed)
        self._writer = open_writer(to_child, events.drained, self._write_failed)
        # stderr is read from the start: a child whose stderr is full blocks, even before it serves. Little is read at
        # a time: each byte may be a line, and takes a call.
        if callable(wanted):
            split = _Lines(partial(self.connection.run_callback, "stderr", wanted))
            self._stderr_reader = open_reader(lines, split.received, split.failed, 4096)
            self._stderr_reader.read(True)

    def set_reading(self, on: bool) -> None:
        super().set_reading(on)
        if on and not self._is_begun:
            self._is_begun = True
            if self.returncode is not None:
                asyncio.get_running_loop().call_soon(self._read_last)

    def received(self, data: bytes) -> None:
        """Pass on the child's output."""
        if data:
            self._events.received(data)
            return
        self._has_ended = True
        loop = asyncio.get_running_loop()
        if self.returncode is not None:
            loop.call_soon(self._release)
        elif self._next_step is None:
            # The exit code, which is usually known a moment later, says why calls get no response.
            self._next_step = loop.call_later(1.0, self._report_end)
        else:
            self._report_end()

    def _report_end(self) -> None:
        """Report the end of the child's stdout, once."""
        if not self._has_reported_end:
            self._has_reported_end = True
            self._events.received(b"")

    # Ending the child, step by step. Each step sets a timer for the next.

    def finish(self) -> None:
        self._is_begun = True
        if self.child is not None:
            self.child.is_closing = True
        self._is_ended_here = not self._has_ended
        if self._has_ended:
            self._report_end()
        self._reader.read(not self._has_ended)
        self._writer.finish(self._await_exit)

    def abort(self) -> None:
        """Drop the channel without giving the child time to end on its own."""
        if self.child is not None and not self._is_lost:
            self._is_begun = self.child.is_closing = True
            self._writer.close()
            self._terminate()

    def kill(self) -> None:
        """Kill the child."""
        self._send_signal("SIGKILL")
        self._schedule(5.0, self._release)  # the system cannot end a process that hangs in a system call

    def _await_exit(self) -> None:
        """Wait for the child to end: its stdin is closed."""
        self.connection.keep_closing()
        self._schedule(self.program.exit_seconds, self._terminate)

    def _terminate(self) -> None:
        self._send_signal("SIGTERM")
        self._schedule(self.program.exit_seconds, self.kill)

    def _schedule(self, seconds: float, step: Callable[[], None]) -> None:
        if self._is_lost:
            return  # the writer reports later, possibly after the exit
        if self._next_step is not None:
            self._next_step.cancel()
        # A child that has ended needs no further step. Soon, not now: the caller may be inside an event.
        has_exited = self.returncode is not None
        loop = asyncio.get_running_loop()
        self._next_step = loop.call_later(0 if has_exited else seconds, self._release if has_exited else step)

    def _send_signal(self, name: Literal["SIGTERM", "SIGKILL"]) -> None:
        if self.child is not None and self.child.returncode is None:
            self._is_ended_here = True
            self.child.send_signal(name)

    def _write_failed(self, fault: OSError) -> None:
        """Handle a closed stdin of the child. Usually the child has ended, and its exit code says more."""
        self._fault = self._fault or fault
        self._await_exit()

    def _on_exit(self, returncode: int) -> None:
        if not self._is_ended_here and returncode:
            how = f"with exit code {returncode}" if returncode > 0 else f"by signal {-returncode}"
            cause, self._fault = self._fault, ConnectionLost(f"the child process ended {how}")
            self._fault.__cause__ = cause
        # A connection that is not started keeps the child's output until `start`.
        if self._is_begun:
            self._read_last()

    def _read_last(self) -> None:
        """Read the output that the child wrote before it ended. Do not wait for output of processes that it started."""
        if not self._is_ended_here and self._writer.unwritten_bytes and self._fault is None:
            self._fault = ConnectionLost("the child process ended before it read what was sent")
        self._writer.close()
        self._events.drained()
        if self._next_step is not None:
            self._next_step.cancel()
        if self._stderr_reader is not None:
            self._stderr_reader.read_rest()
        if self._reader.read_rest():
            self._release()
        else:
            self._next_step = asyncio.get_running_loop().call_later(1.0, self._release)

    def _release(self) -> None:
        """Release everything: the child can send nothing more."""
        if self._is_lost:
            return
        self._is_lost = True
        if self._next_step is not None:
            self._next_step.cancel()
        self._reader.close()
        self._writer.close()
        if self._stderr_reader is not None:
            self._stderr_reader.close()
        if self.child is not None:
            self.child.close()
        # A process that the child started may hold its stdout open, so that the end of the stream never comes.
        self._report_end()
        self._events.lost(self._fault)


class StdioClient(Connection):
    """A transport over stdin and stdout of a child process.

    `connect` starts the program, and raises OSError if the program or the directory cannot be used. If the child ends
    on its own with an exit code other than 0, `onerror` gets a ConnectionLost.

    Args:
        command: The program, searched for on PATH, and its arguments.
        env: Its whole environment; None: this process's environment.
        cwd: Its working directory; None: this process's directory.
        stderr: Where its stderr goes: "inherit" (to this process's stderr), "discard", a file with a descriptor, or a
            function that is called with each line as text, without the line ending.
        own_session: Whether the child leads its own session (POSIX). Then Ctrl-C in the terminal does not reach
            it, and the processes that it started and left behind end with it when this side closes, unless they lead
            sessions of their own.
        exit_seconds: How long the child may take to end when its stdin is closed, before it gets SIGTERM, and then
            again, before it gets SIGKILL; 2 by default, as in the SDKs of MCP.
        options: Options of `Connection`. By default, text that the program prints between messages is skipped and
            reported as a fault (`resync`).

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """

    responds_to_faults = False
    channel: ChildChannel
    channel_class: ClassVar[type[ChildChannel]] = ChildChannel

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: Literal["inherit", "discard"] | IO[Any] | Callable[[str], None] = "inherit",
        own_session: bool = True,
        exit_seconds: float = 2.0,
        **options: Unpack[TransportOptions],
    ) -> None:
        # A string is a sequence, too: its characters would be the program and its arguments.
        if isinstance(command, (str, bytes)):
            raise TypeError("command must be a sequence of strings: the program and its arguments")
        if not callable(stderr) and stderr not in ("inherit", "discard") and not hasattr(stderr, "fileno"):
            raise ValueError('stderr must be "inherit", "discard", a file or a function')
        check_type("command", command, Sequence)
        parts = [checked_path("a part of command", part) for part in command]
        if not parts or not parts[0]:
            raise ValueError("command must name a program")
        check_texts("env", env)
        for name, value in (env or {}).items():
            # The environment consists of strings NAME=VALUE, split at the first "=".
            if "=" in checked_path("a name in env", name):
                raise ValueError("a name in env must not contain =")
            checked_path("a value in env", value)
        place = None if cwd is None else checked_path("cwd", cwd)
        check_seconds("exit_seconds", exit_seconds, may_be_none=False)
        program = Program(parts, env, place, stderr, own_session and sys.platform != "win32", exit_seconds)
        channel = self.channel_class(program)
        # Programs print: a library that they use, a debugger, a shell that starts them.
        options.setdefault("resync", True)
        super().__init__(channel, **options)
        channel.connection = self
        self._loop_guard: AsyncGenerator[None, None] | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id; None before `connect`."""
        return self.channel.pid

    @property
    def returncode(self) -> int | None:
        """The child's exit code, -N if signal N ended it; None while it runs."""
        return self.channel.returncode

    def kill(self) -> None:
        """Kill the child without giving it more time to end."""
        if self.state is State.CLOSING:
            self.channel.kill()

    async def connect(self) -> None:
        await super().connect()
        self._loop_guard = self._end_with_the_loop()
        await anext(self._loop_guard)

    async def _end_with_the_loop(self) -> AsyncGenerator[None, None]:
        """End a child that was not closed: `asyncio.run` closes async generators last, after all tasks."""
        try:
            yield
        finally:
            self._loop_guard = None
            if self.state is not State.CLOSED:
                await self.disconnect()
                warnings.warn(f"unclosed {self.channel.name}", ResourceWarning, stacklevel=1, source=self)

    def closed(self) -> None:
        guard, self._loop_guard = self._loop_guard, None
        if guard is not None:
            with contextlib.suppress(StopIteration):
                guard.aclose().send(None)  # it has nothing left to await


class _Lines:
    """Calls a function with each line of a stream."""

    def __init__(self, callback: Callable[[str], None]) -> None:
        self._callback = callback
        self._partial = b""

    def received(self, data: bytes) -> None:
        *lines, partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._report(line)
        # The end of the stream ends the last line. An endless line must not grow without bound.
        if len(partial) >= LINE_BYTES or (partial and not data):
            self._report(partial)
            partial = b""
        self._partial = partial

    def failed(self, fault: OSError) -> None:
        self.received(b"")

    def _report(self, line: bytes) -> None:
        line = line.removesuffix(b"\r")
        # An empty line is one call, too.
        for at in range(0, max(len(line), 1), LINE_BYTES):
            self._callback(line[at : at + LINE_BYTES].decode(errors="backslashreplace"))


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
            elif isinstance(fault, (FileNotFoundError, PermissionError)) and self.command[0].endswith(".py"):
                text = f'{fault.strerror}; pass the program that runs it, as in "python", "server.py"'
            else:
                raise
            raise OSError(fault.errno, text, fault.filename) from None


class Child:
    """A process, which has just been started and is reaped when it ends: `on_exit` is called then, on the loop's
    thread.

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
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):  # PyPy has none
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
