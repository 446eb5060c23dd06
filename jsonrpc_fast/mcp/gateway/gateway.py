"""A gateway: one MCP server for the clients, made of many.

Each client has its own servers, because a server keeps state of its client and sends requests to it, and the messages
do not say which client is meant. `modern` says which requests of 2026-07-28 belong to one client.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, ClassVar, Final

from ..._version import __version__
from ...codec import Notification, Raw, Request
from ...errors import CallTimeout, ConnectionLost, InvalidResponse, RpcError, StateError
from ...hooks import Hooks
from ...profile import MCP_2025_11_25, Profile
from ...session import Destination, SessionOptions, waits_for_peer
from ...support import check_callable, check_count, check_seconds, check_type, logger_of
from ...transports import Transport
from ...transports.stdio import signal_children
from ...types import Unset
from ..client.entries import ServerEntry, Servers, entry_of, read_servers
from ..protocol.capabilities import Implementation, ServerCapabilities
from ..protocol.meta import (
    LIST_METHODS,
    LISTEN_METHOD,
    LOG_LEVELS,
    RESOURCES_FILTER,
    UNKNOWN_LEVEL,
    UPDATED,
    Prefixes,
    method_not_found,
)
from ..server.handshake import RequestRules, ServerHandshake
from ..server.inputs import STATE_SECONDS, StateKey, StateSeal
from ..server.lifespan import Lifespan
from ..server.serving import Served
from ..server.session import FrontSession, HttpExchange
from ..server.session import Request as ServedRequest
from ..server.subscriptions import Announcer
from ..server.task_store import TaskStore
from .catalog import Catalog
from .modern import CALLS, ModernCall, ModernClient, ModernClients, Rounds
from .payloads import GATEWAY_ERROR, Tokens, as_raw, member, text_member, with_members
from .upstream import CAPABILITIES, Places, Upstream

_logger: Final = logger_of("gateway")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]")


class Gateway(Served):
    """One MCP server, made of many.

    A tool or a prompt has the name of its server and the separator in front: `db_query`.

    Args:
        servers: The servers by name: a URL, a program, a program with its arguments, or an entry as in the `mcpServers`
            file of hosts, which may choose and change tools; or the path of such a file, whose variables are replaced:
            see `mcp.client.entries`.
            Characters that a tool's name must not contain become "_".
        separator: What separates the name of a server from that of a tool. With "", the tools of a single server keep
            their names: such a gateway connects a client and a server over different transports.
        name: The name of the gateway.
        version: Its version.
        instructions: How to use the servers, for the client's model. The servers' own instructions follow.
        max_servers: Maximum number of servers that run, of all clients. For another one, the one that has been idle
            longest is ended, if that is 10 seconds or more; otherwise the request gets the error -32000.
        max_calls: Maximum number of requests in flight to one server for one client; the next one gets the error
            -32000.
        idle_seconds: How long a server may be idle until it is ended; None: no limit.
        list_seconds: How long a list waits for a server. One that is slower, as it may be at its first start, is left
            out; the client is notified that the list has changed when it has responded.
        state_key: As in `Server`: signs or encrypts the `requestState` of clients of 2026-07-28.
        timeout: Seconds until the gateway gives up a request that neither side cancels; None: never.
        max_message_bytes: Maximum size of a message of either side; by default that of the profile.
        hooks: Takes the name of a server, and returns the hooks that its calls are reported to; see
            `jsonrpc_fast.hooks`. The `hooks` of `serve_stdio` and `McpEndpoint` are for the clients' requests.

    Attributes:
        profile: The rules for the messages of both sides.
        places: The bounds of the servers, and those that run.
        make: Makes the catalog of a client. Its arguments are whether the client is of 2026-07-28, its name, its
            capabilities, and its `CatalogClient`.
        http_clients: The clients of 2026-07-28 over HTTP.

    Raises:
        TypeError, ValueError: A server or an option is wrong, or names would be ambiguous.
        OSError: The file cannot be read.
    """

    keeps_raw: ClassVar[bool] = True

    def __init__(
        self,
        servers: Servers | str | os.PathLike[str],
        *,
        separator: str = "_",
        name: str = "jsonrpc_fast gateway",
        version: str = __version__,
        instructions: str | None = None,
        max_servers: int = 64,
        max_calls: int = 256,
        idle_seconds: float | None = 1800.0,
        list_seconds: float = 10.0,
        timeout: float | None = 3600.0,
        state_key: StateKey | None = None,
        max_message_bytes: int | None = None,
        hooks: Callable[[str], Hooks] | None = None,
    ) -> None:
        check_type("servers", servers, Mapping, str, os.PathLike)
        check_type("separator", separator, str)
        check_type("name", name, str)
        check_type("version", version, str)
        check_type("instructions", instructions, str, may_be_none=True)
        check_count("max_servers", max_servers, 1, may_be_none=False)
        check_count("max_calls", max_calls, 1, may_be_none=False)
        check_seconds("idle_seconds", idle_seconds)
        check_seconds("list_seconds", list_seconds, may_be_none=False)
        check_seconds("timeout", timeout)
        check_count("max_message_bytes", max_message_bytes, 1)
        check_callable("hooks", hooks)
        found = read_servers(servers) if not isinstance(servers, Mapping) or "mcpServers" in servers else servers
        entries = {server: entry_of(server, entry) for server, entry in found.items()}
        if not entries:
            raise ValueError("a gateway must have a server")
        if _UNSAFE.search(separator) or (not separator and len(entries) > 1):
            raise ValueError('separator must consist of letters, digits, _, - and .; "" is for one server')
        self._entries: dict[str, ServerEntry] = {}
        self._prefixes = Prefixes(separator)
        self._info = Implementation(name=name, version=version)
        for server, entry in entries.items():
            safe = _UNSAFE.sub("_", server)
            if not safe:
                raise ValueError("a server must have a name")
            self._prefixes.add(safe, None if separator else "")
            self._entries[safe] = entry
        limits = MCP_2025_11_25.limits
        if max_message_bytes is not None:
            limits = limits.replace(message_bytes=max_message_bytes)
        # One revision has batches.
        self.profile: Profile = MCP_2025_11_25.replace(name="mcp", batches=True, limits=limits)
        for entry in self._entries.values():
            if entry.local is None:
                entry.transport(self.profile, raw=True)  # checks it
        self._instructions = instructions
        self._awaited: set[str] = set()  # the servers whose instructions a client has waited for
        found_hooks = {name: hooks(name) for name in self._entries} if hooks is not None else {}
        self.places: Places = Places(
            self.profile, max_servers, max_calls, idle_seconds, list_seconds, timeout, found_hooks
        )
        self.connections: set[Any] = set()
        self.make: partial[Catalog] = partial(Catalog, self._entries, self._prefixes, self.places)
        seal = StateSeal(state_key, name, STATE_SECONDS)
        self._rounds = Rounds(seal, max(1, max_servers // 2))
        self.http_clients: ModernClients = self.modern_clients(is_http=True)
        self._modern = self.handshake()
        self.lifespan: Lifespan = Lifespan(aclosing, self.http_clients, None)
        self.tasks: TaskStore = TaskStore()
        self.announcer: Announcer = Announcer(0.05)

    def tool_scopes(self, name: str) -> frozenset[str]:
        """Return the scopes of a tool of a server in this process. Others have none that are known here."""
        server, inner = self._prefixes.split(name) or ("", "")
        entry = self._entries.get(server)
        own = None if entry is None else entry.tools.inner(inner)
        return frozenset() if entry is None or own is None or entry.local is None else entry.local.tool_scopes(own)

    def tool_schema(self, name: str) -> Any:
        """Return the input schema of a tool that asks for headers over HTTP, if it was listed."""
        return self.places.schemas.get(name)

    @property
    def running(self) -> list[str]:
        """The names of the servers that run, of all clients."""
        return sorted(upstream.name for upstream in self.places.running)

    def connection(self, transport: Transport, options: SessionOptions) -> GatewayConnection:
        """Return the connection of one client, which is not started. The arguments are those of `run`."""
        return GatewayConnection(self, transport, options)

    def handshake(self) -> ServerHandshake:
        """Return the gateway's side of the handshake with a client."""
        hints = {"ttlMs": 0, "cacheScope": "private"}
        return ServerHandshake(self._info, CAPABILITIES, self.versions, self._instructions, hints, ())

    def modern_clients(self, *, is_http: bool) -> ModernClients:
        """Return a new, empty set of the clients of 2026-07-28, for one connection or for HTTP."""
        return ModernClients(partial(self.make, True), self._info, self._rounds, is_http)

    # Requests of 2026-07-28.

    def capabilities(self) -> ServerCapabilities:
        return CAPABILITIES

    def serve(self, params: Any, request: ServedRequest) -> Any:
        payload = as_raw(params)
        rules = self._modern.receive_request(request.method, _meta_of(payload))
        if isinstance(rules, dict):
            destination = request.destination
            subject = None if destination is None else destination.request.subject
            return self.discovered(rules, self.http_clients, subject, payload, self._modern)
        return self.serve_modern(self.http_clients, request.destination, payload, request, rules)

    def serve_modern(
        self,
        clients: ModernClients,
        way: FrontSession | HttpExchange,
        params: Raw,
        request: ServedRequest,
        rules: RequestRules,
    ) -> Any:
        """Serve a request. Return an awaitable of its result.

        Args:
            clients: Those that the client is one of.
            way: The way to the client.
            params: The params.
            request: The request.
            rules: What the handshake says of it.
        """
        method, destination = request.method, request.destination
        subject = None if destination is None else destination.request.subject
        client = clients.of(subject, params, rules)
        call = ModernCall(
            method, params, rules, subject, partial(_send, way, destination), partial(self._completed, rules, method)
        )
        if method in CALLS or method in LIST_METHODS:
            return client.serve(call)
        if method == LISTEN_METHOD:
            return self._listen(way, client, call, request)
        raise method_not_found()

    def discovered(
        self, result: dict[str, Any], clients: ModernClients, subject: object, params: Raw, handshake: ServerHandshake
    ) -> Any:
        """Return the result of `server/discover`, or an awaitable of it."""
        # The rules of the client, as of any other request.
        rules = handshake.receive_request(LISTEN_METHOD, _meta_of(params))
        assert not isinstance(rules, dict)
        return self.instructed(result, lambda: clients.of(subject, params, rules).catalog)

    async def instructed(self, result: dict[str, Any], catalog: Callable[[], Catalog]) -> dict[str, Any]:
        """Return a result with the instructions of the servers. Those that have never run are started once."""
        known = self.places.instructions
        # A server that does not start in time must not delay every client.
        unknown = self._entries.keys() - known.keys() - self._awaited
        if unknown:
            starting = [upstream for name, upstream in catalog().upstreams.items() if name in unknown]
            tasks = [asyncio.ensure_future(upstream.start()) for upstream in starting]
            await _within(self.places.list_seconds, tasks)
            self._awaited |= unknown
            for upstream, task in zip(starting, tasks, strict=True):
                if task.cancelled():
                    _logger.warning("%s: its instructions are left out, because it is slow", upstream.name)
        heading = "# {}\n\n" if len(self._entries) > 1 else ""
        texts = [] if self._instructions is None else [self._instructions]
        texts += [heading.format(name) + text for name in self._entries if (text := known.get(name))]
        return {**result, "instructions": "\n\n".join(texts)} if texts else result

    def _completed(self, rules: RequestRules, method: str, result: Any) -> Raw:
        payload = as_raw(result)
        members = self._modern.complete(rules.revision, method, {})
        if payload.get(("_meta",)) is not None:
            # `_meta` belongs to the server's result, so the gateway does not add its own name.
            del members["_meta"]
        return with_members(payload, members)

    async def _listen(
        self, way: FrontSession | HttpExchange, client: ModernClient, call: ModernCall, request: ServedRequest
    ) -> Raw:
        """Serve a subscription until it is cancelled or the gateway ends it."""
        subscriptions = way.subscriptions
        stream = subscriptions.open(request.id, member(call.params, ("notifications",)), request.destination)
        client.listeners[stream] = subscriptions.changed_soon
        # The acknowledgement names only the resources that a server has. The wait for the servers is as long as for a
        # list.
        wanted = dict.fromkeys(stream.filter.pop(RESOURCES_FILTER, ()), False)

        async def watch(uri: str) -> None:
            await client.watch(uri, call)
            wanted[uri] = True

        try:
            with waits_for_peer():
                await _within(self.places.list_seconds, [asyncio.ensure_future(watch(uri)) for uri in wanted])
                if uris := [uri for uri, is_watched in wanted.items() if is_watched]:
                    stream.filter[RESOURCES_FILTER] = uris
                acknowledgement = stream.acknowledgement()
                call.send(acknowledgement.method, acknowledgement.params)
                await stream.ended.wait()
            return call.completed({"_meta": stream.meta()})
        finally:
            # However the request ends, the servers must stop sending notifications that no client gets.
            subscriptions.close(stream)
            del client.listeners[stream]
            client.unwatch([uri for uri, is_watched in wanted.items() if is_watched])

    def on_signal(self) -> None:
        # A client gives the gateway 2 seconds to end, which may be too short for the servers to end by themselves.
        super().on_signal()
        self.places.is_ending = True
        signal_children("SIGTERM")


