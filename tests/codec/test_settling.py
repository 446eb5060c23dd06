"""`ParseError.settles`: the calls that a message answers, readable or not."""

from __future__ import annotations

import copy
import json
import pickle
from types import ModuleType

import pytest

from jsonrpc_fast import JSONRPC, LENIENT, LSP, MCP_2025_11_25, Limits, Profile
from tests.support.tables import rows

RESULT = b'{"jsonrpc":"2.0","id":7,"result":'
ERROR = b'{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"m","data":'


@rows(
    ("text", "settles"),
    [
        # the text is at fault, behind the id
        (RESULT + b"NaN}", (7,)),
        (RESULT + b"[-Infinity]}", (7,)),
        (RESULT + b'"caf\xe9"}', (7,)),
        (RESULT + b'"a\x01b"}', (7,)),
        (RESULT + b'"C:\\path"}', (7,)),
        (RESULT + b"01}", (7,)),
        (RESULT + b"1e400}", (7,)),
        (RESULT + b"[1,]}", (7,)),
        (RESULT + b"[1", (7,)),
        (RESULT, (7,)),
        (RESULT + b"1}}", (7,)),
        (RESULT + b"1}" + RESULT + b"2}", (7,)),
        (RESULT + b'"\\ud800', (7,)),
        (RESULT + b'["\\ud800",NaN]}', (7,)),
        (ERROR + b"NaN}}", ("a",)),
        (b'{"jsonrpc":"2.0","result":1,"id":7 x', (7,)),
        (b'{"jsonrpc":"2.0","result":1,"id":7,\xff', (7,)),
        (b'{"\\u0069d":12345678901234567890123,"result":NaN}', (12345678901234567890123,)),
        (b"\xef\xbb\xbf" + RESULT + b"1}", ()),
        # a member occurs twice, but not the id
        (b'{"jsonrpc":"2.0","id":7,"result":1,"result":2}', (7,)),
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"},"error":1}', (7,)),
        (b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"result":2}', (7,)),
        (b'{"result":1,"r\\u0065sult":2,"id":7}', (7,)),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","method":"m"}', ()),
        (b'{"jsonrpc":"2.0","method":"m","method":"m"}', ()),
        (b'{"jsonrpc":"2.0","id":null,"result":1,"result":2}', ()),
        (b'{"jsonrpc":"2.0","id":[7],"result":1,"result":2}', ()),
        (b'{"jsonrpc":"2.0","id":7,"result":1,"result":NaN}', ()),
        # the id is not certain
        (b'{"jsonrpc":"2.0","id":7,"id":7,"result":1}', ()),
        (b'{"jsonrpc":"2.0","id":7,"id":7,"result":1,"result":1}', ()),
        (b'{"jsonrpc":"2.0","result":1,"result":1,"id":7,"id":7}', ()),
        (b'{"jsonrpc":"2.0","result":1,"id":7', ()),
        (b'{"jsonrpc":"2.0","result":1,"id":7x', ()),
        (b'{"jsonrpc":"2.0","result":1,"id":7\xff', ()),
        (b'{"jsonrpc":"2.0","result":NaN,"id":7}', ()),
        (b'{"id":7,"id":8,"result":NaN}', ()),
        (b'{"id":7,"result":1,"id":NaN}', ()),
        (b'{"id":"\xff","result":1}', ()),
        (b'{"id":null,"result":NaN}', ()),
        (b'{"id":[7],"result":NaN}', ()),
        (b'{"id":0.10000000000000000001,"result":NaN}', ()),
        # not a response, as far as it was read
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":[NaN]}', ()),
        (b'{"jsonrpc":"2.0","id":7,"result', ()),
        (b'{"jsonrpc":"2.0","id":7,"result"', ()),
        (b'{"jsonrpc":"2.0","id":7,"result":', (7,)),
        (b"NaN", ()),
        (b"", ()),
        # batches
        (b"[" + RESULT + b"1}," + ERROR + b"NaN}}]", (7, "a")),
        (b"[" + RESULT + b"1}," + ERROR + b"1}}", (7, "a")),
        (b"[" + RESULT + b"1}]]", (7,)),
        (b'[{"id":1,"result":1},3,{"id":2},{"jsonrpc":"2.0","id":3},{"method":"m"},{"id":null,"error":1},x', (1, 3)),
        (b"[[" + RESULT + b"NaN}]]", ()),
        # the message is at fault
        (b'{"jsonrpc":"2.0","id":7,"result":1,"error":1}', (7,)),
        (b'{"jsonrpc":"2.0","id":7}', (7,)),
        (b'{"jsonrpc":"2.0","id":7,"error":3}', (7,)),
        (b'{"id":7,"result":"\\ud800"}', (7,)),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":3}', ()),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","result":3}', (7,)),
        (b'{"jsonrpc":"2.0","id":true,"result":3}', ()),
    ],
)
def test_the_calls_that_a_fault_answers(impl: ModuleType, text: bytes, settles: tuple[object, ...]) -> None:
    fault = impl.decode(text)
    assert fault.settles == settles
    assert list(map(type, fault.settles)) == list(map(type, settles))
    assert not (settles and fault.reply_expected and fault.code.name != "MISSING_METHOD")
    assert impl.decode(text, raw=True) == fault
    assert impl.decode(bytearray(text)) == fault
    assert fault.to_response().id == fault.id


