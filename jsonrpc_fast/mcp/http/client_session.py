"""The session of a client, in the revisions up to 2025-11-25, and how it is begun again.

A session that the server ended is begun again with the same `initialize`, and must agree on the same revision.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Final

from ...codec import Response, encode_notification
from ...errors import ConnectionLost
from ...framing.sse import EventDecoder
from ..protocol.meta import object_members
from ..protocol.versions import HANDSHAKE_VERSIONS
from .headers import PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER
from .sending import EVENT_STREAM, Body, HttpSender, content_type, pieces_of, read, session_id, status_error

_WITH_VERSION_HEADER: Final = HANDSHAKE_VERSIONS[HANDSHAKE_VERSIONS.index("2025-06-18") :]


class NegotiatedSession:
    """What `initialize` agreed on.

    Args:
        id: The session id; None if the server gave none.
        version: The revision of the protocol.

    Attributes:
        id: The same as the argument.
        version: The same as the argument.
    """

    __slots__ = ("id", "version")

    def __init__(self, id: str | None, version: str) -> None:
        self.id: str | None = id
        self.version: str = version


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


async def begin_again(
    sender: HttpSender, initialize: bytes, version: str, decode: Callable[[bytes], Any], limit: int
) -> NegotiatedSession:
    """Begin a session like the one that the server ended.

    Args:
        sender: Sends the requests.
        initialize: The text of the request that began the other session.
        version: The revision of the other session.
        decode: Decodes a text.
        limit: The maximum size of a text in bytes.

    Raises:
        ConnectionLost: The server did not respond as it did the first time.
    """
    http_response = await sender.send("POST", {}, Body(initialize))
    try:
        found = await _first_response(http_response, decode, limit)
        agreed = object_members(found.result).get("protocolVersion") if isinstance(found, Response) else None
        if agreed != version:
            raise ConnectionLost("the server ended the session, and does not begin another one like it")
        session = NegotiatedSession(session_id(http_response), version)
    finally:
        await sender.release(http_response)
    notice = Body(encode_notification("notifications/initialized", delimited=False))
    await sender.release(await sender.send("POST", session_headers(session), notice))
    return session


async def _first_response(http_response: Any, decode: Callable[[bytes], Any], limit: int) -> Any:
    """Return the first response in the HTTP response to a POST; None without one."""
    if not 200 <= http_response.status_code < 300:
        raise status_error(http_response)
    if content_type(http_response) != EVENT_STREAM:
        return decode(await read(http_response, limit))
    decoder = EventDecoder(limit)
    async with aclosing(pieces_of(http_response)) as pieces:
        async for piece in pieces:
            for event in decoder.feed(piece):
                item = decode(event.data) if event.data else None
                if isinstance(item, Response):
                    return item
    return None
