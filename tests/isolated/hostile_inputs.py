"""Hostile inputs: the time and the memory of each per byte that the attacker sends, and how it ends, on both backends.

    python -m tests.isolated.hostile_inputs             # print the table of SECURITY.md; exit status 1 beyond a bound
    python -m tests.isolated.hostile_inputs --write     # and store it there
    python -m tests.isolated.hostile_inputs --backend core --rows schema
    python -m tests.isolated.hostile_inputs --ratios    # texts and streams alone: exit status 1 if the core is slower

Each input is made in two sizes, the second four times as large. The table shows, for the larger one, the processor time
per byte (minimum of several rounds), the highest memory of Python's allocators per byte, and how much more time a byte
takes than in the smaller one. Where an input is refused before it is read, or held back, a byte costs almost nothing.

With `--ratios`, both backends read each text and stream in turn, in one process, in every way. A ratio counts where the
core takes more than MIN_NANOSECONDS for a byte: below that, an input cannot stall anything.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from jsonrpc_fast import BACKEND
from jsonrpc_fast.codec import _backend, _core, _pure

from ..support.places import PACKAGE
from .hostile_codec import INPUTS, Input
from .hostile_rows import ROWS

FACTOR: Final = 4
ROUNDS: Final = 2
MAX_GROWTH: Final = 2.0
"""How much more time a byte may take in the larger input. With quadratic time, it takes four times as long."""
MAX_STEPS: Final = {"core": 270, "pure": 800}
"""Maximum processor time per byte, for a byte that is a message or a chunk of its own, in steps: see `step`."""
TEXT_STEPS: Final = {"core": 2.7, "pure": 75}
"""The same in a text of TEXT_BYTES or more with few messages: what `Limits` states, with room for a busy machine."""
TEXT_BYTES: Final = 100_000
MAX_BYTES: Final = 400
"""Maximum memory per byte."""
MAX_RATIO: Final = 1.25
"""How much longer than the pure backend the core may take. More than 1, because the clock is noisy."""
SLOWER: Final = {"numbers between two doubles": 3.0, "arrays that nest": 1.6, "a length within the limit": 1.6}
"""The same for what CPython's `strtod` decides, and for arrays without an end: orjson is faster there."""
MIN_NANOSECONDS: Final = 2.0
"""The bar of the core for a byte of a faulty text."""
ATTEMPTS: Final = 4
"""How often at most what breaks a bound is measured: the noise of a machine does not return each time."""
STEPS: Final = 100_000
MIN_SECONDS: Final = 0.0005
"""Growth is ignored where the larger input takes less time."""
BEGIN: Final = "<!-- python -m tests.isolated.hostile_inputs -->"
END: Final = "<!-- end of hostile inputs -->"


class Result(NamedTuple):
    layer: str
    name: str
    bytes: int
    nanoseconds: float
    memory: float
    growth: float | None
    outcome: str
    has_fault: bool


class Ratio(NamedTuple):
    """The cost of the core on one input, read in one way, compared with the pure backend: nanoseconds for a byte."""

    ratio: float
    core: float
    pure: float
    name: str

    @property
    def is_broken(self) -> bool:
        name = self.name.partition(": ")[2].rpartition(" (")[0]
        return self.core > MIN_NANOSECONDS and self.ratio > SLOWER.get(name, MAX_RATIO)

    def __str__(self) -> str:
        return f"{self.ratio:5.2f}  {self.core:8.1f} {self.pure:8.1f}  {self.name}"


def ratio(source: Input, way: str, factor: float = FACTOR) -> Ratio:
    """Measure one way of reading an input, again if the core is slower in the first measurement."""
    data = source.make(round(factor * source.size))
    for _ in range(ATTEMPTS):
        best = {_core: float("inf"), _pure: float("inf")}
        for _ in range(ROUNDS):
            for backend in best:
                seconds = _seconds(partial(source.ways[way], backend), data)
                best[backend] = min(best[backend], seconds / len(data) * 1e9)
        found = Ratio(best[_core] / best[_pure], best[_core], best[_pure], f"{source.layer}: {source.name} ({way})")
        if not found.is_broken:
            break
    return found


def ratios(sources: Iterable[Input], factor: float = FACTOR) -> list[Ratio]:
    """Measure inputs in all ways, and return the ratios, the highest first."""
    return sorted([ratio(source, way, factor) for source in sources for way in source.ways], reverse=True)


