"""Tools: their definitions, arguments that are checked, and results as each revision has them.

A fault of the arguments is a result with `isError: true` that names the places, so that a model can mend its call; an
unknown tool is an error of the protocol (specification, "Tools", "Error Handling").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from .._json import dumps, loads
from .capabilities import Icon
from .records import Record
from .schemas import Schema, SchemaFault
from .versions import Revision


class ToolAnnotations(Record, frozen=True, kw_only=True, eq=False):
    """Hints on what a tool does. Not to be trusted. From 2025-03-26 on."""

    title: str | UnsetType = UNSET
    read_only_hint: bool | UnsetType = UNSET
    destructive_hint: bool | UnsetType = UNSET
    idempotent_hint: bool | UnsetType = UNSET
    open_world_hint: bool | UnsetType = UNSET


class Tool(Record, frozen=True, kw_only=True, eq=False):
    """A tool, as `tools/list` tells of it. Its input schema is that of an object."""

    since: ClassVar[dict[str, str]] = {
        "annotations": "2025-03-26",
        "title": "2025-06-18",
        "outputSchema": "2025-06-18",
        "_meta": "2025-06-18",
        "icons": "2025-11-25",
        "execution": "2025-11-25",
    }
    until: ClassVar[dict[str, str]] = {"execution": "2025-11-25"}

    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | UnsetType = UNSET
    annotations: ToolAnnotations | UnsetType = UNSET
    execution: dict[str, Any] | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returns to say more than a value does.

    content             content blocks, as JSON has them
    structured_content  any JSON value, or UNSET
    is_error            the tool failed, and the content says how
    """

    content: list[dict[str, Any]]
    structured_content: Any = UNSET
    is_error: bool = False


class CheckedTool:
    """A tool with its schemas compiled. Raises ValueError for a schema that cannot be used; the text names the tool."""

    __slots__ = ("_input", "_output", "tool")

    def __init__(self, tool: Tool) -> None:
        self.tool: Tool = tool
        if tool.input_schema.get("type") != "object":
            raise ValueError(f'tool {tool.name}: the input schema must have the type "object"')
        try:
            self._input = Schema(tool.input_schema)
            self._output = None if tool.output_schema is UNSET else Schema(tool.output_schema)
        except ValueError as error:
            raise ValueError(f"tool {tool.name}: {error}") from None

    def definition(self, revision: Revision) -> dict[str, Any]:
        """The tool as `tools/list` shows it. Before 2026-07-28 an output schema is that of an object, or left out."""
        definition = self.tool.to_dict(revision.version)
        definition["inputSchema"] = self.tool.input_schema
        if not revision.any_structured_results and definition.get("outputSchema", {}).get("type") != "object":
            definition.pop("outputSchema", None)
        return definition

    def argument_faults(self, arguments: Any) -> list[SchemaFault]:
        """What is wrong with the arguments of a call; [] if nothing is."""
        return self._input.faults(arguments)

    def check_arguments(self, arguments: Any) -> dict[str, Any] | None:
        """None, or the result (`CallToolResult`) that tells what is wrong with the arguments of a call."""
        faults = self.argument_faults(arguments)
        return error_result(_tell(f"Invalid arguments for tool {self.tool.name}", faults)) if faults else None

    def result(self, value: Any, revision: Revision) -> dict[str, Any]:
        """What a tool returned, as the result of a call (`CallToolResult`).

        value  None: nothing; a str: a text; a ToolResult: as it says; any other value that JSON has: structured, and
               as text for clients that know no other. Of a tool with an output schema a str is structured, too

        A value that the output schema does not allow becomes an error result that names the places.
        Raises EncodeError for a value that JSON does not have.
        """
        if isinstance(value, ToolResult):
            content, structured, is_error = value.content, value.structured_content, value.is_error
        else:
            is_error = False
            structured = UNSET if value is None or (isinstance(value, str) and self._output is None) else value
            content = [] if value is None else [text_content(value if isinstance(value, str) else _as_text(value))]
        if self._output is not None and not is_error:
            faults = [SchemaFault("", "", "is missing")]
            if structured is not UNSET:
                structured = loads(dumps(structured))  # what is checked is what the client gets
                faults = self._output.faults(structured)
            if faults:
                return error_result(_tell(f"The result of tool {self.tool.name} breaks its output schema", faults))
        result: dict[str, Any] = {"content": content}
        is_known = revision.any_structured_results or (revision.structured_results and isinstance(structured, Mapping))
        if structured is not UNSET and is_known:
            result["structuredContent"] = structured
        return {**result, "isError": True} if is_error else result


def error_result(text: str) -> dict[str, Any]:
    """The result of a call that failed (`CallToolResult`), for the model to read."""
    return {"content": [text_content(text)], "isError": True}


def text_content(text: str) -> dict[str, Any]:
    """A content block of text."""
    return {"type": "text", "text": text}


def _as_text(value: Any) -> str:
    return dumps(value).decode()


def _tell(what: str, faults: list[SchemaFault]) -> str:
    return "\n".join([f"{what}:", *[f"{fault.path or '/'}: {fault.message}" for fault in faults]])