@rows(
    ("profile", "text", "settles"),
    [
        (LSP, b'{"id":1.5,"result":NaN}', ()),
        (JSONRPC, b'{"id":1.5,"result":NaN}', (1.5,)),
        (LSP, b'[{"id":1,"result":NaN}]', (1,)),
        (LSP, b'[{"id":1,"result":1},x', (1,)),
        (
            LSP,
            b'[{"id":1,"result":1},7,{"id":2,"result":1},{"jsonrpc":"2.0","id":3,"method":"m"}]',
            (1, 2),
        ),
        (LSP, b'[{"jsonrpc":"2.0","id":3,"method":"m"}]', ()),
        (LSP, b"[]", ()),
        (MCP_2025_11_25, b'{"id":1,"result":NaN}', (1,)),
        (LENIENT, b'{"id":1,"error":null,"result":NaN}', (1,)),
        (JSONRPC.replace(limits=Limits(id_bytes=32)), b'{"id":"%b","result":NaN}' % (33 * b"i"), ()),
        (JSONRPC.replace(limits=Limits(batch_items=2)), b'[{"id":1,"result":1},{"id":2,"result":\xff', (1, 2)),
        (JSONRPC.replace(limits=Limits(batch_items=1)), b'[{"id":1,"result":1},{"id":2,"result":\xff', (1,)),
        (JSONRPC.replace(limits=Limits(batch_items=1)), b"[%b1},%b1}}]" % (RESULT, ERROR), (7,)),
        (JSONRPC.replace(limits=Limits(batch_items=1)), b"[%b1},%b1}},x" % (RESULT, ERROR), (7,)),
        (JSONRPC.replace(limits=Limits(batch_items=2)), b"[%b1},%b1}},x" % (RESULT, ERROR), (7, "a")),
        (JSONRPC.replace(limits=Limits(message_bytes=40)), b'{"id":1,"result":"%b"}' % (99 * b"i"), (1,)),
    ],
)
def test_the_profile_decides(impl: ModuleType, profile: Profile, text: bytes, settles: tuple[object, ...]) -> None:
    fault = impl.decode(text, profile)
    assert fault.settles == settles
    assert impl.decode(text, profile, raw=True) == fault
    assert not (settles and fault.reply_expected)
    if fault.offset is None and text.startswith(b"[") and text.endswith(b"]"):
        assert impl.parse(json.loads(text), profile) == fault


def test_a_str_with_a_lone_surrogate(impl: ModuleType) -> None:
    fault = impl.decode('{"jsonrpc":"2.0","id":7,"result":"\ud800"}')
    assert (fault.code.name, fault.offset, fault.id, fault.settles) == ("INVALID_UTF8", 34, None, (7,))


@rows(
    ("framing", "data", "settles"),
    [
        ("newline", RESULT + b"NaN}\n" + ERROR + b'"\xff"}}\n' + RESULT, [(7,), ("a",), (7,)]),
        ("newline", RESULT + b'"\xe2\x82', [(7,)]),
        ("content-length", b"Content-Length: 37\r\n\r\n" + RESULT + b"NaN}", [(7,)]),
        ("content-length", b"Content-Length: 99\r\n\r\n" + RESULT + b"[1", [(7,)]),
        ("sse", b"data: " + RESULT + b"NaN}\n\n", [(7,)]),
        ("concatenated", RESULT + b"NaN}" + RESULT + b'"\x01', [(7,), (7,)]),
        ("concatenated", RESULT + b"[1", [(7,)]),
        ("auto", RESULT + b"NaN}\n", [(7,)]),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_streams(impl: ModuleType, framing: str, data: bytes, settles: list[tuple[object, ...]], size: int) -> None:
    decoder = impl.Decoder(framing)
    items = [item for at in range(0, len(data), size) for item in decoder.feed(data[at : at + size])]
    assert [item.settles for item in items + decoder.close()] == settles


def test_equality_copies_and_pickles(impl: ModuleType) -> None:
    fault, same, other = (impl.decode(b'{"id":%b,"result":x' % id) for id in (b"1", b"1", b"1.0"))
    assert fault == same
    assert hash(fault) == hash(same)
    assert fault != other
    for made in (copy.copy(fault), copy.deepcopy(fault), pickle.loads(pickle.dumps(fault)), fault.replace()):
        assert made == fault
        assert made.settles == (1,)
    assert "1" not in repr(fault).replace(f"offset={fault.offset}", "")
    assert impl.ParseError.malformed_json(settles=(1, "b")).settles == (1, "b")
