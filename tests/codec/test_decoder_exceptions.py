"""An exception out of `feed` loses at most the message that was being decoded, wherever it was raised."""

from __future__ import annotations

import gc
import signal
import sys
import time
from types import FrameType, ModuleType
from typing import Any

import pytest

from jsonrpc_fast.framing.frames import frame

from ..support.tables import rows


class Interrupt(BaseException):
    pass


def line(number: int, pad: str = "") -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"m"%b}' % (number, pad.encode())


def framed(text: bytes, framing: str) -> bytes:
    if framing == "headers":  # headers that the fast path does not read
        return b"X: y\r\ncontent-length:  %d \r\n\r\n%b" % (len(text), text)
    if framing == "events":
        return b"id: 7\r\ndata: " + text[:17] + b"\r\ndata: " + text[17:] + b"\r\n\r\n"
    if framing == "unusual":  # of which the core reads many bytes at once
        return 4 * b"x\n\n" + b"x: y\ndata: " + text + b"\n\n"
    return frame(text, "newline" if framing == "auto" else framing)  # type: ignore[arg-type]


FRAMINGS = ("newline", "content-length", "headers", "sse", "events", "unusual", "auto")


def decoder_of(impl: ModuleType, framing: str) -> Any:
    return impl.Decoder({"headers": "content-length", "events": "sse", "unusual": "sse"}.get(framing, framing))


def chunks_of(framing: str) -> list[bytes]:
    """Five messages and a fault, cut inside a message and inside the framing."""
    data = b"\xef\xbb\xbf" * (framing in ("newline", "auto", "headers"))
    data += b"".join([framed(text, framing) for text in (line(0), line(1), b"nonsense", line(2), line(3), line(4))])
    third = len(data) // 3
    return [data[:2], data[2:third], data[third : third + 1], data[third + 1 : -9], data[-9:]]


def numbers_of(items: list[Any]) -> list[int | None]:
    return [item.id if hasattr(item, "method") else None for item in items]


class Tracer:
    """Raise at the given trace event inside the package."""

    def __init__(self, place: int) -> None:
        self.left = place

    def __call__(self, frame: FrameType, event: str, argument: object) -> Tracer | None:
        if "jsonrpc_fast" not in frame.f_code.co_filename:
            return None
        self.left -= 1
        if self.left < 0:
            sys.settrace(None)
            raise Interrupt
        return self


def read(
    impl: ModuleType, framing: str, bound: int | None, interrupted: int, place: int, taken: bool
) -> tuple[bool, Any]:
    """Whether the chunk was interrupted, and the items. taken: do not feed an interrupted chunk again."""
    decoder = decoder_of(impl, framing)
    found: list[Any] = []
    raised = False
    for number, chunk in enumerate(chunks_of(framing)):
        before = sys.gettrace()
        try:
            if number == interrupted:
                sys.settrace(Tracer(place))
            try:
                found += decoder.feed(chunk, bound)
            finally:
                sys.settrace(before)
        except Interrupt:
            raised = True
            if not taken:
                found += decoder.feed(chunk, bound)
        while decoder.has_more:
            found += decoder.feed(b"", bound)
    found += decoder.feed(b"")
    return raised, numbers_of(found + decoder.feed(framed(line(5), framing)))


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
@rows("bound", [None, 1])
@rows("framing", FRAMINGS)
def test_a_trace_function_that_raises(impl: ModuleType, framing: str, bound: int | None, step: int) -> None:
    """At every line, call and return of the package in every chunk, at most one message is lost and none is repeated.

    The test that is not slow looks at one in 23 places, and at other ones in each chunk.

    A call that is interrupted while it checks its arguments leaves the chunk unread.
    """
    whole = [0, 1, None, 2, 3, 4, 5]
    places = 0
    for interrupted in range(5):
        returned: list[int] = []
        place = 5 * interrupted % step
        raised = True
        while raised:
            raised, numbers = read(impl, framing, bound, interrupted, place, True)
            lost = set(whole) - set(numbers)
            assert numbers[-1:] == [5] or place < LOOKS, (interrupted, place, numbers)
            if len(lost) > 1 or numbers != [each for each in whole if each not in lost]:
                if place < LOOKS:
                    assert read(impl, framing, bound, interrupted, place, False) == (True, whole), (interrupted, place)
                else:
                    assert numbers == [each for each in whole if each not in lost], (interrupted, place, numbers)
                    returned.append(place)
            place += step
        # An interrupted return loses the items of the call.
        assert [each for each in returned if each < place - 2 * (step - 1) - RETURNS] == [], (interrupted, place)
        places += place
    if step > 1:
        assert places > 0
    elif impl.__name__.endswith("_core") and framing == "newline":
        assert places == 5  # no line of Python runs
    else:
        assert places > (60 if framing == "headers" else 20)


# The maximum number of events in which a call checks its arguments, and in which it returns.
LOOKS = 36
RETURNS = 12


def depth() -> int:
    frame: FrameType | None = sys._getframe()
    count = 0
    while frame is not None:
        frame = frame.f_back
        count += 1
    return count


@rows("framing", FRAMINGS)
def test_too_little_stack(impl: ModuleType, framing: str) -> None:
    limit = sys.getrecursionlimit()
    refused = 0
    for left in range(2, 40):
        decoder = decoder_of(impl, framing)
        feed = decoder.feed
        data = framed(line(0), framing) + framed(b"nonsense", framing)
        try:
            sys.setrecursionlimit(depth() + left)
            feed(data)
        except RecursionError:
            refused += 1
        finally:
            sys.setrecursionlimit(limit)
        assert numbers_of(decoder.feed(framed(line(1), framing)))[-1:] == [1], left
    assert refused > 0 or impl.__name__.endswith("_core")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers that send signals")
@rows("framing", FRAMINGS)
def test_a_signal_handler_that_raises(impl: ModuleType, framing: str) -> None:
    if sys.gettrace() is not None:
        pytest.skip("whoever measures coverage would wait forever for a lock that the handler left locked")

    def interrupt(*_: object) -> None:
        raise Interrupt

    left, _ = signal.getitimer(signal.ITIMER_REAL)  # of the test, by pytest-timeout
    before = signal.signal(signal.SIGALRM, interrupt)
    data = b"".join([framed(text, framing) for _ in range(300) for text in (line(0, ',"params":[1.5]'), b"x", line(1))])
    interrupted = 0
    ends = time.monotonic() + 0.2
    # In the core, only a callback of the collector may run Python code; its exceptions do not pass on.
    gc.disable()
    try:
        while interrupted < 100 and time.monotonic() < ends:
            decoder = decoder_of(impl, framing)
            found: list[Any] = []
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0001 + interrupted * 0.00001)
                found = decoder.feed(data)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupt:
                interrupted += 1
            try:
                found += decoder.feed(b"")
            except Interrupt:
                continue
            # All items except the one that was being decoded, or those that a call was about to return.
            numbers = numbers_of(found + decoder.feed(framed(line(2), framing)))
            assert numbers[-1] == 2
            assert numbers[:-1] == [] or len(numbers) >= 900, len(numbers)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left)
        gc.enable()
