"""The command line: `jsonrpc-fast`, or `python -m jsonrpc_fast`.

It shows nothing of what it reads but counts, places and the fixed texts of the faults: no payload, no id.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import json
import os
import platform
import select
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from . import serve
from ._json import ORJSON_VERSION
from ._located import LocatingDecoder
from ._version import __version__
from .codec import BACKEND, CORE_FAULT, Notification, ParseError, Request
from .codes import ParseErrorCode
from .framing import FRAMINGS, Frame, Framing
from .kinds import Kind
from .profile import PRESETS, Profile

if TYPE_CHECKING:
    from ._pure import Message

_VALID: Final = 0
_INVALID: Final = 1
_USAGE: Final = 2
_INTERRUPTED: Final = 130
_CLOSED_OUTPUT: Final = 141  # what a shell shows for a process that SIGPIPE ended

_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_CHUNK_BYTES = 256 * 1024
_BAR_BYTES = 8 * 1024 * 1024
_BAR_SECONDS = 2.0

_DESCRIPTION: Final = "Checks JSON-RPC 2.0 messages, watches a server at work, and shows how this package is set up."
_INFO: Final = "Shows the versions, the backend (and why it is not the compiled core), and the rules of the profiles."
_CHECK: Final = """\
Validates streams of JSON-RPC messages. For each file it shows the first faults, each with its line (from 1) where
messages are lines, its byte in the file (from 0) and its item in a batch (from 0), and then the number of messages of
each kind and of faults of each code. Each item of a batch counts, and the batch itself once. Nothing that the messages
hold is ever shown. Headers that leave no way to the next message are the last that is read of a file.
"""
_TAP: Final = """\
Runs a server that speaks on its standard input and output, between it and its client: put it before the server's
command where the client is told that command. Every byte is passed on as it comes, in both directions. For each
message one line is written to standard error, or to a file: the time, -> for the client's and <- for the server's,
the kind, the method, the id, the size, how long an answer took, and faults. Payloads are never shown. The server's own
standard error stays as it is.
"""
_TAP_STATUS: Final = """\
exit status:
  that of the command; 128 and the signal's number where a signal ended it
  2    the command line is wrong, or the log cannot be written
  126  the command cannot be run
  127  there is no such command
"""
_EXIT_STATUS: Final = """\
exit status:
  0    every message is valid
  1    a message is invalid
  2    the command line is wrong, a file cannot be read or the output cannot be written
  130  interrupted
  141  the reader of the output went away
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line `arguments`, which are the process's own if None. Returns the exit status."""
    try:
        status = _run(arguments)
        print(end="", flush=True)
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except BrokenPipeError:
        status = _CLOSED_OUTPUT
    except OSError as error:
        _complain(f"cannot write: {error.strerror}")
        status = _USAGE
    _forsake_closed_outputs()
    return status


