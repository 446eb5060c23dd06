"""The stand-ins for `json.loads` and `json.dumps`, compared with the json module itself."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import re
import struct
import uuid
from collections import Counter, OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast import BACKEND
from jsonrpc_fast.adapters import json as adapter

from ..support import hostile_messages
from ..support.tables import rows

Point = namedtuple("Point", "x y")  # noqa: PYI024


class Color(enum.Enum):
    RED = "r"


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    pass


class Float(float):
    def __repr__(self) -> str:
        return "7"


@dataclasses.dataclass
class Record:
    a: int = 1
    _hidden: int = 2


class Encoder(json.JSONEncoder):
    def default(self, o: Any) -> Any:
        return f"<{type(o).__name__}>"


class Shouting(json.JSONEncoder):
    def encode(self, o: Any) -> str:
        return super().encode(o).upper()


def describe(function: Any, *args: Any, **options: Any) -> Any:
    """Return the repr of the result, which shows types and NaN, or the exception."""
    try:
        return repr(function(*args, **options))
    except RecursionError:
        return "RecursionError"
    except Exception as error:
        return type(error).__mro__[-4:], str(error)


TEXTS = [
    "1", " [1, 2.0, true, null] ", '{"a": {"b": []}}', '""', "-0", "-0.0", "0.1", "1e400", "-1e400", "1E5", "NaN",
    "[Infinity, -Infinity]", "9223372036854775807", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", '{"a": 123456789012345678901234567890}', '"123456789012345678901"',
    "12345678901234567890.5", "1234567890123456789e3", '{"a": 1, "a": 2}', '"\\ud800"', '"\\ud83d\\ude00"', '"\u00e9"',
    '"\t"', "{", "[1,]", '{"a" 1}', "", "  ", "nul", "1 2", "01", "\ufeff1", "[" * 500 + "]" * 500, "[" * 5000,
    '"' + "\u65e5" * 100 + '"', '"\\u0000"', "'a'", '{"a":1,}', "\x00", '"\ud800"', "9" * 5000,
]  # fmt: skip
HOOKS: list[dict[str, Any]] = [
    {},
    {"object_hook": lambda value: sorted(value)},
    {"object_pairs_hook": tuple},
    {"parse_float": Decimal},
    {"parse_int": str},
    {"parse_constant": str.lower},
    {"cls": json.JSONDecoder},
    {"strict": False},
]


@rows("options", HOOKS)
@rows("text", TEXTS, ids=lambda text: text[:20])
def test_loads(text: str, options: dict[str, Any]) -> None:
    forms: list[Any] = [text]
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32-le"):
        encoded = text.encode(encoding, "surrogatepass")
        forms += [encoded, bytearray(encoded)]
    for form in forms:
        assert describe(adapter.loads, form, **options) == describe(json.loads, form, **options)


@rows("value", [None, 1, memoryview(b"1"), b"\xff", b'"\xc3"', Text("[1]")])
def test_loads_of_other_types_and_bytes(value: Any) -> None:
    assert describe(adapter.loads, value) == describe(json.loads, value)


cyclic: list[Any] = []
cyclic.append(cyclic)
VALUES = [
    None, True, 0, 1.5, -0.0, 1e16, 1e-7, math.nan, [math.inf, None], {"a": -math.inf}, "", "\u00e9\x7f\u2028",
    "\ud800", '"\\\n\x1b', 2**63, 2**64, [-(2**63) - 1], [], {}, {"b": 1, "a": [1, (2, 3)]},
    {1: 2, None: 3, False: 4, 1.5: 5},
    {(1,): 2}, {"a": {1, 2}}, {"a": b"x"}, object(), {"a": Color.RED}, {Color.RED: 1}, [Number.ONE], {Number.ONE: 1},
    uuid.UUID(int=5), [Text("x")], {Text("x"): 1}, Float(1.5), [Record()], datetime.datetime(2026, 1, 2),
    datetime.date(2026, 1, 2), datetime.time(1), Decimal("1.5"), Point(1, 2), [Point(1, Color.RED)],
    OrderedDict(b=1, a=Color.RED), Counter("aab"), defaultdict(list, {"a": [math.nan]}), complex(1, 2), cyclic,
    range(3),
    {"a": [[object()], uuid.UUID(int=1)]}, "null", ["null", 1.0], "f\x03nan",
    json.loads("[" * 300 + "]" * 300),
]  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {},
    {"default": repr},
    {
        "default": lambda value: (
            repr(value) if isinstance(value, Color) else {"type": type(value).__name__, "inside": [Color.RED]}
        )
    },
    {"default": lambda value: [math.nan] if type(value) is not float else value},
    {"cls": Encoder},
    {"cls": Encoder, "default": lambda value: 5},
    {"cls": Shouting},
    {"sort_keys": True},
    {"skipkeys": True},
    {"allow_nan": False},
    {"allow_nan": False, "default": str},
    {"ensure_ascii": False},
    {"indent": 2},
    {"indent": "\t", "sort_keys": True},
]


def value_of(text: str, options: dict[str, Any]) -> str:
    """Return what two texts of the same value have in common."""
    if "indent" in options:
        return text
    return text.replace(" ", "") if options.get("cls") is Shouting else repr(json.loads(text))


@rows("options", OPTIONS)
@rows("value", VALUES, ids=lambda value: repr(value)[:20])
def test_dumps(value: Any, options: dict[str, Any]) -> None:
    mine = describe(lambda: value_of(adapter.dumps(value, **options), options))
    assert mine == describe(lambda: value_of(json.dumps(value, **options), options))


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text() | st.sampled_from(list(Color)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
)


class Table(dict[Any, Any]):
    pass


class Integer(int):
    def __repr__(self) -> str:
        return "7"


class Doubling(json.JSONDecoder):
    def decode(self, s: str, *args: Any) -> Any:
        return [super().decode(s, *args)] * 2


class Iterating(json.JSONEncoder):
    def iterencode(self, o: Any, _one_shot: bool = False) -> Any:
        yield from ("[", *super().iterencode(o, _one_shot), "]")


odd = st.recursive(
    plain
    | st.sampled_from(
        [Text("x"), Integer(3), Float(1.5), Number.ONE, uuid.UUID(int=5), Decimal("1.5"), datetime.date(2026, 1, 2)]
    )
    | st.sampled_from([Record(), b"x", {1}, "\ud800", '"\x7f\n'])
    | st.builds(object),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.sampled_from([1, None, True, 1.5, (1,), Text("k"), Color.RED]), inner).map(
            Table
        )
        | st.builds(OrderedDict, st.dictionaries(st.text(), inner))
        | st.builds(Point, inner, inner)
    ),
    max_leaves=8,
)
dump_options = st.fixed_dictionaries(
    {},
    optional={
        "cls": st.sampled_from([None, json.JSONEncoder, Encoder, Shouting, Iterating]),
        "default": st.sampled_from([None, lambda value: type(value).__name__, lambda value: [Color.RED.value, 2**70]]),
        "indent": st.sampled_from([None, 0, 2, "\t"]),
        "separators": st.sampled_from([None, (",", ":"), (", ", ": "), ["; ", " = "]]),
        "sort_keys": st.booleans(),
        "ensure_ascii": st.booleans(),
        "skipkeys": st.booleans(),
        "allow_nan": st.booleans(),
        "check_circular": st.booleans(),
    },
)
load_options = st.fixed_dictionaries(
    {},
    optional={
        "cls": st.sampled_from([None, json.JSONDecoder, Doubling]),
        "object_hook": st.sampled_from([None, sorted]),
        "object_pairs_hook": st.sampled_from([None, tuple]),
        "parse_float": st.sampled_from([None, Decimal]),
        "parse_int": st.sampled_from([None, str, float]),
        "parse_constant": st.sampled_from([None, str.lower]),
        "strict": st.booleans(),
    },
)
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]


def without_spelling(text: Any) -> Any:
    """Return a text with small and large floats as Python spells them."""
    if not isinstance(text, str):
        return text
    return re.sub(r"[0-9]+(?:\.[0-9]+)?e[+-]?[0-9]+|0\.0000[0-9]+", lambda number: repr(float(number[0])), text)


@given(odd, dump_options)
@pytest.mark.ci
def test_any_value_with_any_options(value: Any, options: dict[str, Any]) -> None:
    has_layout = options.get("separators") is not None or options.get("indent") is not None
    theirs = {**options, **({} if has_layout else {"separators": (",", ":")})}
    expected = [
        without_spelling(describe(json.dumps, value, **{**theirs, **escaping}))
        for escaping in ([{}] if "ensure_ascii" in options else [{"ensure_ascii": False}, {"ensure_ascii": True}])
    ]
    assert without_spelling(describe(adapter.dumps, value, **options)) in expected


@given(
    odd, dump_options, load_options, st.sampled_from(ENCODINGS), st.integers(0, 200), st.sampled_from('"{}[],:0e- \\é')
)
@pytest.mark.ci
def test_any_text_with_any_options(
    value: Any, writing: dict[str, Any], reading: dict[str, Any], encoding: str, at: int, inserted: str
) -> None:
    text = json.dumps(value, **{**writing, "default": repr, "skipkeys": True, "allow_nan": True, "sort_keys": False})
    for changed in (text, text[: at % len(text)] + inserted + text[at % len(text) :], text[: at % len(text)]):
        encoded = changed.encode(encoding, "surrogatepass")
        for form in (changed, Text(changed), encoded, bytearray(encoded)):
            assert describe(adapter.loads, form, **reading) == describe(json.loads, form, **reading)


@given(plain)
@pytest.mark.ci
def test_random_values(value: Any) -> None:
    def convert(item: Any) -> Any:
        return ["color", item.name]

    for options in ({"ensure_ascii": False}, {"ensure_ascii": True}, {"indent": 1}, {"separators": (",", ":")}):
        mine = adapter.dumps(value, default=convert, **options)
        theirs = json.dumps(value, default=convert, **options)
        assert repr(json.loads(mine)) == repr(json.loads(theirs))
        assert repr(adapter.loads(theirs)) == repr(json.loads(theirs))


json_keys = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text()
keyed = st.recursive(
    st.none() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(json_keys, inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(json_keys, keyed, max_size=5))
@pytest.mark.ci
def test_any_keys(value: Any) -> None:
    assert adapter.dumps(value) in [
        json.dumps(value, separators=(",", ":"), ensure_ascii=is_ascii) for is_ascii in (False, True)
    ]


def test_sorted_keys_are_sorted_as_values() -> None:
    assert adapter.to_bytes({10: 1, 9: 2}, sort_keys=True) is None
    assert adapter.dumps({10: 1, 9: 2}, sort_keys=True) == '{"9":2,"10":1}'


@rows("bits", [0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 0xFFF8 << 48, 2**64 - 1, 2**63 - 1])
def test_every_float_that_is_not_finite_is_found(bits: int) -> None:
    [number] = struct.unpack("<d", struct.pack("<Q", bits))
    for value in ([number], [None, number, number], {"a": {"b": number}}, (number, "null"), [[1.5, number], number]):
        assert adapter.to_bytes(value) is None


def test_floats_that_are_finite_are_written_without_the_json_module() -> None:
    assert adapter.to_bytes([None, 1.5, -1.5, "g\x7f", -1]) == b'[null,1.5,-1.5,"g\x7f",-1]'


def test_what_loads_or_leaves_to_the_own_function() -> None:
    def own(prefix: str, text: Any) -> Any:
        return prefix, text

    read = adapter.loads_or(own)
    if BACKEND == "python":
        assert read is own
        return
    assert read("own", b' {"a": [1, 2.5, 123456789012345678901234567890]} ') == {
        "a": [1, 2.5, 123456789012345678901234567890]
    }
    for text in ("[1]", bytearray(b"[1]"), b"[NaN]", b'"\\ud800"', b"{", b"\xff", b"", b'1,"x":2'):
        assert read("own", text) == ("own", text)


def test_the_text() -> None:
    value = {"b": "\u00e9\x7f", "a": [1, 2.5]}
    assert adapter.dumps(value) == '{"b":"\u00e9\x7f","a":[1,2.5]}'
    for options in (
        {"separators": (",", ":"), "ensure_ascii": True},
        {"separators": (",", ":"), "ensure_ascii": False},
        {"separators": (", ", ": "), "ensure_ascii": True},
        {"separators": (", ", ": "), "ensure_ascii": False, "sort_keys": True},
        {"separators": [",", ":"], "ensure_ascii": False, "sort_keys": True},
        {"indent": 1},
        {"indent": 0, "separators": (",", ":")},
    ):
        assert adapter.dumps(value, **options) == json.dumps(value, **options)


def test_tuples_that_are_too_deep() -> None:
    deep: Any = ()
    for _ in range(100_000):
        deep = (deep,)
    for value, default in ((deep, None), ([{"a": deep}], None), ({1: deep}, None), (deep, str), ({2j}, lambda _: deep)):
        with pytest.raises(RecursionError):
            adapter.dumps(value, default=default)


def test_names() -> None:
    assert issubclass(adapter.JSONDecodeError, ValueError)
    assert adapter.JSONDecodeError is json.JSONDecodeError
    with pytest.raises(adapter.JSONDecodeError):
        adapter.loads("{")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_jsonrpcserver() -> None:
    jsonrpcserver = pytest.importorskip("jsonrpcserver", reason="jsonrpcserver is not installed")
    methods = {"add": lambda a, b: jsonrpcserver.Success(a + b)}
    options: Any = {"methods": methods, "deserializer": adapter.loads, "serializer": adapter.dumps}
    request = '{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
    assert jsonrpcserver.dispatch(request, **options) == '{"jsonrpc":"2.0","result":3,"id":1}'
    assert json.loads(jsonrpcserver.dispatch("{", **options))["error"]["code"] == -32700


def test_hostile_texts_and_values() -> None:
    texts = hostile_messages.requests(b"1", b"a", mutations=1000) | hostile_messages.responses(b"1", mutations=1000)
    found = {name: (describe(adapter.loads, text), describe(json.loads, text)) for name, text in texts.items()}
    for name, value in hostile_messages.VALUES.items():
        options: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False}
        found[f"value {name}"] = describe(adapter.dumps, value, **options), describe(json.dumps, value, **options)
    spelled = found.pop("value small numbers")
    assert [json.loads(eval(text)) for text in spelled] == [hostile_messages.VALUES["small numbers"]] * 2
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}
