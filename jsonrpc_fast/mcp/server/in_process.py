"""A transport from a client to a server in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from ...profile import Profile
from ...transports.memory import MemoryTransport, memory_pair
from ...transports.protocol import Transport


class InProcess(MemoryTransport):
    """The client's end of a channel to a server. The server runs while the transport is connected.

    Args:
        run: Serves one transport until it closes, as `Server.run`.
        lifespan: The lifespan of the server. If it cannot begin, neither can the transport.
        profile: The profile of both ends.
    """

    def __init__(
        self,
        run: Callable[[Transport], Awaitable[None]],
        lifespan: AbstractAsyncContextManager[Any],
        profile: Profile,
    ) -> None:
        super().__init__(profile=profile)
        served, _ = memory_pair(profile=profile)
        self._peer, served._peer = served, self
        self._run = run
        self._lifespan = lifespan
        self._serving: asyncio.Task[None] | None = None

    async def open_channel(self) -> None:
        """Begin the lifespan of the server, and let it serve the other end."""
        ready: asyncio.Future[None] = self._loop.create_future()
        self._serving = asyncio.ensure_future(self._serve(ready))
        await ready
        await super().open_channel()

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        try:
            async with self._lifespan:
                if not ready.done():
                    ready.set_result(None)
                await self._run(self._peer)
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def wait_closed(self) -> None:
        """Wait until the transport and the server's end of it are closed."""
        await super().wait_closed()
        if self._serving is not None:
            await asyncio.wait([self._serving])
