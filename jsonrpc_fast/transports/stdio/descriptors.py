"""Reading and writing file descriptors without blocking the loop.

Rules:
  - where the loop can wait for a descriptor (pipes, sockets, terminals), it does; where it cannot (regular files,
    /dev/null, Windows) a thread reads or writes. Such a thread never keeps the interpreter from ending;
  - a reader or writer owns its descriptor and closes it, in the thread when there is one: a descriptor that another
    thread is reading may not be closed under it;
  - O_NONBLOCK belongs to the open file, which a terminal's processes share, and often stdout and stderr. It is never
    set on what another process gave us. A reader reads once for each readiness, which cannot block; a writer opens the
    pipe or terminal once more for itself, or asks a socket for each single call. Only for a pipe that cannot be opened
    again is it set, and taken back at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import queue
import select
import socket
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

from ..base import HIGH_WATER_BYTES, LOW_WATER_BYTES, READ_BYTES

PIECES: Final = 64
"""How many buffers go into one call of the system; each that allows this at all allows more."""

MOST_LEFT: Final = 1024 * 1024
"""The most that a pipe holds (Linux, without privileges). Whoever writes more meanwhile is not waited for."""

LEAST_PRIVATE: Final = 64
"""Private descriptors are numbered from here, out of the way of programs that hand on 3, 4 and so on."""


class ByteSink(Protocol):
    """Whoever reads or writes: it is told on the loop's thread."""

    def _bytes_received(self, data: bytes) -> None: ...
    def _end_received(self) -> None: ...
    def _read_failed(self, fault: OSError) -> None: ...


class WriteOwner(Protocol):
    def _block(self, is_blocked: bool) -> None: ...
    def _write_failed(self, fault: OSError) -> None: ...


class Reader(Protocol):
    """Tells its sink of each chunk, while it is asked to read."""

    def read(self, wanted: bool) -> None:
        """Begins or stops to read."""

    def read_rest(self) -> bool:
        """Reads what has come already, without waiting. False where only the end of the stream tells what has come."""

    def close(self) -> None:
        """Closes the descriptor. The sink is told nothing more."""


class Writer(Protocol):
    """Writes what it is given, in order; keeps what the system does not take yet."""

    unwritten_bytes: int

    def write(self, data: bytes) -> None:
        """Takes bytes. A fault is told to the owner later."""

    def finish(self, done: Callable[[], None]) -> None:
        """Closes the descriptor when all is written, then calls `done`."""

    def close(self) -> None:
        """Closes the descriptor; what is not written is dropped."""


def duplicate(descriptor: int) -> int:
    """A private copy: not inherited by child processes, with a high number. Raises OSError."""
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):  # the limit on descriptors may be lower
            return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, LEAST_PRIVATE)
    return os.dup(descriptor)


def add_reader(loop: asyncio.AbstractEventLoop, descriptor: int, callback: Callable[[], object]) -> None:
    """`loop.add_reader`, which leaves the descriptor blocking if it was: uvloop's sets O_NONBLOCK."""
    is_blocking = sys.platform != "win32" and os.get_blocking(descriptor)
    loop.add_reader(descriptor, callback)
    if is_blocking and not os.get_blocking(descriptor):
        os.set_blocking(descriptor, True)


def add_writer(loop: asyncio.AbstractEventLoop, descriptor: int, callback: Callable[[], object]) -> None:
    """`loop.add_writer`, in the same way."""
    is_blocking = sys.platform != "win32" and os.get_blocking(descriptor)
    loop.add_writer(descriptor, callback)
    if is_blocking and not os.get_blocking(descriptor):
        os.set_blocking(descriptor, True)


def open_reader(loop: asyncio.AbstractEventLoop, descriptor: int, sink: ByteSink) -> Reader:
    """A reader of the right kind. The descriptor is its own from now on."""
    try:
        add_reader(loop, descriptor, lambda: None)
        loop.remove_reader(descriptor)
    except (OSError, NotImplementedError):  # epoll refuses files, and Windows has no such call
        return ThreadReader(loop, descriptor, sink)
    return ReadyReader(loop, descriptor, sink)


def open_writer(loop: asyncio.AbstractEventLoop, descriptor: int, owner: WriteOwner) -> Writer:
    """A writer of the right kind. The descriptor is its own from now on."""
    if sys.platform == "win32":
        return ThreadWriter(loop, descriptor, owner)
    mode = os.fstat(descriptor).st_mode
    restores_blocking = False
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        try:
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            own = os.open(f"/proc/self/fd/{descriptor}", flags)  # Linux: another open file
        except OSError:
            if not stat.S_ISFIFO(mode):
                return ThreadWriter(loop, descriptor, owner)
            restores_blocking = os.get_blocking(descriptor)
            os.set_blocking(descriptor, False)
        else:
            os.close(descriptor)
            descriptor = own
    elif not stat.S_ISSOCK(mode):
        return ThreadWriter(loop, descriptor, owner)
    try:
        add_writer(loop, descriptor, lambda: None)
        loop.remove_writer(descriptor)
    except OSError:
        return ThreadWriter(loop, descriptor, owner)
    return ReadyWriter(loop, descriptor, owner, stat.S_ISSOCK(mode), restores_blocking)


