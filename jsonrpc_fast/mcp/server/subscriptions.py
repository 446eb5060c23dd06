"""The subscriptions of one client: the changes that it is notified of.

Rules:
  - A legacy client is notified of all changes to lists after `notifications/initialized`, and of changes to the
    resources it subscribed to. A modern client opens streams with `subscriptions/listen`, each with a filter.
  - Changes are sent soon, each once. A client that does not read gets them when it reads again.

Sources: specification 2025-11-25 "Resources", 2026-07-28 "Subscriptions".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec

from ...codec import Notification
from ...codes import ErrorCode
from ...errors import RpcError
from ...session import Destination
from ...types import MessageId
from ..protocol.capabilities import ServerCapabilities
from ..protocol.meta import (
    LIST_CHANGES,
    RESOURCES_FILTER,
    SUBSCRIPTION_ID_KEY,
    TASKS_CAPABILITY,
    UPDATED,
    FeatureKind,
    changes_filter,
)

NOTIFY_SECONDS: Final = 0.0005
"""How long clients are notified of changes in one turn of the loop."""
MAX_STREAMS: Final = 64
"""Maximum number of open streams of one connection."""
MAX_URIS: Final = 1024
"""Maximum number of resources, or of tasks, in the filter of one stream, and of resources that a legacy client
subscribes to."""
MAX_SUBSCRIBED_URI_CHARACTERS: Final = 2048
"""Maximum length of the URI of a subscribed resource: the connection keeps it."""

TASK_IDS: Final = "taskIds"
"""The member of a filter with the tasks whose changes the client wants (the extension for tasks)."""


class SubscriptionStream(msgspec.Struct, frozen=True, eq=False):
    """A stream that `subscriptions/listen` opened.

    Attributes:
        filter: The part of the client's filter that the server supports.
        destination: The place for its notifications; None: the stream of the connection.
    """

    id: MessageId
    filter: dict[str, Any]
    destination: Destination | None = None
    ended: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def meta(self) -> dict[str, Any]:
        """Return the `_meta` of all messages of the stream."""
        return {SUBSCRIPTION_ID_KEY: self.id}

    def acknowledgement(self) -> Notification:
        """Return the first notification of the stream."""
        params = {"_meta": self.meta(), "notifications": self.filter}
        return Notification("notifications/subscriptions/acknowledged", params)


class Client(Protocol):
    """The way to a client."""

    @property
    def is_blocked(self) -> bool:
        """Whether the client does not read at the moment."""

    def push(
        self,
        notifications: Iterable[Notification],
        destination: Destination | None = None,
        texts: dict[Any, bytes] | None = None,
    ) -> None:
        """Send notifications without waiting for the client to read. If the client has disconnected, do nothing.

        Args:
            notifications: The notifications.
            destination: As in `SubscriptionStream`.
            texts: As in `Session.notify_as`, for those that have no `_meta`: they are the same for all clients.
        """

    def notifications_of(self, method: str, subject: str) -> Iterable[Notification]:
        """Return the notifications of a change."""


class Announcer:
    """Notifies the clients of one server of changes: once for all that happen in some seconds.

    It does so for NOTIFY_SECONDS of each turn of the loop, and writes what is the same for all clients once.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[ClientSubscriptions, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next: asyncio.Handle | None = None  # the next turn in which clients are notified
        self._texts: dict[Any, dict[Any, bytes]] = {}  # by method and subject

    def add(self, client: ClientSubscriptions) -> None:
        """Notify a client soon."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # what an earlier loop has left behind is forgotten
            self._loop, self._next, self._due = loop, None, {}
        if self._next is None:
            self._next = loop.call_later(self._seconds, self._announce)
        self._due[client] = None

    def remove(self, client: ClientSubscriptions) -> None:
        """Forget a client that has ended."""
        self._due.pop(client, None)
        if not self._due and self._next is not None:
            self._next.cancel()
            self._next = None

    def _announce(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + NOTIFY_SECONDS
        while self._due:
            client = next(iter(self._due))
            del self._due[client]  # first: sending may run code that changes lists again
            try:
                client.notify(self._texts)
            except Exception as error:  # the others are notified all the same
                loop.call_exception_handler({"message": "a client cannot be notified of a change", "exception": error})
            if self._due and loop.time() >= end:
                self._next = loop.call_soon(self._announce)
                return
        self._next = None
        self._texts = {}


class ClientSubscriptions:
    """The subscriptions of one client.

    Attributes:
        streams: The open streams. Notifications go out in the order in which they were opened.
        changes: The changes that the client has not been notified of yet, in order: each with its notification and its
            subject.
    """

    def __init__(self, capabilities: ServerCapabilities, client: Client, announcer: Announcer) -> None:
        self.changes: dict[tuple[str, str], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._client: Client | None = client  # until the end: it refers to these subscriptions
        self._announcer = announcer
        self._capabilities = capabilities
        self._changes = changes_filter(capabilities)
        self.streams: list[SubscriptionStream] = []
        self._uris: set[str] = set()  # subscribed by a legacy client

    def open(self, id: MessageId, filter: object, destination: Destination | None = None) -> SubscriptionStream:
        """Open a stream. Raises RpcError: the filter is invalid (-32602), or there are too many streams (-32603)."""
        # The filter is checked first, so that an invalid one gets -32602 even when there is no room.
        stream = SubscriptionStream(id, self._supported(filter), destination)
        if len(self.streams) >= MAX_STREAMS:
            raise RpcError(ErrorCode.INTERNAL_ERROR, "too many subscriptions")
        self.streams.append(stream)
        if self._client is None:
            # Its request waited in a queue when the client or the server ended: nothing else would end it.
            stream.ended.set()
        return stream

    def close(self, stream: SubscriptionStream) -> None:
        """Close a stream."""
        self.streams.remove(stream)

    def end(self) -> None:
        """End all streams, also those opened later. No changes are sent any more, and the client is forgotten."""
        for stream in self.streams:
            stream.ended.set()
        if self._timer is not None:
            self._timer.cancel()
        self._announcer.remove(self)
        self._client = None

    def subscribe(self, uri: str) -> None:
        """Subscribe a legacy client to a resource.

        Raises RpcError: the URI is too long (-32602), or there are too many subscriptions (-32603).
        """
        if len(uri) > MAX_SUBSCRIBED_URI_CHARACTERS:
            raise RpcError.invalid_params(f"the URI has more than {MAX_SUBSCRIBED_URI_CHARACTERS} characters")
        # A repeated subscription needs no more memory.
        if len(self._uris) >= MAX_URIS and uri not in self._uris:
            raise RpcError(ErrorCode.INTERNAL_ERROR, "too many subscriptions")
        self._uris.add(uri)

    def unsubscribe(self, uri: str) -> None:
        """End the subscription of a legacy client to a resource."""
        self._uris.discard(uri)

    def list_changed(self, kind: FeatureKind) -> None:
        """Notify the client soon that a list has changed."""
        # Sent later, and once: registering many tools in a row is one change for the client.
        self.add_change(LIST_CHANGES[kind].method, kind)

    def resource_updated(self, uri: str) -> None:
        """Notify the client soon that a resource has changed, if it subscribed to it."""
        self.changed_soon(UPDATED, uri)

    def changed_soon(self, method: str, subject: str) -> None:
        """Notify the client soon of a change, if it subscribed to it: see `add_change`."""
        if method != UPDATED or self.has(subject):
            self.add_change(method, subject)

    def task_changed(self, id: str, details: Callable[[], dict[str, Any]]) -> None:
        """Notify the client that the status of a task has changed, if it subscribed to the task and reads."""
        if self._client is not None and not self._client.is_blocked:
            for stream in self.streams:
                if id in stream.filter.get(TASK_IDS, ()):
                    params = {"_meta": stream.meta(), **details()}
                    self._client.push([Notification("notifications/tasks", params)], stream.destination)

    def add_change(self, method: str, subject: str) -> None:
        """Notify the client soon, and once, of a change: of a list, by its kind, or of a resource, by its URI."""
        if self._client is None:
            return
        if not self.changes:
            self._announcer.add(self)
        self.changes[method, subject] = None

    def notify(self, texts: dict[Any, dict[Any, bytes]]) -> None:
        """Notify the client of the changes. `texts` are those of other clients, by method and subject."""
        client = self._client
        if client is None:
            return
        if client.is_blocked:
            # Kept, not dropped: a client that misses a change would show an old list forever.
            self._timer = asyncio.get_running_loop().call_later(0.5, self._announcer.add, self)
            return
        # Emptied first, because sending may run code that changes lists again.
        changes, self.changes = self.changes, {}
        for change in changes:
            client.push(client.notifications_of(*change), texts=texts.setdefault(change, {}))

    def has(self, uri: str) -> bool:
        """Return whether the client is subscribed to a resource."""
        return uri in self._uris or any(uri in stream.filter.get(RESOURCES_FILTER, ()) for stream in self.streams)

    def changed(self, method: str, subject: Any, is_legacy: bool) -> Iterator[Notification]:
        """Yield the notifications of a change: of a list, by its kind, or of a resource, by its URI."""
        found = self._updated if method == UPDATED else self._list_changed
        return found(subject, is_legacy)

    def _list_changed(self, kind: FeatureKind, is_legacy: bool) -> Iterator[Notification]:
        method, _, member = LIST_CHANGES[kind]
        # The specification forbids notifications that were not declared.
        if is_legacy and member in self._changes:
            yield Notification(method)
        for stream in self.streams:
            if member in stream.filter:
                yield Notification(method, {"_meta": stream.meta()})

    def _updated(self, uri: str, is_legacy: bool) -> Iterator[Notification]:
        # Each kind of subscription gets its own notification: one client may have both.
        if is_legacy and uri in self._uris:
            yield Notification(UPDATED, {"uri": uri})
        for stream in self.streams:
            if uri in stream.filter.get(RESOURCES_FILTER, ()):
                yield Notification(UPDATED, {"_meta": stream.meta(), "uri": uri})

    def _supported(self, filter: object) -> dict[str, Any]:
        """The part of a filter that the server supports. Unknown members are left out."""
        if not isinstance(filter, dict):
            raise RpcError.invalid_params("notifications must be an object")
        supported: dict[str, Any] = {}
        for _, _, name in LIST_CHANGES.values():
            wanted = filter.get(name, False)
            if type(wanted) is not bool:
                raise RpcError.invalid_params(f"notifications/{name} must be a boolean")
            # The acknowledgement shows the client which part of its filter is supported: the rest is not an error.
            if wanted and name in self._changes:
                supported[name] = True
        uris = _strings(filter, RESOURCES_FILTER)
        if uris and self._capabilities.supports("resources.subscribe"):
            supported[RESOURCES_FILTER] = uris
        ids = _strings(filter, TASK_IDS)
        if ids and self._capabilities.supports(TASKS_CAPABILITY):
            supported[TASK_IDS] = ids
        return supported


def _strings(filter: dict[str, Any], name: str) -> list[str]:
    """The member of a filter that is an array of strings."""
    strings = filter.get(name, [])
    # The items of a huge array are not looked at, so that refusing it is cheap.
    is_huge = isinstance(strings, list) and len(strings) > MAX_URIS
    if not isinstance(strings, list) or not (is_huge or all(isinstance(string, str) for string in strings)):
        raise RpcError.invalid_params(f"notifications/{name} must be an array of strings")
    if is_huge or any(len(string) > MAX_SUBSCRIBED_URI_CHARACTERS for string in strings):
        raise RpcError.invalid_params(f"notifications/{name} is too large")
    return strings
