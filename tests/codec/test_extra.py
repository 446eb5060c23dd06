"""Members that JSON-RPC does not define: kept with `extra_members="keep"`, and written back."""

from __future__ import annotations

import copy
import pickle
import sys
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, LENIENT, Limits
from jsonrpc_fast.types import UNSET

from ..support.comparison import Backends
from ..support.describe import describe, fault
from ..support.tables import rows

KEEP = JSONRPC.replace(extra_members="keep")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PADDING = b'"' + b"p" * 2000 + b'"'  # makes a text large, for the paths of the pure backend


def texts(members: bytes) -> list[bytes]:
    """The same message in several spellings, which take different paths."""
    return [
        b"{" + members + b"}",
        b" {\n" + members.replace(b",", b" , ").replace(b'":', b'" : ') + b"}\n",
        b"{" + members.replace(b'"method"', b'"\\u006dethod"').replace(b'"error"', b'"err\\u006fr"') + b"}",
    ]


@rows("raw", [False, True])
def test_decode_keeps_extra_members(impl: ModuleType, raw: bool) -> None:
    for text in texts(b'"jsonrpc":"2.0","id":1,"traceparent":"%b","method":"m","x":[1]' % TRACE.encode()):
        message = impl.decode(text, KEEP, raw=raw)
        assert (message.id, message.method, message.params) == (1, "m", None)
        assert message.extra == {"traceparent": TRACE, "x": [1]}
        assert list(message.extra) == ["traceparent", "x"]
    for text in texts(b'"jsonrpc":"2.0","method":"m","\\u0078":{"id":2}'):
        message = impl.decode(text, KEEP, raw=raw)
        assert (type(message), message.extra) == (impl.Notification, {"x": {"id": 2}})
    for text in texts(b'"":null,"jsonrpc":"2.0","result":4,"id":1'):
        message = impl.decode(text, KEEP, raw=raw)
        assert (type(message), message.extra) == (impl.Response, {"": None})


@rows("raw", [False, True])
def test_extra_members_of_an_error(impl: ModuleType, raw: bool) -> None:
    for text in texts(b'"jsonrpc":"2.0","id":1,"error":{"code":4,"hint":[2],"message":"m","data":7},"y":1'):
        message = impl.decode(text, KEEP, raw=raw)
        assert message.extra == {"y": 1}
        assert message.error.extra == {"hint": [2]}
        assert message.error.data == (impl.Raw(b"7") if raw else 7)
        assert message.to_bytes() == (
            b'{"jsonrpc":"2.0","id":1,"error":{"code":4,"message":"m","data":7,"hint":[2]},"y":1}'
        )
    message = impl.decode(b'{"jsonrpc":"2.0","id":1,"error":{"code":4,"message":"m","hint":0}}', KEEP, raw=raw)
    assert (message.extra, message.error.extra, message.error.data) == (None, {"hint": 0}, UNSET)


@rows("raw", [False, True])
def test_params_of_a_response(impl: ModuleType, raw: bool) -> None:
    for text in (
        b'{"jsonrpc":"2.0","id":1,"params":{"a":1},"result":2,"b":3}',
        b'{"jsonrpc":"2.0","id":1,"result":2,"b":3,"p\\u0061rams":{"a":1}}',
    ):
        message = impl.decode(text, KEEP, raw=raw)
        assert message.extra == {"b": 3, "params": {"a": 1}}
        assert list(message.extra) == ["b", "params"]
        assert message.to_bytes() == b'{"jsonrpc":"2.0","id":1,"result":2,"b":3,"params":{"a":1}}'


def test_batches(impl: ModuleType) -> None:
    text = b'[{"jsonrpc":"2.0","id":1,"method":"m","a":1},7,{"jsonrpc":"2.0","id":2,"method":"m"},{"b":2,%b}]'
    for last in (b'"jsonrpc":"2.0","method":"n"', b'"jsonrpc":"2.0","method":"n","c":' + PADDING):
        found = impl.decode(text % last, KEEP)
        assert [getattr(item, "extra", "none") for item in found[:3]] == [{"a": 1}, "none", None]
        assert found[3].extra["b"] == 2


