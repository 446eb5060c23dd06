"""Run two sessions that call each other, over memory, TCP and pipes, with delays, errors, cancellations and deadlines.

    python -m tests.isolated.session_soak
    python -m tests.isolated.session_soak --channel tcp --calls 1000000 --seed 2

Over TCP and pipes the far end is another process. Both ends make `--calls` calls. After that, the far end is killed
`--kills` times during calls; in memory it closes. The run fails unless every call settles exactly once and with the
expected outcome, nothing is left in either end, and memory does not grow after the first tenth of the calls.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from jsonrpc_fast import LSP, Notification
from jsonrpc_fast.codes import SessionErrorCode
from jsonrpc_fast.errors import CallCancelled, CallTimeout, ConnectionLost, RpcError
from jsonrpc_fast.session import LspConvention, Session, SessionContext
from jsonrpc_fast.transports import StdioClient, StdioServer, TcpClient, TcpServer, Transport, memory_pair

from ..support import loops
from ..support.ledger import Ledger, ServingLedger
from ..support.places import ROOT
from ..support.processes import resident_bytes

CHANNELS: Final = ("memory", "tcp", "pipes")
WORKERS: Final = 64
PROFILE: Final = LSP.replace(batches=True)
SETTLED_BYTES: Final = 6_000_000
"""How much a process may grow after the first tenth of its calls: what allocators keep."""


@dataclass
class Report:
    """The report of one end. `growth` is in bytes, since the first tenth of its calls."""

    calls: int
    seconds: float
    outcomes: dict[str, int]
    faults: dict[str, int]
    served: int
    growth: int


async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def hang(workDoneToken: int = 0) -> None:
    await asyncio.get_running_loop().create_future()


def crash() -> None:
    raise ZeroDivisionError


def refuse(code: int) -> None:
    raise RpcError(code, "refused", {"code": code})


async def back(context: SessionContext, value: Any) -> Any:
    return await context.session.call("echo", [value])


class End:
    """One of the two sessions, and the calls that it makes."""

    def __init__(self, transport: Transport, is_far: bool = False) -> None:
        self.ledger = Ledger(unique_ids=True) if is_far else ServingLedger(unique_ids=True)
        self.waiting_callbacks = 0
        self.is_peer_ending = False
        handlers: dict[str, Any] = {
            "echo": lambda value: value,
            "wait": wait,
            "hang": hang,
            "crash": crash,
            "refuse": refuse,
            "unwritable": object,
            "back": back,
            "traffic": self.traffic,
            "left": self.left,
        }
        self.session = Session(
            transport, handlers, hooks=self.ledger, convention=LspConvention(), timeout=60, close_seconds=0.5
        )

    async def traffic(self, calls: int, seed: int) -> dict[str, Any]:
        """Make calls and return a report."""
        numbers = random.Random(seed)
        started = time.monotonic()
        first = max(calls // 10, 1)
        await self._make(first, numbers)
        gc.collect()
        before = resident_bytes()
        await self._make(calls - first, numbers)
        gc.collect()
        growth = resident_bytes() - before
        ledger = self.ledger
        report = Report(
            calls, time.monotonic() - started, dict(ledger.outcomes), dict(ledger.faults), ledger.served, growth
        )
        return asdict(report)

    def left(self) -> dict[str, int]:
        """Return what this end holds while both ends are idle, and the number of calls that did not settle once."""
        engine = self.session._engine
        return {
            "calls": len(self.ledger.open),
            "pending": len(engine.calls),
            "requests": len(engine.requests.serving),
            "inbox": engine.inbox.items,
            "tasks": len(engine.inbox.runs),
            "callbacks": self.waiting_callbacks,
            "deadlines": max(0, len(engine.calls._deadlines) - 100),
            "tokens": len(engine.calls._by_token),
            "batches": len(engine.calls._open_batches),
            "waiting": len(self.session._wait_queue),
            "violations": self.ledger.violations,
        }

    async def _make(self, calls: int, numbers: random.Random) -> None:
        left = iter(range(calls))

        async def worker() -> None:
            for number in left:
                await self._call(number, numbers)

        await asyncio.gather(*[worker() for _ in range(min(WORKERS, calls))])

    async def _call(self, number: int, numbers: random.Random) -> None:
        """Make a call of a random kind. Raises AssertionError if the outcome is wrong."""
        session, kind = self.session, numbers.random()
        if kind < 0.50:
            value = ["x" * int(numbers.paretovariate(1.0) % 5000), number]
            assert await session.call("echo", [value]) == value
        elif kind < 0.60:
            seconds = numbers.random() * 0.01
            assert await session.call("wait", {"seconds": seconds}) == seconds
        elif kind < 0.65:
            assert await session.call("back", [number]) == number
        elif kind < 0.75:
            method, code = numbers.choice(
                [("refuse", number), ("crash", -32603), ("unwritable", -32603), ("none", -32601), ("echo", -32602)]
            )
            params = [number] if method == "refuse" else None
            error: object
            [error] = await asyncio.gather(session.call(method, params), return_exceptions=True)
            assert isinstance(error, RpcError)
            assert error.code == code
        elif kind < 0.83:
            # Some responses arrive just before the deadline, some just after it.
            seconds = numbers.random() * 0.01
            with contextlib.suppress(CallTimeout):
                assert await session.call("wait", [seconds], timeout=numbers.random() * 0.01) == seconds
        elif kind < 0.86:
            try:
                await session.call("hang", timeout=numbers.random() * 0.01, idle_timeout=1)
            except CallTimeout:
                pass
            else:
                raise AssertionError("a timeout was expected")
        elif kind < 0.91:
            task = asyncio.ensure_future(session.call(numbers.choice(["hang", "wait"]), _seconds(numbers)))
            # A worker that is cancelled meanwhile does not await it.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.sleep(numbers.random() * 0.003)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, RpcError):
                await task
        elif kind < 0.96:
            await self._call_with_callbacks(number, numbers)
        else:
            results = await session.call_batch(
                [("echo", [number]), Notification("wait", [0]), ("refuse", [number]), ("wait", [0.001])]
            )
            assert [results[0], results[1], results[3]] == [number, None, 0.001]
            assert isinstance(results[2], RpcError)

    async def _call_with_callbacks(self, number: int, numbers: random.Random) -> None:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(result: Any) -> None:
            self.waiting_callbacks -= 1
            done.set_result(result)  # a second call would raise InvalidStateError, which is a fault

        id = self.session.call_soon("wait", [0.002], on_result=settle, on_error=settle)
        self.waiting_callbacks += 1
        if numbers.random() < 0.5:
            await asyncio.sleep(numbers.random() * 0.004)
            self.session.cancel(id)
            assert not self.session.cancel(id)
            assert isinstance(await done, CallCancelled) or done.result() == 0.002
        else:
            assert await done == 0.002


def _seconds(numbers: random.Random) -> list[float] | None:
    """Return the params for `wait`. For `hang` they are one argument too many, and an error."""
    return [numbers.random() * 0.005] if numbers.random() < 0.5 else None


def peer_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", __spec__.name, "--loop", loops.current, *arguments]


@contextlib.asynccontextmanager
async def over_memory() -> AsyncIterator[tuple[End, Any]]:
    one, other = memory_pair(profile=PROFILE)
    ends = End(one), End(other, is_far=True)
    async with ends[1].session, ends[0].session:
        yield ends[0], ends[1].session.close


@contextlib.asynccontextmanager
async def over_pipes() -> AsyncIterator[tuple[End, Any]]:
    transport = StdioClient(peer_command("--peer", "pipes"), cwd=ROOT, profile=PROFILE)
    end = End(transport)
    async with end.session:
        yield end, lambda: _kill(transport.pid)


@contextlib.asynccontextmanager
async def over_tcp() -> AsyncIterator[tuple[End, Any]]:
    ends: asyncio.Queue[End] = asyncio.Queue()

    async def serve(transport: Transport) -> None:
        end = End(transport)
        async with end.session:
            ends.put_nowait(end)
            await end.session.wait_closed()

    server = TcpServer(serve, "127.0.0.1", 0, profile=PROFILE)
    await server.start()
    command = peer_command("--peer", "tcp", "--port", str(server.address[1]))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    try:
        end = await asyncio.wait_for(ends.get(), 20)
        yield end, lambda: _kill(process.pid)
        await end.session.close()
    finally:
        await server.close()
        with contextlib.suppress(ProcessLookupError):
            await _kill(process.pid)
        await process.wait()


async def _kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


OPEN: Final[dict[str, Any]] = {"memory": over_memory, "pipes": over_pipes, "tcp": over_tcp}


async def serve_as_peer(channel: str, port: int) -> None:
    """Run the far end, in another process."""
    transport: Transport
    transport = StdioServer(profile=PROFILE) if channel == "pipes" else TcpClient("127.0.0.1", port, profile=PROFILE)
    async with End(transport, is_far=True).session as session:
        await session.wait_closed()


def check(report: Report, *, is_flat: bool) -> None:
    assert not report.faults.keys() - {"ZeroDivisionError", "EncodeError"}, f"faults: {report.faults}"
    if is_flat:
        assert report.growth < SETTLED_BYTES, f"{report.growth} bytes more"


async def check_nothing_left(before: set[asyncio.Task[Any]]) -> None:
    """Check that no task of a session outlives it."""
    for _ in range(100):
        if asyncio.all_tasks() <= before:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"tasks are left: {asyncio.all_tasks() - before}")


async def soak(channel: str, calls: int, seed: int) -> list[Report]:
    """Make `calls` calls from both ends at the same time. Returns their reports, the near end's first."""
    before = asyncio.all_tasks()
    async with OPEN[channel]() as (end, _):
        far = asyncio.ensure_future(end.session.call("traffic", [calls, seed + 1], timeout=None))
        reports = [Report(**await end.traffic(calls, seed)), Report(**await far)]
        await asyncio.sleep(0.1)  # cancelled handlers end, and late responses arrive
        for left in (end.left(), await end.session.call("left") | {"requests": 0}):
            assert not any(left.values()), f"left behind: {left}"
    await check_nothing_left(before)
    for report in reports:
        check(report, is_flat=calls >= 50_000)
    return reports


