"""URIs of resources: validation, templates and their expansion, unsafe parts; and the contents of a resource.

Rules:
  - A URI is valid by RFC 3986, with any scheme. A `resource://` URI must name a provider, its host.
  - An unsafe part of a URI could make a path leave its folder: `..` as a segment, encoded or not, NUL, an absolute
    path, bytes that are not UTF-8. It reaches a function only if the registration allows unsafe parts.
  - Parts are judged together, because functions join them: `"/".join(["", "etc"])` is absolute, and `.` and `.` are
    `..` when they meet. Below a folder, in whatever order they are joined, with `/`, with nothing or with the text of
    the template between them, they lead to a place in that folder.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from ...codes import ErrorCode, McpErrorCode
from ...errors import RpcError
from ...support import has_surrogates
from .versions import Revision

MAX_URI_CHARACTERS: Final = 8192
"""Maximum length of the URI of a resource."""

_MAX_SHOWN: Final = 200


@functools.cache
def _uri_validator() -> Callable[[str], bool]:
    import jsonschema_rs  # loaded for the first URI or schema

    return jsonschema_rs.Draft202012Validator({"type": "string", "format": "uri"}, validate_formats=True).is_valid


def uri_faults(uri: object) -> list[str]:
    """Return the faults of the URI of a resource, for people; [] if it is valid. They do not show the URI."""
    if not isinstance(uri, str):
        return ["the URI is not a string"]
    if len(uri) > MAX_URI_CHARACTERS:
        return [f"the URI has more than {MAX_URI_CHARACTERS} characters"]
    faults = []
    if not _is_valid(uri):
        faults.append("not a valid URI (RFC 3986)")
    # The scheme is not case-sensitive (RFC 3986, section 3.1).
    if uri[:9].lower() == "resource:" and not _has_host(uri):
        faults.append("a resource:// URI must name a provider")
    return faults


def check_uri(uri: object) -> str:
    """Return a URI if it is valid.

    Raises RpcError: the URI is not valid (-32602). The message names all faults, without the URI.
    """
    faults = uri_faults(uri)
    if isinstance(uri, str) and not faults:
        return uri
    raise RpcError.invalid_params("; ".join(faults))


def not_found(uri: str, revision: Revision, hints: Sequence[str] = ()) -> RpcError:
    """Return the error for an unknown resource, with sentences that help: -32602 from 2026-07-28 on, -32002 before."""
    code = ErrorCode.INVALID_PARAMS if revision.is_modern else McpErrorCode.RESOURCE_NOT_FOUND
    shown = uri if len(uri) <= _MAX_SHOWN else f"{uri[:_MAX_SHOWN]}..."
    return RpcError(code, ". ".join([f"Resource not found: {shown}", *hints]), {"uri": uri})


def _is_valid(uri: str) -> bool:
    try:
        return _uri_validator()(uri)
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _has_host(uri: str) -> bool:
    try:
        return bool(urlsplit(uri).hostname)
    except ValueError:  # the brackets contain no IP address
        return False


RESERVED: Final = r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
_SEPARATORS: Final = r"[/\\]"
_DRIVE: Final = r"[A-Za-z]:"


class UnsafePart(ValueError):
    """A part of a URI or of a path is unsafe: it could lead out of a folder. The text says why, without the part.

    A resource function that raises it has no such resource; a tool that raises it fails with this text.
    """


def unsafe_reason(parts: Sequence[str]) -> str | None:
    """Return why decoded parts of a URI are unsafe, for people; None if they are not. The reason does not show them.

    Args:
        parts: All parts that a function gets. `/` and `\\` are separators in them, on every system: a server may pass
            a Windows path on to another system.
    """
    are_joined = len(parts) > 1
    for part in parts:
        if "\0" in part:
            return "it has a NUL"
        if has_surrogates(part):
            return "it is not UTF-8"
        if part.startswith(("/", "\\")) or re.match(_DRIVE, part) is not None:
            return "it is an absolute path"
        segments = re.split(_SEPARATORS, part)
        if ".." in segments:
            return "it has the segment .."
        if not are_joined:
            continue
        if not part:
            return "a part is empty: joined to the next one it would be an absolute path"
        # At the joint they could become `..`, or the drive of a Windows path.
        if "." in segments or part.startswith(":"):
            return "joined to another part it could leave the folder"
    return None


def is_unsafe_uri(uri: str) -> bool:
    """Return whether the path of a whole URI could leave a folder.

    It has `..` as a segment, an empty segment that is not the last one, a drive, a NUL, or bytes that are not UTF-8:
    whoever takes the text after some prefix of the URI could get an absolute path.
    """
    path = unquote(re.split(r"[?#]", uri, maxsplit=1)[0].partition("://")[2], errors="surrogateescape")
    segments = re.split(_SEPARATORS, path)
    # The host, and of `file:///` none, comes first.
    return _climbs(uri) or "" in segments[1:-1] or any(re.match(_DRIVE, segment) for segment in segments[1:])


def _climbs(uri: str) -> bool:
    """Whether a URI has `..` as a segment, a NUL, or bytes that are not UTF-8."""
    # Decoded once, as servers do, so `%252e` is a name with a percent sign.
    text = unquote(uri, errors="surrogateescape")
    return "\0" in text or ".." in re.split(r"[/\\:?#&=;]", text) or has_surrogates(text)


def safe_join(root: str | os.PathLike[str], *parts: str) -> Path:
    """Return the path of these parts in a folder: for functions that open a file that a client or a model names.

    Links are followed, so it is the path of the file itself. The file need not exist.

    Args:
        root: The folder.
        parts: The parts, which may have separators in them. What they contain does not matter, only where they lead.

    Raises:
        UnsafePart: The path is not in the folder, or is no path.
    """
    try:
        folder = Path(root).resolve()
        path = folder.joinpath(*parts).resolve()
        # Before Python 3.13 `resolve` leaves the links behind a ring of links as they are, and since then the ring.
        is_resolved = path.resolve() == path
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            path.stat()
    except (OSError, RuntimeError, ValueError):  # a ring of links, a name that is too long, a NUL
        raise UnsafePart("this is no path in the folder") from None
    if not is_resolved:
        raise UnsafePart("this is no path in the folder")
    if not path.is_relative_to(folder):
        raise UnsafePart("the path leads out of the folder")
    return path


class _Operator(msgspec.Struct, frozen=True):
    """How an expression is written (RFC 6570, appendix A)."""

    first: str
    separator: str
    is_named: bool = False
    # What may stand in a segment of a path (RFC 3986, section 3.3). A simple expansion encodes `@ + , = :` and
    # others, but people and models write them as they are.
    characters: str = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*"


_OPERATORS: Final = {
    "": _Operator("", ","),
    "+": _Operator("", ",", characters=RESERVED),
    "#": _Operator("#", ",", characters=RESERVED),
    ".": _Operator(".", "."),
    "/": _Operator("/", "/"),
    ";": _Operator(";", ";", is_named=True),
    "?": _Operator("?", "&", is_named=True),
    "&": _Operator("&", "&", is_named=True),
}


class Variable(msgspec.Struct, frozen=True):
    """A variable of an expression.

    Attributes:
        name: Its name.
        maximum: Maximum number of characters; None: no limit.
        explodes: Whether its value is a list or an object whose members are written separately.
    """

    name: str
    maximum: int | None
    explodes: bool


class Expression:
    """An expression of a template, such as `{?query,page}`."""

    __slots__ = ("operator", "variables")

    def __init__(self, text: str) -> None:
        # The operators that RFC 6570 reserves for later are refused as names of variables.
        operator = text[:1] if text[:1] in _OPERATORS else ""
        self.operator: _Operator = _OPERATORS[operator]
        self.variables: list[Variable] = []
        for part in text[len(operator) :].split(","):
            found = re.fullmatch(r"(\w+(?:\.\w+)*)(?::([1-9]\d{0,3})|(\*))?", part, re.ASCII)
            if found is None:
                raise ValueError("not a URI template (RFC 6570)")
            name, maximum, star = found.groups()
            self.variables.append(Variable(name, None if maximum is None else int(maximum), star is not None))

    @property
    def explodes(self) -> bool:
        """Whether a variable explodes."""
        return any(variable.explodes for variable in self.variables)

    def read(self, text: str) -> dict[str, Any] | None:
        """Return the values by name if this text can be an expansion, else None. Undefined variables are left out."""
        operator = self.operator
        if operator.first:
            if not text:
                return {}
            if not text.startswith(operator.first):
                return None
            text = text[1:]
        return self._read_named(text) if operator.is_named else self._read_listed(text)

    def _read_listed(self, text: str) -> dict[str, Any] | None:
        # Only the last variable may explode, so all others take one item each.
        *variables, last = self.variables
        # Without `*` the last variable takes the rest, including separators.
        items = text.split(self.operator.separator, -1 if last.explodes else len(variables))
        plain = [*items[: len(variables)], *[item.replace("=", "", last.explodes) for item in items[len(variables) :]]]
        if not all(re.fullmatch(self.operator.characters, item) for item in plain):
            return None
        values: dict[str, Any] = {}
        for variable, item in zip(variables, items):  # noqa: B905  # the last variables may be undefined
            values[variable.name] = _decode(item)
        rest = items[len(variables) :]
        if last.explodes:
            values[last.name] = _exploded(last.name, [item.partition("=") for item in rest])
        elif rest:
            values[last.name] = _decode(rest[0])
        return values if self._are_short(values) else None

    def _read_named(self, text: str) -> dict[str, Any] | None:
        found: dict[str, list[tuple[str, str, str]]] = {}
        known = {variable.name for variable in self.variables if not variable.explodes}
        exploded = next((variable.name for variable in self.variables if variable.explodes), None)
        for item in text.split(self.operator.separator):
            name, equals, value = item.partition("=")
            if not re.fullmatch(r"(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})*", name) or not re.fullmatch(
                r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*", value
            ):
                return None
            if name in known:
                # Choosing the first or the last value would be a guess.
                if name in found:
                    return None
                found[name] = [(name, equals, value)]
            elif exploded is not None and name:
                found.setdefault(exploded, []).append((name, equals, value))
            # Unknown parameters of a query are ignored, as servers do: a host may add its own.
            elif not name or self.operator.first == ";":
                return None
        values = {
            name: _exploded(name, pairs) if name == exploded else _decode(pairs[0][2]) for name, pairs in found.items()
        }
        return values if self._are_short(values) else None

    def _are_short(self, values: Mapping[str, Any]) -> bool:
        limits = {variable.name: variable.maximum for variable in self.variables}
        return all(limit is None or len(values.get(name, "")) <= limit for name, limit in limits.items())


def template_parts(template: str) -> Iterator[str | Expression]:
    """Yield the text and the expressions of a template, in turn. Raises ValueError: `template` is not a template."""
    for index, part in enumerate(re.split(r"\{([^{}]*)\}", template)):
        # Text that only looks like an expression would otherwise appear in the URI.
        if not index % 2 and ("{" in part or "}" in part):
            raise ValueError("not a URI template (RFC 6570)")
        yield Expression(part) if index % 2 else part


def _exploded(name: str, parts: list[tuple[str, str, str]]) -> list[str] | dict[str, str]:
    """The list or the object that was written in these parts: (value, "", "") or (name, "=", value)."""
    if all(equals and key == name for key, equals, _ in parts):
        return [_decode(value) for _, _, value in parts]
    if all(equals for _, equals, _ in parts):
        return {_decode(key): _decode(value) for key, _, value in parts}
    return [_decode(key + equals + value) for key, equals, value in parts]


def _decode(text: str) -> str:
    return unquote(text, errors="surrogateescape")


class UriTemplate:
    """A URI template (RFC 6570, all levels) that is matched against URIs.

    A value ends where the text or the expression after it begins, so that matching takes time proportional to the
    length of the URI. The parameters of a query may come in any order, and unknown ones are ignored. Lists are matched
    only with `*`, which only the last variable of an expression may have. A simple expansion also matches what people
    write without encoding it: all that may stand in a segment of a path, such as `@ + , = :`.

    Args:
        template: The template: text with expressions such as `{name}`, `{+path}`, `{/segments*}` and `{?query,page}`.

    Raises ValueError: this is not a template, it names a variable twice, or nothing separates two of its expressions.
    """

    __slots__ = ("_has_folder", "_parts", "names", "template", "unsafe_parts")

    def __init__(self, template: str, *, unsafe_parts: bool = False) -> None:
        self.template: str = template
        self.unsafe_parts: bool = unsafe_parts
        self._parts: list[str | Expression] = [part for part in template_parts(template) if part != ""]
        expressions = [part for part in self._parts if isinstance(part, Expression)]
        # Whether text with a separator follows a part.
        self._has_folder: bool = any(
            isinstance(first, Expression) and isinstance(second, str) and second.startswith("/")
            for first, second in zip(self._parts, self._parts[1:])  # noqa: B905  # pairs
        )
        variables = [variable for expression in expressions for variable in expression.variables]
        self.names: tuple[str, ...] = tuple(variable.name for variable in variables)
        # RFC 6570 allows this, but matching would have to compare the two values.
        if len(set(self.names)) != len(self.names):
            raise ValueError("the URI template names a variable twice")
        for expression in expressions:
            if any(variable.explodes for variable in expression.variables[:-1]):
                raise ValueError("in the URI template, a variable follows one with * in the same expression")
        # Without a separator there are many ways to split a URI, and finding one takes more than linear time.
        for first, second in zip(self._parts, self._parts[1:]):  # noqa: B905  # pairs
            if isinstance(first, Expression) and isinstance(second, Expression):
                next_first = second.operator.first
                is_split = first.explodes and next_first == first.operator.separator
                if not next_first or is_split or (first.operator.first == next_first and first.operator.is_named):
                    raise ValueError("in the URI template, nothing separates two expressions")

    def match(self, uri: str) -> dict[str, Any] | None:
        """Return the decoded values by name if the URI matches the template, else None.

        A value is a str; with `*` it is a list or a dict. Undefined variables are left out, where an operator allows
        them. Bytes that are not UTF-8 become surrogates, as in `os.fsdecode`.

        Raises UnsafePart: the URI matches, but has an unsafe part that the template does not allow.
        """
        values: dict[str, Any] = {}
        start = 0
        for index, part in enumerate(self._parts):
            if isinstance(part, str):
                if not uri.startswith(part, start):
                    return None
                start += len(part)
                continue
            end = self._end(uri, start, index)
            found = None if end < start else part.read(uri[start:end])
            if found is None:
                return None
            values |= found
            start = end
        if start != len(uri):
            return None
        # Checked after the match: a template must not refuse a URI that another template serves.
        if not self.unsafe_parts and (reason := self._unsafe_reason(uri, values)) is not None:
            raise UnsafePart(f"a part of the URI is unsafe: {reason}")
        return values

    def _unsafe_reason(self, uri: str, values: Mapping[str, Any]) -> str | None:
        parts = [text for value in values.values() for text in _texts_of(value)]
        reason = unsafe_reason(parts)
        if reason is not None:
            return reason
        # Functions write the text of the template again: `f"{folder}/index.html"`, `f".{name}"`.
        if parts == [""] and self._has_folder:
            return "a part is empty: joined to the next one it would be an absolute path"
        return "it has the segment .." if parts and _climbs(uri) else None

    def _end(self, uri: str, start: int, index: int) -> int:
        """Return where the expansion of an expression ends: where the next part begins; -1 if that does not occur."""
        expression = self._parts[index]
        assert isinstance(expression, Expression)
        first = expression.operator.first
        if first and not uri.startswith(first, start):
            return start  # all of its variables are undefined
        searched = start + len(first)
        end = len(uri)
        for number, part in enumerate(self._parts[index + 1 :], index + 1):
            if isinstance(part, Expression):
                # The next expression may be left out of the URI, so this one may end where the part after that begins.
                found = uri.find(part.operator.first, searched)
                end = end if found < 0 else min(end, found)
            elif number == len(self._parts) - 1:
                return min(end, len(uri) - len(part)) if uri.endswith(part) else -1
            else:
                found = uri.find(part, searched)
                return min(end, found)
        return end


def _texts_of(value: Any) -> list[str]:
    """The strings in a value of a template."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else [value]