def test_the_stream_decoder_keeps_them(impl: ModuleType) -> None:
    decoder = impl.Decoder(profile=KEEP)
    (message,) = decoder.feed(b'{"jsonrpc":"2.0","id":1,"method":"m","a":1}\n')
    assert message.extra == {"a": 1}


def test_without_extra_members_the_field_is_none(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[]}'
    assert impl.decode(text, KEEP).extra is None
    assert impl.decode(text, KEEP) == impl.decode(text)
    assert impl.Error(1, "m").extra is None
    assert impl.Request(1, "m", extra={}).extra is None
    for profile in (JSONRPC, LENIENT):
        message = impl.decode(b'{"jsonrpc":"2.0","id":1,"method":"m","a":1}', profile)
        assert message.extra is None


def test_standard_members_are_never_extra(impl: ModuleType) -> None:
    keep = LENIENT.replace(extra_members="keep")
    assert impl.decode(b'{"jsonrpc":"2.0","id":1,"result":2,"error":null}', keep).extra is None
    assert impl.decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}', keep).extra is None
    keep = JSONRPC_1.replace(extra_members="keep")
    message = impl.decode(b'{"id":null,"method":"m","params":[],"a":1}', keep)
    assert (type(message), message.extra) == (impl.Notification, {"a": 1})
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","result":1,"a":1}'
    assert describe(impl.decode(text, KEEP)) == fault("AMBIGUOUS_MESSAGE", 1, reply=False)


def test_the_last_of_two_counts(impl: ModuleType) -> None:
    message = impl.decode(b'{"a":1,"jsonrpc":"2.0","b":2,"id":1,"method":"m","\\u0061":3}', KEEP)
    assert list(message.extra.items()) == [("a", 3), ("b", 2)]
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","\\u0069d":1,"a":1}'
    assert describe(impl.decode(text, KEEP)) == fault("DUPLICATE_MEMBER")


