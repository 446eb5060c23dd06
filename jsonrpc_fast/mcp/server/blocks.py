"""Content blocks: text, images, audio, links to resources and embedded resources.

    @server.tool
    def chart(days: int) -> list[str | Image]:
        return ["The last days:", Image(draw(days))]

A block is a dict in the format of the protocol, so blocks are allowed wherever such dicts are: in the return value of a
tool, in `ToolResult.content`, and as the content of a prompt message. `ToolResult`, `ToolError` and `WholeResult` set
more of a result than its value.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypedDict, Unpack

import msgspec
from msgspec import UNSET

from ..protocol.capabilities import Icon
from ..protocol.definitions import Annotations

Data = bytes | bytearray | memoryview | os.PathLike[str]
"""Bytes, or the path of the file that holds them."""

_SIGNATURES: Final = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (4, b"ftypavif", "image/avif"),
    (0, b"BM", "image/bmp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftypM4A", "audio/mp4"),
)
"""An offset, the bytes found there, and the MIME type that they identify."""

_BY_SUFFIX: Final = {
    ".aac": "audio/aac",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".ogg": "audio/ogg",
    ".wav": "audio/wav",
    ".webp": "image/webp",
}
"""MIME types that `mimetypes` lacks on some platforms, or names differently."""


class ToolResult(msgspec.Struct, frozen=True):
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


class WholeResult(msgspec.Struct, frozen=True):
    """The whole result of a request, returned by the function of a tool, a prompt or a resource.

        return WholeResult({"resultType": "task", "taskId": id, …})       # of an extension that the client declares
        return WholeResult({"resultType": "input_required", "inputRequests": {"login": {…}}})     # see `Context.state`

    Args:
        members: The members of the result. Without `resultType` it is "complete"; before 2026-07-28 it is left out.
    """

    members: Mapping[str, Any]


class BlockOptions(TypedDict, total=False):
    """The options of all blocks.

    Attributes:
        annotations: The intended audience and the importance.
        meta: The block's `_meta`.
    """

    annotations: Annotations | Mapping[str, Any] | None
    meta: Mapping[str, Any] | None


class Block(dict[str, Any]):
    """A content block. Use one of its subclasses."""

    def __init__(
        self,
        members: Mapping[str, Any],
        annotations: Annotations | Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__({name: value for name, value in members.items() if value is not None})
        if annotations is not None:
            self["annotations"] = annotations.to_dict() if isinstance(annotations, Annotations) else dict(annotations)
        if meta is not None:
            self["_meta"] = dict(meta)


class Text(Block):
    """A text block.

    Args:
        text: The text.
        options: See `BlockOptions`.
    """

    def __init__(self, text: str, **options: Unpack[BlockOptions]) -> None:
        super().__init__({"type": "text", "text": text}, **options)


class Media(Block):
    """A content block with data in base64. Use `Image` or `Audio`."""

    _kind: ClassVar[str]

    def __init__(self, data: Data, mime_type: str | None = None, **options: Unpack[BlockOptions]) -> None:
        super().__init__(_media(self._kind, data, mime_type), **options)


class Image(Media):
    """An image.

    Args:
        data: The bytes of the image, or the path of a file, which is read at once.
        mime_type: The MIME type; by default derived from the suffix of the path, or from the first bytes.
        options: See `BlockOptions`.

    Raises:
        ValueError: The MIME type is unknown, or not that of an image.
        OSError: The file cannot be read.
    """

    _kind = "image"


class Audio(Media):
    """Audio. Clients with a revision before 2025-03-26 get a text block that names the type.

    The arguments and the exceptions are those of `Image`.
    """

    _kind = "audio"


class ResourceLink(Block):
    """A link to a resource that the client may read. Clients with a revision before 2025-06-18 get the URI as text.

    Args:
        uri: The URI of the resource.
        name: The name of the resource; by default the last part of the URI.
        title: The display name.
        description: What the resource is.
        mime_type: The MIME type; by default derived from the suffix of the URI, if it is known.
        size: The size in bytes.
        icons: Icons for user interfaces.
        options: See `BlockOptions`.
    """

    def __init__(
        self,
        uri: str,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        icons: list[Icon] | None = None,
        **options: Unpack[BlockOptions],
    ) -> None:
        members = {
            "type": "resource_link",
            "uri": uri,
            "name": name or uri.rstrip("/").rpartition("/")[2] or uri,
            "title": title,
            "description": description,
            "mimeType": mime_type or _type_of_name(uri),
            "size": size,
            "icons": None if icons is None else [icon.to_dict() for icon in icons],
        }
        super().__init__(members, **options)


class EmbeddedResource(Block):
    """The contents of a resource.

    Args:
        uri: The URI of the resource.
        contents: A str, bytes, or the path of a file, which is read at once. A file of a text type is text.
        mime_type: The MIME type; by default derived from the suffix of the path or of the URI, if it is known.
        options: See `BlockOptions`.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file has a text type but is not UTF-8.
    """

    def __init__(
        self, uri: str, contents: str | Data, mime_type: str | None = None, **options: Unpack[BlockOptions]
    ) -> None:
        if isinstance(contents, os.PathLike):
            mime_type = mime_type or _type_of_name(os.fspath(contents))
            data = Path(contents).read_bytes()
            contents = data.decode() if is_text(mime_type) else data
        resource: dict[str, Any] = {"uri": uri}
        if (mime_type := mime_type or _type_of_name(uri)) is not None:
            resource["mimeType"] = mime_type
        resource |= {"text": contents} if isinstance(contents, str) else {"blob": _base64(contents)}
        super().__init__({"type": "resource", "resource": resource}, **options)


class UserMessage(dict[str, Any]):
    """A message from the user, for prompt functions to return.

    Args:
        content: A str, or a content block.
    """

    def __init__(self, content: str | Mapping[str, Any]) -> None:
        super().__init__(role="user", content=content)


class AssistantMessage(dict[str, Any]):
    """A message from the assistant, for prompt functions to return.

    Args:
        content: A str, or a content block.
    """

    def __init__(self, content: str | Mapping[str, Any]) -> None:
        super().__init__(role="assistant", content=content)


def has_blocks(value: Any) -> bool:
    """Return whether a function's return value is a content block, or a list that contains one."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, Block) for item in value)
    return isinstance(value, Block)


def is_text(mime_type: str | None) -> bool:
    """Return whether files of a MIME type contain text."""
    if mime_type is None:
        return False
    kind, _, subtype = mime_type.partition(";")[0].strip().lower().partition("/")
    return kind == "text" or subtype.endswith(("json", "xml", "javascript", "yaml", "toml"))


def _media(kind: str, data: Data, mime_type: str | None) -> dict[str, Any]:
    if isinstance(data, os.PathLike):
        mime_type = mime_type or _type_of_name(os.fspath(data))
        data = Path(data).read_bytes()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"the data of {kind} must be bytes or a path, not {type(data).__name__}")
    start = bytes(data[:16])
    mime_type = mime_type or next((type_ for at, text, type_ in _SIGNATURES if start[at:].startswith(text)), None)
    if mime_type is None or not mime_type.startswith(f"{kind}/"):
        raise ValueError(f"the MIME type of {kind} must be given and begin with {kind}/")
    return {"type": kind, "data": _base64(data), "mimeType": mime_type}


def _base64(data: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(data).decode()


def _type_of_name(name: str) -> str | None:
    # Only the suffix, because `mimetypes` reads a whole name as a URL.
    suffix = os.path.splitext(name)[1].lower()
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    import mimetypes  # it reads the files of the system

    return mimetypes.guess_type(f"name{suffix}")[0]
