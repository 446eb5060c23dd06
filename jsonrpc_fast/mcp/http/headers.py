"""The headers of MCP's Streamable HTTP, without IO: names and values, what a client sends, what a server checks.

A request is modern if its body or its header is of a modern revision. Then each header must agree with the body.

Sources: specification 2025-11-25 "Transports", 2026-07-28 "Streamable HTTP".
"""

from __future__ import annotations

import base64
import binascii
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ...codec import Notification, Request, Response
from ...codes import McpErrorCode
from ...errors import InvalidResponse, RpcError
from ...http.requests import Admitted
from ...support import is_header_name, is_header_value
from ..protocol.meta import (
    CLIENT_CAPABILITIES_KEY,
    HEADER_KEY,
    PROTOCOL_VERSION_KEY,
    is_modern_meta,
    member_of,
    object_members,
    unsupported_version,
    version_of,
)
from ..protocol.schemas import DATA_KEYWORDS, SCHEMA_MAPS
from ..protocol.versions import HANDSHAKE_VERSIONS

PROTOCOL_VERSION_HEADER: Final = "mcp-protocol-version"
SESSION_ID_HEADER: Final = "mcp-session-id"
LAST_EVENT_ID_HEADER: Final = "last-event-id"
METHOD_HEADER: Final = "mcp-method"
NAME_HEADER: Final = "mcp-name"
PARAM_HEADER_PREFIX: Final = "mcp-param-"
# The same names, as an ASGI server passes them.
SESSION_ID: Final = SESSION_ID_HEADER.encode()
VERSION: Final = PROTOCOL_VERSION_HEADER.encode()
METHOD: Final = METHOD_HEADER.encode()
NAME: Final = NAME_HEADER.encode()
LAST_EVENT_ID: Final = LAST_EVENT_ID_HEADER.encode()


NAME_MEMBERS: Final[Mapping[str, str]] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/cancel": "taskId",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
}
"""By method: the member of the params that the header `Mcp-Name` repeats; for tasks see SEP-2663."""


OWN_STATUSES: Final = (401, 403, 407, 429)
"""Statuses that no revision of the protocol explains, and that say more than an error in the same response."""

BEARER_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""A bearer token (RFC 6750, section 2.1)."""

_BASE64: Final = "=?base64?"
_BASE64_END: Final = "?="
_LEGACY: Final = frozenset(version.encode() for version in HANDSHAKE_VERSIONS)
_INTEGER: Final = re.compile(r"(-?[0-9]{1,16})(?:\.0+)?")

Path = tuple[str, ...]


def is_single(name: bytes) -> bool:
    """Return whether a header of MCP may have only one value."""
    single = (SESSION_ID, VERSION, METHOD, NAME, LAST_EVENT_ID, b"authorization", b"dpop")
    return name in single or name.startswith(PARAM_HEADER_PREFIX.encode())


def value_of(headers: Mapping[bytes, bytes], name: bytes) -> bytes | None:
    """Return the value of a header; None without it. White space around it is no part of it."""
    value = headers.get(name)
    return None if value is None else value.strip(b" \t")


def encode_value(value: str | int | bool) -> str:
    """Return a value as text for a header: unchanged if that is safe, otherwise in Base64 between markers."""
    text = value if isinstance(value, str) else str(value).lower()
    if is_header_value(text) and not (text.startswith(_BASE64) and text.endswith(_BASE64_END)):
        return text
    return f"{_BASE64}{base64.b64encode(text.encode()).decode()}{_BASE64_END}"


def decode_value(text: str) -> str:
    """Return the value that `encode_value` wrote.

    Raises ValueError: the text is not a value: it has forbidden characters, or its Base64 is invalid.
    """
    # Most names pass without the regular expression.
    if text.isascii() and text.isidentifier():
        return text
    if not is_header_value(text):
        raise ValueError("the header has forbidden characters")
    if not (text.startswith(_BASE64) and text.endswith(_BASE64_END)):
        return text
    try:
        return base64.b64decode(text[len(_BASE64) : -len(_BASE64_END)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("the Base64 of the header is invalid") from None


def parameter_headers(schema: Any) -> dict[str, Path]:
    """Return the headers that the input schema of a tool requires.

    Returns:
        By the name of the header, in lower case: the names of the properties that lead to its value in the arguments.

    Raises ValueError: an annotation `x-mcp-header` breaks the rules of the specification, so the tool must not be used.
    """
    found: dict[str, Path] = {}
    for path, part in _parts(schema):
        if HEADER_KEY not in part:
            continue
        name = part[HEADER_KEY]
        if not isinstance(name, str) or not is_header_name(name):
            raise ValueError(f"{HEADER_KEY} must be the name of a header")
        # An argument below `items` or `oneOf` has no single place in the call.
        if not path:
            raise ValueError(f"{HEADER_KEY} must belong to a property that is reached only through `properties`")
        if part.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"{HEADER_KEY} must belong to a string, an integer or a boolean")
        header = PARAM_HEADER_PREFIX + name.lower()
        if header in found:
            raise ValueError(f"two properties have the same {HEADER_KEY}")
        found[header] = path
    return found


def parameter_values(headers: Mapping[str, Path], arguments: Any) -> dict[str, str]:
    """Return the values of the headers for the arguments of a call. A header without a value is left out."""
    values = {}
    for header, path in headers.items():
        value = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        # JSON has only one type of number: a client may write 5 as 5.0, but the header is the same.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        # JavaScript clients round larger integers, so their text would differ.
        if isinstance(value, str) or (isinstance(value, int) and abs(value) <= 2**53 - 1):
            values[header] = encode_value(value)
    return values


def _parts(schema: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each subschema with the properties that lead to it; () if it is not reached by properties only."""
    left: list[tuple[Path | None, Any]] = [((), schema)]
    while left:
        path, part = left.pop()
        if not isinstance(part, dict):
            continue
        yield path or (), part
        for keyword, value in part.items():
            if keyword == "properties" and isinstance(value, dict):
                left += [(None if path is None else (*path, name), sub) for name, sub in value.items()]
            elif keyword in SCHEMA_MAPS and isinstance(value, dict):
                left += [(None, sub) for sub in value.values()]
            # Even below unknown keywords: an annotation there breaks the rules as well.
            elif keyword not in DATA_KEYWORDS:
                left += [(None, sub) for sub in (value if isinstance(value, list) else [value])]


