"""Pairs of sessions over memory transports, for the tests of `Session`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.profile import JSONRPC, Profile
from jsonrpc_fast.session import Handlers, Session, SessionContext
from jsonrpc_fast.testing import sessions as sessions
from jsonrpc_fast.transports import MemoryTransport, memory_pair

from .clock import virtual_sleep
from .waiting import settle as settle

T = TypeVar("T")


class Wire:
    """The peer of a session. It records what it receives, and sends what the test says.

    Args:
        transport: The transport of the peer.
        other: The transport of the session, for its public interface.
    """

    def __init__(self, transport: MemoryTransport, other: MemoryTransport | None = None) -> None:
        self.transport = transport
        self.other: Any = other
        self.received: list[Any] = []
        self.faults: list[Exception] = []
        self.is_closed = False
        self._waiter: asyncio.Future[None] | None = None
        transport.onmessage = self._receive
        transport.onerror = self.faults.append
        transport.onclose = self._closed

    def _closed(self) -> None:
        self.is_closed = True

    def _receive(self, message: Any) -> None:
        self.received.append(message)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def send(self, text: bytes) -> None:
        self.transport.send(text)

    async def next(self) -> Any:
        """Wait for the next message, remove it and return it."""
        while not self.received:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.received.pop(0)


@asynccontextmanager
async def session_and_wire(
    handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None, *, profile: Profile = JSONRPC, **options: Any
) -> AsyncIterator[tuple[Session, Wire]]:
    """Connect a session and a peer that the test drives."""
    one, other = memory_pair(profile=profile)
    wire = Wire(other, one)
    await other.start()
    try:
        async with Session(one, handlers, **options) as session:
            yield session, wire
    finally:
        await other.disconnect()


class Faults:
    """Hooks that record faults."""

    def __init__(self) -> None:
        self.seen: list[Exception] = []

    def fault(self, error: Exception) -> None:
        self.seen.append(error)


async def slow(seconds: float) -> str:
    """A handler for tests in virtual time."""
    await virtual_sleep(seconds)
    return "done"


def fail(code: int) -> None:
    raise RpcError(code, "no", {"code": code})


def asking_handlers() -> dict[str, Callable[..., Any]]:
    """Return the handlers for two sessions that call each other from their handlers."""
    noted = 0

    async def ask(context: SessionContext, value: int, depth: int = 0) -> int:
        """Call the peer, which calls back `depth` more times."""
        if depth:
            return int(await context.session.call("ask", [value, depth - 1]))
        return int(await context.session.call("double", [value]))

    async def note(context: SessionContext, value: int) -> None:
        nonlocal noted
        assert await context.session.call("double", [value]) == 2 * value
        noted += 1

    async def notify(context: SessionContext, count: int) -> None:
        for number in range(count):
            context.session.notify_soon("note", [number])

    async def call(context: SessionContext, count: int, depth: int = 0) -> bool:
        results = await asyncio.gather(*[context.session.call("ask", [number, depth]) for number in range(count)])
        return results == [2 * number for number in range(count)]

    return {
        "double": lambda value: 2 * value,
        "ask": ask,
        "note": note,
        "noted": lambda: noted,
        "notify": notify,
        "call": call,
    }
