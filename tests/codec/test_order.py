"""A message with two faults: the first one in the order of docs/rules.md is reported."""

from __future__ import annotations

from types import ModuleType

from jsonrpc_fast.profile import JSONRPC, LENIENT, MCP_2025_03_26, MCP_2025_11_25, Limits, Profile
from jsonrpc_fast.validator import JsonRpcValidator

from ..support.describe import Description, describe, fault, fill, text_fault
from ..support.oracle import orjson
from ..support.tables import rows

TINY = JSONRPC.replace(
    extra_members=False,
    big_ints="reject",
    limits=Limits(message_bytes=200, depth=2, batch_items=2, method_bytes=4, id_bytes=32),
)
STRICT = MCP_2025_11_25.replace(extra_members=False)
LONG_ID = '"' + 33 * "i" + '"'

PAIRS = [
    # the text itself, before its limits
    ("UTF-8, then JSON", TINY, b'{"a":]\xff', text_fault("INVALID_UTF8", 6)),
    ("JSON, then depth", TINY, '{"id":1,"params":[[[]]],}', text_fault("MALFORMED_JSON", 24)),
    ("JSON, then method's length", TINY, '{"id":1,"method":"mmmmm",}', text_fault("MALFORMED_JSON", 25)),
    ("JSON, then id's length", TINY, fill('{"id":%s,}', LONG_ID), text_fault("MALFORMED_JSON", 42)),
    ("JSON up to the allowed items, then batch items", TINY, "[1,x,3,4]", text_fault("MALFORMED_JSON", 3)),
    ("UTF-8, then batch items", TINY, b'[1,2,"\xff"]', text_fault("INVALID_UTF8", 6)),
    ("batch items, then JSON behind them", TINY, "[1,2,3,]", fault("BATCH_TOO_LARGE")),
    ("JSON, then batches at all", STRICT, "[1,2,3,]", text_fault("MALFORMED_JSON", 7)),
    ("JSON, then an object", TINY, "1 2", text_fault("MALFORMED_JSON", 2)),
    ("JSON, then a duplicate", TINY, '{"id":1,"id":2', text_fault("MALFORMED_JSON", 14)),
    # its limits, before duplicate members
    ("depth, then method's length", TINY, '{"id":1,"method":"mmmmm","params":[[[]]]}', fault("TOO_DEEP", 1)),
    ("method's length, then id's", TINY, fill('{"id":%s,"method":"mmmmm"}', LONG_ID), fault("METHOD_TOO_LONG")),
    ("id's length, then wide integers", TINY, fill('{"id":%s,"params":[%s]}', LONG_ID, "9" * 20), fault("ID_TOO_LONG")),
    (
        "wide integers, then a duplicate",
        TINY,
        fill('{"id":1,"id":1,"params":[%s]}', "9" * 20),
        fault("INTEGER_TOO_LARGE"),
    ),
    ("depth, then a duplicate", TINY, '{"id":1,"id":1,"params":[[[]]]}', fault("TOO_DEEP")),
    ("method's length, then a duplicate", TINY, '{"id":1,"id":1,"method":"mmmmm"}', fault("METHOD_TOO_LONG")),
    ("id's length, then a duplicate", TINY, fill('{"id":1,"id":%s,"method":"m"}', LONG_ID), fault("ID_TOO_LONG")),
    ("batches at all, then batch items", TINY.replace(batches=False), "[1,2,3]", fault("BATCH_NOT_ALLOWED")),
    ("batches at all, then an empty one", STRICT, "[]", fault("BATCH_NOT_ALLOWED")),
    ("batch items, then its items", TINY, "[1,2,3]", fault("BATCH_TOO_LARGE")),
    ("depth, then an object", TINY, "[[[[]]],[[]]]", [fault("TOO_DEEP", index=0), fault("NOT_AN_OBJECT", index=1)]),
    # duplicate members, before jsonrpc
    ("duplicate, then no jsonrpc", JSONRPC, '{"id":1,"id":1,"method":"m"}', fault("DUPLICATE_MEMBER")),
    ("duplicate, then jsonrpc", JSONRPC, '{"jsonrpc":1,"jsonrpc":2,"id":1}', fault("DUPLICATE_MEMBER")),
    # jsonrpc, before id
    ("no jsonrpc, then id", JSONRPC, '{"id":true,"method":"m"}', fault("MISSING_JSONRPC")),
    ("jsonrpc, then id", JSONRPC, '{"jsonrpc":"2.1","id":[],"method":"m"}', fault("INVALID_JSONRPC_VERSION")),
    ("jsonrpc, then no id", JSONRPC, '{"jsonrpc":"2.1","result":1}', fault("INVALID_JSONRPC_VERSION", reply=False)),
    ("no jsonrpc, then no method", JSONRPC, '{"id":1}', fault("MISSING_JSONRPC", 1)),
    # id, before method with result or error
    (
        "id, then method with result",
        JSONRPC,
        '{"jsonrpc":"2.0","id":{},"method":"m","result":1}',
        fault("INVALID_ID_TYPE", reply=False),
    ),
    ("id, then neither", JSONRPC, '{"jsonrpc":"2.0","id":true}', fault("INVALID_ID_TYPE")),
    (
        "id, then result and error",
        JSONRPC,
        '{"jsonrpc":"2.0","id":[],"result":1,"error":1}',
        fault("INVALID_ID_TYPE", reply=False),
    ),
    (
        "no id, then result and error",
        MCP_2025_11_25,
        '{"jsonrpc":"2.0","result":1,"error":1}',
        fault("MISSING_ID", reply=False),
    ),
    # method with result or error, before method
    (
        "method with result, then method",
        JSONRPC,
        '{"jsonrpc":"2.0","id":1,"method":1,"result":1}',
        fault("AMBIGUOUS_MESSAGE", 1, reply=False),
    ),
    (
        "method with error, then an empty method",
        STRICT,
        '{"jsonrpc":"2.0","id":1,"method":"","error":1}',
        fault("AMBIGUOUS_MESSAGE", 1, reply=False),
    ),
    # method, before params
    (
        "method, then params",
        JSONRPC,
        '{"jsonrpc":"2.0","id":1,"method":null,"params":1}',
        fault("INVALID_METHOD_TYPE", 1),
    ),
    ("empty method, then params", STRICT, '{"jsonrpc":"2.0","id":1,"method":"","params":[]}', fault("EMPTY_METHOD", 1)),
    # result, before error
    (
        "result and error, then result",
        STRICT,
        '{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}',
        fault("RESULT_AND_ERROR", 1, reply=False),
    ),
    (
        "result and error, then error",
        STRICT,
        '{"jsonrpc":"2.0","id":1,"result":{},"error":1}',
        fault("RESULT_AND_ERROR", 1, reply=False),
    ),
    (
        "code, then message",
        JSONRPC,
        '{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":2}}',
        fault("INVALID_ERROR_CODE", 1, reply=False),
    ),
    # members that the protocol does not define come last
    (
        "params, then a member",
        STRICT,
        '{"x":1,"jsonrpc":"2.0","id":1,"method":"m","params":1}',
        fault("INVALID_PARAMS_TYPE", 1),
    ),
    (
        "result, then a member",
        STRICT,
        '{"x":1,"jsonrpc":"2.0","id":1,"result":1}',
        fault("INVALID_RESULT_TYPE", 1, reply=False),
    ),
    (
        "error, then a member",
        STRICT,
        '{"x":1,"jsonrpc":"2.0","id":1,"error":1}',
        fault("INVALID_ERROR_TYPE", 1, reply=False),
    ),
    ("neither, then a member", STRICT, '{"x":1,"jsonrpc":"2.0","id":1}', fault("MISSING_METHOD", 1)),
]
IDS = [name for name, _, _, _ in PAIRS]
TEXT_SHOWS = {"MALFORMED_JSON", "INVALID_UTF8", "TOO_DEEP", "DUPLICATE_MEMBER", "INTEGER_TOO_LARGE"}


