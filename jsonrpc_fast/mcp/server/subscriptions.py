"""Which changes the client of one connection is told of.

Rules:
  - a legacy client is told of every change to a list once it has sent `notifications/initialized`, and of changes to
    the resources that it subscribed to, by `resources/subscribe`;
  - a modern client opens streams with `subscriptions/listen`, each with a filter of its own. What goes out on a stream
    carries the id of that request, and the acknowledgement goes out first. A stream ends when its request is
    cancelled, or with an answer when the server ends it;
  - nobody is told of what the server did not declare, or what was not asked for.

Sources: specification 2025-11-25 "Resources", 2026-07-28 "Subscriptions".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ...codes import ErrorCode
from ...errors import RpcError, invalid_params
from ...types import MessageId
from ..protocol.capabilities import ServerCapabilities
from ..protocol.meta import SUBSCRIPTION_ID_KEY

Message = tuple[str, dict[str, Any] | None]
"""The method and the params of a notification."""

MAX_STREAMS: Final = 64
MAX_URIS: Final = 1024
MAX_URI_CHARACTERS: Final = 2048

LISTS: Final = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}
"""What has a list, and the member of a filter that asks for its changes."""

_URIS: Final = "resourceSubscriptions"


class Stream:
    """What one `subscriptions/listen` opened.

    id      of the request
    filter  what it is told of: the part of the client's filter that the server can keep to
    """

    __slots__ = ("filter", "id")

    def __init__(self, id: MessageId, filter: dict[str, Any]) -> None:
        self.id: MessageId = id
        self.filter: dict[str, Any] = filter

    def meta(self) -> dict[str, Any]:
        """The `_meta` of everything that belongs to the stream."""
        return {SUBSCRIPTION_ID_KEY: self.id}

    def acknowledgement(self) -> Message:
        """The first message of the stream."""
        return "notifications/subscriptions/acknowledged", {"_meta": self.meta(), "notifications": self.filter}


class Subscriptions:
    """The subscriptions of one connection. `capabilities`: what the server declared there."""

    def __init__(self, capabilities: ServerCapabilities) -> None:
        self._capabilities = capabilities
        self._streams: list[Stream] = []
        self._uris: set[str] = set()  # of a legacy client

    def open(self, id: MessageId, asked: object) -> Stream:
        """A stream for the filter of a request. Raises RpcError for one that is wrong, and when there are too many."""
        stream = Stream(id, self._kept(asked))
        if len(self._streams) >= MAX_STREAMS:
            raise RpcError(ErrorCode.INTERNAL_ERROR, "there are too many subscriptions")
        self._streams.append(stream)
        return stream

    def close(self, stream: Stream) -> None:
        """Ends a stream."""
        self._streams.remove(stream)

    def subscribe(self, uri: str) -> None:
        """A legacy client subscribes to a resource. Raises RpcError when there are too many, or the URI is too long."""
        if len(uri) > MAX_URI_CHARACTERS:
            raise invalid_params(f"the URI has more than {MAX_URI_CHARACTERS} characters")
        if len(self._uris) >= MAX_URIS and uri not in self._uris:
            raise RpcError(ErrorCode.INTERNAL_ERROR, "there are too many subscriptions")
        self._uris.add(uri)

    def unsubscribe(self, uri: str) -> None:
        """A legacy client has enough of a resource."""
        self._uris.discard(uri)

    def has(self, uri: str) -> bool:
        """Whether anybody is to be told of changes to a resource."""
        return uri in self._uris or any(uri in stream.filter.get(_URIS, ()) for stream in self._streams)

    def list_changed(self, kind: str, is_legacy: bool) -> Iterator[Message]:
        """What to send when a list has changed. `is_legacy`: a legacy session is open, and may be told."""
        if not self._capabilities.supports(f"{kind}.listChanged"):
            return
        method = f"notifications/{kind}/list_changed"
        if is_legacy:
            yield method, None
        for stream in self._streams:
            if stream.filter.get(LISTS[kind]):
                yield method, {"_meta": stream.meta()}

    def resource_updated(self, uri: str, is_legacy: bool) -> Iterator[Message]:
        """What to send when a resource has changed."""
        method = "notifications/resources/updated"
        if is_legacy and uri in self._uris:
            yield method, {"uri": uri}
        for stream in self._streams:
            if uri in stream.filter.get(_URIS, ()):
                yield method, {"_meta": stream.meta(), "uri": uri}

    def _kept(self, asked: object) -> dict[str, Any]:
        """The part of a filter that the server can keep to. Members that it does not know are left out."""
        if not isinstance(asked, dict):
            raise invalid_params("notifications must be an object")
        kept: dict[str, Any] = {}
        for kind, name in LISTS.items():
            wanted = asked.get(name, False)
            if type(wanted) is not bool:
                raise invalid_params(f"notifications/{name} must be a boolean")
            if wanted and self._capabilities.supports(f"{kind}.listChanged"):
                kept[name] = True
        uris = asked.get(_URIS, [])
        if not isinstance(uris, list):
            raise invalid_params(f"notifications/{_URIS} must be an array of strings")
        if len(uris) > MAX_URIS:
            raise invalid_params(f"notifications/{_URIS} is too large")
        if not all(isinstance(uri, str) for uri in uris):
            raise invalid_params(f"notifications/{_URIS} must be an array of strings")
        if any(len(uri) > MAX_URI_CHARACTERS for uri in uris):
            raise invalid_params(f"notifications/{_URIS} is too large")
        if uris and self._capabilities.supports("resources.subscribe"):
            kept[_URIS] = uris
        return kept