async def kill(channel: str, seed: int) -> Counter[str]:
    """Kill the far end while both are busy. Returns how the calls of the near end settled."""
    numbers = random.Random(seed)
    before = asyncio.all_tasks()
    end: End
    async with OPEN[channel]() as (end, kill_peer):
        ends = asyncio.gather(
            end.session.call("traffic", [1_000_000, seed + 1], timeout=None),
            *[_until_lost(end, numbers) for _ in range(WORKERS)],
            return_exceptions=True,
        )
        await asyncio.sleep(0.05 + numbers.random() * 0.3)
        end.is_peer_ending = True
        await kill_peer()
        results = await asyncio.wait_for(ends, 20)
        # In memory the far end closes, and refuses the requests that its own calls need.
        is_refused = isinstance(results[0], RpcError) and results[0].code == SessionErrorCode.SERVER_BUSY
        assert is_refused or isinstance(results[0], ConnectionLost), results[0]
        assert {type(result) for result in results[1:]} == {ConnectionLost}
        await asyncio.wait_for(end.session.wait_closed(), 20)
        left = end.left()
        assert not any(left.values()), f"left behind: {left}"
    await check_nothing_left(before)
    return end.ledger.outcomes


async def _until_lost(end: End, numbers: random.Random) -> None:
    number = 0
    while True:
        number += 1
        try:
            await end._call(number, numbers)
        except (AssertionError, RpcError):
            # A batch or a callback reports the loss as a result, and a far end that closes refuses requests.
            if not end.session.is_connected:
                raise ConnectionLost from None
            if not end.is_peer_ending:
                raise
            await asyncio.sleep(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channel", choices=[*CHANNELS, "all"], default="all")
    parser.add_argument("--calls", type=int, default=100_000, help="calls of each end (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=20, help="kills on each channel (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--loop", choices=loops.LOOPS, default="asyncio", help="event loop of both ends (default: %(default)s)"
    )
    parser.add_argument("--peer", choices=CHANNELS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    with loops.running_on(options.loop):
        if options.peer:
            asyncio.run(serve_as_peer(options.peer, options.port))
        else:
            run(options)


def run(options: argparse.Namespace) -> None:
    for channel in CHANNELS if options.channel == "all" else [options.channel]:
        for name, report in zip(("near", "far"), asyncio.run(soak(channel, options.calls, options.seed)), strict=True):
            print(
                f"{channel}, {name} end: {report.calls} calls in {report.seconds:.1f} s, {report.outcomes}, "
                f"{report.served or 'some'} requests served, {report.growth / 1e6:+.1f} MB, nothing left",
                flush=True,
            )
        outcomes: Counter[str] = Counter()
        for number in range(options.kills):
            outcomes += asyncio.run(kill(channel, options.seed + number))
        print(f"{channel}, killed {options.kills} times: {dict(outcomes)}, nothing left", flush=True)


if __name__ == "__main__":
    main()
