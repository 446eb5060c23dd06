"""The command `stats`: methods, sizes, errors and response times of a recording or of a stream of messages.

Rules:
  - Contents of messages are never shown, except the names of methods.
  - Memory is bounded: as many methods as MAX_METHODS have a line of their own, a method keeps SAMPLES values, chosen at
    random from all, and MAX_IN_FLIGHT requests wait for their responses.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from ..codec import Message, ParseError, RawMessage, Request, Response, decode
from ..framing import FrameReader
from ..profile import PRESETS
from ..testing.recordings import Sender, is_recording, read_recording
from .check import FILE_CHUNK_BYTES, advice_on
from .output import (
    Status,
    cannot_read,
    escape,
    input_files,
    is_coloured,
    open_input,
    print_error,
    printable_name,
    shorten,
    styled,
)

MAX_METHODS: Final = 1000
MAX_IN_FLIGHT: Final = 100_000
SAMPLES: Final = 10_000
Direction: TypeAlias = "tuple[int, Sender]"
"""A conversation, and who sends in it."""
_COLUMNS: Final = ("method", "requests", "notifications", "errors", "unanswered", "bytes p50", "p99", "ms p50", "p99")


class _Samples:
    """Values, of which a random part is kept if they are many."""

    __slots__ = ("_count", "_random", "values")

    def __init__(self) -> None:
        self.values: list[float] = []
        self._count = 0
        self._random = random.Random(0)  # the same file gives the same figures

    def add(self, value: float) -> None:
        self._count += 1
        if len(self.values) < SAMPLES:
            self.values.append(value)
        elif (place := self._random.randrange(self._count)) < SAMPLES:
            self.values[place] = value

    def at(self, part: float) -> float | None:
        """Return the value below which a part of the values lies, such as 0.99; None without values."""
        values = sorted(self.values)
        return values[min(int(part * len(values)), len(values) - 1)] if values else None


class _Method:
    """What was counted of one method."""

    __slots__ = ("counts", "seconds", "sizes")

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(("requests", "notifications", "results", "errors"), 0)
        self.sizes = _Samples()
        self.seconds = _Samples()


class _Stats:
    """Counts messages by method, and pairs responses with the requests of the other side."""

    def __init__(self) -> None:
        self.methods: dict[str, _Method] = {}
        self.messages = self.invalid = self.unpaired = 0
        self._in_flight: dict[tuple[int, Sender, Any], tuple[str, float | None]] = {}

    def add(self, message: Message | RawMessage, size_bytes: int, time: float | None, direction: Direction) -> None:
        self.messages += 1
        if isinstance(message, ParseError):
            self.invalid += 1
        elif isinstance(message, Response):
            self._settle(message, time, direction)
        else:
            is_request = isinstance(message, Request)
            method = self._method(message.method)
            method.counts["requests" if is_request else "notifications"] += 1
            method.sizes.add(size_bytes)
            # Beyond the bound, the responses of the further ones are counted as unpaired.
            if isinstance(message, Request) and len(self._in_flight) < MAX_IN_FLIGHT:
                self._in_flight[*direction, message.id] = message.method, time

    def _settle(self, message: Response, time: float | None, direction: Direction) -> None:
        connection, sender = direction
        caller: Sender = "server" if sender == "client" else "client"
        # In a stream, requests and responses have the same direction, because nobody knows who has sent them.
        for side in (caller, sender) if time is None else (caller,):
            found = self._in_flight.pop((connection, side, message.id), None)
            if found is not None:
                break
        else:
            self.unpaired += 1
            return
        name, begun = found
        method = self._method(name)
        method.counts["errors" if message.is_error else "results"] += 1
        if begun is not None and time is not None:
            method.seconds.add(max(0.0, time - begun))

    def _method(self, name: str) -> _Method:
        if name not in self.methods and len(self.methods) >= MAX_METHODS:
            name = "(other methods)"
        return self.methods.setdefault(name, _Method())


def run(options: argparse.Namespace) -> int:
    """Run the command. Return the exit status."""
    return max([_print_file(file, options) for file in input_files(options)])


def _print_file(file: str, options: argparse.Namespace) -> int:
    stats = _Stats()
    profile = PRESETS[options.profile]
    try:
        for text, time, direction in read_texts(file, options):
            item = decode(text, profile, raw=True)
            for message in item if isinstance(item, list) else (item,):
                stats.add(message, len(text), time, direction)
    except (OSError, ValueError) as error:
        return cannot_read(file, error)
    if not stats.messages:
        print_error(f"{escape(file)} has no message")
        return Status.WRONG
    rows = sorted(stats.methods.items(), key=lambda item: (-sum(item[1].counts.values()), item[0]))
    if options.json:
        _print_json(file, stats, rows)
    else:
        _print_table(file, stats, rows)
    return Status.SUCCESS


def read_texts(file: str, options: argparse.Namespace) -> Iterator[tuple[bytes, float | None, Direction]]:
    """Yield the text of each message or batch of a recording or of a stream, with its time and who sent it.

    A stream has no times, and all its messages have one sender. The text of what is no message is b"".

    Raises:
        OSError, ValueError: The file cannot be read, or is evidently something else; the text says what helps.
    """
    framing, profile = options.framing, PRESETS[options.profile]
    with open_input(file, FILE_CHUNK_BYTES) as stream:
        start = stream.peek()
        # As `check` refuses it: counted, each line of it would be an invalid message.
        if advice := advice_on(start, framing, profile, f"| jsonrpc-fast {options.command}"):
            raise ValueError(advice)
        if framing is None and is_recording(start):
            for recorded in read_recording(stream):
                text = b"" if recorded.message is None else bytes(recorded.message)
                yield text, recorded.time, (recorded.connection, recorded.sender)
            return
        frames = FrameReader(framing or "newline", profile.limits.message_bytes)
        while chunk := stream.read(FILE_CHUNK_BYTES):
            for frame in frames.feed(chunk):
                yield frame.text or b"", None, (1, "client")
        for frame in frames.close():
            yield frame.text or b"", None, (1, "client")


def _print_json(file: str, stats: _Stats, rows: list[tuple[str, _Method]]) -> None:
    def percentiles(samples: _Samples) -> dict[str, float] | None:
        return {
            name: part for name, at in (("p50", 0.5), ("p99", 0.99)) if (part := samples.at(at)) is not None
        } or None

    methods = {
        name: {**method.counts, "bytes": percentiles(method.sizes), "seconds": percentiles(method.seconds)}
        for name, method in rows
    }
    counts = {"messages": stats.messages, "invalid": stats.invalid, "unpaired_responses": stats.unpaired}
    print(json.dumps({"file": printable_name(file), **counts, "methods": methods}))


def _print_table(file: str, stats: _Stats, rows: list[tuple[str, _Method]]) -> None:
    has_times = any(method.seconds.values for _, method in rows)
    columns = _COLUMNS if has_times else _COLUMNS[:-2]
    table = [[shorten(name), *_cells(method, has_times)] for name, method in rows]
    widths = [max(len(row[place]) for row in [columns, *table]) for place in range(len(columns))]
    coloured = is_coloured(sys.stdout)
    print(styled(_line(columns, widths), "bold", coloured))
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    for (_, method), row in zip(rows, table, strict=True):
        bars = _histogram(method.seconds.values) if has_times and encoding.lower().startswith("utf") else ""
        print(f"{_line(row, widths)}  {bars}".rstrip())
    print(f"{escape(file)}: {stats.messages} messages, {stats.invalid} invalid, {stats.unpaired} responses unpaired")


def _cells(method: _Method, has_times: bool) -> list[str]:
    counts = method.counts
    unanswered = counts["requests"] - counts["results"] - counts["errors"]
    cells = [str(counts[name]) for name in ("requests", "notifications", "errors")]
    cells += [str(max(0, unanswered)), *(_number(method.sizes.at(part)) for part in (0.5, 0.99))]
    if has_times:
        times = [method.seconds.at(part) for part in (0.5, 0.99)]
        # Three digits, without the exponent that `g` has from 1000 on.
        cells += ["" if at is None else f"{at * 1000:{'.0f' if at >= 0.1 else '.3g'}}" for at in times]
    return cells


def _number(value: float | None) -> str:
    return "" if value is None else str(int(value))


def _line(cells: Iterable[str], widths: list[int]) -> str:
    return "  ".join(
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )


def _histogram(values: list[float]) -> str:
    """Return eight bars: how often response times fall between their smallest and their largest, by powers."""
    if len(values) < 8:
        return ""
    low, high = max(min(values), 1e-6), max(max(values), 1e-6)
    step = (high / low) ** (1 / 8)
    found = [0] * 8
    for value in values:
        place = 0
        edge = low * step
        while place < 7 and value > edge:
            place, edge = place + 1, edge * step
        found[place] += 1
    most = max(found)
    return "".join("▁▂▃▄▅▆▇█"[-(-7 * count // most)] if count else " " for count in found)
