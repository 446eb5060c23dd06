"""An MCP server and its connections.

Rules:
  - A connection declares its capabilities when it starts: the kinds (tools, prompts, resources) that have something
    registered by then. Methods of the other kinds are not found. Later changes of a declared kind are sent with
    `list_changed`, once for all changes in one turn of the loop.
  - At most `max_handlers` functions run at a time (see `Session`). Lists, `ping`, the handshake and subscriptions are
    served even if that many run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, get_args

import msgspec

from ...codec import Raw
from ...codec import Request as Message
from ...handlers import with_middleware
from ...profile import Profile
from ...session import SessionOptions
from ...support import check_callable, check_count, check_type
from ...transports import Transport, is_strict_enough
from ..protocol.capabilities import Icon, Implementation, ServerCapabilities
from ..protocol.definitions import Definition
from ..protocol.meta import LIST_CHANGES, LIST_METHODS, FeatureKind
from ..protocol.versions import DEFAULT_VERSIONS, REVISIONS, in_order
from .context import Context, ContextServer, mounted
from .decorators import Decorators
from .handshake import ServerHandshake
from .inputs import STATE_SECONDS, StateKey, StateSeal
from .lifespan import Lifespan, MakeLifespan
from .methods import (
    UnknownName,
    call_method,
    call_plain,
    raise_error,
    read_resource,
    serve,
    serve_mounted,
    validator_of,
)
from .providers import Provider
from .registry import Middleware, Registry, ShownErrors
from .serving import Served
from .session import FrontSession, Request
from .subscriptions import Announcer
from .task_store import TASK_METHODS, TaskStore
from .tasks import Task


class ServerProvider(Provider):
    """A server as a provider for the servers that it is mounted at.

    A request passes through the middleware of both servers, the outer one's first. The functions get a context of their
    server, with its lifespan and its resources. Their requests and notifications to the client go through the outer
    server. Tools never run as tasks of the outer server. Methods of extensions, notifications, instructions and
    declared capabilities are not mounted.
    """

    unsafe_uris = True  # the templates of the server decide

    def __init__(self, server: Registry) -> None:
        self._registry = server

    @property
    def kinds(self) -> Collection[str]:  # type: ignore[override]
        """The kinds of features that are registered."""
        capabilities = self._registry.capabilities()
        return [kind for kind in get_args(FeatureKind) if capabilities.supports(kind)]

    def contains(self, provider: Provider) -> bool:
        """Return whether this is the provider, or the provider is mounted at this server, at any depth."""
        inside = (mount.provider for mount in self._registry.mounts)
        return self is provider or any(
            each is provider or (isinstance(each, ServerProvider) and each.contains(provider)) for each in inside
        )

    def tool_scopes(self, name: str) -> Collection[str]:
        return self._registry.tool_scopes(name)

    def names(self, kind: FeatureKind) -> Collection[str]:
        return self._registry.names(kind)

    def lifespan(self) -> AbstractAsyncContextManager[Any] | None:
        lifespan = self._registry.shared.lifespan
        return lifespan if lifespan.exists else None

    async def list_items(self, method: str, context: Context) -> list[Definition]:
        items: list[Definition] = []
        params: dict[str, Any] = {}
        # The inner server may have its own page size.
        while (page := await self._serve(method, params, context)) is not None:
            items += [LIST_METHODS[method].type.from_dict(item) for item in page[LIST_METHODS[method].member]]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        return items

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context) -> dict[str, Any] | None:
        return await self._serve("tools/call", {"name": name, "arguments": arguments}, context)

    async def get_prompt(self, name: str, arguments: dict[str, str], context: Context) -> dict[str, Any] | None:
        return await self._serve("prompts/get", {"name": name, "arguments": arguments}, context)

    async def read_resource(self, uri: str, context: Context) -> dict[str, Any] | None:
        return await self._serve("resources/read", {"uri": uri}, context)

    async def complete(
        self, reference: Mapping[str, Any], argument: dict[str, str], others: dict[str, str], context: Context
    ) -> dict[str, Any] | None:
        params = {"ref": dict(reference), "argument": argument, "context": {"arguments": others}}
        result = await self._serve("completion/complete", params, context)
        return None if result is None else result["completion"]

    async def _serve(self, method: str, params: dict[str, Any], context: Context) -> dict[str, Any] | None:
        """Return the result of a request; None if its name, URI or method is unknown."""
        self._registry.complete()
        inner = mounted(context, method, self._registry.shared)
        try:
            return await serve_mounted(self._registry, params, inner)
        # The outer server then tries the next provider. Any other error -32602 is about the params, and goes to the
        # client.
        except UnknownName:
            return None


class ServerConnection(FrontSession):
    """The connection of one client: its session, its requests and notifications.

    Each request and notification goes through the handshake first, in the order of arrival. Requests are checked again
    only if the transport's profile is looser than the server's.
    """

    def __init__(self, server: Server, transport: Transport, options: SessionOptions) -> None:
        super().__init__(server._handshake(), transport, options, server.announcer)
        self._server = server
        self._must_validate = not is_strict_enough(transport, server.profile)

    def serve(self, params: Any, request: Request) -> Any:
        if type(params) is Raw:
            params = params.decode()
        if request.is_notification:
            return self._on_notification(request, params)
        if self._must_validate:
            message = Message(request.id, request.method, params)
            raise_error(validator_of(self._server.profile).validate_request(message.to_dict()))
        rules = self._handshake.receive_request(request.method, params)
        if isinstance(rules, dict):
            return rules
        return serve(self._server, self._handshake, rules, params, request)

    def call_plain(self, message: Message, subject: object) -> Any:
        return call_plain(self._server, self._handshake, message, subject)

    def _on_notification(self, request: Request, params: Any) -> Any:
        # First, even if no function is registered: `notifications/initialized` opens the session.
        is_due = self._handshake.receive_notification(request.method)
        function = self._server.notifications.get(request.method)
        rules = self._handshake.session
        if function is None or rules is None or not is_due:
            return None
        members = params if isinstance(params, dict) else {}
        handle = with_middleware(self._call_notification, self._server.middleware)
        return handle(members, Context(request, rules, members, self._server.shared))

    def _call_notification(self, params: dict[str, Any], context: Context) -> Any:
        return call_method(self._server.notifications[context.method], params, context)


class Server(Decorators, Served):
    """An MCP server for any number of clients.

    Register functions with the decorators `tool`, `prompt`, `resource`, `method` and `notification`.

    Args:
        name: The name of the server, for programs. It is also the host in the URIs of resources registered without one.
        version: The version of the server.
        title: The name for people.
        description: What the server does, for people (2025-11-25 and later).
        instructions: How to use the server, for the client's model.
        icons: Icons of the server, for user interfaces (2025-11-25 and later).
        website_url: The website of the server (2025-11-25 and later).
        lifespan: A function that takes the server and returns an async context manager, for resources that functions
            need while the server runs. They get its value as `Context.lifespan`.
        versions: The revisions to support, in any order.
        page_size: Number of items on one page of a list; None: all of them, since many clients read only one page.
        strict: Whether the arguments of tools must have the right types as sent: see `tool`.
        ignore_unknown: Whether unknown arguments of tools are dropped rather than refused: see `tool`.
        show_errors: Which exceptions of tools show their text to the client: see `tool`.
        inline_schemas: Whether the schemas of tools repeat nested types where they are used, instead of referring to
            `$defs`, which many hosts drop or refuse. Types that refer to themselves always have references.
        middleware: Functions around every method, the outermost first: see `Middleware`.
        ttl_ms: How long clients may cache lists and resources, in milliseconds (2026-07-28).
        cache_scope: "public" if all clients get the same lists and resources, so shared caches may keep them; otherwise
            "private".
        capabilities: Capabilities to declare in addition to the registered ones, or in place of them: extensions,
            tasks, experimental. Register their methods with `method`; functions return their results as `WholeResult`.
            The declared `extensions` are added to the registered ones.
        tasks: The store for the tasks of tools with task support; by default a `TaskStore` with its default limits.
        state_key: Protects the state that modern clients carry between the rounds of a request: 32 random bytes or more
            to sign with; several of these: the first one signs, and all are accepted; or a cipher, such as
            `cryptography.fernet.Fernet`, which also hides it. All processes of a server need the same key. By default a
            random key of this process.
        state_seconds: How long such a state is valid: how long a user may take to respond.

    Attributes:
        versions: The revisions that the server supports, the oldest first.
        profile: The profile for the transports: that of the latest revision, but with batches if any revision has them.
            Each connection refuses batches that its own revision does not have.
        tasks: The tasks. `serve_stdio` and the ASGI application close them at the end; other programs do it themselves.
        lifespan: The lifespan, an async context manager. `run` enters it; it begins once, for all connections.

    Raises:
        TypeError: `state_key` has another type.
        ValueError: A version is unknown, no version is given, `page_size` is less than 1, or `state_key` is too short.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        icons: Sequence[Icon] | None = None,
        website_url: str | None = None,
        lifespan: MakeLifespan | None = None,
        versions: Sequence[str] = DEFAULT_VERSIONS,
        page_size: int | None = None,
        strict: bool = False,
        ignore_unknown: bool = False,
        show_errors: ShownErrors = False,
        inline_schemas: bool = True,
        middleware: Sequence[Middleware] = (),
        ttl_ms: int = 0,
        cache_scope: Literal["private", "public"] = "private",
        capabilities: ServerCapabilities | None = None,
        tasks: TaskStore | None = None,
        state_key: StateKey | None = None,
        state_seconds: float = STATE_SECONDS,
    ) -> None:
        check_type("name", name, str)
        check_type("version", version, str)
        texts: dict[str, Any] = {"title": title, "description": description, "website_url": website_url}
        for member, text in {**texts, "instructions": instructions}.items():
            check_type(member, text, str, may_be_none=True)
        check_type("icons", icons, list, tuple, may_be_none=True)
        check_callable("lifespan", lifespan)
        check_type("versions", versions, Iterable)
        check_count("page_size", page_size, 1)
        check_count("ttl_ms", ttl_ms, 0, may_be_none=False)
        check_type("cache_scope", cache_scope, str)
        check_type("capabilities", capabilities, ServerCapabilities, may_be_none=True)
        check_type("tasks", tasks, TaskStore, may_be_none=True)
        check_type("middleware", middleware, list, tuple)
        for each in middleware:
            check_callable("a middleware", each, may_be_none=False, may_be_async=True)
        super().__init__(name, strict, ignore_unknown, show_errors, inline_schemas)
        if icons is not None:
            texts["icons"] = list(icons)
        given = {member: text for member, text in texts.items() if text is not None}
        self._info = Implementation(name=name, version=version, **given)
        self._instructions = instructions
        self.versions: tuple[str, ...] = in_order(versions)
        # The revision of a client is known only after its first message, so the transport accepts messages of all
        # revisions.
        profiles = [REVISIONS[version].profile for version in self.versions]
        self.profile: Profile = profiles[-1].replace(batches=any(profile.batches for profile in profiles))
        self._cache_hints: dict[str, Any] = {"ttlMs": ttl_ms, "cacheScope": cache_scope}
        self._declared = ServerCapabilities() if capabilities is None else capabilities
        self.lifespan: Lifespan = Lifespan(lifespan, self, self.complete)
        self.tasks: TaskStore = TaskStore() if tasks is None else tasks
        # A store belongs to one server: its changes are sent to the clients of that server.
        self.tasks.on_change = self._task_changed
        seal = StateSeal(state_key, name, state_seconds)
        self.shared: ContextServer = ContextServer(seal, self.lifespan, self._read)
        self.middleware: tuple[Middleware, ...] = tuple(middleware)
        self.page_size = page_size
        self._own_provider = ServerProvider(self)
        self.connections: set[Any] = set()
        self.announcer: Announcer = Announcer(0.0)
        self._stateless: tuple[Any, ServerHandshake] | None = None

    def __repr__(self) -> str:
        counts = [f"{kind}={len(self.names(kind))}" for kind in LIST_CHANGES]
        return f"<{type(self).__name__} {self._info.name!r} {' '.join(counts)}>"

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of the features that are registered now, and those declared in the constructor."""
        registered = super().capabilities()
        names = [name for name in ServerCapabilities.__struct_fields__ if name != "order"]
        declared = {name: getattr(self._declared, name) for name in names}
        declared = {name: value for name, value in declared.items() if value is not msgspec.UNSET}
        if registered.extensions is not msgspec.UNSET:
            # Merged: a declared extension must not remove the extension for tasks.
            declared["extensions"] = {**registered.extensions, **declared.get("extensions", {})}
        return msgspec.structs.replace(registered, **declared)

    def connection(self, transport: Transport, options: SessionOptions) -> ServerConnection:
        """Return the connection of one client, which is not started. The arguments are those of `run`."""
        return ServerConnection(self, transport, options)

    def serve(self, params: Any, request: Request) -> Any:
        handshake = self._stateless_handshake()
        rules = handshake.receive_request(request.method, params)
        return rules if isinstance(rules, dict) else serve(self, handshake, rules, params, request)

    def _stateless_handshake(self) -> ServerHandshake:
        # The declared capabilities are those of the features that are registered at the time of the request.
        state = len(self.methods), self.has_tasks
        if self._stateless is None or self._stateless[0] != state:
            self._stateless = state, self._handshake()
        return self._stateless[1]

    def call_plain(self, message: Message, subject: object) -> Any:
        return call_plain(self, self._stateless_handshake(), message, subject)

    async def _read(self, uri: str, context: Context) -> dict[str, Any]:
        return await read_resource(self, {"uri": uri}, context)

    def _handshake(self) -> ServerHandshake:
        return ServerHandshake(
            self._info,
            self.capabilities(),
            self.versions,
            self._instructions,
            self._cache_hints,
            {*self.methods, *(TASK_METHODS if self.has_tasks else ())},
        )

    def mount(self, other: Server | Provider, prefix: str | None = None, *, separator: str = "_") -> None:
        """Add the tools, prompts and resources of another server or provider. Changes there are announced here.

            server.mount(weather, prefix="weather")  # its tool `now` is `weather_now` here

        A server or provider with a lifespan must be mounted before the server runs.

        Args:
            other: A `Server`, or an object of a class derived from `Provider`.
            prefix: The prefix of the names of its tools and prompts here; None: they do not change. URIs never change.
            separator: What separates the prefix from the name.

        Raises:
            ValueError: A name is already registered here; another prefix begins with this one, so that names would be
                ambiguous; or `other` is this server, or has it mounted.
            StateError: The server is already running, and `other` has a lifespan, which could not begin any more.
        """
        check_type("other", other, Server, Provider)
        check_type("prefix", prefix, str, may_be_none=True)
        check_type("separator", separator, str)
        provider = other._own_provider if isinstance(other, Server) else other
        if isinstance(provider, ServerProvider) and provider.contains(self._own_provider):
            raise ValueError("a server cannot contain itself")
        # The lifespan of this server has begun without it, and cannot begin twice.
        if provider.lifespan() is not None:
            self.lifespan.check_idle()
        self._mount(provider, f"{prefix}{separator}" if prefix else "")
        self.lifespan.add(provider.lifespan)
        provider.add_listener(self)

    def list_changed(self, kind: FeatureKind) -> None:
        """Notify clients that a list has changed. Registering and unregistering do this themselves.

        A legacy client is notified after `notifications/initialized`, a modern one if it subscribed.

        Args:
            kind: The list that has changed.
        """
        for connection in self.connections:
            connection.subscriptions.list_changed(kind)
        self._own_provider.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource that it has changed.

        Args:
            uri: The URI of the resource.
        """
        for connection in self.connections:
            connection.subscriptions.resource_updated(uri)
        self._own_provider.resource_updated(uri)

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message to the legacy clients that want this level.

        Modern clients get log messages only as part of a request: see `Context.log`.

        Args:
            level: One of `LOG_LEVELS`, from "debug" to "emergency".
            data: Any JSON value.
            logger: The name of the logger.

        Raises:
            ValueError: The level is unknown.
        """
        for connection in self.connections:
            connection.log(level, data, logger)

    def _task_changed(self, task: Task) -> None:
        for connection in self.connections:
            connection.subscriptions.task_changed(task.id, task.details)

    def _changed(self, kind: FeatureKind) -> None:
        self._stateless = None
        self.list_changed(kind)
