"""Run two processes on real pipes: every message arrives, in order and whole, and no process hangs.

    python -m tests.isolated.transport_soak

Each scene has 100,000 messages of random sizes up to 1 MB. They are numbered, and both sides know their contents.

    both ways     both send at the same time, as fast as they can
    slow readers  both pause reading again and again
    echo          the child responds, and stops reading while its responses are not read
    slow writer   the child writes pieces of any size, with pauses
    killed        the child kills itself while both send: what it wrote arrives, and the parent is notified
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from typing import Any

from jsonrpc_fast import Notification, Request, Response, encode_notification, encode_request, encode_result
from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.transports import StdioClient, run_stdio
from jsonrpc_fast.transports.connection import Connection

from ..support import loops
from ..support.places import ROOT

LARGEST = 1_000_000
TEXT = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=LARGEST + 1000))


def sizes(seed: int, messages: int) -> list[int]:
    """Return random sizes: most are small, one in a thousand is large, and the last is the largest."""
    chance = random.Random(seed)
    bounds = chance.choices((200, 5_000, 60_000, LARGEST), (900, 90, 9, 1), k=messages)
    return [*(chance.randrange(bound) for bound in bounds[1:]), LARGEST]


def text_of(number: int, size: int) -> str:
    start = number % 997
    return TEXT[start : start + size]


class Check:
    """Receives the numbered messages of the other side, checks that they arrive in order and whole, and counts them.

    Args:
        transport: It pauses reading for a moment at every multiple of `every`, if that is not zero.
        seed: The seed of the other side's messages.
    """

    def __init__(self, transport: Connection, seed: int, messages: int, every: int = 0) -> None:
        self.received = 0
        self.done: list[Any] = []
        self.errors: list[Exception] = []
        self.is_over = asyncio.Event()
        self._transport, self._every = transport, every
        self._sizes = sizes(seed, messages)
        transport.pauses_when_blocked = False
        transport.onmessage = self._receive
        transport.onerror = self.errors.append

    def _receive(self, message: Any) -> None:
        if getattr(message, "method", "") == "done":
            self.done.append(message.params)
            return
        number = self.received
        content = message.result if isinstance(message, Response) else message.params
        if [getattr(message, "id", number), content] != [number, [number, text_of(number, self._sizes[number])]]:
            self.is_over.set()
            raise AssertionError(f"message {number} is missing, torn or out of order")
        self.received += 1
        if self._every and self.received % self._every == 0:
            self._transport.pause_reading()
            resuming = asyncio.get_running_loop().call_later(0.002, self._transport.resume_reading)
            self._transport.onclose = resuming.cancel  # what has arrived is delivered in a pause, too
        if self.received == len(self._sizes):
            self.is_over.set()


async def send_all(transport: Connection, seed: int, messages: int) -> None:
    for number, size in enumerate(sizes(seed, messages)):
        transport.send(encode_notification("n", [number, text_of(number, size)]))
        await transport.drain()


def child_both_ways(messages: int, every: int) -> int:
    async def serve(transport: Connection) -> None:
        def fail(error: Exception) -> None:
            print(repr(error), file=sys.stderr)
            os._exit(3)

        check = Check(transport, 1, messages, every)
        transport.onerror = fail
        await transport.start()
        await send_all(transport, 2, messages)
        await check.is_over.wait()
        transport.send(Notification("done", [check.received]))
        await transport.close()

    return run_stdio(serve, drain_seconds=60)


def child_echo(messages: int, every: int) -> int:
    async def serve(transport: Connection) -> None:
        transport.onmessage = lambda message: transport.send(encode_result(message.id, message.params))
        await transport.start()

    return run_stdio(serve, drain_seconds=60)


def child_slow_writer(messages: int, every: int) -> int:
    chance = random.Random(3)
    stream = b"".join(
        encode_notification("n", [number, text_of(number, size)]) for number, size in enumerate(sizes(2, messages))
    )
    at = 0
    while at < len(stream):
        piece = stream[at : at + chance.choice((1, 10, 100, 4096, 65_536, 500_000))]
        at += os.write(1, piece)
        if chance.random() < 0.05:
            time.sleep(0.001)
    return 0


def child_killed(messages: int, every: int) -> int:
    """Record how many messages are written, and be killed after half of them. Reads a little from time to time."""
    note = os.open(os.environ["SOAK_NOTE"], os.O_WRONLY)
    for number, size in enumerate(sizes(2, messages)[: messages // 2]):
        line = memoryview(encode_notification("n", [number, text_of(number, size)]))
        while line:
            line = line[os.write(1, line) :]
        os.pwrite(note, b"%d" % (number + 1), 0)
        if number % 10 == 0:
            os.read(0, 65_536)
    os.write(1, b'{"jsonrpc":"2.0","method":"torn')
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


CHILDREN = {"both": child_both_ways, "echo": child_echo, "slow-writer": child_slow_writer, "killed": child_killed}


async def started(name: str, seed: int, messages: int, every: int = 0, **environment: str) -> tuple[StdioClient, Check]:
    """Start a child. Return its transport, and what receives its messages."""
    command = [sys.executable, "-m", "tests.isolated.transport_soak", "--loop", loops.current, "--child", name]
    command += ["--messages", str(messages), "--every", str(every)]
    transport = StdioClient(command, cwd=ROOT, env={**os.environ, **environment}, drain_seconds=60)
    check = Check(transport, seed, messages, every)
    await transport.start()
    return transport, check


async def both_ways(messages: int, every: int = 0) -> None:
    transport, check = await started("both", 2, messages, every)
    await send_all(transport, 1, messages)
    await transport.wait_closed()
    assert (check.errors, check.received, check.done, transport.returncode) == ([], messages, [[messages]], 0)


async def slow_readers(messages: int) -> None:
    await both_ways(messages, every=100)


async def echo(messages: int) -> None:
    transport, check = await started("echo", 1, messages, every=100)
    for number, size in enumerate(sizes(1, messages)):
        transport.send(encode_request(number, "echo", [number, text_of(number, size)]))
        await transport.drain()
    await check.is_over.wait()
    await transport.close()
    assert (check.errors, check.received, transport.returncode) == ([], messages, 0)


async def slow_writer(messages: int) -> None:
    transport, check = await started("slow-writer", 2, messages)
    await transport.wait_closed()
    assert (check.errors, check.received, transport.returncode) == ([], messages, 0)


async def killed(messages: int) -> None:
    with tempfile.NamedTemporaryFile() as note:
        transport, check = await started("killed", 2, messages, SOAK_NOTE=note.name)
        with contextlib.suppress(ConnectionLost):
            for number in itertools.count():
                transport.send(Request(number, "m", [TEXT[: number % 5000]]))
                await transport.drain()
                await asyncio.sleep(0)
        await transport.wait_closed()
        assert check.received == int(note.read()) == messages // 2
        assert transport.returncode == -signal.SIGKILL
        assert str(check.errors[-1]) == "the child process ended by signal 9"


SCENES: dict[str, Callable[[int], Coroutine[Any, Any, None]]] = {
    "both ways": both_ways,
    "slow readers": slow_readers,
    "echo": echo,
    "slow writer": slow_writer,
    "killed": killed,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000, help="messages each way (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=600, help="time limit of a scene (default: %(default)s)")
    parser.add_argument(
        "--loop", choices=loops.LOOPS, default="asyncio", help="event loop of both ends (default: %(default)s)"
    )
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--every", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    with loops.running_on(options.loop):
        if options.child:
            sys.exit(CHILDREN[options.child](options.messages, options.every))
        print(f"{options.messages} messages each way, {sum(sizes(1, options.messages)) / 1e6:.0f} MB")
        for name, scene in SCENES.items():
            began = time.monotonic()
            asyncio.run(asyncio.wait_for(scene(options.messages), options.seconds))
            took = time.monotonic() - began
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            rate = options.messages / took
            print(f"{name:13} {took:6.1f} s, {rate:8,.0f} messages per second, {grown:.0f} MB maximum")


if __name__ == "__main__":
    main()
