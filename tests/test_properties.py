"""What is written is read again as the same, by either twin."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from jsonrpc_fast.codes import UNSET
from jsonrpc_fast.profile import JSONRPC, LENIENT, LSP, MCP_2026_07_28

from .describe import describe

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
    st.none(),
    st.integers(),
    st.integers(-(10**60), 10**60),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
)
PARAMS = st.one_of(st.none(), st.lists(JSON, max_size=4), st.dictionaries(TEXT, JSON, max_size=4))
CALLS = st.one_of(
    st.tuples(st.just("Request"), IDS, TEXT, PARAMS),
    st.tuples(st.just("Notification"), TEXT, PARAMS),
)
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


@settings(max_examples=300)
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


@settings(max_examples=200)
@given(parts=PARTS)
def test_dicts(impl: ModuleType, parts: tuple[Any, ...]) -> None:
    message = make(impl, parts)
    assert same(impl.parse(message.to_dict()), message)
    assert same(type(message).from_dict(message.to_dict()), message)


@settings(max_examples=200)
@given(parts=PARTS)
def test_what_is_written_is_the_dict(impl: ModuleType, parts: tuple[Any, ...]) -> None:
    message = make(impl, parts)
    assert repr(json.loads(message.to_bytes())) == repr(message.to_dict())


@settings(max_examples=200)
@given(batch=st.lists(PARTS, min_size=1, max_size=5))
def test_batches(impl: ModuleType, batch: list[tuple[Any, ...]]) -> None:
    messages = [make(impl, parts) for parts in batch]
    line = impl.encode(messages)
    assert line.count(b"\n") == 1
    read = impl.decode(line)
    assert len(read) == len(messages)
    assert all(same(one, other) for one, other in zip(read, messages, strict=True))


@settings(max_examples=200)
@given(batch=st.lists(PARTS, max_size=6), size=st.integers(1, 50))
def test_streams(impl: ModuleType, batch: list[tuple[Any, ...]], size: int) -> None:
    messages = [make(impl, parts) for parts in batch]
    data = impl.encode_many(messages)
    assert data == b"".join(impl.encode(message) for message in messages)
    decoder = impl.Decoder()
    read = [item for at in range(0, len(data), size) for item in decoder.feed(data[at : at + size])]
    assert decoder.close() == []
    assert read == messages


@settings(max_examples=300)
@given(parts=PARTS)
def test_across_the_twins(twins: tuple[ModuleType, ModuleType], parts: tuple[Any, ...]) -> None:
    core, pure = twins
    line = core.encode(make(core, parts))
    assert line == pure.encode(make(pure, parts))
    assert same(pure.decode(line), make(pure, parts))
    assert same(core.decode(line), make(core, parts))


@settings(max_examples=200)
@given(
    id=st.one_of(st.integers(), TEXT),
    method=TEXT.filter(bool),
    params=st.one_of(st.none(), st.dictionaries(TEXT, JSON, max_size=3)),
)
def test_every_profile_takes_the_plainest_messages(impl: ModuleType, id: Any, method: str, params: Any) -> None:
    for message in (
        impl.Request(id, method, params),
        impl.Notification(method, params),
        impl.Response(id, params or {}),
        impl.Response(id, error=impl.Error(1, method, params)),
    ):
        for profile in (JSONRPC, LENIENT, LSP, MCP_2026_07_28, JSONRPC.replace(extra_members=False, big_ints="exact")):
            assert same(impl.decode(message.to_bytes(), profile), message)


@settings(max_examples=300)
@given(obj=st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), JSON))
def test_decode_is_parse_of_the_dict(impl: ModuleType, obj: dict[str, Any]) -> None:
    obj.setdefault("jsonrpc", "2.0")
    decoded = impl.decode(orjson.dumps(obj))
    assert repr(describe(decoded)) == repr(describe(impl.parse(obj)))
