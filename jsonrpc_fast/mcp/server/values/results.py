"""Return values that set more of a result than its value: content blocks, an error, or all of its members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A result of a tool with content blocks.

    Args:
        content: The content blocks: those of `blocks.py`; dicts such as `{"type": "image", "data": …, "mimeType": …}`,
            whose data may be bytes; objects that are written as such dicts in JSON; and strings, which become text.
        structured_content: Any value that a tool may return; UNSET: none. It is not wrapped.
        is_error: Whether the tool failed. The content then describes the failure.
        meta: `_meta` of the result.
    """

    content: Sequence[Any] = ()
    structured_content: Any = UNSET
    is_error: bool = False
    meta: Mapping[str, Any] | None = None


class ToolError(Exception):
    """The failure of a tool, with an explanation for the model. The client gets a result with `isError`.

    The texts of other exceptions do not reach the client. Nothing is logged.
    """


@dataclass(frozen=True, slots=True)
class WholeResult:
    """The whole result of a request, returned by the function of a tool, a prompt or a resource.

        return WholeResult({"resultType": "task", "taskId": id, …})       # of an extension that the client declares
        return WholeResult({"resultType": "input_required", "inputRequests": {"login": {…}}})     # see `Context.state`

    Args:
        members: The members of the result. Without `resultType` it is "complete"; before 2026-07-28 it is left out.
    """

    members: Mapping[str, Any]
