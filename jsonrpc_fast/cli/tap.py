"""A tap on the channel between a stdio server and its client.

Rules:
  - every byte goes through unchanged, as soon as it comes, whether it is a message or not;
  - looking at it comes second: what was read waits for the thread that looks in a queue with a bound, and where that
    is full it is not looked at, so that neither a slow log nor a large message holds anything up for long;
  - a side that reads slowly holds up the other, as it would without the tap: one chunk in each direction is all that
    the tap keeps;
  - the end of the client's stream closes the server's standard input; a reader that is gone is gone for the other side;
  - SIGINT, SIGTERM and SIGHUP go on to the server; the tap ends when the server does, and with its status.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from ..codec import Notification, ParseError, Request, Response
from ..codec.located import LocatingDecoder
from ..codes import ParseErrorCode
from ..framing.frames import Framing
from ..profile import Profile
from ..types import MessageId

Direction = Literal["->", "<-"]
"""-> from the client to the server, <- back."""

_CHUNK_BYTES: Final = 65536
_WAITING_BYTES: Final = 64 * 1024 * 1024  # read, and not yet looked at
_ENTRY_BYTES: Final = 256  # what a chunk costs besides its bytes
_PENDING_CALLS: Final = 4096  # in each direction; of more than these the oldest is forgotten
_SHOWN_CHARACTERS: Final = 60  # of a method or an id
_LAST_LINES_SECONDS: Final = 2.0  # how long the log may stand still when the server has ended
_LEFT_SECONDS: Final = 0.2  # how long a pipe is quiet, whose writer has ended, before it counts as empty
_IS_OVER: Final = "nothing that comes after this is looked at"


class CannotRun(Exception):
    """The command cannot be started.

    status  what shells exit with then
    """

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def tap(command: Sequence[str], log: int, framing: Framing, profile: Profile) -> int:
    """Runs `command` between this process's standard input and output and itself. Returns the exit status.

    log      the file descriptor for the lines
    framing  of both directions; for "auto", each tells its own
    profile  the rules that faults are found by

    `fill_standard_descriptors` is called before, and before `log` is opened. Raises CannotRun.
    """
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (0, 1):
            msvcrt.setmode(descriptor, os.O_BINARY)
    watcher = _Watcher(log, framing, profile)
    try:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CannotRun(reason, 127 if error.errno == errno.ENOENT else 126) from error
    assert server.stdin is not None
    assert server.stdout is not None
    with contextlib.ExitStack() as stack:
        _forward_signals(server, stack)
        ended, end = os.pipe()
        to_server = threading.Thread(target=_pass_requests, args=(server.stdin, watcher), daemon=True)
        to_client = threading.Thread(target=_pass_answers, args=(server.stdout, ended, watcher), daemon=True)
        watching = threading.Thread(target=watcher.run, daemon=True)
        for thread in (watching, to_client, to_server):
            thread.start()
        status = server.wait()
        os.close(end)
        # What the server wrote before it ended is the client's, however slowly it reads.
        to_client.join()
        os.close(ended)
        watcher.finish(status)
        written = -1
        while watching.is_alive() and watcher.written_lines > written:
            written = watcher.written_lines
            watching.join(_LAST_LINES_SECONDS)
    return 128 - status if status < 0 else status


def fill_standard_descriptors() -> None:
    """Puts something empty, which cannot be written, where standard input, output or error is closed.

    A pipe of the tap's own would get the number instead, and be taken for the client or for the log.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free: this one


def _forward_signals(server: subprocess.Popen[bytes], stack: contextlib.ExitStack) -> None:
    """Until the stack is closed, what is asked of the tap is asked of the server."""

    def forward(number: int, _: object) -> None:
        if server.returncode is not None:
            os._exit(128 + number)  # The tap waits for nothing but the client, which does not read.
        if not (number == signal.SIGINT and _is_in_foreground()):
            server.send_signal(number)

    names = ["SIGINT"] if sys.platform == "win32" else ["SIGINT", "SIGTERM", "SIGHUP"]
    for name in names:
        number = getattr(signal, name)
        # What whoever started the tap had ignored (nohup) stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            stack.callback(signal.signal, number, signal.signal(number, forward))


