"""Streams of messages: any chunking gives the same items, and a fault affects only its own message."""

from __future__ import annotations

import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from types import FrameType, ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.codec import _pure
from jsonrpc_fast.framing.frames import frame
from jsonrpc_fast.profile import JSONRPC, LSP, MCP_2025_11_25, Limits

from ..fuzz.mutate import LINES, MADE, mutants
from ..support import needs
from ..support.describe import Description, describe, fault, notification, request, result, text_fault
from ..support.memory import measured
from ..support.tables import rows

ONE = b'{"jsonrpc":"2.0","id":1,"method":"m"}'
TWO = b'{"jsonrpc":"2.0","method":"n"}'


def decode_all(impl: ModuleType, chunks: list[bytes], **options: Any) -> Description:
    decoder = impl.Decoder(**options)
    items = [item for chunk in chunks for item in decoder.feed(chunk)]
    return [describe(item) for item in items + decoder.close()]


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


STREAMS: list[tuple[bytes, Description]] = [
    (b"", []),
    (ONE + b"\n", [request(1, "m")]),
    (ONE, [request(1, "m")]),
    (ONE + b"\n" + TWO + b"\n", [request(1, "m"), notification("n")]),
    (ONE + b"\r\n" + TWO + b"\r\n", [request(1, "m"), notification("n")]),
    (b"\n \n\t\r\n" + ONE + b"\n\n\n", [request(1, "m")]),
    (b"\xef\xbb\xbf" + ONE + b"\n" + TWO, [request(1, "m"), notification("n")]),
    (b"\xef\xbb\xbf\n" + TWO, [notification("n")]),
    (TWO + b"\n\xef\xbb\xbf" + TWO + b"\n", [notification("n"), text_fault("MALFORMED_JSON", 0)]),
    (b"[" + ONE + b"," + TWO + b",1]\n", [[request(1, "m"), notification("n"), fault("NOT_AN_OBJECT", index=2)]]),
    (b"[]\n1\n", [fault("EMPTY_BATCH"), fault("NOT_AN_OBJECT")]),
    (b"{\n" + ONE + b"\n}\n", [text_fault("MALFORMED_JSON", 1), request(1, "m"), text_fault("MALFORMED_JSON", 0)]),
    (b"\xff\n" + TWO + b"\n", [text_fault("INVALID_UTF8", 0), notification("n")]),
    (ONE + TWO + b"\n" + TWO + b"\n", [text_fault("MALFORMED_JSON", 37), notification("n")]),
    (b'{"jsonrpc":"2.0",\r"method":"n"}\r\n', [notification("n")]),
    ('{"jsonrpc":"2.0","method":"\u0085\u2028\u2029"}\n'.encode(), [notification("\u0085\u2028\u2029")]),
    ('{"jsonrpc":"2.0","method":"n"}\u2028\n'.encode(), [text_fault("MALFORMED_JSON", 30)]),
    ('"\u0085"\n'.encode(), [fault("NOT_AN_OBJECT")]),
    (b"\x0c\n", [text_fault("MALFORMED_JSON", 0)]),
    # the end of the stream inside a message
    (ONE[:-1], [text_fault("TRUNCATED", 36)]),
    (b"[" + ONE + b",", [text_fault("TRUNCATED", 39)]),
    (b"{", [text_fault("TRUNCATED", 1)]),
    (b"tru", [text_fault("TRUNCATED", 3)]),
    (b'"\\ud83d\\', [text_fault("TRUNCATED", 8)]),
    (ONE + b"\n" + TWO[:10], [request(1, "m"), text_fault("TRUNCATED", 10)]),
    (ONE[:-1] + b"\r", [text_fault("TRUNCATED", 36)]),
    (ONE[:-1] + b" ", [text_fault("TRUNCATED", 37)]),
    (b'{"\xc3', [text_fault("TRUNCATED", 3)]),
    (b'{"\xe2\x82', [text_fault("TRUNCATED", 4)]),
    (b'{"\xf0\x9f\x98', [text_fault("TRUNCATED", 5)]),
    (b'\xef\xbb\xbf{"a', [text_fault("TRUNCATED", 3)]),
    # faults before the end
    (b"{]", [text_fault("MALFORMED_JSON", 1)]),
    (b'{]"\xc3', [text_fault("INVALID_UTF8", 3)]),
    (b'{"a":1}\xc3', [text_fault("INVALID_UTF8", 7)]),
    (b'{"\xff', [text_fault("INVALID_UTF8", 2)]),
    (b'{"\xc3\xc3', [text_fault("INVALID_UTF8", 2)]),
    (b'{"\xe0\x9f', [text_fault("INVALID_UTF8", 2)]),
    (b'{"\xed\xa0', [text_fault("INVALID_UTF8", 2)]),
    (b'{"\xf0\x8f', [text_fault("INVALID_UTF8", 2)]),
    (b'{"\xf4\x90', [text_fault("INVALID_UTF8", 2)]),
    (b'{"\xc0', [text_fault("INVALID_UTF8", 2)]),
    (b'{"\xc3"', [text_fault("INVALID_UTF8", 2)]),
    (b"\xef\xbb", [text_fault("TRUNCATED", 2)]),
    (b"{}", [fault("MISSING_JSONRPC")]),
    (b"12", [fault("NOT_AN_OBJECT")]),
    (b"[]", [fault("EMPTY_BATCH")]),
    (b'{\n"', [text_fault("MALFORMED_JSON", 1), text_fault("TRUNCATED", 1)]),
]


