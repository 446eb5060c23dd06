"""`Profile.writes`: messages of JSON-RPC 1.0, and messages without `jsonrpc`."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.errors import ParseError
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, LSP, MCP_2025_11_25, Profile
from jsonrpc_fast.validator import JsonRpcValidator

from ..support.comparison import Backends
from ..support.tables import rows

UNVERSIONED = JSONRPC.replace(writes="unversioned", optional_jsonrpc=True)


@rows(
    ("build", "first", "unversioned"),
    [
        (lambda impl: impl.Request(1, "m"), '{"id":1,"method":"m","params":[]}', '{"id":1,"method":"m"}'),
        (
            lambda impl: impl.Request('a"\\,}', 'm"\\', ["params"]),
            r'{"id":"a\"\\,}","method":"m\"\\","params":["params"]}',
            r'{"id":"a\"\\,}","method":"m\"\\","params":["params"]}',
        ),
        (
            lambda impl: impl.Request(-1.5, "é", {"result": 1}),
            '{"id":-1.5,"method":"é","params":{"result":1}}',
            '{"id":-1.5,"method":"é","params":{"result":1}}',
        ),
        (lambda impl: impl.Notification("m"), '{"id":null,"method":"m","params":[]}', '{"method":"m"}'),
        (
            lambda impl: impl.Notification("m", impl.Raw(b'{ "id": 1 }')),
            '{"id":null,"method":"m","params":{ "id": 1 }}',
            '{"method":"m","params":{ "id": 1 }}',
        ),
        (
            lambda impl: impl.Response(10**30, None),
            '{"id":1000000000000000000000000000000,"result":null,"error":null}',
            '{"id":1000000000000000000000000000000,"result":null}',
        ),
        (
            lambda impl: impl.Response(None, error=impl.Error(1, "m", {"a": 1})),
            '{"id":null,"error":{"code":1,"message":"m","data":{"a":1}},"result":null}',
            '{"id":null,"error":{"code":1,"message":"m","data":{"a":1}}}',
        ),
        (
            lambda impl: impl.Request(1, "m", extra={"result2": 1}),
            '{"id":1,"method":"m","result2":1,"params":[]}',
            '{"id":1,"method":"m","result2":1}',
        ),
    ],
)
def test_forms(impl: ModuleType, build: Any, first: str, unversioned: str) -> None:
    message = build(impl)
    for profile, expected in ((JSONRPC_1, first), (UNVERSIONED, unversioned)):
        text = impl.encode(message, profile)
        assert text.decode() == expected + "\n"
        assert impl.encode(message, profile, delimited=False) == text[:-1]
        assert impl.encode([message, message], profile).decode() == f"[{expected},{expected}]\n"
    assert impl.encode(message, JSONRPC.replace(name="other")) == impl.encode(message)


def test_what_is_no_message(impl: ModuleType) -> None:
    for profile in (JSONRPC_1, UNVERSIONED):
        assert impl.encode([], profile) == b""
        with pytest.raises(TypeError, match=r"^message must be a Request, a Notification or a Response, not int$"):
            impl.encode(1, profile)
        with pytest.raises(TypeError, match=r"^message must be a Request, a Notification or a Response, not NoneType$"):
            impl.encode([None], profile)
        with pytest.raises(ValueError, match=r"^a request without jsonrpc must not have the id null"):
            impl.encode(impl.Request(None, "m"), profile)
    with pytest.raises(TypeError, match=r"^profile must be a Profile, such as jsonrpc_fast.LENIENT, not str$"):
        impl.encode(impl.Request(1, "m"), "1.0")


@rows("profile", [JSONRPC_1, LSP.replace(optional_jsonrpc=True), MCP_2025_11_25.replace(optional_jsonrpc=True)])
def test_a_null_id_without_jsonrpc_makes_a_notification(impl: ModuleType, profile: Profile) -> None:
    """Even where requests must not have one."""
    text = b'{"id":null,"method":"m"}'
    for raw in (False, True):
        assert impl.decode(text, profile, raw=raw) == impl.Notification("m")
    assert impl.parse({"id": None, "method": "m"}, profile) == impl.Notification("m")
    assert JsonRpcValidator(profile).validate_notification({"id": None, "method": "m"}).valid
    with_version = impl.decode(b'{"jsonrpc":"2.0","id":null,"method":"m"}', profile)
    assert with_version == (impl.Request(None, "m") if profile.null_request_ids else ParseError.invalid_id_type())


TEXT = st.text(max_size=8)
PAYLOADS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
MESSAGES: Any = st.one_of(
    st.tuples(
        st.just("Request"),
        st.integers() | TEXT | st.floats(-1e3, 1e3),
        TEXT,
        st.none() | st.lists(PAYLOADS) | st.dictionaries(TEXT, PAYLOADS),
    ),
    st.tuples(st.just("Notification"), TEXT, st.none() | st.lists(PAYLOADS)),
    st.tuples(st.just("Response"), st.none() | st.integers() | TEXT, PAYLOADS),
)


@given(MESSAGES, st.sampled_from([JSONRPC_1, UNVERSIONED]))
def test_a_reader_finds_the_same_message(backends: Backends, parts: Any, profile: Profile) -> None:
    texts = set()
    for backend in backends:
        message = getattr(backend, parts[0])(*parts[1:])
        text = backend.encode(message, profile)
        texts.add(text)
        read = backend.decode(text, profile)
        if profile is JSONRPC_1 and not isinstance(message, backend.Response) and message.params is None:
            assert read.params == []
            read = read.replace(params=None)
        assert read == message
        assert "jsonrpc" not in json.loads(text)
    assert len(texts) == 1