def text_contents(uri: str, text: str, mime_type: str | None = None) -> dict[str, Any]:
    """Return the contents of a text resource, as `resources/read` returns them."""
    return {"uri": uri, **({} if mime_type is None else {"mimeType": mime_type}), "text": text}


def blob_contents(uri: str, data: bytes, mime_type: str | None = None) -> dict[str, Any]:
    """Return the contents of a binary resource, as `resources/read` returns them."""
    blob = base64.b64encode(data).decode()
    return {"uri": uri, **({} if mime_type is None else {"mimeType": mime_type}), "blob": blob}


TemplateValue = str | int | float | Sequence[str] | Mapping[str, str] | None


def expand_uri_template(template: str, values: Mapping[str, TemplateValue]) -> str:
    """Return the expansion of a template.

        uri = expand_uri_template("repo://{owner}{/path*}{?ref}", {"owner": "ann", "path": ["src", "a.py"]})
        assert uri == "repo://ann/src/a.py"

    Args:
        template: The template, such as the `uriTemplate` of a resource template.
        values: The values by variable: a str, a number, a list or a dict of strings. Variables without a value, or with
            None or an empty list or dict, are left out.

    Raises:
        ValueError: `template` is not a template.
        TypeError: A value has another type, or a list or a dict has a maximum length in the template.
    """
    expanded = [
        _encode(part, keeps_reserved=True) if isinstance(part, str) else _expand(part, values)
        for part in template_parts(template)
    ]
    return "".join(expanded)


