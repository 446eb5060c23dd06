"""The command `check`: validate streams of messages and count messages and faults."""

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
from typing import Any, Final, get_args

from ..codec import Message, Notification, ParseError, Request
from ..codec.located import LocatingDecoder
from ..codes import ParseErrorCode
from ..framing.frames import Frame
from ..profile import PRESETS
from ..types import Kind
from .output import FAILURE, INVALID, SUCCESS, print_error, printable

_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_CHUNK_BYTES: Final = 256 * 1024
_BAR_BYTES: Final = 8 * 1024 * 1024  # the progress bar is shown after this much input
_BAR_SECONDS: Final = 2.0  # or after this time


def run(options: argparse.Namespace) -> int:
    """Run the command. Return the exit status."""
    files = options.files or ["-"]
    with contextlib.closing(_Progress(files)) as progress:
        return max([_check_file(file, options, progress) for file in files])


def _check_file(file: str, options: argparse.Namespace, progress: _Progress) -> int:
    """Print the faults and the summary of one file. Return the exit status for it."""
    report = _Report(file, options, progress)
    decoder = LocatingDecoder(options.framing, PRESETS[options.profile])
    for chunk in _read(file):
        if isinstance(chunk, OSError):
            progress.clear()
            print_error(f"cannot read {printable(file)}: {chunk.strerror}")
            return FAILURE
        for frame, item in decoder.feed_located(chunk):
            report.add(frame, item)
        progress.advance(len(chunk))
        print(end="", flush=True)  # slow input: show what was found at once
        if decoder.ended:
            break
    for frame, item in decoder.close_located():
        report.add(frame, item)
    report.close()
    return INVALID if report.counts["invalid"] else SUCCESS


def _read(file: str) -> Iterator[bytes | OSError]:
    """Yield the bytes of a file, or of standard input for "-"; finally the OSError, if reading failed."""
    try:
        with open(0 if file == "-" else file, "rb", buffering=0, closefd=file != "-") as stream:
            while (chunk := stream.read(_CHUNK_BYTES)) != b"":
                if chunk is None:  # another process made the pipe non-blocking, and it is empty
                    select.select([stream], [], [])
                else:
                    yield chunk
    except OSError as error:
        yield error


class _Report:
    """Counts the messages of one file, and prints the first faults at once.

    Attributes:
        counts: The number of messages of each kind, "invalid" included.
        faults: The number of invalid messages of each code.
    """

    def __init__(self, file: str, options: argparse.Namespace, progress: _Progress) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: Counter[ParseErrorCode] = Counter()
        self._file = file
        self._options = options
        self._progress = progress

    def add(self, frame: Frame, item: Message | list[Message]) -> None:
        """Count what was decoded from a frame, and show its faults."""
        if isinstance(item, list):
            self.counts["batch"] += 1
            for message in item:
                self._add(frame, message)
        else:
            self._add(frame, item)

    def close(self) -> None:
        """Print the summary."""
        self._progress.clear()
        if self._options.json:
            counts = {kind: self.counts[kind] for kind in _KINDS}
            faults = {code.name: self.faults[code] for code in ParseErrorCode if self.faults[code]}
            summary = {"profile": self._options.profile, "counts": counts, "faults": faults}
            print(json.dumps({"type": "summary", "file": _json_text(self._file), **summary}))
            return
        name = printable(self._file)
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
        offset = self._offset_of(fault, frame)
        if self._options.json:
            place = {"line": frame.line, "offset": offset, "index": fault.index}
            what = {"code": fault.code.name, "message": fault.message}
            print(json.dumps({"type": "fault", "file": _json_text(self._file), **place, **what}))
        else:
            line = "" if frame.line is None else f"{frame.line}:"
            item = "" if fault.index is None else f", item {fault.index}"
            print(f"{printable(self._file)}:{line} byte {offset}{item}: {fault.code.name}: {fault.message}")

    def _offset_of(self, fault: ParseError, frame: Frame) -> int:
        """Return the byte of the file at which a fault is, or at which its message begins."""
        offset = fault.offset or 0
        # The lines of an event are joined: the text does not show where the second one begins in the file.
        if self._options.framing == "sse" and b"\n" in (frame.text or b"")[:offset]:
            return frame.offset
        return frame.offset + offset


class _Progress:
    """A progress bar on stderr, if that is a terminal and the run is long enough."""

    def __init__(self, files: Sequence[str]) -> None:
        # Not while the user types the input: the bar would overwrite it.
        typed = "-" in files and os.isatty(0)
        self._wanted = not typed and sys.stderr is not None and sys.stderr.isatty()
        self._total = _total_bytes(files) if self._wanted else None
        self._bytes = 0
        self._started = time.monotonic()
        self._bar: Any = None

    def advance(self, count: int) -> None:
        """Count `count` more bytes as read."""
        self._bytes += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._wanted and (self._bytes >= _BAR_BYTES or time.monotonic() - self._started >= _BAR_SECONDS):
            self._begin()

    def clear(self) -> None:
        """Remove the bar from the line before something else is printed."""
        if self._bar is not None:
            self._bar.clear()

    def close(self) -> None:
        """Remove the bar for good."""
        if self._bar is not None:
            self._bar.close()

    def _begin(self) -> None:
        try:
            # By name: type checkers may have no stubs of this optional library.
            tqdm = importlib.import_module("tqdm")
        except ImportError:
            print_error("no progress bar; install the extra: pip install 'jsonrpc_fast[cli]'")
            self._wanted = False
            return
        size = {"total": self._total, "initial": self._bytes}
        self._bar = tqdm.tqdm(**size, unit="B", unit_scale=True, leave=False, file=sys.stderr)


def _total_bytes(files: Sequence[str]) -> int | None:
    """Return the size of all input; None if unknown, as for a pipe."""
    try:
        statuses = [os.stat(0 if file == "-" else file) for file in files]
    except OSError:
        return None
    if not all(stat.S_ISREG(status.st_mode) for status in statuses):
        return None
    return sum([status.st_size for status in statuses])


def _json_text(name: str) -> str:
    """Return a file name with escapes for bytes that are not valid in JSON."""
    return name.encode(errors="backslashreplace").decode()
