"""One conversation: connections between two ends in a world, what happens to them, and their end."""

from __future__ import annotations

from typing import Final

from .end import CONVENTIONS, End
from .wire import Wire
from .world import World

SPANS: Final = (0.0, 0.01, 1.0, 60.0)
COUNTS: Final = (0, 1, 2, 3, 5, 9)
TOUGH_COUNTS: Final = (8, 15, 25)
ENDINGS: Final = ("none", "close", "end of stream", "reset", "crash")
ENDING_WEIGHTS: Final = (50, 20, 10, 10, 10)
ACTIONS: Final = ("call", "notify", "batch", "cancel", "raw")
ACTION_WEIGHTS: Final = (55, 15, 10, 10, 10)
BATCH_SIZES: Final = (1, 2, 3, 5)
LARGE_BATCH: Final = 80
"""More items than an engine receives in one turn."""


class Link:
    """A connection, from its beginning to its loss.

    Attributes:
        ends: Both ends.
        convention: Their convention.
        is_tough: Whether both ends have small bounds and much to do.
    """

    def __init__(self, conversation: Conversation, number: int) -> None:
        world = conversation.world
        random = world.random
        self.convention = random.choice(CONVENTIONS)
        self._conversation = conversation
        self._world = world
        self.is_tough = random.random() < 0.2
        one, other = End(world, self, f"{number}a"), End(world, self, f"{number}b")
        self.ends = (one, other)
        one.peer, other.peer = other, one
        one.wire, other.wire = Wire(world, one, other), Wire(world, other, one)
        span = random.choice(SPANS)
        for end in self.ends:
            for _ in range(random.choice(TOUGH_COUNTS if self.is_tough else COUNTS)):
                world.at(world.now + random.random() * span, self._act, end)
            if random.random() < 0.2:
                start = world.now + random.random() * span
                world.at(start, self._stall, end, True)
                world.at(start + random.choice((0.1, 0.4, 3.0, 100.0)), self._stall, end, False)
        [ending] = random.choices(ENDINGS, ENDING_WEIGHTS)
        world.at(world.now + random.random() * span * 1.2, self._end, ending, random.choice(self.ends))

    def _act(self, end: End) -> None:
        random = self._world.random
        [action] = random.choices(ACTIONS, ACTION_WEIGHTS)
        if end.is_lost:
            pass
        elif action == "call":
            end.call()
        elif action == "notify":
            end.notify()
        elif action == "cancel":
            end.cancel_any()
        elif action == "raw":
            end.write_raw()
        else:
            is_large = random.random() < (0.3 if self._world.clock_seconds else 0.03)
            end.call_batch(LARGE_BATCH if is_large else random.choice(BATCH_SIZES))

    def _stall(self, end: End, stalls: bool) -> None:
        self._world.log(end.name, "stalls" if stalls else "goes on")
        end.peer.wire.is_stalled = stalls
        end.peer.wire.schedule()

    def _end(self, ending: str, end: End) -> None:
        random = self._world.random
        if ending == "close":
            end.close()
        elif ending == "end of stream":
            end.end_stream()
        elif ending in ("reset", "crash"):
            self.cut()
            if ending == "crash":
                self._world.at(self._world.now + random.choice((0.0, 2.0)), self._conversation.connect)

    def cut(self) -> None:
        """Break the connection. The ends learn of it sooner or later."""
        self._world.log("link", "breaks")
        for end in self.ends:
            end.wire.cut()
            self._world.at(self._world.now + self._world.random.choice((0.0, 0.0, 0.5)), end.lose)

    def lost(self) -> None:
        """Record that one end knows of the loss."""
        for end in self.ends:
            if not end.wire.is_cut:
                self.cut()
                break


class Conversation:
    """A simulation from a seed.

    Args:
        seed: The seed that determines everything.
        is_traced: Whether to keep a trace.

    Attributes:
        world: The world.
    """

    def __init__(self, seed: int, is_traced: bool = False) -> None:
        self.world = World(seed, is_traced)
        random = self.world.random
        self.world.is_shuffled = random.random() < 0.3
        if random.random() < 0.25:
            self.world.clock_seconds = random.choice((0.001, 0.0003))
        self._links: list[Link] = []
        self.connect()
        if random.random() < 0.1:
            self.world.at(self.world.now + random.random(), self._jump, random.choice((1.0, 400.0)))

    @property
    def trace(self) -> list[str] | None:
        return self.world.trace

    def connect(self) -> None:
        if len(self._links) < 3:
            self._links.append(Link(self, len(self._links)))

    def _jump(self, seconds: float) -> None:
        self.world.log("clock", f"jumps by {seconds:g} seconds")
        self.world.now += seconds

    def run(self) -> int:
        """Let it run to its end, and return the number of its events.

        Raises:
            Violation: An invariant does not hold.
        """
        world = self.world
        ends = self._ends
        world.run(self._check)
        for link in self._links:
            for end in link.ends:
                end.check_nothing_left()
        for end in ends():
            end.lose()
        world.run(self._check)
        for end in ends():
            end.check_nothing_left()
        return world.steps

    def _ends(self) -> list[End]:
        return [end for link in self._links for end in link.ends]

    def _check(self) -> None:
        for end in self.world.touched:
            end.judge.check()