class GatewayConnection(FrontSession):
    """The connection of one client.

    The client gets the capabilities of every kind of server, because no server has been started yet. A list that no
    server has is empty.
    """

    def __init__(self, gateway: Gateway, transport: Transport, options: SessionOptions) -> None:
        self._gateway = gateway
        self._own = gateway.modern_clients(is_http=False)
        # A client on pipes may close its side and still read the responses. How long it reads is unknown, so the wait
        # is bounded.
        if transport.responds_after_end:
            options = {"end_seconds": 30.0, **options}
        super().__init__(gateway.handshake(), transport, options, gateway.announcer)
        self._catalog: Catalog | None = None  # of a client with a handshake
        self._initialized = asyncio.Event()
        self._tokens: Tokens[Upstream] = Tokens()  # of the servers

    async def close(self, grace_seconds: float | Unset | None = 0.0) -> None:
        """Let the requests in flight end, close the connection, and end the servers."""
        try:
            await super().close(grace_seconds)
        finally:
            # The servers end last, because requests in flight may still use them.
            if self._catalog is not None:
                await self._catalog.close()
            await self._own.aclose()

    # The client's messages.

    def serve(self, params: Any, context: ServedRequest) -> Any:
        method = context.method
        payload = as_raw(params)
        if context.is_notification:
            self._on_notification(method, payload)
            return None
        # Only `initialize` needs its params here.
        rules = self._handshake.receive_request(method, payload if method == "initialize" else _meta_of(payload))
        if isinstance(rules, dict):
            session = self._handshake.session
            if method == "initialize" and session is not None and session.client_info is not None:
                # Made only now, because servers get the name and the capabilities of the client, which are in
                # `initialize`.
                info, capabilities = session.client_info, session.client_capabilities
                catalog = self._catalog = self._gateway.make(False, info, capabilities, self)
                return self._gateway.instructed(rules, lambda: catalog)
            if method == "server/discover":
                return self._gateway.discovered(rules, self._own, None, payload, self._handshake)
            return rules
        if rules.revision.is_modern:
            return self._gateway.serve_modern(self._own, self, payload, context, rules)
        assert self._catalog is not None
        if method in LIST_METHODS:
            return self._catalog.merged(method, payload)
        if method in CALLS or method in ("resources/subscribe", "resources/unsubscribe"):
            return self._catalog.call(method, payload, context.destination, rules.revision)
        if method == "logging/setLevel":
            return self._set_level(self._catalog, method, payload)
        raise method_not_found()

    def _on_notification(self, method: str, params: Raw) -> None:
        is_due = self._handshake.receive_notification(method)
        if self._handshake.is_initialized:
            self._initialized.set()
        if method == "notifications/progress":
            if (found := self._tokens.restored(params)) is not None:
                found[1].notify(method, found[0])
        elif method == "notifications/roots/list_changed" and is_due and self._catalog is not None:
            for upstream in self._catalog.upstreams.values():
                upstream.notify(method, params)

    async def _set_level(self, catalog: Catalog, method: str, params: Raw) -> Any:
        level = text_member(params, "level")
        if level not in LOG_LEVELS:
            raise RpcError.invalid_params(UNKNOWN_LEVEL)
        # Servers that start later get the level from `Upstream.level`, and those of 2026-07-28 with each request.
        running = [upstream for upstream in catalog.upstreams.values() if upstream.is_running]
        for upstream in catalog.upstreams.values():
            upstream.level = level
        calls = [each.call(method, params) for each in running if not each.is_modern and each.supports("logging")]
        await _within(self._gateway.places.list_seconds, [asyncio.ensure_future(call) for call in calls])
        return {}

    # The servers' messages to a client with a handshake.

    async def forward(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> Any:
        return await upstream.call(method, params, origin)

    async def ask(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> Any:
        # Servers are started before `notifications/initialized`, and many ask for the roots at once.
        with waits_for_peer(), suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._initialized.wait(), self._gateway.places.list_seconds)
        if not self._handshake.may_send(Request(0, method)):
            raise RpcError(GATEWAY_ERROR, "the client is not ready")
        try:
            with self._tokens.replaced(params, upstream) as params:
                return await self.call(method, params, timeout=self._gateway.places.timeout, destination=origin)
        except CallTimeout:
            raise RpcError(GATEWAY_ERROR, "the client did not respond in time") from None
        except (ConnectionLost, StateError):
            raise RpcError(GATEWAY_ERROR, "the client was lost") from None
        except InvalidResponse:
            raise RpcError(GATEWAY_ERROR, "the client sent an invalid response") from None

    def tell(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> None:
        if (
            self.revision is not None
            # A server may speak a later revision than the client.
            and method in self.revision.server_notifications
            and self._handshake.may_send(Notification(method))
        ):
            _send(self, origin, method, params)

    def changed(self, method: str, subject: str) -> None:
        if self._handshake.may_send(Notification(method)):
            self.subscriptions.add_change(method, subject)

    def notifications_of(self, method: str, subject: str) -> Iterator[Notification]:
        if self._catalog is not None:
            yield Notification(method, {"uri": subject} if method == UPDATED else None)
        yield from self.subscriptions.changed(method, subject, is_legacy=False)


def _meta_of(params: Raw) -> dict[str, Any]:
    """Return the params with no other member than `_meta`, decoded."""
    meta = params.get(("_meta",))
    return {} if meta is None else {"_meta": meta.decode()}


def _send(way: FrontSession | HttpExchange, destination: Destination | None, method: str, params: Any) -> None:
    """Send a notification, unless the client does not read, because the gateway must not store logs for it."""
    if not way.is_blocked:
        way.push([Notification(method, params)], destination)


async def _within(seconds: float, tasks: list[asyncio.Task[Any]]) -> None:
    """Wait until tasks are done, but at most for this time; then cancel the others."""
    if tasks:
        with waits_for_peer():
            try:
                await asyncio.wait(tasks, timeout=seconds)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
