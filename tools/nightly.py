"""Run what takes long, and write one table of it: the name of each run, its seconds, its counts and its result.

Rules:
- A row is run once for each commit, also where midnight changes its seed. An interrupted night goes on where it
  stopped; `--again` starts anew.
- What a row prints is in `build/nightly/NAME.log`. Its last line is the row's result in the table.
- The rows of ALONE come first, one after another. With `--lanes 2` two of the others run at the same time, but not
  two of one name, which may build in the same folder.
- `.ci/run` says what a test costs. Beside other rows it costs more, so here it has `--any-cost`.
- The examples that Hypothesis keeps are a row's own: what fails in one must not fail in all rows behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from .packages import ROOT
from .programs import FREE_THREADED, PROGRAMS, PYTHONS

FOLDER: Final = ROOT / "build" / "nightly"
ROWS: Final = FOLDER / "rows.ndjson"
LENGTHS: Final = (
    *("--seconds", "--conversations", "--iterations", "--calls"),
    *("--streams", "--closes", "--messages", "--count"),
)
"""The options that say how long a run is."""
TODAY: Final = time.strftime("%Y%m%d")
"""The seed. It changes each day, and the report of a failure can name it."""
ALONE: Final = ("build", "tests", "hostile", "hostile_ratios")
"""What other rows need, and what compares times with bounds: beside other work it would fail."""
CHAOS: Final = ("soak", "tests.isolated.session_chaos", "--seconds", "300", "--seed", TODAY, "--loop")
NIGHTLY: Final[list[tuple[str, ...]]] = [
    ("tests", "--slow", "--all-loops", "--hypothesis-profile=thorough"),
    ("pure", "--ci", "--any-cost"),
    ("without_orjson", "--slow", "--any-cost"),
    *[(f"free_threaded-{version}",) for version in FREE_THREADED],
    *[(name,) for name in ("pypy", "build", "reproducible", "pyodide", "check_packages", "docs_alone", "portable")],
    *[(name,) for name in ("no_compiler", "installed", "pages")],
    ("lowest", "tests", "--ci", "--any-cost"),
    ("sdist", "--any-cost"),
    *[(f"pythons-{version}", "--ci", "--all-loops") for version in PYTHONS[1:]],  # the first row runs on the first
    *[(f"pythons-{version}", "pure-wheel", "--ci", "--any-cost") for version in PYTHONS],
    ("coverage",),
    ("mutants", "--count", "25"),
    ("hostile",),
    ("hostile_ratios",),
    ("leaks", "--iterations", "1000000"),
    ("pure_leaks", "--iterations", "1000000"),
    ("simulation", "--conversations", "1000000", "--first", TODAY),
    *[(*CHAOS, loop) for loop in ("asyncio", "uvloop", "debug")],
    (*CHAOS, "uvloop", "--together"),
    ("soak", "tests.isolated.transport_soak", "--messages", "100000"),
    *[("soak", f"tests.isolated.{name}") for name in ("mcp_hostile", "rough_ends")],
    ("soak", "tests.isolated.tls_closes", "--closes", "10000"),
    ("soak", "tests.isolated.nats_load", "--calls", "100000"),
    ("soak", "tests.isolated.mcp_resumption", "--streams", "1000", "--seed", TODAY),
    ("threads", "--seconds", "600", "--seed", TODAY),
    ("thread_sanitizer", "--seconds", "600", "--seed", TODAY),
    ("sanitized",),
    ("sanitized", "-m", "tests.isolated.hooks", "--seconds", "600"),
    ("sanitized", "-m", "tests.isolated.allocations", "--seconds", "600"),
    ("allocations", "--seconds", "600"),
    ("fuzz", "--seconds", "3600", "--seed", TODAY),
    ("guided", "--seconds", "600"),
    ("conformance",),
    ("adapters",),
    ("dropin",),
]
"""A session or a program, and its arguments, in this order; what needs `dist` stands after `build`."""


def scaled(row: Sequence[str], scale: float) -> list[str]:
    """Return a row whose length is multiplied: `--seconds 600` times 0.1 is `--seconds 60`."""
    before = ("", *row)
    return [str(round(int(word) * scale)) if last in LENGTHS else word for last, word in zip(before, row, strict=False)]


def name_of(row: Sequence[str]) -> str:
    """Return the name of a row without its Python: `pythons` of `pythons-3.13`."""
    return row[0].partition("-")[0]


def unseeded(row: Sequence[str]) -> str:
    """Return a row without its seed: it is the same row on another day."""
    return re.sub(r"(--seed|--first) \d+", r"\1", " ".join(row))


def run(row: Sequence[str], commit: str) -> dict[str, Any]:
    """Run a row, and return what the table says of it."""
    name, *arguments = row
    log = FOLDER / f"{re.sub(r'[^a-z0-9.]+', '-', ' '.join(row).lower())[:80]}.log"
    command = ("-s", "run", "--", name) if name in PROGRAMS else ("-s", name, "--")
    env = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(log.with_suffix(".examples"))}
    start = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "nox", *command, *arguments], stdout=output, stderr=output, cwd=ROOT, env=env
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith("nox > ")] or [line[6:] for line in lines]
    skipped = [line[6:] for line in lines if re.match("nox > .*(skipped|Missing interpreter)", line)]
    line = (skipped or said or [""])[-1].strip("= ")
    result = "failed" if process.returncode else "skipped" if "skipped:" in line or skipped else "passed"
    return {
        "commit": commit,
        "row": " ".join(row),
        "seconds": round(time.monotonic() - start),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime),
        "result": result,
        "last": re.sub(r"\x1b\[[0-9;]*m", "", line)[:200],
    }


def recorded(commit: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a commit by what they are without a seed; of a row that was run again, the last."""
    found = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    return {unseeded([record["row"]]): record for record in found if record["commit"] == commit}


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the table of `docs/proof.md`."""
    lines = ["| run | seconds | processor seconds | result | its last line |", "|---|---|---|---|---|"]
    for record in records:
        last = record["last"].replace("|", "\\|")
        cells = (f"`{record['row']}`", record["seconds"], record["processor_seconds"], record["result"], last)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s nightly --", description="Run what takes long.")
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--scale", type=float, default=1, help="multiply the length of each run")
    parser.add_argument("--lanes", type=int, default=1, help="how many rows run at the same time")
    parser.add_argument("--again", action="store_true", help="also what has passed on this commit")
    parser.add_argument("--table", action="store_true", help="only print the table of this commit")
    options = parser.parse_args()
    if unknown := set(options.names) - {name_of(row) for row in NIGHTLY}:
        parser.error(f"not among the nightly runs: {', '.join(sorted(unknown))}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    rows = [scaled(row, options.scale) for row in NIGHTLY]
    passed = {name for name, record in recorded(commit).items() if record["result"] == "passed" and not options.again}
    chosen = [
        row for row in rows if (not options.names or name_of(row) in options.names) and unseeded(row) not in passed
    ]

    def all_of(rows: Iterable[Sequence[str]]) -> None:
        for row in rows:
            one(row)

    def one(row: Sequence[str]) -> None:
        record = run(row, commit)
        print(f"{record['result']} in {record['seconds']} s: {record['row']}: {record['last']}", flush=True)
        with ROWS.open("a") as file:
            file.write(json.dumps(record) + "\n")

    if not options.table:
        for row in chosen:
            if row[0] in ALONE:
                one(row)
        groups: dict[str, list[list[str]]] = {}
        for row in chosen:
            if row[0] not in ALONE:
                groups.setdefault(name_of(row), []).append(row)
        with ThreadPoolExecutor(options.lanes) as lanes:
            list(lanes.map(all_of, groups.values()))
    found = recorded(commit)
    names = [*dict.fromkeys([*map(unseeded, rows), *found])]  # in the order of the night, then what had other lengths
    records = [found[name] for name in names if name in found]
    print(table(records))
    return int(any(record["result"] == "failed" for record in records))


if __name__ == "__main__":
    sys.exit(main())
