"""Measure the throughput with one thread and with two: `python -m benchmarks.bench_threads`.

Each run adds the figures of its Python to threads.json: run it on a Python with the GIL and on one without it. `--plot`
draws the picture and writes the table of docs/threads.md. Other libraries are compared if they are installed.

All threads of a sample begin together, and the sample ends with the last of them. The loop around the calls is in C,
because the interpreter's loop is slower without the GIL and would add to the time of each call. The best of many short
samples is reported, because other work on the machine takes processors from some of them.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import textwrap
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import repeat, starmap
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import jsonrpc_fast
from jsonrpc_fast.handlers import Handlers

from .pages import DOCS, HERE, markdown, save, write

FIGURES: Final = HERE / "threads.json"
PLOT: Final = HERE / "threads.svg"
PAGE: Final = DOCS / "threads.md"
THREADS: Final = (1, 2)
SAMPLE_SECONDS: Final = 0.01

VALUES: Final = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3] * 5
REQUEST: Final = (
    b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"search","arguments":{"query":"free threads",'
    b'"limit":10,"exact":true,"tags":["a","b"],"since":1700000000.5,"path":"/srv/data/reports"}}}'
)
RESULT: Final = {"content": [{"type": "text", "text": "three files"}], "isError": False, "scores": [0.5, 1.25, 3]}
CALL: Final = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[%b]}' % json.dumps(VALUES).encode()
Make = Callable[[], Callable[[], object]]
"""Each thread calls it once, and gets a function that works on objects of this thread only."""
COLOURS: Final = {
    "jsonrpc_fast": "#1d5fd1",
    "pure backend": "#7aa7ee",
    "msgspec": "#c2571a",
    "orjson": "#2a9d5c",
    "json": "#6b7280",
    "the handler alone": "#6b7280",
}


def digest(values: list[int]) -> int:
    """A handler that computes for some microseconds."""
    return sum(sorted(values * 8)[100:]) % 256


def works() -> dict[str, dict[str, Make]]:
    """Return what is measured, by work and contestant."""
    core: Any = importlib.import_module("jsonrpc_fast.codec._core")
    pure: Any = importlib.import_module("jsonrpc_fast.codec._pure")
    # Shared by all threads, and by a name that is made at run time and is no identifier: CPython does not intern it.
    dispatch = Handlers({b"tools/call".decode(): digest}).dispatch
    lines = 20 * (REQUEST + b"\n")
    found: dict[str, dict[str, Make]] = {
        "decode": {"json": lambda: partial(json.loads, own(REQUEST))},
        "encode": {"json": lambda: partial(written, json.dumps, copy.deepcopy(RESULT))},
        "feed, 20 messages": {"json": lambda: partial(each_line, json.loads, own(lines))},
        "dispatch": {
            "jsonrpc_fast": lambda: partial(dispatch, own(CALL)),
            "the handler alone": lambda: partial(digest, list(VALUES)),
        },
    }

    def add_codec(name: str, codec: Any) -> None:
        found["decode"][name] = lambda: partial(codec.decode, own(REQUEST))
        found["encode"][name] = lambda: partial(codec.encode_result, 7, copy.deepcopy(RESULT))
        found["feed, 20 messages"][name] = lambda: partial(codec.Decoder().feed, own(lines))

    add_codec("jsonrpc_fast", core)
    add_codec("pure backend", pure)
    if importlib.util.find_spec("msgspec"):
        import msgspec

        request = msgspec.defstruct("Request", [("jsonrpc", str), ("id", int), ("method", str), ("params", dict)])
        response = msgspec.defstruct("Response", [("jsonrpc", str), ("id", int), ("result", dict)])
        decoder, encoder = msgspec.json.Decoder(request), msgspec.json.Encoder()
        found["decode"]["msgspec"] = lambda: partial(decoder.decode, own(REQUEST))
        found["encode"]["msgspec"] = lambda: partial(
            lambda result: encoder.encode(response("2.0", 7, result)), copy.deepcopy(RESULT)
        )
        found["feed, 20 messages"]["msgspec"] = lambda: partial(decoder.decode_lines, own(lines))
    if importlib.util.find_spec("orjson"):
        import orjson

        found["decode"]["orjson"] = lambda: partial(orjson.loads, own(REQUEST))
        found["encode"]["orjson"] = lambda: partial(written, orjson.dumps, copy.deepcopy(RESULT))
        found["feed, 20 messages"]["orjson"] = lambda: partial(each_line, orjson.loads, own(lines))
    return found


def own(data: bytes) -> bytes:
    """Return a copy: threads that change the reference count of one object wait for each other."""
    return bytes(bytearray(data))


def written(dumps: Callable[[object], Any], result: object) -> object:
    return dumps({"jsonrpc": "2.0", "id": 7, "result": result})


def each_line(loads: Callable[[bytes], Any], lines: bytes) -> object:
    return [loads(line) for line in lines.splitlines()]


def sample(make: Make, threads: int, count: int) -> float:
    """Return how many calls a second the threads make together."""
    barrier = threading.Barrier(threads)
    begins, ends = [0.0] * threads, [0.0] * threads

    def run(place: int) -> None:
        call = make()
        barrier.wait()
        calls = starmap(call, repeat((), count))
        begins[place] = perf_counter()
        deque(calls, 0)
        ends[place] = perf_counter()

    running = [threading.Thread(target=run, args=(place,)) for place in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return threads * count / (max(ends) - min(begins))


def measure(rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the calls a second by work and contestant: one for each number in THREADS."""
    rates: dict[str, dict[str, list[float]]] = {}
    for work, calls in works().items():
        for name, make in calls.items():
            count = max(1, int(SAMPLE_SECONDS * max(sample(make, 1, 50) for _ in range(5))))
            best = [0.0] * len(THREADS)
            for _ in range(rounds):
                for place, threads in enumerate(THREADS):
                    best[place] = max(best[place], sample(make, threads, count))
            rates.setdefault(work, {})[name] = [round(rate) for rate in best]
            print(f"{work:<18}  {name:<18}", *[f"{rate:>12,.0f}" for rate in best], f"{best[-1] / best[0]:>6.2f}")
    return rates


