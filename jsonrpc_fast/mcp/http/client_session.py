"""The headers of a client's requests over HTTP: the session, or the headers of 2026-07-28.

Rules:
  - Up to 2025-11-25 a session that the server ended is begun again with the same `initialize`, and must agree on the
    same revision.
  - From 2026-07-28 on, headers repeat members of a message.

Source: specification 2026-07-28, "Streamable HTTP", "Request Metadata".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..._repr import shorten
from ...codec import Notification, Request, Response
from ...errors import InvalidResponse
from ..protocol.meta import PROTOCOL_VERSION_KEY, member_of, object_members
from ..protocol.versions import HANDSHAKE_VERSIONS
from .headers import (
    METHOD_HEADER,
    NAME_HEADER,
    NAME_MEMBERS,
    PROTOCOL_VERSION_HEADER,
    SESSION_ID_HEADER,
    Path,
    encode_value,
    parameter_headers,
    parameter_values,
)
from .sending import session_id

_MAX_TOOLS: Final = 10_000
_WITH_VERSION_HEADER: Final = HANDSHAKE_VERSIONS[HANDSHAKE_VERSIONS.index("2025-06-18") :]


@dataclass(frozen=True, slots=True, eq=False)
class NegotiatedSession:
    """What `initialize` agreed on.

    Attributes:
        id: The session id; None if the server gave none.
        version: The revision of the protocol.
    """

    id: str | None
    version: str


def session_headers(session: NegotiatedSession | None) -> dict[str, str]:
    """Return the headers of the requests of a session."""
    headers = {}
    if session is not None:
        if session.id is not None:
            headers[SESSION_ID_HEADER] = session.id
        if session.version in _WITH_VERSION_HEADER:
            headers[PROTOCOL_VERSION_HEADER] = session.version
    return headers


def session_of(http_response: Any, response: Response) -> NegotiatedSession | None:
    """Return the session that a response to `initialize` begins; None if it begins none.

    Args:
        http_response: The HTTP response that carries it.
        response: The response.

    Raises:
        InvalidResponse: The session id is malformed.
    """
    version = object_members(response.result).get("protocolVersion")
    if response.error is None and isinstance(version, str) and version in HANDSHAKE_VERSIONS:
        return NegotiatedSession(session_id(http_response), version)
    return None


class RequestHeaders:
    """Makes the headers of messages. `tools/list` names the tools whose calls need more headers."""

    def __init__(self) -> None:
        self._version: str | None = None  # of the last request
        self._tools: dict[str, dict[str, Path]] = {}

    def of(self, message: Request[Any] | Notification[Any]) -> dict[str, str] | None:
        """Return the headers of a message; None if it belongs to a revision with sessions."""
        params = message.params
        version = object_members(member_of(params, "_meta")).get(PROTOCOL_VERSION_KEY)
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
        """Learn the headers of listed tools, and leave out tools whose annotations are invalid.

        Args:
            response: The response to `tools/list`.
            report: Called with the fault of each tool that is left out.
        """
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
                report(InvalidResponse(f"the tool {shorten(name)} is left out: {fault}"))
                continue
            kept.append(tool)
            if isinstance(name, str):
                self._tools.pop(name, None)
                if headers and len(self._tools) < _MAX_TOOLS:
                    self._tools[name] = headers
        if len(kept) == len(tools):
            return response
        return Response(response.id, {**result, "tools": kept})