def has_text_fault(expected: Description) -> bool:
    items = expected if isinstance(expected, list) else [expected]
    return any(item[1] in TEXT_SHOWS for item in items)


@rows(("name", "profile", "text", "expected"), PAIRS, ids=IDS)
def test_decode(impl: ModuleType, name: str, profile: Profile, text: str | bytes, expected: Description) -> None:
    assert describe(impl.decode(text, profile)) == expected


@rows(
    ("name", "profile", "text", "expected"),
    [pair for pair in PAIRS if not has_text_fault(pair[3]) and "duplicate" not in pair[0] and "behind" not in pair[0]],
)
def test_parse(impl: ModuleType, name: str, profile: Profile, text: str, expected: Description) -> None:
    assert describe(impl.parse(orjson.loads(text), profile)) == expected


def test_a_fault_of_the_text_comes_before_faults_of_items(impl: ModuleType) -> None:
    text = '[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":1'
    assert describe(impl.decode(text)) == text_fault("MALFORMED_JSON", len(text))


def test_the_size_is_checked_before_the_text_is_read(impl: ModuleType) -> None:
    assert describe(impl.decode(200 * b"\xff", TINY)) == text_fault("INVALID_UTF8", 0)
    assert describe(impl.decode(201 * b"\xff", TINY)) == fault("MESSAGE_TOO_LARGE")


