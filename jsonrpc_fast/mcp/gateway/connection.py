"""One client of a gateway, and the servers that run for it.

Rules:
  - The client gets the capabilities of every kind of server, because no server has been started yet. A list that no
    server has is empty.
  - The names of tools and prompts begin with the names of their servers. URIs are not changed, because results of tools
    contain them: a URI belongs to the server that lists it, or whose template it matches; otherwise each server is
    asked, in order. If two servers have the same URI, it belongs to the first.
  - A list waits `list_seconds` for each server. One that is slower, or fails, is left out. When a slow server has
    responded, the client is told that the list has changed.
  - Messages that a server sends while the client does not read are dropped, except that a list or a resource has
    changed: that is sent later, once.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ..._logs import logger_of
from ...codec import Notification, Raw, Request
from ...codec._backend import dumps
from ...errors import CallTimeout, ConnectionLost, EncodeError, ParseError, RpcError, StateError, invalid_params
from ...session import Destination, SessionContext, SessionOptions
from ...session.running import current_run, waiting
from ...transports.channel import HIGH_WATER_BYTES
from ...transports.protocol import Transport
from ...types import Unset
from ..client.entries import ServerEntry
from ..protocol.capabilities import ClientCapabilities
from ..protocol.meta import LIST_METHODS, LOG_LEVELS, HandshakeResult, method_not_found
from ..protocol.naming import Prefixes
from ..protocol.uris import UriTemplate, not_found
from ..relay import RELAY_ERROR
from ..server.handshake import ServerHandshake
from ..server.serving import ClientConnection, FrontSession
from .payloads import Tokens, as_raw, member, replaced, text_member
from .upstream import MAX_SUBSCRIPTIONS, Places, Upstream

MAX_OWNERS: Final = 100_000
"""The maximum number of URIs whose servers are remembered."""

_END_SECONDS: Final = 30.0
"""How long a server may take to respond to a client that has ended its stream but may read on, as on stdout."""
_MAX_CHANGES: Final = 10_000
"""The maximum number of changes that wait until the client reads again."""
_CHANGE_SECONDS: Final = 0.05
"""How long changes are collected, so that the client is told of each only once."""
_MAX_TEMPLATES: Final = 1000
"""The maximum number of templates that URIs are compared with."""

_CAPABILITIES: Final = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}
"""The capabilities that a client must declare for requests of servers."""

_logger: Final = logger_of("gateway")


_CHANGES: Final = frozenset({f"notifications/{each.kind}/list_changed" for each in LIST_METHODS.values()})
_UPDATED: Final = "notifications/resources/updated"


class GatewayConnection(ClientConnection):
    """The connection of one client.

    Args:
        handshake: The server's side of the handshake.
        entries: Where the servers are, by name.
        prefixes: The prefixes of the servers in the names of tools and prompts.
        places: The bounds of the gateway.
        transport: A transport that is not started, made with `raw=True`.
        options: Options of `Session`.
    """

    def __init__(
        self,
        handshake: ServerHandshake,
        entries: Mapping[str, ServerEntry],
        prefixes: Prefixes,
        places: Places,
        transport: Transport,
        options: SessionOptions,
    ) -> None:
        self._handshake = handshake
        self._entries = entries
        self._prefixes = prefixes
        self._places = places
        self._transport = transport
        # A client on pipes may close its side and still read the responses. It is not known how long it reads, so the
        # wait has a bound.
        if transport.responds_after_end:
            options = {"end_seconds": _END_SECONDS, **options}
        self._session = FrontSession(self, transport, options)
        self._upstreams: dict[str, Upstream] = {}
        self._listings: dict[tuple[str, str], asyncio.Task[list[dict[str, Any]] | None]] = {}  # in progress
        self._late: set[asyncio.Task[list[dict[str, Any]] | None]] = set()
        self._knows_resources = False
        self._owners: dict[str, Upstream] = {}  # of URIs
        self._templates: list[tuple[UriTemplate, Upstream]] = []
        self._tokens: Tokens[Upstream] = Tokens()  # of the servers
        self._changes: dict[tuple[str, bytes], None] = {}  # the client is not yet told of these
        self._telling: asyncio.Task[None] | None = None
        self._methods: dict[str, Callable[[str, Raw, SessionContext], Any]] = {
            **dict.fromkeys(LIST_METHODS, self._list),
            **dict.fromkeys(("tools/call", "prompts/get"), self._call_named),
            **dict.fromkeys(("resources/read", "resources/subscribe", "resources/unsubscribe"), self._call_owner),
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
        }

    async def close(self, grace_seconds: float | Unset | None = 0.0) -> None:
        """Let the requests in flight end, close the connection, and end the servers."""
        try:
            await self._session.close(grace_seconds)
        finally:
            for task in [*self._listings.values(), *self._late]:
                task.cancel()
            if self._telling is not None:
                self._telling.cancel()
            # Last, because requests in flight may still use the servers.
            await asyncio.gather(*[upstream.close() for upstream in self._upstreams.values()])

    # The client's messages.

    def serve(self, params: Any, context: SessionContext) -> Any:
        method = context.method
        payload = as_raw(params)
        if context.is_notification:
            self._on_notification(method, payload)
            return None
        # Only `initialize` needs its params here; all others stay undecoded.
        rules = self._handshake.receive_request(method, payload if method == "initialize" else None)
        if isinstance(rules, HandshakeResult):
            if method == "initialize":
                # Not before: servers are told the name and the capabilities of the client, which `initialize` brings.
                self._make_upstreams()
            return rules.result
        function = self._methods.get(method)
        if function is None:
            raise method_not_found()
        return function(method, payload, context)

    def _make_upstreams(self) -> None:
        rules = self._handshake.session
        assert rules is not None
        assert rules.client_info is not None
        declared = rules.client_capabilities  # tasks and extensions of the client do not reach the servers
        capabilities = ClientCapabilities(
            roots=declared.roots, sampling=declared.sampling, elicitation=declared.elicitation
        )
        for name, entry in self._entries.items():
            self._upstreams[name] = Upstream(
                name, entry, self._places, rules.client_info, capabilities, self._ask, self._tell
            )

    def _on_notification(self, method: str, params: Raw) -> None:
        is_due = self._handshake.receive_notification(method)
        if method == "notifications/progress":
            if (found := self._tokens.restored(params)) is not None:
                found[1].notify(method, found[0])
        elif method == "notifications/roots/list_changed" and is_due:
            for upstream in self._upstreams.values():
                upstream.notify(method, params)

    async def _call_named(self, method: str, params: Raw, context: SessionContext) -> Any:
        found = self._prefixes.split(text_member(params, "name"))
        if found is None:
            # "tools/call" becomes "Unknown tool", as servers say it themselves.
            raise invalid_params(f"Unknown {method.partition('/')[0][:-1]}")
        server, name = found
        return await self._upstreams[server].call(method, replaced(params, ("name",), name), context.destination)

    async def _complete(self, method: str, params: Raw, context: SessionContext) -> Any:
        if member(params, ("ref", "type")) == "ref/resource":
            return await self._ask_owners(method, params, text_member(params, "ref", "uri"), context)
        found = self._prefixes.split(text_member(params, "ref", "name"))
        if found is None:
            raise invalid_params("ref is unknown")
        server, name = found
        return await self._upstreams[server].call(method, replaced(params, ("ref", "name"), name), context.destination)

    async def _set_level(self, method: str, params: Raw, context: SessionContext) -> Any:
        level = text_member(params, "level")
        if level not in LOG_LEVELS:
            raise invalid_params(f"level must be one of {', '.join(LOG_LEVELS)}")
        # Servers that start later get the level from `Upstream.level`.
        running = [upstream for upstream in self._upstreams.values() if upstream.is_running]
        for upstream in self._upstreams.values():
            upstream.level = level
        calls = [upstream.call(method, params) for upstream in running if upstream.supports("logging")]
        await self._within(self._places.list_seconds, [asyncio.ensure_future(call) for call in calls])
        return {}

    async def _within(self, seconds: float, tasks: list[asyncio.Task[Any]]) -> None:
        """Wait until tasks are done, at most for a time; then cancel the others."""
        if tasks:
            with waiting():
                try:
                    await asyncio.wait(tasks, timeout=seconds)
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)

    # Resources.

    async def _call_owner(self, method: str, params: Raw, context: SessionContext) -> Any:
        return await self._ask_owners(method, params, text_member(params, "uri"), context)

    async def _ask_owners(self, method: str, params: Raw, uri: str, context: SessionContext) -> Any:
        """Return the result of the first server that has a resource."""
        if not self._knows_resources:
            # Before the lists are requested: requests that arrive meanwhile must not request them again.
            self._knows_resources = True
            await self._listed("resources/list")
            await self._listed("resources/templates/list")
        owner = self._owners.get(uri)
        last: RpcError | None = None
        for upstream in [owner] if owner is not None else self._possible_owners(uri):
            try:
                # A server that has not been started is unknown, and has to be asked.
                if upstream.server is not None and not upstream.supports("resources"):
                    continue
                if method == "resources/subscribe" and len(upstream.subscriptions) >= MAX_SUBSCRIPTIONS:
                    raise invalid_params("there are too many subscriptions")
                result = await upstream.call(method, params, context.destination)
            except RpcError as error:
                # Perhaps another server has the resource. If none has, the client gets the last error.
                last = error
                continue
            if method == "resources/subscribe":
                upstream.subscriptions[uri] = None
            elif method == "resources/unsubscribe":
                upstream.subscriptions.pop(uri, None)
            return result
        assert self.revision is not None
        raise not_found(uri, self.revision) if last is None else last

    def _possible_owners(self, uri: str) -> list[Upstream]:
        """Return the servers that may have a URI that is not listed, the likeliest first."""
        first = [upstream for template, upstream in self._templates if template.match(uri) is not None]
        return list(dict.fromkeys([*first, *self._upstreams.values()]))

    # Lists.

    async def _list(self, method: str, params: Raw, context: SessionContext) -> Any:
        _, name, key = LIST_METHODS[method]
        if params.get(("cursor",)) is not None:  # every list has a single page
            raise invalid_params("Invalid cursor")
        found: dict[str, Raw] = {}
        for upstream, items in await self._listed(method):
            for item in items:
                identity = item[key]
                if key == "name":
                    identity = self._prefixes.join(upstream.name, identity)
                # The first server wins: of two items with one name the client could call only one.
                if identity not in found:
                    try:
                        # An item may be deeper than JSON can be written, or hold a wide integer: it is left out alone.
                        found[identity] = Raw(dumps({**item, key: identity}))
                    except (EncodeError, ValueError):
                        _logger.warning("%s: an item of %s is left out", upstream.name, method)
        return Raw(b'{"%b":[%b]}' % (name.encode(), b",".join(map(bytes, found.values()))))

    async def _listed(self, method: str) -> list[tuple[Upstream, list[dict[str, Any]]]]:
        """Return the list of each server that responds in time."""
        listings = {upstream: self._listing(method, upstream) for upstream in self._upstreams.values()}
        # A server that was late once is not waited for again until its listing has ended.
        if awaited := [task for task in listings.values() if task not in self._late]:
            with waiting():
                await asyncio.wait(awaited, timeout=self._places.list_seconds)
        found = []
        for upstream, task in listings.items():
            if not task.done():
                if task not in self._late:
                    _logger.warning("%s: is left out of %s, because it is slow", upstream.name, method)
                    self._late.add(task)
            elif not task.cancelled() and (items := task.result()) is not None:
                found.append((upstream, items))
        if method == "resources/list":
            # Reversed, so that the first server overwrites the later ones.
            named = [(item["uri"], upstream) for upstream, items in reversed(found) for item in items]
            self._owners = dict(named[:MAX_OWNERS])
        elif method == "resources/templates/list":
            named = [(item["uriTemplate"], upstream) for upstream, items in found for item in items]
            self._templates = list(_templates(named[:_MAX_TEMPLATES]))
        return found

    def _listing(self, method: str, upstream: Upstream) -> asyncio.Task[list[dict[str, Any]] | None]:
        """Return the task that requests a list of one server. Callers share one that is in progress."""
        place = method, upstream.name
        task = self._listings.get(place)
        if task is None:
            context = contextvars.copy_context()
            # The task outlives the request that starts it, so it must not count as a wait of that handler.
            context.run(current_run.set, None)
            listing = _list_of(upstream, method)
            task = self._listings[place] = context.run(asyncio.ensure_future, listing)
            task.add_done_callback(partial(self._on_listed, place))
        return task

    def _on_listed(self, place: tuple[str, str], task: asyncio.Task[list[dict[str, Any]] | None]) -> None:
        if self._listings.get(place) is task:
            del self._listings[place]
        if task in self._late:
            self._late.discard(task)
            # An empty list changes nothing for the client.
            if not task.cancelled() and task.result():
                self._tell_soon(f"notifications/{LIST_METHODS[place[0]].kind}/list_changed")

    # The messages of the servers.

    async def _ask(self, upstream: Upstream, method: str, params: Raw, destination: Destination | None) -> Any:
        """Pass a request of a server on to the client."""
        rules = self._handshake.session
        needed = _CAPABILITIES.get(method)
        # MCP: a server must not send requests for which the client has not declared a capability. The server is told so
        # in place of the client.
        if rules is None or needed is None or not rules.client_capabilities.supports(needed):
            raise method_not_found()
        if not self._handshake.may_send(Request(0, method)):
            raise RpcError(RELAY_ERROR, "the client is not ready")
        try:
            with self._tokens.replaced(params, upstream) as params:
                return await self._session.call(method, params, timeout=self._places.timeout, destination=destination)
        except CallTimeout:
            raise RpcError(RELAY_ERROR, "the client did not respond in time") from None
        except (ConnectionLost, StateError):
            raise RpcError(RELAY_ERROR, "the client was lost") from None
        except ParseError:
            raise RpcError(RELAY_ERROR, "the client sent an invalid response") from None

    def _tell(self, upstream: Upstream, method: str, params: Raw, destination: Destination | None) -> None:
        """Pass a notification of a server on to the client."""
        if method in _CHANGES:
            for place in [place for place in self._listings if place[1] == upstream.name]:
                del self._listings[place]  # a listing in progress may show the state before the change
            self._knows_resources = self._knows_resources and "resources" not in method
            self._tell_soon(method)
        elif method == _UPDATED:
            # A server might announce resources that the client did not subscribe to.
            if member(params, ("uri",)) in upstream.subscriptions:
                self._tell_soon(method, bytes(params))
        elif (
            self.revision is not None
            and method in self.revision.server_notifications
            and self._handshake.may_send(Notification(method))
            # A client that does not read cannot make the gateway store what its servers log.
            and self._transport.write_buffer_bytes <= HIGH_WATER_BYTES
        ):
            with suppress(ConnectionLost, StateError):
                self._session.notify_soon(method, params, destination=destination)

    def _tell_soon(self, method: str, params: bytes = b"{}") -> None:
        """Tell the client once that something has changed."""
        if len(self._changes) < _MAX_CHANGES and self._handshake.may_send(Notification(method)):
            self._changes[method, params] = None
            if self._telling is None or self._telling.done():
                self._telling = asyncio.ensure_future(self._tell_changes())

    async def _tell_changes(self) -> None:
        with suppress(ConnectionLost, StateError):
            # One task for all changes: what changes while it waits goes into the next round.
            while self._changes:
                await asyncio.sleep(_CHANGE_SECONDS)
                changes, self._changes = self._changes, {}
                for method, params in changes:
                    await self._session.notify(method, Raw(params))


async def _list_of(upstream: Upstream, method: str) -> list[dict[str, Any]] | None:
    """Return the items of a list of one server; None if it fails."""
    try:
        return await upstream.list(method)
    except (RpcError, ValueError) as error:
        code = f", error {error.code}" if isinstance(error, RpcError) else ""
        _logger.warning("%s: is left out of %s%s", upstream.name, method, code)
        return None


def _templates(named: Iterable[tuple[str, Upstream]]) -> Iterator[tuple[UriTemplate, Upstream]]:
    """Yield the templates that can be read, with their servers."""
    for text, upstream in named:
        with suppress(ValueError):
            yield UriTemplate(text, unsafe_parts=True), upstream
