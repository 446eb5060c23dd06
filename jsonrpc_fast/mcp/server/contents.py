"""What functions return: as JSON, as content blocks, as messages and as contents of resources.

Members that are None are left out. Bytes become base64. A block that the client's revision does not define
becomes text: the URI of a link, the type of other blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from msgspec import UNSET

from ...codec import dumps
from ...errors import EncodeError
from ...handlers import to_json
from ...support import has_surrogates, pointer_to
from ..protocol.definitions import (
    ROLES,
    Resource,
    ResourceTemplate,
    block_fault,
    contents_fault,
    items_fault,
    members_fault,
    text_content,
)
from ..protocol.uris import blob_contents, text_contents, uri_faults
from ..protocol.versions import VERSIONS, Revision, since

_MAX_SHOWN: Final = 200


class NotSendable(EncodeError):
    """A value cannot be sent, such as NaN, which would become null. The text says why and where, never the value."""


def sendable(value: Any) -> tuple[Any, bytes]:
    """Return a value in JSON types, as `to_json` makes them, and the JSON text.

    Raises NotSendable: the value cannot be sent.
    """
    try:
        converted = to_json(value)
        text = dumps(converted)
        # A text with fewer brackets can be a part of any result: the codec writes values of a depth of 254.
        if text.count(b"[") + text.count(b"{") >= 200:
            check_depth(converted)
    except EncodeError as error:
        raise NotSendable(f"{error}{_at(_place_of(value, _is_refused))}") from error
    # Only where a null may stand for one of them.
    if b"null" in text and _is_not_finite(converted):
        place = _place_of(converted, _is_not_finite)
        raise NotSendable(f"NaN and infinity are no values of JSON{_at(place)}")
    return converted, text


def check_depth(value: Any) -> None:
    """Raise EncodeError for a value that is too deep for a response, although it can be written alone."""
    # At most 8 containers are around a value in a response.
    for _ in range(8):
        value = [value]
    dumps(value)


def sendable_text(text: str) -> str:
    """Return a text if it can be sent.

    Raises NotSendable: it has a lone surrogate, as names of files that are not UTF-8 do.
    """
    if not text.isascii() and has_surrogates(text):
        raise NotSendable("str is not valid UTF-8: surrogates not allowed")
    return text


def shown_text(text: str) -> str:
    """Return a text for people that can be sent: a lone surrogate is shown as its escape."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _is_refused(value: Any) -> bool:
    try:
        dumps(to_json(value))
    except EncodeError:
        return True
    return False


def _is_not_finite(value: Any) -> bool:
    """Whether a value of JSON types has NaN or infinity in it."""
    values = [value]
    for each in values:  # the list grows: by level, without recursion
        if type(each) is float:
            if not isfinite(each):
                return True
        elif type(each) is dict:
            values += each.values()
        elif type(each) in (list, tuple):
            values += each
    return False


def _place_of(value: Any, is_it: Callable[[Any], bool]) -> list[str | int] | None:
    """Return the way to the part of a value that is refused, as far as it can be found; None for a circular value."""
    place: list[str | int] = []
    seen = {id(value)}
    # Each try takes as long as writing the value.
    left = 1000
    while True:
        for name, part in _named_parts(value):
            left -= 1
            if left < 0:
                return place
            if id(part) in seen and is_it(part):
                return [*place, name]
            if is_it(part):
                place.append(name)
                value = part
                seen.add(id(part))
                break
        else:
            return place


def _named_parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, dict):
        return [*value.items()]
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    names: Iterable[str] = getattr(type(value), "__struct_fields__", getattr(type(value), "__dataclass_fields__", ()))
    return [(name, getattr(value, name, None)) for name in names]


def _at(place: list[str | int] | None) -> str:
    if not place:
        return ""
    shown = shown_text(pointer_to(place))
    return f", at {shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + '...'}"


_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"  # and the length is a multiple of 4
_VERSIONS: Final = {"audio": since("2025-03-26"), "resource_link": since("2025-06-18")}


def made_blocks(value: Any, revision: Revision) -> list[dict[str, Any]]:
    """Return the content blocks for a list of blocks and strings that a function returned.

    Raises TypeError: the value is anything else.
    """
    # A str is a sequence, too: its characters would become blocks.
    blocks = value if isinstance(value, (list, tuple)) else None
    _check(items_fault(None if blocks is None else [*blocks], "/content"))
    return [_made_block(block, f"/content/{index}", revision) for index, block in enumerate(blocks or ())]


def listed_blocks(value: Any) -> list[Any]:
    """Return the argument of `made_blocks` for a block, or for a list with blocks, where other values become text."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return [item if _is_block_like(item) else sendable(item)[1].decode() for item in items]


def _is_block_like(item: Any) -> bool:
    return isinstance(item, str) or (isinstance(item, Mapping) and isinstance(item.get("type"), str))


def made_messages(value: Any, revision: Revision) -> list[dict[str, Any]]:
    """Return the messages for a string, a message, or a list of these that the function of a prompt returned.

    Raises TypeError: the value is anything else.
    """
    # A single message is treated as a list of one.
    messages = value if isinstance(value, (list, tuple)) else [value]
    _check(items_fault([*messages], "/messages"))
    return [
        {**message, "content": _made_block(message.get("content"), f"{path}/content", revision)}
        for path, message in _messages(messages)
    ]


def sampling_messages(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the messages for a request to the model of a client.

    Args:
        messages: Texts of the user, and messages whose content is a str, a block, or a list of blocks.

    Raises TypeError: a message is anything else.
    """
    made = []
    for _, message in _messages(messages):
        content = message.get("content")
        made.append({**message, "content": text_content(content) if isinstance(content, str) else content})
    return made


