"""A gateway: one MCP server for the clients, made of many.

    gateway = Gateway({"db": "https://db.example/mcp", "fs": ["npx", "server-filesystem", "/data"]})
    gateway.serve_stdio()

Rules:
  - Each client has servers of its own, because a server keeps state of its client and sends requests to it, and the
    messages do not say which client is meant. Servers are started when the client first needs them. `modern` says which
    requests of 2026-07-28 are of one client.
  - Params, results and errors are passed on as the bytes that arrived; only the name of a tool or a prompt, and a
    progress token, are replaced. Lists are decoded.
  - Clients and servers speak any revision, with a handshake or without; either side may be the newer one.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar, Final

from ..._checks import check_count, check_seconds, check_type
from ..._version import __version__
from ...profile import MCP_2025_11_25, Profile
from ...session import SessionOptions
from ...transports.protocol import Transport
from ...transports.stdio.child import signal_children
from ..client.entries import ServerEntry, Servers, entry_of, read_servers
from ..protocol.capabilities import Implementation, ListChanged, Resources, ServerCapabilities
from ..protocol.naming import Prefixes
from ..protocol.records import EmptyObject
from ..server.handshake import ServerHandshake
from ..server.lifespan import Lifespan
from ..server.request_state import STATE_SECONDS, StateKey, StateSeal
from ..server.serving import Served
from ..server.task_store import TaskStore
from .catalog import Catalog
from .connection import GatewayConnection
from .modern import ModernClients, Rounds
from .upstream import Places

MAX_SERVERS: Final = 64
"""Maximum number of servers that run, by default."""
MAX_CALLS: Final = 256
"""Maximum number of requests in flight to one server for one client, by default."""
IDLE_SECONDS: Final = 1800.0
"""How long a server may be idle, by default."""
LIST_SECONDS: Final = 10.0
"""How long a list waits for a server, by default."""
TIMEOUT_SECONDS: Final = 3600.0
"""How long a server, or a client that is asked, may take to respond, by default: for a peer that does not cancel."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]")
_CAPABILITIES: Final = ServerCapabilities(
    tools=ListChanged(list_changed=True),
    prompts=ListChanged(list_changed=True),
    resources=Resources(subscribe=True, list_changed=True),
    logging=EmptyObject(),
    completions=EmptyObject(),
)


class Gateway(Served):
    """One MCP server, made of many.

    A tool or a prompt has the name of its server and the separator in front: `db_query`.

    Args:
        servers: The servers by name: a URL, a program, a program with its arguments, or an entry as in the `mcpServers`
            file of hosts; or the path of such a file, whose variables are replaced: see `mcp.client.entries`. What may
            not be in the name of a tool becomes "_".
        separator: What stands between the name of a server and that of a tool.
        name: The name of the gateway.
        version: Its version.
        instructions: How to use the servers, for the client's model.
        max_servers: Maximum number of servers that run, of all clients. For another one, the one that has been idle
            longest is ended, if that is 10 seconds or more; otherwise the request gets the error -32000.
        max_calls: Maximum number of requests in flight to one server for one client; the next one gets the error
            -32000.
        idle_seconds: How long a server may be idle until it is ended; None: no limit.
        list_seconds: How long a list waits for a server. One that is slower, as it may be at its first start, is left
            out; the client is told that the list has changed when it has responded.
        state_key: As in `Server`: signs or encrypts the `requestState` of clients of 2026-07-28.
        timeout: Seconds until a request is given up that neither side cancels; None: never.
        max_message_bytes: Maximum size of a message of either side; by default that of the profile.

    Attributes:
        profile: The rules for the messages of both sides.

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
        max_servers: int = MAX_SERVERS,
        max_calls: int = MAX_CALLS,
        idle_seconds: float | None = IDLE_SECONDS,
        list_seconds: float = LIST_SECONDS,
        timeout: float | None = TIMEOUT_SECONDS,
        state_key: StateKey | None = None,
        max_message_bytes: int | None = None,
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
        if not separator or _UNSAFE.search(separator):
            raise ValueError("separator must be of letters, digits, _, - and .")
        found = read_servers(servers) if not isinstance(servers, Mapping) or "mcpServers" in servers else servers
        entries = {server: entry_of(server, entry) for server, entry in found.items()}
        if not entries:
            raise ValueError("a gateway must have a server")
        self._entries: dict[str, ServerEntry] = {}
        self._prefixes = Prefixes(separator)
        self._info = Implementation(name=name, version=version)
        for server, entry in entries.items():
            safe = _UNSAFE.sub("_", server)
            if not safe:
                raise ValueError("a server must have a name")
            self._prefixes.add(safe)
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
        self._places = Places(self.profile, max_servers, max_calls, idle_seconds, list_seconds, timeout)
        self.connections: set[Any] = set()
        self._make = partial(Catalog, self._entries, self._prefixes, self._places)
        seal = StateSeal(state_key, name, STATE_SECONDS)
        self._rounds = Rounds(seal, max(1, max_servers // 2))
        self._http_clients = self._modern_clients()
        self.lifespan: Lifespan = Lifespan(_clients_of, self._http_clients)
        self.tasks: TaskStore = TaskStore()

    def tool_scopes(self, name: str) -> frozenset[str]:
        """Return the scopes of a tool of a server in this process. Others have none that are known here."""
        server, inner = self._prefixes.split(name) or ("", "")
        entry = self._entries.get(server)
        return frozenset() if entry is None or entry.local is None else entry.local.tool_scopes(inner)

    def tool_schema(self, name: str) -> Any:
        """Return the input schema of a tool that asks for headers over HTTP, if it was listed."""
        return self._places.schemas.get(name)

    @property
    def running(self) -> list[str]:
        """The names of the servers that run, of all clients."""
        return sorted(upstream.name for upstream in self._places.running)

    def connection(self, transport: Transport, options: SessionOptions) -> Any:
        """Return the connection of one client, which is not started. The arguments are as in `run`."""
        handshake = ServerHandshake(self._info, _CAPABILITIES, versions=self.versions, instructions=self._instructions)
        own = self._modern_clients()
        return GatewayConnection(
            handshake, _CAPABILITIES, self._make, self._places, self._http_clients, own, transport, options
        )

    def on_signal(self) -> None:
        # A client gives the gateway 2 seconds to end: too few for the servers to end in their own time.
        super().on_signal()
        self._places.is_ending = True
        signal_children("SIGTERM")

    def _modern_clients(self) -> ModernClients:
        return ModernClients(partial(self._make, True), self._info, self._rounds)


@asynccontextmanager
async def _clients_of(clients: ModernClients) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await clients.close()
