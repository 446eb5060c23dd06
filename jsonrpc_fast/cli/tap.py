"""The command `tap`: log the messages between a stdio server and its client.

Rules:
  - Every byte is passed on unchanged and at once, whether it belongs to a message or not. A thread decodes copies of
    the bytes from a bounded queue. Bytes that do not fit in the queue are not logged, so that neither a slow log nor a
    large message delays the channel.
  - A side that reads slowly slows down the other, as without the tap, which keeps one chunk in each direction.
  - When the client ends its stream, the server's stdin is closed; when one side stops reading, the other notices.
  - SIGINT, SIGTERM and SIGHUP are passed on to the server. The tap ends when the server does, with its exit status. A
    second SIGINT kills the server.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..codec import Notification, ParseError, Request, Response
from ..codec.located import LocatingDecoder
from ..codes import ParseErrorCode
from ..framing import Framing
from ..profile import PRESETS, Profile
from ..support import IdKey, id_key
from ..testing.recordings import Sender, record_line
from .output import Status, escape, is_coloured, point_at_null, print_error, program_status, shorten, styled

Direction = Literal["->", "<-"]
"""-> from the client to the server, <- from the server to the client."""

SENDERS: Final[dict[Direction, Sender]] = {"->": "client", "<-": "server"}
"""Who sends in a direction."""
_PEERS: Final[dict[Direction, Sender]] = {"->": "server", "<-": "client"}

Pending: TypeAlias = "OrderedDict[IdKey, tuple[float, str]]"
"""Requests without a response, by id: the time at which each was sent, and its method."""

CHUNK_BYTES: Final = 65536  # the capacity of a pipe on Linux
_WAITING_BYTES: Final = 64 * 1024 * 1024  # passed on, but not yet logged
_ENTRY_BYTES: Final = 256  # the memory of a queued chunk besides its bytes
_STYLES: Final = {"invalid": "red", "error": "yellow"}
_LOG_ENDS: Final = "the rest of this direction is not logged"


class Logs(NamedTuple):
    """The file descriptors of the log and of the recording, and how a tap writes the log."""

    log: int
    record: int | None
    payloads: bool  # whether the log has the messages
    json: bool = False


Entry: TypeAlias = "dict[str, Any]"
"""A line of the log, as its members in JSON: `kind`, and what is known about a message; or `note`, a text."""


def run(options: argparse.Namespace) -> int:
    """Run the command `tap` with a program as the server. Return the exit status."""
    return with_logs(options, lambda logs: _tap(options.program, logs, options.framing, PRESETS[options.profile]))


def with_logs(options: argparse.Namespace, tap: Callable[[Logs], int]) -> int:
    """Open the files that a tap writes, call a function with them, and return the exit status."""
    _fill_standard_descriptors()
    with contextlib.ExitStack() as stack:
        descriptors: list[int | None] = []
        # A recording contains payloads, so only its owner may read it.
        for name, mode in ((options.log, 0o666), (options.record, 0o600)):
            if name is None:
                descriptors.append(None)
                continue
            try:
                descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode)
            except OSError as error:
                print_error(f"cannot write {escape(name)}: {error.strerror}")
                return Status.WRONG
            stack.callback(os.close, descriptor)
            descriptors.append(descriptor)
        log, record = descriptors
        if log is not None and record is not None and _are_one_file(log, record):
            print_error(f"{escape(options.log)} cannot be both the log and the recording")
            return Status.WRONG
        return tap(Logs(2 if log is None else log, record, options.payloads, options.json))


def _tap(command: Sequence[str], logs: Logs, framing: Framing, profile: Profile) -> int:
    """Run `command` between the client and this process's stdin and stdout. Return the exit status."""
    # The interpreter knows it; the descriptor is in use by now. A closed stdin is an empty one: nothing is lost.
    if sys.__stdout__ is None:
        print_error("this process was started with a closed stdout: the client could not get anything")
        return Status.WRONG
    # The C runtime would turn line feeds into CRLF, and end the input at a Ctrl-Z.
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (0, 1):
            msvcrt.setmode(descriptor, os.O_BINARY)
    watcher = Watcher(logs, framing, profile)
    try:
        # stderr is inherited: the tap neither reads nor delays it.
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    except OSError as error:
        print_error(f"cannot run {escape(command[0])}: {error.strerror or type(error).__name__}")
        return program_status(error, Status.CANNOT_RUN)
    assert server.stdin is not None
    assert server.stdout is not None
    with contextlib.ExitStack() as stack:
        # Set up before the threads start, so that an early signal reaches the server, too.
        _forward_signals(server, stack)
        ended, end = os.pipe()
        to_server = threading.Thread(target=_forward_to_server, args=(server.stdin, watcher), daemon=True)
        to_client = threading.Thread(target=_forward_to_client, args=(server.stdout, ended, watcher), daemon=True)
        watching = threading.Thread(target=watcher.run, daemon=True)
        # Daemon threads: one of them may be stuck in a read or a write that never ends, and must not keep the process
        # alive.
        for thread in (watching, to_client, to_server):
            thread.start()
        waiting = threading.Thread(target=server.wait, daemon=True)
        waiting.start()
        while waiting.is_alive():
            # Not for ever: this thread learns of a signal that another thread received, or that arrives while an
            # earlier handler returns, when it wakes.
            waiting.join(0.2)
        status = server.returncode
        # Closing one end of this pipe makes the other one readable: it notifies the thread that reads the server's
        # output.
        os.close(end)
        # The client gets everything that the server wrote before it ended, however slowly it reads.
        to_client.join()
        os.close(ended)
        ending = f"signal {-status}" if status < 0 else f"status {status}"
        watcher.finish(f"the server ended with {ending}")
        written = -1
        # Wait as long as the log makes progress: a pipe that is not read would hold the tap forever.
        while watching.is_alive() and watcher.written_lines > written:
            written = watcher.written_lines
            watching.join(2.0)
    return 128 - status if status < 0 else status


