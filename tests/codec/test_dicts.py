"""`decode_dict` and `encode_dict`: messages as dicts, without loss."""

from __future__ import annotations

import json
import re
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.codec._dicts import dicts_of
from jsonrpc_fast.codec._shared import numbers_of
from jsonrpc_fast.codes import ParseErrorCode
from jsonrpc_fast.errors import EncodeError, ParseError
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, LENIENT, MCP_2025_11_25, Limits, Profile

from ..fuzz.mutate import mutants
from ..support.comparison import Backends, assert_same, exactly, plain
from ..support.oracle import orjson
from ..support.payloads_of_all_types import BECOMES_PARAMS, PARAMS
from ..support.tables import rows


@rows(
    ("text", "profile", "expected"),
    [
        (
            b'{"jsonrpc":"2.0","id":1,"method":"m","a":[1]}',
            JSONRPC,
            {"jsonrpc": "2.0", "id": 1, "method": "m", "a": [1]},
        ),
        (
            b' {"id": 1, "error": null, "jsonrpc": "2.0", "result": 3}\n',
            LENIENT,
            {"id": 1, "error": None, "jsonrpc": "2.0", "result": 3},
        ),
        (b'{"method":"m","params":null,"jsonrpc":"2.0"}', LENIENT, {"method": "m", "params": None, "jsonrpc": "2.0"}),
        (b'{"method":"m","params":[],"id":null}', JSONRPC_1, {"method": "m", "params": [], "id": None}),
        (
            b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"e","data":null,"hint":2}}',
            JSONRPC,
            {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "e", "data": None, "hint": 2}},
        ),
    ],
)
def test_decode_loses_nothing(impl: ModuleType, text: bytes, profile: Profile, expected: dict[str, Any]) -> None:
    for data in (text, bytearray(text), memoryview(text), text.decode()):
        found = impl.decode_dict(data, profile)
        assert found == expected
        assert list(found) == list(expected)


@rows("digits", [20, 40, 308, 309, 512])
def test_ids_of_any_width(impl: ModuleType, digits: int) -> None:
    id = 10**digits - 1
    text = b'{"jsonrpc":"2.0","\\u0069d":%d,"result":"\xc3\xa9"}' % id
    assert impl.decode_dict(text) == {"jsonrpc": "2.0", "id": id, "result": "é"}
    assert impl.decode_dict(b"[%b,1]" % text, faults="keep")[0]["id"] == id
    written = b'{"jsonrpc":"2.0","id":%d,"result":"\xc3\xa9"}' % id
    assert impl.encode_dict(impl.decode_dict(text), delimited=False) == written


def test_ids_with_a_fraction(impl: ModuleType) -> None:
    for profile in (JSONRPC, JSONRPC.replace(floats="decimal")):
        for name in (b"id", b"\\u0069d"):
            found = impl.decode_dict(b'{"jsonrpc":"2.0","%b":1.50,"metho\\u0064":"m"}' % name, profile)["id"]
            assert (type(found), found) == (float, 1.5)


def test_integers_in_payloads(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"result":[123456789012345678901],"a":123456789012345678901}'
    exact = impl.decode_dict(text)
    assert (exact["result"], exact["a"]) == ([123456789012345678901], 123456789012345678901)
    with pytest.raises(impl.ParseError, match="larger than the profile allows"):
        impl.decode_dict(text, JSONRPC.replace(big_ints="reject"))


@rows("around", [b"%b", b"[%b]"])
def test_as_deep_as_decode(impl: ModuleType, around: bytes) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"b":{},"result":%b,"a":2}' % (b"[" * 1024 + b"]" * 1024)
    found = impl.decode_dict(around % text)
    message = found[0] if isinstance(found, list) else found
    assert list(message) == ["jsonrpc", "id", "b", "result", "a"]
    depth, value = 0, message["result"]
    while value:
        depth, value = depth + 1, value[0]
    assert depth == 1023


