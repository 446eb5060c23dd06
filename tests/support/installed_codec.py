"""Code for interpreters in which only the codec is installed: it uses everything that must work there."""

from __future__ import annotations

from typing import Final

USE: Final = """
import jsonrpc_fast.codec._backend as backend
from jsonrpc_fast import EncodeError, Error, ParseError, Raw, Request, Response, decode, encode, encode_result

for number in range(rounds):
    text = b'{"jsonrpc":"2.0","id":%d,"method":"m%d","params":{"a%d":[1,"b"]}}' % (number, number, number)
    message = decode(text)
    assert message == Request(number, f"m{number}", {f"a{number}": [1, "b"]})
    assert encode(message, delimited=False) == text
    assert encode(decode(text, raw=True), delimited=False) == text
    fault = decode(text[:-1] + b",]")
    assert type(fault) is ParseError and fault.rpc_code == -32700
    response = Response(number, error=Error(-1, "no", {"name": number}))
    assert decode(encode(response)) == response
assert encode_result(1, {"b": 2, "a": [1.5]}, option=32, delimited=False) == (
    b'{"jsonrpc":"2.0","id":1,"result":{"a":[1.5],"b":2}}'
)
assert encode_result(1, {1, 2}, default=sorted, delimited=False) == b'{"jsonrpc":"2.0","id":1,"result":[1,2]}'
assert encode_result(1, Raw(b"[0]"), delimited=False) == b'{"jsonrpc":"2.0","id":1,"result":[0]}'
for option in (0, 32):
    try:
        encode_result(1, {"a": object()}, option=option)
    except EncodeError as error:
        assert str(error) == "Type is not JSON serializable: object"
        assert error.__cause__ is None
    else:
        raise AssertionError
"""
"""The code needs the variable `rounds`, and defines `backend`, the backend's module."""
