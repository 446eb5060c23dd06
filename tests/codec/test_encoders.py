"""The encoders of a profile, and the form of the peer."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import codec
from jsonrpc_fast.codec import Error, Notification, Request, Response
from jsonrpc_fast.codec.encoders import PLAIN, Encoders, explained, has_jsonrpc
from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, LSP

from ..support.tables import rows

UNVERSIONED = JSONRPC.replace(writes="unversioned", optional_jsonrpc=True)
NAMES = ("encode", "encode_request", "encode_notification", "encode_result", "encode_error")


def test_a_usual_profile_has_the_functions_of_the_codec() -> None:
    for encoders in (PLAIN, Encoders(LSP), Encoders(JSONRPC.replace(optional_jsonrpc=True))):
        assert [getattr(encoders, name) for name in NAMES] == [getattr(codec, name) for name in NAMES]
        assert encoders.listener() is None
        assert encoders.default_of(None) is None


@rows(
    ("name", "members", "message"),
    [
        ("encode_request", (1, "m", [1]), Request(1, "m", [1])),
        ("encode_request", (1, "m"), Request(1, "m")),
        ("encode_notification", ("m", {"a": 1}), Notification("m", {"a": 1})),
        ("encode_result", (1, None), Response(1, None)),
        ("encode_error", (1, 2, "e", 3), Response(1, error=Error(2, "e", 3))),
    ],
)
def test_each_function(name: str, members: Any, message: Any) -> None:
    for profile in (JSONRPC_1, UNVERSIONED, JSONRPC.replace(floats="decimal")):
        encoders = Encoders(profile)
        expected = codec.encode(message, profile)
        assert getattr(encoders, name)(*members) == encoders.encode(message) == expected
        assert getattr(encoders, name)(*members, delimited=False) == expected[:-1]


def test_decimals_and_default() -> None:
    encoders = Encoders(JSONRPC_1.replace(floats="decimal"))
    expected = b'{"id":1,"result":[1.10,"1j"],"error":null}\n'
    assert encoders.encode_result(1, [Decimal("1.10"), 1j], default=str) == expected


@rows(
    ("text", "expected"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"m"}', True),
        ('{"id":1,"method":"m","params":{"jsonrpc":"2.0"},"jsonrpc":"2.0"}', True),
        ('{"id":1,"method":"m","\\u006as\\u006Fnrpc" : "2.0"}', True),
        ('{"id":1,"\\"":"\\\\","\\\\":"","jsonrpc":"2.0"}', True),
        ('[{"id":1,"method":"m","params":[[],{}],"jsonrpc":"2.0"}]', True),
        ('[[{}],{"id":1,"method":"m"},7,{"id":1,"jsonrpc":"2.0"}]', True),
        ('{"id":1,"method":"m"}', False),
        ('{"id":1,"method":"m","params":[{"jsonrpc":"2.0"}],"error":{"jsonrpc":"2.0"}}', False),
        ('{"id":"jsonrpc","method":"\\"jsonrpc\\":","params":["jsonrpc"]}', False),
        ('{"\\\\u006asonrpc":1,"xjsonrpc":1,"jsonrpc2":1,"Jsonrpc":1}', None),
        ('[[{"jsonrpc":"2.0"}],"jsonrpc"]', None),
        ('"jsonrpc"', None),
        # What is not a message.
        ('{"jsonrpc":"1.0","id":1,"method":"m"}', True),
        ('{"jsonrpc":null}', True),
        ('{"jsonrpc":"2.0","jsonrpc":"2.0"}', True),
        ('{"id":1,"method":"m","jsonrpc":"2.0",', True),
        ('\n[ {"id":1,"params":[1,]}, {"jsonrpc":', True),
        ('{"id":"\ud800","jsonrpc":"2.0"}', True),
        ('{"id":"\\', False),
        ('{"id":"jsonrpc', False),
        ('{"method":"m","params":{"a":[{"jsonrpc":', False),
        ("[]", None),
        ("x", None),
        ("", None),
    ],
)
def test_whether_a_text_has_jsonrpc(text: str, expected: bool | None) -> None:
    data = text.encode(errors="replace")
    for form in (text, data, bytearray(data), memoryview(data)):
        assert has_jsonrpc(form) is expected


@given(
    st.lists(
        st.recursive(
            st.sampled_from([1, "jsonrpc", "", '"', "\\", "]", "}", '"jsonrpc":']),
            lambda inner: (
                st.lists(inner) | st.dictionaries(st.sampled_from(["jsonrpc", "a", "", '"', "{", "["]), inner)
            ),
            max_leaves=6,
        ),
        max_size=3,
    ),
    st.booleans(),
    st.booleans(),
)
def test_every_json_text_is_looked_at_as_by_the_json_module(
    values: list[Any], is_batch: bool, has_escapes: bool
) -> None:
    value = values if is_batch or not values else values[0]
    text = json.dumps(value)
    if has_escapes:
        text = text.replace("rpc", "r\\u0070c")
    items = value if isinstance(value, list) else [value]
    assert bool(has_jsonrpc(text)) is any(isinstance(item, dict) and "jsonrpc" in item for item in items)


@rows(
    ("first", "form"),
    [
        (b'{"id":1,"method":"m"}', "1.0"),
        (b'{"jsonrpc":"2.0","id":1,"method":"m"}', "2.0"),
        (b'{"jsonrpc":"2.0","id":1,', "2.0"),
    ],
)
def test_the_first_text_settles_the_form(first: bytes, form: str) -> None:
    encoders = Encoders(JSONRPC_1)
    listen = encoders.listener()
    assert listen is not None
    written = {"1.0": b'{"id":1,"result":2,"error":null}\n', "2.0": b'{"jsonrpc":"2.0","id":1,"result":2}\n'}
    assert encoders.encode_result(1, 2) == written["1.0"]
    for text in (b"log", b'{"level":"info"}', b"[]"):
        listen(text)
        assert encoders.encode_result(1, 2) == written["1.0"]
    for text in (first, b'{"jsonrpc":"2.0","id":1,"method":"m"}', b'{"id":1,"method":"m"}'):
        listen(text)
        assert encoders.encode_result(1, 2) == written[form]


BAD = object()


@rows(
    ("params", "place"),
    [
        ([1, BAD], "/1"),
        ({"a": {"~": {"/": [0, (1, BAD)]}}}, "/a/~0/~1/1/1"),
        ({"a": {(): 1}}, "/a"),
        ({(): 1}, "the params"),
        (BAD, "the params"),
        ([*range(2000), BAD], "the params"),
    ],
)
def test_the_place_of_a_value_that_cannot_be_written(params: Any, place: str) -> None:
    assert str(explained(EncodeError("why"), "m", params)) == f"why: {place} of m"


def test_an_id_that_cannot_be_written_is_named() -> None:
    with pytest.raises(EncodeError, match=r": the id$"):
        PLAIN.encode_call("m", [1], "\ud800")


def test_a_default_is_asked_again() -> None:
    def default(value: object) -> Any:
        raise ValueError("secret")

    for write in (
        lambda: PLAIN.encode_call("m", [BAD], 1, delimited=False, default=default),
        lambda: PLAIN.encode_call("m", [BAD], delimited=False, default=default),
    ):
        with pytest.raises(EncodeError, match=r": /0 of m$") as caught:
            write()
        assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.ci
def test_deep_params() -> None:
    params: Any = []
    for _ in range(5000):
        params = [params]
    with pytest.raises(EncodeError, match=r" of m$"):
        PLAIN.encode_call("m", params, 1, delimited=False)


def test_calls() -> None:
    assert PLAIN.encode_call("m", [1], 1, delimited=True) == b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}\n'
    assert PLAIN.encode_call("m", None, delimited=False) == b'{"jsonrpc":"2.0","method":"m"}'