def _run(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    tapped: list[str] = []
    if arguments[:1] == ["tap"] and "--" in arguments:
        # What follows is not this parser's, whatever it looks like.
        split = arguments.index("--")
        arguments, tapped = arguments[:split], arguments[split + 1 :]
    try:
        options = parser.parse_args(arguments)
        if options.command == "tap" and not tapped:
            options.parser.error("it needs a command to run, after --")
    except SystemExit as exit:
        return int(exit.code or 0)
    if options.command == "tap":
        return _tap(options, tapped)
    if options.command == "serve":
        return serve.run(options)
    if options.command == "check":
        return _check(options)
    if options.command == "info":
        return _info(options)
    parser.print_help(sys.stderr)
    return _USAGE


def _parser() -> argparse.ArgumentParser:
    layout: dict[str, Any] = {"epilog": _EXIT_STATUS, "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(prog="jsonrpc-fast", description=_DESCRIPTION, **layout)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")

    check = commands.add_parser("check", help="validate streams of messages", description=_CHECK, **layout)
    _add_rules(check, "newline")
    files = "what to read; - or no name at all stands for standard input"
    check.add_argument("files", nargs="*", metavar="FILE", help=files)
    faults = "faults to show for each file (default: %(default)s; 0 for none)"
    check.add_argument("--max-faults", type=_natural, default=10, metavar="N", help=faults)
    check.add_argument("--json", action="store_true", help="one JSON object a line, for each fault and each summary")

    tap = commands.add_parser(
        "tap",
        help="watch the messages between a server and its client",
        description=_TAP,
        usage="jsonrpc-fast tap [options] -- COMMAND ...",
        **{**layout, "epilog": _TAP_STATUS},
    )
    tap.set_defaults(parser=tap)
    _add_rules(tap, "auto")
    tap.add_argument(
        "--log", metavar="FILE", help="where the lines go; they are put at its end (default: standard error)"
    )

    serve.add_parser(commands)

    info = commands.add_parser("info", help="show versions, backend and profiles", description=_INFO, **layout)
    info.add_argument("--json", action="store_true", help="one JSON object")
    return parser


def _add_rules(command: argparse.ArgumentParser, framing: Framing) -> None:
    profiles = f"the protocol whose rules hold: {', '.join(PRESETS)} (default: %(default)s); `info` shows the rules"
    command.add_argument("--profile", choices=PRESETS, default="jsonrpc", metavar="NAME", help=profiles)
    framings = (
        "how messages are told apart: newline, a message a line; content-length, headers as language servers have "
        "them; sse, the data of server-sent events; auto, one of the first two (default: %(default)s)"
    )
    command.add_argument("--framing", choices=FRAMINGS, default=framing, help=framings)


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError("must be a whole number, 0 or more")
    return int(text)


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


def _tap(options: argparse.Namespace, command: list[str]) -> int:
    # Only here: the other commands need none of what it imports.
    from .tap import CannotRun, fill_standard_descriptors, tap

    fill_standard_descriptors()
    log = 2
    try:
        if options.log is not None:
            log = os.open(options.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        return tap(command, log, options.framing, PRESETS[options.profile])
    except CannotRun as error:
        _complain(f"cannot run {_printable(command[0])}: {error}")
        return error.status
    except OSError as error:
        _complain(f"cannot write {_printable(options.log)}: {error.strerror}")
        return _USAGE
    finally:
        if log != 2:
            os.close(log)


def _info(options: argparse.Namespace) -> int:
    """Prints what is installed and what the profiles are."""
    facts = {
        "version": __version__,
        "backend": BACKEND,
        "core_fault": CORE_FAULT,
        "orjson": ORJSON_VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    profiles = {name: _rules(profile) for name, profile in PRESETS.items()}
    if options.json:
        print(json.dumps({**facts, "profiles": profiles}))
        return _VALID
    for name, fact in facts.items():
        if fact is not None:
            print(f"{name:<10}  {fact}")
    print()
    for line in _table(profiles):
        print(line)
    return _VALID


def _rules(profile: Profile) -> dict[str, str | int]:
    """The fields of a profile and of its limits."""
    rules = dataclasses.asdict(profile)
    limits = rules.pop("limits")
    del rules["name"]
    return {**rules, **limits}


def _table(profiles: dict[str, dict[str, str | int]]) -> Iterator[str]:
    """A table of the rules that differ between profiles, then the other rules, as lines."""
    # "mcp-2025-11-25" would make the table too wide: it stands in three lines.
    names = [name.split("-", 2) for name in profiles]
    height = max(map(len, names))
    rows = list(zip(*[[""] * (height - len(parts)) + parts for parts in [["profile"], *names]], strict=True))
    same = []
    for rule in _rules(Profile()):
        values = [_shown(rules[rule]) for rules in profiles.values()]
        if len(set(values)) == 1:
            same.append(f"{rule} {values[0]}")
        else:
            rows.append((rule, *values))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]).rstrip()
    yield ""
    yield f"the same in all: {', '.join(same)}"


def _shown(value: str | int) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _text(name: str) -> str:
    """A file's name as text that JSON can hold: bytes that are no text in escapes."""
    return name.encode(errors="backslashreplace").decode()


def _printable(name: str) -> str:
    """A file's name for people: what does not print, or what the output has no character for, in escapes."""
    escaped = "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in name])
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return escaped.encode(encoding, "backslashreplace").decode(encoding)


def _complain(text: str) -> None:
    # Nobody is left to be told that this output is closed.
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"jsonrpc-fast: {text}", file=sys.stderr)


def _forsake_closed_outputs() -> None:
    """Points an output that cannot be written at nothing: the interpreter flushes once more, and would complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)
