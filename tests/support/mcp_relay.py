"""A relay between two peers in memory, for the tests of the relay."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from jsonrpc_fast import JSONRPC, Profile, encode
from jsonrpc_fast.mcp.relay import Relay
from jsonrpc_fast.transports.memory import MemoryTransport, memory_pair

from .waiting import settle


class End:
    """The peer at one end. It sends lines, and keeps the lines it receives."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self.lines: list[bytes] = []
        self.is_closed = False
        transport.onmessage = lambda message: self.lines.append(encode(message, delimited=False))
        transport.onclose = self._close
        transport.pauses_when_blocked = False

    def _close(self) -> None:
        self.is_closed = True

    async def send(self, *lines: bytes) -> None:
        for line in lines:
            self.transport.send(line)
        await settle()

    async def half_close(self) -> None:
        """Close the stream to the relay, but continue to receive."""
        self.transport.channel.finish()
        await settle()

    def received(self) -> list[bytes]:
        """Return the lines received since the last call."""
        lines, self.lines = self.lines, []
        return lines


@asynccontextmanager
async def relayed(
    profile: Profile = JSONRPC, **options: Any
) -> AsyncIterator[tuple[End, End, list[tuple[str, Exception]], Relay]]:
    """Yield both peers, the list of faults that the relay between them reports, and the relay."""
    faults: list[tuple[str, Exception]] = []
    outer_left, left = memory_pair(profile=profile, raw=True)
    outer_right, right = memory_pair(profile=profile, raw=True)
    options.setdefault("on_fault", lambda side, fault: faults.append((side, fault)))
    async with Relay(left, right, **options) as relay:
        await outer_left.start()
        await outer_right.start()
        try:
            yield End(outer_left), End(outer_right), faults, relay
        finally:
            await outer_left.disconnect()
            await outer_right.disconnect()


def through_relay(
    profile: Profile = JSONRPC, **options: Any
) -> Callable[[Callable[..., Awaitable[None]]], Callable[[], Awaitable[None]]]:
    """Return a decorator that calls a test with both peers of a relay and the list of faults that it reports."""

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def wrapped() -> None:
            async with relayed(profile, **options) as (left, right, faults, _):
                await test(left, right, faults)

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate


SUBSCRIBED = b'{"jsonrpc":"2.0","method":"%b","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%b}}}'

LISTEN = b'{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen"}'
