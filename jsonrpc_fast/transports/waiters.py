"""Wake the coroutines that wait for the same event."""

from __future__ import annotations

import asyncio


class Waiters:
    """Coroutines that wait until `wake` is called."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] | None = None

    def __len__(self) -> int:
        return 0 if self._futures is None else len(self._futures)

    async def wait(self) -> None:
        """Wait for the next call of `wake`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._futures is None:
            self._futures = []
        self._futures.append(future)
        # A cancelled waiter is still in the list; one that was woken is not.
        try:
            await future
        finally:
            if self._futures is not None and future in self._futures:
                self._futures.remove(future)

    def wake(self) -> None:
        """Let all waiters continue."""
        # The list is replaced first: a waiter that waits again, as in a loop, is not woken by this call.
        futures, self._futures = self._futures, None
        for future in futures or ():
            if not future.done():  # cancelled, but its task has not run yet
                future.set_result(None)