def name_of_python() -> str:
    """Return the version of this Python, and whether it has the GIL."""
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return f"{platform.python_implementation()} {platform.python_version()}, {'with' if has_gil else 'without'} the GIL"


def versions() -> dict[str, str]:
    found = {"jsonrpc_fast": jsonrpc_fast.__version__}
    for name in ("msgspec", "orjson"):
        if importlib.util.find_spec(name):
            found[name] = importlib.metadata.version(name)
    return found


def table(figures: dict[str, Any]) -> str:
    """Return the table: thousands of calls a second with one thread, and the factor that two threads reach."""
    pythons = list(figures)
    rows = [("work", "what", *[cell for python in pythons for cell in (python, "two threads")])]
    for work in next(iter(figures.values()))["rates"]:
        for name in COLOURS:
            cells = []
            for python in pythons:
                one, two = figures[python]["rates"][work].get(name, (0, 0))
                cells += [f"{one / 1000:,.0f}k/s", f"{two / one:.2f}"] if one else ["", ""]
            if any(cells):
                rows.append((work, name, *cells))
    facts = "; ".join(
        f"{python}: {', '.join(f'{name} {version}' for name, version in figures[python]['versions'].items())}"
        for python in pythons
    )
    return f"{markdown(rows)}\n\n" + textwrap.fill(f"Measured with {facts}; two processors.", 120)


def plot(figures: dict[str, Any], output: Path) -> None:
    """Draw the throughput over the number of threads."""
    from matplotlib.figure import Figure

    works = list(next(iter(figures.values()))["rates"])
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    labels = {}
    for axes, work in zip(figure.subplots(1, len(works)), works, strict=True):
        for python, style in zip(figures, ("o--", "o-"), strict=False):
            for name, rates in figures[python]["rates"][work].items():
                [line] = axes.plot(THREADS, rates, style, color=COLOURS[name], linewidth=1.6, markersize=4)
                labels[f"{name}, {'with' if style == 'o--' else 'without'} the GIL"] = line
        axes.set(yscale="log", xticks=THREADS, xlim=(0.8, 2.2), title=work)
        axes.grid(axis="y", color="#e3e6ea", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("threads")
    figure.supylabel("calls a second, all threads together")
    figure.legend(labels.values(), labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save(figure, output, figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=40, help="samples of each contestant (default: 40)")
    parser.add_argument("--plot", action="store_true", help="draw the picture and write the table")
    options = parser.parse_args()
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    if options.plot:
        plot(figures, PLOT)
        write({"threads": table(figures)}, PAGE)
        return
    figures[name_of_python()] = {"versions": versions(), "processors": os.cpu_count(), "rates": measure(options.rounds)}
    ordered = dict(sorted(figures.items(), key=lambda item: "without" in item[0]))
    FIGURES.write_text(json.dumps(ordered, indent=2) + "\n")


if __name__ == "__main__":
    main()
