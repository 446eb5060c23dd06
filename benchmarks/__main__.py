"""Measure all that README and docs say in figures, one benchmark after another: `python -m benchmarks`.

Each writes its own tables and pictures. The machine must be idle for most of an hour.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import Final

from .site import DISTRIBUTION

STEPS: Final[tuple[tuple[str, ...], ...]] = (
    ("benchmarks.report",),
    ("benchmarks.serving",),
    ("benchmarks.serving", "--sessions"),
    ("benchmarks.bench_mcp_price",),
    ("benchmarks.connections",),
    ("benchmarks.connections", "--fairness", "3"),
    ("benchmarks.connections", "--scale"),
    ("tests.peers.costs",),
)
OF_A_DISTRIBUTION: Final[tuple[tuple[str, ...], ...]] = (
    ("benchmarks.report", "--rounds", "50", "--json", os.fspath(DISTRIBUTION), "--no-plot"),
    ("benchmarks.site",),
)
OF_THREADS: Final[tuple[tuple[str, ...], ...]] = (("benchmarks.bench_threads",), ("benchmarks.bench_threads", "--plot"))

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument("--distribution", metavar="PYTHON", help="a distribution's, for the last table of performance.md")
parser.add_argument("--threads", metavar="PYTHON", nargs=2, help="with and without the GIL, for threads.md")
options = parser.parse_args()
runs = [(sys.executable, step) for step in STEPS]
if options.distribution:
    runs += zip((options.distribution, sys.executable), OF_A_DISTRIBUTION, strict=True)
if options.threads:
    runs += zip((*options.threads, sys.executable), (OF_THREADS[0], *OF_THREADS), strict=True)
for python, (module, *arguments) in runs:
    start = time.monotonic()
    subprocess.run([python, "-m", module, *arguments], check=True)
    print(f"{time.monotonic() - start:,.0f} s: {' '.join([module, *arguments])}\n", flush=True)
