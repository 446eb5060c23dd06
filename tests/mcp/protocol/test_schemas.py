"""JSON Schemas of tools: every fault is named, no value is shown, and all work is limited."""

from __future__ import annotations

import json
import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.mcp.protocol.schemas import (
    MAX_PATTERNS,
    MAX_SCHEMA_DEPTH,
    MAX_SCHEMA_VALUES,
    MAX_VALUE_DEPTH,
    MAX_VALUES,
    MORE,
    Schema,
    SchemaFault,
    growth,
)

from ...support.tables import rows

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
        "home": {"type": "string", "format": "uri"},
        "a~/b": {"const": 1},
        "pet": {"$ref": "#/$defs/pet"},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
    "$defs": {"pet": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["kind"]}]}},
}


def test_a_valid_value_has_no_faults() -> None:
    schema = Schema(PERSON)
    assert schema.faults({"name": "bob", "age": 3, "tags": ["a", "b"], "home": "urn:x", "a~/b": 1, "pet": "cat"}) == []


def test_every_fault_is_named() -> None:
    value = {
        "name": "SECRET",
        "tags": ["a", "SECRET", "a"],
        "home": "SECRET",
        "a~/b": "SECRET",
        "pet": ["SECRET"],
        "SECRET": 1,
    }
    faults = Schema(PERSON).faults(value)
    assert sorted(faults) == [
        ("", "additionalProperties", 'has an unknown member; known are "name", "age", "tags", "home", "a~/b", "pet"'),
        ("/age", "required", "is required"),
        ("/a~0~1b", "const", "1 was expected"),
        ("/home", "format", 'is not a "uri"'),
        ("/name", "pattern", 'does not match "^[a-z]+$"'),
        ("/pet", "type", 'is not of type "string" or "object"'),
        ("/tags", "uniqueItems", "has non-unique elements"),
        ("/tags/1", "enum", 'is not one of "a" or "b"'),
    ]


def test_dialects() -> None:
    tuple_of_one = {"type": "array", "items": [{"type": "integer"}]}
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", **tuple_of_one}
    assert Schema(draft_7).faults([1]) == []
    assert Schema(draft_7).faults(["x"]) == [SchemaFault("/0", "type", 'is not of type "integer"')]
    with pytest.raises(ValueError, match="cannot be used: /items"):
        Schema(tuple_of_one)  # 2020-12 has prefixItems for that
    assert Schema({"prefixItems": [{"type": "integer"}]}).faults(["x"])[0].path == "/0"