def _is_in_foreground() -> bool:
    """Whether a terminal has sent the server a Ctrl-C of its own already."""
    if sys.platform == "win32":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _pass_requests(target: Any, watcher: _Watcher) -> None:
    """Passes on what the client writes, to its end or the server's."""
    try:
        while chunk := _read(0):
            watcher.saw("->", chunk)
            _write(target.fileno(), chunk)
    except OSError:
        # The server reads no more: the client is to find that out as it would without the tap.
        _forsake(0, os.O_RDONLY)
    watcher.saw("->", b"")
    with contextlib.suppress(OSError):
        target.close()


def _pass_answers(source: Any, ended: int, watcher: _Watcher) -> None:
    """Passes on what the server writes. What it started may keep the pipe open behind it, and is not heard."""
    descriptor = source.fileno()
    try:
        while _has_more(descriptor, ended) and (chunk := _read(descriptor)):
            watcher.saw("<-", chunk)
            _write(1, chunk)
    except OSError:
        pass  # The client reads no more; closing the pipe tells the server.
    watcher.saw("<-", b"")
    source.close()
    # The client is to see the end now, not after the last lines of the log.
    _forsake(1, os.O_WRONLY)


def _forsake(descriptor: int, flags: int) -> None:
    """Closes a descriptor, and points it at nothing, for the number would be given away."""
    with contextlib.suppress(OSError):
        nothing = os.open(os.devnull, flags)
        os.dup2(nothing, descriptor)
        os.close(nothing)


def _has_more(descriptor: int, ended: int) -> bool:
    """Waits for something to read. False when the server has ended (which `ended` tells) and left nothing."""
    if sys.platform == "win32":
        return True
    readable, _, _ = select.select([descriptor, ended], [], [])
    if descriptor not in readable:
        readable, _, _ = select.select([descriptor], [], [], _LEFT_SECONDS)
    return bool(readable)


def _read(descriptor: int) -> bytes:
    """Some bytes, or b"" at the end of the stream."""
    while True:
        try:
            return os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            # The other end of a pipe made it non-blocking.
            select.select([descriptor], [], [])
        except OSError as error:
            # A terminal that is gone, and a descriptor that never was.
            if error.errno in (errno.EIO, errno.EBADF):
                return b""
            raise


def _write(descriptor: int, chunk: bytes) -> None:
    left = memoryview(chunk)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


class _Watcher:
    """Looks at what went through and writes the log, on a thread of its own."""

    def __init__(self, log: int, framing: Framing, profile: Profile) -> None:
        self.written_lines = 0
        self._log: int | None = log
        self._sides: dict[Direction, _Side] = {"->": _Side(framing, profile), "<-": _Side(framing, profile)}
        self._waiting: deque[tuple[Direction, float, bytes, int]] = deque()
        self._waiting_bytes = 0
        self._missed: dict[Direction, int] = {"->": 0, "<-": 0}  # bytes that the queue had no room for
        self._changed = threading.Condition()
        self._status: int | None = None

    def saw(self, direction: Direction, chunk: bytes) -> None:
        """Takes note of a chunk, b"" at the end of the stream. Before it goes on, so that no answer is seen first."""
        now = time.time()
        with self._changed:
            if chunk and self._waiting_bytes > _WAITING_BYTES:
                self._missed[direction] += len(chunk)
                return
            self._waiting.append((direction, now, chunk, self._missed[direction]))
            self._waiting_bytes += len(chunk) + _ENTRY_BYTES
            self._missed[direction] = 0
            self._changed.notify()

    def finish(self, status: int) -> None:
        """Tells that nothing more will come, because the server has ended with `status`."""
        with self._changed:
            self._status = status
            self._changed.notify()

    def run(self) -> None:
        """Writes a line for each message, until the server has ended and all is written."""
        while True:
            with self._changed:
                while not self._waiting and self._status is None:
                    self._changed.wait()
                if not self._waiting:
                    break
                direction, now, chunk, missed = self._waiting.popleft()
                self._waiting_bytes -= len(chunk) + _ENTRY_BYTES
            side = self._sides[direction]
            other = self._sides["<-" if direction == "->" else "->"]
            if missed:
                self._write(now, direction, [f"{missed} bytes were not looked at: the log is too slow", *side.miss()])
            self._write(now, direction, list(side.lines(now, chunk, other)))
        unanswered = sum([len(side.pending) for side in self._sides.values()])
        status = self._status or 0
        ending = f"signal {-status}" if status < 0 else f"status {status}"
        self._write(time.time(), "--", [f"the server ended with {ending}; calls without an answer: {unanswered}"])

    def _write(self, now: float, direction: str, lines: list[str]) -> None:
        if self._log is None or not lines:
            return
        clock = time.strftime("%H:%M:%S", time.localtime(now))
        start = f"{clock}.{int(now * 1000) % 1000:03} {direction} "
        try:
            _write(self._log, "".join([f"{start}{line}\n" for line in lines]).encode())
        except OSError:
            self._log = None  # Nobody reads it, or the disk is full. The channel matters more.
        self.written_lines += len(lines)


