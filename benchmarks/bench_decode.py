"""Read one message."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from .contests import Contestant, entered


@pytest.mark.benchmark(max_time=0.2, disable_gc=True)
@pytest.mark.parametrize(
    ("payload", "contestant"),
    [
        pytest.param(payload, contestant, id=f"{payload}: {contestant.name}")
        for payload, contestants in entered("decode").items()
        for contestant in contestants
    ],
)
def test_decode(benchmark: BenchmarkFixture, payload: str, contestant: Contestant) -> None:
    benchmark.group = f"decode {payload}"
    benchmark(contestant.function())