def test_faults_are_raised(impl: ModuleType) -> None:
    for text in (
        b"",
        b"x",
        b"[]",
        b"1",
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}',
        "\ud800",
    ):
        fault = impl.decode(text)
        with pytest.raises(impl.ParseError) as caught:
            impl.decode_dict(text)
        assert caught.value == fault
    with pytest.raises(impl.ParseError) as caught:
        impl.decode_dict(b'{"jsonrpc":"2.0","id":1,"method":"m","a":1}', JSONRPC.replace(extra_members=False))
    assert (caught.value.code.name, caught.value.id) == ("UNEXPECTED_MEMBER", 1)


def test_each_item_of_a_batch_on_its_own(impl: ModuleType) -> None:
    text = b'[{"jsonrpc":"2.0","method":"m","a":1},7,{"jsonrpc":"2.0","id":%b,"method":"m"}]'
    found = impl.decode_dict(text % b"1", faults="keep")
    assert found[0] == {"jsonrpc": "2.0", "method": "m", "a": 1}
    assert (found[1].code.name, found[1].index) == ("NOT_AN_OBJECT", 1)
    assert found[2] == {"jsonrpc": "2.0", "id": 1, "method": "m"}
    found = impl.decode_dict(text % (b"9" * 5000), faults="keep")
    assert found[0] == {"jsonrpc": "2.0", "method": "m", "a": 1}
    assert (found[2].code.name, found[2].index) == ("ID_TOO_LONG", 2)


def test_an_unknown_member_too_large_for_a_float(impl: ModuleType) -> None:
    for profile in (JSONRPC, JSONRPC.replace(big_ints="reject")):
        found = impl.decode_dict(b'{"jsonrpc":"2.0","id":1,"method":"m","a":[%b]}' % (b"9" * 310), profile)
        assert found == {"jsonrpc": "2.0", "id": 1, "method": "m", "a": [10**310 - 1]}


def test_encode(impl: ModuleType) -> None:
    message = {"id": 1, "jsonrpc": "2.0", "trace": {"a": "é"}, "method": "m"}
    assert impl.encode_dict(message) == '{"id":1,"jsonrpc":"2.0","trace":{"a":"é"},"method":"m"}\n'.encode()
    assert (
        impl.encode_dict([message, message], delimited=False)
        == (
            '[{"id":1,"jsonrpc":"2.0","trace":{"a":"é"},"method":"m"},{"id":1,"jsonrpc":"2.0","trace":{"a":"é"},"method":"m"}]'
        ).encode()
    )
    message = {"jsonrpc": "2.0", "id": 1, "result": {2, 1}}
    assert impl.encode_dict(message, default=sorted) == b'{"jsonrpc":"2.0","id":1,"result":[1,2]}\n'
    option = orjson.OPT_NON_STR_KEYS
    message = {"jsonrpc": "2.0", "id": 10**30, "result": {2: 1}, 3: 4}
    assert impl.encode_dict(message, option=option) == b'{"jsonrpc":"2.0","id":1%b,"result":{"2":1},"3":4}\n' % (
        b"0" * 30
    )


def test_encode_raw_payloads(impl: ModuleType) -> None:
    raw = impl.Raw(b'{"a":\n1.0}')
    assert impl.encode_dict({"params": raw, "jsonrpc": "2.0", "method": "m"}) == (
        b'{"params":{"a": 1.0},"jsonrpc":"2.0","method":"m"}\n'
    )
    error = {"code": 1, "message": "e", "data": raw, "hint": 2}
    assert impl.encode_dict({"jsonrpc": "2.0", "id": 1, "error": error}) == (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"e","data":{"a": 1.0},"hint":2}}\n'
    )


