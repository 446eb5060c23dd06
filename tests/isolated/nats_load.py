"""Call services over a real `nats-server` while their processes, or the server, are killed.

python -m tests.isolated.nats_load
python -m tests.isolated.nats_load --calls 1000000 --kills 50

killed       two workers; each in turn is killed with SIGKILL and started again while calls are in flight.
             Every call settles once, with its own result or with an exception
stopped      the same with SIGTERM: the workers serve what they have, and no call fails
stream       killed again, with JetStream: the broker sends what a killed worker had to the other, and no call fails
server       the server is killed with SIGKILL and started again, at once or after a second, or stands still for longer
             than a call may take
journal      the same with JetStream: in the end the workers have served everything that the stream has

In all of them no call waits for longer than its time limit, no result is that of another call, and no function of a
call ran that failed with `was_sent` False. Without JetStream no function runs twice. The workers write down each run.
"""

from __future__ import annotations

import argparse
import array
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final

import nats

from jsonrpc_fast.adapters.nats import Service, ServiceClient
from jsonrpc_fast.errors import CallTimeout, ConnectionLost

from ..support.nats_server import NatsServer, nats_server
from ..support.places import ROOT
from ..support.waiting import eventually

SUBJECT = "load"
IN_FLIGHT = 256
HUNG_SECONDS: Final = 10.0
"""How much longer than its time limit a call may take on a busy machine."""
PATIENT: Final[dict[str, Any]] = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.1}


async def work(url: str, ledger: str, has_stream: bool) -> None:
    """Serve until SIGTERM. Each run of the function is a number in the ledger."""
    connection = await nats.connect(url, error_cb=quietly, **PATIENT)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    stream = connection.jetstream() if has_stream else None
    runs = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def following(number: int) -> int:
        os.write(runs, array.array("q", [number]).tobytes())
        return number + 1

    handlers = {"next": following}
    service = Service(connection, SUBJECT, handlers, jetstream=stream, ack_seconds=1.0, max_handlers=256)
    async with service:
        print("ready", flush=True)
        await stopped.wait()
    await connection.close()


async def quietly(_: Exception) -> None:
    """nats-py logs each attempt to reconnect otherwise."""


