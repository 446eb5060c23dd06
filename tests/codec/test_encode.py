"""Messages to bytes, byte for byte."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import sys
import uuid
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast.codes import ErrorCode, McpErrorCode
from jsonrpc_fast.errors import EncodeError, RpcError
from jsonrpc_fast.profile import CLIENT, JSONRPC
from jsonrpc_fast.types import UNSET

from ..support.describe import describe, fault
from ..support.oracle import orjson
from ..support.tables import rows

DEEPEST = 1500 if sys.platform == "emscripten" else 100_000  # Pyodide crashes where it frees deeper tuples

REQUESTS = [
    ((1, "m"), b'{"jsonrpc":"2.0","id":1,"method":"m"}'),
    ((1, "m", None), b'{"jsonrpc":"2.0","id":1,"method":"m"}'),
    ((1, "m", {}), b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}'),
    ((1, "m", []), b'{"jsonrpc":"2.0","id":1,"method":"m","params":[]}'),
    (("a", "m", [1, "x", None, True, 1.5]), b'{"jsonrpc":"2.0","id":"a","method":"m","params":[1,"x",null,true,1.5]}'),
    ((None, "", {"b": 1, "a": 2}), b'{"jsonrpc":"2.0","id":null,"method":"","params":{"b":1,"a":2}}'),
    ((1.5, "rpc.x"), b'{"jsonrpc":"2.0","id":1.5,"method":"rpc.x"}'),
    ((-0.0, "m"), b'{"jsonrpc":"2.0","id":-0.0,"method":"m"}'),
    (("", "m"), b'{"jsonrpc":"2.0","id":"","method":"m"}'),
    (('"\\\n\x00\x7f/', "m"), b'{"jsonrpc":"2.0","id":"\\"\\\\\\n\\u0000\x7f/","method":"m"}'),
    (("é€😀", 'a"\t'), '{"jsonrpc":"2.0","id":"é€😀","method":"a\\"\\t"}'.encode()),
    ((1, "é\u2028"), '{"jsonrpc":"2.0","id":1,"method":"é\u2028"}'.encode()),
    ((1, "m" * 100), b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % (100 * b"m")),
    ((1, "1234567\\"), b'{"jsonrpc":"2.0","id":1,"method":"1234567\\\\"}'),
    ((1, "12345678\x1f"), b'{"jsonrpc":"2.0","id":1,"method":"12345678\\u001f"}'),
    (
        (1, "m", ["\u0085\u2028\u2029\r\n"]),
        '{"jsonrpc":"2.0","id":1,"method":"m","params":["\u0085\u2028\u2029\\r\\n"]}'.encode(),
    ),
    ((1, "m", (1, 2)), b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1,2]}'),
    ((1, "m", [float("nan"), float("inf")]), b'{"jsonrpc":"2.0","id":1,"method":"m","params":[null,null]}'),
]
INTEGERS = [
    *(0, 1, -1, 9, 10, -10, 2**31, 2**53 + 1, 10**18, 2**63 - 1, 2**63, 2**64 - 1, 2**64),
    *(-(2**63), -(2**63) - 1, -(2**63) + 1, 10**19, -(10**19), 10**40, 10**640 - 1, 1 - 10**639),
]


class Code(enum.IntEnum):
    OWN = 42


@dataclasses.dataclass
class Point:
    x: int
    y: int


ERRORS = [
    ((1, -32601, "Method not found"), b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}'),
    ((None, 0, ""), b'{"jsonrpc":"2.0","id":null,"error":{"code":0,"message":""}}'),
    (("x", 1, "é\n", UNSET), '{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"é\\n"}}'.encode()),
    ((1, 1, "m", None), b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":null}}'),
    ((1, 1, "m", 0), b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":0}}'),
    ((1, 1, "m", ""), b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":""}}'),
    ((1, 1, "m", False), b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":false}}'),
    ((1, 1, "m", {"a": []}), b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"a":[]}}}'),
    ((1.5, Code.OWN, "m"), b'{"jsonrpc":"2.0","id":1.5,"error":{"code":42,"message":"m"}}'),
    ((1, ErrorCode.PARSE_ERROR, "m"), b'{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"m"}}'),
    ((1, McpErrorCode.RESOURCE_NOT_FOUND, "m"), b'{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m"}}'),
]


@rows(("arguments", "expected"), REQUESTS)
def test_requests(impl: ModuleType, arguments: tuple[Any, ...], expected: bytes) -> None:
    assert impl.encode_request(*arguments) == expected + b"\n"
    assert impl.encode_request(*arguments, delimited=False) == expected
    if not isinstance(arguments[-1], tuple):
        message = impl.Request(*arguments)
        assert impl.encode(message) == expected + b"\n"
        assert impl.encode(message, delimited=False) == message.to_bytes() == expected


@rows(("arguments", "whole"), REQUESTS)
def test_notifications(impl: ModuleType, arguments: tuple[Any, ...], whole: bytes) -> None:
    _, *arguments_left = arguments
    expected = b'{"jsonrpc":"2.0",' + whole[whole.index(b'"method"') :]
    assert impl.encode_notification(*arguments_left) == expected + b"\n"
    assert impl.encode_notification(*arguments_left, delimited=False) == expected
    if not isinstance(arguments[-1], tuple):
        message = impl.Notification(*arguments_left)
        assert impl.encode(message) == expected + b"\n"
        assert impl.encode(message, delimited=False) == message.to_bytes() == expected


@rows(
    ("id", "result", "expected"),
    [
        (1, None, b'{"jsonrpc":"2.0","id":1,"result":null}'),
        ("a", {}, b'{"jsonrpc":"2.0","id":"a","result":{}}'),
        (None, [], b'{"jsonrpc":"2.0","id":null,"result":[]}'),
        (1.5, "é", '{"jsonrpc":"2.0","id":1.5,"result":"é"}'.encode()),
        (0, 0, b'{"jsonrpc":"2.0","id":0,"result":0}'),
        (-1, False, b'{"jsonrpc":"2.0","id":-1,"result":false}'),
        (1, float("nan"), b'{"jsonrpc":"2.0","id":1,"result":null}'),
        (1, 2**64 - 1, b'{"jsonrpc":"2.0","id":1,"result":18446744073709551615}'),
        (1, 10**4299, b'{"jsonrpc":"2.0","id":1,"result":1%b}' % (4299 * b"0")),
        (1, {"a": {"b": [1.0]}}, b'{"jsonrpc":"2.0","id":1,"result":{"a":{"b":[1.0]}}}'),
        (1, "a\nb", b'{"jsonrpc":"2.0","id":1,"result":"a\\nb"}'),
        (1, Point(1, 2), b'{"jsonrpc":"2.0","id":1,"result":{"x":1,"y":2}}'),
        (1, uuid.UUID(int=1), b'{"jsonrpc":"2.0","id":1,"result":"00000000-0000-0000-0000-000000000001"}'),
        (1, datetime.date(2026, 11, 21), b'{"jsonrpc":"2.0","id":1,"result":"2026-11-21"}'),
    ],
)
def test_results(impl: ModuleType, id: Any, result: Any, expected: bytes) -> None:
    assert impl.encode_result(id, result) == expected + b"\n"
    assert impl.encode_result(id, result, delimited=False) == expected
    message = impl.Response(id, result)
    assert impl.encode(message) == expected + b"\n"
    assert impl.encode(message, delimited=False) == message.to_bytes() == expected


@rows(("arguments", "expected"), ERRORS)
def test_errors(impl: ModuleType, arguments: tuple[Any, ...], expected: bytes) -> None:
    assert impl.encode_error(*arguments) == expected + b"\n"
    assert impl.encode_error(*arguments, delimited=False) == expected
    id, *rest = arguments
    message = impl.Response(id, error=impl.Error(*rest))
    assert impl.encode(message) == expected + b"\n"
    assert impl.encode(message, delimited=False) == message.to_bytes() == expected


@rows("number", INTEGERS, ids=lambda number: f"{number.bit_length()} bits")
def test_integers_of_any_width(impl: ModuleType, number: int) -> None:
    digits = b"%d" % number
    assert impl.encode_request(number, "m") == b'{"jsonrpc":"2.0","id":%b,"method":"m"}\n' % digits
    assert impl.encode_result(number, 1) == b'{"jsonrpc":"2.0","id":%b,"result":1}\n' % digits
    assert impl.encode_error(number, 1, "m") == (
        b'{"jsonrpc":"2.0","id":%b,"error":{"code":1,"message":"m"}}\n' % digits
    )


@rows("code", [-(2**63), 1 - 2**63, -1, 0, 2**63 - 1, 2**63, 2**64 - 1])
def test_codes_of_64_bits(impl: ModuleType, code: int) -> None:
    expected = b'{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"m"}}' % code
    assert impl.encode_error(1, code, "m", delimited=False) == expected
    assert impl.Response(1, error=impl.Error(code, "m")).to_bytes() == expected
    assert impl.decode(expected) == impl.Response(1, error=impl.Error(code, "m"))
    assert RpcError(code, "m").code == code


def test_subclasses_of_ids(impl: ModuleType) -> None:
    class Text(str):
        __slots__ = ()

    assert impl.encode_result(Code.OWN, 1) == b'{"jsonrpc":"2.0","id":42,"result":1}\n'
    assert impl.encode_request(Text("i"), Text("m")) == b'{"jsonrpc":"2.0","id":"i","method":"m"}\n'
    assert impl.encode_request(Text("é"), Text("\n")) == '{"jsonrpc":"2.0","id":"é","method":"\\n"}\n'.encode()


def calls(impl: ModuleType, payload: Any, **options: Any) -> list[Callable[[], bytes]]:
    """Every way to write a payload."""
    params = payload if isinstance(payload, (dict, list)) else [payload]
    return [
        lambda: impl.encode_request(1, "m", params, **options),
        lambda: impl.encode_notification("m", params, **options),
        lambda: impl.encode_result(1, payload, **options),
        lambda: impl.encode_error(1, 2, "m", payload, **options),
        lambda: impl.encode(impl.Request(1, "m", params), **options),
        lambda: impl.encode(impl.Notification("m", params), **options),
        lambda: impl.encode(impl.Response(1, payload), **options),
        lambda: impl.encode(impl.Response(1, error=impl.Error(2, "m", payload)), **options),
        lambda: impl.encode([impl.Response(1, 1), impl.Request(1, "m", params)], **options),
    ]


class TestOptions:
    def test_keys_and_order(self, impl: ModuleType) -> None:
        payload = {"b": {3: 1, 2: 2}, "a": 0}
        option = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS
        for call in calls(impl, payload, option=option):
            assert b'{"a":0,"b":{"2":2,"3":1}}' in call()
        assert impl.encode_request(1, "m", payload, option=option) == (
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":0,"b":{"2":2,"3":1}}}\n'
        )

    def test_other_options(self, impl: ModuleType) -> None:
        moment = datetime.datetime(2026, 11, 21, 1, 2, 3, 4, tzinfo=datetime.UTC)
        for call in calls(impl, moment, option=orjson.OPT_OMIT_MICROSECONDS | orjson.OPT_UTC_Z):
            assert b'"2026-11-21T01:02:03Z"' in call()

    @rows("option", [orjson.OPT_STRICT_INTEGER, orjson.OPT_PASSTHROUGH_SUBCLASS])
    def test_options_affect_only_payloads(self, impl: ModuleType, option: int) -> None:
        assert impl.encode_request(2**60, "m", [1], option=option) == (
            b'{"jsonrpc":"2.0","id":1152921504606846976,"method":"m","params":[1]}\n'
        )

    @rows("option", [orjson.OPT_INDENT_2, orjson.OPT_APPEND_NEWLINE])
    @rows("more", [0, orjson.OPT_SORT_KEYS])
    def test_options_that_break_lines(self, impl: ModuleType, option: int, more: int) -> None:
        for call in calls(impl, [1], option=option | more):
            with pytest.raises(ValueError, match=r"^OPT_INDENT_2 and OPT_APPEND_NEWLINE would break the framing$"):
                call()

    @rows("option", [2**32, 2**40, 2**64, -(2**40)])
    def test_options_that_are_none(self, impl: ModuleType, option: int) -> None:
        for write in (
            partial(impl.encode_result, 1, {"a": 1}),
            partial(impl.encode_dict, {"id": 1, "result": {}}, CLIENT),
        ):
            with pytest.raises(ValueError, match=r"orjson's constants OPT_|would break the framing"):
                write(option=option)

    @rows("option", [orjson.OPT_INDENT_2, orjson.OPT_APPEND_NEWLINE])
    def test_options_that_break_lines_without_a_payload(self, impl: ModuleType, option: int) -> None:
        for call in (
            lambda: impl.encode_request(1, "m", option=option),
            lambda: impl.encode_notification("m", option=option),
            lambda: impl.encode_error(1, 2, "m", option=option),
            lambda: impl.encode(impl.Request(1, "m"), option=option),
        ):
            with pytest.raises(ValueError, match=r"^OPT_INDENT_2 and OPT_APPEND_NEWLINE would break the framing$"):
                call()

    def test_default(self, impl: ModuleType) -> None:
        def default(value: object) -> object:
            if isinstance(value, set):
                return sorted(value)
            raise TypeError

        for call in calls(impl, {"a": {2, 1}}, default=default):
            assert b'{"a":[1,2]}' in call()
        assert impl.encode_request(1, "m", {2, 1}, default=default) == (
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1,2]}\n'
        )

    def test_default_with_options(self, impl: ModuleType) -> None:
        for call in calls(impl, {"a": {1}}, default=lambda _: {2: 3}, option=orjson.OPT_NON_STR_KEYS):
            assert b'{"a":{"2":3}}' in call()

    def test_keyword_only_arguments(self, impl: ModuleType) -> None:
        with pytest.raises(TypeError):
            impl.encode(impl.Request(1, "m"), False)
        with pytest.raises(TypeError):
            impl.encode_request(1, "m", None, False)
        with pytest.raises(TypeError):
            impl.encode_notification("m", None, False)
        with pytest.raises(TypeError):
            impl.encode_result(1, 1, False)
        with pytest.raises(TypeError):
            impl.encode_error(1, 1, "m", None, False)


class Members(dict[str, Any]):
    pass


class Items(list[Any]):
    pass


@dataclasses.dataclass
class Box:
    item: Any
    _inner: Any = None


@dataclasses.dataclass(slots=True)
class SlottedBox:
    item: Any


class Left:
    """What orjson leaves to `default`."""

    def __init__(self, value: Any) -> None:
        self.value = value


def repeated(around: Callable[[Any], Any], times: int, value: Any) -> Any:
    for _ in range(times):
        value = around(value)
    return value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


class TestValuesThatCannotBeWritten:
    @rows(
        "payload",
        [{1, 2}, object(), b"bytes", 1j, {1: 2}, ["\ud800"], {"\udfff": 1}, 10**4300, [{"a": [-(10**4300)]}]],
        ids=lambda payload: type(payload).__name__,
    )
    @rows("option", [0, orjson.OPT_SORT_KEYS])
    def test_payloads(self, impl: ModuleType, payload: Any, option: int) -> None:
        for call in calls(impl, payload, option=option):
            with pytest.raises(EncodeError) as caught:
                call()
            assert caught.value.__cause__ is None

    @rows("around", [lambda value: value, lambda value: {"a": [value]}])
    def test_a_slot_without_a_value(self, impl: ModuleType, around: Callable[[Any], Any]) -> None:
        box = SlottedBox(1)
        del box.item
        for call in calls(impl, around(box)):
            with pytest.raises(EncodeError, match=r"^a field of SlottedBox has no value$"):
                call()

    def test_an_encode_error_is_a_type_error(self) -> None:
        assert EncodeError.__bases__ == (TypeError,)

    def test_depth(self, impl: ModuleType) -> None:
        for call in calls(impl, nested(254)):
            assert call().count(b"[") in (254, 255)
        for call in calls(impl, nested(255)):
            with pytest.raises(EncodeError):
                call()

    @rows("innermost", [(), (1,), [], {}, {"a": 1}], ids=repr)
    @rows("option", [0, orjson.OPT_SORT_KEYS])
    def test_depth_of_tuples(self, impl: ModuleType, innermost: Any, option: int) -> None:
        for call in calls(impl, [repeated(lambda value: (value,), 252, innermost)], option=option):
            assert call().count(b"[") in (253, 254, 255)
        for call in calls(impl, [repeated(lambda value: (value,), 253, innermost)], option=option):
            with pytest.raises(EncodeError, match=r"^Recursion limit reached$"):
                call()

    @pytest.mark.ci
    def test_depth_of_what_orjson_does_not_count(self, impl: ModuleType) -> None:
        for around, option in (
            (lambda value: (value,), 0),
            (lambda value: (value,), orjson.OPT_SORT_KEYS),
            (lambda value: ([value],), 0),
            (lambda value: {"a": (value,)}, 0),
            (lambda value: (Members(a=value),), 0),
            (lambda value: (Items([value]),), 0),
            (lambda value: (Box(value),), 0),
            (lambda value: (SlottedBox(value),), 0),
        ):
            levels = 1 if around(0) == (0,) else 2
            deepest = repeated(around, 252 // levels, ())
            for call in calls(impl, [deepest], option=option):
                assert orjson.loads(call())
            for depth in (255, 1000, DEEPEST):
                for call in calls(impl, [around(repeated(lambda value: (value,), depth, around(0)))], option=option):
                    with pytest.raises(EncodeError, match=r"^Recursion limit reached$"):
                        call()

    def test_a_payload_alone(self, impl: ModuleType) -> None:
        assert impl.dumps_json({"a": [1, (2,)]}) == b'{"a":[1,[2]]}'
        assert impl.dumps_json({"b": 1, "a": {2}}, list, orjson.OPT_SORT_KEYS) == b'{"a":[2],"b":1}'
        for value in ({1}, {1: 2}, 10**4300):
            with pytest.raises(EncodeError):
                impl.dumps_json(value)
        for default in (None, list):
            with pytest.raises(EncodeError, match=r"^Recursion limit reached$"):
                impl.dumps_json(repeated(lambda value: (value,), DEEPEST, 1), default)

    def test_depth_with_a_default(self, impl: ModuleType) -> None:
        def default(value: Left) -> object:
            return value.value

        for depth in (1, 100, 252):
            for call in calls(impl, [repeated(lambda value: Left((value,)), depth, 0)], default=default):
                assert orjson.loads(call())
        tuples = repeated(lambda value: (value,), 200, 0)
        for value in (
            Left(repeated(lambda value: (value,), 255, 0)),
            (Left(repeated(lambda value: (value,), 253, 0)),),
            repeated(lambda value: Left((value,)), 254, 0),
            repeated(lambda value: Left(repeated(lambda value: (value,), 200, value)), min(250, DEEPEST // 200), 0),
            Box(Left(Box(Left(repeated(lambda value: (value,), 252, 0))))),
        ):
            for call in calls(impl, [value], default=default):
                with pytest.raises(EncodeError, match=r"^Recursion limit reached$"):
                    call()
        # Siblings do not add to the depth, and `default` decides about what is passed to it.
        for call in calls(impl, [[Left(tuples), Left(tuples)], tuples], default=default):
            assert orjson.loads(call())
        for call in calls(
            impl, [Box(repeated(lambda value: (value,), 300, 0))], default=repr, option=orjson.OPT_PASSTHROUGH_DATACLASS
        ):
            assert b"Box(" in call()

    def test_what_orjson_leaves_out_may_nest(self, impl: ModuleType) -> None:
        box = Box(1)
        box._inner = box
        for call in calls(impl, [box]):
            assert b'{"item":1}' in call()

    def test_names_of_classes(self, impl: ModuleType) -> None:
        for value in (
            impl.Request(1, "m"),
            impl.Notification("m"),
            impl.Response(1),
            impl.Error(1, "m"),
            impl.Raw(b"1"),
        ):
            for option in (0, orjson.OPT_SORT_KEYS):
                for call in calls(impl, [value], option=option):
                    with pytest.raises(EncodeError, match=f"^Type is not JSON serializable: {type(value).__name__}$"):
                        call()

    def test_cycles(self, impl: ModuleType) -> None:
        payload: list[Any] = []
        payload.append(payload)
        for call in calls(impl, payload):
            with pytest.raises(EncodeError):
                call()

    def test_surrogates(self, impl: ModuleType) -> None:
        for call in (
            lambda: impl.encode_request(1, "\ud800"),
            lambda: impl.encode_request("\ud800", "m"),
            lambda: impl.encode_notification("m\udc00"),
            lambda: impl.encode_result("\ud800", 1),
            lambda: impl.encode_error(1, 1, "\ud800"),
            lambda: impl.Request(1, "\ud800").to_bytes(),
            lambda: impl.Request(1, "\ud800").to_str(),
            lambda: impl.Notification("\ud800").to_bytes_delimited(),
        ):
            with pytest.raises(EncodeError):
                call()

    @rows("id", [10**640, -(10**639), 10**5000, 641 * "a", 213 * "\u20ac" + "ab"], ids=type)
    def test_ids_that_no_profile_accepts(self, impl: ModuleType, id: object) -> None:
        for call in (
            lambda: impl.encode_request(id, "m"),
            lambda: impl.encode_result(id, 1),
            lambda: impl.encode_error(id, 1, "m"),
            lambda: impl.Request(id, "m"),
            lambda: impl.Response(id, 1),
        ):
            with pytest.raises(ValueError, match=r"^id must be 640 bytes or less$"):
                call()

    @rows("code", [2**64, -(2**63) - 1, 2**70, 10**5000], ids=int.bit_length)
    def test_codes_beyond_64_bits(self, impl: ModuleType, code: int) -> None:
        for call in (
            lambda: impl.encode_error(1, code, "m"),
            lambda: impl.Error(code, "m"),
            lambda: RpcError(code, "m"),
        ):
            with pytest.raises(ValueError, match=r"^code must fit in 64 bits$"):
                call()
        obj = {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "m"}}
        assert impl.Error.from_dict(obj["error"]) is None
        assert describe(impl.parse(obj))[1] == "INVALID_ERROR_CODE"
        if code < 10**4000:
            text = b'{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"m"}}' % code
            for big_ints, expected in (
                ("exact", "INVALID_ERROR_CODE"),
                ("reject", "INTEGER_TOO_LARGE"),
            ):
                for raw in (False, True):
                    found = impl.decode(text, JSONRPC.replace(big_ints=big_ints), raw=raw)
                    assert describe(found) == fault(expected, 1, reply=False)

    def test_an_int_subclass_that_overrides_its_value(self, impl: ModuleType) -> None:
        class Liar(int):
            def __int__(self) -> int:
                return 2**70

            __index__ = __int__

            def __str__(self) -> str:
                return "x"

            __repr__ = __str__

        assert impl.encode_error(Liar(3), Liar(4), "m") == (
            b'{"jsonrpc":"2.0","id":3,"error":{"code":4,"message":"m"}}\n'
        )
        assert impl.Error(Liar(4), "m") == impl.Error(4, "m")

    def test_a_default_that_fails_is_the_cause(self, impl: ModuleType) -> None:
        fault = RuntimeError("of the caller")

        def default(value: object) -> object:
            raise fault

        for option in (0, orjson.OPT_SORT_KEYS):
            for call in calls(impl, {"a": {1}}, default=default, option=option):
                with pytest.raises(EncodeError) as caught:
                    call()
                assert caught.value.__cause__ is fault

    def test_errors_show_nothing_of_the_payload(self, impl: ModuleType) -> None:
        for payload in ([{"secret": object()}, "secret"], {"secret": 10**4300}, ["secret\ud800"]):
            for call in calls(impl, payload):
                with pytest.raises(EncodeError) as caught:
                    call()
                assert "secret" not in f"{caught.value!r}{caught.value.__cause__!r}"


class TestWrongArguments:
    @rows("params", [1, 0, "a", "", True, False, 1.5, float("nan"), uuid.UUID(int=1)])
    def test_params_that_are_not_a_container(self, impl: ModuleType, params: object) -> None:
        expected = f"^params must be written as a JSON object or array, which {type(params).__name__} is not$"
        for call in (lambda: impl.encode_request(1, "m", params), lambda: impl.encode_notification("m", params)):
            with pytest.raises(TypeError, match=expected) as caught:
                call()
            assert type(caught.value) is TypeError

    @rows("id", [True, False, b"1", [], {}, 1j, UNSET, type("Measure", (float,), {})(1.5)])
    def test_ids(self, impl: ModuleType, id: object) -> None:
        expected = f"^id must be an int, a str, a float or None, not {type(id).__name__}$"
        for call in (
            lambda: impl.encode_request(id, "m"),
            lambda: impl.encode_result(id, 1),
            lambda: impl.encode_error(id, 1, "m"),
        ):
            with pytest.raises(TypeError, match=expected):
                call()

    @rows("id", [float("nan"), float("inf"), float("-inf")])
    def test_infinite_ids_and_nan(self, impl: ModuleType, id: float) -> None:
        for call in (lambda: impl.encode_request(id, "m"), lambda: impl.encode_result(id, 1)):
            with pytest.raises(ValueError, match=r"^id must be a finite number$"):
                call()

    @rows("method", [None, 1, b"m", UNSET, True])
    def test_methods(self, impl: ModuleType, method: object) -> None:
        expected = f"^method must be a str, not {type(method).__name__}$"
        for call in (lambda: impl.encode_request(1, method), lambda: impl.encode_notification(method)):
            with pytest.raises(TypeError, match=expected):
                call()

    def test_errors(self, impl: ModuleType) -> None:
        for code in (True, "1", 1.0, None):
            with pytest.raises(TypeError, match=f"^code must be an int, not {type(code).__name__}$"):
                impl.encode_error(1, code, "m")
        for message in (None, 1, b"m"):
            with pytest.raises(TypeError, match=f"^message must be a str, not {type(message).__name__}$"):
                impl.encode_error(1, 1, message)

    def test_values_that_are_not_messages(self, impl: ModuleType) -> None:
        things = [None, 1, b"{}", {"jsonrpc": "2.0"}, set(), impl.Error(1, "m"), impl.decode(b"x"), [[]], [None], [1]]
        for thing in things:
            inner = thing[0] if isinstance(thing, list) else thing
            expected = f"^message must be a Request, a Notification or a Response, not {type(inner).__name__}"
            with pytest.raises(TypeError, match=expected):
                impl.encode(thing)


class TestBatches:
    def test_wire(self, impl: ModuleType) -> None:
        batch = [impl.Request(1, "m"), impl.Notification("n", [1]), impl.Response("x", error=impl.Error(1, "e"))]
        expected = (
            b'[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","method":"n","params":[1]},'
            b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"e"}}]'
        )
        assert impl.encode(batch) == expected + b"\n"
        assert impl.encode(batch, delimited=False) == expected
        assert impl.encode(batch[:1]) == b'[{"jsonrpc":"2.0","id":1,"method":"m"}]\n'
        assert impl.decode(expected) == batch

    def test_empty(self, impl: ModuleType) -> None:
        assert impl.encode([]) == b""
        assert impl.encode([], delimited=False) == b""

    def test_an_invalid_item_fails_the_whole_batch(self, impl: ModuleType) -> None:
        with pytest.raises(EncodeError):
            impl.encode([impl.Request(1, "m"), impl.Response(1, object())])


@rows(
    ("payload", "written"),
    [
        (None, b"null"),
        (True, b"true"),
        (False, b"false"),
        (0, b"0"),
        (-7, b"-7"),
        (2**63 - 1, b"9223372036854775807"),
        (-(2**63), b"-9223372036854775808"),
        (2**63, b"9223372036854775808"),
        (2**64 - 1, b"18446744073709551615"),
        (1.0, b"1.0"),
        ("", b'""'),
        ("0x36", b'"0x36"'),
        ('"\\\n\x00\x7f\u2028', b'"\\"\\\\\\n\\u0000\x7f\xe2\x80\xa8"'),
        ("\U0001f600" * 3000, b'"' + b"\xf0\x9f\x98\x80" * 3000 + b'"'),
        ("x" * 3000, b'"' + b"x" * 3000 + b'"'),
    ],
)
def test_scalar_payloads(impl: ModuleType, payload: object, written: bytes) -> None:
    assert impl.encode_result(1, payload) == b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % written
    error = b'{"jsonrpc":"2.0","id":"a","error":{"code":5,"message":"\\"m","data":%b}}\n' % written
    assert impl.encode_error("a", 5, '"m', payload) == error
    assert impl.encode(impl.Response("a", error=impl.Error(5, '"m', payload))) == error
    if payload is not None:
        with pytest.raises(TypeError, match="params must be"):
            impl.encode_request(1, "m", payload)


@rows("payload", [10**4300, -(10**4300), "\ud800"], ids=["positive", "negative", "surrogate"])
def test_scalar_payloads_that_cannot_be_written(impl: ModuleType, payload: object) -> None:
    with pytest.raises(EncodeError):
        impl.encode_result(1, payload)
    with pytest.raises(EncodeError):
        impl.encode_error(1, 5, "m", payload)


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
    """Return two equal strings: one that orjson has written, which keeps its UTF-8, and a new one, which has none."""
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
        for value in ({1}, "\ud800", 10**4300, {1: 2}):
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
            return [len(batch), len([impl.encode(message) for message in batch]), 300 * "x"]

        expected = orjson.dumps([20, 20, 300 * "x"])
        for call in calls(impl, {"a": object()}, default=default):
            assert b'{"a":' + expected + b"}" in call()

    def test_a_batch_that_changes_while_it_is_written(self, impl: ModuleType) -> None:
        def default(value: object) -> object:
            batch.clear()
            return "x" * 1000

        batch = [impl.Response(number, object()) for number in range(100)]
        assert impl.decode(impl.encode(batch, default=default)) == [impl.Response(0, "x" * 1000)]
