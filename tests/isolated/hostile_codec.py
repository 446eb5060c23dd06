"""Hostile texts and streams: how each is made in any size, and the ways in which either backend reads it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NamedTuple

from jsonrpc_fast import JSONRPC, Profile
from jsonrpc_fast.errors import ParseError
from jsonrpc_fast.framing import Framing

Make = Callable[[int], bytes]
Read = Callable[[ModuleType, bytes], str]


class Input(NamedTuple):
    """A hostile input.

    Attributes:
        layer: What reads it: "codec" for a text, the framing of a stream, or a layer above.
        name: What it is.
        size: About how many bytes the smaller one has.
        make: Makes it in a size.
        ways: How a backend reads it, by name. Each returns the outcome.
    """

    layer: str
    name: str
    size: int
    make: Make
    ways: dict[str, Read]


INPUTS: Final[list[Input]] = []
KEEP: Final = JSONRPC.replace(extra_members="keep")


def outcome(item: Any) -> str:
    """Return what `decode` made of an input."""
    if isinstance(item, list):
        kinds = sorted({outcome(each) for each in item})
        return f"{kinds[0] if len(kinds) == 1 else 'message'} for each item"
    return item.code.name if isinstance(item, ParseError) else type(item).__name__


def call(params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}' % params


def fill(unit: bytes, before: bytes = b"", after: bytes = b"") -> Make:
    """Make a text by repetition."""
    return lambda size: before + unit * (size // len(unit)) + after


def params(unit: bytes, before: bytes = b"[", after: bytes = b"]") -> Make:
    """Make params by repetition."""
    made = fill(unit, before, after)
    return lambda size: call(made(size))


def numbered(unit: str, before: bytes, after: bytes) -> Make:
    """Make a text with a number in each repetition."""
    return lambda size: before + ",".join([unit % number for number in range(size // 8)]).encode() + after


def _decode(profile: Profile, raw: bool) -> Read:
    return lambda backend, data: outcome(backend.decode(data, profile, raw=raw))


def _classify(backend: ModuleType, data: bytes) -> str:
    return str(backend.classify(data).kind)


def _feed(framing: Framing, chunk: int, raw: bool, message_bytes: int) -> Read:
    limits = JSONRPC.limits.replace(message_bytes=message_bytes)

    def read(backend: ModuleType, data: bytes) -> str:
        decoder = backend.Decoder(framing, JSONRPC, limits, raw)
        found: set[str] = set()
        for start in range(0, len(data), chunk):
            found.update(map(outcome, decoder.feed(data[start : start + chunk], 64)))
            while decoder.has_more:
                found.update(map(outcome, decoder.feed(b"", 64)))
        found.update(map(outcome, decoder.close()))
        return ", ".join(sorted(found)) or "nothing"

    return read


TEXT_WAYS: Final[dict[str, Read]] = {
    "eager": _decode(JSONRPC, False),
    "raw": _decode(JSONRPC, True),
    "eager, keep, exact": _decode(KEEP, False),
    "raw, keep, exact": _decode(KEEP, True),
    "classify": _classify,
}
KIB: Final = 1024


def text(name: str, make: Make, size: int = 32 * KIB) -> None:
    INPUTS.append(Input("codec", name, size, make, TEXT_WAYS))


def stream(framing: Framing, name: str, make: Make, message_bytes: int = 1 << 24) -> None:
    """Add a stream twice: in chunks, and byte by byte."""
    ways = {
        f"{'raw' if raw else 'eager'}, chunks of {chunk}": _feed(framing, chunk, raw, message_bytes)
        for raw in (False, True)
        for chunk in (64, 4 * KIB, 64 * KIB)
    }
    INPUTS.append(Input(framing, name, 32 * KIB, make, ways))
    ways = {"byte by byte": _feed(framing, 1, False, message_bytes)}
    INPUTS.append(Input(framing, f"{name}, byte by byte", 8 * KIB, make, ways))


TINY: Final = b'{"jsonrpc":"2.0","method":"m"}'
STRING: Final = (b'["', b'"]')
ENVELOPE: Final = b'{"jsonrpc":"2.0","id":1,"method":"m",'

# Nesting.
text("arrays that nest", params(b"[", b"", b""))
text("objects that nest", params(b'{"a":', b"", b""))
text("both that nest", fill(b'[{"":'))
text("arrays that nest, and are closed", lambda size: call(b"[" * (size // 2) + b"]" * (size // 2)))
text("arrays that nest to the limit, again and again", params(b"[" * 900 + b"]" * 900 + b",", b"[", b"1]"))
text("empty arrays", params(b"[],", b"[", b"1]"))
text("empty objects", params(b"{},", b"[", b"1]"))
# Numbers.
text("one huge integer", params(b"9"))
text("integers of 30 digits", params(b"9" * 30 + b",", b"[", b"1]"))
text("integers of 600 digits", params(b"9" * 600 + b",", b"[", b"1]"))
text("one number with a huge fraction", params(b"3", b"[0.", b"]"))
text("one number with a huge exponent", params(b"0", b"[1e", b"1]"))
text("one number with a huge negative exponent", params(b"9", b"[1e-", b"]"))
text("`1e400`, many times", params(b"1e400,", b"[", b"1]"))
text("`1e-400`, many times", params(b"1e-400,", b"[", b"1]"))
text("numbers between two doubles", params(b"9007199254740993.0000000000000000000000000001,", b"[", b"1]"))
text("small integers", params(b"7,", b"[", b"1]"))
text("short floats, and a payload that is cut", lambda size: call(b"[" + b"1.5," * (size // 4) + b"1"))
# Strings.
text("a string without an end", params(b"a", b'["', b""))
text("a string of escapes `\\n`", params(b"\\n", *STRING))
text("a string of escapes `\\u00e9`", params(b"\\u00e9", *STRING))
text("a string of backslashes", params(b"\\\\", *STRING))
text("a string of surrogate pairs", params(b"\\ud83d\\ude00", *STRING))
text("a lone surrogate in the end", params(b"\\u0041", b'["', b'\\ud800"]'))
text("a string that widens in the end", params(b"a", b'["', b'\xf0\x9f\x98\x80"]'))
text("invalid UTF-8 in the end", params(b"a", b'["', b'\xff"]'))
text("short strings", params(b'"a",', b"[", b"1]"))
text("quotes", fill(b'"'))
text("blanks", fill(b" ", b"{", b"}"))
text("blanks after the text", fill(b" ", call(b"[]"), b""))
# Members.
text("an id of many digits", fill(b"9", b'{"jsonrpc":"2.0","method":"m","id":', b"}"))
text("a long method", fill(b"m", b'{"jsonrpc":"2.0","id":1,"method":"', b'"}'))
text("a method of escapes", fill(b"\\u0041", b'{"jsonrpc":"2.0","id":1,"method":"', b'"}'))
text("`id` many times", fill(b'"id":1,', b'{"jsonrpc":"2.0","method":"m",', b'"id":1}'))
text("`params` many times", fill(b'"params":[],', ENVELOPE, b'"params":[1]}'))
text("escaped names", fill(b'"\\u0069x":1,', ENVELOPE, b'"a":1}'))
text("escaped names that are known", fill(b'"\\u0069d":[1],', b'{"jsonrpc":"2.0","method":"m",', b'"a":1}'))
text("one unknown member many times", fill(b'"x":[],', ENVELOPE, b'"x":1}'))
text("one unknown member with a value many times", fill(b'"x":{"y":[1]},', ENVELOPE, b'"x":1}'))
text("unknown members before the others", fill(b'"x":[1],', b"{", b'"jsonrpc":"2.0","id":1,"method":"m"}'))
text("unknown members", numbered('"%07d":1', ENVELOPE, b"}"))
text("one member many times in params", params(b'"a":1,', b"{", b'"a":1}'))
text("different short keys", lambda size: call(numbered('"%x":0', b"{", b"}")(size)))
text(
    "keys of one length that differ in the end",
    lambda size: call(numbered('"' + "k" * 40 + '%06d":0', b"{", b"}")(size // 6)),
)
text(
    "members of an error many times",
    fill(b'"x":[],', b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m",', b'"data":1}}'),
)
text(
    "the data of an error", fill(b"1.5,", b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":[', b"1]}}")
)
text("names of members as values", params(b'"params","\\u0069d",', b"[", b"1]"))
# Batches.
text("a batch of `1`, to the limit of items", lambda size: b"[" + b"1," * min(9999, size // 2) + b"1]", 4000)
text("a batch of `1`, over the limit", fill(b"1,", b"[", b"1]"), 64 * KIB)
text("a batch of empty batches", lambda size: b"[" + b"[]," * min(9999, size // 3) + b"1]", 6000)
text("a batch of empty messages", lambda size: b"[" + b"{}," * min(9999, size // 3) + b"1]", 6000)
text("a batch of small requests", fill(b'{"jsonrpc":"2.0","id":1,"method":"m"},', b"[", b"1]"))
text("a batch of valid notifications", fill(TINY + b",", b"[", TINY + b"]"))
text("a batch of arrays that nest", fill(b"[" * 60 + b"]" * 60 + b",", b"[", b"1]"))
text("a batch of members that occur twice", fill(b'{"jsonrpc":"2.0","id":1,"id":1,"method":"m"},', b"[", b"1]"))
text("a batch of messages with unknown members", fill(b'{"jsonrpc":"2.0","x":[],"method":"m","x":1},', b"[", b"1]"))

stream("newline", "tiny messages", fill(TINY + b"\n"))
stream("newline", "empty lines", fill(b"\n"))
stream("newline", "blank lines", fill(b" \t\r\n"))
stream("newline", "carriage returns", fill(b"\r"))
stream("newline", "lines of `1`", fill(b"1\n"))
stream("newline", "lines of text", fill(b"x\n"))
stream("newline", "lines of `{}`", fill(b"{}\n"))
stream("newline", "a line without an end", params(b"a", b'["', b""))
stream("newline", "a line without an end, over the limit", params(b"a", b'["', b""), 1000)
stream("newline", "batches", fill(b"[" + b",".join([TINY] * 20) + b"]\n"))
stream("content-length", "tiny messages", fill(b"Content-Length: %d\r\n\r\n%b" % (len(TINY), TINY)))
stream("content-length", "a header without an end", fill(b"a"))
stream("content-length", "headers without an end", fill(b"A: b\r\n"))
stream("content-length", "headers in an unusual order", fill(b"A: b\r\n" * 50 + b"content-length: 2\r\n\r\n{}"))
stream("content-length", "blank lines", fill(b"\r\n"))
stream("content-length", "a length of 2^63", fill(b"a", b"Content-Length: 9223372036854775808\r\n\r\n"))
stream(
    "content-length", "a length within the limit", lambda size: b"Content-Length: %d\r\n\r\n" % (2 * size) + b"[" * size
)
stream("content-length", "bodies over the limit", fill(b"Content-Length: 99\r\n\r\n" + b"[" * 99), 50)
stream("content-length", "bodies of one byte", fill(b"Content-Length: 1\r\n\r\n1"))
stream("content-length", "empty bodies", fill(b"Content-Length: 0\r\n\r\n"))
stream("sse", "tiny messages", fill(b"data: " + TINY + b"\n\n"))
stream("sse", "tiny messages ended by 0x0D", fill(b"data: " + TINY + b"\r\r"))
stream("sse", "tiny messages between unknown fields", fill(b"x: y\ndata: " + TINY + b"\n\n"))
stream("sse", "empty lines", fill(b"\n"))
stream("sse", "carriage returns", fill(b"\r"))
stream("sse", "both line endings", fill(b"\r\n"))
stream("sse", "fields `data` without an end", fill(b"data: x\n"))
stream("sse", "one field without an end", fill(b"a", b"data: "))
stream("sse", "events of one field `data`", fill(b"data\n\n"))
stream("sse", "events of `1`", fill(b"data:1\r\r"))
stream("sse", "events of an unknown field", fill(b"f\n\n"))
stream("sse", "events of an unknown field, blank lines between", fill(b"f\n\n\n"))
stream("sse", "events of another type", fill(b"event:x\ndata:1\n\n"))
stream("sse", "events over the limit", fill(b"data: " + b"[" * 99 + b"\n\n"), 50)
stream("sse", "unknown fields", fill(b"x\n"))
stream("sse", "comments", fill(b":\n"))
stream("sse", "comments that are events", fill(b":\r\r"))
stream("sse", "`id` without an end, over the limit", fill(b"a", b"id: "))
stream("sse", "`id` many times", fill(b"id: 1\n"))
stream("concatenated", "tiny messages", fill(TINY))
stream("concatenated", "arrays that nest", fill(b"["))
stream("concatenated", "closing brackets", fill(b"]"))
stream("concatenated", "a string without an end", fill(b"\\\\", b'"'))
stream("concatenated", "`1 1 1 …`", fill(b"1 "))
stream("concatenated", "lines of `1`", fill(b"1\n"))
stream("concatenated", "quotes", fill(b'"'))
stream("concatenated", "blanks", fill(b" "))
stream("concatenated", "`{}`", fill(b"{}"))
stream("concatenated", "malformed lines", fill(b'{\n"', b'"\n'))
stream("concatenated", "values over the limit", fill(b"[" * 60 + b"]" * 60), 50)
stream("auto", "neither lines nor headers", fill(b"x"))
stream("auto", "empty lines", fill(b"\n"))