def test_encode_judges(impl: ModuleType) -> None:
    for message in ({}, [], None, 1, [{}], {"jsonrpc": "2.0", "id": True, "method": "m"}):
        fault = impl.parse(message)
        with pytest.raises(impl.ParseError) as caught:
            impl.encode_dict(message)
        assert caught.value == (fault[0] if isinstance(fault, list) else fault)
    with pytest.raises(impl.ParseError, match="does not define"):
        impl.encode_dict({"jsonrpc": "2.0", "method": "m", "a": 1}, JSONRPC.replace(extra_members=False))
    for value in ({1}, 10**4300, "\ud800"):
        with pytest.raises(EncodeError):
            impl.encode_dict({"jsonrpc": "2.0", "id": 1, "result": value})
    with pytest.raises(EncodeError):
        impl.encode_dict({"jsonrpc": "2.0", "id": 1, "result": 1, 2: 3})


def test_the_first_fault_of_a_batch_is_raised(impl: ModuleType) -> None:
    text = b'[{"jsonrpc":"2.0","method":"m"},{"jsonrpc":"2.0","id":5},7]'
    for found in (lambda: impl.decode_dict(text), lambda: impl.decode_dict(text, JSONRPC, faults="raise")):
        with pytest.raises(impl.ParseError) as caught:
            found()
        assert (caught.value.code.name, caught.value.index, caught.value.id) == ("MISSING_METHOD", 1, 5)
    kept = impl.decode_dict(text, faults="keep")
    assert [type(item) for item in kept] == [dict, impl.ParseError, impl.ParseError]
    for faults in ("ignore", None, []):
        with pytest.raises(ValueError, match='faults must be "raise" or "keep"'):
            impl.decode_dict(text, faults=faults)


def test_a_dict_nests_as_deep_as_a_message(impl: ModuleType) -> None:
    value: Any = 1
    for _ in range(254):
        value = [value]
    line = impl.encode_request(1, "m", value)
    message = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": value}
    for option, default in ((0, None), (0, str), (orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, None)):
        written = impl.encode_dict(message, option=option, default=default)
        assert sorted(impl.decode_dict(written)) == ["id", "jsonrpc", "method", "params"]
        assert len(written) == len(line)
        assert len(impl.encode_dict([message], option=option, default=default)) == len(line) + 2
        message["params"] = [value]
        with pytest.raises(EncodeError, match="Recursion limit"):
            impl.encode_dict(message, option=option, default=default)
        message["params"] = value
    shallow = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": [{1}]}
    assert impl.encode_dict(shallow, default=lambda _: (1, (2,))).endswith(b',"params":[[1,[2]]]}\n')
    with pytest.raises(EncodeError, match="Recursion limit"):
        impl.encode_dict(shallow, default=lambda _: value)


def test_options_and_default(impl: ModuleType) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": impl.Raw(b"1")}}
    with pytest.raises(EncodeError, match="Raw"):
        impl.encode_dict(message)
    message = {"method": "m", "jsonrpc": "2.0", "params": impl.Raw(b"[ 1]"), "a": {2}}
    assert impl.encode_dict(message, option=orjson.OPT_SORT_KEYS, default=list) == (
        b'{"a":[2],"jsonrpc":"2.0","method":"m","params":[ 1]}\n'
    )
    with pytest.raises(ValueError, match="would break the framing"):
        impl.encode_dict(message, option=orjson.OPT_INDENT_2)


