"""What a server and a gateway share: a connection for each client, and the ways to serve.

The lifespan begins before a connection starts, and ends after it. In one process (`in_process`), the server runs while
the client's transport is connected.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Unpack

from ...codec import Request as Message
from ...profile import Profile
from ...session import Rules, SessionOptions
from ...support import on_failure
from ...transports import Events, MemoryChannel, MemoryTransport, Transport, TransportOptions
from ...types import UNSET, Unset
from ..protocol.capabilities import ServerCapabilities
from ..protocol.versions import DEFAULT_VERSIONS
from .lifespan import Lifespan
from .session import FrontSession, Request
from .subscriptions import Announcer
from .task_store import TaskStore


class ServeOptions(TransportOptions, SessionOptions, total=False):
    """The options of `Server.serve_stdio`: those of `StdioServer`, `Session` and `run_stdio`."""

    grace_seconds: float | None


class _ServedChannel(MemoryChannel):
    """The client's end of a channel. The server runs while the channel is open."""

    serve: Callable[[asyncio.Future[None]], Awaitable[None]]
    serving: asyncio.Future[None] | None = None

    async def open(self, events: Events) -> None:
        """Begin the lifespan of the server, and let it serve the other end."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A separate task, because the server runs as long as the channel, not only while it opens.
        self.serving = asyncio.ensure_future(self.serve(ready))
        await ready
        await super().open(events)


class InProcess(MemoryTransport):
    """The client's end of a channel to a server. The server runs while the transport is connected."""

    channel: _ServedChannel

    def __init__(self, server: Served) -> None:
        channel, served = _ServedChannel.pair()
        super().__init__(channel, profile=server.profile)
        self.channel.serve = self._serve
        # Tokens are not checked here, but a server that passes calls on needs the scopes.
        self.tool_scopes: Callable[[str], frozenset[str]] = server.tool_scopes
        self._served = MemoryTransport(served, profile=server.profile, raw=server.keeps_raw)
        self._server = server

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        try:
            # Entered here, although `_run` does so, too: if the lifespan cannot begin, `connect` must fail, not a task.
            async with self._server.lifespan:
                connection = self._server.connection(self._served, {})
                if not ready.done():
                    ready.set_result(None)
                await self._server._run(connection, self._served)
        except Exception as error:
            # The client must not wait for a server that is gone.
            await self._served.disconnect()
            if ready.done():
                raise
            ready.set_exception(error)

    async def wait_closed(self) -> None:
        """Wait until the transport and the server's end of it are closed."""
        await super().wait_closed()
        if self.channel.serving is not None:
            # The server's functions may still be running, and must not affect a test after its block.
            await asyncio.wait([self.channel.serving])


class Served:
    """Serves clients, each with its own connection, or by the request over HTTP from 2026-07-28 on.

    Attributes:
        profile: The profile for the transports.
        versions: The revisions that it supports, the oldest first.
        lifespan: Begins with the first client, or before it, and ends with the last one.
        tasks: The tasks.
        connections: The connections in use, and the HTTP requests with a subscription. The code that serves them keeps
            this up to date.
        may_need_scopes: Whether `tool_scopes` may return any.
        keeps_raw: Whether payloads are taken as `Raw`.
        announcer: Notifies the clients of changes.
    """

    profile: Profile
    versions: Sequence[str] = DEFAULT_VERSIONS
    lifespan: Lifespan
    tasks: TaskStore
    connections: set[Any]
    may_need_scopes: bool = True
    keeps_raw: ClassVar[bool] = False
    announcer: Announcer

    def tool_scopes(self, name: str) -> frozenset[str]:
        """Return the scopes that a call of a tool needs over HTTP; none for a tool that is unknown."""
        return frozenset()

    def tool_schema(self, name: str) -> Any:
        """Return the input schema of a tool, which may require headers over HTTP; None for a tool that is unknown."""

    def connection(self, transport: Any, options: SessionOptions) -> FrontSession:
        """Return the connection of one client, which is not started. The arguments are those of `run`."""
        raise NotImplementedError

    def call_plain(self, message: Message, subject: object) -> Any:
        """Call a tool that takes no context, for a request without a session: see `FrontSession.call_plain`."""

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of the features that there are now."""
        raise NotImplementedError

    def serve(self, params: Any, request: Request) -> Any:
        """Serve a request of 2026-07-28 that has no session. Return the result or an awaitable of it.

        Raises:
            RpcError: The request is refused with this error.
        """
        raise NotImplementedError

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
        await self._run(self.connection(transport, options), transport)

    async def _run(self, connection: FrontSession, transport: Transport) -> None:
        self.connections.add(connection)
        try:
            async with contextlib.AsyncExitStack() as stack:
                # A transport whose session does not start has to be closed here.
                async with on_failure(transport.disconnect):
                    await stack.enter_async_context(self.lifespan)
                await connection.run()
        finally:
            self.connections.discard(connection)

    def serve_stdio(self, **options: Unpack[ServeOptions]) -> int:
        """Serve the client on stdin and stdout until it closes its stream or a signal arrives. Use it as a `main`.

        Args:
            options: Options of `StdioServer`; options of `Session`, as in `run`; `grace_seconds`: how long running
                functions may take after a signal, by default 1.5; None: no limit. `end_seconds`: how long they may take
                after the client has closed stdin, or is gone; a second later the process ends, even if a sync function
                runs. By default there is no limit, because the client may wait for the responses.

        Returns:
            The exit code, as `run_stdio` returns it.

        Raises:
            TypeError, ValueError: An option has a wrong type or value.
        """
        # `run_stdio` takes the other options, and raises TypeError for an unknown one.
        session_options: Any = {
            name: value for name, value in options.items() if name in SessionOptions.__optional_keys__
        }
        transport_options: Any = {name: value for name, value in options.items() if name not in session_options}
        # Checked here, before the process takes over its stdin and stdout.
        Rules(**session_options)

        async def serve(transport: Transport) -> None:
            async with self.lifespan:
                try:
                    await self.run(transport, **session_options)
                finally:
                    # Inside the lifespan: the functions of tasks may use its resources.
                    await self.tasks.close()

        defaults: Any = {"profile": self.profile, "raw": self.keeps_raw}
        from ...transports import run_stdio  # a server over HTTP does without

        found = session_options.get("end_seconds", UNSET)  # 0: at once
        end_seconds = None if isinstance(found, Unset) else found
        return run_stdio(
            serve, on_signal=self.on_signal, **{**defaults, "end_seconds": end_seconds, **transport_options}
        )

    def in_process(self) -> Transport:
        """Return a transport to this server for a client in the same process, as in tests. Use it once.

        async with mcp.connect(server) as client:  # which calls it
            result = await client.call_tool("add", {"a": 1, "b": 2})
        """
        return InProcess(self)

    def on_signal(self) -> None:
        """Begin to shut down, at the first signal of `serve_stdio`: end all subscriptions with their responses."""
        for connection in self.connections:
            connection.end_streams()