class _Side:
    """One direction: its messages, and its calls that wait for an answer."""

    def __init__(self, framing: Framing, profile: Profile) -> None:
        self._profile = profile
        self._decoder = LocatingDecoder(framing, profile, raw=True)
        self._skips_line = False  # after bytes that were not looked at
        self._is_over = False
        self.pending: OrderedDict[tuple[type, MessageId], tuple[float, str]] = OrderedDict()

    def miss(self) -> list[str]:
        """Bytes were lost on the way here: goes on at the next line, or not at all where messages are not lines.

        Returns what is to be said of that.
        """
        if self._decoder.framing == "newline":
            self._skips_line = True
        elif not self._is_over:
            self._is_over = True
            return [_IS_OVER]
        return []

    def lines(self, now: float, chunk: bytes, other: _Side) -> Iterator[str]:
        """What is to be said of the messages that end in a chunk; b"" is the end of the stream."""
        if self._skips_line:
            feed = chunk.find(b"\n")
            if feed < 0:
                return
            chunk = chunk[feed + 1 :]
            self._skips_line = False
            self._decoder = LocatingDecoder("newline", self._profile, raw=True)
        if self._is_over:
            return
        for frame, item in self._decoder.feed_located(chunk) if chunk else self._decoder.close_located():
            is_whole = frame.text is not None and frame.fault is not ParseErrorCode.MESSAGE_TOO_LARGE
            size = f" {len(frame.text or b'')} B" if is_whole else ""
            if isinstance(item, list):
                yield f"batch of {len(item)}{size}"
                for message in item:
                    yield self._line(now, message, "", other)
            else:
                yield self._line(now, item, size, other)
        if self._decoder.ended:
            self._is_over = True
            yield _IS_OVER

    def _line(
        self, now: float, message: Request | Notification | Response | ParseError, size: str, other: _Side
    ) -> str:
        if isinstance(message, Request):
            self.pending[_key(message.id)] = now, message.method
            if len(self.pending) > _PENDING_CALLS:
                self.pending.popitem(last=False)
            return f"request {_shown(message.method)} id={_shown_id(message.id)}{size}"
        if isinstance(message, Notification):
            return f"notification {_shown(message.method)}{size}"
        if isinstance(message, ParseError):
            id = "" if message.id is None else f" id={_shown_id(message.id)}"
            return f"invalid{id}{size} {message.code.name}: {message.message}"
        kind = "result" if message.error is None else f"error {message.error.code}"
        called, method = other.pending.pop(_key(message.id), (None, ""))
        answer = f"{size} to no call" if called is None else f"{size} {(now - called) * 1000:.1f} ms"
        return f"{kind}{method and ' '}{_shown(method)} id={_shown_id(message.id)}{answer}"


def _key(id: MessageId) -> tuple[type, MessageId]:
    """An id as one that tells 1 from 1.0."""
    return type(id), id


def _shown_id(id: MessageId) -> str:
    return _shown(json.dumps(id, ensure_ascii=False))


def _shown(text: str) -> str:
    """A text from the wire on one line: shortened, and what does not print in escapes."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    return "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut])
