"""`pytest --benchmark-only` runs the contests in the README, and shows a table. With `-m more` it runs all others."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from .pages import shown

TIMES: Final = pytest.StashKey[dict[str, dict[str, float]]]()
"""Seconds per operation, by contest and contestant."""
MAIN: Final = "bench_codec.py"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TIMES] = {}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect the benchmarks only with `--benchmark-only`, because they need the compared libraries and the core."""
    is_benchmark = collection_path.name.startswith("bench_")
    if not config.getoption("benchmark_only"):
        return True if is_benchmark and config.getoption("benchmark_skip") else None
    is_named = collection_path in {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    is_wanted = collection_path.name == MAIN or is_named or (is_benchmark and config.option.markexpr)
    return None if is_wanted or collection_path.is_dir() else True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show each contest: the time of an operation, and its ratio to orjson's own time."""
    for group, times in config.stash[TIMES].items():
        terminalreporter.section(group, sep="-")
        orjson = times.get("orjson")
        width = max(map(len, times))
        terminalreporter.write_line(f"{'':{width}} {'time':>10} {'of orjson':>10}")
        for name, seconds in sorted(times.items(), key=lambda item: item[1]):
            ratio = "" if orjson is None else f"{seconds / orjson:.2f}"
            terminalreporter.write_line(
                f"{name:{width}} {shown(seconds * 1e9):>10} {ratio:>10}", bold=name == "jsonrpc_fast"
            )
