"""A transport from a client to a server in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from ...profile import Profile
from ...transports.channel import Events
from ...transports.memory import MemoryChannel, MemoryTransport
from ...transports.protocol import Transport


class _ServedChannel(MemoryChannel):
    """The client's end of a channel. The server runs while the channel is open."""

    serve: Callable[[asyncio.Future[None]], Awaitable[None]]
    serving: asyncio.Future[None] | None = None

    async def open(self, events: Events) -> None:
        """Begin the lifespan of the server, and let it serve the other end."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A task: the server runs as long as the channel, and not only while it opens.
        self.serving = asyncio.ensure_future(self.serve(ready))
        await ready
        await super().open(events)


class InProcess(MemoryTransport):
    """The client's end of a channel to a server. The server runs while the transport is connected.

    Args:
        run: Serves one transport until it closes, as `Server.run`.
        tool_scopes: Returns the scopes of a tool, for servers that pass calls on: tokens are not checked here.
        lifespan: The lifespan of the server. If it cannot begin, neither can the transport.
        profile: The profile of both ends.
        raw: Whether the server takes payloads as `Raw`.
    """

    channel: _ServedChannel

    def __init__(
        self,
        run: Callable[[Transport], Awaitable[None]],
        tool_scopes: Callable[[str], frozenset[str]],
        lifespan: AbstractAsyncContextManager[Any],
        profile: Profile,
        *,
        raw: bool = False,
    ) -> None:
        channel, served = _ServedChannel.pair()
        super().__init__(channel, profile=profile)
        self.channel.serve = self._serve
        self.tool_scopes = tool_scopes
        self._served = MemoryTransport(served, profile=profile, raw=raw)
        self._run = run
        self._lifespan = lifespan

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        try:
            # Entered here, although `run` does so, too: a lifespan that cannot begin must fail `connect`, and not a
            # task.
            async with self._lifespan:
                if not ready.done():
                    ready.set_result(None)
                await self._run(self._served)
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def wait_closed(self) -> None:
        """Wait until the transport and the server's end of it are closed."""
        await super().wait_closed()
        if self.channel.serving is not None:
            # The server's functions may still run: a test that has left the block must not be disturbed by them.
            await asyncio.wait([self.channel.serving])