@rows(
    ("schema", "text"),
    [
        ({"$ref": "https://schemas.example/a"}, "Retrieval is disabled"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/a"}}}, "Retrieval is disabled"),
        ({"$ref": "file:///etc/passwd"}, "Retrieval is disabled"),
        ({"$ref": "other.json"}, "retrieving it failed"),
        ({"$ref": "#/$defs/no"}, "does not exist"),
        ({"$schema": "https://schemas.example/own"}, "Unknown meta-schema"),
        ({"properties": {"a": {"type": "strin"}}}, "cannot be used: /properties/a/type"),
        ({"pattern": "("}, "cannot be used: /pattern"),
        ([], "a schema must be an object"),
        (True, "a schema must be an object"),
    ],
)
def test_an_invalid_schema(schema: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        Schema(schema)
    assert not isinstance(caught.value, jsonschema_rs.ValidationError)


def nested(keyword: str, levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {keyword: value}
    return value


def test_depth() -> None:
    Schema(nested("not", MAX_SCHEMA_DEPTH - 1))
    with pytest.raises(ValueError, match="nests deeper than 64"):
        Schema(nested("not", MAX_SCHEMA_DEPTH))
    anything = Schema({"type": "object"})
    assert anything.faults(nested("a", MAX_VALUE_DEPTH - 1)) == []
    for levels in (MAX_VALUE_DEPTH, 100_000):
        assert anything.faults(nested("a", levels)) == [("", "depth", "nests deeper than 128")]


def test_a_schema_that_refers_to_itself() -> None:
    tree = Schema({"type": "object", "properties": {"a": {"$ref": "#"}, "k": {"type": "integer"}}})
    value = {"k": "SECRET"}
    for _ in range(60):
        value = {"a": value}  # type: ignore[dict-item]
    [fault] = tree.faults(value)
    assert fault == ("/a" * 60 + "/k", "type", 'is not of type "integer"')
    assert Schema({"$ref": "#"}).faults({"a": 1}) == []
    assert Schema({"allOf": [{"$ref": "#"}, {"type": "object"}]}).faults(1)[0].keyword == "type"


def test_branches_that_double_the_work() -> None:
    doubled = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
    schema = Schema({"properties": {"a": doubled, "k": {"type": "integer"}}, "required": ["z"]})
    began = time.thread_time()
    assert [fault.path for fault in schema.faults({"a": {"k": "x"}, "z": 1})] == ["/a/z", "/a/k"]
    # Each of these names applies to every member that it matches.
    patterns = Schema({"patternProperties": {"a": {"$ref": "#"}, "^a": {"$ref": "#"}}})
    for doubling in (schema, patterns):
        assert doubling.faults(nested("a", 100)) == [("", "depth", "nests too deep, or is too large, for this schema")]
    # 2 ** 40 branches for a flat value, without a self-reference.
    defs: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    with pytest.raises(ValueError, match="branches too much"):
        Schema({"$ref": "#/$defs/d0", "$defs": {**defs, "d40": {"type": "string"}}})
    assert time.thread_time() - began < 5


def test_a_large_value() -> None:
    schema = Schema({"type": "object", "additionalProperties": {"type": "string"}})
    began = time.thread_time()
    *listed, more = schema.faults({f"k{n}": n for n in range(1000)})
    assert (len(listed), more) == (20, SchemaFault("", MORE, "has 980 more faults"))
    assert schema.faults({f"k{n}": n for n in range(21)})[-1].message == "has 1 more fault"
    assert all(fault.keyword != MORE for fault in schema.faults({f"k{n}": n for n in range(20)}))
    assert schema.faults({f"k{n}": n for n in range(200_000)}) == [("", "", "does not match the schema")]
    assert time.thread_time() - began < 10


class Visited(list[Any]):
    """A list that must not be iterated."""

    def __iter__(self) -> Any:
        raise AssertionError("the list was looked into")


@pytest.mark.ci
def test_counting_stops_at_the_limit() -> None:
    """A container over the limit is refused because of its length, at any place."""
    schema = Schema({"type": "object"})
    refused = [SchemaFault("", "depth", "has more than 1000000 values")]
    assert schema.faults({"a": Visited([0] * MAX_VALUES)}) == refused
    assert schema.faults({"a": [[0] * 600_000, [0] * 600_000, Visited([0])]}) == refused
    assert schema.faults({"a": [0] * (MAX_VALUES - 2)}) == []
    assert schema.faults({"a": [0] * (MAX_VALUES - 1)}) == refused
    with pytest.raises(ValueError, match=r"^the schema has more than 20000 values$"):
        Schema({"enum": Visited([0] * MAX_SCHEMA_VALUES)})
    with pytest.raises(ValueError, match=r"^the schema has more than 20000 values$"):
        Schema({"enum": [0] * (MAX_SCHEMA_VALUES - 1)})
    Schema({"enum": [0] * (MAX_SCHEMA_VALUES - 2)})


def test_the_number_of_patterns_is_limited() -> None:
    """Without the limit, 2000 of these take 7 s to compile."""
    names = [f"a{number}" for number in range(MAX_PATTERNS // 2)]
    most = {
        "properties": {name: {"pattern": "^a"} for name in names},
        "patternProperties": {f"^{name}": {} for name in names},
    }
    assert Schema(most).faults({"a1": "b"})[0].keyword == "pattern"
    with pytest.raises(ValueError, match=r"^the schema has more than 250 patterns$"):
        Schema({**most, "pattern": "^a"})


@rows(
    "value",
    [
        pytest.param([0] * 1_000_001, id="integers"),
        pytest.param([[]] * 1_000_001, id="lists"),
        pytest.param([{}, [[]] * 1_000_001], id="one level down"),
        pytest.param([[[]] * 1000] * 1001, id="many lists"),
    ],
)
def test_a_value_with_too_many_parts_is_refused(value: Any) -> None:
    faults = Schema({"type": "object"}).faults({"a": value})
    assert faults == [("", "depth", "has more than 1000000 values")]


@pytest.mark.slow
@rows(
    "value",
    [
        pytest.param(lambda: [0] * 30_000_000, id="integers"),
        pytest.param(lambda: [[]] * 20_000_000, id="lists"),
        pytest.param(lambda: [{}, [[]] * 20_000_000], id="one level down"),
        pytest.param(lambda: [[[]] * 1000] * 20_000, id="many lists"),
    ],
)
def test_a_value_of_60_megabytes_is_refused_immediately(value: Any) -> None:
    schema = Schema({"type": "object"})
    arguments = {"a": value()}
    began = time.thread_time()
    assert schema.faults(arguments) == [("", "depth", "has more than 1000000 values")]
    assert time.thread_time() - began < 1


@rows(
    ("keywords", "item"),
    [
        ({"required": [f"a{n}" for n in range(1000)]}, {}),
        ({"required": [*"abcde"]}, {}),
        ({"enum": [{"a": n} for n in range(2000)]}, {"a": -1}),
        ({"enum": [[n] for n in range(2000)]}, [-1]),
        ({"const": "x" * 1_000_000}, "y"),
        ({"pattern": "x" * 100_000}, "y"),
        ({"dependentRequired": {"k": [f"a{n}" for n in range(1000)]}}, {"k": 1}),
    ],
)
def test_a_long_keyword_and_a_large_value(keywords: dict[str, Any], item: Any) -> None:
    """The library lists all faults with their whole keyword before it returns the first: minutes without limits."""
    schema = Schema({"items": keywords})
    began = time.thread_time()
    assert [fault.path for fault in schema.faults([item] * 10_000)] == [""]
    assert time.thread_time() - began < 2
    faults = schema.faults([item])
    assert {fault.path[:2] for fault in faults if fault.keyword != MORE} == {"/0"}
    assert all(len(fault.message) <= 501 for fault in faults)


def test_a_pattern_that_backtracks() -> None:
    schema = Schema({"properties": {"p": {"pattern": r"^(?=a)((a+)\2?)+$(?!b)"}}})
    began = time.thread_time()
    [fault] = schema.faults({"p": "a" * 60 + "b"})
    assert (fault.path, fault.keyword) == ("/p", "pattern")
    assert time.thread_time() - began < 5


TOO_LONG = [("", "pattern", "has a string that is too long for the patterns of the schema")]


@rows(
    ("pattern", "length"),
    [
        (r"(?!x)a+$", 100_000),
        (r"(?=(a+))b|(a|aa)+$", 100_000),
        (r"^(?:a(?=(a*)))*b$", 100_000),
        (r"^(?:a(?=(?:a(?=a*))*))*b$", 2000),
        (r"(a+)\1b", 100_000),
    ],
)
def test_a_pattern_whose_time_grows_faster_than_the_string(pattern: str, length: int) -> None:
    """Without the limit, each of these takes from 10 s to hours. The strings may also be names, or many together."""
    began = time.thread_time()
    schema = Schema({"pattern": pattern, "items": {"pattern": pattern}, "propertyNames": {"pattern": pattern}})
    assert schema.faults("a" * length) == TOO_LONG
    assert schema.faults({"a" * length: 1}) == TOO_LONG
    assert schema.faults(["a" * (length // 40)] * 4000) == TOO_LONG
    assert schema.faults("b" * 50) != TOO_LONG
    assert time.thread_time() - began < 5


@rows("pattern", [r"^[a-z]+$", r"^(?!\s*$).+", r"^(?=.*[a-z])(?=.*\d)[a-z\d]+$", r"[^x]{3,}", r"(a|aa)*$", r"\(\?=a"])
def test_a_pattern_that_takes_linear_time(pattern: str) -> None:
    assert Schema({"pattern": pattern}).faults("a" * 1_000_000 + "1") != TOO_LONG


def test_values_without_json() -> None:
    schema = Schema({"type": "object"})
    for value in ({"a": b"x"}, {"a": object()}, {1: 2}, {"a": "\ud800"}):
        assert [fault.path for fault in schema.faults(value)] in ([], [""])


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.just("SECRET"), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["name", "pet", "kind", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
schemas = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": ["integer", "null"]},
            {"enum": ["a", 1]},
            {"minLength": 9},
            {"maxLength": 2},
            {"pattern": "^x"},
            {"format": "uri"},
            {"const": None},
            {"minimum": 3},
            {"required": ["name"]},
            {"maxProperties": 0},
            {"uniqueItems": True},
            {"propertyNames": {"maxLength": 2}},
            {"additionalProperties": False},
            {"contains": {"const": 1}},
            False,
            True,
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
        st.builds(lambda a, b: {"oneOf": [a, b]}, inner, inner),
        st.builds(lambda a: {"not": a}, inner),
        st.builds(lambda a: {"items": a}, inner),
        st.builds(lambda a, b: {"properties": {"name": a, "pet": b}}, inner, inner),
        st.builds(lambda a, b: {"if": a, "then": b}, inner, inner),
        st.builds(lambda a: {"dependentSchemas": {"x": a}}, inner),
    ),
    max_leaves=6,
)


@given(schemas, json_values)
def test_faults_agree_with_the_library_and_show_no_value(schema: Any, value: Any) -> None:
    if not isinstance(schema, dict):
        return
    faults = Schema(schema).faults(value)
    assert (faults == []) is jsonschema_rs.Draft202012Validator(schema, validate_formats=True).is_valid(value)
    assert "SECRET" not in json.dumps(faults)


@rows(
    ("pattern", "power"),
    [
        (r"^[a-z]+$", 1),
        (r"(a+)+$", 1),
        (r"(?:a|b){2,}(?i:c)(?P<name>d)", 1),
        (r"^(?!\s*$).+", 1),
        (r"^(?=[(]\))(?![^)\]]+)x", 1),
        (r"^(?!a)b|c", 2),
        (r"^(?!a)b|c(?=d)", 2),
        (r"(?!a)b", 2),
        (r"^(?!a(b))c", 2),
        (r"^(?:a(?=b))*", 2),
        (r"(?<=a)b", 2),
        (r"(?<!a)b", 2),
        (r"(a)\1", 2),
        (r"(?P<n>a)(?P=n)", 2),
        (r"a++b", 2),
        (r"(?>a)", 2),
        (r"(?=a)(?=b)", 2),
        (r"(?=a(?!b))", 3),
        (r"(?=a(?:b(?<=c(?=d))))e", 4),
        (r"[(?=](?=a)", 2),
        (r"(", 1),
    ],
)
def test_growth(pattern: str, power: int) -> None:
    assert growth(pattern) == power


@pytest.mark.slow
@rows("text", ["[", "(?=", "^(?=[", "(", "\\", "^(?=a", "[^]"])
def test_growth_takes_linear_time(text: str) -> None:
    began = time.thread_time()
    growth(text * 200_000)
    assert time.thread_time() - began < 5
