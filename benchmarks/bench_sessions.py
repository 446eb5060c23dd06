"""Measure the round trips of sessions and the cost of a deadline: `python -m benchmarks.bench_sessions`.

Client and server run in one loop, so the time is the sum of both, and a second processor does not help. All contestants
of a channel are connected at the same time and take turns in every round. The minimum of all rounds is reported.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import platform
import random
import sys
from dataclasses import dataclass
from importlib.metadata import version
from time import perf_counter
from typing import Final

import jsonrpc_fast
from jsonrpc_fast.hooks import Outcome
from jsonrpc_fast.session.calls import Calls
from jsonrpc_fast.session.conventions import Convention

from .session_peers import AIORPCX, CONTESTANTS, MCP, OURS, PJRPC, PYGLS, Call, is_right
from .tables import markdown

SAMPLE_SECONDS: Final = 0.01
IN_FLIGHT: Final = (1, 64)
OPPONENTS: Final = (PYGLS, PJRPC, AIORPCX, MCP)
BARS: Final = {"memory": 2.0, "TCP": 1.3}
"""The minimum speed-up over the fastest opponent, by channel."""

Times = dict[tuple[str, int], dict[str, float]]
"""Microseconds of a round trip by channel, calls in flight and contestant."""


@dataclass
class Work:
    """Calls of one contestant with a constant number in flight."""

    channel: str
    name: str
    in_flight: int
    call: Call
    calls: int = 0

    async def sample(self, calls: int) -> float:
        """Return the microseconds per call."""

        async def caller() -> None:
            for _ in range(calls // self.in_flight):
                await self.call(1, 2)

        started = perf_counter()
        await asyncio.gather(*[caller() for _ in range(self.in_flight)])
        return (perf_counter() - started) / (calls // self.in_flight * self.in_flight) * 1e6

    async def prepare(self) -> None:
        """Check that the contestant works, and find how many calls fill a sample."""
        results = await asyncio.gather(*[self.call(number, 2) for number in range(self.in_flight)])
        if not all(is_right(result, number + 2) for number, result in enumerate(results)):
            raise AssertionError(f"{self.name} does not add")
        await self.sample(self.in_flight * 20)
        taken = await self.sample(self.in_flight * 20)
        self.calls = max(self.in_flight, int(SAMPLE_SECONDS * 1e6 / taken))


async def measure(channel: str, rounds: int) -> Times:
    times: Times = {(channel, in_flight): {} for in_flight in IN_FLIGHT}
    async with contextlib.AsyncExitStack() as stack:
        works = []
        for contestant in CONTESTANTS:
            if contestant.channel == channel:
                call = await stack.enter_async_context(contestant.open())
                works += [Work(channel, contestant.name, in_flight, call) for in_flight in IN_FLIGHT]
        for work in works:
            await work.prepare()
        gc.collect()
        gc.disable()
        for number in range(1, rounds + 1):
            print(f"\r{channel}: round {number} of {rounds} ", end="", file=sys.stderr, flush=True)
            for work in works:
                found = times[channel, work.in_flight]
                found[work.name] = min(found.get(work.name, float("inf")), await work.sample(work.calls))
            gc.collect()
            # Otherwise each contestant would always run after the same one.
            works.reverse()
        gc.enable()
    print(file=sys.stderr)
    return times


def round_trip_tables(times: Times) -> str:
    parts = []
    for (channel, in_flight), found in times.items():
        best = min(found[name] for name in OPPONENTS)
        rows = [("contestant", "µs a round trip", "times the best other")]
        for name, taken in sorted(found.items(), key=lambda item: item[1]):
            rows.append((name, f"{taken:.1f}", f"{taken / best:.2f}"))
        parts.append(f"### Over {channel}, {in_flight} in flight\n\n{markdown(rows)}")
    return "\n\n".join(parts)


def bar_table(times: Times) -> str:
    rows = [("channel", "in flight", "best other", "speed-up", "bar", "reached")]
    for (channel, in_flight), found in times.items():
        name = min(OPPONENTS, key=lambda name: found[name])
        speed_up = found[name] / found[OURS]
        reached = "yes" if speed_up >= BARS[channel] else "**MISSED**"
        rows.append((channel, str(in_flight), name, f"{speed_up:.2f}x", f"at least {BARS[channel]:g}x", reached))
    return markdown(rows)


def calls_table(rounds: int) -> str:
    """Return the cost of tracking a call while others with random deadlines are in flight, as Markdown."""
    rows: list[tuple[str, ...]]
    rows = [("in flight", "begin, ns", "begin and settle, ns", "expire, ns", "progress, ns")]
    for pending in (1_000, 10_000, 100_000):
        best = [float("inf")] * 4
        for _ in range(rounds):
            best = [min(pair) for pair in zip(best, calls_seconds(pending), strict=True)]
        rows.append((f"{pending:,}", *[f"{seconds * 1e9:,.0f}" for seconds in best]))
    return markdown(rows)


def calls_seconds(pending: int, count: int = 5_000) -> tuple[float, float, float, float]:
    numbers = random.Random(pending)
    calls = Calls(Convention(), max_calls=10**7)
    others = [calls.begin("add", 0.0, numbers.uniform(1000, 2000), 1000.0) for _ in range(pending)]
    timeouts = [numbers.uniform(0, 900) for _ in range(count)]
    started = perf_counter()
    for timeout in timeouts:
        calls.begin("add", 0.0, timeout)
    begun = perf_counter()
    calls.expire(950.0)
    expired = perf_counter()
    for timeout in timeouts:
        calls.settle(calls.begin("add", 950.0, timeout).id, Outcome.RESULT)
    settled = perf_counter()
    for number in range(count):
        others[number % pending].progressed = 951.0
    ended = perf_counter()
    return (
        (begun - started) / count,
        (settled - expired) / count,
        (expired - begun) / count,
        (ended - settled) / count,
    )


def _facts() -> str:
    libraries = ["pygls", "pjrpc", "aiorpcX", "mcp", "aiohttp"]
    facts = [
        f"jsonrpc_fast {jsonrpc_fast.__version__} ({jsonrpc_fast.BACKEND})",
        f"{platform.python_implementation()} {platform.python_version()}",
        *[f"{library} {version(library)}" for library in libraries],
        f"{platform.system()} {platform.machine()}",
    ]
    return ", ".join(facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="(default: %(default)s)")
    options = parser.parse_args()
    if jsonrpc_fast.BACKEND != "cython":
        raise SystemExit("the benchmarks measure the compiled core, which is not in use")
    logging.disable(logging.CRITICAL)
    times: Times = {}
    for channel in BARS:
        times.update(asyncio.run(measure(channel, options.rounds)))
    print(_facts(), "", bar_table(times), "", round_trip_tables(times), sep="\n")
    print("\n### One call among others in flight\n", calls_table(5), sep="\n")


if __name__ == "__main__":
    main()
