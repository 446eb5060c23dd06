"""Tools: validation of their arguments, and results in the form of each revision.

Rules:
  - Invalid arguments give a result with `isError: true` that names the faults, so that a model can correct its call. An
    unknown tool is a JSON-RPC error (specification, "Tools", "Error Handling").
  - Models write `"3"` for 3, and `"[1]"` for [1]. If the schema does not accept a string, but accepts the JSON value
    that the string holds, that value replaces it, at any depth, unless the tool is strict. A string that the schema
    accepts stays a string.
  - Hosts send `""` or null for an optional argument that is not set. Where the schema refuses it, and the argument is
    not required, it counts as absent, unless the tool is strict.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import Parameter
from math import isfinite
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ...codec import Raw, dumps
from ...handlers import json_of
from ...handlers.params import MsgspecType, PydanticType, type_of
from ...handlers.schemas import result_schema
from ...support import child_of, pointer_parts
from ..protocol.definitions import Tool, text_content
from ..protocol.schemas import MORE, Schema, SchemaFault
from ..protocol.versions import Revision
from .blocks import Block, ToolResult, WholeResult, has_blocks
from .contents import listed_blocks, made_blocks, sendable, sendable_text, shown_text
from .forms import without_unset

WRAPPED: Final = "x-fastmcp-wrap-result"
"""Marks the schema of a wrapped value: the client of fastmcp shows the value without the wrapper."""
_PLAIN: Final = (str, int, float, bool)
_MISSING: Final = SchemaFault("", "", "is missing")


class OutputType:
    """The schema of a tool's structured content, made from an annotation or given.

    A type that is not an object in JSON is wrapped: `-> list[int]` has the schema of `{"result": [1, 2]}`. A value
    is checked as the client receives it, after it was written as JSON.

    Args:
        plain: The class of the values, if it is `str`, `int`, `float` or `bool` without constraints.

    Attributes:
        plain: The class of the values, or None.

    Raises ValueError: the schema is invalid.
    """

    __slots__ = ("_decode", "_is_wrapped", "_pydantic", "_schema", "plain", "schema")

    def __init__(self, schema: dict[str, Any], value_type: MsgspecType | PydanticType | None) -> None:
        self._is_wrapped = value_type is not None and schema.get("type") != "object"
        self.schema: dict[str, Any] = _wrapped(schema) if self._is_wrapped else schema
        self._schema = Schema(self.schema)
        self.plain: type | None = None
        self._pydantic = value_type if isinstance(value_type, PydanticType) else None
        self._decode: Callable[[bytes], Any] | None = None
        if isinstance(value_type, MsgspecType):
            self.plain = value_type.annotation if value_type.annotation in _PLAIN else None
            self._decode = msgspec.json.Decoder(value_type.annotation).decode

    def structure(self, value: Any) -> tuple[str, Any, list[SchemaFault]]:
        """Return the text of a value, its structured content, and the faults of the content.

        Raises NotSendable: the value cannot be written as JSON.
        """
        # Fast path: such a value needs neither a conversion nor a check. NaN and infinity have no JSON form.
        if type(value) is self.plain and (type(value) is not float or isfinite(value)):
            text = sendable_text(value) if type(value) is str else dumps(value).decode()
            return text, {"result": value}, []
        is_refused = False
        if self._pydantic is not None:
            try:
                value = self._pydantic.write(value)
            except ValueError:
                # The schema usually says why, below.
                is_refused = True
        value, encoded = sendable(value)
        text = value if isinstance(value, str) else encoded.decode()
        structured = {"result": value} if self._is_wrapped else value
        if self._decode is not None:
            try:
                self._decode(encoded)
            except (msgspec.DecodeError, ValueError, RecursionError):
                pass  # the schema names the fault
            else:
                return text, structured, []
        is_missing = not self._is_wrapped and encoded == b"null"
        faults = [_MISSING] if is_missing else self.faults(structured)
        return text, structured, faults or ([SchemaFault("", "", "does not match the type")] if is_refused else [])

    def faults(self, structured: Any) -> list[SchemaFault]:
        """Return the faults of structured content that a tool returned as such; UNSET without such content."""
        return [_MISSING] if structured is msgspec.UNSET else self._schema.faults(Raw(dumps(structured)).decode())


def output_type(annotation: Any, *, is_required: bool = False) -> OutputType | None:
    """Return the output type for the annotated result of a function.

    Args:
        annotation: The annotation; `Parameter.empty` without one.

    Returns:
        The type; None if the results have no schema.

    Raises TypeError: there is no schema, but `is_required`.
    """
    annotation = _value_of(annotation)
    if _is_silent(annotation):
        if is_required:
            raise TypeError("structured output needs an annotated result that describes data")
        return None
    try:
        value_type = type_of(annotation)
        return OutputType(result_schema(value_type), value_type)
    except Exception as error:  # pydantic and msgspec raise many kinds for a type that has no schema
        if is_required:
            raise TypeError(f"the result has no schema: {str(error).strip().rpartition(chr(10))[2]}") from error
        return None


def _value_of(annotation: Any) -> Any:
    """The part of an annotation that describes the structured content."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Awaitable):
        return _value_of(arguments[-1])
    if origin is Annotated and annotation.__origin__ is ToolResult:
        return annotation.__metadata__[0]
    # A function may return a whole result in some cases; the schema describes the other cases.
    if origin is typing.Union or origin is types.UnionType:
        parts = tuple(part for part in arguments if part is not WholeResult)
        if parts and len(parts) < len(arguments):
            return typing.Union[parts]  # noqa: UP007
    return annotation


