"""Measure every contestant and show the ratios that the codec promises: `python -m benchmarks.report`.

All contestants run in one process, in turn in every round, and the minimum of many rounds counts: other work on the
machine affects all of them alike. Times are per operation. A sample is as many operations as fill about 2 ms.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from timeit import Timer
from typing import Any, Final, get_args

import matplotlib as mpl
import orjson
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

import jsonrpc_fast

from . import peers, summary
from .data import CORPORA, payloads
from .peers import Work, entered
from .summary import PANELS
from .tables import markdown

HERE: Final = Path(__file__).parent
FIGURES: Final = HERE / "figures.json"
SAMPLE_NANOSECONDS: Final = 2_000_000

Times = dict[str, dict[str, dict[str, float]]]
"""Nanoseconds by work, payload and contestant."""


@dataclass(frozen=True)
class Bar:
    """A promise: the contestant's time divided by the fastest opponent's is at most `limit`.

    With `at_least` it is a speed-up: the opponent's time divided by the contestant's is at least `limit`.
    """

    work: Work
    payload: str
    contestant: str
    opponents: tuple[str, ...]
    limit: float
    at_least: bool = False

    def ratio(self, times: Times) -> float | None:
        """Return the measured ratio, or None if the codec has no such function."""
        found = times[self.work][self.payload]
        if self.contestant == peers.CORE_RAW and self.contestant not in found:
            return None
        mine, theirs = found[self.contestant], min(found[name] for name in self.opponents)
        return theirs / mine if self.at_least else mine / theirs

    def is_reached(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit


def _bars() -> list[Bar]:
    core, orjson_alone, msgspec_typed = peers.CORE, (peers.ORJSON,), (peers.MSGSPEC,)
    small = {
        "tiny_request": (0.40, 0.60),
        "small_request": (0.65, 1.00),
        "small_request_spaced": (0.65, 1.00),
        "tools_call_217": (0.97, 1.10),
        "tools_call_217_typescript": (0.97, 1.10),
        "tools_call_325": (0.97, 1.10),
        "tools_call_325_typescript": (0.97, 1.10),
    }
    middle = ("tools_list_14k", "tools_list_14k_typescript", "resource_text_14k")
    large = (*middle, "completion_80k", "simulation_200k", "logs_1m", "logs_1m_typescript", "blob_1m")
    calls = [name for name in small if name.startswith("tools_call")]
    results = {"tiny_response": 0.65, "tools_call_response": 0.65, "logs_1m": 1.10, "blob_1m": 1.10}
    speed_ups = {"tiny_request": 20, **dict.fromkeys(calls, 6), **dict.fromkeys(middle[:2], 5)}
    return [
        *[
            Bar("decode", payload, core, opponents, limit)
            for payload, limits in small.items()
            for opponents, limit in zip((orjson_alone, msgspec_typed), limits, strict=True)
        ],
        *[Bar("decode", payload, core, orjson_alone, 1.03) for payload in ("result_10k", *large)],
        Bar("decode", "tiny_request", peers.CORE_PARSE, orjson_alone, 0.50),
        *[Bar("decode", payload, peers.CORE_RAW, (peers.MSGSPEC_RAW,), 0.60) for payload in calls],
        *[Bar("decode", payload, peers.CORE_RAW, (peers.MSGSPEC_RAW,), 0.70) for payload in large],
        *[Bar("encode", payload, core, orjson_alone, limit) for payload, limit in results.items()],
        Bar("stream", "tiny_request", core, orjson_alone, 0.30),
        Bar("stream", "tiny_request", core, msgspec_typed, 0.55),
        *[Bar("decode", payload, core, (peers.PYDANTIC,), limit, True) for payload, limit in speed_ups.items()],
        Bar("decode", "tiny_request", peers.PURE, orjson_alone, 5.0),
        Bar("decode", "tiny_request", peers.PURE, peers.PURE_PYTHON_PEERS, 1.0),
    ]


BARS: Final = _bars()


def measure(rounds: int) -> dict[str, Any]:
    """Return facts about the run, the sizes of the payloads, and the times."""
    works: list[tuple[Work, str, str, Timer]] = [
        (work, payload, contestant.name, Timer(contestant.expression, timer=perf_counter_ns, globals=contestant.names))
        for work in get_args(Work)
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
    sizes = {name: payload.size for name, payload in payloads().items()}
    return {"facts": {**_facts(), "rounds": str(rounds)}, "sizes": sizes, "nanoseconds": times}


def _repeats(timer: Timer) -> int:
    """Return how many operations fill a sample."""
    repeats = 1
    while (taken := timer.timeit(repeats)) < SAMPLE_NANOSECONDS / 4:
        repeats *= 2
    return max(1, round(repeats * SAMPLE_NANOSECONDS / taken))


def _facts() -> dict[str, str]:
    libraries = ("orjson", "msgspec", "pydantic", "mcp-types", "pjrpc", "json-rpc", "ajsonrpc", "jsonrpcserver")
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


def ratio_table(figures: dict[str, Any]) -> str:
    """Return the promises as a Markdown table, and how many are missed."""
    rows = [("work", "against", "ratio", "bar", "reached")]
    missed = measured = 0
    for bar in BARS:
        ratio = bar.ratio(figures["nanoseconds"])
        work = f"{bar.contestant}: {bar.work} {bar.payload} ({figures['sizes'][bar.payload]})"
        against = bar.opponents[0] if len(bar.opponents) == 1 else "the fastest of " + ", ".join(bar.opponents)
        limit = f"at least {bar.limit:g}x" if bar.at_least else f"at most {bar.limit:.2f}"
        if ratio is None:
            rows.append((work, against, "", limit, "not yet"))
            continue
        measured += 1
        missed += not bar.is_reached(ratio)
        shown = f"{ratio:.1f}x" if bar.at_least else f"{ratio:.3f}"
        rows.append((work, against, shown, limit, "yes" if bar.is_reached(ratio) else "**MISSED**"))
    summary = f"{missed} of {measured} bars MISSED" if missed else f"All {measured} bars reached"
    if measured < len(BARS):
        summary += f"; {len(BARS) - measured} cannot be measured yet"
    return f"{markdown(rows)}\n\n{summary}."


def full_table(figures: dict[str, Any]) -> str:
    """Return all times as Markdown, payload by payload, the fastest first."""
    parts = []
    for work, by_payload in figures["nanoseconds"].items():
        for payload, found in by_payload.items():
            rows = [("contestant", "ns", "ratio to orjson")]
            for name, nanoseconds in sorted(found.items(), key=lambda item: item[1]):
                rows.append((name, f"{nanoseconds:,.0f}", f"{nanoseconds / found[peers.ORJSON]:.2f}"))
            parts.append(f"### {work} {payload} ({figures['sizes'][payload]})\n\n{markdown(rows)}")
    return "\n\n".join(parts)


LEFT_OUT: Final = {peers.CORE_PARSE, peers.CORE_LINES, peers.CORE_MESSAGE, peers.ORJSON_READY, peers.MSGSPEC_UNTRACKED}
"""Variants that only the tables show."""
COLOURS: Final = {
    **dict.fromkeys((peers.CORE, peers.CORE_RAW, peers.CORE_PARSE_TEXT), "#1d5fd1"),
    peers.PURE: "#7aa7ee",
}


def plot(figures: dict[str, Any], output: Path) -> None:
    """Draw the ratios to orjson alone for the payloads in `PANELS`."""
    panels = []
    for work, payload, title in PANELS:
        found = figures["nanoseconds"][work][payload]
        ratios = {name: time / found[peers.ORJSON] for name, time in found.items() if name not in LEFT_OUT}
        panels.append((f"{title} ({figures['sizes'][payload]})", ratios))
    columns = 2
    # All bars have the same thickness, however many a panel has.
    slots = [max(len(ratios) for _, ratios in panels[at : at + columns]) for at in range(0, len(panels), columns)]
    figure = Figure(figsize=(13, 0.33 * sum(slots) + 3.4), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.12))
    grid = figure.subplots(len(slots), columns, sharex=True, gridspec_kw={"height_ratios": slots})
    for place, (title, ratios) in enumerate(panels):
        _draw_panel(grid.flat[place], title, ratios, slots[place // columns])
    everything = [ratio for _, ratios in panels for ratio in ratios.values()]
    # Leave room for the numbers beside the bars.
    grid.flat[0].set_xlim(min(everything) / 2.5, max(everything) * 2)
    figure.suptitle("Time taken, as a multiple of what orjson alone takes (left of the line is faster)", fontsize=15)
    # A name and its version stay on one line.
    facts = [f"{name} {value}".replace(" ", "\N{NO-BREAK SPACE}") for name, value in figures["facts"].items()]
    note = "Logarithmic scale. Blue is this codec, pale blue its pure-Python backend. orjson and json validate nothing."
    figure.supxlabel("\n".join([note, *textwrap.wrap(", ".join(facts), 150)]), fontsize=8.5)
    # The same figures always give the same file.
    with mpl.rc_context({"svg.hashsalt": "ratios", "svg.fonttype": "none"}):
        figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else None)


def _draw_panel(axes: Axes, title: str, ratios: dict[str, float], slots: int) -> None:
    names = sorted(ratios, key=ratios.__getitem__)
    for place, name in enumerate(names):
        ratio = ratios[name]
        # Bars start at 1: a logarithmic scale has no zero.
        axes.barh(place, ratio - 1, left=1, color=COLOURS.get(name, "#b4bac4"), height=0.7)
        axes.annotate(
            f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}",
            (ratio, place),
            xytext=(-4 if ratio < 1 else 4, 0),
            textcoords="offset points",
            horizontalalignment="right" if ratio < 1 else "left",
            verticalalignment="center",
            fontsize=9,
        )
    axes.axvline(1, color="#333333", linewidth=1)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set_yticks(range(len(names)), names, fontsize=9.5)
    for label in axes.get_yticklabels():
        label.set_color("#1d5fd1" if label.get_text() in COLOURS else "#333333")
    axes.set_ylim(slots - 0.5, -0.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=True, labelsize=8.5)
    axes.grid(axis="x", color="#e3e6ea", linewidth=0.8)
    axes.set_axisbelow(True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="samples of each contestant (default: 100)")
    parser.add_argument("--output", type=Path, default=HERE / "ratios.svg", help="the plot to write, .svg or .png")
    parser.add_argument("--json", type=Path, default=FIGURES, help="the file of the figures")
    parser.add_argument("--plot-only", action="store_true", help="draw the plot from the stored figures")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    if arguments.plot_only:
        plot(orjson.loads(arguments.json.read_bytes()), arguments.output)
        return
    figures = measure(arguments.rounds)
    arguments.json.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    print("## What the codec promises\n", ratio_table(figures), sep="\n")
    print("\n## Every contestant\n", full_table(figures), sep="\n")
    print("\n## Versions and machine\n")
    for name, value in figures["facts"].items():
        print(f"- {name}: {value}")
    plot(figures, arguments.output)
    if arguments.json == FIGURES:
        summary.write(figures)


if __name__ == "__main__":
    main()
