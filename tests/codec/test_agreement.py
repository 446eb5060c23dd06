"""The backends agree on any input: values, types, the types of ids, and every field of a fault."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.profile import CLIENT, JSONRPC, JSONRPC_1, LENIENT, MCP_2025_03_26, PRESETS, Limits, Profile
from jsonrpc_fast.types import UNSET

from .. import vectors
from ..fuzz.mutate import REPLACEMENTS, mutants
from ..support.comparison import Backends, assert_same
from ..support.describe import describe
from ..support.examples import scaled_examples
from ..support.oracle import orjson

TINY = Limits(message_bytes=90, depth=1, batch_items=1, method_bytes=4, id_bytes=32)
PROFILES = [
    *PRESETS.values(),
    CLIENT.replace(missing_ids=True, floats="decimal"),
    LENIENT.replace(repeated_calls=True, extra_members=False),
    JSONRPC.replace(extra_members=False),
    JSONRPC.replace(extra_members="keep"),
    LENIENT.replace(extra_members="keep"),
    LENIENT.replace(extra_members=False),
    JSONRPC,
    JSONRPC.replace(big_ints="reject"),
    JSONRPC.replace(floats="decimal"),
    JSONRPC.replace(floats="decimal", extra_members="keep"),
    JSONRPC_1.replace(floats="decimal", null_request_ids=False, batches=True),
    JSONRPC.replace(limits=TINY),
    JSONRPC.replace(limits=TINY, extra_members=False, big_ints="reject"),
    MCP_2025_03_26.replace(limits=Limits(depth=2, method_bytes=10, id_bytes=40)),
    Profile(null_request_ids=False, null_result_ids=True, missing_ids="errors", null_members=True, batches=False),
]
TEXTS = st.one_of(
    mutants(),
    mutants(),
    st.binary(max_size=30),
    st.text(st.sampled_from('{}[]:,"\\ud8e1.-0 tf'), max_size=20).map(str.encode),
    st.lists(st.sampled_from(REPLACEMENTS), max_size=12).map(b"".join),
)


@pytest.mark.ci
def test_the_texts_of_the_rules_in_every_profile(backends: Backends) -> None:
    """A rule about the text of a member has a row there, and mutants hardly ever have that text."""
    for text in [row["text"] for row in vectors.read("rules")]:
        for profile in PROFILES:
            for raw in (False, True):
                assert_same(backends, partial(_decoded, text, profile, raw))


def _decoded(text: bytes, profile: Profile, raw: bool, backend: Any) -> Any:
    return backend.decode(text, profile, raw=raw)


@given(text=TEXTS)
def test_classify(backends: Backends, text: bytes) -> None:
    assert_same(backends, lambda backend: backend.classify(text), tuple)


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


ODD = st.sampled_from(
    [
        *(None, True, False, 0, 1, -1, 2**63, 2**64, 10**40, -(10**40), 10**600, 10**5000, 1.5, 1.0, -0.0, 1e300),
        *(float("nan"), float("inf"), "", "2.0", "m", "é" * 20, "m" * 2000, "\ud800", Text("2.0"), Number.ONE, b"2.0"),
        *(
            {},
            [],
            {"a": [1]},
            [[]],
            (),
            {1},
            UNSET,
            {"code": 1, "message": "m"},
            {"code": 1, "message": "m", "data": None},
        ),
        *(
            {"code": True, "message": "m"},
            {"code": 1.0, "message": ""},
            {"code": 2**70, "message": 1},
            {"code": Number.ONE},
        ),
    ]
)
OBJECTS = st.one_of(
    st.dictionaries(
        st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x", "?", 1]), ODD, max_size=7
    ),
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0")}, optional=dict.fromkeys(("id", "method", "params", "result", "error", "x"), ODD)
    ),
    ODD,
)


@scaled_examples(5)
@given(obj=st.one_of(OBJECTS, st.lists(OBJECTS, max_size=3)), profile=st.sampled_from(PROFILES))
@pytest.mark.ci
def test_parse(backends: Backends, obj: Any, profile: Profile) -> None:
    assert_same(backends, lambda backend: backend.parse(obj, profile), show)
    for name in ("Request", "Notification", "Response", "Error"):
        assert_same(backends, lambda backend, name=name: getattr(backend, name).from_dict(obj, profile), show)


def show(item: Any) -> Any:
    """Like `describe`, but also for integers too wide to print and for values that are not messages."""
    if isinstance(item, list):
        return [show(each) for each in item]
    kind = type(item).__name__
    if kind in ("Request", "Notification", "Response", "ParseError"):
        return [shown(value) for value in describe(item)]
    return repr(item)


def shown(value: Any) -> Any:
    return f"{value.bit_length()} bits, {value % 997}" if type(value) is int and value.bit_length() > 10_000 else value


OPTIONS = st.sampled_from(
    [0, orjson.OPT_NON_STR_KEYS, orjson.OPT_SORT_KEYS, orjson.OPT_STRICT_INTEGER, orjson.OPT_INDENT_2, 2**13]
)
DEFAULTS = st.sampled_from([None, str, sorted, repr, lambda _: 1 / 0, lambda _: object()])


@scaled_examples(5)
@given(
    name=st.sampled_from(["encode_request", "encode_notification", "encode_result", "encode_error"]),
    arguments=st.lists(ODD, min_size=4, max_size=4),
    plain=st.booleans(),
    default=DEFAULTS,
    option=OPTIONS,
    delimited=st.booleans(),
)
@pytest.mark.ci
def test_encode(
    backends: Backends, name: str, arguments: list[Any], plain: bool, default: Any, option: int, delimited: bool
) -> None:
    if plain:
        head = {
            "encode_request": [7, "m"],
            "encode_notification": ["m"],
            "encode_result": [7],
            "encode_error": [7, 1, "m"],
        }
        arguments = [*head[name], arguments[0]]
    else:
        arguments = arguments[
            : {"encode_request": 3, "encode_notification": 2, "encode_result": 2, "encode_error": 4}[name]
        ]

    def encode(backend: ModuleType) -> bytes:
        return getattr(backend, name)(*arguments, default=default, option=option, delimited=delimited)  # type: ignore[no-any-return]

    assert_same(backends, encode, bytes)


@scaled_examples(2)
@given(obj=st.lists(OBJECTS, max_size=4), default=DEFAULTS, option=OPTIONS, delimited=st.booleans())
def test_encode_what_was_parsed(backends: Backends, obj: Any, default: Any, option: int, delimited: bool) -> None:
    def encode(backend: ModuleType) -> bytes:
        messages = [
            item for item in (backend.parse(each) for each in obj) if type(item) in (backend.Request, backend.Response)
        ]
        return backend.encode(messages, default=default, option=option, delimited=delimited)  # type: ignore[no-any-return]

    assert_same(backends, encode, bytes)


class Left:
    """What an engine leaves to `default`, which returns `value`."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Items(list[Any]):
    pass


