"""The development commands of one step."""

from __future__ import annotations

from typing import Final

PYTHONS: Final = ["3.11", "3.12", "3.13", "3.14"]
FREE_THREADED: Final = ["3.13t", "3.14t"]
PYTEST: Final = ("pytest", "-n", "auto", "--dist", "loadfile")
PYTHON_M: Final = ("python", "-m")
PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    "adapters": (*PYTHON_M, "tests.peers.adapters"),
    "allocations": (*PYTHON_M, "tests.isolated.allocations"),
    "bench": (*PYTHON_M, "benchmarks"),
    "conformance": (*PYTHON_M, "tests.peers.conformance"),
    "coverage": (*PYTEST, "tests", "--ci", "--cov", "--cov-report=term:skip-covered"),
    "dropin": (*PYTHON_M, "tests.dropin"),
    "fuzz": (*PYTHON_M, "tests.fuzz"),
    "hostile": (*PYTHON_M, "tests.isolated.hostile_inputs"),
    "hostile_ratios": (*PYTHON_M, "tests.isolated.hostile_inputs", "--ratios"),
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
    "without_orjson": ("env", "JSONRPC_FAST_WITHOUT_ORJSON=1", *PYTEST, "--ci", "tests/codec", "tests/framing"),
}
"""Commands of one step."""
