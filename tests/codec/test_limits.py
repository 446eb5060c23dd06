"""Each limit, at its value and one above, for single messages and in batches."""

from __future__ import annotations

from types import ModuleType

import pytest

import jsonrpc_fast
from jsonrpc_fast.codes import ParseErrorCode
from jsonrpc_fast.profile import JSONRPC, MCP_2025_11_25, Limits, Profile

from ..support.describe import Description, describe, fault, fill, notification, request, result, text_fault
from ..support.oracle import orjson
from ..support.tables import rows


def limited(**limits: int) -> Profile:
    return JSONRPC.replace(limits=Limits(**limits))


def decode_alone_and_in_a_batch(impl: ModuleType, text: str | bytes, profile: Profile) -> Description:
    """The result of `decode` for a text, which must be the same in a batch."""
    alone = describe(impl.decode(text, profile))
    raw = text.encode() if isinstance(text, str) else text
    [_, inside] = describe(impl.decode(b"[0," + raw + b"]", profile))
    if alone[0] == "ParseError":
        assert inside == (*alone[:5], 1, alone[6])
    else:
        assert inside == alone
    return alone


def nested(depth: int) -> str:
    return depth * "[" + depth * "]"


REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"m"}'


class TestMessageBytes:
    @rows("data", [REQUEST, bytearray(REQUEST), memoryview(REQUEST), REQUEST.decode()])
    def test_bound(self, impl: ModuleType, data: bytes | bytearray | memoryview | str) -> None:
        assert describe(impl.decode(data, limited(message_bytes=37))) == request(1, "m")
        assert describe(impl.decode(data, limited(message_bytes=36))) == fault("MESSAGE_TOO_LARGE", 1)

    def test_space_counts(self, impl: ModuleType) -> None:
        assert describe(impl.decode(REQUEST + b" ", limited(message_bytes=38))) == request(1, "m")
        assert describe(impl.decode(REQUEST + b" ", limited(message_bytes=37))) == fault("MESSAGE_TOO_LARGE", 1)

    def test_a_str_counts_in_bytes(self, impl: ModuleType) -> None:
        text = '{"jsonrpc":"2.0","method":"é😀"}'
        assert describe(impl.decode(text, limited(message_bytes=35))) == notification("é😀")
        assert describe(impl.decode(text, limited(message_bytes=34))) == fault("MESSAGE_TOO_LARGE")

    def test_a_batch_counts_as_a_whole(self, impl: ModuleType) -> None:
        batch = b"[%b]" % REQUEST
        assert describe(impl.decode(batch, limited(message_bytes=39))) == [request(1, "m")]
        assert describe(impl.decode(batch, limited(message_bytes=38))) == fault("MESSAGE_TOO_LARGE")

    @pytest.mark.ci
    def test_default(self, impl: ModuleType) -> None:
        size = 67108864 if jsonrpc_fast.BACKEND == "cython" else 16777216
        assert Limits().message_bytes == JSONRPC.limits.message_bytes == size
        text = REQUEST + (size - len(REQUEST)) * b" "
        assert describe(impl.decode(text)) == request(1, "m")
        assert describe(impl.decode(text + b" ")) == fault("MESSAGE_TOO_LARGE", 1)


