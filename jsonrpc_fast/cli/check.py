"""The command `check`: validate streams of messages and count messages and faults."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import re
import select
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, get_args, get_type_hints

from ..codec import Decoder, Notification, ParseError, Request, Response, decode
from ..codec.located import ItemBlock, Located, LocatingDecoder
from ..codes import Hint, ParseErrorCode
from ..framing import FRAMINGS, Frame, FrameReader, Framing, looks_like
from ..profile import CLIENT, LSP, PRESETS, Profile
from ..testing.recordings import is_recording, read_recording
from ..types import Classification
from .output import (
    Status,
    cannot_read,
    escape,
    input_files,
    is_coloured,
    open_input,
    print_error,
    printable_name,
    styled,
)

_KINDS: Final[tuple[str, ...]] = get_args(get_type_hints(Classification)["kind"])
FILE_CHUNK_BYTES: Final = 256 * 1024
_FIRST_BYTES: Final = 4096  # most first messages fit

# Byte order marks and signatures of files that are not UTF-8, with a name and a command that converts them.
# The last two have no mark: JSON begins with a bracket, whose other byte is NUL in UTF-16.
_ENCODINGS: Final = (
    (re.compile(rb"\x1f\x8b"), "compressed with gzip", "gzip -dc FILE"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "compressed with zstd", "zstd -dc FILE"),
    (re.compile(rb"\xfd7zXZ\0"), "compressed with xz", "xz -dc FILE"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "compressed with bzip2", "bzip2 -dc FILE"),
    (re.compile(rb"\xff\xfe|\xfe\xff"), "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE"),
    (re.compile(rb"[\[{]\0"), "UTF-16", "iconv -f UTF-16LE -t UTF-8 FILE"),
    (re.compile(rb"\0[\[{]"), "UTF-16", "iconv -f UTF-16BE -t UTF-8 FILE"),
)


def run(options: argparse.Namespace) -> int:
    """Run the command. Return the exit status."""
    files = input_files(options)
    with contextlib.closing(_Progress(files)) as progress:
        return max([_check_file(file, options, progress) for file in files])


def _check_file(file: str, options: argparse.Namespace, progress: _Progress) -> int:
    """Print the faults and the summary of one file. Return the exit status for it."""
    report = _Report(file, options, progress)
    profile = PRESETS[options.profile]
    decoder: LocatingDecoder | _RecordingDecoder = LocatingDecoder(options.framing or "newline", profile, raw=False)
    suggestions = _Suggestions(options.framing or "newline") if options.suggest else None
    is_first, has_bytes = True, False
    for chunk in _read(file):
        if isinstance(chunk, OSError):
            progress.clear()
            return cannot_read(file, chunk)
        # Advice comes before counting: in the wrong framing, each line of a file would be a fault.
        if is_first and (advice := advice_on(chunk, options.framing, profile, "| jsonrpc-fast check")):
            progress.clear()
            return cannot_read(file, ValueError(advice))
        if is_first and options.framing is None and is_recording(chunk):
            decoder = _RecordingDecoder(profile, suggestions)
        is_first, has_bytes = False, has_bytes or bool(chunk)
        for block in decoder.feed_blocks(chunk):
            report.add(block)
        if suggestions is not None and not isinstance(decoder, _RecordingDecoder):
            suggestions.feed(chunk)
        progress.advance(len(chunk))
        print(end="", flush=True)  # with slow input, show faults at once
        if decoder.ended:
            break
    report.add(ItemBlock.of(decoder.close_located()))
    if not report.counts.total():
        progress.clear()
        print_error(f"{escape(file)} has no message{'' if has_bytes else ': it is empty'}")
        return Status.WRONG
    report.close(suggestions)
    return Status.FAILED if report.counts["invalid"] else Status.SUCCESS


def advice_on(start: bytes, framing: Framing | None, profile: Profile, reader: str) -> str:
    """Return advice for a file that is evidently not a stream of messages in this framing; "" for any other file.

    Args:
        start: The beginning of the file.
        framing: The framing that was asked for; None: the advice may name one.
        profile: The rules for messages.
        reader: What follows, in a shell, after a command that writes the contents of the file as text.
    """
    # Checked before other binary data: compressed data is binary, too, but this advice says what to do.
    for beginning, what, program in _ENCODINGS:
        if beginning.match(start):
            return f"it is {what}; read it with: {program} {reader}"
    # pcap in both orders of bytes, with micro- and nanoseconds, and pcapng.
    if re.match(rb"\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x4d\x3c\xb2\xa1|\xa1\xb2\x3c\x4d|\x0a\x0d\x0d\x0a", start):
        return "it is a capture of packets; write its TCP streams to files, and read those: tcpflow -r FILE"
    # Control characters that no JSON text contains.
    if re.match(rb"[^\s\[{](?:[^\n]*[\0-\x06\x0e-\x1a]|[\0-\xff]{0,1000}?\0)", start[:_FIRST_BYTES].lstrip()):
        return "it is a binary file, not a stream of messages"
    if looks_like(start) is Hint.CONTENT_LENGTH_FRAMING and _is_dap(start):
        return "it has messages of the Debug Adapter Protocol, not of JSON-RPC; framing.FrameReader reads them"
    other = _other_framing(start, profile) if framing is None else None
    return "" if other is None else f"{FRAMINGS[other].sign}; read it with --framing {other}"


def _other_framing(start: bytes, profile: Profile) -> Framing | None:
    """Return the framing in which a file's first message is valid, if that is evidently not newline framing."""
    framing: Framing
    match looks_like(start):
        case Hint.NEWLINE_FRAMING:
            ends = {name: row.delimiter for name, row in FRAMINGS.items() if row.delimiter.strip()}
            framing = next((name for name, end in ends.items() if end in start), "concatenated")
            # A bracket on a line of its own, even if the rest is invalid.
            if framing == "concatenated" and re.match(rb"\s*[\[{][ \t]*\r?\n", start):
                return framing
        case Hint.CONTENT_LENGTH_FRAMING:
            framing = "content-length"
        case Hint.SSE_FRAMING:
            framing = "sse"
        case _:
            return None
    for size in (_FIRST_BYTES, len(start)):  # short first: a decoder splits all of its input
        for frame, item in LocatingDecoder(framing, profile, raw=False).feed_located(start[:size]):
            has_lines = framing != "concatenated" or b"\n" in (frame.text or b"").strip()
            return framing if has_lines and not isinstance(item, ParseError) else None
    return None


