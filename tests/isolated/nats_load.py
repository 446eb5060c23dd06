"""Call services over a real `nats-server` while their processes are killed, and measure one worker and two.

python -m tests.isolated.nats_load
python -m tests.isolated.nats_load --calls 1000000 --kills 50

killed       two workers; each in turn is killed with SIGKILL and started again while calls are in flight.
             Every call settles once, with its own result or with an exception
stopped      the same with SIGTERM: the workers serve what they have, and no call fails
stream       killed again, with JetStream: the broker sends what a killed worker had to the other, and no call fails
one, two     calls per second with one worker and with two, for functions that return at once one, two     the same for
functions that wait 5 ms, eight of them at a time in a worker
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import nats

from jsonrpc_fast.adapters.nats import Service, ServiceClient
from jsonrpc_fast.errors import CallTimeout, ConnectionLost

from ..support.nats_server import nats_server
from ..support.places import ROOT

SUBJECT = "load"
IN_FLIGHT = 256
WAIT_SECONDS = 0.005


async def wait(number: int) -> int:
    await asyncio.sleep(WAIT_SECONDS)
    return number + 1


async def work(url: str, max_handlers: int, has_stream: bool) -> None:
    """Serve until SIGTERM."""
    connection = await nats.connect(url)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    stream = connection.jetstream() if has_stream else None
    handlers = {"next": lambda number: number + 1, "wait": wait}
    service = Service(connection, SUBJECT, handlers, jetstream=stream, ack_seconds=1.0, max_handlers=max_handlers)
    async with service:
        print("ready", flush=True)
        await stopped.wait()
    await connection.close()


class Worker:
    """A process with a service."""

    def __init__(self, url: str, max_handlers: int = 256, *, stream: bool = False) -> None:
        self._command = [sys.executable, "-m", "tests.isolated.nats_load", "--worker", url, "--at-a-time"]
        self._command += [str(max_handlers), *(["--stream"] if stream else [])]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(*self._command, cwd=ROOT, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert await asyncio.wait_for(self._process.stdout.readline(), 60) == b"ready\n"

    async def end(self, by: signal.Signals = signal.SIGKILL) -> None:
        assert self._process is not None
        self._process.send_signal(by)
        await asyncio.wait_for(self._process.wait(), 60)


async def call_many(client: ServiceClient, method: str, calls: int, settled: Counter[str], in_flight: int) -> None:
    """Make calls, and count how each of them settles."""
    numbers = iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            try:
                result = await client.call(method, [number])
                settled["result" if result == number + 1 else "wrong result"] += 1
            except (CallTimeout, ConnectionLost) as error:
                settled[type(error).__name__] += 1

    await asyncio.gather(*[caller() for _ in range(in_flight)])


async def killed(folder: Path, calls: int, kills: int, by: signal.Signals, *, stream: bool = False) -> Counter[str]:
    """End two workers in turn while calls are in flight, and return how the calls settled."""
    settled: Counter[str] = Counter()
    with nats_server(folder, jetstream=stream) as server:
        connection = await nats.connect(server.url)
        store = connection.jetstream() if stream else None
        if store is not None:
            await store.add_stream(name="load", subjects=[SUBJECT])
        workers = [Worker(server.url, stream=stream), Worker(server.url, stream=stream)]
        for worker in workers:
            await worker.start()
        client = ServiceClient(connection, SUBJECT, jetstream=store, timeout=60.0 if stream else 2.0)
        running = asyncio.create_task(call_many(client, "next", calls, settled, IN_FLIGHT))
        ended = 0
        while ended < kills:
            due = calls * (ended + 1) // (kills + 1)
            while settled.total() < due and not running.done():
                await asyncio.sleep(0.005)
            await workers[ended % 2].end(by)
            await workers[ended % 2].start()
            ended += 1
        await running
        for worker in workers:
            await worker.end()
        await connection.close()
    return settled


async def measured(folder: Path, workers: int, method: str, calls: int, max_handlers: int) -> float:
    """Return calls per second."""
    settled: Counter[str] = Counter()
    with nats_server(folder) as server:
        connection = await nats.connect(server.url)
        started = [Worker(server.url, max_handlers) for _ in range(workers)]
        for worker in started:
            await worker.start()
        client = ServiceClient(connection, SUBJECT)
        begun = time.monotonic()
        await call_many(client, method, calls, settled, IN_FLIGHT)
        took = time.monotonic() - begun
        for worker in started:
            await worker.end(signal.SIGTERM)
        await connection.close()
    assert settled == {"result": calls}, settled
    return calls / took


async def run(options: argparse.Namespace) -> None:
    async def scene(name: str, calls: int, by: signal.Signals, **kind: Any) -> Counter[str]:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            settled = await killed(Path(folder), calls, options.kills, by, **kind)
        counts = ", ".join(f"{kind}: {count}" for kind, count in sorted(settled.items()))
        print(f"{name:8} {calls} calls, {options.kills} workers ended, {time.monotonic() - begun:.0f} s: {counts}")
        assert settled.total() == calls, settled
        assert settled["wrong result"] == 0, settled
        return settled

    await scene("killed", options.calls, signal.SIGKILL)
    settled = await scene("stopped", options.calls, signal.SIGTERM)
    assert settled == {"result": options.calls}, settled
    calls = options.calls // 10
    settled = await scene("stream", calls, signal.SIGKILL, stream=True)
    assert settled == {"result": calls}, settled
    for method, max_handlers in (("next", 256), ("wait", 8)):
        rates = []
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                rates.append(await measured(Path(folder), workers, method, options.calls // 5, max_handlers))
        print(f"{method:8} one worker {rates[0]:,.0f} calls a second, two {rates[1]:,.0f}: {rates[1] / rates[0]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000, help="calls of a scene (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=10, help="how many times a worker is ended (default: %(default)s)")
    parser.add_argument("--worker", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--at-a-time", type=int, default=256, help=argparse.SUPPRESS)
    parser.add_argument("--stream", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        asyncio.run(work(options.worker, options.at_a_time, options.stream))
    else:
        asyncio.run(run(options))


if __name__ == "__main__":
    main()
