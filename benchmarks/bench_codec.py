"""The contests of the codec. `pytest --benchmark-only` runs those in the README, and with `-m more` all others.

Each group is a contest, as in the README's table. A sample is a loop over the contestant's expression, as in
`benchmarks.report`, so both give the same ratios on an idle machine. Here the contestants do not take turns: on a busy
machine, use the report.
"""

from __future__ import annotations

from time import perf_counter
from timeit import Timer
from typing import Final

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from .conftest import TIMES
from .contests import WORKS, Contestant, entered
from .data import sizes
from .peers import ORJSON
from .site import COLUMNS, PANELS

SAMPLE_SECONDS: Final = 0.001
ROUNDS: Final = 200
SHOWN: Final = {ORJSON, *COLUMNS.values()}
TITLES: Final = {(work, payload): title for work, payload, title in PANELS}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    has_more = bool(metafunc.config.option.markexpr)
    cases = []
    for work in WORKS:
        chosen = [payload for shown, payload in TITLES if shown == work]
        if not chosen and not has_more:
            continue
        for payload, contestants in entered(work, None if has_more else chosen).items():
            group = f"{TITLES.get((work, payload), f'{work}, {payload}')} ({sizes().get(payload, 'real messages')})"
            for contestant in contestants:
                marks = () if payload in chosen and contestant.name in SHOWN else (pytest.mark.more,)
                if has_more or not marks:
                    cases.append(pytest.param(group, contestant, id=f"{group}: {contestant.name}", marks=marks))
    metafunc.parametrize(("group", "contestant"), cases)


@pytest.mark.benchmark(disable_gc=True)
def test_contest(benchmark: BenchmarkFixture, group: str, contestant: Contestant, pytestconfig: pytest.Config) -> None:
    benchmark.group = group
    timer = Timer(contestant.expression, timer=perf_counter, globals=contestant.names)
    number = max(1, round(SAMPLE_SECONDS / min(timer.repeat(3, 1))))
    benchmark.extra_info["operations"] = number
    rounds = ROUNDS if number > 1 else ROUNDS // 10
    benchmark.pedantic(timer.timeit, (number,), rounds=rounds, warmup_rounds=1)  # type: ignore[no-untyped-call]
    assert benchmark.stats is not None
    pytestconfig.stash[TIMES].setdefault(group, {})[contestant.name] = benchmark.stats.stats.min / number
