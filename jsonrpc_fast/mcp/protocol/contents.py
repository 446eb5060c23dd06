"""Checks of content blocks, messages and contents of resources. A fault names its path, and shows no value."""

from __future__ import annotations

from typing import Any, Final

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
        block: The block, from JSON.
        path: The JSON pointer (RFC 6901) to the block.
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
