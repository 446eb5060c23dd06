"""Two sessions over a channel on which bytes arrive late and in pieces, on a loop with a virtual clock.

This covers what a session adds to the engine: the connection with its states and its drain, tasks, timers, waiting for
room, closing and the half-closed stream. Everything comes from one seed. Each call ends once, with its own result or an
error that fits; no request is served twice, nor is one whose caller was told that it was not sent; nothing is left.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from math import inf
from random import Random
from typing import Any, Final

from jsonrpc_fast import Notification
from jsonrpc_fast.errors import CallCancelled, CallTimeout, ConnectionLost, RpcError, StateError
from jsonrpc_fast.session import Session, SessionContext
from jsonrpc_fast.transports import Channel, Connection, Events

from ..support.ledger import Ledger
from .end import CONVENTIONS

DELAYS: Final = ((0.0,), (0.0, 0.01), (0.0, 0.4), (2.0,))
SPANS: Final = (0.0, 0.1, 3.0)
TIMEOUTS: Final = (None, 0.0, 0.05, 2.0, 300.0)
METHODS: Final = ("echo", "sleep", "back", "fail", "notify back", "unknown", "parts", "parts")


class LateChannel(Channel):
    """One end of a channel whose bytes arrive at random times."""

    other: LateChannel

    def __init__(self, random: Random) -> None:
        self.is_stalled = False  # no data that this end has written arrives
        self._random = random
        self._delays = random.choice(DELAYS)
        self._wire = bytearray()
        self.events: Events | None = None
        self.reads = self._is_due = self.has_finished = self.is_end_read = self.is_lost = False

    @classmethod
    def pair(cls, random: Random) -> tuple[LateChannel, LateChannel]:
        one, other = cls(random), cls(random)
        one.other, other.other = other, one
        return one, other

    async def open(self, events: Events) -> None:
        await asyncio.sleep(self._random.choice((0.0, 0.1)))
        self.events = events
        self.other.schedule()

    def write(self, data: bytes) -> None:
        if self.is_lost:
            raise BrokenPipeError("the channel is lost")
        if not self.other.is_lost:
            self._wire += data
            self.schedule()

    @property
    def unwritten(self) -> int:
        return len(self._wire)

    def set_reading(self, on: bool) -> None:
        self.reads = on
        self.other.schedule()

    def finish(self) -> None:
        self.has_finished = True
        self.set_reading(True)
        self.schedule()
        self.lose_if_done()

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self.lose, None)

    def stall(self, stalls: bool) -> None:
        self.is_stalled = stalls
        self.schedule()

    def cut(self) -> None:
        """Break the channel. Both ends learn of it sooner or later."""
        for end in (self, self.other):
            error = ConnectionResetError("the channel is cut")
            asyncio.get_running_loop().call_later(self._random.choice((0.0, 0.3)), end.lose, error)

    def schedule(self) -> None:
        can_move = self._wire or (self.has_finished and not self.is_end_read)
        if can_move and self.other.reads and not self.is_stalled and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(self._random.choice(self._delays), self._move)

    def _move(self) -> None:
        self._is_due = False
        receiver = self.other.events
        if self.is_lost or self.other.is_lost or not self.other.reads or receiver is None:
            return
        if self._wire:
            size = self._random.randint(1, len(self._wire))
            data = bytes(self._wire[:size])
            del self._wire[:size]
            if self.events is not None:
                self.events.drained()
            receiver.received(data)
        elif self.has_finished and not self.is_end_read:
            self.is_end_read = True
            receiver.received(b"")
            self.lose_if_done()
            self.other.lose_if_done()
        self.schedule()

    def lose_if_done(self) -> None:
        is_written = self.is_end_read or self.other.is_lost
        if self.has_finished and is_written and (self.other.is_end_read or self.other.is_lost):
            self.abort()

    def lose(self, error: Exception | None) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._wire.clear()
        if self.events is not None:
            self.events.lost(error)
        if not self.other.is_lost:
            loss = None if self.other.has_finished or self.is_end_read else ConnectionResetError("the peer has left")
            asyncio.get_running_loop().call_soon(self.other.lose, loss)


class Talk:
    """Two sessions, and what they do to each other."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.trace: list[str] = []
        self.is_disclaimed_served = False
        self.generators = 0  # that are not closed
        self.served: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.channels = LateChannel.pair(random)
        convention = random.choice(CONVENTIONS)
        self.has_heartbeats = convention.ping is not None and random.random() < 0.4
        self.ledgers = [Ledger(RpcError, StateError, OSError, ValueError, CallTimeout, ConnectionLost) for _ in "ab"]
        self.sessions = [
            self._session(channel, ledger, convention)
            for channel, ledger in zip(self.channels, self.ledgers, strict=True)
        ]
        self._numbers = 0

    def _session(self, channel: LateChannel, ledger: Ledger, convention: Any) -> Session:
        random = self.random
        options: dict[str, Any] = {}
        if random.random() < 0.4:
            options = {
                "max_handlers": random.choice((1, 2)),
                "max_inbox": random.choice((0, 1, 3)),
                "max_calls": random.choice((1, 3)),
                "response_bytes": random.choice((0, 100)),
            }
        return Session(
            Connection(channel, drain_seconds=random.choice((0.5, 5.0))),
            {
                "echo": self._serve,
                "sleep": self._sleep,
                "back": self._back,
                "fail": self._fail,
                "notify back": self._notify_back,
                "parts": self._parts,
            },
            hooks=ledger,
            convention=convention,
            close_seconds=random.choice((0.1, 5.0)),
            heartbeat_seconds=20.0 if self.has_heartbeats else None,
            **options,
        )

    # The handlers.

    def _serve(self, number: int) -> int:
        self.served[number] += 1
        return number

    async def _sleep(self, number: int) -> int:
        self._serve(number)
        await asyncio.sleep(number % 5 * 0.3)
        return number

    async def _back(self, context: SessionContext, number: int) -> int:
        self._serve(number)
        await self.call(context.session, self.random.choice(("echo", "echo", "back")))
        return number

    def _fail(self, number: int) -> int:
        self._serve(number)
        raise ValueError

    def _notify_back(self, context: SessionContext, number: int) -> int:
        self._serve(number)
        context.session.notify_soon("echo", [self._next()])
        return number

    async def _parts(self, number: int, **rest: Any) -> AsyncIterator[dict[str, int]]:
        self._serve(number)
        self.generators += 1
        try:
            for part in range(number % 9):
                await asyncio.sleep(part % 3 * 0.05)
                yield {"progress": part}
        finally:
            self.generators -= 1

    # The application.

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    async def call(self, session: Any, method: str) -> None:
        number, timeout = self._next(), self.random.choice(TIMEOUTS)
        time = asyncio.get_running_loop().time
        ends = inf if timeout is None else time() + timeout
        outcome = "result"
        try:
            if method == "parts":
                ends = inf
                result = await self._read(session, number, timeout)
            elif self.random.random() < 0.15:
                items = [Notification("echo", [self._next()]), (method, [number])]
                result = (await session.call_batch(items, timeout=timeout))[1]
                if isinstance(result, Exception):
                    raise result
            else:
                result = await session.call(method, [number], timeout=timeout)
            assert result == number, (result, number)
            assert self.served[number] == 1
            assert time() <= ends + 0.001, "a call has not timed out"
        except RpcError as error:
            outcome = f"error {error.code}"
        except (CallTimeout, CallCancelled) as error:
            outcome = type(error).__name__
        except ConnectionLost as error:
            outcome = f"lost, was_sent {error.was_sent}"
            if error.was_sent is False and self.served[number]:
                self.trace.append(f"{number} was served")
                self.is_disclaimed_served = True
        except StateError:  # a batch of more than `max_calls` calls, no progress, or too many parts that are not read
            outcome = "refused"
        self.outcomes[outcome] += 1
        self.trace.append(f"{time():.6f} {method} {number}: {outcome}")

    async def _read(self, session: Session, number: int, timeout: float | None) -> int:
        """Read a result in parts, to its end or not."""
        random = self.random
        stream = session.stream("parts", {"number": number}, timeout=timeout, max_items=random.choice((1, 3, 100)))
        found: list[Any] = []
        async for part in stream:
            assert part == {"progress": len(found)}
            found.append(part)
            if random.random() < 0.05:
                stream.close()
                return number
            await asyncio.sleep(random.choice((0.0, 0.0, 0.2)))
        assert len(found) == number % 9, (found, number)
        assert stream.result in (None, {}, [])
        return number

    async def _act(self, session: Session, delay: float) -> None:
        await asyncio.sleep(delay)
        if self.random.random() < 0.1:
            session.cancel(self.random.randint(1, 5))
        await self.call(session, self.random.choice(METHODS))

    async def _disturb(self, delay: float) -> None:
        await asyncio.sleep(delay)
        kind = self.random.choice(("stall", "stall", "cut", "close", "cancel", "nothing", "nothing"))
        channel = self.random.choice(self.channels)
        self.trace.append(kind)
        if kind == "stall":
            channel.stall(True)
            await asyncio.sleep(self.random.choice((0.2, 7.0, 50.0)))
            channel.stall(False)
        elif kind == "cut":
            channel.cut()
        elif kind == "close":
            await self.random.choice(self.sessions).close(self.random.choice((0.0, 1.0, None)))

    async def run(self) -> None:
        random = self.random
        before = asyncio.all_tasks()
        span = random.choice(SPANS)
        await asyncio.gather(*(session.start() for session in self.sessions))
        work = [
            asyncio.ensure_future(self._act(session, random.random() * span))
            for session in self.sessions
            for _ in range(random.choice((0, 1, 4, 12)))
        ]
        disturbing = asyncio.ensure_future(self._disturb(random.random() * span))
        await asyncio.sleep(400.0)  # longer than the timeouts
        await disturbing
        assert all(task.done() for task in work), "a call waits forever"
        for session in self.sessions:
            # With a heartbeat a ping may be in flight.
            assert self.has_heartbeats or session.is_idle or not session.is_connected, "something waits forever"
        for session in self.sessions:
            await session.close(random.choice((0.0, 5.0)))
        assert asyncio.all_tasks() == before, "a task is left"
        await asyncio.gather(*work)
        await asyncio.sleep(10.0)  # for what is still in the channel
        assert not self.is_disclaimed_served, "a request was served that was not sent"
        assert not self.generators, "a generator is not closed"
        assert not self.served or max(self.served.values()) == 1, "a request was served twice"
        for ledger in self.ledgers:
            assert not ledger.open, "a call has not settled"
            assert not ledger.violations, ledger.faults
