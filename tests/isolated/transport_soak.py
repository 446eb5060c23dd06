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
    """Check that numbered messages arrive in order and whole."""

    def __init__(self, seed: int, messages: int) -> None:
        self.received = 0
        self._sizes = sizes(seed, messages)

    def receive(self, content: Any) -> None:
        number = self.received
        if content != [number, text_of(number, self._sizes[number])]:
            raise AssertionError(f"message {number} is missing, torn or out of order")
        self.received += 1


async def send_all(transport: Connection, seed: int, messages: int) -> None:
    for number, size in enumerate(sizes(seed, messages)):
        transport.send(encode_notification("n", [number, text_of(number, size)]))
        await transport.drain()


def rest_now_and_then(transport: Connection, every: int) -> Callable[[int], None]:
    """Return a function to call with each number: it pauses reading for a moment at every multiple of `every`."""

    def rest(number: int) -> None:
        if number % every == 0:
            transport.pause_reading()
            asyncio.get_running_loop().call_later(0.002, transport.resume_reading)

    return rest


def child_both_ways(messages: int, every: int) -> int:
    async def serve(transport: Connection) -> None:
        check = Check(1, messages)
        rest = rest_now_and_then(transport, every) if every else None
        all_received = asyncio.Event()

        def receive(message: Any) -> None:
            check.receive(message.params)
            if rest is not None:
                rest(check.received)
            if check.received == messages:
                all_received.set()

        def fail(error: Exception) -> None:
            print(repr(error), file=sys.stderr)
            os._exit(3)

        transport.pauses_when_blocked = False
        transport.onmessage = receive
        transport.onerror = fail
        await transport.start()
        await send_all(transport, 2, messages)
        await all_received.wait()
        transport.send(Notification("done", [check.received]))
        await transport.close()

    return run_stdio(serve, drain_seconds=60)


def child_echo(messages: int, every: int) -> int:
    async def serve(transport: Connection) -> None:
        transport.onmessage = lambda message: transport.send(encode_result(message.id, message.params))  # type: ignore[union-attr]
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


def child(name: str, messages: int, every: int = 0, **environment: str) -> StdioClient:
    command = [sys.executable, "-m", "tests.isolated.transport_soak", "--loop", loops.current, "--child", name]
    command += ["--messages", str(messages), "--every", str(every)]
    transport = StdioClient(command, cwd=ROOT, env={**os.environ, **environment}, drain_seconds=60)
    transport.pauses_when_blocked = False
    return transport


def record_errors(transport: Connection) -> list[Exception]:
    errors: list[Exception] = []
    transport.onerror = errors.append
    return errors


async def both_ways(messages: int, every: int = 0) -> None:
    transport = child("both", messages, every)
    errors = record_errors(transport)
    check = Check(2, messages)
    rest = rest_now_and_then(transport, every) if every else None
    done: list[Any] = []

    def receive(message: Any) -> None:
        if message.method == "done":
            done.append(message.params)
        else:
            check.receive(message.params)
            if rest is not None:
                rest(check.received)

    transport.onmessage = receive
    await transport.start()
    await send_all(transport, 1, messages)
    await transport.wait_closed()
    assert errors == []
    assert check.received == messages
    assert done == [[messages]]
    assert transport.returncode == 0


async def slow_readers(messages: int) -> None:
    await both_ways(messages, every=100)


async def echo(messages: int) -> None:
    transport = child("echo", messages)
    errors = record_errors(transport)
    check = Check(1, messages)
    rest = rest_now_and_then(transport, 100)

    def receive(message: Any) -> None:
        assert isinstance(message, Response)
        assert message.id == check.received
        check.receive(message.result)
        rest(check.received)

    transport.onmessage = receive
    await transport.start()
    for number, size in enumerate(sizes(1, messages)):
        transport.send(encode_request(number, "echo", [number, text_of(number, size)]))
        await transport.drain()
    while check.received < messages:
        await asyncio.sleep(0.001)
        assert errors == []
    await transport.close()
    assert errors == []
    assert transport.returncode == 0


async def slow_writer(messages: int) -> None:
    transport = child("slow-writer", messages)
    errors = record_errors(transport)
    check = Check(2, messages)
    transport.onmessage = lambda message: check.receive(message.params)  # type: ignore[union-attr]
    await transport.start()
    await transport.wait_closed()
    assert errors == []
    assert check.received == messages
    assert transport.returncode == 0


async def killed(messages: int) -> None:
    with tempfile.NamedTemporaryFile() as note:
        transport = child("killed", messages, SOAK_NOTE=note.name)
        errors = record_errors(transport)
        check = Check(2, messages)
        transport.onmessage = lambda message: check.receive(message.params)  # type: ignore[union-attr]
        await transport.start()
        lost = False
        try:
            for number in range(10**9):
                transport.send(Request(number, "m", [TEXT[: number % 5000]]))
                await transport.drain()
                await asyncio.sleep(0)
        except ConnectionLost:
            lost = True
        await transport.wait_closed()
        assert lost
        assert check.received == int(note.read()) == messages // 2
        assert transport.returncode == -signal.SIGKILL
        assert str(errors[-1]) == "the child process ended by signal 9"


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
        run(options)


def run(options: argparse.Namespace) -> None:
    total = sum(sizes(1, options.messages)) / 1e6
    print(f"{options.messages} messages each way, {total:.0f} MB")
    for name, scene in SCENES.items():
        started = time.monotonic()
        asyncio.run(asyncio.wait_for(scene(options.messages), options.seconds))
        took = time.monotonic() - started
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{name:13} {took:6.1f} s, {options.messages / took:8,.0f} messages per second, {grown:.0f} MB maximum")


if __name__ == "__main__":
    main()