def is_modern(message: Any, version: bytes | None) -> bool:
    """Return whether a message is of a revision without sessions, or claims to be."""
    if version is not None and version not in _LEGACY and version.strip(b" \t") not in _LEGACY:
        return True
    if type(message) is not Request:
        return False
    if message.method == "server/discover":
        return True
    params = message.params
    meta = params.get("_meta") if type(params) is dict else member_of(params, "_meta")
    return meta is not None and is_modern_meta(meta)


def check_version(headers: Mapping[bytes, bytes], versions: Sequence[str]) -> None:
    """Check that the server has the revision that the header names, if it names one.

    Args:
        versions: Those of the server, the oldest first: a session may have some, a request of its own the others.

    Raises RpcError: the server does not have it (-32022), or its name is too long (-32602).
    """
    name = "MCP-Protocol-Version"
    header = value_of(headers, VERSION)
    if header is not None and (version := header.decode("latin-1")) not in versions:
        raise unsupported_version(version_of({name: version}, name), versions, f" in the header {name}")


def check_modern(headers: Mapping[bytes, bytes], message: Request, admitted: Admitted, versions: Sequence[str]) -> Any:
    """Check the headers of a modern request against its body, and return what it names, as for `Mcp-Name`.

    Args:
        admitted: The header fields that have passed before: clients repeat them, and a look-up is cheaper than the
            checks.
        versions: As in `check_version`.

    Raises RpcError: `_meta` lacks a required member (-32602; -32022 if only the header made the request a modern one,
        and the server does not have its revision), or a header is missing or differs (-32020).
    """
    params, method = message.params, message.method
    meta = object_members(member_of(params, "_meta"))
    version, member = meta.get(PROTOCOL_VERSION_KEY), NAME_MEMBERS.get(method)
    named = None if member is None else member_of(params, member)
    fields = (headers.get(VERSION), headers.get(METHOD), headers.get(NAME), version, method, named)
    is_plain = type(version) is str and (named is None or type(named) is str)  # a list cannot be found in a set
    if is_plain and CLIENT_CAPABILITIES_KEY in meta and fields in admitted:
        return named
    # The handshake checks this again, but only here is the status 400, as the transport requires.
    for key in (PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY):
        if key not in meta:
            # The header is at fault, not the body: a client of an earlier revision has no such `_meta`.
            if version is None:
                check_version(headers, versions)
            raise RpcError.invalid_params(f"_meta lacks {key}")
    _check("MCP-Protocol-Version", headers.get(VERSION), version)
    _check("Mcp-Method", headers.get(METHOD), method)
    if isinstance(named, str):
        _check("Mcp-Name", headers.get(NAME), named, decode_value)
    if is_plain:
        admitted.remember(fields)
    return named


