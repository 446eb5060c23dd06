"""Encoded messages decode to equal messages, in either backend."""

from __future__ import annotations

import datetime
import enum
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jsonrpc_fast
from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.profile import JSONRPC, LENIENT, LSP, MAX_ID_BYTES, MCP_2026_07_28, Limits
from jsonrpc_fast.types import UNSET

from ..support.comparison import assert_same
from ..support.describe import describe
from ..support.examples import scaled_examples
from ..support.oracle import orjson

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXT,
        st.sampled_from(["jsonrpc", "id", "2.0", '"id":', "\\u0069d", "\u2028\n\r"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(TEXT, st.sampled_from(["id", "method", "error", "jsonrpc"])), inner, max_size=4),
    ),
    max_leaves=15,
)
IDS = st.one_of(
    st.none(), st.integers(), st.integers(-(10**60), 10**60), st.floats(allow_nan=False, allow_infinity=False), TEXT
)
PARAMS = st.one_of(st.none(), st.lists(JSON, max_size=4), st.dictionaries(TEXT, JSON, max_size=4))
CALLS = st.one_of(st.tuples(st.just("Request"), IDS, TEXT, PARAMS), st.tuples(st.just("Notification"), TEXT, PARAMS))
ERRORS = st.tuples(
    st.one_of(st.integers(-(2**63), 2**64 - 1), st.integers(-33000, 0)), TEXT, st.one_of(st.just(UNSET), JSON)
)
RESULTS = st.tuples(st.just("Response"), IDS, JSON)
FAILURES = st.tuples(st.just("Response"), IDS, st.none(), ERRORS)
PARTS = st.one_of(CALLS, RESULTS, FAILURES)


def make(impl: ModuleType, parts: tuple[Any, ...]) -> Any:
    name, *fields = parts
    if name == "Response" and len(fields) == 3:
        fields[2] = impl.Error(*fields[2])
    return getattr(impl, name)(*fields)


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other and repr(describe(one)) == repr(describe(other))


@given(parts=PARTS)
def test_decode_encode(impl: ModuleType, parts: tuple[Any, ...]) -> None:
    message = make(impl, parts)
    line = impl.encode(message)
    assert same(impl.decode(line), message)
    assert same(impl.decode(line.decode()), message)
    assert same(impl.decode(line, LENIENT), message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert impl.encode(impl.decode(line)) == line
    assert message.to_bytes_delimited() == line


@given(parts=PARTS)
def test_dicts(impl: ModuleType, parts: tuple[Any, ...]) -> None:
    message = make(impl, parts)
    assert same(impl.parse(message.to_dict()), message)
    assert same(type(message).from_dict(message.to_dict()), message)


@given(parts=PARTS)
def test_an_encoded_message_decodes_to_its_dict(impl: ModuleType, parts: tuple[Any, ...]) -> None:
    message = make(impl, parts)
    assert repr(json.loads(message.to_bytes())) == repr(message.to_dict())


@given(batch=st.lists(PARTS, min_size=1, max_size=5))
@pytest.mark.ci
def test_batches(impl: ModuleType, batch: list[tuple[Any, ...]]) -> None:
    messages = [make(impl, parts) for parts in batch]
    line = impl.encode(messages)
    assert line.count(b"\n") == 1
    read = impl.decode(line)
    assert len(read) == len(messages)
    assert all(same(one, other) for one, other in zip(read, messages, strict=True))


@given(batch=st.lists(PARTS, max_size=6), size=st.integers(1, 50))
@pytest.mark.ci
def test_streams(impl: ModuleType, batch: list[tuple[Any, ...]], size: int) -> None:
    messages = [make(impl, parts) for parts in batch]
    data = b"".join(map(impl.encode, messages))
    decoder = impl.Decoder()
    read = [item for at in range(0, len(data), size) for item in decoder.feed(data[at : at + size])]
    assert decoder.close() == []
    assert read == messages


@given(
    id=st.one_of(st.integers(), TEXT),
    method=TEXT.filter(bool),
    params=st.one_of(st.none(), st.dictionaries(TEXT, JSON, max_size=3)),
)
def test_every_profile_accepts_simple_messages(impl: ModuleType, id: Any, method: str, params: Any) -> None:
    for message in (
        impl.Request(id, method, params),
        impl.Notification(method, params),
        impl.Response(id, params or {}),
        impl.Response(id, error=impl.Error(1, method, params)),
    ):
        for profile in (JSONRPC, LENIENT, LSP, MCP_2026_07_28, JSONRPC.replace(extra_members=False)):
            assert same(impl.decode(message.to_bytes(), profile), message)


@given(obj=st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), JSON))
@pytest.mark.ci
def test_decode_is_parse_of_the_dict(impl: ModuleType, obj: dict[str, Any]) -> None:
    obj.setdefault("jsonrpc", "2.0")
    decoded = impl.decode(orjson.dumps(obj))
    assert repr(describe(decoded)) == repr(describe(impl.parse(obj)))