def _expand(expression: Expression, values: Mapping[str, TemplateValue]) -> str:
    operator = expression.operator
    keeps_reserved = operator.characters is RESERVED
    written: list[str] = []
    for variable in expression.variables:
        # An undefined variable leaves no trace, not even a separator (RFC 6570, section 3.2.1).
        value = values.get(variable.name)
        if value is None:
            continue
        if isinstance(value, (str, int, float)):
            pairs = [(variable.name, _encode(str(value)[: variable.maximum], keeps_reserved))]
        else:
            pairs = _pairs(variable, value, keeps_reserved)
        for name, text in pairs:
            is_named = operator.is_named or (variable.explodes and isinstance(value, Mapping))
            # `;` writes an empty value without "=" (RFC 6570, section 3.2.7).
            equals = "=" if text or operator.first != ";" else ""
            written.append(f"{name}{equals}{text}" if is_named else text)
    return operator.first + operator.separator.join(written) if written else ""


def _pairs(variable: Variable, value: object, keeps_reserved: bool) -> list[tuple[str, str]]:
    """Return the names and values for writing a list or a dict."""
    if variable.maximum is not None:
        raise TypeError(f"{variable.name} must be a str: the template limits its length")
    if isinstance(value, Mapping):
        members = [(_encode(name, keeps_reserved), _encode(each, keeps_reserved)) for name, each in value.items()]
        if variable.explodes or not members:
            return members
        return [(variable.name, ",".join(text for member in members for text in member))]
    if not isinstance(value, Sequence) or isinstance(value, (bytes, bytearray)):
        raise TypeError(f"{variable.name} must be a str, a number, a list or a dict, not {type(value).__name__}")
    items = [_encode(item, keeps_reserved) for item in value]
    if variable.explodes or not items:
        return [(variable.name, item) for item in items]
    return [(variable.name, ",".join(items))]


def _encode(text: object, keeps_reserved: bool) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the items of a list or a dict must be strings, not {type(text).__name__}")
    if not keeps_reserved:
        return quote(text, safe="", errors="surrogateescape")
    pieces = re.split(r"(%[0-9A-Fa-f]{2})", text)  # encoded characters stay unchanged
    pieces[::2] = [quote(piece, safe=":/?#[]@!$&'()*+,;=", errors="surrogateescape") for piece in pieces[::2]]
    return "".join(pieces)