@rows(("data", "expected"), STREAMS)
def test_streams(impl: ModuleType, data: bytes, expected: Description) -> None:
    assert decode_all(impl, [data]) == expected
    assert decode_all(impl, bytewise(data)) == expected
    for at in range(len(data)):
        assert decode_all(impl, [data[:at], data[at:]]) == expected


def test_items_come_with_the_chunk_that_ends_them(impl: ModuleType) -> None:
    decoder = impl.Decoder()
    assert decoder.feed(ONE) == []
    assert describe(decoder.feed(b"\n")) == [request(1, "m")]
    assert describe(decoder.feed(TWO + b"\n" + TWO + b"\n" + ONE)) == [notification("n"), notification("n")]
    assert describe(decoder.close()) == [request(1, "m")]


def test_truncated_is_of_the_backend_s_class(impl: ModuleType) -> None:
    decoder = impl.Decoder()
    decoder.feed(b"{")
    [item] = decoder.close()
    assert type(item) is impl.ParseError
    assert item.to_response().to_bytes() == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    )


class TestLimit:
    LIMITS = Limits(message_bytes=len(ONE))

    @rows("end", [b"\n", b"\r\n"])
    def test_bound(self, impl: ModuleType, end: bytes) -> None:
        for pad, expected in ((b"", request(1, "m")), (b" ", fault("MESSAGE_TOO_LARGE", 1))):
            data = ONE + pad + end + TWO + end
            for chunks in ([data], bytewise(data)):
                assert decode_all(impl, chunks, limits=self.LIMITS) == [expected, notification("n")]

    @rows("end", [b"", b"\r"])
    def test_bound_of_the_last_line(self, impl: ModuleType, end: bytes) -> None:
        assert decode_all(impl, [ONE + end], limits=self.LIMITS) == [request(1, "m")]
        assert decode_all(impl, [ONE + b" " + end], limits=self.LIMITS) == [fault("MESSAGE_TOO_LARGE", 1)]
        assert decode_all(impl, bytewise(ONE + b"  " + end), limits=self.LIMITS) == [fault("MESSAGE_TOO_LARGE", 1)]

    def test_the_byte_order_mark_does_not_count(self, impl: ModuleType) -> None:
        data = b"\xef\xbb\xbf" + ONE + b"\n"
        assert decode_all(impl, [data], limits=self.LIMITS) == [request(1, "m")]

    def test_reported_at_once_and_the_stream_continues(self, impl: ModuleType) -> None:
        decoder = impl.Decoder(limits=self.LIMITS)
        assert describe(decoder.feed(ONE + b"  ")) == [fault("MESSAGE_TOO_LARGE", 1)]
        assert decoder.feed(100 * ONE) == []
        assert describe(decoder.feed(b"\n" + TWO + b"\n")) == [notification("n")]
        assert decoder.close() == []

    def test_limits_replace_those_of_the_profile(self, impl: ModuleType) -> None:
        text = b'{"jsonrpc":"2.0","id":1,"method":"mm","params":null}\n'
        small = LSP.replace(limits=Limits(method_bytes=1))
        assert decode_all(impl, [text], profile=small) == [fault("METHOD_TOO_LONG", 1)]
        assert decode_all(impl, [text], profile=small, limits=Limits()) == [request(1, "mm")]
        assert decode_all(impl, [text], profile=LSP, limits=Limits(id_bytes=32)) == [request(1, "mm")]

    def test_memory_has_a_bound(self, impl: ModuleType) -> None:
        decoder = impl.Decoder(limits=Limits(message_bytes=100_000))
        chunk = b'{"a":"' + 65536 * b"x"
        with measured() as memory:
            reported = [item for _ in range(200) for item in decoder.feed(chunk)]
        assert describe(reported) == [fault("MESSAGE_TOO_LARGE")]
        assert memory.peak < 600_000