class Text(str):
    """A str that overrides its value."""

    __slots__ = ()

    def __str__(self) -> str:
        return "other"

    def encode(self, *arguments: Any) -> bytes:
        return b"other"

    def __len__(self) -> int:
        return 1


class Number(int):
    """An int that overrides its value."""

    def __int__(self) -> int:
        return 2**70

    __index__ = __int__

    def __str__(self) -> str:
        return "other"


class Real(float):
    def __repr__(self) -> str:
        return "other"


class Code(enum.IntEnum):
    OWN = -32001


class Word(str, enum.Enum):  # noqa: UP042  # the pair of classes is what is tested
    OWN = "own"


# Wide integers, surrogates, and values that resemble an int, a str or a float.
ODD_TEXT = st.one_of(
    st.text(max_size=8),
    st.text(st.characters(categories=["Cs", "Cc", "Zl", "Lu"]), max_size=4),
    st.sampled_from(
        [Text("a"), Text("\u00e9"), Text("\ud800"), Text(700 * "a"), Word.OWN, 640 * "a", 641 * "a", 400 * "\u00e9"]
    ),
    st.integers(0, 700).map(lambda size: size * "m"),
)
ODD_INTEGERS = st.one_of(
    st.integers(-(2**66), 2**66),
    st.sampled_from([Number(5), Number(-(10**30)), Number(10**700), Code.OWN, True, False]),
    st.integers(0, 20_000).map(lambda bits: 1 << bits),
    st.integers(0, 20_000).map(lambda bits: -(1 << bits)),
)
ODD_IDS = st.one_of(
    ODD_INTEGERS, ODD_TEXT, st.floats(), st.floats().map(Real), st.sampled_from([None, b"a", [], {}, (), UNSET])
)
ODD_PAYLOADS = st.one_of(
    JSON,
    st.floats(),
    ODD_TEXT,
    ODD_INTEGERS,
    st.dictionaries(st.one_of(ODD_TEXT, ODD_INTEGERS, st.none()), st.one_of(ODD_INTEGERS, ODD_TEXT), max_size=3),
    st.lists(st.one_of(ODD_INTEGERS, st.floats(), ODD_TEXT), max_size=3),
    st.sampled_from([(), (1, 2), {1}, b"", UNSET, object, datetime.date(2026, 1, 1), uuid.UUID(int=1)]),
)
OPTIONS = st.sampled_from([0, 0, orjson.OPT_NON_STR_KEYS, orjson.OPT_SORT_KEYS, orjson.OPT_PASSTHROUGH_SUBCLASS])
WRITTEN = st.one_of(
    st.tuples(st.just("encode_request"), ODD_IDS, ODD_TEXT, ODD_PAYLOADS),
    st.tuples(st.just("encode_notification"), ODD_TEXT, ODD_PAYLOADS),
    st.tuples(st.just("encode_result"), ODD_IDS, ODD_PAYLOADS),
    st.tuples(st.just("encode_error"), ODD_IDS, ODD_INTEGERS, ODD_TEXT, ODD_PAYLOADS),
    st.tuples(st.just("Request"), ODD_IDS, ODD_TEXT, ODD_PAYLOADS),
    st.tuples(st.just("Notification"), ODD_TEXT, ODD_PAYLOADS),
    st.tuples(st.just("Response"), ODD_IDS, ODD_PAYLOADS),
    st.tuples(st.just("Response"), ODD_IDS, st.none(), st.tuples(ODD_INTEGERS, ODD_TEXT, ODD_PAYLOADS)),
)
WIDEST = JSONRPC.replace(limits=Limits(id_bytes=MAX_ID_BYTES))