class TestDepth:
    @rows("limit", [1, 2, 8, 63, 64, 65, 127, 128, 129, 500])
    def test_bound(self, impl: ModuleType, limit: int) -> None:
        profile = limited(depth=limit)
        text = '{"jsonrpc":"2.0","id":1,"method":"m","params":%s}'
        assert decode_alone_and_in_a_batch(impl, text % nested(limit), profile) == request(
            1, "m", orjson.loads(nested(limit))
        )
        assert decode_alone_and_in_a_batch(impl, text % nested(limit + 1), profile) == fault("TOO_DEEP", 1)

    def test_objects_count(self, impl: ModuleType) -> None:
        text = '{"jsonrpc":"2.0","id":"x","result":{"a":[{"b":1}]}}'
        assert decode_alone_and_in_a_batch(impl, text, limited(depth=3)) == result("x", {"a": [{"b": 1}]})
        assert decode_alone_and_in_a_batch(impl, text, limited(depth=2)) == fault("TOO_DEEP", "x", reply=False)

    def test_empty_containers_count(self, impl: ModuleType) -> None:
        text = '{"jsonrpc":"2.0","method":"m","params":[[],{}]}'
        assert decode_alone_and_in_a_batch(impl, text, limited(depth=2)) == notification("m", [[], {}])
        assert decode_alone_and_in_a_batch(impl, text, limited(depth=1)) == fault("TOO_DEEP", reply=False)

    def test_breadth_does_not_count(self, impl: ModuleType) -> None:
        params = "[" + ",".join(50 * ["[]"]) + "]"
        text = fill('{"jsonrpc":"2.0","id":1,"method":"m","params":%s}', params)
        assert decode_alone_and_in_a_batch(impl, text, limited(depth=2)) == request(1, "m", [[] for _ in range(50)])

    def test_brackets_in_strings_do_not_count(self, impl: ModuleType) -> None:
        text = '{"jsonrpc":"2.0","id":"[[[[","method":"{{{","params":["[[["]}'
        assert decode_alone_and_in_a_batch(impl, text, limited(depth=1)) == request("[[[[", "{{{", ["[[["])

    @rows(
        ("member", "id", "reply"),
        [
            ('"id":1,"method":"m","x":[[]]', 1, True),
            ('"id":[[]],"method":"m"', None, True),
            ('"id":1,"method":[[]]', 1, True),
            ('"method":[[]]', None, True),
            ('"id":1,"method":"m","params":[[]]', 1, True),
            ('"method":"m","params":[[]]', None, False),
            ('"id":1,"result":[[]]', 1, False),
            ('"id":1,"error":{"data":[]}', 1, False),
            ('"id":1,"method":"m","params":[[]],"params":[]', None, True),
        ],
    )
    def test_in_any_member(self, impl: ModuleType, member: str, id: object, reply: bool) -> None:
        assert decode_alone_and_in_a_batch(impl, fill('{"jsonrpc":"2.0",%s}', member), limited(depth=1)) == fault(
            "TOO_DEEP", id, reply=reply
        )

    @rows("limit", [1022, 1023, 1024])
    def test_the_depth_of_orjson(self, impl: ModuleType, limit: int) -> None:
        text = '{"jsonrpc":"2.0","id":1,"result":%s}'
        alone = impl.decode(text % nested(limit), limited(depth=limit))
        [in_a_batch] = impl.decode("[" + text % nested(limit) + "]", limited(depth=limit))
        for message in (alone, in_a_batch):
            value = message.result
            for _ in range(limit - 1):
                [value] = value
            assert value == []
        assert describe(impl.decode(text % nested(limit + 1), limited(depth=limit))) == fault(
            "TOO_DEEP", 1, reply=False
        )
        assert describe(impl.decode("[" + text % nested(limit + 1) + "]", limited(depth=limit))) == [
            fault("TOO_DEEP", 1, reply=False, index=0)
        ]

    def test_default(self, impl: ModuleType) -> None:
        text = '{"jsonrpc":"2.0","id":1,"result":%s}'
        assert impl.decode(text % nested(1024)).id == 1
        assert describe(impl.decode(text % nested(1025))) == fault("TOO_DEEP", 1, reply=False)

    @rows("depth", [1025, 2048, 2049, 100_000])
    @pytest.mark.ci
    def test_far_too_deep(self, impl: ModuleType, depth: int) -> None:
        assert describe(impl.decode(nested(depth))) == [fault("TOO_DEEP" if depth > 1025 else "NOT_AN_OBJECT", index=0)]
        objects = depth * '{"a":' + "1" + depth * "}"
        assert describe(impl.decode(fill('{"id":1,"x":%s}', objects))) == fault("TOO_DEEP", 1)
        assert describe(impl.decode(depth * "[")) == text_fault("MALFORMED_JSON", depth)
        assert describe(impl.decode('{"id":1,"x":' + depth * "[")) == text_fault("MALFORMED_JSON", 12 + depth)


