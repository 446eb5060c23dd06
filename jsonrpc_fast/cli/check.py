"""`check`: validate streams of messages and count what is in them."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import select
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from ..codec import Notification, ParseError, Request
from ..codec.located import LocatingDecoder
from ..codes import ParseErrorCode
from ..framing.frames import Frame
from ..profile import PRESETS
from ..types import Kind
from .output import _INVALID, _USAGE, _VALID, _complain

if TYPE_CHECKING:
    from ..codec._pure import Message


_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


_CHUNK_BYTES = 256 * 1024


_BAR_BYTES = 8 * 1024 * 1024


_BAR_SECONDS = 2.0


def _check(options: argparse.Namespace) -> int:
    files = options.files or ["-"]
    with contextlib.closing(_Progress(files)) as progress:
        return max([_check_file(file, options, progress) for file in files])


def _check_file(file: str, options: argparse.Namespace, progress: _Progress) -> int:
    """Prints the faults and the summary of one file. Returns the exit status that it asks for."""
    report = _Report(file, options, progress)
    decoder = LocatingDecoder(options.framing, PRESETS[options.profile])
    for chunk in _read(file):
        if isinstance(chunk, OSError):
            progress.clear()
            _complain(f"cannot read {_printable(file)}: {chunk.strerror}")
            return _USAGE
        for frame, item in decoder.feed_located(chunk):
            report.add(frame, item)
        progress.advance(len(chunk))
        print(end="", flush=True)  # slow input: what was found is seen at once
        if decoder.ended:
            break
    for frame, item in decoder.close_located():
        report.add(frame, item)
    report.close()
    return _INVALID if report.counts["invalid"] else _VALID


def _read(file: str) -> Iterator[bytes | OSError]:
    """The bytes of a file, or of standard input for "-", as they come; the last item may be why there are no more."""
    try:
        with open(0 if file == "-" else file, "rb", buffering=0, closefd=file != "-") as stream:
            while (chunk := stream.read(_CHUNK_BYTES)) != b"":
                if chunk is None:  # the other end of a pipe made it non-blocking: nothing is there yet
                    select.select([stream], [], [])
                else:
                    yield chunk
    except OSError as error:
        yield error


class _Report:
    """What is found in one file: counts it, and prints the first faults at once.

    counts  messages by kind, "invalid" being one
    faults  invalid messages by code
    """

    def __init__(self, file: str, options: argparse.Namespace, progress: _Progress) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: Counter[ParseErrorCode] = Counter()
        self._file = file
        self._options = options
        self._progress = progress

    def add(self, frame: Frame, item: Message | list[Message]) -> None:
        """Takes what was decoded from a frame."""
        if isinstance(item, list):
            self.counts["batch"] += 1
            for message in item:
                self._add(frame, message)
        else:
            self._add(frame, item)

    def close(self) -> None:
        """Prints the summary."""
        self._progress.clear()
        if self._options.json:
            counts = {kind: self.counts[kind] for kind in _KINDS}
            faults = {code.name: self.faults[code] for code in ParseErrorCode if self.faults[code]}
            summary = {"profile": self._options.profile, "counts": counts, "faults": faults}
            print(json.dumps({"type": "summary", "file": _text(self._file), **summary}))
            return
        name = _printable(self._file)
        if 0 < self._options.max_faults < self.counts["invalid"]:
            print(f"{name}: {self.counts['invalid'] - self._options.max_faults} more faults not shown")
        print(f"{name}: {', '.join([f'{kind} {self.counts[kind]}' for kind in _KINDS])}")
        for code in ParseErrorCode:
            if self.faults[code]:
                print(f"{name}: {code.name} {self.faults[code]}")

    def _add(self, frame: Frame, message: Message) -> None:
        if isinstance(message, Request):
            self.counts["request"] += 1
        elif isinstance(message, Notification):
            self.counts["notification"] += 1
        elif isinstance(message, ParseError):
            self.counts["invalid"] += 1
            self.faults[message.code] += 1
            if self.counts["invalid"] <= self._options.max_faults:
                self._show(frame, message)
        else:
            self.counts["error" if message.is_error else "result"] += 1

    def _show(self, frame: Frame, fault: ParseError) -> None:
        self._progress.clear()
        offset = self._place_of(fault, frame)
        if self._options.json:
            place = {"line": frame.line, "offset": offset, "index": fault.index}
            what = {"code": fault.code.name, "message": fault.message}
            print(json.dumps({"type": "fault", "file": _text(self._file), **place, **what}))
        else:
            line = "" if frame.line is None else f"{frame.line}:"
            item = "" if fault.index is None else f", item {fault.index}"
            print(f"{_printable(self._file)}:{line} byte {offset}{item}: {fault.code.name}: {fault.message}")

    def _place_of(self, fault: ParseError, frame: Frame) -> int:
        """The byte of the file at which a fault is, or at which its message begins."""
        offset = fault.offset or 0
        # An event's lines are joined: where in the file the second one begins cannot be told from the text.
        if self._options.framing == "sse" and b"\n" in (frame.text or b"")[:offset]:
            return frame.offset
        return frame.offset + offset


class _Progress:
    """A bar on standard error for the run, where that is a terminal and there is enough to wait for."""

    def __init__(self, files: Sequence[str]) -> None:
        # Not where the input is typed: the bar would be drawn over it.
        typed = "-" in files and os.isatty(0)
        self._wanted = not typed and sys.stderr is not None and sys.stderr.isatty()
        self._total = _total_bytes(files) if self._wanted else None
        self._bytes = 0
        self._started = time.monotonic()
        self._bar: Any = None

    def advance(self, count: int) -> None:
        """Notes that `count` bytes more are done."""
        self._bytes += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._wanted and (self._bytes >= _BAR_BYTES or time.monotonic() - self._started >= _BAR_SECONDS):
            self._begin()

    def clear(self) -> None:
        """Takes the bar off the line, for what is printed next."""
        if self._bar is not None:
            self._bar.clear()

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()

    def _begin(self) -> None:
        try:
            # By name, for type checkers that have no stubs of an optional library.
            tqdm = importlib.import_module("tqdm")
        except ImportError:
            _complain("no progress bar: it needs the extra jsonrpc_fast[cli]")
            self._wanted = False
            return
        size = {"total": self._total, "initial": self._bytes}
        self._bar = tqdm.tqdm(**size, unit="B", unit_scale=True, leave=False, file=sys.stderr)


def _total_bytes(files: Sequence[str]) -> int | None:
    """How much there is to read; None where that cannot be known, as of a pipe."""
    try:
        statuses = [os.stat(0 if file == "-" else file) for file in files]
    except OSError:
        return None
    if not all(stat.S_ISREG(status.st_mode) for status in statuses):
        return None
    return sum([status.st_size for status in statuses])


def _text(name: str) -> str:
    """A file's name as text that JSON can hold: bytes that are no text in escapes."""
    return name.encode(errors="backslashreplace").decode()


def _printable(name: str) -> str:
    """A file's name for people: what does not print, or what the output has no character for, in escapes."""
    escaped = "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in name])
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return escaped.encode(encoding, "backslashreplace").decode(encoding)