def _is_silent(annotation: Any) -> bool:
    """Whether an annotation has no schema: it is content, or has no information."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_silent(annotation.__origin__)
    if origin is typing.Union or origin is types.UnionType:
        return any(_is_silent(part) for part in arguments if part is not types.NoneType)
    kind = origin or annotation
    if kind in (Any, object, None, types.NoneType, Parameter.empty) or isinstance(annotation, TypeVar):
        return True
    if not isinstance(kind, type):
        return False
    if issubclass(kind, Sequence) and not issubclass(kind, (str, bytes, bytearray)) and not hasattr(kind, "_fields"):
        parts = [part for part in arguments if part is not Ellipsis]
        return not parts or any(_is_silent(part) and part not in (None, types.NoneType) for part in parts)
    return issubclass(kind, (Block, ToolResult, WholeResult))


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {name: part for name, part in schema.items() if name != "$defs"}
    wrapped: dict[str, Any] = {"type": "object", "properties": {"result": inner}, "required": ["result"], WRAPPED: True}
    return {**wrapped, "$defs": schema["$defs"]} if "$defs" in schema else wrapped


class CheckedTool:
    """A tool with compiled schemas.

    Raises ValueError: a schema is invalid, or the name is not 1 to 128 ASCII letters, digits, `_`, `-` and `.`
    (specification 2025-11-25, "Tool Names"). The text names the tool.
    """

    __slots__ = ("_input", "_is_strict", "_is_structured", "_is_text", "_output", "tool")

    def __init__(self, tool: Tool, output: OutputType | None, is_structured: bool, is_strict: bool) -> None:
        self._is_strict = is_strict
        self.tool: Tool = tool
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tool.name):
            raise ValueError(f"tool {tool.name[:128]!a}: the name must be 1 to 128 of A-Z, a-z, 0-9, _, - and .")
        if tool.input_schema.get("type") != "object":
            raise ValueError(f'tool {tool.name}: the input schema must have the type "object"')
        try:
            self._input = Schema(tool.input_schema)
            self._output = output
            if output is None and tool.output_schema is not UNSET:
                self._output = OutputType(tool.output_schema, None)
        except ValueError as error:
            raise ValueError(f"tool {tool.name}: {error}") from None
        self._is_structured = is_structured
        self._is_text = self._output is not None and self._output.plain is str

    def read_arguments(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[SchemaFault]]:
        """Return the arguments of a call, with strings replaced by the values that they contain.

        Returns:
            The arguments, and no faults; or the arguments unchanged, and their faults.
        """
        first = faults = self._input.faults(arguments)
        read = arguments
        if faults and not self._is_strict:
            read = without_unset(arguments, faults, self.tool.input_schema)
            if read is not arguments:
                faults = self._input.faults(read)
                if not faults:
                    return read, []
        # Several rounds, because a value that was read from a string may contain such strings itself, and a check lists
        # 20 faults.
        for _ in range(0 if self._is_strict else 8):
            before = read
            # Only at a fault: a string that the schema accepts stays a string.
            for path in {fault.path for fault in faults}:
                read = _with_text_read(read, pointer_parts(path))
            if read is before or not (faults := self._input.faults(read)):
                break
        if not faults:
            return read, []
        # The caller sent a string, not the value inside it, so the fault is reported at the string.
        listed = [fault for fault in faults if fault.keyword != MORE]
        more = [fault for fault in faults if fault.keyword == MORE]
        inside = [fault.path for fault in listed if not fault.path or _is_in_text(arguments, fault.path)]
        texts = [fault for fault in first if any(not path or path.startswith(f"{fault.path}/") for path in inside)]
        # Each once: after a fault of the whole value, such as an unknown argument, all of the first check follow.
        kept = [fault for fault in listed if fault.path not in inside]
        return arguments, [*dict.fromkeys([*kept, *texts, *more])]

    def refusal(self, faults: list[SchemaFault]) -> dict[str, Any]:
        """Return the `CallToolResult` for arguments with these faults."""
        return error_result(_text_of(f"Invalid arguments for tool {self.tool.name}", faults))

    def result(self, value: Any, revision: Revision) -> dict[str, Any]:
        """Return the `CallToolResult` for the value that a tool returned.

        Args:
            value: None for no content, a str for a text block, a `ToolResult`, a content block, a list with content
                blocks, or any other value that `to_json` accepts: it becomes structured content, and text for clients
                without structured content. With an output schema a str is structured content, too.

        Returns:
            The result. If the value does not match the output schema, it is an error result that names the faults.

        Raises:
            NotSendable: The value cannot be written as JSON.
            TypeError: A content block is invalid.
        """
        if type(value) is str and self._is_text:  # the most frequent case: a shorter path to the same result
            sendable_text(value)
            result: dict[str, Any] = {"content": [{"type": "text", "text": value}]}
            if self._is_structured and revision.structured_results:
                result["structuredContent"] = {"result": value}
            return result
        if isinstance(value, ToolResult):
            return self._result_of(value, revision)
        if self._output is not None:
            text, structured, faults = self._output.structure(value)
            if faults:
                return self._refused_result(faults)
            content = [] if value is None else [{"type": "text", "text": text}]
        elif has_blocks(value):
            return self._result_of(ToolResult(listed_blocks(value)), revision)
        else:
            value, encoded = (value, b"") if value is None else sendable(value)
            structured = UNSET if value is None or isinstance(value, str) else value
            content = []
            if value is not None:
                content = [text_content(value if isinstance(value, str) else encoded.decode())]
        return _with_structured({"content": content}, structured if self._is_structured else UNSET, revision)

    def _result_of(self, value: ToolResult, revision: Revision) -> dict[str, Any]:
        structured = UNSET if value.structured_content is UNSET else sendable(value.structured_content)[0]
        if self._output is not None and not value.is_error and (faults := self._output.faults(structured)):
            return self._refused_result(faults)
        return whole_result(replace(value, structured_content=structured if self._is_structured else UNSET), revision)

    def _refused_result(self, faults: list[SchemaFault]) -> dict[str, Any]:
        return error_result(_text_of(f"The result of tool {self.tool.name} does not match its output schema", faults))


def tool_definition(tool: Tool, revision: Revision) -> dict[str, Any]:
    """Return a tool as `tools/list` shows it.

    Before 2026-07-28 an output schema is left out unless its type is "object".
    """
    definition = tool.to_dict(revision.version)
    # The schema as registered, because the record would copy it for each list.
    definition["inputSchema"] = tool.input_schema
    if not revision.any_structured_results and definition.get("outputSchema", {}).get("type") != "object":
        definition.pop("outputSchema", None)
    return definition


def whole_result(value: ToolResult | Mapping[str, Any], revision: Revision) -> dict[str, Any]:
    """Return the `CallToolResult` for a `ToolResult`, or for the members of a result, in the form of a revision.

    Raises:
        NotSendable: A part of the value cannot be written as JSON.
        TypeError: The value is not such a result.
    """
    if isinstance(value, ToolResult):
        members = {"content": value.content, "structuredContent": value.structured_content}
        members |= {"isError": True} if value.is_error else {}
        members |= {} if value.meta is None else {"_meta": dict(value.meta)}
    else:
        members = dict(value)
    structured = members.pop("structuredContent", UNSET)
    if "content" in members:
        members["content"] = made_blocks(members["content"], revision)
    structured = UNSET if structured is UNSET else sendable(structured)[0]
    return _with_structured(sendable(members)[0], structured, revision)


def _with_structured(result: dict[str, Any], structured: Any, revision: Revision) -> dict[str, Any]:
    """Add the structured content, if there is any and the revision has it."""
    # Up to 2025-11-25 it must be an object, and revisions before 2025-06-18 have none. The text has the same content.
    if structured is not UNSET and (
        revision.any_structured_results or (revision.structured_results and isinstance(structured, dict))
    ):
        result["structuredContent"] = structured
    return result


def _is_in_text(value: Any, path: str) -> bool:
    """Return whether a JSON pointer leads into a string of a value: to a part of the JSON that it holds."""
    for part in pointer_parts(path):
        if isinstance(value, str):
            return True
        value = child_of(value, part)
    return False


def _with_text_read(value: Any, path: list[str]) -> Any:
    """Return a value in which the string at a path is replaced by the JSON value in it; otherwise the value itself."""
    if not path:
        return json_of(value) if isinstance(value, str) else value
    name, rest = path[0], path[1:]
    inner = child_of(value, name)
    read = _with_text_read(inner, rest)
    if read is inner:
        return value
    if isinstance(value, dict):
        return {**value, name: read}
    index = int(name)
    return [*value[:index], read, *value[index + 1 :]]


def error_result(text: str) -> dict[str, Any]:
    """Return the `CallToolResult` of a failed call, with an explanation for the model."""
    return {"content": [text_content(shown_text(text))], "isError": True}


def _text_of(summary: str, faults: list[SchemaFault]) -> str:
    return "\n".join([f"{summary}:", *[f"{fault.path or '/'}: {fault.message}" for fault in faults]])
