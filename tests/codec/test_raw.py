"""Raw payloads: checked as strictly as decoded ones, and passed on verbatim."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import (
    CLIENT,
    JSONRPC,
    LENIENT,
    MCP_2025_11_25,
    UNSET,
    EncodeError,
    Limits,
    ParseErrorCode,
    Profile,
    Raw,
)
from jsonrpc_fast.codec._backend import decoded
from jsonrpc_fast.errors import ParseError
from jsonrpc_fast.framing import frame
from jsonrpc_fast.handlers import Handlers

from ..fuzz.mutate import confusing
from ..support.memory import measured
from ..support.oracle import orjson
from ..support.raw_laws import broken_law, broken_law_of_stream
from ..support.tables import rows

PROFILES = [
    JSONRPC,
    LENIENT,
    CLIENT,
    CLIENT.replace(extra_members=True, floats="decimal"),
    MCP_2025_11_25,
    JSONRPC.replace(extra_members="keep"),
    JSONRPC.replace(extra_members=False),
    JSONRPC.replace(floats="decimal"),
    JSONRPC.replace(optional_jsonrpc=True, null_members=True, missing_ids="errors"),
]


def code_of(call: Any, *arguments: Any) -> tuple[ParseErrorCode, int | None]:
    with pytest.raises(ParseError) as caught:
        call(*arguments)
    return caught.value.code, caught.value.offset


@rows(
    ("text", "kept"),
    [
        (b"1", b"1"),
        (b' {"a" : [1, 2]}\n', b'{"a" : [1, 2]}'),
        (b"[1.0,1e5,-0]", b"[1.0,1e5,-0]"),
        (b'"\\u00e9\xc3\xa9"', b'"\\u00e9\xc3\xa9"'),
        (b"null", b"null"),
        (b"123456789012345678901234567890", b"123456789012345678901234567890"),
    ],
)
def test_keeps_the_value_as_written(impl: ModuleType, text: bytes, kept: bytes) -> None:
    for data in (text, bytearray(text), memoryview(text), text.decode()):
        raw = impl.Raw(data)
        assert bytes(raw) == kept
        assert len(raw) == len(kept)
        assert raw == impl.Raw(kept)
        assert hash(raw) == hash(impl.Raw(kept))


@rows(
    ("text", "code", "offset"),
    [
        (b"", ParseErrorCode.MALFORMED_JSON, 0),
        (b"{", ParseErrorCode.MALFORMED_JSON, 1),
        (b"[1]]", ParseErrorCode.MALFORMED_JSON, 3),
        (b"1 2", ParseErrorCode.MALFORMED_JSON, 2),
        (b'["a\nb"]', ParseErrorCode.MALFORMED_JSON, 3),
        (b"[1e400]", ParseErrorCode.MALFORMED_JSON, 1),
        (b"[01]", ParseErrorCode.MALFORMED_JSON, 2),
        (b'["\\ud800"]', ParseErrorCode.MALFORMED_JSON, 2),
        (b'["\xff"', ParseErrorCode.INVALID_UTF8, 2),
        (b'["\xed\xa0\x80"]', ParseErrorCode.INVALID_UTF8, 2),
        (b"[" * 1025 + b"]" * 1025, ParseErrorCode.TOO_DEEP, None),
    ],
)
def test_refuses_text_that_is_not_json(impl: ModuleType, text: bytes, code: ParseErrorCode, offset: int | None) -> None:
    assert code_of(impl.Raw, text) == (code, offset)


def test_refuses_other_types(impl: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"^data must be bytes, bytearray, memoryview or str, not int$"):
        impl.Raw(1)
    assert code_of(impl.Raw, '"\ud800"') == (ParseErrorCode.INVALID_UTF8, 1)


def test_compares_hashes_and_copies_by_value(impl: ModuleType) -> None:
    raw = impl.Raw(b'{"a":1}')
    assert repr(raw) == "Raw(b'{\"a\":1}')"
    assert len(repr(impl.Raw(b'"' + b"x" * 10_000 + b'"'))) < 100
    assert raw != impl.Raw(b'{"a": 1}')
    assert raw != b'{"a":1}'
    for other in (copy.copy(raw), copy.deepcopy(raw), *[pickle.loads(pickle.dumps(raw, n)) for n in range(6)]):
        assert other == raw
        assert other.decode() == {"a": 1}
    with pytest.raises(AttributeError):
        raw.data = b"1"
    with pytest.raises(TypeError):
        type("Sub", (impl.Raw,), {})


def test_decodes_with_orjson_or_a_given_decoder(impl: ModuleType) -> None:
    msgspec = pytest.importorskip("msgspec")

    class Point(msgspec.Struct):
        x: int

    raw = impl.Raw(b'{"x":1,"y":1.0}')
    assert raw.decode() == {"x": 1, "y": 1.0}
    assert raw.decode(msgspec.json.Decoder(Point).decode) == Point(1)
    with pytest.raises(msgspec.ValidationError):
        raw.decode(msgspec.json.Decoder(list).decode)


@rows(
    ("text", "member", "kept"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params": {"a":[1]} }', "params", b'{"a":[1]}'),
        (b'{"method":"m","params":[1],"jsonrpc":"2.0","id":1}', "params", b"[1]"),
        (b'{"jsonrpc":"2.0","method":"m","params":[\n1,\r\n2]}', "params", b"[\n1,\r\n2]"),
        (b'{"jsonrpc":"2.0","id":1,"result":"0x36"}', "result", b'"0x36"'),
        (b'{"result":null,"id":1,"jsonrpc":"2.0"}', "result", b"null"),
    ],
)
def test_payloads_of_messages(impl: ModuleType, text: bytes, member: str, kept: bytes) -> None:
    message = impl.decode(text, raw=True)
    assert bytes(getattr(message, member)) == kept
    eager = impl.decode(text)
    assert type(message) is type(eager)
    assert getattr(message, member).decode() == getattr(eager, member)
    assert message.id == eager.id if hasattr(eager, "id") else True


def test_error_data(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"error":{"data": [1, 2] ,"message":"\xc3\xa9","code":-1}}'
    error = impl.decode(text, raw=True).error
    assert (error.code, error.message, bytes(error.data)) == (-1, "é", b"[1, 2]")
    text = b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m","d\\u0061ta":null,"more":[]}}'
    assert bytes(impl.decode(text, raw=True).error.data) == b"null"
    text = b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}'
    assert repr(impl.decode(text, raw=True).error.data) == "UNSET"


@rows(
    ("text", "code"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":1}', ParseErrorCode.INVALID_PARAMS_TYPE),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}', ParseErrorCode.INVALID_PARAMS_TYPE),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":}}', ParseErrorCode.MALFORMED_JSON),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":["\xff"]}', ParseErrorCode.INVALID_UTF8),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":[],"params":{}}', ParseErrorCode.DUPLICATE_MEMBER),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1e400]}', ParseErrorCode.MALFORMED_JSON),
        (b'{"jsonrpc":"2.0","id":1,"result":1,"error":{}}', ParseErrorCode.RESULT_AND_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"error":[]}', ParseErrorCode.INVALID_ERROR_TYPE),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":"1"}}', ParseErrorCode.INVALID_ERROR_CODE),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b"[" * 1025 + b"]" * 1025 + b"}", ParseErrorCode.TOO_DEEP),
    ],
)
def test_checks_are_the_same(impl: ModuleType, text: bytes, code: ParseErrorCode) -> None:
    assert impl.decode(text, raw=True).code is code
    assert impl.decode(text, raw=True) == impl.decode(text)


# Texts whose values are names of members, and in which the name of the payload, or of what follows it, is escaped.
CONFUSING: list[tuple[bytes, bytes]] = [
    (
        b'{"jsonrpc":"2.0","method":"id","params":[1],"\\u0069d":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"id","params":[1]}',
    ),
    (
        b'{"jsonrpc":"2.0","method":"x","params":[1,"id"],"\\u0069d":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":[1,"id"]}',
    ),
    (
        b'{"jsonrpc":"2.0","x":"params","y":[],"id":3,"method":"orders.add","par\\u0061ms":["evil"]}',
        b'{"jsonrpc":"2.0","id":3,"method":"orders.add","params":["evil"]}',
    ),
    (
        b'{"jsonrpc":"2.0","id":"params","x":[],"method":"admin","par\\u0061ms":[1]}',
        b'{"jsonrpc":"2.0","id":"params","method":"admin","params":[1]}',
    ),
    (b'{"jsonrpc":"2.0","result":["id"],"i\\u0064":3}', b'{"jsonrpc":"2.0","id":3,"result":["id"]}'),
    (b'{"jsonrpc":"2.0","id":"result","x":7,"re\\u0073ult":3}', b'{"jsonrpc":"2.0","id":"result","result":3}'),
    (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","d\\u0061ta":{"data":5}}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"data":5}}}',
    ),
    (
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"data","d\\u0061ta":5}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"data","data":5}}',
    ),
    (
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b" " * 70 + b'{"a":1}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}',
    ),
]


def test_a_value_is_not_taken_for_the_name_of_a_member(impl: ModuleType) -> None:
    for text, written in CONFUSING:
        message = impl.decode(text, raw=True)
        assert message.to_bytes() == written, text
        assert impl.encode(impl.decode(b"[" + text + b"," + text + b"]", raw=True), delimited=False) == (
            b"[" + written + b"," + written + b"]"
        )
        assert impl.decode(impl.encode_dict(impl.decode_dict(text))) == impl.decode(written)
    lines = b"".join([text + b"\n" for text, _ in CONFUSING])
    assert [message.to_bytes() for message in impl.Decoder(raw=True).feed(lines)] == [line for _, line in CONFUSING]


def test_a_raw_dispatcher_reads_the_names_of_members() -> None:
    handlers = Handlers({"x": lambda *params: list(params)})
    for name in (b'"id"', b'"\\u0069d"', b'"i\\u0064"'):
        text = b'{"jsonrpc":"2.0","method":"x","params":[1,"id"],%b:1}' % name
        assert handlers.dispatch(text, raw=True) == b'{"jsonrpc":"2.0","id":1,"result":[1,"id"]}\n'


@rows(
    "text",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"m","x":%s}',
        b'[{"jsonrpc":"2.0","id":1,"result":0,"x":[%s]},7,{"jsonrpc":"2.0","id":1,"method":"m","params":[%s]}]',
    ],
)
def test_the_laws_hold_for_an_ignored_integer_that_is_too_wide(impl: ModuleType, text: bytes) -> None:
    for digits in (4300, 5000):
        assert broken_law(impl, text.replace(b"%s", b"7" * digits), JSONRPC) is None


@given(seed=st.integers(min_value=0), profile=st.sampled_from(PROFILES))
@pytest.mark.ci
def test_the_laws_of_raw_payloads(impl: ModuleType, seed: int, profile: Profile) -> None:
    rng = random.Random(seed)
    texts = [confusing(rng) for _ in range(10)]
    for text in texts:
        assert broken_law(impl, text, profile) is None
    stream = b" ".join(texts)
    for framing in ("concatenated", "sse"):
        data = stream if framing == "concatenated" else b"".join([frame(text, framing) for text in texts])
        raw, eager = [impl.Decoder(framing, profile, raw=raw) for raw in (True, False)]
        assert (
            broken_law_of_stream(impl, raw.feed(data) + raw.close(), eager.feed(data) + eager.close(), profile) is None
        )


def test_profiles_check_raw_payloads(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"method":"m","params":%b}'
    assert impl.decode(text % b"null", LENIENT, raw=True).params is None
    assert impl.decode(text % b"[]", MCP_2025_11_25, raw=True).code is ParseErrorCode.INVALID_PARAMS_TYPE
    assert bytes(impl.decode(text % b"{}", MCP_2025_11_25, raw=True).params) == b"{}"
    text = b'{"jsonrpc":"2.0","id":1,"result":%b}'
    assert impl.decode(text % b"[]", MCP_2025_11_25, raw=True).code is ParseErrorCode.INVALID_RESULT_TYPE
    both = impl.decode(b'{"jsonrpc":"2.0","id":1,"result":2,"error":null}', LENIENT, raw=True)
    assert bytes(both.result) == b"2"
    shallow = JSONRPC.replace(limits=Limits(depth=1))
    assert bytes(impl.decode(text % b"[1]", shallow, raw=True).result) == b"[1]"
    assert impl.decode(text % b"[[]]", shallow, raw=True).code is ParseErrorCode.TOO_DEEP


def test_wide_integers(impl: ModuleType) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"result":[18446744073709551616]}'
    assert impl.decode(text, raw=True).result.decode() == [1.8446744073709552e19]
    exact = impl.decode(text, JSONRPC, raw=True).result
    assert exact.decode() == [18446744073709551616]
    assert pickle.loads(pickle.dumps(exact)).decode() == [18446744073709551616]
    rejected = impl.decode(text, JSONRPC.replace(big_ints="reject"), raw=True)
    assert rejected.code is ParseErrorCode.INTEGER_TOO_LARGE


def test_batches_and_streams(impl: ModuleType) -> None:
    line = b'[{"jsonrpc":"2.0","id":1,"method":"m","params":[1]},{"jsonrpc":"2.0","id":2,"result":{}}]'
    call, result = impl.decode(line, raw=True)
    assert (bytes(call.params), bytes(result.result)) == (b"[1]", b"{}")
    assert impl.Decoder(raw=True).feed(line + b"\n") == [[call, result]]


def test_is_encoded_verbatim(impl: ModuleType) -> None:
    params = impl.Raw(b'{"b" : 1.0, "a":"\\u00e9"}')
    written = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"b" : 1.0, "a":"\\u00e9"}}'
    assert impl.encode(impl.Request(1, "m", params), delimited=False) == written
    assert impl.encode_request(1, "m", params, delimited=False) == written
    assert (
        impl.Notification("m", params).to_bytes() == b'{"jsonrpc":"2.0","method":"m","params":' + bytes(params) + b"}"
    )
    assert impl.encode_result(1, impl.Raw(b"[1]")) == b'{"jsonrpc":"2.0","id":1,"result":[1]}\n'
    assert (
        impl.encode_error(1, 2, "x", impl.Raw(b"null"), delimited=False)
        == b'{"jsonrpc":"2.0","id":1,"error":{"code":2,"message":"x","data":null}}'
    )


def test_line_breaks_between_tokens_become_spaces(impl: ModuleType) -> None:
    raw = impl.Raw(b'{\r\n "a": [1,\n2],\n "b": "\\n"}')
    line = impl.encode_result(1, raw)
    assert line == b'{"jsonrpc":"2.0","id":1,"result":{   "a": [1, 2],  "b": "\\n"}}\n'
    assert impl.Decoder().feed(line)[0].result == {"a": [1, 2], "b": "\n"}


def test_deeper_than_orjson_writes(impl: ModuleType) -> None:
    text = b"[" * 1000 + b"]" * 1000
    message = impl.decode(b'{"jsonrpc":"2.0","id":1,"result":' + text + b"}", raw=True)
    assert message.to_bytes() == b'{"jsonrpc":"2.0","id":1,"result":' + text + b"}"
    with pytest.raises(EncodeError):
        impl.Response(1, orjson.loads(text)).to_bytes()


@rows("text", [b"1", b'"a"', b"null", b"true"])
def test_params_must_be_an_object_or_an_array(impl: ModuleType, text: bytes) -> None:
    for call in (lambda raw: impl.Request(1, "m", raw), lambda raw: impl.Notification("m", raw)):
        with pytest.raises(
            TypeError, match=r"^params must be a dict, a list, a tuple, a Raw of an object or array, or None, not Raw$"
        ):
            call(impl.Raw(text))
    with pytest.raises(TypeError):
        impl.encode_request(1, "m", impl.Raw(text))


def test_is_kept_by_to_dict_and_from_dict(impl: ModuleType) -> None:
    for message in (
        impl.Request(1, "m", impl.Raw(b"[1]")),
        impl.Notification("m", impl.Raw(b"{}")),
        impl.Response(1, impl.Raw(b"1")),
        impl.Response(1, error=impl.Error(1, "m", impl.Raw(b"1"))),
    ):
        assert impl.parse(message.to_dict()) == message
        assert type(message).from_dict(message.to_dict()) == message
        assert pickle.loads(pickle.dumps(message)) == message


@pytest.mark.ci
def test_json_test_suite(impl: ModuleType, corpora: Path) -> None:
    """JSONTestSuite through the scanner: y_ accepted, n_ refused, i_ as in orjson."""
    files = sorted((corpora / "jsontestsuite" / "test_parsing").iterdir())
    assert len(files) == 318
    for file in files:
        text = file.read_bytes()
        try:
            impl.Raw(text)
        except ParseError:
            accepted = False
        else:
            accepted = True
        if file.name.startswith("i_"):
            try:
                orjson.loads(text)
            except orjson.JSONDecodeError:
                assert not accepted, file.name
            else:
                assert accepted, file.name
        else:
            assert accepted == file.name.startswith("y_"), file.name


def held_of(make: Callable[[], Any]) -> tuple[int, int]:
    """The memory that a value holds, and the peak while making it, in bytes."""
    with measured() as memory:
        value = make()
    assert value is not None
    return memory.held, memory.peak


@rows("before", [True, False])
def test_a_small_payload_does_not_keep_a_large_message(impl: ModuleType, before: bool) -> None:
    def make() -> list[Any]:
        return [impl.decode(b"".join(parts), raw=True) for _ in range(10)]

    parts = [b'{"jsonrpc":"2.0","id":1,"method":"m","params":[]', b',"other":"', 600_000 * b"x", b'"}']
    if before:
        parts = [b'{"other":"', 600_000 * b"x", b'",', parts[0][1:], b"}"]
    held, _ = held_of(make)
    assert held < 20_000


def test_a_small_item_does_not_keep_a_large_batch(impl: ModuleType) -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}'
    large = b'{"jsonrpc":"2.0","id":1,"method":"m","params":["%b"]}' % (600_000 * b"x")
    held, _ = held_of(lambda: [impl.decode(b"[" + call + b"," + large + b"]", raw=True)[0] for _ in range(10)])
    assert held < 20_000


def test_the_repr_of_a_large_raw_is_cheap(impl: ModuleType) -> None:
    raw = impl.Raw(b'["' + 600_000 * b"x" + b'"]')
    message = impl.Request(1, "m", raw)
    _, peak = held_of(lambda: (repr(raw), repr(message)))
    assert peak < 20_000
    assert len(repr(message)) < 200


@rows(
    ("text", "value"), [(b'{"a":[1,null]}', {"a": [1, None]}), (b" null ", None), (b"0", 0), (b'"\\u00e9"', "\u00e9")]
)
def test_the_value_of_a_raw(text: bytes, value: Any) -> None:
    assert decoded(Raw(text)) == value
    assert type(decoded(Raw(text))) is type(value)


@rows("value", [None, UNSET, 0, "", b"[1]", [Raw(b"1")], {"a": Raw(b"1")}], ids=repr)
def test_any_other_value_is_returned_as_it_is(value: Any) -> None:
    assert decoded(value) is value