def write(impl: ModuleType, parts: tuple[Any, ...], option: int) -> bytes:
    name, *_ = parts
    if name.startswith("encode_"):
        return getattr(impl, name)(*parts[1:], option=option)  # type: ignore[no-any-return]
    message = make(impl, parts)
    one = impl.encode(message, option=option)
    assert impl.encode([message], option=option) == b"[" + one[:-1] + b"]\n"
    if not option:
        assert message.to_bytes_delimited() == message.to_bytes() + b"\n" == message.to_str().encode() + b"\n" == one
    return one


@scaled_examples(1.5)
@given(parts=WRITTEN, option=OPTIONS)
def test_an_encoded_message_is_valid(impl: ModuleType, parts: tuple[Any, ...], option: int) -> None:
    try:
        line = write(impl, parts, option)
    except (EncodeError, TypeError, ValueError):
        return
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    name, *fields = parts
    for profile in (WIDEST, WIDEST, WIDEST.replace(big_ints="reject")):
        for raw in (False, True):
            message = impl.decode(line, profile, raw=raw)
            if profile.big_ints == "reject" and isinstance(message, impl.ParseError):
                assert message.code.name == "INTEGER_TOO_LARGE"
                continue
            assert not isinstance(message, impl.ParseError)
            kind = {"encode_request": "Request", "encode_notification": "Notification"}.get(name, "Response")
            kind = name if name in ("Request", "Notification") else kind
            assert type(message).__name__ == kind
            if kind != "Notification":
                id = fields[0]
                assert isinstance(message.id, float) is isinstance(id, float)
                assert message.id == (str.__str__(id) if isinstance(id, str) else id)
            if kind != "Response":
                method = fields[-2]
                assert message.method == str.__str__(method)
            elif message.is_error:
                code, text = fields[1:3] if name == "encode_error" else fields[2][:2]
                assert type(message.error.code) is int
                assert message.error.code == code
                assert message.error.message == str.__str__(text)


@scaled_examples(1.5)
@given(parts=WRITTEN, option=OPTIONS)
def test_both_backends_encode_the_same(
    backends: tuple[ModuleType, ModuleType], parts: tuple[Any, ...], option: int
) -> None:
    assert_same(backends, lambda backend: write(backend, parts, option), bytes)


BREAK_SLOTS = """
import sys, types
package = sys.modules["jsonrpc_fast"] = types.ModuleType("jsonrpc_fast")
package.__path__ = [sys.argv[1]]  # so that errors.py is there before the core
from jsonrpc_fast.errors import ParseError
{change}
from jsonrpc_fast.codec import _backend
print(_backend.BACKEND, _backend.CORE_FAULT)
"""


def backend_after(change: str) -> str:
    folder = Path(jsonrpc_fast.__file__).parent
    command = [sys.executable, "-c", BREAK_SLOTS.format(change=change), str(folder)]
    env = {name: value for name, value in os.environ.items() if name != "JSONRPC_FAST_PURE"}
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.mark.skipif(jsonrpc_fast.BACKEND != "cython", reason="the core is not in use")
@pytest.mark.ci
def test_where_an_invariant_does_not_hold_the_pure_backend_is_used() -> None:
    assert backend_after("pass") == "cython None"
    broken = "python this Python does not keep what the core relies on: exceptions"
    assert backend_after("ParseError._offset = ParseError._index") == broken
