"""One direction of a connection: bytes that one end has written, on their way to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .world import World

if TYPE_CHECKING:
    from .end import End

DELAYS: Final = ((0.0,), (0.0, 0.0, 0.001), (0.0, 0.01, 0.5), (0.3,), (0.0, 3.0))
CAPACITIES: Final = (9, 60, 400, 65536, 65536, 65536)
CUTS: Final = ("none", "none", "random", "small")


class Wire:
    """What `sender` writes and `receiver` reads.

    Attributes:
        unwritten: The bytes that the system has not taken from the sender.
        is_stalled: Whether nothing arrives, because the other end does not read for a while.
        is_ended: Whether the sender has ended its stream.
        is_cut: Whether the connection is broken.
    """

    def __init__(self, world: World, sender: End, receiver: End) -> None:
        random = world.random
        self.unwritten = bytearray()
        self.is_stalled = self.is_ended = self.is_cut = False
        self._world = world
        self._sender = sender
        self._receiver = receiver
        self._delays = random.choice(DELAYS)
        self._capacity = random.choice(CAPACITIES)
        self._cuts = random.choice(CUTS)
        self._pipe = bytearray()
        self._is_due = self._is_end_read = False

    @property
    def is_empty(self) -> bool:
        return not self.unwritten and not self._pipe

    def write(self, data: bytes) -> None:
        self.unwritten += data
        self.schedule()

    def end(self) -> None:
        self.is_ended = True
        self.schedule()

    def cut(self) -> None:
        self.is_cut = True
        self.unwritten.clear()
        self._pipe.clear()

    def schedule(self) -> None:
        """Let bytes move soon, if they can."""
        if self._is_due or self.is_cut:
            return
        can_leave = self.unwritten and len(self._pipe) < self._capacity
        can_arrive = self._pipe and self._receiver.is_reading and not self.is_stalled
        can_end = self.is_ended and self.is_empty and not self._is_end_read and self._receiver.is_reading
        if can_leave or can_arrive or can_end:
            self._is_due = True
            self._world.at(self._world.now + self._world.random.choice(self._delays), self._move)

    def _move(self) -> None:
        self._is_due = False
        if self.is_cut:
            return
        room = self._capacity - len(self._pipe)
        if self.unwritten and room > 0:
            self._pipe += self.unwritten[:room]
            del self.unwritten[:room]
            self._sender.wrote()
        if self._pipe and self._receiver.is_reading and not self.is_stalled:
            size = len(self._pipe)
            if self._cuts != "none":
                size = self._world.random.randint(1, size if self._cuts == "random" else min(size, 40))
            data = bytes(self._pipe[:size])
            del self._pipe[:size]
            self._receiver.receive(data)
        elif self.is_ended and self.is_empty and not self._is_end_read and self._receiver.is_reading:
            self._is_end_read = True
            self._receiver.receive_end()
            self._sender.wrote()
        self.schedule()