UNEXPECTED = [
    ('{"jsonrpc":"2.0","id":1,"method":"m","x":1}', fault("UNEXPECTED_MEMBER", 1)),
    ('{"jsonrpc":"2.0","method":"m","x":1}', fault("UNEXPECTED_MEMBER", reply=False)),
    ('{"":null,"jsonrpc":"2.0","id":1,"result":{}}', fault("UNEXPECTED_MEMBER", 1, reply=False)),
    ('{"jsonrpc":"2.0","id":1,"result":{},"params":{}}', fault("UNEXPECTED_MEMBER", 1, reply=False)),
    ('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""},"?":1}', fault("UNEXPECTED_MEMBER", 1, reply=False)),
    ('{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","x":1}}', fault("UNEXPECTED_MEMBER", 1, reply=False)),
    ('{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":1}}', ("Request", 1, "m", {"x": 1})),
    (r'{"jsonrpc":"2.0","id":1,"m\u0065thod":"m"}', ("Request", 1, "m", None)),
]


@rows(("text", "expected"), UNEXPECTED)
def test_unexpected_members(impl: ModuleType, text: str, expected: Description) -> None:
    assert describe(impl.decode(text, STRICT)) == expected
    assert describe(impl.parse(orjson.loads(text), STRICT)) == expected


def test_unexpected_members_of_a_batch(impl: ModuleType) -> None:
    profile = MCP_2025_03_26.replace(extra_members=False)
    text = '[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"method":"m","x":1}]'
    expected = [("Request", 1, "m", None), fault("UNEXPECTED_MEMBER", 2, index=1)]
    assert describe(impl.decode(text, profile)) == expected
    assert describe(impl.parse(orjson.loads(text), profile)) == expected


def test_a_null_companion_is_not_an_unexpected_member(impl: ModuleType) -> None:
    text = '{"jsonrpc":"2.0","id":1,"result":2,"error":null}'
    assert describe(impl.decode(text, LENIENT.replace(extra_members=False))) == ("Result", 1, 2)


@rows(
    ("members", "is_exact"),
    [
        ('"code":1,"message":"e"', True),
        ('"code":1,"message":"e","data":{"x":1}', True),
        ('"code":1,"message":"e","x":1', False),
        ('"code":1,"message":"e","data":null,"?":[]', False),
        ('"x":{"data":1},"message":"e","code":1', False),
        (r'"c\u006fde":1,"message":"e"', True),
    ],
)
def test_a_member_of_the_error_that_the_profile_refuses(impl: ModuleType, members: str, is_exact: bool) -> None:
    strict = JSONRPC.replace(extra_members=False)
    text = f'{{"jsonrpc":"2.0","id":1,"error":{{{members}}}}}'
    expected = "Error" if is_exact else "ParseError"
    for spelled in (text, text.replace(",", " , "), f"[{text}]", f"[{text},{text}]"):
        for raw in (False, True):
            found = describe(impl.decode(spelled, strict, raw=raw))
            for item in found if isinstance(found, list) else [found]:
                assert item[0] == expected
                if not is_exact:
                    assert item[1:4] == ("UNEXPECTED_MEMBER", -32600, 1)
                    assert item[6] is False
    obj = orjson.loads(text)
    assert describe(impl.parse(obj, strict))[0] == expected
    assert (impl.Response.from_dict(obj, strict) is not None) is is_exact
    assert describe(impl.decode(text)) == describe(impl.parse(obj))
    assert describe(impl.decode(text))[0] == "Error"
    assert JsonRpcValidator(strict).validate_response(obj).valid is is_exact
