"""Run sessions that connect again while their peers are killed, stopped, frozen and cut off, and count what goes wrong.

    python -m tests.isolated.session_chaos --seconds 120
    python -m tests.isolated.session_chaos --loop uvloop --channel tls --seed 7
    python -m tests.isolated.session_chaos --together

Each round has a `ReconnectingSession` with subscriptions, hooks, progress, a heartbeat and small or large bounds, over
one of the channels, or over each of them with `--together`; the far ends are other processes. The run fails unless

- each call settles exactly once, for the hooks and for its caller, and with its own result;
- nothing that the far end served is served again, everything that got a response was served once, and nothing that
  failed with `was_sent` False was served: the far end records what it serves in a file that outlives it;
- a subscription brings consecutive numbers of one connection, and a `Gap` between two connections;
- no task, no timer, no descriptor and no child is left after a round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import random
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from jsonrpc_fast import Notification, ParseError
from jsonrpc_fast.errors import CallCancelled, CallTimeout, ConnectionLost, RpcError, StateError
from jsonrpc_fast.session import Gap, ReconnectingSession, Session, SessionContext, Subscriptions
from jsonrpc_fast.transports import (
    StdioClient,
    StdioServer,
    TcpClient,
    TcpServer,
    Transport,
    UnixClient,
    UnixServer,
    run_stdio,
)
from jsonrpc_fast.transports.websocket import WebSocketClient, WebSocketServer

from ..simulation.end import FullConvention
from ..support import loops
from ..support.certificates import contexts_of, write_certificates
from ..support.ledger import Ledger
from ..support.places import ROOT

CHANNELS: Final = ("tcp", "tls", "unix", "websocket", "wss", "stdio")
SECURE: Final = ("tls", "wss")
SERVED: Final = struct.Struct("<Q")
HANG_SECONDS: Final = 300.0
"""How much longer than planned a round may take: on a busy machine each start of a far end takes half a minute."""
EXPECTED: Final = (OSError, StateError, RpcError, ParseError)
"""The faults that may be reported. A ParseError is the last message of an end that was killed."""


# The far end, in another process.


class FarEnd:
    """Serves one connection after another, and publishes numbers to those that subscribe."""

    def __init__(self, served: Path) -> None:
        self._served = os.open(served, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._connections = 0

    async def serve(self, transport: Transport) -> None:
        self._connections += 1
        epoch = f"{os.getpid()}/{self._connections}"
        publishing: list[asyncio.Task[None]] = []

        async def publish() -> None:
            number = 0
            with contextlib.suppress(ConnectionLost):
                while True:
                    await session.notify("eth_subscription", {"subscription": 7, "result": [epoch, number]})
                    number += 1
                    await asyncio.sleep(0.002)

        def subscribe() -> int:
            for task in publishing:
                task.cancel()
            publishing[:] = [asyncio.get_running_loop().create_task(publish())]
            return 7

        handlers = {
            "eth_subscribe": subscribe,
            "eth_unsubscribe": lambda _: [task.cancel() for task in publishing],
            "echo": lambda value: value,
            "once": self._once,
            "slow_once": self._slow_once,
            "back": back,
            "progress": progress,
            "refuse": refuse,
            "drop": transport.disconnect,
        }
        async with Session(
            transport, handlers, convention=FullConvention(), close_seconds=0.5, hooks=Quiet()
        ) as session:
            await session.wait_closed()
        for task in publishing:
            task.cancel()

    def _once(self, number: int) -> int:
        os.write(self._served, SERVED.pack(number))
        return number

    async def _slow_once(self, number: int, seconds: float) -> int:
        self._once(number)
        await asyncio.sleep(seconds)
        return number


class Quiet:
    """Hooks of the far end: a connection or a message that is cut off is not a fault here."""

    def fault(self, error: BaseException) -> None:
        if not isinstance(error, EXPECTED):
            logging.error("a fault of the far end: %r", error)


async def back(context: SessionContext, value: Any) -> Any:
    try:
        return await context.session.call("echo", [value], timeout=20)
    except (ConnectionLost, CallTimeout):
        raise RpcError(-32000, "the near end is gone") from None


async def progress(context: SessionContext, steps: int, workDoneToken: Any = None) -> int:
    for step in range(steps):
        context.report_progress(step)
        await asyncio.sleep(0.001)
    return steps


def refuse(code: int) -> None:
    raise RpcError(code, "refused", code)


async def serve_until_terminated(channel: str, served: Path, place: str) -> None:
    far = FarEnd(served)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    while True:
        server: Any
        if channel == "unix":
            server = UnixServer(far.serve, place)
        else:
            ssl = contexts_of(served.parent)[0] if channel in SECURE else None
            kind = WebSocketServer if channel in ("websocket", "wss") else TcpServer
            server = kind(far.serve, "127.0.0.1", int(place), ssl=ssl)
        try:
            await server.start()
            break
        except OSError:  # the previous one still listens
            await asyncio.sleep(0.01)
    print(place if channel == "unix" else server.address[1], flush=True)
    await stopped.wait()
    await server.close(drain_seconds=1, grace_seconds=1)


# The near end.


class Round:
    """One far end, restarted as often as it is killed, and the calls of the near end."""

    def __init__(self, channel: str, seed: int, folder: Path) -> None:
        self.channel = channel
        self.seed = seed
        self.numbers = random.Random(seed)
        self.folder = folder
        self.served_file = folder / f"served-{seed}"
        self.place = str(folder / "socket") if channel == "unix" else "0"
        self.process: Any = None
        self.transport: Any = None
        self.ledger = Ledger(*EXPECTED)
        self.outcomes: Counter[str] = Counter()
        self.connections = 0
        self.gaps = 0
        self.items = 0
        self.calls = 0
        self.served = 0
        self.answered: set[int] = set()
        self.not_sent: set[int] = set()
        self.wrong: list[str] = []
        self.ends_at = 0.0

    def command(self) -> list[str]:
        arguments = ["--peer", self.channel, "--place", self.place, "--served", str(self.served_file)]
        return [sys.executable, "-m", __spec__.name, "--loop", loops.current, *arguments]

    async def start_far(self) -> None:
        if self.channel != "stdio":
            self.process = await asyncio.create_subprocess_exec(
                *self.command(), cwd=ROOT, stdout=asyncio.subprocess.PIPE
            )
            self.place = (await self.process.stdout.readline()).decode().strip()

    def make_transport(self) -> Any:
        if self.channel == "stdio":
            self.transport = StdioClient(self.command(), cwd=ROOT, exit_seconds=0.5)
        elif self.channel == "unix":
            self.transport = UnixClient(self.place)
        else:
            ssl = contexts_of(self.folder)[1] if self.channel in SECURE else None
            if self.channel in ("websocket", "wss"):
                scheme = "ws" if ssl is None else "wss"
                self.transport = WebSocketClient(f"{scheme}://localhost:{self.place}/", ssl=ssl, connect_seconds=5)
            else:
                self.transport = TcpClient("127.0.0.1", int(self.place), ssl=ssl, connect_seconds=5)
        return self.transport

    async def greet(self, session: Session) -> None:
        """Make a call on each connection before others do."""
        await session.call("echo", ["hello"], timeout=30)
        self.connections += 1

    def pid(self) -> int | None:
        if self.channel == "stdio":
            pid: int | None = self.transport.pid if self.transport.is_connected else None
            return pid
        return None if self.process.returncode is not None else int(self.process.pid)

    async def run(self, seconds: float) -> None:
        numbers = self.numbers
        # A program is silent while it starts.
        heartbeats = [None, 10] if self.channel == "stdio" else [None, 0.3, 2]
        options: dict[str, Any] = {"heartbeat_seconds": numbers.choice(heartbeats), "timeout": 30}
        if numbers.random() < 0.4:
            options |= {"max_calls": numbers.choice([4, 64]), "max_handlers": 64, "max_inbox": 200}
        await self.start_far()
        client = ReconnectingSession(
            self.make_transport,
            {"echo": lambda value: value},
            convention=FullConvention(),
            hooks=self.ledger,
            min_delay_seconds=0.001,
            max_delay_seconds=0.05,
            close_seconds=0.5,
            on_connect=self.greet,
            retry=lambda error: True,
            **options,
        )
        self.ends_at = time.monotonic() + seconds
        try:
            await client.start()
            reading = asyncio.ensure_future(self._read(client))
            workers = [self._work(client) for _ in range(numbers.choice([1, 8, 40]))]
            await asyncio.gather(*workers, self._disturb(client))
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled() and reading.exception() is not None:
                self.wrong.append(f"the subscription ended: {reading.exception()!r}")
        finally:
            await client.close(grace_seconds=0.5)
            if self.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    self.process.send_signal(signal.SIGCONT)
                    self.process.kill()
                await self.process.communicate()
        self._check()

    def _check(self) -> None:
        data = self.served_file.read_bytes() if self.served_file.exists() else b""
        served = Counter(number for (number,) in SERVED.iter_unpack(data))
        self.served = len(served)
        twice = [number for number, count in served.items() if count > 1]
        for name, found in (
            ("served twice", twice),
            ("answered, not served", sorted(self.answered - set(served))),
            ("not sent, but served", sorted(self.not_sent & set(served))),
            ("not settled", sorted(self.ledger.open)),
            ("settled twice or without a start, or faults", [self.ledger.violations] * bool(self.ledger.violations)),
        ):
            if found:
                self.wrong.append(f"{name}: {found[:5]} {dict(self.ledger.faults)}")

    async def _disturb(self, client: ReconnectingSession) -> None:
        numbers = self.numbers
        while time.monotonic() < self.ends_at:
            await asyncio.sleep(numbers.random() * 0.4)
            how = numbers.choice(["kill", "terminate", "freeze", "drop", "abort", "nothing"])
            pid, session = self.pid(), client.session
            with contextlib.suppress(ProcessLookupError, ConnectionLost, CallTimeout, RpcError):
                if how == "drop" and session is not None:
                    await session.call("drop", timeout=1)
                elif how == "abort" and self.transport is not None:
                    await self.transport.disconnect()
                elif how == "freeze" and pid is not None:
                    os.kill(pid, signal.SIGSTOP)
                    await asyncio.sleep(numbers.choice([0.05, 1.5]))
                    os.kill(pid, signal.SIGCONT)
                elif how in ("kill", "terminate") and pid is not None:
                    os.kill(pid, signal.SIGKILL if how == "kill" else signal.SIGTERM)
                    await self._restart()

    async def _restart(self) -> None:
        """Start another far end; one that was terminated may still finish its work."""
        before = self.process
        await self.start_far()
        if before is not None:
            await before.communicate()

    async def _read(self, client: ReconnectingSession) -> None:
        subscriptions = Subscriptions(client, max_items=1_000_000)
        while True:
            try:
                subscription = await subscriptions.subscribe()
                break
            except (ConnectionLost, CallTimeout, RpcError):
                pass
        epoch, expected = None, 0
        async for item in subscription:
            if isinstance(item, Gap):
                self.gaps += 1
                epoch = None
                continue
            self.items += 1
            if epoch is None:
                epoch, expected = item[0], item[1]
            if item != [epoch, expected]:
                self.wrong.append(f"an item of {item} in the place of {[epoch, expected]}")
            expected += 1

    async def _work(self, client: ReconnectingSession) -> None:
        while time.monotonic() < self.ends_at:
            name = self.numbers.choice(["echo", "once", "slow_once", "back", "progress", "refuse", "batch", "notify"])
            name = "cancelled" if self.numbers.random() < 0.05 else name
            self.calls += 1
            number = self.calls
            try:
                await asyncio.wait_for(self._call(client, name, number), 60)
            except TimeoutError as error:
                if not isinstance(error, CallTimeout):
                    self.wrong.append(f"{name} hangs")
                self.outcomes["timed out"] += 1
            except ConnectionLost as loss:
                self.outcomes[f"lost, was sent: {loss.was_sent}"] += 1
                if loss.was_sent is False:
                    self.not_sent.add(number)
            except (RpcError, CallCancelled) as error:
                code = getattr(error, "code", None)
                self.outcomes[f"error {code}"] += 1
                if code not in (-32009, -32000, -32800):
                    self.wrong.append(f"{name}: {error!r}")
            except Exception as error:
                self.wrong.append(f"{name}: {error!r}")
            else:
                self.outcomes["right"] += 1
                if name in ("once", "slow_once"):
                    self.answered.add(number)

    async def _call(self, client: ReconnectingSession, name: str, number: int) -> None:
        text = f"{number} " + "é" * self.numbers.choice([0, 10, 1000, 60_000])
        timeout = self.numbers.choice([0.01, 5, 30])
        if name in ("echo", "back"):
            assert await client.call(name, [text], timeout=timeout) == text
        elif name == "once":
            assert await client.call(name, [number], timeout=30) == number
        elif name == "slow_once":
            assert await client.call(name, [number, self.numbers.random() * 0.1], timeout=30) == number
        elif name == "progress":
            seen: list[int] = []
            params = {"steps": 3}
            assert await client.call(name, params, timeout=timeout, idle_timeout=5, on_progress=seen.append) == 3
            assert seen == [0, 1, 2]
        elif name == "refuse":
            try:
                await client.call(name, [-number], timeout=timeout)
            except RpcError as error:
                if error.code != -number:
                    raise
        elif name == "notify":
            await client.notify("echo", [text], timeout=5)
        elif name == "batch":
            items: list[Any] = [("echo", [number]), Notification("echo", [text]), ("echo", [-number])]
            try:
                results = await client.call_batch(items, timeout=timeout)
            except StateError:  # more than `max_calls`
                return
            for expected, result in zip((number, None, -number), results, strict=True):
                if isinstance(result, Exception):
                    raise result
                assert result == expected
        else:
            task = asyncio.ensure_future(client.call("slow_once", [number, 1.0], timeout=30))
            await asyncio.sleep(self.numbers.random() * 0.02)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


# The run.


@contextlib.contextmanager
def chaos_folder() -> Any:
    """A folder with the certificates of the run."""
    with tempfile.TemporaryDirectory() as name:
        write_certificates(Path(name))
        yield Path(name)


async def chaos(
    channels: list[str], seconds: float, round_seconds: float, seed: int, folder: Path, *, together: bool = False
) -> Counter[str]:
    """Run rounds for some seconds, one on each channel at least; or rounds of all channels together.

    Returns:
        Counts: of rounds, connections, calls by outcome, calls that were served, items and gaps of subscriptions.

    Raises:
        AssertionError: Something went wrong; the text lists each problem, and the seed of the round.
    """
    loop = asyncio.get_running_loop()
    reports: list[str] = []
    loop.set_exception_handler(lambda _, report: reports.append(f"{report['message']}: {report.get('exception')!r}"))
    await loop.run_in_executor(None, lambda: None)
    totals: Counter[str] = Counter()
    wrong: list[str] = []
    end = time.monotonic() + seconds
    descriptors: int | None = None
    before = {*asyncio.all_tasks(), *timers()}
    groups = [channels] if together else [[channel] for channel in channels]
    while totals["rounds"] < len(groups) or time.monotonic() < end:
        group = [
            Round(channel, seed + number, folder)
            for number, channel in enumerate(groups[totals["rounds"] % len(groups)])
        ]
        seed += len(group)
        found = reports  # they belong to no particular round, such as what is left
        try:
            await asyncio.wait_for(
                asyncio.gather(*[one.run(round_seconds) for one in group]), round_seconds + HANG_SECONDS
            )
        except TimeoutError:
            found.append("the round hangs")
        async for left in what_is_left(before):
            if left and time.monotonic() > group[0].ends_at + 30:
                found.append(left)
                break
        gc.collect()
        count = len(os.listdir("/proc/self/fd"))
        if totals["rounds"] == len(groups):
            descriptors = count
        elif descriptors is not None and count > descriptors + 2:
            found.append(f"{count - descriptors} descriptors are left")
        totals["rounds"] += 1
        for one in group:
            wrong += [f"{one.channel}, seed {one.seed}: {text}" for text in [*one.wrong, *found]]
            for name in ("calls", "connections", "gaps", "items", "served"):
                totals[name] += getattr(one, name)
            totals.update({f"calls {name}": count for name, count in one.outcomes.items()})
        reports.clear()
    assert not wrong, "\n".join(wrong)
    return totals


def timers() -> set[Any]:
    """Return the timers of the running loop, if it exposes them."""
    return {timer for timer in getattr(asyncio.get_running_loop(), "_scheduled", ()) if not timer.cancelled()}


async def what_is_left(before: set[Any]) -> AsyncIterator[str]:
    """Yield what a round has left, until nothing is left."""
    while True:
        left = {*asyncio.all_tasks(), *timers()} - before
        if not left:
            return
        yield f"left: {list(left)[:3]}"
        time.sleep(0.01)  # without a timer
        await asyncio.sleep(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channel", choices=[*CHANNELS, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=60, help="of the whole run (default: %(default)s)")
    parser.add_argument("--round-seconds", type=float, default=3, help="of a round (default: %(default)s)")
    parser.add_argument("--together", action="store_true", help="run the channels of a round at the same time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loop", choices=loops.LOOPS, default="asyncio", help="of both ends (default: %(default)s)")
    parser.add_argument("--peer", choices=CHANNELS, help=argparse.SUPPRESS)
    parser.add_argument("--place", default="0", help=argparse.SUPPRESS)
    parser.add_argument("--served", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    with loops.running_on(options.loop):
        if options.peer == "stdio":
            raise SystemExit(run_stdio(serve_stdio(options.served), grace_seconds=1))
        if options.peer:
            asyncio.run(serve_until_terminated(options.peer, options.served, options.place))
            return
        channels = list(CHANNELS) if options.channel == "all" else [options.channel]
        with chaos_folder() as folder:
            running = chaos(
                channels, options.seconds, options.round_seconds, options.seed, folder, together=options.together
            )
            totals = asyncio.run(running)
    print(f"{options.loop}: {dict(sorted(totals.items()))}, nothing wrong, nothing left")


def serve_stdio(served: Path) -> Any:
    async def serve(transport: StdioServer) -> None:
        await FarEnd(served).serve(transport)

    return serve


if __name__ == "__main__":
    main()
