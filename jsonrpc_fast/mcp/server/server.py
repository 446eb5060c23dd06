"""An MCP server and its connections.

    server = Server("weather", "1.0")

    @server.tool
    async def forecast(city: str, days: int = 1) -> str:
        "The weather of the next days."
        ...

    server.serve_stdio()

Rules:
  - A connection declares its capabilities when it starts: the kinds (tools, prompts, resources) that have something
    registered by then. Methods of the other kinds are not found. Later changes of a declared kind are sent with
    `list_changed`, once for all changes in one turn of the loop.
  - A client that ends its stream still gets the responses to its requests. Its subscriptions end.
  - A function may send requests to the client: to a legacy client directly, after `notifications/initialized`; to a
    modern one as `inputs.py` describes.
  - At most `max_handlers` functions run at a time (see `Session`). Lists, `ping`, the handshake and subscriptions are
    served even if that many run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from ..._checks import check_callable, check_count, check_type
from ...profile import Profile
from ...session import SessionOptions
from ...transports.protocol import Transport
from ..protocol.capabilities import Icon, Implementation, ServerCapabilities
from ..protocol.versions import REVISIONS, VERSIONS, in_order
from .connection import ServerConnection
from .functions.decorators import Decorators
from .functions.middleware import Middleware
from .functions.providers import Provider
from .functions.registry import ShownErrors
from .methods import Methods
from .mounting import ServerProvider
from .request.handshake import ServerHandshake
from .request.lifespan import Lifespan, MakeLifespan
from .request.request_state import STATE_SECONDS, StateKey, StateSeal
from .request.task_store import TASK_METHODS, TaskStore
from .request.tasks import Task
from .serving import Served


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
        lifespan: A function that takes the server and returns an async context manager, for what functions need while
            the server runs. They get its value as `Context.lifespan`.
        versions: The revisions to support, in any order.
        page_size: Number of items on one page of a list; None: all of them, since many clients read one page only.
        strict: Whether the arguments of tools must have the right types as sent: see `tool`.
        ignore_unknown: Whether unknown arguments of tools are dropped rather than refused: see `tool`.
        show_errors: Which exceptions of tools show their text to the client: see `tool`.
        middleware: Functions around every method, the outermost first: see `Middleware`.
        ttl_ms: How long clients may cache lists and resources, in milliseconds (2026-07-28).
        cache_scope: "public" if all clients get the same lists and resources, so shared caches may keep them; else
            "private".
        capabilities: Capabilities to declare in addition to the registered ones, or in place of them: extensions,
            tasks, experimental. Register their methods with `method`; functions return their results as `WholeResult`.
            The declared `extensions` are added to the registered ones.
        tasks: Where the tasks of tools with task support are kept; by default in a `TaskStore` with its own limits.
        state_key: What protects the state that modern clients carry between the rounds of a request: 32 random bytes or
            more to sign with; several of these: the first one signs, and all are accepted; or a cipher, such as
            `cryptography.fernet.Fernet`, which also hides it. All processes of a server need the same. By default a
            random key of this process.
        state_seconds: How long such a state is valid, that is, how long a user may take to respond.

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
        versions: Sequence[str] = VERSIONS,
        page_size: int | None = None,
        strict: bool = False,
        ignore_unknown: bool = False,
        show_errors: ShownErrors = False,
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
        check_count("ttl_ms", ttl_ms, 0, may_be_none=False)
        check_type("cache_scope", cache_scope, str)
        check_type("capabilities", capabilities, ServerCapabilities, may_be_none=True)
        check_type("tasks", tasks, TaskStore, may_be_none=True)
        check_type("middleware", middleware, list, tuple)
        for each in middleware:
            check_callable("a middleware", each, may_be_none=False)
        super().__init__(provider=name, strict=strict, ignore_unknown=ignore_unknown, show_errors=show_errors)
        if icons is not None:
            texts["icons"] = list(icons)
        given = {member: text for member, text in texts.items() if text is not None}
        self._info = Implementation(name=name, version=version, **given)
        self._instructions = instructions
        self.versions: tuple[str, ...] = in_order(versions)
        # The revision of a client is known only after its first message: the transport reads what any of them may send.
        profiles = [REVISIONS[version].profile for version in self.versions]
        self.profile: Profile = profiles[-1].replace(batches=any(profile.batches for profile in profiles))
        self._cache_hints: dict[str, Any] = {"ttl_ms": ttl_ms, "cache_scope": cache_scope}
        self._declared = ServerCapabilities() if capabilities is None else capabilities
        self.lifespan: Lifespan = Lifespan(lifespan, self)
        self.tasks: TaskStore = TaskStore() if tasks is None else tasks
        # A store belongs to one server: its changes go to the clients of this one.
        self.tasks.on_change = self._task_changed
        seal = StateSeal(state_key, name, state_seconds)
        self._methods = Methods(
            self, page_size, lifespan=self.lifespan, tasks=self.tasks, seal=seal, middleware=tuple(middleware)
        )
        self._own_provider = ServerProvider(self, self._methods, self.lifespan)
        self.connections: set[ServerConnection] = set()

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of the features that are registered now, and those declared in the constructor."""
        registered = super().capabilities()
        names = [name for name in ServerCapabilities.__struct_fields__ if name != "order"]
        declared = {name: getattr(self._declared, name) for name in names}
        declared = {name: value for name, value in declared.items() if value is not msgspec.UNSET}
        if registered.extensions is not msgspec.UNSET:
            # Merged, since both lists are open: a declared extension does not withdraw that of the tasks.
            declared["extensions"] = {**registered.extensions, **declared.get("extensions", {})}
        return msgspec.structs.replace(registered, **declared)

    def connection(self, transport: Transport, options: SessionOptions) -> ServerConnection:
        """Return the connection of one client, which is not started. The arguments are as in `run`."""
        capabilities = self.capabilities()
        handshake = ServerHandshake(
            self._info,
            capabilities,
            versions=self.versions,
            instructions=self._instructions,
            methods={*self.methods, *(TASK_METHODS if self.has_tasks else ())},
            **self._cache_hints,
        )
        return ServerConnection(
            handshake, capabilities, self._methods, self.notifications, self.profile, transport, options
        )

    def mount(self, other: Server | Provider, prefix: str | None = None, *, separator: str = "_") -> None:
        """Add the tools, prompts and resources of another server or provider. Changes there are announced here.

            server.mount(weather, prefix="weather")  # its tool `now` is `weather_now` here

        What begins with the server, such as the lifespan of another server, must be mounted before the server runs.

        Args:
            other: A `Server`, or an object of a class derived from `Provider`.
            prefix: What the names of its tools and prompts begin with here; None: they do not change. URIs never
                change.
            separator: What stands between the prefix and the name.

        Raises:
            ValueError: A name is known to be registered here already; another prefix begins with this one, so that
                names would be ambiguous; or `other` is this server, or has it mounted.
            StateError: The server runs already, and `other` has something to begin with.
        """
        check_type("other", other, Server, Provider)
        check_type("prefix", prefix, str, may_be_none=True)
        check_type("separator", separator, str)
        provider = other._own_provider if isinstance(other, Server) else other
        if isinstance(provider, ServerProvider) and provider.contains(self._own_provider):
            raise ValueError("a server cannot contain itself")
        # The lifespan has begun without it, and cannot begin twice.
        if provider.lifespan() is not None:
            self.lifespan.check_idle()
        self._mount(provider, f"{prefix}{separator}" if prefix else "")
        self.lifespan.add(provider.lifespan)
        provider.add_listener(self)

    def list_changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        """Notify clients that a list has changed. Registering and unregistering do this themselves.

        A legacy client is notified after `notifications/initialized`, a modern one if it subscribed.

        Args:
            kind: The list that has changed.
        """
        for connection in self.connections:
            connection.list_changed(kind)
        self._own_provider.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource that it has changed.

        Args:
            uri: The URI of the resource.
        """
        for connection in self.connections:
            connection.resource_updated(uri)
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
            connection.outgoing.log(level, data, logger)

    def _task_changed(self, task: Task) -> None:
        if task.is_modern:
            for connection in self.connections:
                connection.task_changed(task)

    def _changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        self.changes: int = self.changes + 1
        self.list_changed(kind)