def _messages(messages: Sequence[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the members of each message; a string is a message of the user."""
    for index, message in enumerate(messages):
        path = f"/messages/{index}"
        members = {"role": "user", "content": message} if isinstance(message, str) else _members(message, path)
        if members.get("role") not in ROLES:
            raise TypeError(f"{path}/role must be one of {', '.join(ROLES)}")
        yield path, members


def made_prompt(value: Any, revision: Revision, description: str | None) -> dict[str, Any]:
    """Return the `GetPromptResult` for what the function of a prompt returned.

    Raises TypeError: the value is anything else.
    """
    if value is not None and not isinstance(value, (str, list, tuple)):
        value = _members(value, "")
    if isinstance(value, dict) and "messages" in value:
        if not isinstance(value["messages"], (list, tuple)):
            raise TypeError("/messages must be an array")
        result = {**_present(value), "messages": made_messages(value["messages"], revision)}
        _check(members_fault(result, (), ""))
        return result
    result = {"messages": made_messages(value, revision)}
    return result if description is None else {"description": description, **result}


def made_contents(uri: str, value: Any, shown: Resource | ResourceTemplate | None = None) -> dict[str, Any]:
    """Return the `ReadResourceResult` for what the function of a resource returned.

    Args:
        value: A str, bytes, contents (`{"uri": …, "text": …}` or with a `blob`), a list of these, a result
            (`{"contents": […]}`), or any other object in JSON, which becomes JSON as text.
        shown: The resource, or its template: its MIME type is that of the contents, and its `_meta` that of contents
            without one. None: the resource is not registered here.

    Raises TypeError: the value is anything else.
    """
    mime_type = None if shown is None or shown.mime_type is UNSET else shown.mime_type
    result: dict[str, Any] = {}
    items: Any = value
    if not isinstance(value, (str, bytes, bytearray, memoryview, list, tuple)):
        items = _members(value, "")
        if "contents" in items:
            result, items = _present(items), items["contents"]
            if not isinstance(items, list):
                raise TypeError("/contents must be an array")
            _check(members_fault(result, (), ""))
    if not isinstance(items, (list, tuple)):
        items = [items]
    _check(items_fault([*items], "/contents"))
    contents = [_made_contents(uri, item, f"/contents/{index}", mime_type) for index, item in enumerate(items)]
    if shown is not None and shown.meta is not UNSET:
        contents = [{"_meta": shown.meta, **each} for each in contents]
    return {**result, "contents": contents}


def _made_contents(uri: str, item: Any, path: str, mime_type: str | None) -> dict[str, Any]:
    if isinstance(item, str):
        return text_contents(uri, _sent(item, path), mime_type)
    if isinstance(item, (bytes, bytearray, memoryview)):
        return blob_contents(uri, bytes(item), mime_type)
    members = _members(item, path)
    # An object with other members is data, and is sent as JSON.
    if "uri" in members and ("text" in members or "blob" in members):
        members = _present(members)
        _check(contents_fault(members, path))
        _check_base64(members, "blob", path)
        if uri_faults(members["uri"]):
            raise TypeError(f"{path}/uri must be a valid URI")
        return members
    return text_contents(uri, dumps(members).decode(), mime_type or "application/json")


def _made_block(value: Any, path: str, revision: Revision) -> dict[str, Any]:
    if isinstance(value, str):
        return text_content(_sent(value, path))
    block = _present(_members(value, path))
    if isinstance(block.get("resource"), dict):
        block["resource"] = _present(block["resource"])
    _check(block_fault(block, path, allow_unknown=False))
    kind = block["type"]
    if kind in ("image", "audio"):
        _check_base64(block, "data", path)
    elif kind == "resource":
        _check_base64(block["resource"], "blob", f"{path}/resource")
    for uri in (block.get("uri"), block["resource"]["uri"] if kind == "resource" else None):
        if uri is not None and kind in ("resource", "resource_link") and uri_faults(uri):
            raise TypeError(f"{path} must have a valid URI")
    # An older client would refuse the whole result because of a block that it does not know.
    if revision.version in _VERSIONS.get(kind, VERSIONS):
        return block
    return text_content(block["uri"] if kind == "resource_link" else f"[{kind}: {block['mimeType']}]")


def _members(value: Any, path: str) -> dict[str, Any]:
    """The members of a value that is an object in JSON. Any other value raises TypeError."""
    members = _sent(value, path)
    if not isinstance(members, dict):
        raise TypeError(f"{path or 'the result'} must not be of type {type(value).__qualname__}")
    return members


def _sent(value: Any, path: str) -> Any:
    """A value in JSON types. One that cannot be sent raises TypeError."""
    try:
        return sendable(value)[0]
    except NotSendable as error:
        raise TypeError(f"{path or 'the result'}: {error}") from error


def _present(members: dict[str, Any]) -> dict[str, Any]:
    """An object without the members that are None."""
    return {name: value for name, value in members.items() if value is not None}


def _check_base64(members: dict[str, Any], name: str, path: str) -> None:
    text = members.get(name, "")
    # `base64.b64decode` would decode all of it, only to check it.
    if not isinstance(text, str) or len(text) % 4 or not re.fullmatch(_BASE64, text):
        raise TypeError(f"{path}/{name} must be bytes or base64")


def _check(fault: str | None) -> None:
    if fault is not None:
        raise TypeError(fault)
