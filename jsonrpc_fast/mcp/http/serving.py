"""Serving an endpoint with uvicorn, as a program.

Rules:
  - SIGINT and SIGTERM end it: new requests are refused, functions that run may finish, streams and subscriptions end.
  - A second SIGINT ends it at once, without a traceback.
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ..applications import Application
from .endpoint import McpEndpoint as McpEndpoint

INTERRUPTED: Final = 130
"""The exit code after SIGINT."""
UVICORN_MISSING: Final = 'serving over HTTP needs the extra `mcp-http`: pip install "jsonrpc_fast[mcp-http]"'
NOT_STARTED: Final = 3
"""The exit code when the server cannot start, such as when the port is in use."""


def run_http(
    app: Application,
    host: str,
    port: int,
    *,
    grace_seconds: float = 5.0,
    uvicorn_options: Mapping[str, Any] | None = None,
    alongside: Callable[[asyncio.Event], Awaitable[None]] | None = None,
) -> int:
    """Serve an endpoint until a signal arrives. Use it as a `main`.

    Args:
        app: The endpoint.
        host: The address to listen on.
        port: The port; 0: any free one.
        grace_seconds: How long functions that run may take after a signal.
        uvicorn_options: Further options of `uvicorn.Config`, such as `ssl_certfile` and `ssl_keyfile`.
        alongside: Runs as long as the server, until its event is set.

    Returns:
        The exit code: 0, 3 if the server cannot start, 130 after SIGINT. SIGTERM ends the process as it does by
        default, after everything else has ended.

    Raises:
        ImportError: uvicorn is not installed.
    """

    class Server(server_class()):  # type: ignore[misc]
        async def serve(self, sockets: Any = None) -> None:
            stop = asyncio.Event()
            beside = None if alongside is None else asyncio.ensure_future(alongside(stop))
            try:
                await super().serve(sockets)
            finally:
                stop.set()
                if beside is not None:
                    await beside

        async def shutdown(self, sockets: Any = None) -> None:
            # uvicorn waits for the responses in progress before it tells the application to end.
            closing = asyncio.ensure_future(app.close(grace_seconds))
            await super().shutdown(sockets)
            await closing

    options: dict[str, Any] = {
        "access_log": False,
        "timeout_graceful_shutdown": math.ceil(grace_seconds) + 1,
        **(uvicorn_options or {}),
    }
    return run_server(Server, app, host=host, port=port, **options)


def server_class() -> Any:
    """Return the class of uvicorn's server, which a second SIGINT ends at once.

    Raises:
        ImportError: uvicorn is not installed.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise ImportError(UVICORN_MISSING) from error

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            if self.should_exit and sig == signal.SIGINT:
                # uvicorn would leave the application's tasks to a loop that ends, with a traceback for each.
                signal.signal(sig, signal.SIG_DFL)
                signal.raise_signal(sig)
            else:
                super().handle_exit(sig, frame)

    return Server


def run_server(kind: Any, app: Any, **options: Any) -> int:
    """Serve an ASGI application with a class from `server_class` until a signal arrives. Return the exit code.

    Args:
        kind: The class.
        app: The application.
        options: Options of `uvicorn.Config`.
    """
    import uvicorn

    # MCP has no WebSocket: without it uvicorn does not load the library, whose old classes warn in old releases.
    server = kind(uvicorn.Config(app, **{"ws": "none", **options}))
    try:
        server.run()
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as exit:  # uvicorn has logged why
        return exit.code if isinstance(exit.code, int) else 1
    return 0 if server.started else NOT_STARTED
