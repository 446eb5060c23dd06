"""Payloads that orjson writes together with the envelope, and callbacks that call the codec again."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast.errors import EncodeError

from ..support.oracle import orjson
from ..support.tables import rows
from .test_encode import Code, calls, nested

LARGE: list[Any] = [
    "v" * 5000,
    "é\n" * 3000,
    list(range(500)),
    {f"k{number}": [number, None, 1.5] for number in range(300)},
    {"a": {"b": ["v" * 3000]}},
    [nested(253), "v" * 3000],
]
WRITTEN_IDS: list[tuple[Any, bytes]] = [
    (7, b"7"),
    (-(2**63), b"-9223372036854775808"),
    (2**64, b"18446744073709551616"),
    (10**40, b"1" + 40 * b"0"),
    ("a", b'"a"'),
    ('é"\n', '"é\\"\\n"'.encode()),
    ("i" * 640, b'"' + 640 * b"i" + b'"'),
    (1.5, b"1.5"),
    (None, b"null"),
    (Code.OWN, b"42"),
]


def kept(text: str) -> tuple[str, bytes]:
    """Return two equal strings as one: what orjson has written keeps its UTF-8, and a new one has none."""
    return (text + "x")[:-1], orjson.dumps(text)


def test_strings_with_and_without_their_utf_8(impl: ModuleType) -> None:
    for character in ("\xe9", "\u0416", "\u4e2d", "\U0001f600"):
        for length in (*range(20), 31, 32, 33, 63, 64, 65, 4095, 4096):
            for before, after in (("", ""), ("x", '"'), ("\\\n", "xyz"), ("x" * 9, "\x7f" * 9)):
                text = before + character * length + after
                new, written = kept(text)
                expected = b'{"jsonrpc":"2.0","id":1,"result":[%b,%b]}\n' % (written, written)
                assert impl.encode_result(1, [new, text]) == expected


def test_an_escape_at_every_place_of_a_long_string(impl: ModuleType) -> None:
    for size in (4095, 4096, 4097, 4200):
        for place in [0, 1, 63, 64, 4032, *range(size - 140, size)]:
            for character in ('"', "\\", "\n", "\x1f", " ", "!", "#", "\x7f"):
                text = "x" * place + character + "x" * (size - place - 1)
                assert impl.encode_result(1, text) == b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % orjson.dumps(text)


class TestLargePayloads:
    @rows("payload", LARGE, ids=lambda payload: type(payload).__name__)
    @rows(("id", "written"), WRITTEN_IDS, ids=lambda value: repr(value)[:10])
    def test_wire(self, impl: ModuleType, payload: Any, id: Any, written: bytes) -> None:
        text = orjson.dumps(payload)
        expected = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (written, text)
        assert impl.encode_result(id, payload) == expected + b"\n"
        assert impl.encode_result(id, payload, delimited=False) == expected
        assert impl.encode([impl.Response(id, payload)]) == b"[" + expected + b"]\n"
        expected = b'{"jsonrpc":"2.0","id":%b,"error":{"code":1,"message":"m","data":%b}}\n' % (written, text)
        assert impl.encode_error(id, 1, "m", payload) == expected
        params, text = ([payload], b"[" + text + b"]") if isinstance(payload, str) else (payload, text)
        expected = b'{"jsonrpc":"2.0","id":%b,"method":"\\t\xc3\xa9","params":%b}\n' % (written, text)
        assert impl.encode_request(id, "\té", params) == expected
        expected = b'{"jsonrpc":"2.0","method":"\\t\xc3\xa9","params":%b}\n' % text
        assert impl.encode_notification("\té", params) == expected

    @rows("payload", LARGE, ids=lambda payload: type(payload).__name__)
    def test_values_that_cannot_be_written(self, impl: ModuleType, payload: Any) -> None:
        for value in ({1}, "\ud800", 2**64, {1: 2}):
            for call in calls(impl, [payload, value]):
                with pytest.raises(EncodeError) as caught:
                    call()
                assert caught.value.__cause__ is None

    @rows("payload", LARGE, ids=lambda payload: type(payload).__name__)
    def test_wrong_arguments(self, impl: ModuleType, payload: Any) -> None:
        with pytest.raises(TypeError, match=r"^id must be an int, a str, a float or None, not bool$"):
            impl.encode_result(True, payload)
        with pytest.raises(TypeError, match=r"^id must be an int, a str, a float or None, not bytes$"):
            impl.encode_request(b"1", "m", [payload])
        with pytest.raises(ValueError, match=r"^id must be a finite number$"):
            impl.encode_result(float("nan"), payload)
        with pytest.raises(TypeError, match=r"^method must be a str, not NoneType$"):
            impl.encode_notification(None, [payload])
        with pytest.raises(EncodeError):
            impl.encode_request(1, "\ud800", [payload])

    def test_options(self, impl: ModuleType) -> None:
        payload = {str(number): {number: 1} for number in reversed(range(300))}
        option = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
        expected = orjson.dumps(payload, option=option)
        for call in calls(impl, payload, option=option):
            assert expected in call()
        for call in calls(impl, payload, default=lambda _: None, option=option):
            assert expected in call()


class TestCallbacks:
    def test_a_default_may_encode_and_decode(self, impl: ModuleType) -> None:
        def default(value: object) -> object:
            batch = impl.decode(impl.encode([impl.Request(1, "m", [n]) for n in range(20)]))
            return [len(batch), impl.encode_many(batch).count(b"\n"), 300 * "x"]

        expected = orjson.dumps([20, 20, 300 * "x"])
        for call in calls(impl, {"a": object()}, default=default):
            assert b'{"a":' + expected + b"}" in call()

    def test_a_batch_that_changes_while_it_is_written(self, impl: ModuleType) -> None:
        def default(value: object) -> object:
            batch.clear()
            return "x" * 1000

        batch = [impl.Response(number, object()) for number in range(100)]
        assert impl.decode(impl.encode(batch, default=default)) == [impl.Response(0, "x" * 1000)]
        batch = [impl.Response(number, object()) for number in range(100)]
        assert impl.encode_many(batch, default=default).count(b"\n") == 1
