"""Measure all contestants, and check the ratios that the codec promises: `python -m benchmarks.report`.

All contestants run in one process and take turns in every round, so other work on the machine affects all of them. The
minimum of many rounds is reported. Times are per operation. A sample contains as many operations as take about 1 ms.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import sys
from pathlib import Path
from time import perf_counter_ns
from timeit import Timer
from typing import Any, Final

import orjson

import jsonrpc_fast

from . import bars, memory, peers, site
from .bars import Times
from .contests import WORKS, entered
from .data import CORPORA, sizes
from .pages import markdown, write
from .site import FIGURES

SAMPLE_NANOSECONDS: Final = 1_000_000


def measure(rounds: int, only: str = "") -> dict[str, Any]:
    """Return facts about the run, the sizes of the payloads, and the times. only: how the measured works begin."""
    works: list[tuple[str, str, str, Timer]] = [
        (work, payload, contestant.name, Timer(contestant.expression, timer=perf_counter_ns, globals=contestant.names))
        for work in WORKS
        if work.startswith(only)
        for payload, contestants in entered(work).items()
        for contestant in contestants
    ]
    repeats = [_repeats(timer) for _, _, _, timer in works]
    best = [float("inf")] * len(works)
    order = list(range(len(works)))
    for number in range(1, rounds + 1):
        print(f"\rround {number} of {rounds}", end="", file=sys.stderr, flush=True)
        for index in order:
            best[index] = min(best[index], works[index][3].timeit(repeats[index]) / repeats[index])
        # Otherwise each contestant would always run after the same one, which may leave the caches cold.
        order.reverse()
    print(file=sys.stderr)
    times: Times = {}
    for (work, payload, name, _), nanoseconds in zip(works, best, strict=True):
        times.setdefault(work, {}).setdefault(payload, {})[name] = round(nanoseconds, 1)
    return {
        "facts": {**_facts(), "rounds": str(rounds)},
        "sizes": sizes(),
        "nanoseconds": times,
        "bytes_kept": memory.measure(),
    }


def _repeats(timer: Timer) -> int:
    """Return how many operations fill a sample."""
    repeats = 1
    # The first calls fill caches, and on a busy machine any call may be interrupted, so take the best of a few.
    while (taken := min(timer.repeat(4, repeats))) < SAMPLE_NANOSECONDS / 4:
        repeats *= 2
    return max(1, round(repeats * SAMPLE_NANOSECONDS / taken))


def _facts() -> dict[str, str]:
    libraries = ["orjson", "msgspec", "pydantic-core", "mcp-types", "pjrpc", "json-rpc", "ajsonrpc", "jsonrpcserver"]
    return {
        "jsonrpc_fast": f"{jsonrpc_fast.__version__} ({jsonrpc_fast.BACKEND})",
        platform.python_implementation(): platform.python_version(),
        **{name: importlib.metadata.version(name) for name in libraries},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "payloads": "corpora" if CORPORA.exists() else "made",
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def full_table(figures: dict[str, Any]) -> str:
    """Return all times as Markdown, payload by payload, fastest first."""
    parts = []
    for work, by_payload in figures["nanoseconds"].items():
        for payload, found in by_payload.items():
            rows = [("rank", "contestant", "ns", "ratio to the best", "ratio to orjson")]
            best = min(found.values())
            for rank, (name, nanoseconds) in enumerate(sorted(found.items(), key=lambda item: item[1]), 1):
                ratios = f"{nanoseconds / best:.2f}", f"{nanoseconds / found[peers.ORJSON]:.2f}"
                rows.append((str(rank), name, f"{nanoseconds:,.0f}", *ratios))
            parts.append(f"### {work} {payload} ({figures['sizes'][payload]})\n\n{markdown(rows)}")
    return "\n\n".join(parts)


def text(figures: dict[str, Any]) -> str:
    """Return the whole report as Markdown, the bars last."""
    sections = {
        "Every contestant": full_table(figures),
        "Memory kept": site.kept(figures),
        "Versions and machine": "\n".join([f"- {name}: {value}" for name, value in figures["facts"].items()]),
        "Bars": bars.table(figures),
    }
    return "\n\n".join([f"## {title}\n\n{content}" for title, content in sections.items()])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="samples of each contestant (default: 100)")
    parser.add_argument("--json", type=Path, default=FIGURES, help="the file of the figures")
    parser.add_argument("--only", default="", help="measure the works that begin so, and keep the other stored figures")
    parser.add_argument("--no-plot", action="store_true", help="write the figures alone")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    figures = measure(arguments.rounds, arguments.only)
    if arguments.only:
        stored = orjson.loads(arguments.json.read_bytes())
        stored["nanoseconds"] |= figures["nanoseconds"]
        figures = {**stored, "sizes": figures["sizes"]}
    arguments.json.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    if arguments.no_plot:
        return
    print(text(figures))
    if arguments.json == FIGURES:
        write(site.sections(figures), *site.PAGES)
        site.plot(figures, site.PLOT)


if __name__ == "__main__":
    main()
