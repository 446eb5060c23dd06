"""Goodbyes, losses, refusals, silence, heartbeats and closing in random order, over subscriptions and calls.

Each row is a seed, and takes some minutes of virtual time. `--row SEED` repeats one.
"""

from __future__ import annotations

import asyncio
import contextlib
import random as global_random
from collections import Counter
from random import Random
from typing import Any

import pytest

from jsonrpc_fast import Request, encode_error, encode_notification, encode_result
from jsonrpc_fast.codes import SessionErrorCode
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, RpcError
from jsonrpc_fast.session import Gap, ReconnectingSession, Session, Subscriptions
from jsonrpc_fast.transports import MemoryTransport, memory_pair

from ..support.clock import virtual_sleep
from ..support.examples import seeds
from ..support.tables import rows

BUSY = (-32009, "Server busy")
CHAOS_SECONDS = 200.0
HEARTBEAT_SECONDS = 5.0
TIMEOUT_SECONDS = 20.0
MAX_DELAY = 4.0


class World:
    """The peers of one client, one for each connection, and what has happened."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.is_calm = False
        self.gives_same_ids = self.random.random() < 0.5
        self.peers: list[RandomPeer] = []
        self.served: Counter[int] = Counter()
        self.published = 0

    def chance(self, probability: float) -> bool:
        """Return whether something bad happens now."""
        return not self.is_calm and self.random.random() < probability

    def delay(self) -> float:
        """Return the seconds after which a response is sent."""
        return 0.0 if self.is_calm else self.random.choice([0, 0, 0, 0.1, 1, 30])

    async def make(self) -> MemoryTransport:
        if self.chance(0.2):
            raise ConnectionRefusedError("nobody listens")
        one, other = memory_pair()
        self.peers.append(RandomPeer(self, other))
        await other.start()
        return one

    async def log_in(self, session: Session) -> None:
        if self.chance(0.1):
            await session.close(0)
        await session.call("log in", timeout=TIMEOUT_SECONDS)

    def publish(self) -> None:
        self.published += 1
        for peer in self.peers:
            for id in peer.subscribed:
                peer.send(encode_notification("eth_subscription", {"subscription": id, "result": self.published}))

    async def disturb(self) -> None:
        """Let something happen to the latest peer."""
        peer = self.peers[-1]
        event = self.random.choice(["goodbye", "goodbye and stay", "lose", "close", "stop"])
        if event.startswith("goodbye"):
            peer.say_goodbye(event.endswith("stay"))
        elif event == "lose":
            await peer.transport.disconnect()
        elif event == "close":
            await peer.transport.close()
        else:
            peer.is_stopped = True


class RandomPeer:
    """The far end of a connection. It reads in order, and responds sooner or later to what it has read."""

    def __init__(self, world: World, transport: MemoryTransport) -> None:
        self.world = world
        self.transport = transport
        self.subscribed: dict[str, str] = {}  # names by ids
        self.is_stopped = False
        self.is_leaving = False
        self.stays = False
        self._last: Any = None
        self._owed = 0
        transport.onmessage = self._receive

    def send(self, text: bytes) -> None:
        if self.transport.is_connected and not self.is_stopped:
            self.transport.send(text)

    def say_goodbye(self, stays: bool) -> None:
        if not self.is_leaving:
            self.send(encode_notification("rpc.goodbye", {"last": self._last}))
            self.is_leaving, self.stays = True, stays
            self._leave_if_done()

    def _leave_if_done(self) -> None:
        if self.is_leaving and not self.stays and not self._owed and self.transport.is_connected:
            self.transport.begin_closing(0)

    def _receive(self, message: Any) -> None:
        is_refused = self.is_leaving and self.world.random.random() < 0.5
        for request in message if isinstance(message, list) else [message]:
            if self.is_stopped or not isinstance(request, Request):
                pass
            elif not self.is_leaving:
                self._read(request)
            elif is_refused:
                self.send(encode_error(request.id, *BUSY))

    def _read(self, request: Request) -> None:
        self._last = request.id
        self._owed += 1
        delay = 0.0 if request.method == "rpc.ping" else self.world.delay()
        asyncio.get_running_loop().call_later(delay, self._answer, request)

    def _answer(self, request: Any) -> None:
        self._owed -= 1
        if request.method == "echo":
            [number] = request.params
            self.world.served[number] += 1
            self.send(encode_result(request.id, number))
        elif request.method == "eth_subscribe":
            [name] = request.params
            id = name if self.world.gives_same_ids else f"{name} {len(self.subscribed)}"
            if self.world.chance(0.3) or (id in self.subscribed and not self.world.gives_same_ids):
                self.send(encode_error(request.id, *BUSY))
            else:
                self.subscribed[id] = name
                self.send(encode_result(request.id, id))
        elif request.method == "eth_unsubscribe":
            self.subscribed.pop(request.params[0], None)
            self.send(encode_result(request.id, True))
        else:
            self.send(encode_result(request.id, None))
        self._leave_if_done()


class Reader:
    """Reads one subscription, and says what it has found."""

    def __init__(self, subscriptions: Subscriptions, name: str) -> None:
        self.name = name
        self.items: list[Any] = []
        self.subscription: Any = None
        self._subscriptions = subscriptions

    async def read(self) -> str:
        while self.subscription is None:
            try:
                self.subscription = await self._subscriptions.subscribe(self.name, timeout=TIMEOUT_SECONDS)
            except (RpcError, CallTimeout, ConnectionLost) as error:
                if isinstance(error, ConnectionLost) and error.was_sent is False:
                    return "closed"
                await virtual_sleep(0.5)
        try:
            async for item in self.subscription:
                self.items.append(item)
        except ConnectionLost:
            return "lost"
        return "closed"

    def missed(self) -> list[tuple[int, int]]:
        """Return the pairs of results that are out of order, or between which some are missing without a gap."""
        found = []
        last, has_gap = 0, True
        for item in self.items:
            if isinstance(item, Gap):
                has_gap = True
                continue
            if item <= last or (item != last + 1 and not has_gap):
                found.append((last, item))
            last, has_gap = item, False
        return found


async def call(client: ReconnectingSession, number: int) -> str:
    """Return how a call ends, or one in a batch."""
    try:
        if number % 3:
            result = await client.call("echo", [number], timeout=TIMEOUT_SECONDS)
        else:
            [result, other] = await client.call_batch([("echo", [number]), ("log in", None)], timeout=TIMEOUT_SECONDS)
            for outcome in (other, result):
                if isinstance(outcome, Exception):
                    raise outcome
        assert result == number
    except CallTimeout:
        return "timeout"
    except ConnectionLost as loss:
        return f"lost, was_sent {loss.was_sent}"
    except RpcError as error:  # of a batch: the last refusal before it timed out
        return "lost, was_sent False" if error.code == SessionErrorCode.SERVER_BUSY else str(error)
    return "result"


@rows("seed", seeds(15))
@pytest.mark.virtual_time
@pytest.mark.ci
async def test_whatever_happens_each_call_ends_once_and_each_reader_goes_on(seed: int) -> None:
    global_random.seed(seed)  # of the delays between attempts
    world = World(seed)
    random, loop = world.random, asyncio.get_running_loop()
    tasks_before = asyncio.all_tasks()
    closes_amid = random.random() < 0.3
    client = ReconnectingSession(
        world.make,
        on_connect=world.log_in,
        min_delay_seconds=0.5,
        max_delay_seconds=MAX_DELAY,
        heartbeat_seconds=HEARTBEAT_SECONDS,
        timeout=TIMEOUT_SECONDS,
        close_seconds=0,
        id_factory=None if random.random() < 0.5 else iter(map(str, range(10**6))).__next__,
    )
    await client.start()
    subscriptions = Subscriptions(client)
    readers = [Reader(subscriptions, f"feed {number}") for number in range(3)]
    reading = [asyncio.ensure_future(reader.read()) for reader in readers]
    closed: set[int] = set()
    calls: list[asyncio.Task[str]] = []
    end = loop.time() + CHAOS_SECONDS
    while loop.time() < end:
        await asyncio.sleep(random.choice([0, 0.01, 0.5, 2]))
        world.publish()
        if random.random() < 0.3:
            calls.append(asyncio.ensure_future(call(client, len(calls))))
        if random.random() < 0.1:
            await world.disturb()
        if random.random() < 0.01 and readers[2].subscription is not None:
            closed.add(2)
            with contextlib.suppress(CallTimeout):
                await readers[2].subscription.close()
    if not closes_amid:  # everything works again
        world.is_calm = True
        if random.random() < 0.5:
            await world.peers[-1].transport.disconnect()
        await asyncio.sleep(100)
        assert await call(client, len(calls)) == "result"
        world.publish()
        await asyncio.sleep(1)
        for reader in readers:
            if readers.index(reader) not in closed:
                assert reader.items[-1] == world.published, reader.name
        names = {reader.name for reader in readers if readers.index(reader) not in closed}
        assert sorted(world.peers[-1].subscribed.values()) == sorted(names)
    await client.close()
    outcomes = await asyncio.gather(*calls)
    assert set(outcomes) <= {"result", "timeout", "lost, was_sent maybe", "lost, was_sent False"}
    for number, outcome in enumerate(outcomes):
        assert world.served[number] == {"result": 1, "lost, was_sent False": 0}.get(outcome, world.served[number])
        assert closes_amid or outcome != "lost, was_sent False" or not number % 3  # of a batch that has timed out
    assert max(world.served.values()) == 1  # nothing is served twice
    for reader, ended in zip(readers, await asyncio.gather(*reading), strict=True):
        assert ended == "lost" or closes_amid or readers.index(reader) in closed
        assert reader.missed() == [], reader.name
    # A random delay is half its bound on average; after a connection that lasted, the delays begin anew.
    assert len(world.peers) <= 2 * (CHAOS_SECONDS + 120)
    for peer in world.peers:
        await peer.transport.disconnect()
    await asyncio.sleep(31)  # until the last response that was owed
    assert asyncio.all_tasks() - tasks_before == set()
