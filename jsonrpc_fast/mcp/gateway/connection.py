"""One client of a gateway.

Rules:
  - The client gets the capabilities of every kind of server, because no server has been started yet. A list that no
    server has is empty.
  - A client with a handshake has servers of its own, and may be asked at any time. `modern` serves the requests of
    2026-07-28; over HTTP these belong to no connection.
  - Messages that a server sends while the client does not read are dropped, except that a list or a resource has
    changed: that is sent later, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from ...codec import Notification, Raw, Request
from ...errors import CallTimeout, ConnectionLost, ParseError, RpcError, StateError, invalid_params
from ...session import Destination, SessionContext, SessionOptions
from ...session.running import waiting
from ...transports.channel import HIGH_WATER_BYTES
from ...transports.protocol import Transport
from ...types import Unset
from ..protocol.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from ..protocol.meta import LIST_METHODS, LISTEN_METHOD, LOG_LEVELS, HandshakeResult, method_not_found
from ..relay import RELAY_ERROR
from ..server.context import HttpExchange
from ..server.handshake import RequestRules, ServerHandshake
from ..server.serving import ClientConnection, FrontSession
from ..server.subscriptions import URIS, ClientSubscriptions, SubscriptionStream
from .catalog import CHANGES, Catalog, CatalogClient
from .modern import CALLS, ModernCall, ModernClient, ModernClients
from .payloads import Tokens, as_raw, member, text_member, with_members
from .upstream import Places, Upstream

_END_SECONDS: Final = 30.0
"""How long a server may take to respond to a client that has ended its stream but may read on, as on stdout."""
_MAX_CHANGES: Final = 10_000
"""The maximum number of changes that wait until the client reads again."""
_CHANGE_SECONDS: Final = 0.05
"""How long changes are collected, so that the client is told of each only once."""
_LEGACY_CALLS: Final = ("resources/subscribe", "resources/unsubscribe")


class GatewayConnection(ClientConnection):
    """The connection of one client.

    Args:
        handshake: The server's side of the handshake.
        capabilities: What the gateway declares.
        make: Makes the catalog of a client: of 2026-07-28 or not, its name, its capabilities, where it is asked.
        places: The bounds of the gateway.
        shared: The clients of 2026-07-28 over HTTP.
        own: Those of this connection.
        transport: A transport that is not started, made with `raw=True`.
        options: Options of `Session`.
    """

    def __init__(
        self,
        handshake: ServerHandshake,
        capabilities: ServerCapabilities,
        make: Callable[[bool, Implementation, ClientCapabilities, CatalogClient], Catalog],
        places: Places,
        shared: ModernClients,
        own: ModernClients,
        transport: Transport,
        options: SessionOptions,
    ) -> None:
        self._handshake = handshake
        self._make = make
        self._places = places
        self._shared = shared
        self._own = own
        self._transport = transport
        # A client on pipes may close its side and still read the responses. It is not known how long it reads, so the
        # wait has a bound.
        if transport.responds_after_end:
            options = {"end_seconds": _END_SECONDS, **options}
        self._session = FrontSession(self, transport, options)
        self._catalog: Catalog | None = None  # of a client with a handshake
        self._tokens: Tokens[Upstream] = Tokens()  # of the servers
        self._subscriptions = ClientSubscriptions(capabilities)
        self._streams: dict[SubscriptionStream, asyncio.Future[None]] = {}
        self._changes: dict[tuple[str, bytes], None] = {}  # the client is not yet told of these
        self._telling: asyncio.Task[None] | None = None

    async def close(self, grace_seconds: float | Unset | None = 0.0) -> None:
        """Let the requests in flight end, close the connection, and end the servers."""
        # First: their responses must be written before the session closes.
        self.end_streams()
        try:
            await self._session.close(grace_seconds)
        finally:
            if self._telling is not None:
                self._telling.cancel()
            # Last, because requests in flight may still use the servers.
            if self._catalog is not None:
                await self._catalog.close()
            await self._own.close()

    def can_serve(self, request: Request | None = None) -> bool:
        """Return whether it can serve a request of another client, which is one of 2026-07-28."""
        return self._catalog is None and not self._streams and not self._changes and self._session.is_idle

    # The client's messages.

    def serve(self, params: Any, context: SessionContext) -> Any:
        method = context.method
        payload = as_raw(params)
        if context.is_notification:
            self._on_notification(method, payload)
            return None
        # Only `initialize` needs its params here; of all others `_meta` is decoded.
        meta = None if method == "initialize" else payload.get(("_meta",))
        members = payload if method == "initialize" else {} if meta is None else {"_meta": meta.decode()}
        rules = self._handshake.receive_request(method, members)
        if isinstance(rules, HandshakeResult):
            if method == "initialize":
                self._begin()
            return rules.result
        if rules.revision.is_modern:
            return self._serve_modern(method, payload, context, rules)
        catalog = self._catalog
        assert catalog is not None
        if method in LIST_METHODS:
            return catalog.merged(method, payload)
        if method in CALLS or method in _LEGACY_CALLS:
            return catalog.call(method, payload, context.destination, rules.revision)
        if method == "logging/setLevel":
            return self._set_level(catalog, method, payload)
        raise method_not_found()

    def _begin(self) -> None:
        # Not before: servers are told the name and the capabilities of the client, which `initialize` brings.
        rules = self._handshake.session
        assert rules is not None
        assert rules.client_info is not None
        info, capabilities = rules.client_info, rules.client_capabilities
        self._catalog = self._make(False, info, capabilities, self)

    def _on_notification(self, method: str, params: Raw) -> None:
        is_due = self._handshake.receive_notification(method)
        if method == "notifications/progress":
            if (found := self._tokens.restored(params)) is not None:
                found[1].notify(method, found[0])
        elif method == "notifications/roots/list_changed" and is_due and self._catalog is not None:
            for upstream in self._catalog.upstreams.values():
                upstream.notify(method, params)

    async def _set_level(self, catalog: Catalog, method: str, params: Raw) -> Any:
        level = text_member(params, "level")
        if level not in LOG_LEVELS:
            raise invalid_params(f"level must be one of {', '.join(LOG_LEVELS)}")
        # Servers that start later get the level from `Upstream.level`, and those of 2026-07-28 with each request.
        running = [upstream for upstream in catalog.upstreams.values() if upstream.is_running]
        for upstream in catalog.upstreams.values():
            upstream.level = level
        calls = [each.call(method, params) for each in running if not each.is_modern and each.supports("logging")]
        await _within(self._places.list_seconds, [asyncio.ensure_future(call) for call in calls])
        return {}

    # Requests of 2026-07-28.

    def _serve_modern(self, method: str, params: Raw, context: SessionContext, rules: RequestRules) -> Any:
        exchange = cast("HttpExchange | None", context.destination)
        http = None if exchange is None else exchange.request
        # Over HTTP the requests of one client come by any number of connections.
        clients = self._own if http is None else self._shared
        client = clients.of(None if http is None else http.subject, params, rules)
        call = ModernCall(method, params, rules, self, context.destination, None if http is None else http.subject)
        if method in LIST_METHODS:
            return self._list_modern(client, call)
        if method in CALLS:
            return client.serve(call)
        if method == LISTEN_METHOD:
            return self._listen(client, call, context)
        raise method_not_found()

    async def _list_modern(self, client: ModernClient, call: ModernCall) -> Raw:
        return self.completed(call, await client.catalog.merged(call.method, call.params))

    def completed(self, call: ModernCall, result: Any) -> Raw:
        """Return a result that is not of 2026-07-28 with the members that it must have there."""
        payload = as_raw(result)
        members = self._handshake.complete(call.rules.revision, call.method, {})
        if payload.get(("_meta",)) is not None:
            # It names the server's result: the gateway does not put its own name beside it.
            del members["_meta"]
        return with_members(payload, members)

    async def _listen(self, client: ModernClient, call: ModernCall, context: SessionContext) -> Raw:
        """Serve a subscription until it is cancelled or the gateway ends it."""
        stream = self._subscriptions.open(context.id, member(call.params, ("notifications",)))
        self._streams[stream] = end = asyncio.get_running_loop().create_future()
        client.listeners[stream] = self.changed
        # The acknowledgement names only the resources that a server has: the others are not waited for longer than a
        # list.
        wanted = dict.fromkeys(stream.filter.pop(URIS, ()), False)

        async def watch(uri: str) -> None:
            await client.watch(uri, call)
            wanted[uri] = True

        try:
            with waiting():
                await _within(self._places.list_seconds, [asyncio.ensure_future(watch(uri)) for uri in wanted])
                if uris := [uri for uri, is_watched in wanted.items() if is_watched]:
                    stream.filter[URIS] = uris
                acknowledgement = stream.acknowledgement()
                self.send(acknowledgement.method, acknowledgement.params, call.destination)
                await end
            return self.completed(call, {"_meta": stream.meta()})
        finally:
            # Whatever ends the request, the servers must not go on announcing what nobody hears.
            self._subscriptions.close(stream)
            del self._streams[stream], client.listeners[stream]
            client.unwatch([uri for uri, is_watched in wanted.items() if is_watched])

    def end_streams(self) -> None:
        """End all subscriptions with their responses."""
        for end in self._streams.values():
            if not end.done():
                end.set_result(None)

    # The servers' messages to a client with a handshake.

    async def call(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> Any:
        return await upstream.call(method, params, origin)

    async def ask(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> Any:
        # Servers are started by the first request, which may come before `notifications/initialized`.
        if not self._handshake.may_send(Request(0, method)):
            raise RpcError(RELAY_ERROR, "the client is not ready")
        try:
            with self._tokens.replaced(params, upstream) as params:
                return await self._session.call(method, params, timeout=self._places.timeout, destination=origin)
        except CallTimeout:
            raise RpcError(RELAY_ERROR, "the client did not respond in time") from None
        except (ConnectionLost, StateError):
            raise RpcError(RELAY_ERROR, "the client was lost") from None
        except ParseError:
            raise RpcError(RELAY_ERROR, "the client sent an invalid response") from None

    def tell(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> None:
        if (
            self.revision is not None
            # A server may speak a later revision than the client.
            and method in self.revision.server_notifications
            and self._handshake.may_send(Notification(method))
        ):
            self.send(method, params, origin)

    def send(self, method: str, params: Any, destination: Destination | None) -> None:
        """Send a notification, unless the client does not read: it cannot make the gateway store what servers log."""
        if self._transport.write_buffer_bytes <= HIGH_WATER_BYTES:
            with suppress(ConnectionLost, StateError):
                self._session.notify_soon(method, params, destination=destination)

    def changed(self, method: str, params: Raw) -> None:
        if len(self._changes) < _MAX_CHANGES and self._handshake.may_send(Notification(method)):
            # A dict for its order: the client is told of each change once, the oldest first.
            self._changes[method, bytes(params)] = None
            if self._telling is None or self._telling.done():
                self._telling = asyncio.ensure_future(self._tell_changes())

    async def _tell_changes(self) -> None:
        with suppress(ConnectionLost, StateError):
            # One task for all changes: what changes while it waits goes into the next round.
            while self._changes:
                await asyncio.sleep(_CHANGE_SECONDS)
                changes, self._changes = self._changes, {}
                for method, params in changes:
                    if self._catalog is not None:
                        await self._session.notify(method, Raw(params))
                    for notification in self._heard(method, Raw(params)):
                        await self._session.notify(notification.method, notification.params)

    def _heard(self, method: str, params: Raw) -> list[Notification]:
        """Return the notifications of a change to the subscriptions of 2026-07-28 that ask for it."""
        if method in CHANGES:
            return list(self._subscriptions.list_changed(method.split("/")[1], is_legacy=False))
        return list(self._subscriptions.resource_updated(member(params, ("uri",)), is_legacy=False))


async def _within(seconds: float, tasks: list[asyncio.Task[Any]]) -> None:
    """Wait until tasks are done, at most for a time; then cancel the others."""
    if tasks:
        with waiting():
            try:
                await asyncio.wait(tasks, timeout=seconds)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
