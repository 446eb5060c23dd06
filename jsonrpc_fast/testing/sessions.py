"""Two sessions that are connected in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Unpack

from ..handlers import Handlers
from ..session import Session, SessionOptions
from ..transports import memory_pair


@asynccontextmanager
async def sessions(
    handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None,
    client_handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None,
    client_options: SessionOptions | None = None,
    **options: Unpack[SessionOptions],
) -> AsyncIterator[tuple[Session, Session]]:
    """Connect a client and a server in memory. Messages are encoded and decoded as on a wire.

    Args:
        handlers: The handlers of the server.
        client_handlers: The handlers of the client.
        client_options: The options of the client's session.
        options: The options of the server's session.

    Yields:
        The session of the client, and that of the server.
    """
    one, other = memory_pair()
    async with (
        Session(other, handlers, **options) as server,
        Session(one, client_handlers, **(client_options or {})) as client,
    ):
        yield client, server