def _is_dap(start: bytes) -> bool:
    """Return whether the first message is one of the Debug Adapter Protocol, which shares the framing of LSP."""
    for frame in FrameReader("content-length").feed(start):
        try:
            message = json.loads(frame.text or b"")
        except ValueError:
            return False
        return isinstance(message, dict) and {"seq", "type"} <= message.keys() and "jsonrpc" not in message
    return False


def _read(file: str) -> Iterator[bytes | OSError]:
    """Yield the bytes of a file, or of standard input for "-"; finally the OSError, if reading failed."""
    try:
        # Unbuffered, so that `read` returns the data in a slow pipe, without waiting for a whole chunk.
        with open_input(file, 0) as stream:
            while (chunk := stream.read(FILE_CHUNK_BYTES)) != b"":
                if chunk is None:  # another process made the pipe non-blocking, and it is empty
                    select.select([stream], [], [])
                else:
                    yield chunk
    except OSError as error:
        yield error


class _RecordingDecoder:
    """Reads the messages in the lines of a recording. It has the methods of a `LocatingDecoder` that `check` calls.

    A line that is none of a recording is read as a message.
    """

    ended: Final = False

    def __init__(self, profile: Profile, suggestions: _Suggestions | None) -> None:
        self._lines = FrameReader("newline")
        self._profile = profile
        self._suggestions = suggestions

    def feed_blocks(self, data: bytes) -> Iterator[ItemBlock]:
        yield ItemBlock.of(self._located(self._lines.feed(data)))

    def close_located(self) -> Iterator[Located]:
        return self._located(self._lines.close())

    def _located(self, frames: list[Frame]) -> Iterator[Located]:
        for frame in frames:
            text = line = frame.text or b""
            with contextlib.suppress(ValueError):
                for recorded in read_recording(io.BytesIO(line)):
                    found = recorded.message
                    text = json.loads(line)["invalid"].encode() if found is None else bytes(found)
            if self._suggestions is not None:
                self._suggestions.feed(text + b"\n")
            yield frame._replace(offset=frame.offset + max(0, line.find(text))), decode(text, self._profile)


