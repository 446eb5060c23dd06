"""An MCP server and its connections.

    server = Server("weather", "1.0")

    @server.tool
    async def forecast(city: str, days: int = 1) -> str:
        "The weather of the next days."
        ...

    server.serve_stdio()

Rules:
  - A connection declares its capabilities when it starts: only kinds (tools, prompts, resources) of which something is
    registered by then. The methods of other kinds are not found. Later changes of a declared kind are sent with
    `list_changed`, once for all changes in one turn of the loop.
  - A client that ends its stream still gets the responses to its requests. Its subscriptions end.
  - A function may send requests to the client: to a legacy client directly, after `notifications/initialized`; to a
    modern one as `inputs.py` describes.
  - `max_handlers` functions run at a time (see `Session`). Lists, `ping`, the handshake and subscriptions are served
    even if that many run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..._checks import check_callable, check_count, check_type
from ...handlers.failures import on_failure
from ...profile import Profile
from ...session import SessionOptions
from ...session.options import check_options
from ...transports.options import TransportOptions
from ...transports.protocol import Transport
from ...transports.stdio.main import run_stdio
from ..applications import Application, HttpOptions, http_serving
from ..protocol.capabilities import Icon, Implementation, ServerCapabilities
from ..protocol.versions import REVISIONS, VERSIONS, in_order
from .connection import ServerConnection
from .decorators import Decorators
from .handshake import ServerHandshake
from .in_process import InProcess
from .lifespan import Lifespan, MakeLifespan
from .methods import Methods
from .middleware import Middleware
from .registry import ShownErrors
from .request_state import STATE_SECONDS, StateKey, StateSeal
from .task_store import TASK_METHODS, TaskStore
from .tasks import Task

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ServeOptions(TransportOptions, SessionOptions, total=False):
    """The options of `Server.serve_stdio`: those of `StdioServer`, `Session` and `run_stdio`."""

    grace_seconds: float | None


class Server(Decorators):
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
        strict: Whether the arguments of tools must have their types as they are: see `tool`.
        ignore_unknown: Whether unknown arguments of tools are dropped, not refused: see `tool`.
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
            more to sign with; several of these, of which the first one signs and all are accepted; or a cipher, such as
            `cryptography.fernet.Fernet`, which also hides it. All processes of a server need the same. By default a
            random key of this process.
        state_seconds: How long such a state is valid, that is, how long a user may take to answer.

    Attributes:
        tasks: The tasks. `serve_stdio` and the ASGI application close them at the end; other programs do it themselves.
        lifespan: The lifespan, an async context manager. `run` enters it; it begins once, for all connections.

    Raises:
        TypeError: `state_key` is none of these.
        ValueError: A version is unknown, there is none, `page_size` is less than 1, or `state_key` is too short.
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
        for member, text in {
            "title": title,
            "description": description,
            "instructions": instructions,
            "website_url": website_url,
        }.items():
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
        texts: dict[str, Any] = {"title": title, "description": description, "website_url": website_url}
        if icons is not None:
            texts["icons"] = list(icons)
        given = {member: text for member, text in texts.items() if text is not None}
        self._info = Implementation(name=name, version=version, **given)
        self._instructions = instructions
        self._versions = in_order(versions)
        self._cache_hints: dict[str, Any] = {"ttl_ms": ttl_ms, "cache_scope": cache_scope}
        self._declared = ServerCapabilities() if capabilities is None else capabilities
        self.lifespan: Lifespan = Lifespan(lifespan, self)
        self.tasks: TaskStore = TaskStore() if tasks is None else tasks
        self.tasks.on_change = self._task_changed
        seal = StateSeal(state_key, name, state_seconds)
        self._methods = Methods(
            self, page_size, lifespan=self.lifespan, tasks=self.tasks, seal=seal, middleware=tuple(middleware)
        )
        self.connections: set[ServerConnection] = set()
        self.changes: int = 0  # of what is registered

    @property
    def profile(self) -> Profile:
        """The profile for the transports of this server.

        It is the one of the latest revision, but allows batches if any revision has them. Each connection refuses
        batches that its own revision does not have.
        """
        profiles = [REVISIONS[version].profile for version in self._versions]
        return profiles[-1].replace(batches=any(profile.batches for profile in profiles))

    @property
    def versions(self) -> tuple[str, ...]:
        """The revisions that the server supports, the oldest first."""
        return self._versions

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of what is registered now, and those declared in the constructor."""
        registered = super().capabilities()
        names = [name for name in ServerCapabilities.__struct_fields__ if name != "order"]
        declared = {name: getattr(self._declared, name) for name in names}
        declared = {name: value for name, value in declared.items() if value is not msgspec.UNSET}
        if registered.extensions is not msgspec.UNSET:
            declared["extensions"] = {**registered.extensions, **declared.get("extensions", {})}
        return msgspec.structs.replace(registered, **declared)

    async def run(self, transport: Transport, **options: Unpack[SessionOptions]) -> None:
        """Serve one client until its connection closes. Cancelling this closes the connection.

        Args:
            transport: A transport that is not started, created with `profile=server.profile`.
            options: Options of `Session`, such as `hooks`, `max_handlers` and `timeout` (of requests to the client). By
                default the convention is `McpConvention` and the response policy "never".

        Raises:
            TypeError, ValueError: An option has a wrong type or value.
            Exception: Whatever the lifespan or the transport raises when it starts.
        """
        connection = self.connection(transport, options)
        self.connections.add(connection)
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with on_failure(transport.disconnect):
                    await stack.enter_async_context(self.lifespan)
                await connection.run()
        finally:
            self.connections.discard(connection)

    def connection(self, transport: Transport, options: SessionOptions) -> ServerConnection:
        """Return the connection of one client, which is not started. The arguments are as in `run`."""
        capabilities = self.capabilities()
        handshake = ServerHandshake(
            self._info,
            capabilities,
            versions=self._versions,
            instructions=self._instructions,
            methods={*self.methods, *(TASK_METHODS if self.has_tasks else ())},
            **self._cache_hints,
        )
        return ServerConnection(
            handshake, capabilities, self._methods, self.notifications, self.profile, transport, options
        )

    def serve_stdio(self, **options: Unpack[ServeOptions]) -> int:
        """Serve the client on stdin and stdout until it closes its stream or a signal arrives. Use it as a `main`.

        Args:
            options: Options of `StdioServer`; options of `Session`, as in `run`; `grace_seconds`: how long running
                functions may take after a signal, by default 5; None: no limit.

        Returns:
            The exit code, as `run_stdio` returns it.

        Raises:
            TypeError, ValueError: An option has a wrong type or value.
        """
        session_options: Any = {
            name: value for name, value in options.items() if name in SessionOptions.__optional_keys__
        }
        transport_options: Any = {name: value for name, value in options.items() if name not in session_options}
        check_options(**session_options)

        async def serve(transport: Transport) -> None:
            async with self.lifespan:
                try:
                    await self.run(transport, **session_options)
                finally:
                    await self.tasks.close()

        return run_stdio(serve, on_signal=self.end_subscriptions, **{"profile": self.profile, **transport_options})

    def asgi_app(self, *, session_options: SessionOptions | None = None, **options: Unpack[HttpOptions]) -> Application:
        """Return an ASGI application that serves this server over Streamable HTTP.

            app = server.asgi_app()  # uvicorn module:app
            FastAPI().mount("/mcp", server.asgi_app())

        Args:
            session_options: Options of `Session`, as in `run`.
            options: See `HttpOptions`.

        Raises:
            TypeError, ValueError: An option has a wrong type or value.
        """
        return http_serving().McpEndpoint(self, session_options, **options)

    def in_process(self) -> Transport:
        """Return a transport to this server for a client in the same process, as in tests. Use it once.

        async with mcp.connect(server) as client:  # which calls it
            result = await client.call_tool("add", {"a": 1, "b": 2})
        """
        return InProcess(self.run, self.lifespan, self.profile)

    def serve_http(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        grace_seconds: float = 5.0,
        session_options: SessionOptions | None = None,
        uvicorn_options: Mapping[str, Any] | None = None,
        **options: Unpack[HttpOptions],
    ) -> int:
        """Serve clients over Streamable HTTP with uvicorn until a signal arrives. Use it as a `main`.

        Args:
            host: The address to listen on.
            port: The port; 0: any free one.
            grace_seconds: How long functions that run may take after a signal.
            session_options: Options of `Session`, as in `run`.
            uvicorn_options: Further options of `uvicorn.Config`, such as `ssl_certfile` and `ssl_keyfile`.
            options: See `HttpOptions`.

        Returns:
            The exit code: 0, 3 if the server cannot start, 130 after SIGINT. SIGTERM ends the process as it does by
            default, after everything else has ended.

        Raises:
            TypeError, ValueError: An option has a wrong type or value.
            ImportError: uvicorn is not installed.
        """
        app = self.asgi_app(session_options=session_options, **options)
        return http_serving().run_http(app, host, port, grace_seconds=grace_seconds, uvicorn_options=uvicorn_options)

    def list_changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        """Notify clients that a list has changed. Registering and unregistering do this themselves.

        A legacy client is notified after `notifications/initialized`, a modern one if it subscribed.

        Args:
            kind: The list that has changed.
        """
        for connection in self.connections:
            connection.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource that it has changed.

        Args:
            uri: The URI of the resource.
        """
        for connection in self.connections:
            connection.resource_updated(uri)

    def end_subscriptions(self) -> None:
        """End all subscriptions of modern clients with their responses, before the server ends."""
        for connection in self.connections:
            connection.end_streams()

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
        if task.is_modern:
            for connection in self.connections:
                connection.task_changed(task)

    def _changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        self.changes += 1
        self.list_changed(kind)