class TestArguments:
    def test_profile(self, impl: ModuleType) -> None:
        text = b'{"jsonrpc":"2.0","id":1,"method":"","params":[]}\n'
        assert decode_all(impl, [text]) == [request(1, "", [])]
        assert decode_all(impl, [text], framing="newline", profile=JSONRPC, limits=None) == [request(1, "", [])]
        assert decode_all(impl, [text], profile=MCP_2025_11_25) == [fault("EMPTY_METHOD", 1)]
        assert describe(impl.Decoder("newline", MCP_2025_11_25, Limits()).feed(text)) == [fault("EMPTY_METHOD", 1)]

    @rows("data", [bytearray(TWO + b"\n"), memoryview(TWO + b"\n"), memoryview(b" " + TWO + b"\n")[1:]])
    def test_types(self, impl: ModuleType, data: bytes) -> None:
        assert describe(impl.Decoder().feed(data)) == [notification("n")]

    @rows("data", ["{}\n", None, 1, [], [b"{}\n"]])
    def test_other_types_are_refused(self, impl: ModuleType, data: Any) -> None:
        decoder = impl.Decoder()
        expected = f"^data must be bytes, bytearray or memoryview, not {type(data).__name__}$"
        with pytest.raises(TypeError, match=expected):
            decoder.feed(data)
        assert describe(decoder.feed(TWO + b"\n")) == [notification("n")]

    def test_wrong_constructions(self, impl: ModuleType) -> None:
        for framing in ("lines", "", None, b"newline", 1):
            with pytest.raises(ValueError, match=r"^framing must be "):
                impl.Decoder(framing)
        for profile in (None, "jsonrpc", Limits()):
            with pytest.raises(
                TypeError,
                match=f"^profile must be a Profile, such as jsonrpc_fast.LENIENT, not {type(profile).__name__}$",
            ):
                impl.Decoder(profile=profile)
        with pytest.raises(TypeError, match=r"^limits must be of type Limits, not int$"):
            impl.Decoder(limits=5)


class TestClose:
    def test_twice(self, impl: ModuleType) -> None:
        decoder = impl.Decoder()
        decoder.feed(ONE)
        assert describe(decoder.close()) == [request(1, "m")]
        assert decoder.close() == []
        assert decoder.close() == []

    def test_feed_after_close(self, impl: ModuleType) -> None:
        decoder = impl.Decoder()
        decoder.close()
        for data in (b"", ONE):
            with pytest.raises(ValueError, match=r"^the decoder is closed$"):
                decoder.feed(data)


LINE = st.one_of(
    st.sampled_from([*LINES, *MADE]).map(lambda line: line.replace(b"\n", b" ")),
    mutants().map(lambda line: line.replace(b"\n", b" ")),
    st.sampled_from([b"", b" ", b"\r", b"1", b"[]", b"\xff", b"x" * 300, "\u2028".encode(), b"\xef\xbb\xbf"]),
)


