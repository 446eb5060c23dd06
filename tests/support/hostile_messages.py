"""Hostile messages and values. Tests send them to an adapter and to the library it adapts, and compare the two.

Rules for adapters:
  - an adapter can read everything that it writes;
  - a request gets the response that the library gives; if the library gives none, an error is allowed;
  - a call ends if it ends with the library, with the same result or an error, and at the latest when the connection
    ends.
"""

from __future__ import annotations

import datetime
import enum
import math
import random
from collections import OrderedDict, namedtuple
from typing import Any, Final

from ..fuzz.mutate import mutated

_MESSAGE: Final = b'{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":@PARAMS@}'
_RESPONSE: Final = b'{"jsonrpc":"2.0","id":@ID@,"result":@PARAMS@}'
_ERROR: Final = b'{"jsonrpc":"2.0","id":@ID@,"error":@PARAMS@}'


def _nested(depth: int) -> bytes:
    return b'{"a":' * (depth // 2) + b"[" * (depth // 2) + b"]" * (depth // 2) + b"}" * (depth // 2)


_PAYLOADS: Final[dict[str, bytes]] = {
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":[Infinity]}',
    "-Infinity": b'{"a":-Infinity}',
    "beyond a double": b'{"a":1e400,"b":-1e400}',
    "a long fraction": b'{"a":0.10000000000000000555111512312578270211815834045410156250001}',
    "2**64": b'{"a":18446744073709551616}',
    "5,000 digits": b'{"a":%s}' % (b"7" * 5000),
    "a leading zero": b'{"a":01}',
    "a plus sign": b'{"a":+1}',
    "minus zero": b'{"a":-0,"b":-0.0}',
    "a lone surrogate": b'{"a":"\\ud83d"}',
    "a low surrogate": b'{"a":"\\ude00\\ud83d"}',
    "a lone surrogate in a key": b'{"\\ud83d":1}',
    "a pair": b'{"a":"\\ud83d\\ude00"}',
    "NUL": b'{"a":"\\u0000"}',
    "a raw control character": b'{"a":"\x01"}',
    "a raw line break": b'{"a":"\n"}',
    "U+2028": '{"a":"\u2028\u0085"}'.encode(),
    "not UTF-8": b'{"a":"\xff"}',
    "an overlong form": b'{"a":"\xc0\xaf"}',
    "an encoded surrogate": b'{"a":"\xed\xa0\x80"}',
    "a duplicate": b'{"a":1,"a":2}',
    "an escaped duplicate": b'{"a":1,"\\u0061":2}',
    "a message": b'{"a":{"jsonrpc":"2.0","id":1,"method":"x"}}',
    "a comment": b'{"a":1/**/}',
    "a trailing comma": b'{"a":1,}',
    "single quotes": b"{'a':1}",
    "true in Python": b'{"a":True}',
    "an open string": b'{"a":"x}',
    "a wrong escape": b'{"a":"\\x41"}',
    "a closing bracket": b'{"a":1]',
    "deep: 100": _nested(100),
    "deep: 600": _nested(600),
    "deep: 1,500": _nested(1500),
    "deep: 100,000": _nested(100_000),
    "an open array: 100,000": b"[" * 100_000,
    "wide": b'{"a":[%s0]}' % (b"0," * 10_000),
    "null": b"null",
    "a number": b"7",
    "a string": b'"x"',
    "true": b"true",
    "an array": b"[1,[2]]",
    "nothing": b"",
}

_REQUESTS: Final[dict[str, bytes]] = {
    "no params": b'{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@"}',
    "no jsonrpc": b'{"id":@ID@,"method":"@METHOD@","params":{}}',
    "jsonrpc 1.0": b'{"jsonrpc":"1.0","id":@ID@,"method":"@METHOD@","params":{}}',
    "jsonrpc as a number": b'{"jsonrpc":2.0,"id":@ID@,"method":"@METHOD@","params":{}}',
    "jsonrpc null": b'{"jsonrpc":null,"id":@ID@,"method":"@METHOD@","params":{}}',
    "id null": b'{"jsonrpc":"2.0","id":null,"method":"@METHOD@","params":{}}',
    "id true": b'{"jsonrpc":"2.0","id":true,"method":"@METHOD@","params":{}}',
    "id 1.5": b'{"jsonrpc":"2.0","id":1.5,"method":"@METHOD@","params":{}}',
    "id 1.0": b'{"jsonrpc":"2.0","id":1.0,"method":"@METHOD@","params":{}}',
    "id 1e2": b'{"jsonrpc":"2.0","id":1e2,"method":"@METHOD@","params":{}}',
    "id -1": b'{"jsonrpc":"2.0","id":-1,"method":"@METHOD@","params":{}}',
    "id 2**70": b'{"jsonrpc":"2.0","id":1180591620717411303424,"method":"@METHOD@","params":{}}',
    "id []": b'{"jsonrpc":"2.0","id":[],"method":"@METHOD@","params":{}}',
    "id {}": b'{"jsonrpc":"2.0","id":{},"method":"@METHOD@","params":{}}',
    "id NaN": b'{"jsonrpc":"2.0","id":NaN,"method":"@METHOD@","params":{}}',
    "id empty": b'{"jsonrpc":"2.0","id":"","method":"@METHOD@","params":{}}',
    "id long": b'{"jsonrpc":"2.0","id":"%s","method":"@METHOD@","params":{}}' % (b"x" * 2000),
    "id a lone surrogate": b'{"jsonrpc":"2.0","id":"\\ud83d","method":"@METHOD@","params":{}}',
    "two ids": b'{"jsonrpc":"2.0","id":@ID@,"id":@ID@,"method":"@METHOD@","params":{}}',
    "two other ids": b'{"jsonrpc":"2.0","id":1,"id":@ID@,"method":"@METHOD@","params":{}}',
    "an escaped id": b'{"jsonrpc":"2.0","\\u0069d":@ID@,"method":"@METHOD@","params":{}}',
    "an id and an escaped one": b'{"jsonrpc":"2.0","id":1,"\\u0069d":@ID@,"method":"@METHOD@","params":{}}',
    "escaped names": b'{"\\u006asonrpc":"2.0","i\\u0064":@ID@,"metho\\u0064":"@METHOD@","param\\u0073":{}}',
    "two methods": b'{"jsonrpc":"2.0","id":@ID@,"method":"x","method":"@METHOD@","params":{}}',
    "two params": b'{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{"a":1},"params":{"a":2}}',
    "method 5": b'{"jsonrpc":"2.0","id":@ID@,"method":5,"params":{}}',
    "method null": b'{"jsonrpc":"2.0","id":@ID@,"method":null,"params":{}}',
    "method []": b'{"jsonrpc":"2.0","id":@ID@,"method":[],"params":{}}',
    "method empty": b'{"jsonrpc":"2.0","id":@ID@,"method":"","params":{}}',
    "method long": b'{"jsonrpc":"2.0","id":@ID@,"method":"%s","params":{}}' % (b"x" * 5000),
    "method unknown": b'{"jsonrpc":"2.0","id":@ID@,"method":"unknown\\ud800","params":{}}',
    "a result": b'{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{},"result":1}',
    "an error": b'{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{},"error":{"code":1,"message":"x"}}',
    "companions": b'{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{},"result":null,"error":null}',
    "another member": b'{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{},"x":NaN}',
    "a notification": b'{"jsonrpc":"2.0","method":"@METHOD@","params":{"a":NaN}}',
    "a byte order mark": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{}}',
    "UTF-16": '{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{}}'.encode("utf-16"),
    "spaces": b' \t\r{ "jsonrpc" : "2.0" , "id" : @ID@ , "method" : "@METHOD@" , "params" : { } } \t',
    "cut in the params": b'{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{"a":[1,',
    "cut in the method": b'{"jsonrpc":"2.0","id":@ID@,"method":"@METH',
    "cut in the id": b'{"jsonrpc":"2.0","id":',
    "a rest": b'{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{}}}',
    "another text": b'{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{}} {"jsonrpc":"2.0"}',
    "a batch": b'[{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{}}]',
    "a mixed batch": b'[{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":{}},5,{"jsonrpc":"2.0","method":"x"}]',
    "a batch with NaN": b'[{"jsonrpc":"2.0","id":@ID@,"method":"@METHOD@","params":[NaN]}]',
    "an empty batch": b"[]",
    "an empty object": b"{}",
    "a scalar": b"5",
    "a text": b'"x"',
    "null alone": b"null",
    "NaN alone": b"NaN",
    "nothing at all": b"",
    "a blank": b" ",
    "a word": b"GET / HTTP/1.1",
    "NUL bytes": b"\x00\x00\x00",
    **{f"params: {name}": _MESSAGE.replace(b"@PARAMS@", payload) for name, payload in _PAYLOADS.items()},
}
"""Texts of requests, in which @ID@ and @METHOD@ are replaced by an id and a method that the library knows."""

