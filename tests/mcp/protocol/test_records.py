"""Typed records: unknown and absent members, order, revisions, faults."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from jsonrpc_fast.mcp.protocol.capabilities import (
    ClientCapabilities,
    Elicitation,
    Icon,
    Implementation,
    ListChanged,
    Roots,
    ServerCapabilities,
)
from jsonrpc_fast.mcp.protocol.records import EmptyObject, Record
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS

from ...support.tables import rows
from .test_capabilities import FULL

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)
unknown = st.dictionaries(st.text(max_size=4).map("x-{}".format), json_values, max_size=3)


@given(unknown, unknown, unknown, st.permutations(list(FULL)), st.sampled_from((None, *RELEASED_VERSIONS)))
@pytest.mark.ci
def test_unknown_members_survive_at_every_level(
    top: dict[str, Any], inner: dict[str, Any], deep: dict[str, Any], names: list[str], version: str | None
) -> None:
    obj = {**top, **{name: FULL[name] for name in names}}
    obj["sampling"] = {**inner, "tools": deep, "context": {}}
    obj["roots"] = {**inner, "listChanged": False, **deep}
    obj["tasks"] = {"requests": {**inner, "sampling": {"createMessage": deep, **top}}}
    record = ClientCapabilities.from_dict(obj, version)
    assert json.dumps(record.to_dict()) == json.dumps(obj)
    assert ClientCapabilities.from_dict(record.to_dict(), version) == record


def test_null_counts_as_absent() -> None:
    capabilities = ClientCapabilities.from_dict({"roots": None, "sampling": {"tools": None}, "later": None})
    assert capabilities.roots is UNSET
    assert not capabilities.supports("sampling.tools")
    assert capabilities.to_dict() == {"sampling": {}, "later": None}
    info = Implementation.from_dict({"name": "a", "title": None, "version": "1", "icons": None})
    assert info.to_dict() == {"name": "a", "version": "1"}


def test_empty_is_not_absent() -> None:
    capabilities = ServerCapabilities.from_dict({"logging": {}, "tools": {}})
    assert capabilities.logging == EmptyObject()
    assert capabilities.completions is UNSET
    assert capabilities.to_dict() == {"logging": {}, "tools": {}}
    assert ServerCapabilities().to_dict() == {}
    assert ServerCapabilities() != capabilities
    assert ServerCapabilities() != ClientCapabilities()


def test_members_by_attribute() -> None:
    capabilities = ClientCapabilities(roots=Roots(list_changed=True), elicitation=Elicitation(url=EmptyObject()))
    assert capabilities.elicitation.url  # type: ignore[union-attr]
    assert capabilities.to_dict() == {"roots": {"listChanged": True}, "elicitation": {"url": {}}}
    info = Implementation(name="a", version="1", website_url="https://a.example", icons=[Icon(src="data:,")])
    assert info.to_dict()["icons"] == [{"src": "data:,"}]
    assert info.to_dict("2025-06-18") == {"name": "a", "version": "1"}
    assert ServerCapabilities(tools=ListChanged(list_changed=False)).to_dict() == {"tools": {"listChanged": False}}


@rows(
    ("cls", "obj", "version", "text"),
    [
        (ClientCapabilities, ["SECRET"], None, "the value must be an object"),
        (ClientCapabilities, {"roots": []}, None, "/roots must be an object"),
        (Implementation, {"name": None, "version": "1"}, None, "/name is missing"),
        (ClientCapabilities, {f"m{n}": 1 for n in range(1001)}, None, "the value has more than 1000 members"),
        (Implementation, {"name": "", "version": "", "icons": [{}] * 1001}, None, "/icons has more than 1000 entries"),
        (
            ClientCapabilities,
            {"experimental": {f"m{n}": {} for n in range(1001)}},
            None,
            "/experimental has more than 1000 entries",
        ),
        (ClientCapabilities, {"roots": {"listChanged": "SECRET"}}, None, "/roots/listChanged must be a boolean"),
        (ClientCapabilities, {"experimental": {"SECRET": 1}}, None, "/experimental must be an object of objects"),
        (ServerCapabilities, {"tasks": "SECRET"}, "2025-11-25", "/tasks must be an object"),
        (Implementation, {"name": "SECRET"}, None, "/version is missing"),
        (Implementation, {"name": 1, "version": "1"}, None, "/name must be a string"),
        (Implementation, {"name": "", "version": "", "icons": {}}, None, "/icons must be an array"),
        (Implementation, {"name": "", "version": "", "icons": [{}]}, None, "/icons/0/src is missing"),
        (
            Implementation,
            {"name": "", "version": "", "icons": [{"src": "", "sizes": [1]}]},
            None,
            "/icons/0/sizes must be an array of strings",
        ),
        (Icon, {"src": "", "theme": "SECRET"}, None, "/theme must be one of dark, light"),
    ],
)
def test_faults_name_the_member(cls: type[Record], obj: object, version: str | None, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        cls.from_dict(obj, version)
    assert str(caught.value) == text
    assert caught.value.__context__ is None


def test_a_revision_checks_only_its_own_members() -> None:
    obj = {"tasks": 5, "roots": {"listChanged": "yes"}}
    assert ClientCapabilities.from_dict(obj, "2026-07-28").to_dict() == obj
    assert ServerCapabilities.from_dict(obj, "2024-11-05").to_dict() == obj


@rows(
    ("version", "names"),
    [
        ("2024-11-05", {"experimental", "roots", "sampling"}),
        ("2025-06-18", {"experimental", "roots", "sampling", "elicitation"}),
        ("2025-11-25", {"experimental", "roots", "sampling", "elicitation", "tasks"}),
        ("2026-07-28", {"experimental", "roots", "sampling", "elicitation", "extensions"}),
    ],
)
def test_each_revision_gets_only_its_own_members(version: str, names: set[str]) -> None:
    written = ClientCapabilities.from_dict(FULL).to_dict(version)
    assert set(written) == names
    assert (written["roots"] == {}) is (version == "2026-07-28")
    assert (written["sampling"] == {}) is (version < "2025-11-25")


class Scalars(Record, frozen=True, kw_only=True, eq=False):
    flag: bool = False
    count: int = 0
    size: float = 0.0


@rows(
    ("obj", "text"),
    [
        ({"flag": 1}, "/flag must be a boolean"),
        ({"count": True}, "/count must be an integer"),
        ({"count": 1.5}, "/count must be an integer"),
        ({"size": "1"}, "/size must be a number"),
    ],
)
def test_a_scalar_of_another_type_is_a_fault_although_python_compares_it_as_equal(obj: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        Scalars.from_dict(obj)


def test_an_integer_is_a_number() -> None:
    record = Scalars.from_dict({"flag": True, "count": 2, "size": 3})
    assert (record.flag, record.count, record.size) == (True, 2, 3.0)
    assert type(record.size) is float
