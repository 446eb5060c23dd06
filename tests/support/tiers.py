"""Which tests run when, and what a test may cost: a test that is dearer than its tier fails.

Rules:
- The cost of a test is the processor time of its process and of the children that it waited for, in seconds of the
  machine on which PACE was measured.
- A test over MARGIN times its limit is measured again, at most twice, because the first run also imports and compiles,
  and the others may meet a busy moment. The cheapest run counts. How slow the machine is counts first: a busy one
  would run each dear test three times.
- Nothing is left out of a file that the command line names, except slow tests.
- A worker of pytest-xdist sends one report for a test that passes: the other five messages cost as much as the test.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections.abc import Iterable
from typing import Final

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

import jsonrpc_fast

LIMITS: Final = {"default": 0.3, "lint": 5.0, "ci": 5.0}
"""The most that a test of each tier may cost with the core; with the pure backend, twice as much. What is dearer is
slow."""
OF_CI: Final = ("ci", "lint")
"""The marks of tests that `.ci/run` runs, and a run without --ci leaves out."""
MARGIN: Final = 1.5
"""How much dearer a test may seem before it fails: on a busy machine the same work costs more."""
PACE: Final = 0.016
"""How long `pace` took on the machine of these limits."""


def cost() -> float:
    """Return the processor time of this process and of the children that it waited for."""
    return sum(os.times()[:4])


def pace() -> float:
    """Return the processor time of a fixed piece of work: how slow this machine is at this moment."""
    rounds = []
    for _ in range(3):
        start = time.process_time()
        values = {str(number): [number] for number in range(30_000)}
        assert sum(map(len, values.values())) == 30_000
        rounds.append(time.process_time() - start)
    return min(rounds)


def tier_of(item: pytest.Item) -> str:
    """Return the name of the tier of a test."""
    return next((name for name in ("slow", *OF_CI) if item.get_closest_marker(name)), "default")


def is_measured(config: pytest.Config) -> bool:
    """Return whether costs mean something: not of benchmarks, nor under a tracer, nor with more examples than a usual
    run tries, nor where Python itself is slower.
    """
    is_slowed = sys.gettrace() is not None or "LD_PRELOAD" in os.environ or "COVERAGE_PROCESS_START" in os.environ
    is_deeper = settings.default.max_examples > 100 or any(
        config.getoption(name, False) for name in ("all_loops", "any_cost", "benchmark_only")
    )
    is_usual = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
    return is_usual and not (is_slowed or is_deeper)


def left_out(config: pytest.Config, items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """Return the tests that a run leaves out, by the option that would include them."""
    named = {os.path.abspath(argument.partition("::")[0]) for argument in config.args}
    found: dict[str, list[pytest.Item]] = {"--slow": [], "--ci": []}
    for item in items:
        tier = tier_of(item)
        if tier == "slow" and not config.getoption("slow"):
            found["--slow"].append(item)
        elif tier in OF_CI and not (config.getoption("ci") or config.getoption("slow") or str(item.path) in named):
            found["--ci"].append(item)
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test as pytest does, and fail it if it passes and costs more than its tier allows."""
    limit = LIMITS.get(tier_of(item))
    if limit is None or not is_measured(item.config):
        return None
    if jsonrpc_fast.BACKEND == "python":
        limit *= 2
    is_alone = not hasattr(item.config, "workerinput")
    if is_alone:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports, spent = _measured(item, nextitem)
    call = next((report for report in reports if report.when == "call"), None)
    if call is not None and call.passed and spent > MARGIN * limit:
        spent /= max(1.0, pace() / PACE)
        for _ in range(2):
            if spent <= MARGIN * limit:
                break
            item._initrequest()  # type: ignore[attr-defined]  # new fixtures
            again, cheaper = _measured(item, nextitem)
            if all(report.passed for report in again):
                spent = min(spent, cheaper / max(1.0, pace() / PACE))
        if spent > MARGIN * limit:
            call.outcome = "failed"
            call.longrepr = (
                f"{item.nodeid} passed, but took {spent:.2f} s of processor time: more than the {limit} s of its tier "
                f"({tier_of(item)}). Make it cheaper, or mark it: pytest.mark.ci, or pytest.mark.slow above "
                f"{LIMITS['ci']} s."
            )
    for report in reports:
        if is_alone or report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    if is_alone:
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _measured(item: pytest.Item, nextitem: pytest.Item | None) -> tuple[list[pytest.TestReport], float]:
    start = cost()
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    return reports, cost() - start