_RESPONSES: Final[dict[str, bytes]] = {
    "no result": b'{"jsonrpc":"2.0","id":@ID@}',
    "no id": b'{"jsonrpc":"2.0","result":1}',
    "no jsonrpc": b'{"id":@ID@,"result":1}',
    "jsonrpc 1.0": b'{"jsonrpc":"1.0","id":@ID@,"result":1,"error":null}',
    "id null": b'{"jsonrpc":"2.0","id":null,"result":1}',
    "another id": b'{"jsonrpc":"2.0","id":"another","result":1}',
    "two ids": b'{"jsonrpc":"2.0","id":@ID@,"id":@ID@,"result":1}',
    "an escaped id": b'{"jsonrpc":"2.0","\\u0069d":@ID@,"result":1}',
    "two results": b'{"jsonrpc":"2.0","id":@ID@,"result":1,"result":{"a":2}}',
    "companion": b'{"jsonrpc":"2.0","id":@ID@,"result":{"a":1},"error":null}',
    "both": b'{"jsonrpc":"2.0","id":@ID@,"result":1,"error":{"code":1,"message":"x"}}',
    "a byte order mark": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":@ID@,"result":1}',
    "a batch": b'[{"jsonrpc":"2.0","id":@ID@,"result":1}]',
    "a result first": b'{"result":{"a":NaN},"id":@ID@,"jsonrpc":"2.0"}',
    "an error with null as id": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}',
    "an error without id": b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}',
    "error null": b'{"jsonrpc":"2.0","id":@ID@,"error":null}',
    "error a string": b'{"jsonrpc":"2.0","id":@ID@,"error":"x"}',
    "error empty": b'{"jsonrpc":"2.0","id":@ID@,"error":{}}',
    "code a string": b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":"5","message":"x"}}',
    "code 1.5": b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":1.5,"message":"x"}}',
    "code true": b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":true,"message":"x"}}',
    "no message": b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":1}}',
    "message null": b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":1,"message":null}}',
    "message a lone surrogate": b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":1,"message":"\\ud800"}}',
    "data": b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":1,"message":"x","data":{"a":NaN}}}',
    "cut": b'{"jsonrpc":"2.0","id":@ID@,"result":[1,',
    "a rest": b'{"jsonrpc":"2.0","id":@ID@,"result":1}}',
    "an empty object": b"{}",
    "an empty batch": b"[]",
    "a scalar": b"5",
    "nothing at all": b"",
    **{f"result: {name}": _RESPONSE.replace(b"@PARAMS@", payload) for name, payload in _PAYLOADS.items()},
    **{f"error: {name}": _ERROR.replace(b"@PARAMS@", payload) for name, payload in list(_PAYLOADS.items())[:20]},
}
"""Texts of responses, in which @ID@ is replaced by the id of the call."""