class AlsoLeft(Left):
    pass


@dataclass
class Point:
    x: Any


class Flag(enum.Enum):
    ON = "on"
    LEFT = b"left"


LEAVES = st.sampled_from(
    (
        *(None, True, 7, 1.5, "a", "é", "\ud800", 2**63, 2**64, -(2**70), float("nan")),
        *(UUID(int=1), date(2026, 1, 2), datetime(2026, 1, 2), Decimal("12.50"), Decimal("1E+3"), Decimal("Infinity")),
        *(
            Flag.ON,
            Flag.LEFT,
            b"a",
            {1},
            1j,
            {1: 2},
            {None: 2},
            Items([1]),
            Number.ONE,
            Text("a"),
            orjson.Fragment(b"[ 1]"),
        ),
    )
)
LEFT = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Left, inner),
        st.builds(Left, inner),
        st.builds(AlsoLeft, inner),
        st.builds(Point, inner),
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        st.tuples(st.sampled_from((1, 61, 62, 63, 64, 250, 252, 253, 254)), inner).map(lambda pair: _around(*pair)),
    ),
    max_leaves=12,
)


def _around(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def _raising(value: Any) -> Any:
    raise KeyError(type(value).__name__)


def _raising_later() -> Callable[[Any], Any]:
    found: list[Any] = []

    def default(value: Any) -> Any:
        found.append(value)
        return value.value if len(found) < 3 and isinstance(value, Left) else _raising(value)

    return default


@pytest.mark.ci
@scaled_examples(10)
@example(Left([Left(1), _around(253, None)]), lambda: lambda value: value.value, 0, JSONRPC, False)
@example(Left([Left(1), _around(254, None)]), lambda: lambda value: value.value, 0, JSONRPC, False)
@given(
    value=LEFT,
    make=st.sampled_from(
        [lambda: lambda value: value.value, lambda: repr, lambda: _raising, _raising_later, lambda: None]
    ),
    option=st.sampled_from([0, 0, 0, orjson.OPT_NON_STR_KEYS, orjson.OPT_SORT_KEYS, orjson.OPT_PASSTHROUGH_DATETIME]),
    profile=st.sampled_from([JSONRPC, JSONRPC, JSONRPC.replace(floats="decimal"), JSONRPC_1]),
    raw=st.booleans(),
)
def test_default_is_called_alike(
    backends: Backends, value: Any, make: Any, option: int, profile: Profile, raw: bool
) -> None:
    """The same calls in the same order, each once: none before the depth is known, none again for another try."""
    for way in ("result", "message", "dict", "batch", "json"):

        def twice(backend: ModuleType, way: str = way) -> list[Any]:
            # The core calls `default` itself for a class that it has seen.
            found = [_written_by_default(backend, way, value, make(), option, profile, raw) for _ in range(2)]
            assert found[0] == found[1]
            return found

        assert_same(backends, twice, repr)


def _written_by_default(
    backend: ModuleType, way: str, value: Any, default: Any, option: int, profile: Profile, raw: bool
) -> Any:
    calls: list[int | str] = []

    def noted(value: Any) -> Any:
        calls.append(type(value).__name__)
        return default(value)

    arguments: Any = {"default": default and noted, "option": option}
    message = {"jsonrpc": "2.0", "id": 1, "result": value}
    if raw:
        message = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": [value], "a": backend.Raw(b"[ 1]")}
    text = cause = None
    try:
        if way == "result":
            text = backend.encode_result(1, value, profile=profile, **arguments)
        elif way == "message":
            text = backend.encode([backend.Response(1, error=backend.Error(1, "a", value))], profile, **arguments)
        elif way == "dict":
            text = backend.encode_dict(message, profile, **arguments)
        elif way == "batch":
            text = backend.encode_dict([message, message], LENIENT.replace(floats=profile.floats), **arguments)
        else:
            text = backend.dumps_json(value, arguments["default"], option)
    except EncodeError as error:
        cause = repr(error), repr(error.__cause__)
    return text, cause, calls