class ReadyReader:
    """A `Reader` on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, sink: ByteSink) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._sink = sink
        self._is_open = True
        self._has_ended = False

    def read(self, wanted: bool) -> None:
        if wanted and not self._has_ended:
            add_reader(self._loop, self._descriptor, self._ready)
        elif self._is_open:
            self._loop.remove_reader(self._descriptor)

    def read_rest(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        for _ in range(MOST_LEFT // READ_BYTES + 1):
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
            data = os.read(self._descriptor, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as fault:
            self._end()
            if fault.errno == errno.EIO:  # the terminal hung up
                self._sink._end_received()
            else:
                self._sink._read_failed(fault)
            return
        if data:
            self._sink._bytes_received(data)
        else:
            self._end()
            self._sink._end_received()

    def _end(self) -> None:
        # An ended pipe stays ready for ever.
        self._has_ended = True
        self._loop.remove_reader(self._descriptor)


class ReadyWriter:
    """A `Writer` on the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        owner: WriteOwner,
        is_socket: bool = False,
        restores_blocking: bool = False,
    ) -> None:
        self.unwritten_bytes: int = 0
        self._loop = loop
        self._descriptor = descriptor
        self._owner = owner
        self._socket = socket.socket(fileno=descriptor) if is_socket else None
        self._restores_blocking = restores_blocking
        self._pieces: deque[memoryview] = deque()
        self._is_blocked = False
        self._is_open = True
        self._done: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        if not self._is_open:
            return
        piece = memoryview(data)
        if not self._pieces:
            written = self._write_some([piece])
            if written == len(piece) or not self._is_open:
                return
            piece = piece[written:]
            add_writer(self._loop, self._descriptor, self._ready)
        self._pieces.append(piece)
        self.unwritten_bytes += len(piece)
        if self.unwritten_bytes > HIGH_WATER_BYTES and not self._is_blocked:
            self._is_blocked = True
            self._owner._block(True)

    def finish(self, done: Callable[[], None]) -> None:
        self._done = done
        if not self._pieces:
            self._finish()

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._pieces.clear()
        self.unwritten_bytes = 0
        self._loop.remove_writer(self._descriptor)
        if self._restores_blocking:
            os.set_blocking(self._descriptor, True)
        if self._socket is None:
            os.close(self._descriptor)
        else:
            # Another process may hold the socket open, and so may this one's stdin: the peer is to see the end.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            self._socket.close()

    def _write_some(self, pieces: list[memoryview]) -> int:
        try:
            if self._socket is not None:
                return self._socket.sendmsg(pieces, [], socket.MSG_DONTWAIT)
            return os.writev(self._descriptor, pieces)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as fault:
            self.close()
            self._loop.call_soon(self._owner._write_failed, fault)
            return 0

    def _ready(self) -> None:
        pieces = self._pieces
        written = self._write_some(list(islice(pieces, PIECES)))
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
        if self._is_blocked and self.unwritten_bytes <= LOW_WATER_BYTES:
            self._is_blocked = False
            self._owner._block(False)
        if not pieces and self._done is not None:
            self._finish()

    def _finish(self) -> None:
        self.close()
        if self._done is not None:
            self._loop.call_soon(self._done)


class ThreadReader:
    """A `Reader` in a thread, which is one chunk ahead at the most."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, sink: ByteSink) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._sink = sink
        self._is_wanted = False
        self._is_open = True
        self._has_ended = False
        self._is_busy = False  # the thread reads
        self._chunk: bytes | OSError | None = None  # read, and not yet wanted
        self._turn = threading.Semaphore(0)
        threading.Thread(target=self._run, name="jsonrpc_fast reader", daemon=True).start()

    def read(self, wanted: bool) -> None:
        self._is_wanted = wanted
        if wanted and self._chunk is not None:
            self._loop.call_soon(self._tell)
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
                chunk: bytes | OSError = os.read(self._descriptor, READ_BYTES)
            except OSError as fault:
                chunk = fault
            if not _tell_loop(self._loop, self._take, chunk):
                break
        os.close(self._descriptor)

    def _take(self, chunk: bytes | OSError) -> None:
        self._chunk = chunk
        self._tell()

    def _tell(self) -> None:
        if not self._is_wanted or self._chunk is None:
            return
        chunk, self._chunk = self._chunk, None
        self._has_ended = isinstance(chunk, OSError) or not chunk
        if isinstance(chunk, OSError):
            self._sink._read_failed(chunk)
        elif not chunk:
            self._sink._end_received()
        else:
            self._is_busy = False
            self._sink._bytes_received(chunk)
            if self._is_wanted:
                self.read(True)


class ThreadWriter:
    """A `Writer` in a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, owner: WriteOwner) -> None:
        self.unwritten_bytes: int = 0
        self._loop = loop
        self._descriptor = descriptor
        self._owner = owner
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._is_open = True
        self._is_blocked = False
        self._done: Callable[[], None] | None = None
        threading.Thread(target=self._run, name="jsonrpc_fast writer", daemon=True).start()

    def write(self, data: bytes) -> None:
        if not self._is_open:
            return
        self._queue.put(data)
        self.unwritten_bytes += len(data)
        if self.unwritten_bytes > HIGH_WATER_BYTES and not self._is_blocked:
            self._is_blocked = True
            self._owner._block(True)

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
                _tell_loop(self._loop, self._fail, fault)
            _tell_loop(self._loop, self._written, len(data))
        os.close(self._descriptor)
        _tell_loop(self._loop, self._finish)

    def _written(self, size: int) -> None:
        self.unwritten_bytes -= size
        if self._is_blocked and self.unwritten_bytes <= LOW_WATER_BYTES:
            self._is_blocked = False
            self._owner._block(False)

    def _fail(self, fault: OSError) -> None:
        if self._is_open:
            self._is_open = False
            self._owner._write_failed(fault)

    def _finish(self) -> None:
        if self._is_open and self._done is not None:
            self._is_open = False
            self._done()


def _tell_loop(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: object) -> bool:
    """Calls back on the loop's thread. False when the loop is closed: nobody listens any more."""
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        return False
    return True
