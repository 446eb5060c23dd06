"""Tools: definitions for each revision, validation of arguments, results."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.errors import EncodeError
from jsonrpc_fast.mcp.protocol.definitions import Tool, ToolAnnotations
from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS, REVISIONS
from jsonrpc_fast.mcp.server.blocks import ToolResult
from jsonrpc_fast.mcp.server.tools import CheckedTool, OutputType, error_result, output_type, tool_definition

from ...support.mcp_schemas import schema_of
from ...support.tables import rows

ADD = Tool(
    name="add",
    title="Addition",
    description="Adds.",
    input_schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
    output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]},
    annotations=ToolAnnotations(read_only_hint=True),
)
OLD, LATEST = REVISIONS["2024-11-05"], REVISIONS["2026-07-28"]
REVISION_11 = REVISIONS["2025-11-25"]


def tool(name: str, **members: Any) -> Tool:
    return Tool(name=name, **{"input_schema": {"type": "object"}, **members})


def checked_tool(
    tool: Tool, output: OutputType | None = None, is_structured: bool = True, is_strict: bool = False
) -> CheckedTool:
    return CheckedTool(tool, output, is_structured, is_strict)


@rows("version", RELEASED_VERSIONS)
def test_definition(corpora: Path, version: str) -> None:
    definition = tool_definition(ADD, REVISIONS[version])
    schema_of(corpora, version, "Tool").validate(definition)
    assert ("outputSchema" in definition) is ("title" in definition) is (version >= "2025-06-18")
    assert ("annotations" in definition) is (version >= "2025-03-26")


def test_official_tools_round_trip(corpora: Path) -> None:
    examples = json.loads((corpora / "mcp/examples-2026-07-28.json").read_text())
    tools = [json.loads(text) for name, text in examples.items() if name.startswith("Tool/")]
    assert len(tools) == 6
    for obj in tools:
        record = Tool.from_dict(obj, "2026-07-28")
        assert json.dumps(record.to_dict()) == json.dumps(obj)
        assert tool_definition(record, LATEST) == obj


def test_defaults() -> None:
    now = checked_tool(tool("now"))
    assert tool_definition(now.tool, OLD) == {"name": "now", "inputSchema": {"type": "object"}}
    for arguments in ({}, {"anything": 1}):
        assert now.read_arguments(arguments) == (arguments, [])


def test_only_2026_07_28_has_outputs_that_are_not_objects() -> None:
    names = checked_tool(tool("names", output_schema={"type": "array", "items": {"type": "string"}}))
    assert "outputSchema" not in tool_definition(names.tool, REVISION_11)
    assert "outputSchema" in tool_definition(names.tool, LATEST)
    assert names.result(["a"], REVISION_11) == {"content": [{"type": "text", "text": '["a"]'}]}
    assert names.result(["a"], LATEST)["structuredContent"] == ["a"]


@rows(
    ("changes", "text"),
    [
        ({"input_schema": {"type": "array"}}, 'tool x: the input schema must have the type "object"'),
        ({"input_schema": {}}, 'tool x: the input schema must have the type "object"'),
        ({"input_schema": {"type": "object", "$ref": "http://a.example/"}}, "tool x: .*Retrieval is disabled"),
        ({"output_schema": {"type": "strin"}}, "tool x: the schema cannot be used: /type"),
    ],
)
def test_an_invalid_tool(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        checked_tool(tool("x", **changes))


def test_faults_of_arguments(corpora: Path) -> None:
    add = checked_tool(ADD)
    assert add.read_arguments({"a": 1, "b": 2}) == ({"a": 1, "b": 2}, [])
    result = add.refusal(add.read_arguments({"a": "SECRET"})[1])
    assert result == {
        "content": [
            {"type": "text", "text": 'Invalid arguments for tool add:\n/b: is required\n/a: is not of type "integer"'}
        ],
        "isError": True,
    }
    schema_of(corpora, "2025-11-25", "CallToolResult").validate(result)
    wrong: Any
    for wrong in (None, [], "SECRET"):
        assert add.refusal(add.read_arguments(wrong)[1]) == error_result(
            'Invalid arguments for tool add:\n/: is not of type "object"'
        )
    assert [fault.path for fault in add.read_arguments({})[1]] == ["/a", "/b"]


@rows(
    ("arguments", "said"),
    [
        ({"int": "x", "c": 2}, ['/int: is not of type "integer"', "/: has an unknown member; known are "]),
        (
            {"int": "{", "ints": "[1", "c": 1},
            ['/int: is not of type "integer"', '/ints: is not of type "array"', "/: has an unknown member; known are "],
        ),
    ],
)
def test_each_fault_is_listed_once_beside_an_unknown_argument(arguments: dict[str, Any], said: list[str]) -> None:
    checked = checked_tool(tool("x", input_schema=LAX))
    lines = checked.refusal(checked.read_arguments(arguments)[1])["content"][0]["text"].splitlines()[1:]
    assert [line.partition('"int"')[0] for line in lines] == said


NESTED = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
LAX = {
    "type": "object",
    "properties": {
        "int": {"type": "integer"},
        "float": {"type": "number", "maximum": 10},
        "bool": {"type": "boolean"},
        "optional": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "list": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "object": NESTED,
        "any": {},
        "either": {"type": ["integer", "string"]},
        "choice": {"enum": [1, 2]},
        "a/b~c": {"type": "integer"},
        "ints": {"type": "array", "items": {"type": "integer"}},
    },
    "additionalProperties": False,
}


@rows(
    "given, read",
    [
        ({"int": "3"}, {"int": 3}),
        ({"int": " -3 "}, {"int": -3}),
        ({"int": "3.0"}, {"int": 3.0}),
        ({"float": "1.5"}, {"float": 1.5}),
        ({"bool": "true"}, {"bool": True}),
        ({"bool": "False"}, {"bool": False}),
        ({"optional": "null"}, {"optional": None}),
        ({"optional": "None"}, {"optional": None}),
        ({"optional": "7"}, {"optional": 7}),
        ({"list": '["a"]'}, {"list": ["a"]}),
        ({"object": ' {"a": [1]}'}, {"object": {"a": [1]}}),
        ({"object": '{"a": "[1, 2]"}'}, {"object": {"a": [1, 2]}}),
        ({"object": {"a": ["1", 2, "3"]}}, {"object": {"a": [1, 2, 3]}}),
        ({"ints": [str(number) for number in range(100)]}, {"ints": [*range(100)]}),
        ({"choice": "2"}, {"choice": 2}),
        ({"a/b~c": "1"}, {"a/b~c": 1}),
        # A string that the schema accepts stays one, next to one that it does not accept.
        ({"int": "3", "any": "4", "either": "5", "list": ["6"]}, {"int": 3, "any": "4", "either": "5", "list": ["6"]}),
    ],
)
def test_a_string_stands_for_the_value_whose_json_text_it_is(given: dict[str, Any], read: dict[str, Any]) -> None:
    sent = copy.deepcopy(given)
    assert checked_tool(tool("x", input_schema=LAX)).read_arguments(given) == (read, [])
    assert given == sent
    strict = checked_tool(tool("x", input_schema=LAX), is_strict=True)
    arguments, faults = strict.read_arguments(given)
    assert arguments is given
    assert faults


@rows(
    "given, text",
    [
        ({"int": "3.5"}, '/int: is not of type "integer"'),
        ({"int": "SECRET"}, '/int: is not of type "integer"'),
        ({"int": '"3"'}, '/int: is not of type "integer"'),
        ({"int": "true"}, '/int: is not of type "integer"'),
        ({"int": "NaN"}, '/int: is not of type "integer"'),
        ({"float": "11"}, "/float: is greater than the maximum of 10"),
        ({"bool": "yes"}, '/bool: is not of type "boolean"'),
        ({"bool": 1}, '/bool: is not of type "boolean"'),
        ({"list": "[1]"}, '/list: is not of type "array" or "null"'),
        ({"int": "3", "bool": "SECRET"}, '/bool: is not of type "boolean"'),
        ({"object": "[" * 500 + "]" * 500}, '/object: is not of type "object"'),
        ({"object": '{"a":' + "[" * 500 + "]" * 500 + "}"}, '/object: is not of type "object"'),
    ],
)
def test_a_string_that_stands_for_nothing_is_a_fault_of_what_was_sent(given: dict[str, Any], text: str) -> None:
    checked = checked_tool(tool("x", input_schema=LAX))
    arguments, faults = checked.read_arguments(given)
    assert arguments is given
    [content] = checked.refusal(faults)["content"]
    assert sorted(content["text"].splitlines()[1:]) == sorted(text.splitlines())


def test_a_string_that_stands_for_a_value_is_bounded_by_the_patterns_of_the_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"pattern": "^(a+)+$"}}}}
    checked = checked_tool(tool("x", input_schema=schema))
    given = {"a": json.dumps(["a" * 100_000 + "!"])}
    assert checked.read_arguments(given)[1] != []


@rows("version", RELEASED_VERSIONS)
def test_results(corpora: Path, version: str) -> None:
    revision, checked = REVISIONS[version], checked_tool(tool("x"))

    def text(value: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": value}]

    def structured(value: Any, is_known: bool) -> dict[str, Any]:
        return {"structuredContent": value} if is_known else {}

    objects, others = version >= "2025-06-18", version == "2026-07-28"
    for value, expected in (
        (None, {"content": []}),
        ("a\n", {"content": text("a\n")}),
        ({"é": 1}, {"content": text('{"é":1}'), **structured({"é": 1}, objects)}),
        ([1, 2], {"content": text("[1,2]"), **structured([1, 2], others)}),
        (False, {"content": text("false"), **structured(False, others)}),
        (ToolResult(text("no"), is_error=True), {"content": text("no"), "isError": True}),
        (ToolResult(text("x"), {"a": 1}), {"content": text("x"), **structured({"a": 1}, objects)}),
    ):
        result = checked.result(value, revision)
        assert result == expected
        schema_of(corpora, version, "CallToolResult").validate(
            {**result, **({"resultType": "complete"} if others else {})}
        )


def test_output_schema() -> None:
    add = checked_tool(ADD)
    assert add.result({"sum": 3}, LATEST) == {
        "content": [{"type": "text", "text": '{"sum":3}'}],
        "structuredContent": {"sum": 3},
    }
    for value, place in ((None, "/: is missing"), ("SECRET", '/: is not of type "object"'), ({}, "/sum: is required")):
        assert add.result(value, LATEST) == error_result(
            f"The result of tool add does not match its output schema:\n{place}"
        )
    assert add.result(ToolResult([], is_error=True), LATEST) == {"content": [], "isError": True}
    assert "structuredContent" not in add.result({"sum": 3}, OLD)
    texts = checked_tool(tool("x", output_schema={"type": "string"}))
    assert texts.result("a", LATEST) == {"content": [{"type": "text", "text": "a"}], "structuredContent": "a"}


def test_a_result_without_a_json_form() -> None:
    with pytest.raises(EncodeError):
        checked_tool(tool("x")).result({"a": object()}, LATEST)


@rows("version", RELEASED_VERSIONS)
def test_a_text_is_a_block_and_structured_content_where_the_revision_has_it(version: str) -> None:
    words = output_type(str)
    block = {"content": [{"type": "text", "text": "é\n"}]}
    structured = {**block, "structuredContent": {"result": "é\n"}}
    expected = block if version in ("2024-11-05", "2025-03-26") else structured
    checked = tool("greet")
    assert checked_tool(checked, words).result("é\n", REVISIONS[version]) == expected
    assert checked_tool(checked, words, False).result("é\n", REVISIONS[version]) == block
    assert checked_tool(checked).result("é\n", REVISIONS[version]) == block
    numbers = checked_tool(checked, output_type(int)).result("é\n", REVISIONS[version])
    assert numbers["isError"] is True


def test_a_refusal_says_how_many_faults_it_does_not_list() -> None:
    names = [f"k{number}" for number in range(30)]
    tool = checked_tool(Tool(name="take", input_schema={"type": "object", "required": names}))
    *lines, last = tool.refusal(tool.read_arguments({})[1])["content"][0]["text"].splitlines()
    assert (len(lines), last) == (21, "/: has 10 more faults")
    typed = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    tool = checked_tool(Tool(name="take", input_schema=typed))
    *lines, last = tool.refusal(tool.read_arguments(dict.fromkeys(names, "x"))[1])["content"][0]["text"].splitlines()
    assert (len(lines), last) == (21, "/: has 10 more faults")