def check_parameters(headers: Mapping[bytes, bytes], expected: Mapping[str, Path], arguments: Any) -> None:
    """Check the headers `Mcp-Param-…` of a call against its arguments.

    Raises RpcError: a header is missing or differs (-32020).
    """
    values = parameter_values(expected, arguments)
    for name in expected:
        value, header = values.get(name), headers.get(name.encode())
        if value is not None:
            _check(name, header, decode_value(value), partial(_read_as, value))
        elif header is not None:
            raise _mismatch(f"{name} has no argument")


def _check(name: str, header: bytes | None, said: object, read: Callable[[str], str] | None = None) -> None:
    """Check that a header agrees with the body.

    Args:
        header: Its value; None without it.
        read: Returns the value that a text represents; by default the text itself.

    Raises RpcError: it is missing or differs (-32020).
    """
    if header is None:
        raise _mismatch(f"{name} is missing")
    given = header.strip(b" \t").decode("latin-1")
    if read is not None:
        try:
            given = read(given)
        except ValueError:
            raise _mismatch(f"{name} is malformed") from None
    if given != said:
        raise _mismatch(f"{name} does not match the body")


def _read_as(value: str, text: str) -> str:
    """Return the value that a header represents; if it is the same integer as `value`, in the form of `value`."""
    match = _INTEGER.fullmatch(text)
    is_same = match is not None and _INTEGER.fullmatch(value) is not None and int(match[1]) == int(value)
    return value if is_same else decode_value(text)


def _mismatch(fault: str) -> RpcError:
    return RpcError(McpErrorCode.HEADER_MISMATCH, f"Header mismatch: the header {fault}")


@dataclass(slots=True, eq=False, repr=False)
class RequestHeaders:
    """Makes the headers of messages. It learns from `tools/list` which calls of tools need further headers."""

    _version: str | None = None  # the version of the last request
    _tools: dict[str, dict[str, Path]] = field(default_factory=dict)

    def of(self, message: Request[Any] | Notification[Any]) -> dict[str, str] | None:
        """Return the headers of a message; None if it belongs to a revision with sessions."""
        params = message.params
        version = object_members(member_of(params, "_meta")).get(PROTOCOL_VERSION_KEY)
        # A notification has no `_meta`, so it belongs to the revision of the requests.
        if isinstance(message, Notification) and version is None:
            version = self._version
        if not isinstance(version, str) or version in HANDSHAKE_VERSIONS:
            return None
        self._version = version
        headers = {PROTOCOL_VERSION_HEADER: encode_value(version), METHOD_HEADER: encode_value(message.method)}
        name = member_of(params, NAME_MEMBERS.get(message.method, ""))
        if isinstance(name, str):
            headers[NAME_HEADER] = encode_value(name)
            if message.method == "tools/call" and name in self._tools:
                headers.update(parameter_values(self._tools[name], member_of(params, "arguments")))
        return headers

    def without_invalid_tools(self, response: Response, report: Callable[[Exception], None]) -> Response:
        """Learn the headers of listed tools, and leave out tools whose annotations are invalid."""
        result = object_members(response.result)
        tools = result.get("tools")
        if not isinstance(tools, list):
            return response
        kept = []
        for tool in tools:
            name = tool.get("name") if isinstance(tool, dict) else None
            try:
                headers = parameter_headers(tool.get("inputSchema")) if isinstance(name, str) else {}
            except ValueError as fault:
                report(InvalidResponse(f"the tool {reprlib.repr(name)} is left out: {fault}"))
                continue
            kept.append(tool)
            if isinstance(name, str):
                self._tools.pop(name, None)
                if headers and len(self._tools) < 10_000:
                    self._tools[name] = headers
        if len(kept) == len(tools):
            return response
        return Response(response.id, {**result, "tools": kept})


def accepts(accept: bytes | None, *types: bytes) -> bool:
    """Return whether an `Accept` header allows all of some media types. Without the header anything is allowed."""
    if accept is None:
        return True
    # The header of a browser has some hundred bytes; splitting a megabyte would cost more than a call.
    if len(accept) > 1024:
        return False
    accepted = set()
    for entry in accept.lower().split(b","):
        name, _, parameters = entry.partition(b";")
        if parameters.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000"):
            accepted.add(name.strip())
    return all(not accepted.isdisjoint((name, name.partition(b"/")[0] + b"/*", b"*/*")) for name in types)
