"""Tools: their definitions, arguments that are checked, and results as each revision has them.

A fault of the arguments is a result with `isError: true` that names the places, so that a model can mend its call; an
unknown tool is an error of the protocol (specification, "Tools", "Error Handling").
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
    """What a tool returns to say more than a value does.

    Args:
        content: Content blocks: dicts as the protocol has them (`{"type": "image", "data": …, "mimeType": …}`, where
            the data may be bytes), other objects that are written so, and texts.
        structured_content: Any value that can be a result, or UNSET.
        is_error: The tool failed, and the content says how.
    """

    content: Sequence[Any]
    structured_content: Any = UNSET
    is_error: bool = False


class CheckedTool:
    """A tool with its schemas compiled.

    Raises:
        ValueError: For a schema that cannot be used, and a name that breaks the rule of revision 2025-11-25: 1 to 128
            letters and digits of ASCII, `_`, `-` and `.`. The text names the tool.
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

        Args:
            value: None: nothing; a str: a text; a ToolResult: as it says; any other value that `values.to_json`
                writes: structured, and as text for clients that know no other. Of a tool with an output schema a str is
                structured, too.
            revision: The client's.

        Returns:
            The result. A value that the output schema does not allow becomes an error result that names the places.

        Raises:
            EncodeError: For a value that JSON does not have.
            TypeError: For content blocks that the protocol does not have.
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
