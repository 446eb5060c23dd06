"""The headers of MCP's Streamable HTTP: values and annotations, with the examples of the specification."""

from __future__ import annotations

from typing import Any

import pytest

from jsonrpc_fast.mcp.http.headers import decode_value, encode_value, parameter_headers, parameter_values

from ...support.tables import rows


@rows(
    ("value", "text"),
    [
        ("us-west1", "us-west1"),
        ("", ""),
        ("a b", "a b"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("a\tb", "=?base64?YQli?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?", "=?base64?"),
        (42, "42"),
        (-7, "-7"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_values(value: str | int | bool, text: str) -> None:
    assert encode_value(value) == text
    assert decode_value(text) == (value if isinstance(value, str) else text)


@rows("text", ["=?base64?*?=", "=?base64?/w==?=", "a\nb", "ü", " a", "a "])
def test_texts_that_are_not_values(text: str) -> None:
    with pytest.raises(ValueError, match="header"):
        decode_value(text)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


REGION = {"type": "string", "x-mcp-header": "Region"}


def test_the_headers_of_a_schema() -> None:
    found = parameter_headers(schema(a=REGION, b=schema(c={"type": "boolean", "x-mcp-header": "C"}), d={}))
    assert found == {"mcp-param-region": ("a",), "mcp-param-c": ("b", "c")}
    assert parameter_values(found, {"a": "x", "b": {"c": True}}) == {"mcp-param-region": "x", "mcp-param-c": "true"}
    assert parameter_values(found, {"a": None, "b": []}) == {}
    assert parameter_values(found, {"a": 2**53, "b": {"c": 2.0}}) == {"mcp-param-c": "2"}
    assert parameter_values(found, None) == {}
    assert parameter_headers(None) == {}
    assert parameter_headers(schema(a={"type": "string", "default": REGION, "enum": [REGION]})) == {}


@rows(
    "invalid",
    [
        schema(a={"type": "string", "x-mcp-header": ""}),
        schema(a={"type": "string", "x-mcp-header": 1}),
        schema(a={"type": "string", "x-mcp-header": "a b"}),
        schema(a={"type": "string", "x-mcp-header": "a\r\nb: c"}),
        schema(a={"type": "number", "x-mcp-header": "A"}),
        schema(a={"x-mcp-header": "A"}),
        schema(a={"type": ["string"], "x-mcp-header": "A"}),
        schema(a=REGION, b={"type": "string", "x-mcp-header": "REGION"}),
        schema(a={"type": "array", "items": REGION}),
        schema(a={"anyOf": [REGION]}),
        {"$defs": {"a": REGION}},
        {"if": schema(a=REGION)},
        {"type": "string", "x-mcp-header": "A"},
    ],
)
def test_invalid_annotations(invalid: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="x-mcp-header"):
        parameter_headers(invalid)
