"""What the development commands run: programs of one step, and what a night runs."""

from __future__ import annotations

import time
from typing import Final

PYTHONS: Final = ["3.11", "3.12", "3.13", "3.14"]
FREE_THREADED: Final = ["3.13t", "3.14t"]
PYTEST: Final = ("pytest", "-n", "auto", "--dist", "loadfile")
PYTHON_M: Final = ("python", "-m")
TODAY: Final = time.strftime("%Y%m%d")
"""The seed of the nightly runs. It changes each day, and the report of a failure can name it."""
PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    "adapters": (*PYTHON_M, "tests.peers.adapters"),
    "allocations": (*PYTHON_M, "tests.isolated.allocations"),
    "bench": (*PYTHON_M, "benchmarks.report"),
    "conformance": (*PYTHON_M, "tests.peers.conformance"),
    "coverage": (*PYTEST, "tests", "--ci", "--cov", "--cov-report=term:skip-covered"),
    "dropin": (*PYTHON_M, "tests.dropin"),
    "fuzz": (*PYTHON_M, "tests.fuzz"),
    "hostile": (*PYTHON_M, "tests.isolated.hostile_inputs"),
    "hostile_ratios": (*PYTHON_M, "tests.isolated.hostile_ratios"),
    "leaks": (*PYTHON_M, "tests.isolated.leaks"),
    "mutants": ("python", "tests/isolated/mutants.py"),
    "pictures": (*PYTHON_M, "docs.pictures"),
    "portable": (*PYTHON_M, "tools.portable"),
    "pure": ("env", "JSONRPC_FAST_PURE=1", *PYTEST, "tests", "--pure-only", "--without-impl"),
    "pure_leaks": ("env", "JSONRPC_FAST_PURE=1", *PYTHON_M, "tests.isolated.leaks"),
    "pyodide": (*PYTHON_M, "tools.pyodide"),
    "sanitized": (*PYTHON_M, "tools.sanitized"),
    "simulation": (*PYTHON_M, "tests.isolated.simulation"),
    "soak": (*PYTHON_M,),
    "thread_sanitizer": (*PYTHON_M, "tools.thread_sanitizer"),
    "threads": (*PYTHON_M, "tests.isolated.threads"),
    "walks": (*PYTHON_M, "benchmarks.walks"),
    "without_orjson": ("env", "JSONRPC_FAST_WITHOUT_ORJSON=1", *PYTEST, "--ci", "tests/codec", "tests/framing"),
}
"""Commands of one step."""
CHAOS: Final = ("soak", "tests.isolated.session_chaos", "--seconds", "300", "--seed", TODAY, "--loop")
NIGHTLY: Final[list[tuple[str, ...]]] = [
    ("tests", "--slow", "--all-loops", "--hypothesis-profile=thorough"),
    ("pure", "--ci"),
    ("without_orjson", "--slow"),
    *[(f"free_threaded-{version}",) for version in FREE_THREADED],
    *[(name,) for name in ("pypy", "build", "reproducible", "pyodide", "check_packages", "docs_alone", "portable")],
    *[(name,) for name in ("no_compiler", "installed", "pages", "lowest", "sdist")],
    *[(f"pythons-{version}", "--slow") for version in PYTHONS],
    *[(f"pythons-{version}", "pure-wheel", "--ci") for version in PYTHONS],
    ("coverage",),
    ("mutants",),
    ("hostile",),
    ("hostile_ratios",),
    ("leaks",),
    ("pure_leaks",),
    ("simulation", "--conversations", "1000000", "--first", TODAY),
    *[(*CHAOS, loop) for loop in ("asyncio", "uvloop", "debug")],
    (*CHAOS, "uvloop", "--together"),
    *[("soak", f"tests.isolated.{name}") for name in ("transport_soak", "stream_memory", "tls_closes", "mcp_hostile")],
    ("threads", "--seconds", "600", "--seed", TODAY),
    ("thread_sanitizer", "--seconds", "600", "--seed", TODAY),
    ("sanitized",),
    ("sanitized", "-m", "tests.isolated.hooks", "--seconds", "600"),
    ("sanitized", "-m", "tests.isolated.allocations", "--seconds", "600"),
    ("allocations", "--seconds", "600"),
    ("fuzz", "--seconds", "3600", "--seed", TODAY),
    ("guided",),
    ("conformance",),
    ("adapters",),
    ("dropin",),
]
"""What a night runs, in this order: a session or a program, and its arguments."""
