"""Call services over a real `nats-server` while their processes are killed.

python -m tests.isolated.nats_load
python -m tests.isolated.nats_load --calls 1000000 --kills 50

killed       two workers; each in turn is killed with SIGKILL and started again while calls are in flight.
             Every call settles once, with its own result or with an exception
stopped      the same with SIGTERM: the workers serve what they have, and no call fails
stream       killed again, with JetStream: the broker sends what a killed worker had to the other, and no call fails
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


async def work(url: str, has_stream: bool) -> None:
    """Serve until SIGTERM."""
    connection = await nats.connect(url)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    stream = connection.jetstream() if has_stream else None
    handlers = {"next": lambda number: number + 1}
    service = Service(connection, SUBJECT, handlers, jetstream=stream, ack_seconds=1.0, max_handlers=256)
    async with service:
        print("ready", flush=True)
        await stopped.wait()
    await connection.close()


class Worker:
    """A process with a service."""

    def __init__(self, url: str, *, stream: bool = False) -> None:
        self._command = [sys.executable, "-m", "tests.isolated.nats_load", "--worker", url, *["--stream"] * stream]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(*self._command, cwd=ROOT, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert await asyncio.wait_for(self._process.stdout.readline(), 60) == b"ready\n"

    async def end(self, by: signal.Signals = signal.SIGKILL) -> None:
        assert self._process is not None
        self._process.send_signal(by)
        await asyncio.wait_for(self._process.wait(), 60)


async def call_many(client: ServiceClient, calls: int, settled: Counter[str]) -> None:
    """Make calls, and count how each of them settles."""
    numbers = iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            try:
                result = await client.call("next", [number])
                settled["result" if result == number + 1 else "wrong result"] += 1
            except (CallTimeout, ConnectionLost) as error:
                settled[type(error).__name__] += 1

    await asyncio.gather(*[caller() for _ in range(IN_FLIGHT)])


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
        running = asyncio.create_task(call_many(client, calls, settled))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000, help="calls of a scene (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=10, help="how many times a worker is ended (default: %(default)s)")
    parser.add_argument("--worker", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--stream", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        asyncio.run(work(options.worker, options.stream))
    else:
        asyncio.run(run(options))


if __name__ == "__main__":
    main()
