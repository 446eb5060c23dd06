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

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ...profile import Profile
from ...session import SessionOptions
from ...session.options import check_options
from ...transports.options import TransportOptions
from ...transports.protocol import Transport
from ...transports.stdio.main import run_stdio
from ..protocol.capabilities import Implementation, ServerCapabilities
from ..protocol.versions import REVISIONS, VERSIONS, in_order
from .connection import ServerConnection
from .handshake import ServerHandshake
from .methods import Methods
from .registry import Registry

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ServeOptions(TransportOptions, SessionOptions, total=False):
    """The options of `Server.serve_stdio`: those of `StdioServer`, `Session` and `run_stdio`."""

    grace_seconds: float | None


class Server(Registry):
    """An MCP server for any number of clients.

    Register functions with the decorators `tool`, `prompt`, `resource`, `method` and `notification`.

    Args:
        name: The name of the server, for programs. It is also the host in the URIs of resources registered without one.
        version: The version of the server.
        title: The name for people.
        description: What the server does, for people (2025-11-25 and later).
        instructions: How to use the server, for the client's model.
        versions: The revisions to support, in any order.
        page_size: Number of items on one page of a list.
        ttl_ms: How long clients may cache lists and resources, in milliseconds (2026-07-28).
        cache_scope: "public" if all clients get the same lists and resources, so shared caches may keep them; else
            "private".
        capabilities: Capabilities to declare in addition to the registered ones, or in place of them: extensions,
            tasks, experimental. Register their methods with `method`; functions return their results as `WholeResult`.

    Raises:
        ValueError: A version is unknown, there is none, or `page_size` is less than 1.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        versions: Sequence[str] = VERSIONS,
        page_size: int = 100,
        ttl_ms: int = 0,
        cache_scope: Literal["private", "public"] = "private",
        capabilities: ServerCapabilities | None = None,
    ) -> None:
        super().__init__(provider=name)
        texts: dict[str, Any] = {"title": title, "description": description}
        given = {member: text for member, text in texts.items() if text is not None}
        self._info = Implementation(name=name, version=version, **given)
        self._instructions = instructions
        self._versions = in_order(versions)
        self._cache_hints: dict[str, Any] = {"ttl_ms": ttl_ms, "cache_scope": cache_scope}
        self._declared = ServerCapabilities() if capabilities is None else capabilities
        self._methods = Methods(self, page_size)
        self._connections: set[ServerConnection] = set()

    @property
    def profile(self) -> Profile:
        """The profile for the transports of this server.

        It is the one of the latest revision, but allows batches if any revision has them. Each connection refuses
        batches that its own revision does not have.
        """
        profiles = [REVISIONS[version].profile for version in self._versions]
        return profiles[-1].replace(batches=any(profile.batches for profile in profiles))

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of what is registered now, and those declared in the constructor."""
        names = [name for name in ServerCapabilities.__struct_fields__ if name != "order"]
        declared = {name: getattr(self._declared, name) for name in names}
        return msgspec.structs.replace(
            super().capabilities(), **{name: value for name, value in declared.items() if value is not msgspec.UNSET}
        )

    async def run(self, transport: Transport, **options: Unpack[SessionOptions]) -> None:
        """Serve one client until its connection closes. Cancelling this closes the connection.

        Args:
            transport: A transport that is not started, created with `profile=server.profile`.
            options: Options of `Session`, such as `hooks`, `max_handlers` and `timeout` (of requests to the client). By
                default the convention is `McpConvention` and the reply policy "never".

        Raises:
            TypeError, ValueError: An option has a wrong type or value.
            Exception: Whatever the transport raises when it starts.
        """
        capabilities = self.capabilities()
        handshake = ServerHandshake(
            self._info,
            capabilities,
            versions=self._versions,
            instructions=self._instructions,
            methods=self.methods,
            **self._cache_hints,
        )
        connection = ServerConnection(
            handshake, capabilities, self._methods, self.notifications, self.profile, transport, options
        )
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

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
            await self.run(transport, **session_options)

        return run_stdio(serve, on_signal=self.end_subscriptions, **{"profile": self.profile, **transport_options})

    def list_changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        """Notify clients that a list has changed. Registering and unregistering do this themselves.

        A legacy client is notified after `notifications/initialized`, a modern one if it subscribed.

        Args:
            kind: The list that has changed.
        """
        for connection in self._connections:
            connection.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource that it has changed.

        Args:
            uri: The URI of the resource.
        """
        for connection in self._connections:
            connection.resource_updated(uri)

    def end_subscriptions(self) -> None:
        """End all subscriptions of modern clients with their responses, before the server ends."""
        for connection in self._connections:
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
        for connection in self._connections:
            connection.log(level, data, logger, None)

    def _changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        self.list_changed(kind)
