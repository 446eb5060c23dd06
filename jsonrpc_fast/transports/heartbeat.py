"""The heartbeat of a connection: it pings a silent peer, and reports when there is no sign of life.

Rules:
  - A peer that has sent nothing for `seconds`, not even a part of a message, is pinged. If nothing has arrived after
    the same time again, it is lost.
  - Both happen up to `seconds / CHECKS` late, because a check sees that something has arrived, but not when. So an idle
    peer that responds is pinged at least every 1.25 times `seconds`, and one that does not is lost between 2 and 2.25
    times `seconds` after its last sign of life.
  - Time in which this side does not read is not counted.
  - A check that comes late, because this process was suspended, lets the loop read first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from .protocol import Transport

CHECKS: Final = 4
"""How many checks are made within `seconds`."""
READ_SECONDS: Final = 0.001
"""How long the loop may read data that has arrived, before a peer is given up."""


class Heartbeat:
    """Watches the peer of one connection: pings it when nothing has arrived for some seconds, and calls `lose` last,
    when the same time has passed again. `ping` asks for a response within this many seconds. If the transport does not
    count what arrives, call `count`."""

    def __init__(
        self, seconds: float, transport: Transport, ping: Callable[[float], object], lose: Callable[[], object]
    ) -> None:
        self._seconds = seconds
        self._transport = transport
        self._ping = ping
        self._lose = lose
        self._messages = 0
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._loop = asyncio.get_running_loop()
        self._begin()

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def count(self) -> None:
        """Count a message."""
        self._messages += 1

    def _received(self) -> int:
        # A transport without chunks, such as one over HTTP, has only messages as signs of life.
        chunks = self._transport.received_chunks
        return self._messages if chunks is None else chunks

    def _wait(self, seconds: float, then: Callable[..., None], *arguments: Any) -> None:
        self._timer = self._loop.call_later(seconds, then, *arguments)

    def _begin(self) -> None:
        self._wait(self._seconds / CHECKS, self._check, self._received(), 0)

    def _check(self, received: int, silent_checks: int) -> None:
        if self._received() != received or not self._transport.is_reading:
            self._begin()
            return
        silent_checks += 1
        if silent_checks == 2 * CHECKS:
            self._wait(READ_SECONDS, self._give_up, received)
            return
        # The timer is set first: a ping that raises must not end the heartbeat.
        self._wait(self._seconds / CHECKS, self._check, received, silent_checks)
        if silent_checks == CHECKS:
            self._ping(self._seconds)

    def _give_up(self, received: int) -> None:
        if self._received() == received and self._transport.is_reading:
            self._lose()
        else:
            self._begin()
