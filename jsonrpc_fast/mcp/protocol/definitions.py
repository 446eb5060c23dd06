"""The records of tools, prompts and resources, as their lists contain them."""

from __future__ import annotations

from typing import Any, ClassVar, Final

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


MAX_ITEMS: Final = 100_000
"""Maximum number of blocks, messages or contents in one result."""

ROLES: Final = ("user", "assistant")

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": (),
}
_OPTIONAL: Final[dict[str, tuple[type, str]]] = {
    "_meta": (dict, "an object"),
    "annotations": (dict, "an object"),
    "description": (str, "a string"),
    "icons": (list, "an array"),
    "mimeType": (str, "a string"),
    "size": (int, "an integer"),
    "title": (str, "a string"),
}


def text_content(text: str) -> dict[str, Any]:
    """Return a content block of text."""
    return {"type": "text", "text": text}


def items_fault(value: Any, path: str) -> str | None:
    """Return the fault of a list of blocks, messages or contents; None if it is valid."""
    if not isinstance(value, list):
        return f"{path} must be an array"
    return f"{path} has more than {MAX_ITEMS} items" if len(value) > MAX_ITEMS else None


def block_fault(block: Any, path: str, *, allow_unknown: bool = True) -> str | None:
    """Return the fault of a content block; None if it is valid.

    Args:
        allow_unknown: Whether a type that no revision defines is valid, since an extension may define it.
    """
    if not isinstance(block, dict):
        return f"{path} must be an object"
    kind = block.get("type")
    if not isinstance(kind, str):
        return f"{path}/type must be a string"
    # Extensions define further types, which a client passes on unread.
    required = _REQUIRED.get(kind)
    if required is None:
        return None if allow_unknown else f"{path}/type must be one of {', '.join(_REQUIRED)}"
    # The inner object comes first, because a client reads its members.
    if kind == "resource" and (fault := contents_fault(block.get("resource"), f"{path}/resource")) is not None:
        return fault
    return members_fault(block, required, path)


def contents_fault(contents: Any, path: str) -> str | None:
    """Return the fault of one item of the contents of a resource; None if it is valid."""
    if not isinstance(contents, dict):
        return f"{path} must be an object"
    if not isinstance(contents.get("text"), str) and not isinstance(contents.get("blob"), str):
        return f"{path} must have a text or a blob that is a string"
    return members_fault(contents, ("uri",), path)


def message_fault(message: Any, path: str) -> str | None:
    """Return the fault of a message of a prompt; None if it is valid."""
    if not isinstance(message, dict):
        return f"{path} must be an object"
    if message.get("role") not in ROLES:
        return f"{path}/role must be one of {', '.join(ROLES)}"
    return block_fault(message.get("content"), f"{path}/content")


def members_fault(members: dict[str, Any], required: tuple[str, ...], path: str) -> str | None:
    """Return the fault of an object's members: the required ones are strings, the others have their types."""
    for name in required:
        if not isinstance(members.get(name), str):
            return f"{path}/{name} must be a string"
    for name, value in members.items():
        # Unknown members are allowed: later revisions may define them.
        kind, expected = _OPTIONAL.get(name, (object, ""))
        if not isinstance(value, kind):
            return f"{path}/{name} must be {expected}"
    return None