@rows("value", [*PARAMS, "{}", "[]", "1", "null"])  # the texts as `Raw`
def test_functions_that_write_agree(impl: ModuleType, value: Any) -> None:
    """A request is written as the same bytes by each of them, or by none.

    An object whose JSON is an object or array may be given as params to the functions that make no message.
    """
    if type(value) is str and value in ("{}", "[]", "1", "null"):
        value = impl.Raw(value.encode())
    message = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": value}
    found = {
        name: _bytes_or_refused(impl, write)
        for name, write in {
            "encode_request": lambda: impl.encode_request(1, "m", value),
            "Request": lambda: impl.encode(impl.Request(1, "m", value)),
            "batch": lambda: impl.encode((impl.Request(1, "m", value),))[1:-2] + b"\n",
            "to_bytes": lambda: impl.Request(1, "m", value).to_bytes() + b"\n",
            "replace": lambda: impl.Request(1, "m").replace(params=value).to_bytes_delimited(),
            "Notification": lambda: b'{"jsonrpc":"2.0","id":1,' + impl.encode(impl.Notification("m", value))[17:],
            "encode_notification": lambda: b'{"jsonrpc":"2.0","id":1,' + impl.encode_notification("m", value)[17:],
            "parse": lambda: impl.encode(_valid(impl, impl.parse(message, LENIENT))),
            "parse of a batch": lambda: impl.encode([_valid(impl, *impl.parse((message,), LENIENT))])[1:-2] + b"\n",
            "from_dict": lambda: impl.Request.from_dict(message, LENIENT).to_bytes_delimited(),
            "encode_dict": lambda: impl.encode_dict(message, LENIENT).replace(b',"params":null', b""),
            "batch of dicts": lambda: (
                impl.encode_dict([message], LENIENT)[1:-2].replace(b',"params":null', b"") + b"\n"
            ),
        }.items()
    }
    if isinstance(value, impl.Raw) and bytes(value) == b"null":
        del found["parse"], found["parse of a batch"], found["from_dict"], found["encode_dict"], found["batch of dicts"]
    if isinstance(value, BECOMES_PARAMS):
        assert found.pop("encode_request") == found.pop("encode_notification") is not None
    assert len(set(found.values())) == 1, found


def _bytes_or_refused(impl: ModuleType, write: Any) -> bytes | None:
    try:
        return write()  # type: ignore[no-any-return]
    except (TypeError, AttributeError, impl.ParseError):  # an EncodeError is a TypeError; None has no method
        return None


def _valid(impl: ModuleType, found: Any) -> Any:
    if isinstance(found, impl.ParseError):
        raise found
    return found


def test_tuples_are_arrays(impl: ModuleType) -> None:
    for message in (
        impl.Request(1, "m", (1, (2,))),
        impl.Notification("m", (1, (2,))),
        impl.parse({"jsonrpc": "2.0", "id": 1, "method": "m", "params": (1, (2,))}),
    ):
        assert message.params == [1, (2,)]
        assert message.to_bytes().endswith(b'"method":"m","params":[1,[2]]}')
    assert impl.Request(1, "m").replace(params=()) == impl.Request(1, "m", [])
    assert impl.encode_result(1, (1, ())) == b'{"jsonrpc":"2.0","id":1,"result":[1,[]]}\n'
    assert impl.encode_dict(({"jsonrpc": "2.0", "method": "m", "params": ()},)) == (
        b'[{"jsonrpc":"2.0","method":"m","params":[]}]\n'
    )
    assert impl.encode((impl.Notification("m"),)) == b'[{"jsonrpc":"2.0","method":"m"}]\n'
    assert impl.encode(()) == b""
    assert impl.parse(()).code.name == "EMPTY_BATCH"
    with pytest.raises(impl.ParseError, match="does not allow this type of params"):
        impl.encode_dict({"jsonrpc": "2.0", "method": "m", "params": (1,)}, MCP_2025_11_25)


PROFILES = (
    JSONRPC,
    LENIENT,
    JSONRPC_1.replace(batches=True, extra_members="keep"),
    JSONRPC.replace(limits=Limits(depth=2, id_bytes=32, batch_items=2), extra_members=False),
    MCP_2025_11_25,
    JSONRPC.replace(floats="decimal"),
)


@given(text=mutants())
def test_agreement(backends: Backends, text: bytes) -> None:
    forms: list[tuple[str, bytes | str]] = [("raise", text), ("keep", text)]
    if text.isascii():
        forms.append(("raise", text.decode()))
    for profile in PROFILES:
        for faults, data in forms:

            def read(backend: Any, profile: Profile = profile, faults: str = faults, data: bytes | str = data) -> Any:
                return backend.decode_dict(data, profile, faults=faults)

            assert_same(backends, read, lambda value: value)


