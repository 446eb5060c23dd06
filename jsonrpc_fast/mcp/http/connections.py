"""The server interface that the ASGI application uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...profile import Profile
from ...session import SessionOptions
from ...transports.protocol import Transport
from ..server.connection import ServerConnection
from ..server.lifespan import Lifespan
from ..server.task_store import TaskStore


class ConnectionFactory(Protocol):
    """A server that makes a connection for each session, and for requests without one.

    Attributes:
        connections: The connections in use; the application keeps this up to date.
        lifespan: Its lifespan.
        changes: Changes whenever new connections declare something else.
        tasks: Its tasks.
    """

    connections: set[ServerConnection]
    lifespan: Lifespan
    changes: int
    tasks: TaskStore

    @property
    def profile(self) -> Profile: ...

    @property
    def versions(self) -> Sequence[str]: ...

    @property
    def tools(self) -> Mapping[str, Any]: ...

    def connection(self, transport: Transport, options: SessionOptions) -> ServerConnection: ...