def test_limits_and_integers_beyond_64_bits(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","a":%b}'
    wide = text % b"123456789012345678901234567890"
    assert impl.decode(wide, KEEP).extra == {"a": 123456789012345678901234567890}
    assert describe(impl.decode(wide, KEEP.replace(big_ints="reject"))) == fault("INTEGER_TOO_LARGE", 1)
    deep = text % (b"[" * 1024 + b"]" * 1024)
    assert describe(impl.decode(deep, KEEP))[:3] == ("Request", 1, "m")
    assert describe(impl.decode(text % b"[[]]", KEEP.replace(limits=Limits(depth=1)))) == fault("TOO_DEEP", 1)


def samples(impl: ModuleType) -> list[Any]:
    error = impl.Error(1, "e", [2], extra={"hint": "h"})
    return [
        impl.Request(1, "m", extra={"a": 1}),
        impl.Notification("m", [1], extra={"a": {"b": [None]}}),
        impl.Response("i", None, extra={"params": 1}),
        impl.Response(1.0, error=error),
        impl.Response(None, error=error, extra={"a": "é"}),
        error,
    ]


def test_copies_pickles_and_dicts(impl: ModuleType) -> None:
    for value in samples(impl):
        assert copy.copy(value) == copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value
        assert type(value).from_dict(value.to_dict(), KEEP) == value
        assert type(value).from_dict(value.to_dict()) != value
        if not isinstance(value, impl.Error):
            assert impl.decode(value.to_bytes(), KEEP) == value
            assert impl.decode(impl.encode([value, value]), KEEP) == [value, value]


def test_to_dict(impl: ModuleType) -> None:
    found = [value.to_dict() for value in samples(impl)]
    error = {"code": 1, "message": "e", "data": [2], "hint": "h"}
    assert found == [
        {"jsonrpc": "2.0", "id": 1, "method": "m", "a": 1},
        {"jsonrpc": "2.0", "method": "m", "params": [1], "a": {"b": [None]}},
        {"jsonrpc": "2.0", "id": "i", "result": None, "params": 1},
        {"jsonrpc": "2.0", "id": 1.0, "error": error},
        {"jsonrpc": "2.0", "id": None, "error": error, "a": "é"},
        error,
    ]


def test_bytes(impl: ModuleType) -> None:
    assert [value.to_bytes() for value in samples(impl)[:5]] == [
        b'{"jsonrpc":"2.0","id":1,"method":"m","a":1}',
        b'{"jsonrpc":"2.0","method":"m","params":[1],"a":{"b":[null]}}',
        b'{"jsonrpc":"2.0","id":"i","result":null,"params":1}',
        b'{"jsonrpc":"2.0","id":1.0,"error":{"code":1,"message":"e","data":[2],"hint":"h"}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"e","data":[2],"hint":"h"},"a":"é"}'.encode(),
    ]
    message = impl.Request(1, "m", extra={"a": {1, 2}})
    assert impl.encode(message, default=sorted) == b'{"jsonrpc":"2.0","id":1,"method":"m","a":[1,2]}\n'
    with pytest.raises(EncodeError):
        message.to_bytes()


def test_equality_and_repr(impl: ModuleType) -> None:
    for value in samples(impl):
        plain = [getattr(value, name) for name in value.__match_args__]
        assert value != type(value)(*plain) or value.extra is None
        assert value == type(value)(*plain, extra=value.extra)
    assert repr(samples(impl)[0]) == "Request(id=1, method='m', params=None, extra={'a': 1})"
    assert repr(samples(impl)[5]) == "Error(code=1, message='e', data=[2], extra={'hint': 'h'})"
    assert len(repr(impl.Request(1, "m", extra={"a": "v" * 10_000}))) < 300


def test_patterns(impl: ModuleType) -> None:
    match impl.decode(b'{"jsonrpc":"2.0","id":1,"method":"m","traceparent":"t"}', KEEP):
        case impl.Request(id=1, extra={"traceparent": found}):
            assert found == "t"
        case other:
            raise AssertionError(other)


@rows("name", ["jsonrpc", "id", "method", "params", "result", "error"])
def test_reserved_names(impl: ModuleType, name: str) -> None:
    for make in (lambda extra: impl.Request(1, "m", extra=extra), lambda extra: impl.Notification("m", extra=extra)):
        with pytest.raises(ValueError, match=f"^{name} is not an extra member$"):
            make({name: 1})
        message = make({"a": 1})
        message.extra[name] = 1
        with pytest.raises(ValueError, match=f"^{name} is not an extra member$"):
            message.to_bytes()
    if name != "params":
        with pytest.raises(ValueError, match=f"^{name} is not an extra member$"):
            impl.Response(1, extra={name: 1})


@rows("name", ["code", "message", "data"])
def test_reserved_names_of_an_error(impl: ModuleType, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is not an extra member$"):
        impl.Error(1, "m", extra={name: 1})
    error = impl.Error(1, "m", extra={"a": 1})
    error.extra[name] = 1
    with pytest.raises(ValueError, match=f"^{name} is not an extra member$"):
        impl.Response(1, error=error).to_bytes()


def test_names_of_another_type(impl: ModuleType) -> None:
    class Name(str):
        __slots__ = ()

    with pytest.raises(TypeError, match=r"^extra must be a dict or None, not list$"):
        impl.Request(1, "m", extra=[])
    with pytest.raises(TypeError, match=r"^the names of extra members must be of type str, not int$"):
        impl.Request(1, "m", extra={1: 1})
    with pytest.raises(TypeError, match=r"^the names of extra members must be of type str, not Name$"):
        impl.Request(1, "m", extra={Name("a"): 1})
    message = impl.parse({"jsonrpc": "2.0", "method": "m", 1: 2, Name("a"): 3, "b": 4}, KEEP)
    assert message.extra == {"b": 4}


def test_the_constructor_copies_the_dict(impl: ModuleType) -> None:
    extra = {"a": 1}
    message = impl.Request(1, "m", extra=extra)
    extra["id"] = 2
    assert message.extra == {"a": 1}
    message.extra.clear()
    assert message.to_bytes() == b'{"jsonrpc":"2.0","id":1,"method":"m"}'


def test_messages_have_no_field_for_extra_members_in_the_core(backends: Backends) -> None:
    core, _ = backends
    found = [core.Request(1, "m"), core.Notification("m"), core.Response(1), core.Error(1, "m")]
    assert [sys.getsizeof(message) for message in found] == [56, 48, 64, 56]
