"""Tools: validation of their arguments, and results in the form of each revision.

Invalid arguments give a result with `isError: true` that names the faults, so that a model can correct its call. An
unknown tool is a JSON-RPC error (specification, "Tools", "Error Handling").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET

from ...codec._backend import dumps
from ..protocol.definitions import Tool
from ..protocol.faults import SchemaFault
from ..protocol.schemas import Schema
from ..protocol.versions import Revision
from .blocks import has_blocks
from .contents import listed_blocks, made_blocks
from .json_values import to_json
from .outputs import OutputType
from .results import ToolResult

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # specification 2025-11-25, "Tool Names"


class CheckedTool:
    """A tool with compiled schemas.

    Args:
        tool: The definition of the tool.
        output: The type of its results, if it has an output schema.
        is_structured: Whether results may have structured content.

    Raises:
        ValueError: A schema is invalid, or the name is not 1 to 128 ASCII letters, digits, `_`, `-` and `.`
            (specification 2025-11-25, "Tool Names"). The text names the tool.
    """

    __slots__ = ("_input", "_is_structured", "_output", "tool")

    def __init__(self, tool: Tool, output: OutputType | None = None, is_structured: bool = True) -> None:
        self.tool: Tool = tool
        if not _NAME.fullmatch(tool.name):
            raise ValueError(f"tool {tool.name[:128]!a}: the name must be 1 to 128 of A-Z, a-z, 0-9, _, - and .")
        if tool.input_schema.get("type") != "object":
            raise ValueError(f'tool {tool.name}: the input schema must have the type "object"')
        try:
            self._input = Schema(tool.input_schema)
            self._output = output
            if output is None and tool.output_schema is not UNSET:
                self._output = OutputType(tool.output_schema)
        except ValueError as error:
            raise ValueError(f"tool {tool.name}: {error}") from None
        self._is_structured = is_structured

    def definition(self, revision: Revision) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it.

        Before 2026-07-28 an output schema is left out unless its type is "object".
        """
        definition = self.tool.to_dict(revision.version)
        definition["inputSchema"] = self.tool.input_schema
        if not revision.any_structured_results and definition.get("outputSchema", {}).get("type") != "object":
            definition.pop("outputSchema", None)
        return definition

    def argument_faults(self, arguments: Any) -> list[SchemaFault]:
        """Return the faults of the arguments of a call; [] if they are valid."""
        return self._input.faults(arguments)

    def check_arguments(self, arguments: Any) -> dict[str, Any] | None:
        """Return None if the arguments of a call are valid, else the `CallToolResult` that names their faults."""
        faults = self.argument_faults(arguments)
        return error_result(_text_of(f"Invalid arguments for tool {self.tool.name}", faults)) if faults else None

    def result(self, value: Any, revision: Revision) -> dict[str, Any]:
        """Return the `CallToolResult` for what a tool returned.

        Args:
            value: None for no content, a str for a text block, a `ToolResult`, a content block, a list with content
                blocks, or any other value that `to_json` accepts: it becomes structured content, and text for clients
                without structured content. With an output schema a str is structured content, too.
            revision: The revision of the request.

        Returns:
            The result. If the value does not match the output schema, it is an error result that names the faults.

        Raises:
            EncodeError: The value cannot be written as JSON.
            TypeError: A content block is invalid.
        """
        if isinstance(value, ToolResult):
            return self._result_of(value, revision)
        if self._output is None and has_blocks(value):
            return self._result_of(ToolResult(listed_blocks(value)), revision)
        if self._output is not None:
            text, structured, faults = self._output.structure(value)
            if faults:
                return self._refusal(faults)
            content = [] if value is None else [text_content(text)]
        else:
            value = value if value is None or type(value) is str else to_json(value)
            structured = UNSET if value is None or isinstance(value, str) else value
            content = [] if value is None else [text_content(value if isinstance(value, str) else _as_text(value))]
        return self._with_structured({"content": content}, structured, revision)

    def _result_of(self, value: ToolResult, revision: Revision) -> dict[str, Any]:
        content = made_blocks(value.content, revision)
        structured = UNSET if value.structured_content is UNSET else to_json(value.structured_content)
        if self._output is not None and not value.is_error and (faults := self._output.faults(structured)):
            return self._refusal(faults)
        result = self._with_structured({"content": content}, structured, revision)
        if value.is_error:
            result["isError"] = True
        if value.meta is not None:
            result["_meta"] = to_json(dict(value.meta))
        return result

    def _with_structured(self, result: dict[str, Any], structured: Any, revision: Revision) -> dict[str, Any]:
        """Add the structured content, if the revision has it."""
        is_supported = revision.any_structured_results or (
            revision.structured_results and isinstance(structured, Mapping)
        )
        if structured is not UNSET and is_supported and self._is_structured:
            result["structuredContent"] = structured
        return result

    def _refusal(self, faults: list[SchemaFault]) -> dict[str, Any]:
        return error_result(_text_of(f"The result of tool {self.tool.name} does not match its output schema", faults))


def error_result(text: str) -> dict[str, Any]:
    """Return the `CallToolResult` of a failed call, with a text for the model."""
    return {"content": [text_content(text)], "isError": True}


def text_content(text: str) -> dict[str, Any]:
    """Return a content block of text."""
    return {"type": "text", "text": text}


def _as_text(value: Any) -> str:
    return dumps(value).decode()


def _text_of(summary: str, faults: list[SchemaFault]) -> str:
    return "\n".join([f"{summary}:", *[f"{fault.path or '/'}: {fault.message}" for fault in faults]])
