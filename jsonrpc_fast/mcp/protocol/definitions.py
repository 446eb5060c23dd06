"""The records of tools, prompts and resources, as their lists contain them."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from .capabilities import Icon
from .records import Record


class PromptArgument(Record, frozen=True, kw_only=True, eq=False):
    """An argument of a prompt. Its value is always a string."""

    since: ClassVar[dict[str, str]] = {"title": "2025-06-18"}

    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    required: bool | UnsetType = UNSET


class Prompt(Record, frozen=True, kw_only=True, eq=False):
    """A prompt as `prompts/list` describes it."""

    since: ClassVar[dict[str, str]] = {"title": "2025-06-18", "_meta": "2025-06-18", "icons": "2025-11-25"}

    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    arguments: list[PromptArgument] | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class Annotations(Record, frozen=True, kw_only=True, eq=False):
    """The intended audience of a resource and its importance, from 0 to 1."""

    since: ClassVar[dict[str, str]] = {"lastModified": "2025-06-18"}

    audience: list[str] | UnsetType = UNSET
    priority: float | UnsetType = UNSET
    last_modified: str | UnsetType = UNSET


class Resource(Record, frozen=True, kw_only=True, eq=False):
    """A resource as `resources/list` describes it."""

    since: ClassVar[dict[str, str]] = {"title": "2025-06-18", "_meta": "2025-06-18", "icons": "2025-11-25"}

    uri: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class ResourceTemplate(Record, frozen=True, kw_only=True, eq=False):
    """The resources of a URI template as `resources/templates/list` describes them."""

    since: ClassVar[dict[str, str]] = {"title": "2025-06-18", "_meta": "2025-06-18", "icons": "2025-11-25"}

    uri_template: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class ToolAnnotations(Record, frozen=True, kw_only=True, eq=False):
    """Hints about what a tool does, from 2025-03-26 on. They may be wrong: do not rely on them for safety."""

    title: str | UnsetType = UNSET
    read_only_hint: bool | UnsetType = UNSET
    destructive_hint: bool | UnsetType = UNSET
    idempotent_hint: bool | UnsetType = UNSET
    open_world_hint: bool | UnsetType = UNSET


class Tool(Record, frozen=True, kw_only=True, eq=False):
    """A tool as `tools/list` describes it. The `type` of its input schema is "object"."""

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