class _Suggestions:
    """Finds the first of `PRESETS`, for headers LSP and then the others, under which a stream has no fault."""

    def __init__(self, framing: Framing) -> None:
        names = sorted(PRESETS, key=lambda name: framing != "content-length" or name != LSP.name)
        self._decoders = {name: Decoder(framing, PRESETS[name], raw=True) for name in names}
        self.refused: ParseError | None = None  # the first fault under CLIENT, which accepts most

    def feed(self, data: bytes) -> None:
        self._decoders = {
            name: decoder for name, decoder in self._decoders.items() if self._accepts(name, decoder.feed(data))
        }

    def close(self) -> str | None:
        """Return the name of the preset; None if there is none."""
        return next((name for name, decoder in self._decoders.items() if self._accepts(name, decoder.close())), None)

    def _accepts(self, name: str, items: list[Any]) -> bool:
        for item in items:
            for each in item if type(item) is list else (item,):
                if type(each) is ParseError:
                    if name == CLIENT.name:
                        self.refused = each
                    return False
        return True


class _Report:
    """Counts the messages of one file, and prints the first faults at once."""

    def __init__(self, file: str, options: argparse.Namespace, progress: _Progress) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: Counter[ParseErrorCode] = Counter()
        self._file = file
        self._options = options
        self._progress = progress
        self._coloured = not options.json and is_coloured(sys.stdout)

    def add(self, block: ItemBlock) -> None:
        """Count the messages of a block, and show its faults."""
        kinds, messages = block.kinds, block.items
        if batches := kinds.pop(list, 0):
            self.counts["batch"] += batches
            messages = list(chain.from_iterable(item if type(item) is list else (item,) for item in messages))
            kinds = Counter(map(type, messages))
        # Counted by class, because a loop over the messages would take longer than decoding them.
        self.counts["request"] += kinds[Request]
        self.counts["notification"] += kinds[Notification]
        if kinds[Response]:
            errors = [message.is_error for message in messages if type(message) is Response].count(True)
            self.counts["error"] += errors
            self.counts["result"] += kinds[Response] - errors
        for frame, item in block.faults:
            for message in item if isinstance(item, list) else [item]:
                if isinstance(message, ParseError):
                    self.counts["invalid"] += 1
                    self.faults[message.code] += 1
                    if self.counts["invalid"] <= self._options.max_faults:
                        self._show(frame, message)

    def close(self, suggestions: _Suggestions | None) -> None:
        """Print the summary."""
        self._progress.clear()
        if self._options.json:
            if not self._options.quiet:
                self._print_json(suggestions)
            return
        if suggestions is not None:
            preset = suggestions.close()
            advice = f"valid with --profile {preset}"
            if preset is None:
                advice = "no preset accepts all messages"
                if suggestions.refused is not None:
                    advice += f": client refuses {suggestions.refused.code.name}"
            print(f"{escape(self._file)}: {advice}")
        if self._options.quiet:
            return
        name = escape(self._file)
        if 0 < self._options.max_faults < self.counts["invalid"]:
            left = self.counts["invalid"] - self._options.max_faults
            print(f"{name}: {left} more faults not shown: --max-faults all shows them")
        counts = ", ".join([f"{kind} {self.counts[kind]}" for kind in _KINDS[:-1]])
        invalid = f"invalid {self.counts['invalid']}"
        print(f"{name}: {counts}, {styled(invalid, 'red', self._coloured and self.counts['invalid'] > 0)}")
        for code in ParseErrorCode:
            if self.faults[code]:
                print(f"{name}: {code.name} {self.faults[code]}")

    def _print_json(self, suggestions: _Suggestions | None) -> None:
        counts = {kind: self.counts[kind] for kind in _KINDS}
        faults = {code.name: self.faults[code] for code in ParseErrorCode if self.faults[code]}
        shown = min(self.counts["invalid"], self._options.max_faults)
        summary = {"profile": self._options.profile, "counts": counts, "faults": faults, "shown": shown}
        if suggestions is not None:
            summary["suggested"] = suggestions.close()
        print(json.dumps({"type": "summary", "file": printable_name(self._file), **summary}))

    def _show(self, frame: Frame, fault: ParseError) -> None:
        self._progress.clear()
        offset = self._offset_of(fault, frame)
        if self._options.json:
            where = {"line": frame.line, "offset": offset, "index": fault.index}
            what = {"code": fault.code.name, "message": fault.message}
            print(json.dumps({"type": "fault", "file": printable_name(self._file), **where, **what}))
        else:
            line = "" if frame.line is None else f"{frame.line}:"
            item = "" if fault.index is None else f", item {fault.index}"
            place = styled(f"{escape(self._file)}:{line}", "bold", self._coloured)
            code = styled(fault.code.name, "red", self._coloured)
            print(f"{place} byte {offset}{item}: {code}: {fault.message}")

    def _offset_of(self, fault: ParseError, frame: Frame) -> int:
        """Return the offset of a fault in the file, or that of its message."""
        offset = fault.offset or 0
        # The lines of an event are joined, so the text does not show where in the file the second one begins.
        if self._options.framing == "sse" and b"\n" in (frame.text or b"")[:offset]:
            return frame.offset
        return frame.offset + offset


