"""The contract of a channel, as a test that can be run against any of them.

    async def pair(one, other):
        ends = MyChannel(), MyChannel()  # connected to each other
        await ends[0].open(one)
        await ends[1].open(other)
        return ends

    asyncio.run(check_channel(pair))

Each check opens a new pair of ends. If a channel breaks a rule, an AssertionError names the rule.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from functools import partial
from typing import Any, Final, Literal, get_args

from .channel import HIGH_WATER_BYTES, LOW_WATER_BYTES, Channel, Events

Pair = Callable[[Events, Events], Awaitable[tuple[Channel, Channel]]]
"""Opens two ends that are connected to each other, each with its events, and returns them."""

Lack = Literal["waits", "delivers"]
"""What a channel cannot do."""

Until = Callable[[Callable[[], object], str], Awaitable[None]]
"""Waits until a condition holds; the text says what is wrong if it does not."""

WAIT_SECONDS: Final = 10.0
"""How long an event may take."""
QUIET_SECONDS: Final = 0.05
"""How long a check waits to see that no event comes."""
_TEXT: Final = b'{"jsonrpc":"2.0","method":"text","params":[%d,"%b"]}'


class _End:
    """Records the events of one end. `faults` gets the rules that the channel breaks in an event: an exception there
    would not reach the caller."""

    def __init__(self, name: str, faults: list[str]) -> None:
        self.events = Events(self._received, self._drained, self._lost)
        self.channel: Channel
        self.data = bytearray()
        self.texts: list[bytes] = []
        self.has_ended = False
        self.drained = 0
        self.losses: list[Exception | None] = []
        self._name = name
        self._faults = faults
        self._method = ""  # that is being invoked

    def invoke(self, method: Callable[..., None], *arguments: object) -> None:
        """Run a method of the channel, which must not report an event meanwhile."""
        self._method = method.__name__
        try:
            method(*arguments)
        finally:
            self._method = ""

    def write(self, data: bytes) -> bytes:
        """Write a message, and return its text."""
        self.invoke(self.channel.write, data)
        return data

    def read(self, on: bool = True) -> None:
        """Start or stop reading."""
        self.invoke(self.channel.set_reading, on)

    def _check(self, event: str) -> None:
        if self._method:
            self._faults.append(f"{self._name}: `{event}` was called inside `{self._method}`")
        if self.losses:
            self._faults.append(f"{self._name}: `{event}` was called after `lost`")

    def _received(self, data: Any) -> None:
        self._check("received")
        if self.has_ended:
            self._faults.append(f"{self._name}: `received` was called after the end of the stream")
        if not len(data):
            self.has_ended = True
            return
        for one in data if isinstance(data, list) else (data,):
            text = one.encode() if isinstance(one, str) else bytes(one)
            self.texts.append(text)
            self.data += text

    def _drained(self) -> None:
        self._check("drained")
        self.drained += 1

    def _lost(self, error: Exception | None) -> None:
        self._check("lost")
        self.losses.append(error)

    @property
    def is_over(self) -> bool:
        return self.has_ended or bool(self.losses)

    def has_prefix_of(self, written: list[bytes]) -> bool:
        """Return whether what arrived is the beginning of what the other end has written."""
        if self.channel.carries_texts:
            return self.texts == written[: len(self.texts)]
        return b"".join(written).startswith(self.data)


@contextlib.asynccontextmanager
async def _opened(pair: Pair) -> AsyncIterator[tuple[_End, _End, Until]]:
    """Open a new pair of ends. On exit, abort both, and check that each is lost exactly once."""
    faults: list[str] = []
    ends = one, other = _End("one end", faults), _End("the other end", faults)

    async def until(condition: Callable[[], object], fault: str) -> None:
        latest = asyncio.get_running_loop().time() + WAIT_SECONDS
        while not condition():
            assert asyncio.get_running_loop().time() < latest, fault
            assert not faults, faults[0]
            await asyncio.sleep(0.001)
        assert not faults, faults[0]

    one.channel, other.channel = await pair(one.events, other.events)
    assert one.channel.unwritten == 0, "`unwritten` is not 0 when nothing was written"
    yield one, other, until
    for end in ends:
        end.invoke(end.channel.abort)
    await until(lambda: all(end.losses for end in ends), "`abort` is not followed by `lost`")
    # Again: an `abort` after `lost` must do nothing.
    for end in ends:
        end.invoke(end.channel.abort)
    await asyncio.sleep(QUIET_SECONDS)
    assert not faults, faults[0]


async def check_channel(pair: Pair, *, without: Collection[Lack] = ()) -> None:
    """Check that a channel keeps the rules of `Channel`.

    Args:
        pair: Opens two ends.
        without: What the channel cannot do, and is not checked. "waits": let the peer wait while it is not read, so
            that unwritten bytes pile up at the peer, not in the channel; a queue takes everything. "delivers": deliver
            what was written before `finish`; a pseudo-terminal whose master is closed drops it.

    Raises:
        AssertionError: A rule is broken; the text says which.
        ValueError: `without` has another value.
    """
    if unknown := set(without) - set(get_args(Lack)):
        raise ValueError(f"without must be some of {', '.join(get_args(Lack))}, not {', '.join(sorted(unknown))}")
    checks: list[Callable[[_End, _End, Until], Awaitable[None]]] = [_check_order, _check_pauses]
    if "waits" not in without:
        checks.append(_check_back_pressure)
    checks += [
        partial(_check_finish, delivers="delivers" not in without),
        _check_abort,
        partial(_check_abort, finishes=True),
    ]
    for check in checks:
        async with _opened(pair) as (one, other, until):
            await check(one, other, until)


async def _check_order(one: _End, other: _End, until: Until) -> None:
    """Written data arrives in order, both ways, and each text as a whole."""
    one.read()
    other.read()
    # Around the sizes at which the head of a WebSocket frame becomes longer, or a chunk of a stream is full.
    sizes = (0, 1, 100, 125, 126, 4000, 65_536, 200_000)
    there = [one.write(_TEXT % (number, b"x" * size)) for number, size in enumerate(sizes)]
    back = [other.write(_TEXT % (number, "é".encode() * size)) for number, size in enumerate(sizes)]
    if one.channel.carries_texts:
        more = [_TEXT % (number, b"") for number in range(10)]
        one.invoke(one.channel.write_texts, more)
        there += more
    await until(lambda: len(other.data) >= _size(there) and len(one.data) >= _size(back), "data is lost")
    assert other.has_prefix_of(there), "what arrives is not what was written"
    assert one.has_prefix_of(back), "what arrives is not what was written"
    await until(lambda: one.channel.unwritten == 0, "`unwritten` does not fall to 0")
    is_over = one.is_over or other.is_over
    assert not is_over, "a channel has ended that neither end has closed"


async def _check_pauses(one: _End, other: _End, until: Until) -> None:
    """A pause loses nothing."""
    other.read()
    written = [one.write(_TEXT % (1, b""))]
    await until(lambda: other.data, "nothing arrives")
    other.read(False)
    await asyncio.sleep(QUIET_SECONDS)
    written += [one.write(_TEXT % (number, b"x" * 1000)) for number in range(20)]
    await asyncio.sleep(QUIET_SECONDS)
    other.read()
    other.read()
    await until(lambda: len(other.data) == _size(written), "data is lost by a pause")
    assert other.has_prefix_of(written), "what arrives after a pause is not what was written"


async def _check_back_pressure(one: _End, other: _End, until: Until) -> None:
    """A peer that does not read makes `unwritten` rise; when it reads, `drained` is called."""
    one.read()
    written = []
    # Random bytes, which compression cannot shrink.
    for number in range(2000):
        written.append(one.write(_TEXT % (number, os.urandom(30_000).hex().encode())))
        await asyncio.sleep(0)
        if one.channel.unwritten > 2 * HIGH_WATER_BYTES:
            break
    assert one.channel.unwritten > HIGH_WATER_BYTES, "`unwritten` does not rise while the peer does not read"
    before = one.drained
    other.read()
    await until(lambda: one.channel.unwritten <= LOW_WATER_BYTES, "`unwritten` does not fall while the peer reads")
    await until(lambda: one.drained > before, "`drained` is not called when `unwritten` falls")
    await until(lambda: len(other.data) == _size(written), "data is lost by back-pressure")


async def _check_finish(one: _End, other: _End, until: Until, delivers: bool) -> None:
    """`finish` writes everything, and ends both sides."""
    one.read()
    other.read()
    written = [one.write(_TEXT % (number, b"x" * 10_000)) for number in range(50)]
    one.channel.finish()
    await until(lambda: other.is_over, "the other end does not notice `finish`")
    assert not delivers or len(other.data) == _size(written), "what was written before `finish` is lost"
    assert other.has_prefix_of(written), "what was written before `finish` is not what arrives"
    if not other.losses:
        other.channel.finish()
    await until(lambda: one.losses and other.losses, "`finish` of both ends is not followed by `lost`")
    assert (one.losses, other.losses) == ([None], [None]), "`lost` has an error although both sides finished"


async def _check_abort(one: _End, other: _End, until: Until, finishes: bool = False) -> None:
    """`abort` ends both sides, even after `finish`."""
    other.read()
    one.write(_TEXT % (1, b"x" * 1000))
    if finishes:
        one.channel.finish()
    one.invoke(one.channel.abort)
    await until(lambda: one.losses, "`abort` is not followed by `lost`")
    assert one.losses == [None], "`lost` has an error although this side has aborted"
    await until(lambda: other.is_over, "the other end does not notice `abort`")


def _size(texts: list[bytes]) -> int:
    return sum(map(len, texts))
