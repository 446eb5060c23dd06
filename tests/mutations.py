"""Real messages with random mutations, for Hypothesis."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from .support.places import WIRE

WIRE = sorted((WIRE).glob("*.ndjson"))
LINES = [line for path in WIRE for line in path.read_bytes().splitlines()]
MADE = [
    rb'{"jsonrpc":"2.0","id":18446744073709551616,"method":"m","params":[123456789012345678901234567890,-0,1e2]}',
    rb'{"jsonrpc":"2.0","\u0069d":"\ud83d\ude00","m\u0065thod":"\u00e9\n","params":{"a":{"b":[[[]]]}}}',
    rb'{"jsonrpc":"2.0","id":1.50,"error":{"code":-32000,"message":"","data":null},"x":{"id":1,"id":2}}',
    rb'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":1,"result":null,"error":null},[],1]',
    b' [ {"id" : null , "result" : {} , "jsonrpc" : "2.0" } ,\r\n\t{"method":"","jsonrpc":"2.0","params":null} ] ',
]
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[-+.0-9eE]+|[a-z]+|[ \t\r\n]+|.', re.DOTALL)
REPLACEMENTS = [
    *(b'"jsonrpc" "id" "method" "params" "result" "error" "code" "message" "data" "2.0" "" "x"'.split()),
    *(rb'"\u0069d" "\u006d\u0065thod" "json\u0072pc" "2\u002e0" "\ud83d\ude00" "\ud800" "\u12" "\x" "\/"'.split()),
    *(b"null true false nul 0 -0 1 -1 1.0 1.5 1e2 1e400 0.1e-7 -1e-400 12345678901234567.8 01 1. - NaN".split()),
    *(b"9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616".split()),
    *(b"-9223372036854775808 -9223372036854775809 123456789012345678901234567890123456789012".split()),
    *(310 * b"9", 309 * b"9", 308 * b"9", b"1" + 308 * b"0", 41 * b"1" + b".0", b'"' + 41 * b"i" + b'"'),
    *(b"{ } [ ] {} [] [[]] [[[]]] [[[[]]]] : , ,, :1 {]".split()),
    *(b"\xc3\xa9", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x00", b"\x1f", b"\x7f", b"\n", b" ", b""),
    *(
        b'{"a":1}',
        b'[1,"a"]',
        b'{"code":1,"message":"m"}',
        b'{"code":1.0,"message":"m"}',
        b'"a\xc3\xa9"',
        b'"\xf4\x90\x80\x80"',
    ),
]


@st.composite
def mutated(draw: st.DrawFn, lines: list[bytes] | None = None) -> bytes:
    """A real line, or two as a batch, with up to four mutations."""
    line = draw(st.sampled_from(lines or [*LINES, *MADE, *MADE, *MADE]))
    if draw(st.integers(0, 7)) == 0:
        line = b"[" + line + b"," + draw(st.sampled_from(LINES)) + b"]"
    for _ in range(draw(st.integers(0, 4))):
        tokens = TOKEN.findall(line)
        at = draw(st.integers(0, max(len(tokens) - 1, 0)))
        match draw(st.integers(0, 6)):
            case 0 | 1:
                tokens[at : at + 1] = [draw(st.sampled_from(REPLACEMENTS))]
            case 2:
                del tokens[at : at + draw(st.sampled_from([1, 1, 2, 4]))]
            case 3:
                # Whole members are four tokens: a name, a colon, a value, a comma.
                part = tokens[at : at + draw(st.sampled_from([1, 4, 4, 8]))]
                tokens[at:at] = part
            case 4:
                other = draw(st.integers(0, max(len(tokens) - 1, 0)))
                if tokens:
                    tokens[at], tokens[other] = tokens[other], tokens[at]
            case 5:
                raw = bytearray(line)
                if raw:
                    raw[draw(st.integers(0, len(raw) - 1))] ^= 1 << draw(st.integers(0, 7))
                tokens = [bytes(raw)]
            case _:
                tokens = [line[: draw(st.integers(0, len(line)))]]
        line = b"".join(tokens)
    return line
