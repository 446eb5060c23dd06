"""Reading and writing file descriptors without blocking the loop.

Rules:
  - The loop waits for descriptors where it can (pipes, sockets, terminals). Elsewhere (regular files, /dev/null,
    Windows) a thread reads or writes; it never keeps the interpreter from exiting.
  - A reader or writer owns its descriptor and closes it, in its thread if it has one: a descriptor must not be closed
    while another thread reads it.
  - O_NONBLOCK belongs to the open file, which the processes of a terminal share, and often stdout and stderr as well.
    It is not set on a file from another process. A reader reads once for each readiness, which cannot block. A writer
    opens the pipe or terminal again for itself, or sets the flag of a single call on a socket. Only on a pipe that
    cannot be opened again is O_NONBLOCK set, and reset at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import socket
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Literal

from ..channel import READ_BYTES, Channel, Events

OnReceived = Callable[[bytes], None]
"""Called by a reader on the loop's thread with each chunk, and with `b""` at the end."""
OnFailed = Callable[[OSError], None]
"""Called by a reader or writer on the loop's thread, with the reason why it cannot continue."""
OnDrained = Callable[[], None]
"""Called by a writer on the loop's thread, when there are fewer unwritten bytes."""


class Reader:
    """Passes on each chunk of its descriptor while it reads, of at most `read_bytes`."""

    def __init__(self, descriptor: int, received: OnReceived, failed: OnFailed, read_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._received = received
        self._failed = failed
        self._read_bytes = read_bytes
        self._is_open = True
        self._has_ended = False

    def read(self, wanted: bool) -> None:
        """Start or stop reading."""
        raise NotImplementedError

    def read_rest(self) -> bool:
        """Read the data that has arrived, without waiting. Return False if more may follow before the stream's end."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the descriptor. Nothing more is passed on."""
        raise NotImplementedError


class Writer:
    """Writes bytes to its descriptor in order, and keeps what the system does not take yet.

    Attributes:
        unwritten_bytes: The number of bytes that are kept.
        unread_bytes: The number of written bytes that were unread when the descriptor was closed; None if unknown or
            not closed.
    """

    def __init__(self, descriptor: int, drained: OnDrained, failed: OnFailed) -> None:
        self.unwritten_bytes: int = 0
        self.unread_bytes: int | None = None
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._drained = drained
        self._failed = failed
        self._is_open = True
        self._done: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        """Write bytes, now or later. A fault is reported later."""
        raise NotImplementedError

    def finish(self, done: Callable[[], None]) -> None:
        """Close the descriptor when everything is written, then call `done`."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the descriptor and drop unwritten data."""
        raise NotImplementedError


def duplicate(descriptor: int) -> int:
    """Return a copy that child processes do not inherit, with a high number. Raises OSError."""
    if sys.platform != "win32":
        import fcntl

        # At least 64: some programs pass 3, 4 and so on to their children.
        with contextlib.suppress(OSError):  # the limit on descriptors may be lower
            copy = fcntl.fcntl(descriptor, getattr(fcntl, "F_DUPFD_CLOEXEC", fcntl.F_DUPFD), 64)
            os.set_inheritable(copy, False)  # PyPy has F_DUPFD alone
            return copy
    return os.dup(descriptor)


def add_watch(
    add: Callable[[int, Callable[[], object]], None], descriptor: int, callback: Callable[[], object]
) -> None:
    """Call `add_reader` or `add_writer` of a loop, and leave O_NONBLOCK unchanged: uvloop sets it."""
    is_blocking = sys.platform != "win32" and os.get_blocking(descriptor)
    add(descriptor, callback)
    if is_blocking and not os.get_blocking(descriptor):
        os.set_blocking(descriptor, True)


def open_reader(descriptor: int, received: OnReceived, failed: OnFailed, read_bytes: int = READ_BYTES) -> Reader:
    """Return a reader that suits the descriptor, and owns it from now on. It reads once in a turn of the loop."""
    loop = asyncio.get_running_loop()
    try:
        add_watch(loop.add_reader, descriptor, lambda: None)
        loop.remove_reader(descriptor)
    except (OSError, NotImplementedError):  # epoll refuses regular files, and Windows has no `add_reader`
        return ThreadReader(descriptor, received, failed, read_bytes)
    return ReadyReader(descriptor, received, failed, read_bytes)


def open_writer(descriptor: int, drained: OnDrained, failed: OnFailed) -> Writer:
    """Return a writer that suits the descriptor, and owns it from now on."""
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        return ThreadWriter(descriptor, drained, failed)
    mode = os.fstat(descriptor).st_mode
    restores_blocking = False
    if stat.S_ISCHR(mode) and _is_pty_master(descriptor):
        return ThreadWriter(descriptor, drained, failed)
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        # Linux: opens the file again, with its own flags (proc(5), /proc/pid/fd). O_NOCTTY, because a terminal could
        # become the controlling terminal of this process.
        own = -1
        try:
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            own = os.open(f"/proc/self/fd/{descriptor}", flags)
        except OSError:
            if not stat.S_ISFIFO(mode):
                return ThreadWriter(descriptor, drained, failed)
            restores_blocking = os.get_blocking(descriptor)
            os.set_blocking(descriptor, False)
        else:
            os.close(descriptor)
            descriptor = own
    elif not stat.S_ISSOCK(mode):
        return ThreadWriter(descriptor, drained, failed)
    try:
        add_watch(loop.add_writer, descriptor, lambda: None)
        loop.remove_writer(descriptor)
    except OSError:
        return ThreadWriter(descriptor, drained, failed)
    return ReadyWriter(descriptor, drained, failed, stat.S_ISSOCK(mode), restores_blocking)


def _is_pty_master(descriptor: int) -> bool:
    """Return whether a descriptor is the master of a pseudo-terminal on Linux: device 5:2 (devices.txt of the kernel).

    Opening it again makes another pseudo-terminal, and nobody reads what is written there (pts(4)).
    """
    device = os.fstat(descriptor).st_rdev
    return sys.platform == "linux" and (os.major(device), os.minor(device)) == (5, 2)


class DescriptorChannel(Channel):
    """A channel over one descriptor to read from and one to write to, which `open` of a subclass sets."""

    _events: Events
    _reader: Reader
    _writer: Writer

    def __init__(self) -> None:
        self._fault: Exception | None = None  # why a descriptor failed, or the channel ended

    def write(self, data: bytes) -> None:
        if isinstance(self._fault, OSError):
            raise self._fault
        self._writer.write(data)

    @property
    def unwritten(self) -> int:
        return self._writer.unwritten_bytes

    def set_reading(self, on: bool) -> None:
        self._reader.read(on)

    def finish(self) -> None:
        self._reader.read(True)  # a peer that writes before it reads must not block
        self._writer.finish(self.abort)

    def _read_failed(self, fault: OSError) -> None:
        self._fault = self._fault or fault
        self.abort()

    def _write_failed(self, fault: OSError) -> None:
        self._fault = self._fault or fault
        self._reader.read_rest()
        self.abort()


class PipeChannel(DescriptorChannel):
    """A channel over two descriptors of pipes, sockets or terminals.

    Args:
        input: The descriptor to read from.
        output: The descriptor to write to.
    """

    def __init__(self, input: int, output: int) -> None:
        super().__init__()
        # Copies, because the caller closes its own descriptors, and the channel closes these.
        self._input, self._output = duplicate(input), duplicate(output)
        self._phase: Literal["new", "open", "ended"] = "new"

    @property
    def name(self) -> str:
        return "pipes"

    async def open(self, events: Events) -> None:
        if self._phase != "new":  # other files may have the numbers of closed descriptors
            raise OSError("the channel was opened or closed before")
        self._events = events
        self._reader = open_reader(self._input, events.received, self._read_failed)
        self._writer = open_writer(self._output, events.drained, self._write_failed)
        self._phase = "open"

    def abort(self) -> None:
        phase, self._phase = self._phase, "ended"
        if phase == "new":
            os.close(self._input)
            os.close(self._output)
        elif phase == "open":
            self._reader.close()
            self._writer.close()
            asyncio.get_running_loop().call_soon(self._events.lost, self._fault)


class ReadyReader(Reader):
    """A `Reader` that the loop calls when there is something to read."""

    def read(self, wanted: bool) -> None:
        if wanted and not self._has_ended:
            add_watch(self._loop.add_reader, self._descriptor, self._ready)
        elif self._is_open:
            self._loop.remove_reader(self._descriptor)

    def read_rest(self) -> bool:
        # At most a full pipe (1 MiB on Linux, unprivileged): a process that the peer has started may write to it
        # forever.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        for _ in range(1024 * 1024 // self._read_bytes + 1):
            if not self._has_ended and poll.poll(0):
                self._ready()
        return True

    def close(self) -> None:
        if self._is_open:
            self._loop.remove_reader(self._descriptor)
            self._is_open = False
            self._has_ended = True
            os.close(self._descriptor)

    def _ready(self) -> None:
        try:
            data = os.read(self._descriptor, self._read_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as fault:
            self._end()
            if fault.errno == errno.EIO:  # the terminal hung up
                self._received(b"")
            else:
                self._failed(fault)
            return
        if not data:
            self._end()
        self._received(data)

    def _end(self) -> None:
        # A pipe that has ended stays readable forever.
        self._has_ended = True
        self._loop.remove_reader(self._descriptor)


class ReadyWriter(Writer):
    """A `Writer` that the loop calls when the descriptor takes more."""

    unwritten_bytes: int

    def __init__(
        self, descriptor: int, drained: OnDrained, failed: OnFailed, is_socket: bool, restores_blocking: bool
    ) -> None:
        super().__init__(descriptor, drained, failed)
        self._socket = socket.socket(fileno=descriptor) if is_socket else None
        self._restores_blocking = restores_blocking
        self._pieces: deque[memoryview] = deque()

    def write(self, data: bytes) -> None:
        if not self._is_open:
            return
        piece = memoryview(data)
        # Written at once only if nothing is waiting; it must not overtake waiting data.
        if not self._pieces:
            written = self._write_some([piece])
            if written == len(piece) or not self._is_open:
                return
            piece = piece[written:]
            add_watch(self._loop.add_writer, self._descriptor, self._ready)
        self._pieces.append(piece)
        self.unwritten_bytes += len(piece)

    def finish(self, done: Callable[[], None]) -> None:
        self._done = done
        if not self._pieces:
            self._finish()

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        # Determined before the descriptor is closed.
        unread = _pipe_bytes(self._descriptor)
        self.unread_bytes = None if unread is None else unread + self.unwritten_bytes
        self._pieces.clear()
        self.unwritten_bytes = 0
        self._loop.remove_writer(self._descriptor)
        if self._restores_blocking:
            os.set_blocking(self._descriptor, True)
        if self._socket is None:
            os.close(self._descriptor)
        else:
            # Another process, or this one's stdin, may hold the socket open; the peer must see the end.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            self._socket.close()

    def _write_some(self, pieces: list[memoryview]) -> int:
        try:
            if self._socket is not None:
                return self._socket.sendmsg(pieces, [], socket.MSG_DONTWAIT)
            if hasattr(os, "writev"):
                return os.writev(self._descriptor, pieces)
            return os.write(self._descriptor, pieces[0])  # on PyPy
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as fault:
            is_first = not self._pieces  # otherwise these pieces are already counted as unwritten
            self.close()
            if self.unread_bytes is not None and is_first:
                self.unread_bytes += sum(map(len, pieces))
            self._loop.call_soon(self._failed, fault)
            return 0

    def _ready(self) -> None:
        pieces = self._pieces
        # Every system allows more than 64 buffers in one `writev`.
        written = self._write_some(list(islice(pieces, 64)))
        self.unwritten_bytes -= written
        while written:
            piece = pieces.popleft()
            if written < len(piece):
                pieces.appendleft(piece[written:])
                break
            written -= len(piece)
        if not self._is_open:
            return
        if not pieces:
            self._loop.remove_writer(self._descriptor)
        self._drained()
        if not pieces and self._done is not None:
            self._finish()

    def _finish(self) -> None:
        self.close()
        if self._done is not None:
            self._loop.call_soon(self._done)


class ThreadReader(Reader):
    """A `Reader` in a thread, which reads at most one chunk ahead."""

    # The thread reads once for each release of `_turn`, and changes no attribute: `_on_chunk` takes the chunk on the
    # loop's thread. It closes the descriptor when it ends. While it is stuck in a read, nothing can stop it.

    def __init__(self, descriptor: int, received: OnReceived, failed: OnFailed, read_bytes: int) -> None:
        super().__init__(descriptor, received, failed, read_bytes)
        self._is_wanted = False
        self._is_busy = False  # the thread is reading
        self._chunk: bytes | OSError | None = None  # read, not yet wanted
        self._turn = threading.Semaphore(0)
        threading.Thread(target=self._run, name="jsonrpc_fast reader", daemon=True).start()

    def read(self, wanted: bool) -> None:
        self._is_wanted = wanted
        if wanted and self._chunk is not None:
            self._loop.call_soon(self._deliver)
        elif wanted and not self._is_busy:
            self._is_busy = True
            self._turn.release()

    def read_rest(self) -> bool:
        self.read(True)
        return self._has_ended

    def close(self) -> None:
        self._is_open = self._is_wanted = False
        self._turn.release()

    def _run(self) -> None:
        while True:
            self._turn.acquire()
            if not self._is_open:
                break
            try:
                chunk: bytes | OSError = os.read(self._descriptor, self._read_bytes)
            except OSError as fault:
                chunk = fault
            if not _call_on_loop(self._loop, self._on_chunk, chunk):
                break
        os.close(self._descriptor)

    def _on_chunk(self, chunk: bytes | OSError) -> None:
        self._chunk = chunk
        self._deliver()

    def _deliver(self) -> None:
        if not self._is_wanted or self._chunk is None:
            return
        chunk, self._chunk = self._chunk, None
        self._has_ended = isinstance(chunk, OSError) or not chunk
        if isinstance(chunk, OSError):
            self._failed(chunk)
        elif not chunk:
            self._received(b"")
        else:
            self._is_busy = False
            self._received(chunk)
            if self._is_wanted:
                self.read(True)


class ThreadWriter(Writer):
    """A `Writer` in a thread."""

    # The thread takes the queue in order, up to None, and then closes the descriptor. After `close` or a fault it
    # writes nothing, but still takes what is queued, so that the unwritten bytes fall to 0.

    unwritten_bytes: int

    def __init__(self, descriptor: int, drained: OnDrained, failed: OnFailed) -> None:
        import queue  # imported here, because few descriptors need a thread

        super().__init__(descriptor, drained, failed)
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="jsonrpc_fast writer", daemon=True).start()

    def write(self, data: bytes) -> None:
        if not self._is_open:
            return
        self._queue.put(data)
        self.unwritten_bytes += len(data)

    def finish(self, done: Callable[[], None]) -> None:
        self._done = done
        self._queue.put(None)

    def close(self) -> None:
        self._is_open = False
        self._queue.put(None)

    def _run(self) -> None:
        is_broken = False
        while (data := self._queue.get()) is not None:
            rest = memoryview(data)
            try:
                while rest and self._is_open and not is_broken:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError as fault:
                is_broken = True
                _call_on_loop(self._loop, self._fail, fault)
            _call_on_loop(self._loop, self._written, len(data))
        os.close(self._descriptor)
        _call_on_loop(self._loop, self._finish)

    def _written(self, size: int) -> None:
        self.unwritten_bytes -= size
        self._drained()

    def _fail(self, fault: OSError) -> None:
        if self._is_open:
            self._is_open = False
            self._failed(fault)

    def _finish(self) -> None:
        if self._is_open and self._done is not None:
            self._is_open = False
            self._done()


def _pipe_bytes(descriptor: int) -> int | None:
    """Return how many bytes are in a pipe; None if it is not a pipe, or the system does not report it."""
    if sys.platform == "win32":
        return None
    import fcntl
    import termios

    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return None


def _call_on_loop(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: object) -> bool:
    """Schedule a call on the loop's thread; return False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        return False
    return True