def _filled(text: bytes, id: bytes, method: bytes) -> bytes:
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        filled = text.decode("utf-16").replace("@ID@", id.decode()).replace("@METHOD@", method.decode())
        return filled.encode("utf-16")
    return text.replace(b"@ID@", id).replace(b"@METHOD@", method)


def requests(id: bytes, method: bytes, mutations: int = 0) -> dict[str, bytes]:
    """Return texts of requests by their names.

    Args:
        id: The JSON of the id.
        method: The method, without quotes.
        mutations: How many mutated texts are added.
    """
    return _with_mutations({name: _filled(text, id, method) for name, text in _REQUESTS.items()}, mutations)


def responses(id: bytes, mutations: int = 0) -> dict[str, bytes]:
    """Return texts of responses to the call with an id, as `requests` does."""
    return _with_mutations({name: _filled(text, id, b"") for name, text in _RESPONSES.items()}, mutations)


def _with_mutations(texts: dict[str, bytes], count: int) -> dict[str, bytes]:
    rng = random.Random(count)
    short = [text for text in texts.values() if 20 < len(text) < 200]
    return {**texts, **{f"mutation {number}": mutated(rng, rng.choice(short)) for number in range(count)}}


class Plain(enum.Enum):
    A = "a"


class Name(str, enum.Enum):  # noqa: UP042  # the pair of classes is what is tested
    A = "a"


Pair = namedtuple("Pair", "one two")  # noqa: PYI024

_recursive: list[Any] = []
_recursive.append(_recursive)


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES: Final[dict[str, Any]] = {
    "NaN": math.nan,
    "NaN and null": [math.nan, None, "null"],
    "infinities": {"a": math.inf, "b": [-math.inf]},
    "2**70": 2**70,
    "2**70 and NaN": {"a": 2**70, "b": math.nan},
    "-2**63 - 1": -(2**63) - 1,
    "a lone surrogate": "\ud83d",
    "a lone surrogate in a key": {"\ud83d": 1},
    "a lone surrogate and NaN": ["\ud83d", math.nan],
    "a pair": "\U0001f600",
    "control characters": "\x00\x1f\x7f\u2028",
    "integers as keys": {1: 2},
    "other keys": {None: 1, True: 2, 1.5: 3},
    "a NaN as a key": {math.nan: 1},
    "a tuple as a key": {(1, 2): 3},
    "a tuple": (1, (2,)),
    "a named tuple": Pair(1, 2),
    "an ordered dict": OrderedDict(a=1),
    "an enum": [Plain.A],
    "an enum that is a string": {"a": Name.A},
    "a set": {1},
    "bytes": b"x",
    "a date": datetime.date(2000, 1, 1),
    "an object": object(),
    "a complex number": 1j,
    "itself": _recursive,
    "deep: 100": _deep(100),
    "deep: 300": _deep(300),
    "deep: 600": _deep(600),
    "small numbers": [1e-5, 1e-7, 5e-324, 1.7976931348623157e308, -0.0],
    "names": {"jsonrpc": "1.0", "id": 5, "method": "x"},
    "a message": {"jsonrpc": "2.0", "id": 5, "method": "x"},
    "empty": {},
    "null": None,
}
"""Values to write, most of which JSON cannot represent."""
