"""URIs of resources: validation, templates, unsafe parts; and the contents of a resource.

Rules:
  - A URI is valid by RFC 3986, with any scheme. A `resource://` URI must name a provider, its host.
  - An unsafe part of a URI could make a path leave its folder: `..` as a segment, encoded or not, NUL, an absolute
    path, bytes that are not UTF-8. It reaches a function only if the registration allows unsafe parts.
"""

from __future__ import annotations

import base64
import enum
import re
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

import jsonschema_rs

from ...codec._json import has_surrogates
from ...codes import ErrorCode, McpErrorCode
from ...errors import RpcError, invalid_params
from .versions import Revision

MAX_URI_CHARACTERS: Final = 8192
"""Maximum length of the URI of a resource."""

_is_uri: Final = jsonschema_rs.Draft202012Validator({"type": "string", "format": "uri"}, validate_formats=True).is_valid


class UriFault(enum.Enum):
    """What is wrong with the URI of a resource. The value is the text for people."""

    NOT_A_STRING = "the URI is not a string"
    TOO_LONG = f"the URI has more than {MAX_URI_CHARACTERS} characters"
    NOT_A_URI = "not a valid URI (RFC 3986)"
    NO_PROVIDER = "a resource:// URI must name a provider"


@dataclass(frozen=True, slots=True)
class UriReport:
    """What is wrong with a URI. `report["valid"]` and `report["errors"]` work, too."""

    errors: tuple[UriFault, ...]

    @property
    def valid(self) -> bool:
        """Whether the URI has no fault."""
        return not self.errors

    def __getitem__(self, name: Literal["valid", "errors"]) -> Any:
        if name not in ("valid", "errors"):
            raise KeyError(name)
        return getattr(self, name)


def validate_uri(uri: object) -> UriReport:
    """Check the URI of a resource and report all faults."""
    if not isinstance(uri, str):
        return UriReport((UriFault.NOT_A_STRING,))
    if len(uri) > MAX_URI_CHARACTERS:
        return UriReport((UriFault.TOO_LONG,))
    errors = []
    if not _is_valid(uri):
        errors.append(UriFault.NOT_A_URI)
    if uri[:9].lower() == "resource:" and not _has_host(uri):
        errors.append(UriFault.NO_PROVIDER)
    return UriReport(tuple(errors))


def check_uri(uri: object) -> str:
    """Return a URI if it is valid.

    Raises:
        RpcError: The URI is not valid (-32602). The message names all faults, without the URI.
    """
    report = validate_uri(uri)
    if isinstance(uri, str) and report.valid:
        return uri
    raise invalid_params("; ".join([fault.value for fault in report.errors]))


def not_found(uri: str, revision: Revision) -> RpcError:
    """Return the error for an unknown resource: -32602 from 2026-07-28 on, -32002 before."""
    code = ErrorCode.INVALID_PARAMS if revision.is_modern else McpErrorCode.RESOURCE_NOT_FOUND
    return RpcError(code, "Resource not found", {"uri": uri})


def _is_valid(uri: str) -> bool:
    try:
        return _is_uri(uri)
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _has_host(uri: str) -> bool:
    try:
        return bool(urlsplit(uri).hostname)
    except ValueError:  # the brackets hold no IP address
        return False


_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_EXPANDED: Final = re.compile(r"(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})*")  # any value, expanded by level 1
_SEPARATORS: Final = re.compile(r"[/\\]")
_URI_SEPARATORS: Final = re.compile(r"[/\\:?#&=;]")
_DRIVE: Final = re.compile(r"[A-Za-z]:")


class UnsafePart(ValueError):
    """A part of a URI is unsafe.

    Attributes:
        name: The expression of the template that the part belongs to.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"the part {name} of the URI is unsafe")
        self.name: str = name


def is_unsafe_part(value: str) -> bool:
    """Return whether a decoded part of a URI is unsafe, with `/` and `\\` as separators."""
    is_absolute = value.startswith(("/", "\\")) or _DRIVE.match(value) is not None
    return is_absolute or "\0" in value or ".." in _SEPARATORS.split(value) or has_surrogates(value)


def is_unsafe_uri(uri: str) -> bool:
    """Return whether a whole URI has `..` as a segment, a NUL, or bytes that are not UTF-8."""
    text = unquote(uri, errors="surrogateescape")
    return "\0" in text or ".." in _URI_SEPARATORS.split(text) or has_surrogates(text)


class UriTemplate:
    """A URI template (RFC 6570 level 1) with text between any two expressions.

    Args:
        template: The template: text with `{name}` in it.
        unsafe_parts: Whether `match` accepts unsafe parts.

    Attributes:
        names: The names of the expressions.

    Raises:
        ValueError: The template is not of level 1, names an expression twice, or has two without text between them.
    """

    __slots__ = ("_literals", "names", "template", "unsafe_parts")

    def __init__(self, template: str, *, unsafe_parts: bool = False) -> None:
        parts = _EXPRESSION.split(template)
        self.template: str = template
        self.unsafe_parts: bool = unsafe_parts
        self._literals = parts[::2]
        self.names: tuple[str, ...] = tuple(parts[1::2])
        is_level_1 = all(_NAME.fullmatch(name) for name in self.names) and len(set(self.names)) == len(self.names)
        has_text_between = all(self._literals[1:-1]) and not any(brace in "".join(self._literals) for brace in "{}")
        if not (is_level_1 and has_text_between):
            raise ValueError("the URI template must be of RFC 6570 level 1, with text between two expressions")

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values by name if the URI matches the template, else None.

        A value ends at the first occurrence of the text after it. Bytes that are not UTF-8 become surrogates, as in
        `os.fsdecode`.

        Raises:
            UnsafePart: The URI matches, but has an unsafe part that the template does not allow.
        """
        if not uri.startswith(self._literals[0]):
            return None
        values = {}
        start = len(self._literals[0])
        for index, name in enumerate(self.names):
            literal = self._literals[index + 1]
            is_last = index == len(self.names) - 1
            end = len(uri) - len(literal) if is_last else uri.find(literal, start)
            if end < start or not uri.startswith(literal, end) or not _EXPANDED.fullmatch(uri, start, end):
                return None
            values[name] = unquote(uri[start:end], errors="surrogateescape")
            start = end + len(literal)
        if start != len(uri):
            return None
        for name, value in values.items():
            if not self.unsafe_parts and is_unsafe_part(value):
                raise UnsafePart(name)
        return values


def text_contents(uri: str, text: str, mime_type: str | None = None) -> dict[str, Any]:
    """Return the contents of a text resource, as `resources/read` returns them."""
    return {"uri": uri, **({} if mime_type is None else {"mimeType": mime_type}), "text": text}


def blob_contents(uri: str, data: bytes, mime_type: str | None = None) -> dict[str, Any]:
    """Return the contents of a binary resource, as `resources/read` returns them."""
    blob = base64.b64encode(data).decode()
    return {"uri": uri, **({} if mime_type is None else {"mimeType": mime_type}), "blob": blob}