class TestBatchItems:
    def test_bound(self, impl: ModuleType) -> None:
        items = [{"jsonrpc": "2.0", "method": "m"}, 1, {}]
        for count in (1, 2, 3):
            profile = limited(batch_items=count)
            assert len(impl.decode(orjson.dumps(items[:count]), profile)) == count
            assert len(impl.parse(items[:count], profile)) == count
        assert describe(impl.decode(orjson.dumps(items), limited(batch_items=2))) == fault("BATCH_TOO_LARGE")
        assert describe(impl.parse(items, limited(batch_items=2))) == fault("BATCH_TOO_LARGE")

    def test_with_faults_that_only_the_text_shows(self, impl: ModuleType) -> None:
        text = '[{"id":1,"id":1},1,{}]'
        assert describe(impl.decode(text, limited(batch_items=2))) == fault("BATCH_TOO_LARGE")
        assert len(impl.decode(text, limited(batch_items=3))) == 3

    def test_what_follows_the_limit_is_not_read(self, impl: ModuleType) -> None:
        item = b'{"jsonrpc":"2.0","id":1,"method":"m"}'
        for items in (b"[1,1,x", b"[{},1,", b"[" + item + b" , " + item + b" ,]", b"[1,1,1]x"):
            for raw in (False, True):
                assert describe(impl.decode(items, limited(batch_items=2), raw=raw)) == fault("BATCH_TOO_LARGE")
        assert describe(impl.decode(b"[1,1,x", limited(batch_items=3))) == text_fault("MALFORMED_JSON", 5)
        assert describe(impl.decode(b'[1,1,"\xff"', limited(batch_items=2))) == text_fault("INVALID_UTF8", 6)
        assert describe(impl.decode(b"[1,1,x", MCP_2025_11_25.replace(limits=Limits(batch_items=2)))) == fault(
            "BATCH_NOT_ALLOWED"
        )
        many = b"[" + 10_000 * b"1," + b"x"
        assert describe(impl.decode(many)) == fault("BATCH_TOO_LARGE")

    def test_default(self, impl: ModuleType) -> None:
        assert len(impl.decode("[" + ",".join(10_000 * ["1"]) + "]")) == 10_000
        assert describe(impl.decode("[" + ",".join(10_001 * ["1"]) + "]")) == fault("BATCH_TOO_LARGE")


class TestMethodBytes:
    @rows(
        ("token", "method", "size"),
        [
            ("abcdef", "abcdef", 6),
            ("éèê", "éèê", 6),
            ("😀ab", "😀ab", 6),
            ("😀😀😀", "😀😀😀", 12),
            (r"\u00e9\ud83d\ude00", "é😀", 6),
            (r"a\n\\\"bc", 'a\n\\"bc', 6),
        ],
    )
    def test_bound(self, impl: ModuleType, token: str, method: str, size: int) -> None:
        text = fill('{"jsonrpc":"2.0","id":1,"method":"%s"}', token)
        assert decode_alone_and_in_a_batch(impl, text, limited(method_bytes=size)) == request(1, method)
        assert decode_alone_and_in_a_batch(impl, text, limited(method_bytes=size - 1)) == fault("METHOD_TOO_LONG", 1)
        obj = {"jsonrpc": "2.0", "id": 1, "method": method}
        assert describe(impl.parse(obj, limited(method_bytes=size))) == request(1, method)
        assert describe(impl.parse(obj, limited(method_bytes=size - 1))) == fault("METHOD_TOO_LONG", 1)

    def test_of_a_notification(self, impl: ModuleType) -> None:
        text = '{"jsonrpc":"2.0","method":"abc"}'
        assert decode_alone_and_in_a_batch(impl, text, limited(method_bytes=3)) == notification("abc")
        assert decode_alone_and_in_a_batch(impl, text, limited(method_bytes=2)) == fault("METHOD_TOO_LONG", reply=False)

    def test_default(self, impl: ModuleType) -> None:
        text = '{"jsonrpc":"2.0","id":1,"method":"%s"}'
        assert decode_alone_and_in_a_batch(impl, text % (1024 * "m"), JSONRPC) == request(1, 1024 * "m")
        assert decode_alone_and_in_a_batch(impl, text % (1025 * "m"), JSONRPC) == fault("METHOD_TOO_LONG", 1)
        assert decode_alone_and_in_a_batch(impl, text % (512 * "é"), JSONRPC) == request(1, 512 * "é")
        assert decode_alone_and_in_a_batch(impl, text % (512 * "é" + "m"), JSONRPC) == fault("METHOD_TOO_LONG", 1)

    def test_surrogates_in_a_dict(self, impl: ModuleType) -> None:
        obj = {"jsonrpc": "2.0", "id": 1, "method": "\ud800\ud800"}
        assert describe(impl.parse(obj, limited(method_bytes=5))) == fault("METHOD_TOO_LONG", 1)
        assert describe(impl.parse(obj, limited(method_bytes=6))) == request(1, "\ud800\ud800")


