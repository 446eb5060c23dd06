"""HTTP clients that share one configuration, each with one request in flight.

Rules:
  - The pool of a client of httpx considers each of its connections for each request, and offers an idle one to every
    request that waits. Its cost grows with the square of the requests in flight, so each client here has one.
  - The clients share credentials and cookies. All pools share a TLS context, because making one reads all certificates:
    that takes longer than everything else that a new connection does.
  - Clients that have been idle for long are closed when another one is used.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from types import ModuleType
from typing import Any, Final

from ...errors import ConnectionLost

IDLE_SECONDS: Final = 30.0
"""How long a connection is kept without a request."""
MAX_IDLE: Final = 64
"""Maximum number of connections without a request."""


def tls_context(library: ModuleType) -> Any:
    """Return the TLS context that all clients of httpx or httpx2 share."""
    return _tls_context(library, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.lru_cache(maxsize=8)
def _tls_context(library: ModuleType, *environment: str | None) -> Any:
    """Return the TLS context of httpx, which depends on these variables of the environment."""
    return library.create_ssl_context()


@dataclass(slots=True, eq=False, repr=False)
class ClientPool:
    """A pool of `AsyncClient`.

    Args:
        library: httpx or httpx2.
        auth: As `auth` of `AsyncClient`.
        begin: Starts a task that closes a client.
    """

    _library: ModuleType
    _auth: Any
    _begin: Callable[[Coroutine[Any, Any, None]], object]
    _cookies: CookieJar = field(default_factory=CookieJar)
    _clients: set[Any] = field(default_factory=set)
    _idle: deque[tuple[Any, float]] = field(default_factory=deque)  # with the time since when
    _closing: asyncio.Future[Any] | None = None

    def take(self) -> Any:
        """Return a client that has no request in flight.

        Raises:
            ConnectionLost: The pool is closed.
        """
        if self._closing is not None:
            raise ConnectionLost("the connection is closed")
        now = asyncio.get_running_loop().time()
        while self._idle and self._idle[0][1] < now - IDLE_SECONDS:
            self._begin(self._close_one(self._idle.popleft()[0]))
        if self._idle:
            return self._idle.pop()[0]
        client = self._library.AsyncClient(
            auth=self._auth,
            cookies=self._cookies,
            verify=tls_context(self._library),
            limits=self._library.Limits(keepalive_expiry=IDLE_SECONDS),
        )
        self._clients.add(client)
        return client

    def give_back(self, client: Any) -> None:
        """Accept a client whose request has ended."""
        if client not in self._clients:
            return
        if len(self._idle) < MAX_IDLE:
            self._idle.append((client, asyncio.get_running_loop().time()))
        else:
            self._begin(self._close_one(client))

    async def close(self) -> None:
        """Close all clients. If this is cancelled, closing continues, and another call waits for it."""
        if self._closing is None:
            self._idle.clear()
            clients, self._clients = self._clients, set()
            self._closing = asyncio.gather(*[client.aclose() for client in clients], return_exceptions=True)
        await asyncio.shield(self._closing)

    def abort(self) -> None:
        """Give up closing clients that do not close in time."""
        if self._closing is not None:
            self._closing.cancel()

    async def _close_one(self, client: Any) -> None:
        await client.aclose()
        self._clients.discard(client)
