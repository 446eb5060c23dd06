"""The records of tools, prompts and resources, as their lists contain them."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from ...support import check_number
from .capabilities import Icon
from .records import Record


class PromptArgument(Record, frozen=True, kw_only=True, eq=False):
    """An argument of a prompt. Its value is always a string."""

    since: ClassVar[dict[str, str]] = {"title": "2025-06-18"}

    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    required: bool | UnsetType = UNSET


class Definition(Record, frozen=True, kw_only=True, eq=False):
    """The members that the items in lists of tools, prompts and resources have in common."""

    since: ClassVar[dict[str, str]] = {"title": "2025-06-18", "_meta": "2025-06-18", "icons": "2025-11-25"}

    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class Prompt(Definition, frozen=True, kw_only=True, eq=False):
    """A prompt as `prompts/list` describes it."""

    arguments: list[PromptArgument] | UnsetType = UNSET


class Annotations(Record, frozen=True, kw_only=True, eq=False):
    """The intended audience of a resource and its importance, from 0 to 1.

    Raises:
        TypeError, ValueError: `priority` is not a finite number.
    """

    since: ClassVar[dict[str, str]] = {"lastModified": "2025-06-18"}

    audience: list[str] | UnsetType = UNSET
    priority: float | UnsetType = UNSET
    last_modified: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.priority is not UNSET:
            check_number("priority", self.priority)


class Resource(Definition, frozen=True, kw_only=True, eq=False):
    """A resource as `resources/list` describes it."""

    uri: str
    mime_type: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET


class ResourceTemplate(Definition, frozen=True, kw_only=True, eq=False):
    """The resources of a URI template as `resources/templates/list` describes them."""

    uri_template: str
    mime_type: str | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET


class ToolAnnotations(Record, frozen=True, kw_only=True, eq=False):
    """Hints about the behaviour of a tool, from 2025-03-26 on. They may be wrong: do not rely on them for safety."""

    title: str | UnsetType = UNSET
    read_only_hint: bool | UnsetType = UNSET
    destructive_hint: bool | UnsetType = UNSET
    idempotent_hint: bool | UnsetType = UNSET
    open_world_hint: bool | UnsetType = UNSET


class Tool(Definition, frozen=True, kw_only=True, eq=False):
    """A tool as `tools/list` describes it. The `type` of its input schema is "object"."""

    since: ClassVar[dict[str, str]] = {
        **Definition.since,
        "annotations": "2025-03-26",
        "outputSchema": "2025-06-18",
        "execution": "2025-11-25",
    }
    until: ClassVar[dict[str, str]] = {"execution": "2025-11-25"}

    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | UnsetType = UNSET
    annotations: ToolAnnotations | UnsetType = UNSET
    execution: dict[str, Any] | UnsetType = UNSET
