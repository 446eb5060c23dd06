"""Tools: validation of their arguments, and results in the form of each revision.

Invalid arguments give a result with `isError: true` that names the faults, so that a model can correct its call. An
unknown tool is a JSON-RPC error (specification, "Tools", "Error Handling").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from ...codec._json import dumps, loads
from ..protocol.definitions import Tool
from ..protocol.schemas import Schema, SchemaFault
from ..protocol.versions import Revision
from .contents import made_blocks
from .values import to_json

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # specification 2025-11-25, "Tool Names"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A result of a tool with content blocks.

    Args:
        content: The content blocks: dicts such as `{"type": "image", "data": …, "mimeType": …}`, whose data may be
            bytes; objects that are written as such dicts in JSON; and strings, which become text blocks.
        structured_content: Any value that a tool may return; UNSET: none.
        is_error: Whether the tool failed. The content then describes the failure.
    """

    content: Sequence[Any]
    structured_content: Any = UNSET
    is_error: bool = False


class CheckedTool:
    """A tool with compiled schemas.

    Args:
        tool: The definition of the tool.

    Raises:
        ValueError: A schema is invalid, or the name is not 1 to 128 ASCII letters, digits, `_`, `-` and `.`
            (specification 2025-11-25, "Tool Names"). The text names the tool.
    """

    __slots__ = ("_input", "_output", "tool")

    def __init__(self, tool: Tool) -> None:
        self.tool: Tool = tool
        if not _NAME.fullmatch(tool.name):
            raise ValueError(f"tool {tool.name[:128]!a}: the name must be 1 to 128 of A-Z, a-z, 0-9, _, - and .")
        if tool.input_schema.get("type") != "object":
            raise ValueError(f'tool {tool.name}: the input schema must have the type "object"')
        try:
            self._input = Schema(tool.input_schema)
            self._output = None if tool.output_schema is UNSET else Schema(tool.output_schema)
        except ValueError as error:
            raise ValueError(f"tool {tool.name}: {error}") from None

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
            value: None for no content, a str for a text block, a `ToolResult`, or any other value that `to_json`
                accepts: it becomes structured content, and text for clients without structured content. With an output
                schema a str is structured content, too.
            revision: The revision of the request.

        Returns:
            The result. If the value does not match the output schema, it is an error result that names the faults.

        Raises:
            EncodeError: The value cannot be written as JSON.
            TypeError: A content block is invalid.
        """
        if isinstance(value, ToolResult):
            content, is_error = made_blocks(value.content, revision), value.is_error
            structured = UNSET if value.structured_content is UNSET else to_json(value.structured_content)
        else:
            is_error = False
            value = value if value is None or type(value) is str else to_json(value)
            structured = UNSET if value is None or (isinstance(value, str) and self._output is None) else value
            content = [] if value is None else [text_content(value if isinstance(value, str) else _as_text(value))]
        if self._output is not None and not is_error:
            faults = [SchemaFault("", "", "is missing")]
            if structured is not UNSET:
                structured = loads(dumps(structured))  # validate what the client receives
                faults = self._output.faults(structured)
            if faults:
                return error_result(
                    _text_of(f"The result of tool {self.tool.name} does not match its output schema", faults)
                )
        result: dict[str, Any] = {"content": content}
        is_supported = revision.any_structured_results or (
            revision.structured_results and isinstance(structured, Mapping)
        )
        if structured is not UNSET and is_supported:
            result["structuredContent"] = structured
        return {**result, "isError": True} if is_error else result


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