class TestIdBytes:
    @rows(
        ("token", "id"),
        [
            ('"' + 34 * "a" + '"', 34 * "a"),
            ('"' + 17 * "é" + '"', 17 * "é"),
            ('"' + 34 * r"\u0061" + '"', 34 * "a"),
            ("1" + 33 * "0", 10**33),
            ("-1" + 32 * "0", -(10**32)),
            ("1." + 32 * "0", 1.0),
            ("1e" + 31 * "0" + "1", 10.0),
        ],
    )
    def test_bound(self, impl: ModuleType, token: str, id: object) -> None:
        text = fill('{"jsonrpc":"2.0","id":%s,"method":"m"}', token)
        assert repr(decode_alone_and_in_a_batch(impl, text, limited(id_bytes=34))) == repr(request(id, "m"))
        assert decode_alone_and_in_a_batch(impl, text, limited(id_bytes=33)) == fault("ID_TOO_LONG")

    @rows("id", [34 * "a", 17 * "é", 10**33, -(10**32)])
    def test_bound_of_a_dict(self, impl: ModuleType, id: object) -> None:
        obj = {"jsonrpc": "2.0", "id": id, "result": 1}
        assert describe(impl.parse(obj, limited(id_bytes=34))) == result(id, 1)
        assert describe(impl.parse(obj, limited(id_bytes=33))) == fault("ID_TOO_LONG", reply=False)

    def test_default(self, impl: ModuleType) -> None:
        text = '{"jsonrpc":"2.0","id":"%s","method":"m"}'
        assert decode_alone_and_in_a_batch(impl, text % (512 * "i"), JSONRPC) == request(512 * "i", "m")
        assert decode_alone_and_in_a_batch(impl, text % (513 * "i"), JSONRPC) == fault("ID_TOO_LONG")

    def test_an_id_over_the_limit_is_not_reported(self, impl: ModuleType) -> None:
        text = fill('{"jsonrpc":"2.0","id":"%s","method":"mm"}', 33 * "i")
        assert decode_alone_and_in_a_batch(impl, text, limited(id_bytes=32, method_bytes=1)) == fault("METHOD_TOO_LONG")


@rows("form", [b'{"jsonrpc":"2.0","id":"%b","method":"m","params":{}}', b'{"result":{},"jsonrpc":"2.0","id":"%b"}'])
@rows("raw", [False, True])
def test_the_limit_of_ids_is_exact_on_the_fast_path(impl: ModuleType, form: bytes, raw: bool) -> None:
    profile = JSONRPC.replace(limits=Limits(id_bytes=32))
    assert impl.decode(form % (32 * b"a"), profile, raw=raw).id == 32 * "a"
    assert getattr(impl.decode(form % (33 * b"a"), profile, raw=raw), "code", None) == ParseErrorCode.ID_TOO_LONG


def test_a_member_that_is_given_again_counts_as_deep(impl: ModuleType) -> None:
    for levels, expected in ((1023, "Response"), (1024, "ParseError"), (3000, "ParseError")):
        deep = b"[" * levels + b"]" * levels
        found = impl.decode(b'{"jsonrpc":"2.0","id":1,"result":{"a":%b,"b":"]\\"[","a":1}}' % deep)
        assert type(found).__name__ == expected, levels
