from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect the benchmarks only to run them: otherwise the tests would need the compared libraries and the core."""
    skipped = config.getoption("benchmark_skip") and not config.getoption("benchmark_only")
    return True if skipped and collection_path.name.startswith("bench_") else None
