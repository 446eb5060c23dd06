"""The main function of a server program on stdin and stdout.

How the process ends, with its exit code:
  - The client closes stdin: 0, after all accepted messages are written.
  - stdout cannot be written, or stdin cannot be read, for example because the process was started with a closed one, or
    one that is open in the wrong direction: 1, and a line on stderr.
  - SIGTERM, SIGINT or SIGHUP: new requests are refused, the work in progress has `grace_seconds`, all accepted messages
    are written, and the process ends by the signal (143, 130 or 129 in a shell). A second signal does not wait: half a
    second later the process ends, even if a function blocks the loop or runs in a thread, and at a third signal at
    once. A SIGHUP that is ignored (nohup) stays ignored.
  - With `end_seconds`, a process that still runs so long after the client has closed stdin, or is gone: 1, and a line
    on stderr. This holds even while a function blocks the loop (POSIX).
  - Child processes of clients in this process do not outlive it after a signal: those that still run after
    `grace_seconds`, or at a second signal, are killed.
  - Requests left without a response, or bytes that the client did not take in time: 1 (or the signal), and a line on
    stderr.

stdin and stdout are not restored afterwards: anything that the process prints then goes to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Unpack

from ...errors import ConnectionLost, StateError
from ...support import check_seconds, check_serve, say
from ..channel import Events
from ..connection import SERVE_SECONDS, Connection, State
from ..protocol import TransportOptions
from .client import signal_children
from .descriptors import DescriptorChannel, duplicate, open_reader, open_writer


def run_stdio(
    serve: Callable[[StdioServer], Coroutine[Any, Any, object]],
    *,
    on_signal: Callable[[], object] | None = None,
    grace_seconds: float | None = 1.5,
    end_seconds: float | None = None,
    **options: Unpack[TransportOptions],
) -> int:
    """Run a server on this process's stdin and stdout until its client or a signal ends it.

    Args:
        serve: Called with a `StdioServer`: it sets the callbacks and starts it. It may then return or keep running; it
            is cancelled soon after the channel is closed.
        on_signal: Called at the first signal. Messages sent before, by it, or by tasks that it wakes are still written.
        grace_seconds: How long the work in progress may take after a signal; None: without limit. A session gives this
            time to its handlers; without a session it is passed to `onstop` of the transport. 1.5 by default: clients,
            including those of this package, kill a server 2 seconds after SIGTERM.
        end_seconds: How long the process may run after the client has closed stdin; a second later it ends, even if a
            function blocks the loop or runs in a thread. None: without limit.
        options: Options of `Connection`.

    Returns:
        The exit code: 0, 1, or 130 after Ctrl-C on Windows. After a signal the process ends, and nothing is returned.

    Raises:
        Exception: Any exception that `serve` raises, unless a signal came first.
        TypeError, ValueError: An option has the wrong type or value.
    """
    check_serve(serve)
    check_seconds("grace_seconds", grace_seconds)
    check_seconds("end_seconds", end_seconds)
    fill_closed_descriptors()
    transport = StdioServer(**options)
    transport.channel.restores_streams = False

    def stop() -> None:
        if on_signal is not None:
            on_signal()
        # After the tasks that `on_signal` wakes.
        asyncio.get_running_loop().call_soon(transport.request_stop, grace_seconds)

    signals = Signals(stop, transport.disconnect, grace_seconds)
    try:
        with _ends_after_stdin(end_seconds):
            code = asyncio.run(_run(serve, transport, signals))
    except KeyboardInterrupt:  # Windows, where the loop handles no signals
        return 130
    signals.end_process()
    return code


@contextlib.contextmanager
def _ends_after_stdin(seconds: float | None) -> Iterator[None]:
    """End the process this long after the client has closed stdin, if the block has not ended then."""
    if seconds is None or not hasattr(select, "poll"):
        yield
        return
    # A thread, because a function may block the loop, and a copy, because the channel closes its own descriptor.
    watched, (reader, writer) = os.dup(0), os.pipe()

    def watch() -> None:
        # Of stdin only the end is of interest, of the pipe that its other end is closed: POLLHUP is always reported.
        poll = select.poll()
        poll.register(watched, getattr(select, "POLLRDHUP", 0))
        poll.register(reader, 0)
        if reader not in dict(poll.poll()):
            # One second more, for what was cancelled to end.
            poll.unregister(watched)
            if not poll.poll((seconds + 1.0) * 1000):
                text = f"stdin ended {seconds:g} s ago, and something still runs: the process ends\n"
                with contextlib.suppress(OSError):  # the reader of stderr may be gone, too
                    os.write(2, text.encode())
                os._exit(1)

    thread = threading.Thread(target=watch, name="jsonrpc_fast end_seconds", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(writer)
        thread.join()
        os.close(reader)
        os.close(watched)


class Signals:
    """Ends the program at a signal: the first one lets the work finish, a second one does not wait.

    `stop` is called at the first signal, `end` at each further one, and awaited by `finish`. Child processes of clients
    in this process are killed `grace_seconds` after the first signal; None: only at the second one.
    """

    def __init__(
        self, stop: Callable[[], object], end: Callable[[], Coroutine[Any, Any, None]], grace_seconds: float | None
    ) -> None:
        self.received: list[int] = []
        self._is_stopping = False
        self._stop = stop
        self._end = end
        self._grace_seconds = grace_seconds
        self._ending: list[asyncio.Task[None]] = []

    def handle(self) -> None:
        """Handle signals from now on, in the running loop."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C is a KeyboardInterrupt
            self._install(signal.SIGINT, loop)
            self._install(signal.SIGTERM, loop)
            if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
                self._install(signal.SIGHUP, loop)

    async def finish(self) -> None:
        """Wait for the work that the signals began; everything is closed. Then a signal ends the process at once."""
        await asyncio.gather(*self._ending)
        if sys.platform != "win32":
            # A task that ignores its cancellation would keep the loop, and the process with it, from ending.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if asyncio.get_running_loop().remove_signal_handler(number) and self.received:
                    # After a signal the process ends by that signal. Python's handler of SIGINT would print a traceback
                    # if another came first.
                    signal.signal(number, signal.SIG_DFL)

    def end_process(self) -> None:
        """End the process by the first signal, if there was one; the loop has ended.

        Not with an exit code, so that the parent, such as a shell or systemd, sees why the process ended.
        """
        if self.received:
            signal.signal(self.received[0], signal.SIG_DFL)
            os.kill(os.getpid(), self.received[0])

    def _install(self, number: signal.Signals, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_signal_handler(number, self._handle)
        # The loop hears of signals through a descriptor: the handler that it leaves to Python does nothing.
        signal.signal(number, self._arrive)
        signal.siginterrupt(number, False)  # as the loop sets it, for calls in C

    def _arrive(self, number: int, frame: object) -> None:
        """Note a signal, even while a function blocks the loop."""
        self.received.append(number)
        if len(self.received) == 2:
            for each in self.received:
                signal.signal(each, signal.SIG_DFL)
            # A thread, because a function may block the loop, and asyncio waits for functions in threads.
            threading.Thread(target=self._end_soon, name="jsonrpc_fast second signal", daemon=True).start()

    def _end_soon(self) -> None:
        time.sleep(SERVE_SECONDS)
        with contextlib.suppress(OSError):  # the reader of stderr may be gone
            os.write(2, b"a second signal has come, and something still runs: the process ends\n")
        signal_children("SIGKILL")
        os.kill(os.getpid(), self.received[0])

    def _handle(self) -> None:
        loop = asyncio.get_running_loop()
        if self._is_stopping:
            signal_children("SIGKILL")
            self._ending.append(loop.create_task(self._end()))
            return
        self._is_stopping = True
        if self._grace_seconds is not None:
            loop.call_later(self._grace_seconds, signal_children, "SIGKILL")
        self._stop()


async def _run(
    serve: Callable[[StdioServer], Coroutine[Any, Any, object]], transport: StdioServer, signals: Signals
) -> int:
    loop = asyncio.get_running_loop()
    signals.handle()
    serving = loop.create_task(serve(transport))
    closed = loop.create_task(transport.wait_closed())
    await asyncio.wait([serving, closed], return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        # The channel is closed, and `serve` may return on its own.
        await asyncio.wait([serving], timeout=SERVE_SECONDS)
        serving.cancel()
    try:
        await serving
    except asyncio.CancelledError:
        pass
    except Exception as error:
        has_no_streams = isinstance(error, ConnectionLost) and transport.state is State.IDLE
        await transport.disconnect()
        if not has_no_streams and not signals.received:
            raise
        if has_no_streams:
            say(str(error))
        return 1
    if transport.state is State.IDLE:  # `serve` did not start it
        await transport.close()
    await closed
    await signals.finish()
    loss = _describe_loss(transport)
    if loss:
        say(loss)
    return 1 if loss or transport.undrained_bytes or transport.fault is not None else 0


def _describe_loss(transport: StdioServer) -> str:
    """Describe what the client did not get, for the user; "" if it got everything."""
    if transport.dropped_requests:
        return f"the server ended with requests without a response: {transport.dropped_requests}"
    if isinstance(transport.fault, OSError):
        return f"stdin or stdout failed: {transport.fault.strerror or transport.fault}"
    return ""


class StandardChannel(DescriptorChannel):
    """A channel over this process's stdin and stdout.

    Attributes:
        restores_streams: Whether stdin and stdout are put back when the channel is closed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.restores_streams: bool = True
        self._streams: StandardStreams | None = None

    @property
    def name(self) -> str:
        return "stdio server"

    async def open(self, events: Events) -> None:
        self._streams = streams = StandardStreams()
        self._events = events
        self._reader = open_reader(streams.input, events.received, self._read_failed)
        self._writer = open_writer(streams.output, events.drained, self._write_failed)

    def abort(self) -> None:
        if self._streams is not None:
            self._reader.close()
            self._writer.close()
            # Not if the program ends with the transport, as under `run_stdio`: output printed at its exit would follow
            # the last message.
            if self.restores_streams:
                self._streams.restore()
            else:
                self._streams.keep_away()
            self._streams = None  # a second `abort` does nothing, and reports no second loss
            asyncio.get_running_loop().call_soon(self._events.lost, self._fault)


class StdioServer(Connection):
    """A transport over this process's stdin and stdout, which it takes over from `connect` until it is closed.

    When stdout cannot be written (EPIPE), what has arrived on stdin is delivered before `onerror` gets the OSError.
    `connect` raises ConnectionLost if the process was started with a closed stdin or stdout, or with one that is open
    in the wrong direction, and StateError if another transport has taken them over.

    Args:
        options: Options of `Connection`.
    """

    responds_after_end = True
    channel: StandardChannel

    def __init__(self, **options: Unpack[TransportOptions]) -> None:
        super().__init__(StandardChannel(), **options)


STDIN, STDOUT, STDERR = 0, 1, 2

# Global, because the descriptors belong to the process.
_are_taken = False


class StandardStreams:
    """Descriptors 0 and 1, taken over on construction. The caller closes `input`, which the wire is read from, and
    `output`.

    Raises:
        StateError: They are taken over already.
        ConnectionLost: One of them is closed, or open in the wrong direction.
    """

    def __init__(self) -> None:
        global _are_taken
        if _are_taken:
            raise StateError("another transport uses this process's stdin and stdout")
        # The number of a descriptor that was closed at startup may be in use by now, for example by the loop. The
        # interpreter still knows.
        if sys.__stdin__ is None or sys.__stdout__ is None:
            raise ConnectionLost("this process was started with a closed stdin or stdout")
        _check_access(STDIN, "stdin", "reading")
        _check_access(STDOUT, "stdout", "writing")
        taken: list[int] = []
        try:
            taken += (duplicate(STDIN), duplicate(STDOUT), duplicate(STDIN), duplicate(STDOUT))
            nothing = os.open(os.devnull, os.O_RDWR)
        except OSError as fault:
            for descriptor in taken:
                os.close(descriptor)
            raise ConnectionLost("stdin or stdout is closed") from fault
        self.input: int
        self.output: int
        self.input, self.output, self._saved_input, self._saved_output = taken
        # `dup2` closes the old file and takes its number in one step, so no other thread can get that number.
        os.dup2(nothing, STDIN)
        os.dup2(nothing if sys.__stderr__ is None else STDERR, STDOUT)
        os.close(nothing)
        # Text that was printed before and is still buffered must not reach the wire either.
        _flush_stdout()
        if sys.platform == "win32":
            import msvcrt

            for descriptor in taken:
                msvcrt.setmode(descriptor, os.O_BINARY)
        _are_taken = True

    def restore(self) -> None:
        """Restore 0 and 1. Text that is still buffered goes to stderr."""
        _flush_stdout()
        _flush_stdout_of_c()
        os.dup2(self._saved_input, STDIN)
        os.dup2(self._saved_output, STDOUT)
        self.keep_away()

    def keep_away(self) -> None:
        """Keep 0 and 1 off the wire, for a program that does not use them again."""
        global _are_taken
        os.close(self._saved_input)
        os.close(self._saved_output)
        _are_taken = False


def fill_closed_descriptors() -> None:
    """Open /dev/null for each of 0, 1 and 2 that is closed: uvloop aborts if the loop gets one of these numbers."""
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def _check_access(descriptor: int, name: str, what_for: str) -> None:
    """Raise ConnectionLost if a descriptor is open only in the other direction. Opening it again would hide that."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
    except OSError:  # closed: `duplicate` reports that
        return
    if access == (os.O_WRONLY if what_for == "reading" else os.O_RDONLY):
        raise ConnectionLost(f"this process was started with a {name} that is not open for {what_for}")


def _flush_stdout() -> None:
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):  # a full disk, or a closed stream
                stream.flush()


def _flush_stdout_of_c() -> None:
    if sys.platform != "win32":
        # An extension module may have printed with C's stdio, which has its own buffer.
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).fflush(None)