class _Progress:
    """A progress bar on stderr, if that is a terminal and the run is long enough."""

    def __init__(self, files: Sequence[str]) -> None:
        # Not while the user is typing the input, which the bar would overwrite.
        typed = "-" in files and os.isatty(0)
        self._wanted = not typed and sys.stderr is not None and sys.stderr.isatty()
        self._total = _total_bytes(files) if self._wanted else None
        self._bytes = 0
        self._started = time.monotonic()
        self._bar: Any = None

    def advance(self, count: int) -> None:
        """Record that `count` more bytes were read."""
        self._bytes += count
        if self._bar is not None:
            self._bar.update(count)
        elif self._wanted and (self._bytes >= 8 * 1024 * 1024 or time.monotonic() - self._started >= 2.0):
            self._begin()

    def clear(self) -> None:
        """Remove the bar from the line before something else is printed."""
        if self._bar is not None:
            self._bar.clear()

    def close(self) -> None:
        """Remove the bar permanently."""
        if self._bar is not None:
            self._bar.close()

    def _begin(self) -> None:
        try:
            # Imported by name: type checkers may have no stubs for this optional library.
            tqdm = importlib.import_module("tqdm")
        except ImportError:
            print_error("no progress bar; install the extra: pip install 'jsonrpc_fast[cli]'")
            self._wanted = False
            return
        size = {"total": self._total, "initial": self._bytes}
        self._bar = tqdm.tqdm(**size, unit="B", unit_scale=True, leave=False, file=sys.stderr)


def _total_bytes(files: Sequence[str]) -> int | None:
    """Return the total size of the input; None if unknown, as for a pipe."""
    try:
        statuses = [os.stat(0 if file == "-" else file) for file in files]
    except OSError:
        return None
    if not all(stat.S_ISREG(status.st_mode) for status in statuses):
        return None
    return sum([status.st_size for status in statuses])