def _are_one_file(one: int, other: int) -> bool:
    """Return whether two descriptors write the same file; a device such as the null device may be both."""
    return os.path.sameopenfile(one, other) and stat.S_ISREG(os.fstat(one).st_mode)


def _fill_standard_descriptors() -> None:
    """Open the null device, for reading only, for each of stdin, stdout and stderr that is closed.

    Otherwise one of the tap's pipes would get the number, and be used as the client or the log.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number, this one


def _forward_signals(server: subprocess.Popen[bytes], stack: contextlib.ExitStack) -> None:
    """Pass signals on to the server until the stack is closed. A second Ctrl-C kills it."""
    is_interrupted = False

    def forward(number: int, _: object) -> None:
        nonlocal is_interrupted
        if server.returncode is not None:
            os._exit(128 + number)  # the tap is only waiting for a client that does not read
        # At a terminal, Ctrl-C goes to every process of the foreground group. Passing it on would interrupt the server
        # twice.
        if not (number == signal.SIGINT and _is_in_foreground()):
            server.send_signal(number)
        if number == signal.SIGINT:
            if is_interrupted:
                server.kill()
            is_interrupted = True

    names = ["SIGINT"] if sys.platform == "win32" else ["SIGINT", "SIGTERM", "SIGHUP"]
    for name in names:
        number = getattr(signal, name)
        # Signals that are ignored (nohup) stay ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            stack.callback(signal.signal, number, signal.signal(number, forward))


def _is_in_foreground() -> bool:
    """Return whether the terminal sends Ctrl-C to the server directly."""
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


def _forward_to_server(target: Any, watcher: Watcher) -> None:
    """Pass on what the client writes until it ends, or until the server stops reading."""
    if not _forward("->", lambda: _read(0), target.fileno(), watcher):
        # The client must notice that the server has stopped reading, as without the tap.
        _disconnect(0, os.O_RDONLY)
    with contextlib.suppress(OSError):
        target.close()


def _forward_to_client(source: Any, ended: int, watcher: Watcher) -> None:
    """Pass on what the server writes until it ends; processes that it started may keep the pipe open longer."""
    descriptor = source.fileno()
    # If the client stops reading, the server notices when the pipe is closed.
    _forward("<-", lambda: _read(descriptor) if _wait_readable(descriptor, ended) else b"", 1, watcher)
    source.close()
    # The client must see the end now, not after the last lines of the log.
    _disconnect(1, os.O_WRONLY)


def _forward(direction: Direction, read: Callable[[], bytes], target: int, watcher: Watcher) -> bool:
    """Pass on what is read until it ends. Return False if the target cannot be written any more."""
    try:
        # Unbuffered: `read` returns the bytes that have arrived, without waiting for a full chunk.
        while chunk := read():
            watcher.add(direction, chunk)
            _write(target, chunk)
    except OSError as error:
        # One of these: the reader has left.
        if error.errno not in (errno.EPIPE, errno.EIO, errno.ECONNRESET):
            print_error(f"no more bytes are passed on to the {_PEERS[direction]}: {error.strerror}")
        return False
    finally:
        watcher.add(direction, b"")
    return True


def _disconnect(descriptor: int, flags: int) -> None:
    with contextlib.suppress(OSError):
        point_at_null(descriptor, flags)


def _wait_readable(descriptor: int, ended: int) -> bool:
    """Wait for bytes to read. Return False if the server has ended (then `ended` is readable) and left none."""
    if sys.platform == "win32":
        return True
    readable, _, _ = select.select([descriptor, ended], [], [])
    # The server has ended, but its last output may still be in the pipe, and a process that it started may hold the
    # pipe open.
    if descriptor not in readable:
        # After its writer has ended, a pipe without data for this long is considered empty.
        readable, _, _ = select.select([descriptor], [], [], 0.2)
    return bool(readable)


def _read(descriptor: int) -> bytes:
    """Return some bytes, or b"" at the end of the stream."""
    while True:
        try:
            return os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            # Another process made the pipe non-blocking.
            select.select([descriptor], [], [])
        except OSError as error:
            # A terminal that hung up, or a descriptor that is closed.
            if error.errno in (errno.EIO, errno.EBADF):
                return b""
            raise


def _write(descriptor: int, chunk: bytes) -> None:
    left = memoryview(chunk)
    # A pipe may take less than it is given.
    while left:
        left = left[_write_some(descriptor, left) :]


def _write_some(descriptor: int, data: memoryview) -> int:
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            select.select([], [descriptor], [])


def _append(descriptor: int, lines: bytes) -> None:
    """Write lines to a log. If it cannot take all of them, such as on a full disk, no part of a line is left in a file.

    Otherwise the recording could not be read, and the next tap would append its first line to that part.
    """
    left = memoryview(lines)
    try:
        while left:
            left = left[_write_some(descriptor, left) :]
    except OSError:
        written = len(lines) - len(left)
        part = written - (lines.rfind(b"\n", 0, written) + 1)
        if part and descriptor != 2:  # the server writes to stderr, too
            with contextlib.suppress(OSError):  # it is a pipe
                end = os.lseek(descriptor, 0, os.SEEK_CUR)
                if end == os.fstat(descriptor).st_size:  # no other process has appended since
                    os.ftruncate(descriptor, end - part)
        raise


class Watcher:
    """Decodes the messages that were passed on and writes the log, in its own thread."""

    def __init__(self, logs: Logs, framing: Framing, profile: Profile) -> None:
        self.written_lines: int = 0
        self._log: int | None = logs.log
        self._record: int | None = logs.record
        self._payloads = logs.payloads
        self._json = logs.json
        self._coloured = logs.log == 2 and is_coloured(sys.stderr)
        self._channel = sides(framing, profile)
        # Not the sum of what the sides remember: that has a bound, and a closed connection leaves none.
        self._unanswered: dict[Sender, int] = {"client": 0, "server": 0}
        self._waiting: deque[tuple[Side, float, bytes, int, str | Callable[[], str]]] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._ending: str | None = None

    def add(self, place: Direction | Side, chunk: bytes, line: str | Callable[[], str] = "") -> None:
        """Queue a chunk, b"" at the end of a stream; or a line to log that is about something other than a message.

        Called before the chunk is passed on, so that no response comes first. A line that depends on the messages
        before it is a function, which is called when they are decoded; "" is not logged.
        """
        side = self._channel[place] if isinstance(place, str) else place
        now = time.time()
        with self._changed:
            # The end of a stream is always queued: the other side of the conversation waits for it in the log.
            if (chunk or line) and self._waiting_bytes > _WAITING_BYTES:
                side.skipped_bytes += len(chunk)
                return
            # The number of skipped bytes travels with the next chunk, so the log says at the right place that something
            # is missing.
            self._waiting.append((side, now, chunk, side.skipped_bytes, line))
            self._waiting_bytes += len(chunk) + _ENTRY_BYTES
            side.skipped_bytes = 0
            self._changed.notify()

    def finish(self, ending: str) -> None:
        """End the log with a line that gives the reason."""
        with self._changed:
            self._ending = ending
            self._changed.notify()

    def run(self) -> None:
        """Write a line for each message until the server has ended and everything is written."""
        while True:
            with self._changed:
                # Decoding and writing happen outside the lock: `add` runs in the threads that pass the bytes on.
                while not self._waiting and self._ending is None:
                    self._changed.wait()
                if not self._waiting:
                    break
                side, now, chunk, skipped, line = self._waiting.popleft()
                self._waiting_bytes -= len(chunk) + _ENTRY_BYTES
            if line:
                if said := line if isinstance(line, str) else line():
                    self._write(now, side, [({"note": said}, None)])
                continue
            if skipped:
                note = {"note": f"{skipped} bytes are not logged: the log is too slow"}
                self._write(now, side, [(note, None), *[({"note": text}, None) for text in side.skip()]])
            shown = []
            for entry, text in side.entries(now, chunk):
                if entry.get("kind") == "request":
                    self._unanswered[SENDERS[side.direction]] += 1
                elif "ms" in entry:
                    self._unanswered[_PEERS[side.direction]] -= 1
                shown.append((entry, text if self._payloads else None))
                if self._record is not None and text is not None:
                    self._add_to_record(record_line(text, SENDERS[side.direction], time=now, connection=side.number))
            self._write(now, side, shown)
        left = sum(self._unanswered.values())
        numbers = [f"{number} of the {name}" for name, number in self._unanswered.items() if number]
        of = f" ({', '.join(numbers)})" if left else ""
        ending = {"note": f"{self._ending}; requests without a response: {left}{of}"}
        self._write(time.time(), None, [(ending, None)])

    def _add_to_record(self, line: bytes) -> None:
        assert self._record is not None
        try:
            _append(self._record, line)
        except OSError as error:
            self._record = None
            print_error(f"no more messages are recorded: {error.strerror}")

    def _write(self, now: float, side: Side | None, entries: list[tuple[Entry, bytes | None]]) -> None:
        """Write entries, each with the text of its message if that is logged; `side` is None at the end of the log."""
        if self._log is None or not entries:
            return
        line_of = self._json_of if self._json else self._text_of
        try:
            _append(self._log, b"".join([line_of(now, side, entry, text) for entry, text in entries]))
        except BrokenPipeError:
            self._log = None  # the reader of the log has closed it; the messages are still passed on
        except OSError as error:
            self._log = None
            print_error(f"no more messages are logged: {error.strerror}")
        self.written_lines += len(entries)

    def _text_of(self, now: float, side: Side | None, entry: Entry, text: bytes | None) -> bytes:
        clock = time.strftime("%H:%M:%S", time.localtime(now))
        kind, rest = _words_of(entry, side)
        shown = styled(f"{kind}{rest}", _STYLES[kind], self._coloured) if kind in _STYLES else f"{kind}{rest}"
        payload = "" if text is None else f" {_shown_text(text)}"
        direction = "--" if side is None else side.direction
        return f"{clock}.{int(now * 1000) % 1000:03} {direction} {shown}{payload}\n".encode()

    def _json_of(self, now: float, side: Side | None, entry: Entry, text: bytes | None) -> bytes:
        """Return the members of the line of a recording, with those of the entry after them."""
        about = json.dumps(entry, separators=(",", ":"))[1:].encode()
        if text is not None and side is not None:
            line = record_line(text, SENDERS[side.direction], time=now, connection=side.number)
            return line[: -len(b"}\n")] + b"," + about + b"\n"
        place = "" if side is None else f'"connection":{side.number},"from":"{SENDERS[side.direction]}",'
        return f'{{"time":{now:.6f},{place}'.encode() + about + b"\n"


def _words_of(entry: Entry, side: Side | None) -> tuple[str, str]:
    """Return the kind of an entry, and the rest of its line."""
    kind = entry.get("kind")
    size = f" {entry['bytes']} B" if "bytes" in entry else ""
    method = f" {shorten(entry['method'])}" if "method" in entry else ""
    id = f" id={shorten(json.dumps(entry['id'], ensure_ascii=False))}" if "id" in entry else ""
    if kind is None or side is None:
        return "", entry["note"]
    if kind == "batch":
        return kind, f" of {entry['items']}{size}"
    if kind == "invalid":
        return kind, f" from the {SENDERS[side.direction]}{id}{size} {entry['code']}: {entry['reason']}"
    if kind in ("request", "notification"):
        return kind, f"{method}{id}{size}"
    code = f" {entry['code']}" if "code" in entry else ""
    ending = f"{entry['ms']:.1f} ms" if "ms" in entry else f"to no request of the {_PEERS[side.direction]}"
    return kind, f"{code}{method}{id}{size} {ending}"


class Side:
    """One direction: its decoder, and its requests that wait for a response."""

    def __init__(
        self, direction: Direction, framing: Framing, profile: Profile, pending: Pending, called: Pending, number: int
    ) -> None:
        self.direction: Direction = direction
        self.pending: Pending = pending
        self.called: Pending = called  # the requests of the other direction, to which this one responds
        self.number: int = number  # of the conversation in the recording
        self.skipped_bytes: int = 0  # that did not fit in the queue since the last chunk that did
        self._profile = profile
        self._decoder = LocatingDecoder(framing, profile, raw=True)
        self._skips_line = False  # after bytes that are not logged
        self._has_ended = False

    def skip(self) -> list[str]:
        """Continue after skipped bytes at the next line, or never if messages are not lines. Return lines to log."""
        if self._decoder.framing == "newline":
            # The rest of a cut line is not a message. The decoder starts again after the next line break.
            self._skips_line = True
        elif not self._has_ended:
            self._has_ended = True
            return [_LOG_ENDS]
        return []

    def entries(self, now: float, chunk: bytes) -> Iterator[tuple[Entry, bytes | None]]:
        """Yield an entry for each message that ends in a chunk, with its text; b"" is the end of the stream.

        The items of a batch have no separate text, and neither has a message that was not kept as a whole.
        """
        if self._skips_line:
            feed = chunk.find(b"\n")
            if feed < 0:
                return
            chunk = chunk[feed + 1 :]
            self._skips_line = False
            self._decoder = LocatingDecoder("newline", self._profile, raw=True)
        if self._has_ended:
            return
        for frame, item in self._decoder.feed_located(chunk) if chunk else self._decoder.close_located():
            is_whole = frame.text is not None and frame.fault is not ParseErrorCode.MESSAGE_TOO_LARGE
            text = frame.text if is_whole else None
            size = {} if text is None else {"bytes": len(text)}
            if isinstance(item, list):
                yield {"kind": "batch", "items": len(item), **size}, text
                for message in item:
                    yield self._entry(now, message), None
            else:
                yield {**self._entry(now, item), **size}, text
        if self._decoder.ended:
            self._has_ended = True
            yield {"note": _LOG_ENDS}, None

    def _entry(self, now: float, message: Request | Notification | Response | ParseError) -> Entry:
        if isinstance(message, Request):
            self.pending[id_key(message.id)] = now, message.method
            # A peer that never responds must not fill the memory of the tap: the oldest call is forgotten.
            if len(self.pending) > 4096:
                self.pending.popitem(last=False)
            return {"kind": "request", "method": message.method, "id": message.id}
        if isinstance(message, Notification):
            return {"kind": "notification", "method": message.method}
        if isinstance(message, ParseError):
            id = {} if message.id is None else {"id": message.id}
            return {"kind": "invalid", **id, "code": message.code.name, "reason": message.message}
        kind = {"kind": "result"} if message.error is None else {"kind": "error", "code": message.error.code}
        called, method = self.called.pop(id_key(message.id), (None, ""))
        call = {} if called is None else {"method": method, "ms": round((now - called) * 1000, 3)}
        return {**kind, "id": message.id, **call}


def sides(
    framing: Framing, profile: Profile, requests: tuple[Pending, Pending] | None = None, number: int = 1
) -> dict[Direction, Side]:
    """Return both directions between a client and a server, or of one HTTP request of a conversation."""
    ours, theirs = requests or (OrderedDict(), OrderedDict())
    return {
        "->": Side("->", framing, profile, ours, theirs, number),
        "<-": Side("<-", framing, profile, theirs, ours, number),
    }


def _shown_text(text: bytes) -> str:
    """Return the text of a message on one line, without control characters."""
    return escape(" ".join(text.decode("utf-8", "backslashreplace").splitlines()))
