"""An exception that leaves `feed` while it reads closes the decoder, wherever it was raised."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import FrameType, ModuleType
from typing import Any

import pytest

from jsonrpc_fast.codec import _pure
from jsonrpc_fast.framing.frames import frame

from ..support import needs
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
    return frame(text, "newline" if framing == "auto" else framing)  # type: ignore[arg-type]


FRAMINGS = ("newline", "content-length", "headers", "sse", "events", "concatenated", "auto")
CLOSED = r"^the decoder is closed: an exception interrupted it$"


def decoder_of(impl: ModuleType, framing: str) -> Any:
    return impl.Decoder({"headers": "content-length", "events": "sse"}.get(framing, framing))


def chunks_of(framing: str) -> list[bytes]:
    """Four messages and a fault, cut inside a message and inside the framing."""
    data = b"\xef\xbb\xbf" * (framing in ("newline", "auto", "headers"))
    data += b"".join([framed(text, framing) for text in (line(0), b"nonsense", line(1), line(2), line(3))])
    third = len(data) // 3
    return [data[:2], data[2:third], data[third : third + 1], data[third + 1 : -9], data[-9:]]


WHOLE = [0, None, 1, 2, 3]


def numbers_of(items: list[Any]) -> list[int | None]:
    return [item.id if hasattr(item, "method") else None for item in items]


class Tracer:
    """Raise at the given trace event inside the package."""

    def __init__(self, place: int) -> None:
        self.left = place
        self.last = ""
        """The event and the function of the exception."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> Tracer | None:
        if "jsonrpc_fast" not in frame.f_code.co_filename:
            return None
        self.left -= 1
        if self.left < 0:
            sys.settrace(None)
            self.last = f"{event} {frame.f_code.co_name}"
            raise Interrupt
        return self


def check_closed(decoder: Any) -> None:
    with pytest.raises(ValueError, match=CLOSED):
        decoder.feed(b"")
    with pytest.raises(ValueError, match=CLOSED):
        decoder.feed(b"", 1)
    assert not decoder.has_more
    assert decoder.close() == [] == decoder.close()
    with pytest.raises(ValueError, match=CLOSED):
        decoder.feed(b"")


def read(impl: ModuleType, framing: str, bound: int | None, interrupted: int, place: int) -> tuple[str, Any]:
    """Feed the chunks; a call that is interrupted must close the decoder, or leave the chunk unread.

    Returns:
        Where the call was interrupted, or "", and the numbers of the items, or None of a decoder that was closed.
    """
    decoder = decoder_of(impl, framing)
    found: list[Any] = []
    tracer = Tracer(place)
    for number, chunk in enumerate(chunks_of(framing)):
        before = sys.gettrace()
        try:
            if number == interrupted:
                sys.settrace(tracer)
            try:
                found += decoder.feed(chunk, bound)
            finally:
                sys.settrace(before)
        except Interrupt:
            try:
                found += decoder.feed(chunk, bound)
            except ValueError:
                check_closed(decoder)
                return tracer.last, None
        while decoder.has_more:
            found += decoder.feed(b"", bound)
    return tracer.last, numbers_of(found + decoder.close())


def closed_decoders(impl: ModuleType, framing: str, bound: int | None, step: int) -> int:
    """Interrupt each chunk at each place, and return how many decoders were closed."""
    closed = 0
    for interrupted in range(5):
        place = interrupted % step
        at = "first"
        while at:
            at, numbers = read(impl, framing, bound, interrupted, place)
            if numbers is None:
                closed += 1
            elif numbers != WHOLE:
                assert at in ("return feed", "line feed"), (interrupted, place)  # the lock is released last
            place += step
    return closed


@needs.THREADS
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
@rows("bound", [None, 1])
@rows("framing", FRAMINGS)
def test_a_trace_function_that_raises(impl: ModuleType, framing: str, bound: int | None, step: int) -> None:
    """At every line, call and return of the package, in every chunk.

    While a call checks its arguments the chunk stays unread; what it is about to return is lost, as of any function.
    """
    # In a thread of its own: CPython 3.11 goes on handling an exception if a trace function raises as a handler begins.
    with ThreadPoolExecutor(1) as pool:
        closed = pool.submit(closed_decoders, impl, framing, bound, step).result()
    assert closed > 0 or impl.__name__.endswith("_core")


def depth() -> int:
    frame: FrameType | None = sys._getframe()
    count = 0
    while frame is not None:
        frame = frame.f_back
        count += 1
    return count


@needs.CPYTHON
@rows("framing", FRAMINGS)
def test_too_little_stack(impl: ModuleType, framing: str) -> None:
    limit = sys.getrecursionlimit()
    closed = 0
    for left in range(2, 40):
        decoder = decoder_of(impl, framing)
        feed = decoder.feed
        data = framed(line(0), framing) + framed(b"nonsense", framing)
        try:
            sys.setrecursionlimit(depth() + left)
            feed(data)
        except RecursionError:
            sys.setrecursionlimit(limit)
            try:
                feed(b"")
            except ValueError:
                check_closed(decoder)
                closed += 1
                continue
        finally:
            sys.setrecursionlimit(limit)
        assert numbers_of(feed(framed(line(1), framing)))[-1:] == [1], left
    assert closed > 0 or impl.__name__.endswith("_core")


@rows("kind, name", [("content_length", "HeaderReader.read"), ("sse", "EventDecoder.read")])
def test_an_exception_within_a_framing(impl: ModuleType, kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core's loop passes it on."""

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    framing = kind.replace("_", "-")
    unusual = "headers" if kind == "content_length" else "events"
    for bound in (None, 2):
        decoder = decoder_of(impl, framing)
        data = framed(line(0), framing) + framed(line(1), unusual)[:-3]
        assert numbers_of(decoder.feed(framed(line(2), unusual), bound)) == [2]
        with monkeypatch.context() as patched:
            patched.setattr(f"jsonrpc_fast.framing.{kind}.{name}", fail)
            with pytest.raises(KeyboardInterrupt):
                decoder.feed(data, bound)
        check_closed(decoder)


def test_a_call_within_a_call_is_refused() -> None:
    """A trace function, or a finalizer, calls the decoder that is at work. `test_hostile_objects` has the core's."""
    decoder = _pure.Decoder()
    refused: list[str] = []

    def call_again(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_name == "_read" and not refused:
            for call in (lambda: decoder.feed(b"x\n"), decoder.close):
                with pytest.raises(ValueError, match=r"^the decoder is at work$") as caught:
                    call()
                refused.append(str(caught.value))
        return call_again

    before = sys.gettrace()
    sys.settrace(call_again)
    try:
        items = decoder.feed(line(0) + b"\n")
    finally:
        sys.settrace(before)
    assert len(refused) == 2
    assert numbers_of(items + decoder.feed(line(1) + b"\n")) == [0, 1]