def measure(row: Input, backend: str) -> Result:
    """Measure one input in both sizes, read in the slowest way."""
    small, large = row.make(row.size), row.make(FACTOR * row.size)
    ways = [partial(way, _backend) for way in row.ways.values()]
    read = max(ways, key=lambda way: _seconds(way, large))
    is_text = row.layer == "codec" and len(large) >= TEXT_BYTES
    max_steps = (TEXT_STEPS if is_text else MAX_STEPS)[backend]
    for _ in range(ATTEMPTS):
        times = [_seconds(read, data) for data in (small, large)]
        nanoseconds = times[1] / len(large) * 1e9
        growth = None
        if times[1] >= MIN_SECONDS and len(large) > 2 * len(small):
            growth = times[1] / times[0] / (len(large) / len(small))
        has_fault = nanoseconds > max_steps * step() or (growth is not None and growth > MAX_GROWTH)
        if not has_fault:
            break
    text = read(large)
    gc.collect()
    tracemalloc.start()
    base = tracemalloc.get_traced_memory()[0]
    read(large)
    memory = (tracemalloc.get_traced_memory()[1] - base) / len(large)
    tracemalloc.stop()
    return Result(row.layer, row.name, len(large), nanoseconds, memory, growth, text, has_fault or memory > MAX_BYTES)


def step() -> float:
    """Return the nanoseconds of one step of a loop in Python: the unit of the bounds, because machines differ."""
    number = 0
    begin = time.process_time()
    for each in range(STEPS):
        number += each & 7
    return (time.process_time() - begin) / STEPS * 1e9


def _seconds(run: Callable[[bytes], str], data: bytes) -> float:
    found = []
    for _ in range(ROUNDS):
        gc.collect()
        gc.disable()
        begin = time.process_time()
        run(data)
        found.append(time.process_time() - begin)
        gc.enable()
    return min(found)


def table(results: dict[str, list[Result]]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| layer | input | bytes | ns per byte, core / pure | memory per byte, core / pure | growth | outcome |",
        "|---|---|---|---|---|---|---|",
    ]
    for core, pure in zip(results["core"], results["pure"], strict=True):
        growths = [f"{each.growth:.1f}" if each.growth is not None else "-" for each in (core, pure)]
        ends = core.outcome if core.outcome == pure.outcome else f"{core.outcome} / {pure.outcome}"
        cells = (
            core.layer,
            core.name,
            f"{core.bytes:,}",
            f"{core.nanoseconds:,.1f} / {pure.nanoseconds:,.1f}",
            f"{core.memory:,.1f} / {pure.memory:,.1f}",
            " / ".join(growths),
            ends,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def run_backend(backend: str, rows: str) -> list[Result]:
    """Measure in a process of its own."""
    environment = {**os.environ, "JSONRPC_FAST_PURE": "1" if backend == "pure" else "0"}
    command = [sys.executable, "-m", "tests.isolated.hostile_inputs", "--backend", backend, "--rows", rows]
    found = subprocess.run(command, env=environment, cwd=PACKAGE.parent, check=True, capture_output=True, text=True)
    return [Result(*values) for values in json.loads(found.stdout)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("core", "pure"), help="print the results of one backend as JSON")
    parser.add_argument("--rows", default="", help="only those whose layer or name contains this text")
    parser.add_argument("--ratios", action="store_true", help="compare the backends, on texts and streams")
    parser.add_argument("--write", action="store_true", help="store the table in SECURITY.md")
    options = parser.parse_args(arguments)
    if options.backend is not None:
        assert (BACKEND == "cython") is (options.backend == "core"), BACKEND
        logging.disable()
        chosen = [row for row in ROWS if options.rows in f"{row.layer}: {row.name}"]
        print(json.dumps([measure(row, options.backend) for row in chosen]))
        return 0
    if options.ratios:
        found = ratios(source for source in INPUTS if options.rows in f"{source.layer}: {source.name}")
        broken = [each for each in found if each.is_broken]
        print("ratio   core ns  pure ns  of a byte")
        print("\n".join([str(each) for each in found if each.core > MIN_NANOSECONDS][:40]))
        print(f"{len(found)} measured: {len(broken)} break the law")
        return 1 if broken else 0
    results = {backend: run_backend(backend, options.rows) for backend in ("core", "pure")}
    text = table(results)
    print(text)
    faults = [(backend, result) for backend, found in results.items() for result in found if result.has_fault]
    for backend, result in faults:
        print(f"over a bound, {backend}: {result}")
    if options.write:
        page = PACKAGE.parent / "SECURITY.md"
        before, _, rest = page.read_text().partition(BEGIN)
        page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
