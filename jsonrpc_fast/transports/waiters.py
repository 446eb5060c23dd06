"""Wake the coroutines that wait for the same event."""

from __future__ import annotations

import asyncio


class Waiters:
    """Coroutines that wait until `wake` is called."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._futures)

    async def wait(self) -> None:
        """Wait for the next call of `wake`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        # A cancelled waiter is still in the list; one that was woken is not.
        try:
            await future
        finally:
            if future in self._futures:
                self._futures.remove(future)

    def wake(self) -> None:
        """Let all waiters continue."""
        # The list is emptied first: a waiter that waits again, as in a loop, is not woken by this call.
        for future in self._futures:
            if not future.done():  # cancelled, but its task has not run yet
                future.set_result(None)
        self._futures.clear()