@given(text=mutants())
def test_the_fast_path_reads_what_the_slow_path_reads(core: Any, text: bytes) -> None:
    for profile in PROFILES:
        found = core._decode_dict_fast(text, profile)
        if found is not None:
            slow = dicts_of(text, core._decode_slow(text, profile, True), numbers_of(profile), core.ParseError, "raise")
            assert exactly(found) == exactly(slow)
            assert repr(found) == repr(slow)  # the order of members


@rows(
    "text",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"m"}',
        b' {"params" : [1.5, {"a": null}], "method":"m", "jsonrpc":"2.0"} ',
        b'{"jsonrpc":"2.0","id":"\\u0069","result":null,"x":[1],"\\u0079":2,"x":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","data":0,"x":1}}',
        b'[{"jsonrpc":"2.0","id":1,"result":{}} ,{"jsonrpc":"2.0","method":"m"}]\n',
        b'{"jsonrpc":"2.0","id":1,"result":"%b"}' % (b"a" * 10_000),
    ],
)
def test_usual_texts_take_the_fast_path(core: Any, text: bytes) -> None:
    assert core._decode_dict_fast(text, JSONRPC) == json.loads(text)


@given(text=mutants())
def test_a_dict_is_judged_as_its_text(impl: ModuleType, text: bytes) -> None:
    """`parse` of what any JSON reader makes of a text finds what `decode` finds, where a dict shows it."""
    try:
        value = json.loads(text)
    except ValueError:
        return
    if re.search(rb"[0-9]{16}", text):  # a number that some readers alter
        return
    for profile in PROFILES[:4]:
        found = impl.decode(text, profile)
        if isinstance(found, ParseError) and found.code in NOT_IN_A_DICT:
            continue
        try:
            dicts: Any = impl.decode_dict(text, profile, faults="keep")
        except impl.ParseError as fault:
            dicts = fault
        parsed = impl.parse(value, profile)
        for one, judged in zip(*[item if isinstance(item, list) else [item] for item in (dicts, parsed)], strict=True):
            if isinstance(judged, ParseError):
                assert isinstance(one, ParseError)
                assert one.code in {judged.code, *NOT_IN_A_DICT}
            elif isinstance(one, ParseError):
                assert one.code in NOT_IN_A_DICT
            else:
                assert plain(impl, impl.parse(one, profile)) == plain(impl, judged)


NOT_IN_A_DICT = {
    ParseErrorCode.DUPLICATE_MEMBER,
    ParseErrorCode.MALFORMED_JSON,
    ParseErrorCode.INVALID_UTF8,
    ParseErrorCode.TOO_DEEP,
    ParseErrorCode.INTEGER_TOO_LARGE,
    ParseErrorCode.ID_TOO_LONG,
    ParseErrorCode.INVALID_ID_TYPE,  # of a number that a double alters
}


@given(text=mutants(), spaces=st.sampled_from([b"", b" ", b"\n"]))
def test_what_is_written_is_read_again(impl: ModuleType, text: bytes, spaces: bytes) -> None:
    try:
        message = impl.decode_dict(spaces + text)
    except impl.ParseError:
        return
    if not (isinstance(message, list) and any(isinstance(item, impl.ParseError) for item in message)):
        assert impl.decode_dict(impl.encode_dict(message)) == message


def test_a_message_is_no_dict(impl: ModuleType) -> None:
    """Each of the two functions names the other one."""
    request, valid = impl.Request(1, "m"), {"jsonrpc": "2.0", "method": "m"}
    for value in (request, [valid, request], (request,)):
        with pytest.raises(TypeError, match=r"^message must be a dict or a list of dicts, not Request; use encode$"):
            impl.encode_dict(value)
    with pytest.raises(TypeError, match=r"not dict; use encode_dict$"):
        impl.encode(valid)
    for value in ("text", None, [valid, 3, request]):
        with pytest.raises(ParseError, match=r"^the message is not an object$"):
            impl.encode_dict(value)
