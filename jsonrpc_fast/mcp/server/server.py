"""A server: what it offers, and its connections.

    server = Server("weather", "1.0")

    @server.tool()
    async def forecast(city: str, days: int = 1) -> str:
        "The weather of the next days."
        ...

    server.serve_stdio()

Rules:
  - what a connection offers is settled when it begins: a kind (tools, prompts, resources) of which nothing is
    registered by then is not declared, and its methods are not found. What is registered later, of a kind that was
    declared, is told by `list_changed`, once for all that changes in one turn of the loop;
  - every request goes through the handshake first, in the order of arrival, and so do notifications;
  - every request is checked when it comes, whatever the transport lets through, and every result before it leaves. A
    result that is none becomes error -32603, and the log says why;
  - a batch is taken from a client of 2025-03-26 alone, after `initialize`. Any other is a fault, like a line that is
    no message: it is reported, and gets no answer;
  - a client that ends its stream gets the answers to what it asked before that, and its subscriptions are ended;
  - a function may ask its client back: a legacy one by a request of its own, from `notifications/initialized` on, a
    modern one as `inputs.py` says;
  - lists, `ping`, the handshake and subscriptions are served however many functions run. Functions run `max_handlers`
    at a time (see `Session`);
  - a client that reads nothing is told of changes when it reads again, once; log messages are dropped meanwhile.
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
    """What `Server.serve_stdio` may be given: options of `StdioServer`, of `Session` and of `run_stdio`."""

    grace_seconds: float | None


class Server(Registry):
    """An MCP server. What it offers is registered as `Registry` says.

    Args:
        name: Who it is.
        version: Which version of it.
        title: The name for people.
        description: What it does, for people.
        instructions: How to use it, for the client's model.
        versions: The revisions that it serves.
        page_size: Items on a page of a list.
        ttl_ms: How long clients may keep lists and resources, in milliseconds (2026-07-28).
        cache_scope: Who may keep them: "private" to the client, or "public".
        capabilities: What to declare beside what is registered, or instead of it: extensions, tasks, experimental
            capabilities. Their methods are registered by `method`, their results made by `WholeResult`.
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
        said = {"title": title, "description": description}
        told: dict[str, Any] = {member: text for member, text in said.items() if text is not None}
        self._info = Implementation(name=name, version=version, **told)
        self._instructions = instructions
        self._versions = in_order(versions)
        self._cache_hints: dict[str, Any] = {"ttl_ms": ttl_ms, "cache_scope": cache_scope}
        self._declared = ServerCapabilities() if capabilities is None else capabilities
        self._answers = Methods(self, page_size)
        self._connections: set[ServerConnection] = set()

    @property
    def profile(self) -> Profile:
        """The rules that a transport of this server has to read by: those of its latest revision, with batches if any
        revision has them. Which client may send one is judged later.
        """
        profiles = [REVISIONS[version].profile for version in self._versions]
        return profiles[-1].replace(batches=any(profile.batches for profile in profiles))

    def capabilities(self) -> ServerCapabilities:
        """What there is to be offered now, and what is declared beside it."""
        names = [name for name in ServerCapabilities.__struct_fields__ if name != "order"]
        declared = {name: getattr(self._declared, name) for name in names}
        return msgspec.structs.replace(
            super().capabilities(), **{name: value for name, value in declared.items() if value is not msgspec.UNSET}
        )

    async def run(self, transport: Transport, **options: Unpack[SessionOptions]) -> None:
        """Serves one client until its connection is gone.

        Cancelled, it closes the connection. One server may serve any number of connections at a time.

        Args:
            transport: Not started, made with `profile=server.profile`.
            options: Those of `Session`: `hooks`, `timeout` (of what functions ask the client), `max_handlers`, … The
                convention is MCP's and the reply policy "never", unless they are given.

        Raises:
            TypeError, ValueError: An option has a wrong value.
            Exception: What the transport raises when it starts.
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
            handshake, capabilities, self._answers, self.notifications, self.profile, transport, options
        )
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def serve_stdio(self, **options: Unpack[ServeOptions]) -> int:
        """Serves the client on this process's stdin and stdout, until it or a signal ends that: a program's `main`.

        Args:
            options: Those of `StdioServer`, those of `Session` as `run` takes them, and `grace_seconds`: how long
                functions at work may take after a signal, in seconds; None: as long as it takes. The default is 5.

        Returns:
            The exit code: see `transports/stdio.py`.

        Raises:
            TypeError, ValueError: An option has a wrong value.
        """
        of_session: Any = {name: value for name, value in options.items() if name in SessionOptions.__optional_keys__}
        of_transport: Any = {name: value for name, value in options.items() if name not in of_session}
        check_options(**of_session)

        async def serve(transport: Transport) -> None:
            await self.run(transport, **of_session)

        return run_stdio(serve, on_signal=self.end_subscriptions, **{"profile": self.profile, **of_transport})

    def list_changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        """Tells all clients that may know that a list has changed. Registering does so by itself."""
        for connection in self._connections:
            connection.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        """Tells the clients that subscribed to a resource that it has changed."""
        for connection in self._connections:
            connection.resource_updated(uri)

    def end_subscriptions(self) -> None:
        """Ends what modern clients subscribed to, each with its answer: for a server that is about to end."""
        for connection in self._connections:
            connection.end_streams()

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Sends a log message to the legacy clients that want this level. Modern ones get such of a request alone.

        level   one of `LOG_LEVELS`
        data    any JSON value
        logger  who says it
        """
        for connection in self._connections:
            connection.log(level, data, logger, None)

    def _changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        self.list_changed(kind)
