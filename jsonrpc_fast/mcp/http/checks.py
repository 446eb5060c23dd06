"""Checks of a client's headers against the body of its request, by the rules of each revision.

Rules:
  - Up to 2025-11-25 a request names its session with `Mcp-Session-Id`, and its version, if it does, with
    `MCP-Protocol-Version`: one that the server supports.
  - From 2026-07-28 on there is no session. A request has the headers `MCP-Protocol-Version`, `Mcp-Method` and, if it
    names a tool, a prompt or a resource, `Mcp-Name`. Each must be what the body says.
  - A request is modern if its body or its header is of a modern revision.

Sources: specification 2025-11-25 "Transports", 2026-07-28 "Streamable HTTP".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final

from ...codec import Request
from ...codes import McpErrorCode
from ...errors import RpcError, invalid_params
from ..protocol.meta import CLIENT_CAPABILITIES_KEY, PROTOCOL_VERSION_KEY, object_members
from ..protocol.versions import HANDSHAKE_VERSIONS
from .headers import NAME_MEMBERS, Path, decode_value, parameter_values

SESSION_ID: Final = b"mcp-session-id"
VERSION: Final = b"mcp-protocol-version"
METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"
LAST_EVENT_ID: Final = b"last-event-id"

SINGLE_HEADERS: Final = frozenset({SESSION_ID, VERSION, METHOD, NAME, LAST_EVENT_ID, b"authorization"})
"""The headers that may have one value only, besides `Mcp-Param-…` and those of `http.requests`."""

_LEGACY: Final = frozenset(version.encode() for version in HANDSHAKE_VERSIONS)
_MAX_ACCEPT_BYTES: Final = 1024
_INTEGER: Final = re.compile(r"(-?[0-9]{1,16})(?:\.0+)?")


def is_modern(message: Any, version: bytes | None) -> bool:
    """Return whether a message is of a revision without sessions, or claims to be.

    Args:
        message: The decoded message or batch.
        version: The header `MCP-Protocol-Version`.
    """
    if version is not None and version not in _LEGACY:
        return True
    if type(message) is not Request:
        return False
    if message.method == "server/discover":
        return True
    meta = object_members(message.params).get("_meta")
    return isinstance(meta, dict) and (PROTOCOL_VERSION_KEY in meta or CLIENT_CAPABILITIES_KEY in meta)


def check_modern(headers: Mapping[bytes, bytes], message: Request) -> None:
    """Check the headers of a modern request against its body.

    Raises:
        RpcError: `_meta` lacks a required member (-32602), or a header is missing or differs (-32020).
    """
    params = object_members(message.params)
    meta = object_members(params.get("_meta"))
    for key in (PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY):
        if key not in meta:
            raise invalid_params(f"_meta lacks {key}")
    version, method = headers.get(VERSION), headers.get(METHOD)
    if version is None or version.decode("latin-1") != meta[PROTOCOL_VERSION_KEY]:
        raise _mismatch("MCP-Protocol-Version", version)
    if method is None or method.decode("latin-1") != message.method:
        raise _mismatch("Mcp-Method", method)
    member = NAME_MEMBERS.get(message.method)
    if member is not None and isinstance(params.get(member), str):
        name = headers.get(NAME)
        if name is None or _decoded("Mcp-Name", name) != params[member]:
            raise _mismatch("Mcp-Name", name)


def check_parameters(headers: Mapping[bytes, bytes], expected: Mapping[str, Path], arguments: Any) -> None:
    """Check the headers `Mcp-Param-…` of a call against its arguments.

    Args:
        headers: The headers of the request.
        expected: What `parameter_headers` returned for the input schema of the tool.
        arguments: The arguments of the call.

    Raises:
        RpcError: A header is missing or differs (-32020).
    """
    values = parameter_values(expected, arguments)
    for name in expected:
        value, header = values.get(name), headers.get(name.encode())
        if value is None and header is None:
            continue
        if value is None:
            raise _mismatch(name, header, "has no argument")
        if header is None:
            raise _mismatch(name, header)
        given = _decoded(name, header)
        if given != decode_value(value) and not _is_same_number(given, value):
            raise _mismatch(name, header)


def _is_same_number(given: str, value: str) -> bool:
    """Return whether two texts are the same integer, one of them perhaps written as a decimal fraction."""
    match = _INTEGER.fullmatch(given)
    return match is not None and _INTEGER.fullmatch(value) is not None and int(match[1]) == int(value)


def _decoded(name: str, header: bytes) -> str:
    try:
        return decode_value(header.decode("latin-1"))
    except ValueError:
        raise _mismatch(name, header, "is malformed") from None


def _mismatch(name: str, header: bytes | None, fault: str = "is not what the body says") -> RpcError:
    fault = "is missing" if header is None else fault
    return RpcError(McpErrorCode.HEADER_MISMATCH, f"Header mismatch: the header {name} {fault}")


@functools.lru_cache(maxsize=64)
def accepts(accept: bytes | None, *types: bytes) -> bool:
    """Return whether an `Accept` header allows all of some media types. Without the header anything is allowed."""
    if accept is None:
        return True
    if len(accept) > _MAX_ACCEPT_BYTES:
        return False
    accepted = set()
    for entry in accept.lower().split(b","):
        name, _, parameters = entry.partition(b";")
        if parameters.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000"):
            accepted.add(name.strip())
    return all(not accepted.isdisjoint((name, name.partition(b"/")[0] + b"/*", b"*/*")) for name in types)