class Worker:
    """A process with a service."""

    def __init__(self, url: str, ledger: Path, *, stream: bool = False) -> None:
        command = [sys.executable, "-m", "tests.isolated.nats_load", "--worker", url, str(ledger)]
        self._command = [*command, *["--stream"] * stream]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(*self._command, cwd=ROOT, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert await asyncio.wait_for(self._process.stdout.readline(), 60) == b"ready\n"

    async def end(self, by: signal.Signals = signal.SIGKILL) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(by)
        await asyncio.wait_for(self._process.wait(), 60)


async def call_many(client: ServiceClient, calls: int, limit: float, settled: Counter[str]) -> set[int]:
    """Make calls, and count how each of them settles. Return those that were not sent, as their exceptions say."""
    unsent: set[int] = set()
    numbers = iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            try:
                async with asyncio.timeout(limit + HUNG_SECONDS):
                    result = await client.call("next", [number])
                settled["result" if result == number + 1 else "wrong result"] += 1
            except CallTimeout:
                settled["CallTimeout"] += 1
            except ConnectionLost as error:
                settled["not sent" if error.was_sent is False else "ConnectionLost"] += 1
                if error.was_sent is False:
                    unsent.add(number)
                await asyncio.sleep(0.05)  # it fails at once until a worker is there again
            except TimeoutError:
                settled["hung"] += 1

    await asyncio.gather(*[caller() for _ in range(IN_FLIGHT)])
    return unsent


async def disturb(server: NatsServer, number: int, limit: float) -> None:
    """Kill the server and start it again, at once or later, or stop it for longer than a call may take."""
    if number % 3 == 2:
        server.pause()
        await asyncio.sleep(limit + 1)
        server.resume()
    else:
        server.kill()
        await asyncio.sleep(number % 3)
        await asyncio.to_thread(server.start)


async def killed(
    folder: Path, calls: int, kills: int, by: signal.Signals | None = None, *, stream: bool = False
) -> Counter[str]:
    """End two workers in turn by a signal, or disturb the server, while calls are in flight.

    Returns:
        How the calls settled, and what the ledger of the workers shows.
    """
    settled: Counter[str] = Counter()
    ledger = folder / "ledger"
    limit = 2.0 if not stream else 60.0 if by is not None else 5.0
    async with contextlib.AsyncExitStack() as stack:
        server = stack.enter_context(nats_server(folder, jetstream=stream))
        connection = await nats.connect(server.url, error_cb=quietly, **PATIENT)
        store = connection.jetstream() if stream else None
        if store is not None:
            await store.add_stream(name="load", subjects=[SUBJECT])
        workers = [Worker(server.url, ledger, stream=stream) for _ in range(2)]
        for worker in workers:
            stack.push_async_callback(worker.end)  # it waits for the server for ever
            await worker.start()
        client = ServiceClient(connection, SUBJECT, jetstream=store, timeout=limit)
        running = asyncio.create_task(call_many(client, calls, limit, settled))
        for ended in range(kills):
            due = calls * (ended + 1) // (kills + 1)
            while settled.total() < due and not running.done():
                await asyncio.sleep(0.005)
            if by is None:
                await disturb(server, ended, limit)
            else:
                await workers[ended % 2].end(by)
                await workers[ended % 2].start()
        unsent = await running
        stored = 0
        if store is not None:
            await eventually(partial(is_served, store), 60, 0.1)
            stored = (await store.stream_info("load")).state.messages
        for worker in workers:
            await worker.end(signal.SIGTERM if by is None else by)
        await connection.close()
    runs = Counter(array.array("q", ledger.read_bytes()))
    settled["unsent but run"] = len(unsent & runs.keys())
    settled["stored but not run"] = max(stored - len(runs), 0)
    settled["run again"] = runs.total() - len(runs)
    settled["most runs"] = max(runs.values())
    return +settled


async def is_served(store: Any) -> bool:
    """Return whether no message of the stream waits for a worker, or for the acknowledgement of one."""
    [consumer] = await store.consumers_info("load")
    return not (consumer.num_pending or consumer.num_ack_pending)


async def run(options: argparse.Namespace) -> None:
    async def scene(name: str, calls: int, by: signal.Signals | None = None, **kind: Any) -> Counter[str]:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            settled = await killed(Path(folder), calls, options.kills, by, **kind)
        counts = ", ".join(f"{kind}: {count}" for kind, count in sorted(settled.items()))
        print(f"{name:8} {calls} calls, {options.kills} ends, {time.monotonic() - begun:.0f} s: {counts}", flush=True)
        check(settled, calls, **kind)
        return settled

    await scene("killed", options.calls, signal.SIGKILL)
    settled = await scene("stopped", options.calls, signal.SIGTERM)
    assert settled["result"] == options.calls, settled
    calls = options.calls // 10
    settled = await scene("stream", calls, signal.SIGKILL, stream=True)
    assert settled["result"] == calls, settled
    await scene("server", options.calls)
    await scene("journal", calls, stream=True)


def check(settled: Counter[str], calls: int, *, stream: bool = False) -> None:
    """Check what must hold whatever is killed."""
    found = {"result", "CallTimeout", "ConnectionLost", "not sent"}
    assert sum(settled[kind] for kind in found) == calls, settled
    assert settled.keys() <= found | {"most runs"} | ({"run again"} if stream else set()), settled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000, help="calls of a scene (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=10, help="how many ends a scene has (default: %(default)s)")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--stream", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        asyncio.run(work(*options.worker, options.stream))
    else:
        asyncio.run(run(options))


if __name__ == "__main__":
    main()