@given(
    lines=st.lists(LINE, max_size=6),
    ends=st.lists(st.sampled_from([b"\n", b"\r\n", b"\n\n"]), min_size=6, max_size=6),
    sizes=st.lists(st.integers(0, 400), max_size=20),
)
def test_any_chunking(impl: ModuleType, lines: list[bytes], ends: list[bytes], sizes: list[int]) -> None:
    limits = Limits(message_bytes=250)
    data = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    whole = decode_all(impl, [data], limits=limits)
    chunks, rest = [], data
    for size in sizes:
        chunks.append(rest[:size])
        rest = rest[size:]
    assert repr(decode_all(impl, [*chunks, rest], limits=limits)) == repr(whole)
    assert repr(decode_all(impl, bytewise(data), limits=limits)) == repr(whole)


@given(lines=st.lists(LINE, max_size=6))
def test_a_stream_gives_the_items_of_its_lines(impl: ModuleType, lines: list[bytes]) -> None:
    limits = Limits(message_bytes=250)
    expected = []
    for line in lines:
        text = line.removesuffix(b"\r")
        if text.strip(b" \t\r"):
            expected.append(describe(impl.decode(text, JSONRPC.replace(limits=limits))))
    data = b"\n" + b"".join(line + b"\n" for line in lines)
    assert repr(decode_all(impl, [data], limits=limits)) == repr(expected)


@given(text=st.sampled_from([*LINES, *MADE]), data=st.data())
def test_a_message_cut_anywhere_is_truncated(impl: ModuleType, text: bytes, data: st.DataObject) -> None:
    line = text.translate(bytes.maketrans(b"\r\n", b"  ")).strip()
    end = data.draw(st.integers(1, len(line) - 1))
    decoder = impl.Decoder()
    assert decoder.feed(line[:end]) == []
    [fault] = decoder.close()
    cut = impl.decode(line[:end])
    assert describe(fault) == text_fault("TRUNCATED", end, reply=cut.reply_expected)
    assert (fault.id, fault.settles) == (None, cut.settles)


def test_results_between_faults(impl: ModuleType) -> None:
    good = b'{"jsonrpc":"2.0","id":%d,"result":[%d]}\n'
    data = b"".join(good % (number, number) + b"{]\n" for number in range(50))
    expected = [each for number in range(50) for each in (result(number, [number]), text_fault("MALFORMED_JSON", 1))]
    assert decode_all(impl, [data]) == expected


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="without the GIL it is not used")
def test_the_reader_of_a_decoder_is_checked(backends: tuple[ModuleType, ModuleType]) -> None:
    for other in (5, "text", object(), backends[0].Decoder()):
        decoder = backends[0].Decoder()
        decoder._fast = other
        with pytest.raises(TypeError, match=r"^Cannot convert \w+ to jsonrpc_fast\.codec\._core\.Reader$"):
            decoder.feed(b"{}\n")
    decoder = backends[0].Decoder()
    del decoder._fast
    with pytest.raises(AttributeError):
        decoder.feed(b"{}\n")


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
        Where the call was interrupted, or "", and the numbers of the items, or None for a decoder that was closed.
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
@pytest.mark.parametrize("step", [53, pytest.param(11, marks=pytest.mark.ci), pytest.param(1, marks=pytest.mark.slow)])
@rows("bound", [None, 1])
@rows("framing", FRAMINGS)
def test_a_trace_function_that_raises(impl: ModuleType, framing: str, bound: int | None, step: int) -> None:
    """At every line, call and return of the package, in every chunk.

    While a call checks its arguments the chunk stays unread; what it is about to return is lost, as with any function.
    """
    # In a thread of its own: CPython 3.11 keeps handling an exception if a trace function raises as a handler begins.
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
    """A trace function or a finalizer calls a decoder that is in use. The core's test is in `test_hostile_objects`."""
    decoder = _pure.Decoder()
    refused: list[str] = []

    def call_again(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_name == "_read" and not refused:
            for call in (lambda: decoder.feed(b"x\n"), decoder.close):
                with pytest.raises(ValueError, match=r"^the decoder is in use$") as caught:
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
