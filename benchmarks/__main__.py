"""Measure all that README and docs say in figures, one benchmark after another: `python -m benchmarks`.

Each writes its own tables and pictures. The tables of other interpreters need those: `benchmarks/README.md` has their
commands. The machine must be idle for half an hour.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

STEPS: Final = (
    ("report",),
    ("serving",),
    ("serving", "--sessions"),
    ("bench_mcp_price",),
    ("connections",),
    ("connections", "--fairness", "3"),
    ("connections", "--scale"),
)

for module, *arguments in STEPS:
    start = time.monotonic()
    subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *arguments], check=True)
    print(f"{time.monotonic() - start:,.0f} s: {' '.join([module, *arguments])}\n", flush=True)
