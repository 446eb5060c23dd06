"""MCP servers that are programs on stdio, served over Streamable HTTP: a process for each session.

Rules:
  - Each session up to 2025-11-25 has its own process, which ends with the session. When the process ends, so does the
    session: the next request gets 404.
  - A request of 2026-07-28 has a process to itself while it is in flight. Afterwards the process serves another
    request, but only if it has responded to all requests so far.
  - Late messages of a process never reach the next request without a session. That request gets its response, and
    progress if no request before it had the same token. A request that asks for log messages, or for a subscription,
    gets a new process, which serves no other request. Everything else is dropped.
  - A session of 2025-03-26 may send batches. Which revision a session has is known from the response to `initialize`.
  - A session is idle while none of its requests is in flight and its client reads no stream. It ends after
    `idle_seconds`, and after GONE_SECONDS if its client had a stream and does not return.
  - With `max_processes` processes running, a new session or request ends the process that has been idle longest, if
    that is MIN_IDLE_SECONDS or more. Without one it gets 503.
  - Progress goes to the request whose token it carries. The other messages of a process that belong to a request do not
    say to which one: they go to the request in flight that began last, and without one to the stream of the session.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final, Literal

from ..._checks import check_count, check_seconds
from ..._logs import logger_of
from ...codec import Notification, Request, encode_error
from ...handlers.failures import on_failure
from ...http.requests import RETRY_SOON, Refusal
from ...profile import MCP_2025_11_25, Profile
from ...session import SessionOptions
from ...session.requests import Destination
from ...transports.stdio.client import StdioClient
from ...types import UNSET, MessageId, Unset
from ..protocol.meta import LISTEN_METHOD, LOG_LEVEL_KEY, object_members
from ..protocol.versions import HANDSHAKE_VERSIONS, LATEST_HANDSHAKE_VERSION, REVISIONS, Revision
from ..relay import RELAY_ERROR, FaultLog, Relay, SideName
from ..server.lifespan import Lifespan
from ..server.serving import ConnectionFactory
from ..server.session import ClientConnection
from ..server.task_store import TaskStore
from .endpoint import McpEndpoint
from .serving import run_http
from .sessions import MIN_IDLE_SECONDS
from .transport import HttpTransport

MAX_PROCESSES: Final = 64
"""Maximum number of processes, by default."""

IDLE_SECONDS: Final = 1800.0
"""How long a session may be idle, by default."""
GONE_SECONDS: Final = 300.0
"""How long a client whose stream broke may take to return: the SDKs try for seconds."""

_MAX_TOKENS: Final = 1000
"""The maximum number of requests with progress that a process serves without a session."""
_PROFILE: Final = MCP_2025_11_25.replace(name="mcp", batches=True)  # one revision has batches
_CLOSED: Final = "the session is closed"
_RELATED: Final = frozenset({"notifications/message", "notifications/progress"})

_logger: Final = logger_of("relay")


class ProgramServer(ConnectionFactory):
    """A server for `McpEndpoint` whose connections are processes of one program.

    Args:
        command: The program and its arguments.
        env: As in `StdioClient`; so are `cwd` and `stderr`.
        max_processes: Maximum number of processes.
        idle_seconds: How long a session may be idle; None: no limit. Give it to the `McpEndpoint`, too.
        profile: The rules for decoding.

    Attributes:
        gone_seconds: How long a client whose stream broke may take to return.
        lifespan: At its end all processes end.
        tasks: Stays empty: the program has its own.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    keeps_raw = True

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: Literal["inherit", "discard"] | Callable[[str], None] = "inherit",
        max_processes: int = MAX_PROCESSES,
        idle_seconds: float | None = IDLE_SECONDS,
        profile: Profile = _PROFILE,
    ) -> None:
        check_count("max_processes", max_processes, 1, may_be_none=False)
        check_seconds("idle_seconds", idle_seconds)
        self.gone_seconds: float = GONE_SECONDS if idle_seconds is None else min(GONE_SECONDS, idle_seconds)
        self.profile: Profile = profile
        self.connections: set[Any] = set()
        self.lifespan: Lifespan = Lifespan(aclosing, self)
        self.tasks: TaskStore = TaskStore()
        self._max_processes = max_processes
        self._make: Callable[[], StdioClient] = partial(
            StdioClient, command, env=env, cwd=cwd, stderr=stderr, profile=profile, raw=True
        )
        self._make()  # checks the options
        self._running: dict[ProgramConnection, StdioClient] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def connection(self, transport: HttpTransport, options: SessionOptions) -> ProgramConnection:
        """Return the connection of a session, or of requests without one. The options of sessions do not apply."""
        return ProgramConnection(self, transport)

    async def begin(self, connection: ProgramConnection) -> StdioClient:
        """Return a new process for a connection, not started.

        Raises:
            Refusal: There are too many processes.
        """
        while len(self._running) >= self._max_processes:
            # Checked in each turn: while one process ends, another connection may take its place.
            now = asyncio.get_running_loop().time()
            idle = [other for other in self._running if other.is_spare or other.idle_seconds(now) >= MIN_IDLE_SECONDS]
            if not idle:
                raise Refusal(503, "There are too many processes.", [RETRY_SOON])
            longest = max(idle, key=lambda other: (other.is_spare, other.idle_seconds(now)))
            # Spare processes first: no client would miss them.
            await longest.close()
            self.end(longest)
        process = self._running[connection] = self._make()
        return process

    def run_aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that ends a connection, or waits for its end."""
        task = asyncio.get_running_loop().create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def end(self, connection: ProgramConnection) -> None:
        """Forget the process of a connection once it has ended."""
        self._running.pop(connection, None)

    async def aclose(self) -> None:
        """End all processes."""
        await asyncio.gather(*[connection.close() for connection in self._running])


class ProgramConnection(ClientConnection):
    """A process that serves one session, or requests without a session, one after another.

    Args:
        server: The server that has the processes.
        transport: The transport of the session or of the request.
    """

    def __init__(self, server: ProgramServer, transport: HttpTransport) -> None:
        self._server = server
        self._transport = transport
        self._relay: _ProgramRelay | None = None
        self._gone: asyncio.TimerHandle | None = None
        transport.onlisten = self._on_listen

    async def start(self) -> None:
        """Start the process and the relay.

        Raises:
            Refusal: There are too many processes, or the program cannot be started.
        """
        process = await self._server.begin(self)
        self._relay = _ProgramRelay(self._transport, process)
        with on_failure(partial(self._server.end, self)):
            try:
                await self._relay.start()
            except OSError as error:
                # The reason goes only to the log, because it may show a path. The client can do nothing about it.
                _logger.error("the program cannot be started: %s", error.strerror or type(error).__name__)
                raise Refusal(502, "The program cannot be started.") from None
        # A process may end on its own, and then its place is free.
        self._server.run_aside(self._wait_closed(self._relay))

    async def _wait_closed(self, relay: Relay) -> None:
        await relay.wait_closed()
        self._server.end(self)

    @property
    def revision(self) -> Revision | None:
        """The revision that the session agreed on; until then the latest one with sessions."""
        return None if self._relay is None else self._relay.revision

    def can_serve(self, request: Request | None = None) -> bool:
        """Return whether the process has responded to all requests, and can serve another one.

        No late message of the process may be taken for the response to that.
        """
        return (
            self._transport.is_connected
            and self._transport.is_idle
            and self._relay is not None
            and self._relay.can_serve(request)
        )

    @property
    def is_spare(self) -> bool:
        """Whether the process waits for a request."""
        return self._transport.is_shared and self not in self._server.connections

    def idle_seconds(self, now: float) -> float:
        """Return how long the session has been idle, by the loop's clock."""
        if self._relay is None or not self._transport.is_idle or self._transport.listener.request is not None:
            return 0.0
        return now - self._relay.used

    def _on_listen(self) -> None:
        """Give a client whose stream has ended some time to return."""
        if self._gone is not None:
            self._gone.cancel()
            self._gone = None
        if self._transport.listener.request is None and self._transport.is_connected and self._relay is not None:
            loop = asyncio.get_running_loop()
            self._relay.used = loop.time()
            self._gone = loop.call_later(self._server.gone_seconds, self._end_if_gone)

    def _end_if_gone(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._server.gone_seconds - self.idle_seconds(loop.time())
        if left > 0:
            self._gone = loop.call_later(left, self._end_if_gone)
        else:
            self._server.run_aside(self.close())

    async def close(self, grace_seconds: float | Unset | None = UNSET) -> None:
        """End the relay and the process, and before that the requests in flight, for the client and for the process.

        Args:
            grace_seconds: Seconds for the process to respond to them; None: no limit. By default it has none.
        """
        if self._gone is not None:
            self._gone.cancel()
        with suppress(asyncio.TimeoutError):
            seconds = 0.0 if isinstance(grace_seconds, Unset) else grace_seconds
            await asyncio.wait_for(self._transport.wait_for_responses(), seconds)
        # Without their cancellation, the program would wait for its functions until it is terminated.
        for id, stream in self._transport.streams.copy().items():
            stream.respond(id, encode_error(id, RELAY_ERROR, _CLOSED, delimited=False))
            self._transport.deliver(Notification("notifications/cancelled", {"requestId": id}), None)
        if self._relay is not None:
            await self._relay.close()


class _ProgramRelay(Relay):
    """A relay between the transport of a session, or of a request, and a process; see `Relay`.

    Attributes:
        is_exclusive: The process serves only one request, which gets every message.
        revision: The revision of the session.
        used: When a message was passed on last, in seconds by the loop's clock.
    """

    def __init__(self, transport: HttpTransport, process: StdioClient) -> None:
        super().__init__(transport, process, on_fault=FaultLog())
        self.used: float = asyncio.get_running_loop().time()
        self.is_exclusive: bool = False
        self.revision: Revision = REVISIONS[LATEST_HANDSHAKE_VERSION]
        self._transport = transport
        self._tokens: dict[tuple[type, Any], MessageId] = {}

    def destination_of(
        self, side: SideName, method: str, params: Any, id: MessageId | Unset
    ) -> Destination | Unset | None:
        self.used = asyncio.get_running_loop().time()
        if side == "left":
            if not isinstance(id, Unset):
                self._note_request(method, params, id)
            return None
        # A program on stdio does not say to which request a message belongs, except by a progress token.
        streams = self._transport.streams
        is_progress = method == "notifications/progress"
        if is_progress:
            stream = streams.get(self._tokens.get(_key_of(object_members(params).get("progressToken"))))
        else:
            stream = next(reversed(streams.values()), None)
        if self._transport.is_shared:
            # A message to the wrong client would be a leak, so messages whose request is uncertain are dropped.
            belongs = isinstance(id, Unset) and (is_progress or self.is_exclusive)
            return stream if belongs and stream is not None else UNSET
        return stream if not isinstance(id, Unset) or method in _RELATED else None

    def on_response(self, side: SideName, method: str, result: Any) -> None:
        self.used = asyncio.get_running_loop().time()
        if side == "right" and method == "initialize":
            version = object_members(result).get("protocolVersion")
            if isinstance(version, str) and version in HANDSHAKE_VERSIONS:
                self.revision = REVISIONS[version]

    def _note_request(self, method: str, params: Any, id: MessageId) -> None:
        token = _token_of(params)
        if self._transport.is_shared:
            self.is_exclusive = _is_exclusive(method, params)
            # Late progress for one of them must not be taken for progress on this request.
            self._tokens = dict.fromkeys(self._tokens)
        if token is not None:
            in_flight = self._transport.streams
            if not self._transport.is_shared and len(self._tokens) > 2 * len(in_flight) + 16:
                # Cleaned up rarely, so that the cost for each request is constant.
                self._tokens = {key: id for key, id in self._tokens.items() if id in in_flight}
            self._tokens[_key_of(token)] = id

    def can_serve(self, request: Request | None) -> bool:
        """Return whether no message for an earlier request can be taken for one to this request (None: to any)."""
        if self.is_exclusive or len(self._tokens) >= _MAX_TOKENS or not self.has_all_responses:
            return False
        if request is None:
            return True
        return (
            not _is_exclusive(request.method, request.params) and _key_of(_token_of(request.params)) not in self._tokens
        )


def _key_of(token: Any) -> tuple[type, Any]:
    return type(token), token if isinstance(token, (int, str)) else None


def _token_of(params: Any) -> Any:
    token = object_members(object_members(params).get("_meta")).get("progressToken")
    return token if isinstance(token, (int, str)) else None


def _is_exclusive(method: str, params: Any) -> bool:
    """Return whether a request may get messages that do not say to which request they belong."""
    meta = object_members(object_members(params).get("_meta"))
    return method == LISTEN_METHOD or LOG_LEVEL_KEY in meta


def serve_program(
    command: Sequence[str],
    host: str,
    port: int,
    *,
    max_processes: int = MAX_PROCESSES,
    idle_seconds: float = IDLE_SECONDS,
) -> int:
    """Serve a program over HTTP until a signal ends this process. Return the exit status.

    Raises:
        ImportError: uvicorn is not installed.
    """
    server = ProgramServer(command, max_processes=max_processes, idle_seconds=idle_seconds)
    return run_http(McpEndpoint(server, idle_seconds=idle_seconds), host, port)
