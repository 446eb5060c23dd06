"""A program that serves an endpoint with uvicorn.

SIGINT, SIGTERM and SIGHUP end it, unless SIGHUP is ignored (nohup). A second signal ends it and its programs at once,
without a traceback, also while a function blocks the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ...http.requests import is_loopback
from ...support import check_seconds, logger_of
from ...transports.stdio import fill_closed_descriptors, signal_children
from .endpoint import McpEndpoint as McpEndpoint

_logger: Final = logger_of("mcp")


@contextlib.contextmanager
def _handling_hangup(handle: Callable[[int, Any], None]) -> Iterator[None]:
    """Let `handle` handle SIGHUP, which uvicorn ignores, and end the process by it afterwards."""
    is_main = threading.current_thread() is threading.main_thread()
    number = getattr(signal, "SIGHUP", None)  # Windows has none
    if number is None or not is_main or signal.getsignal(number) is not signal.SIG_DFL:
        yield
        return
    received: list[int] = []

    def received_one(number: int, frame: Any) -> None:
        received.append(number)
        handle(number, frame)

    signal.signal(number, received_one)
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL)
    if received:
        signal.raise_signal(number)


def _say_where(server: Any, path: str) -> None:
    """Log the URLs for clients, where uvicorn has logged its address."""
    scheme = "https" if server.config.is_ssl else "http"
    for listening in [each for listener in server.servers for each in listener.sockets]:
        if listening.family in (socket.AF_INET, socket.AF_INET6):
            host, port = listening.getsockname()[:2]
            host = f"[{host}]" if ":" in host else host
            logging.getLogger("uvicorn.error").info("MCP clients connect to %s://%s:%d%s", scheme, host, port, path)


def run_http(
    app: Any,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    grace_seconds: float = 5.0,
    uvicorn_options: Mapping[str, Any] | None = None,
) -> int:
    """Serve an endpoint with uvicorn until a signal arrives. Use it as a `main`.

        run_http(McpEndpoint(server))

    Args:
        app: The endpoint; or another ASGI application with the same `close`.
        host: The address to listen on.
        port: The port; 0: any free one.
        grace_seconds: How long functions that run may take after a signal.
        uvicorn_options: Further options of `uvicorn.Config`, such as `ssl_certfile` and `ssl_keyfile`.

    Returns:
        The exit code: 0, 3 if the server cannot start, 130 after SIGINT. SIGTERM and SIGHUP end the process as they do
        by default, after everything else has ended.

    Raises:
        TypeError: `app` is not an application, or `grace_seconds` not a number.
        ValueError: `grace_seconds` is negative, infinite or NaN.
        ImportError: uvicorn is not installed.
    """
    check_seconds("grace_seconds", grace_seconds, may_be_none=False)
    if not callable(app):
        raise TypeError(f"app must be an ASGI application, such as McpEndpoint(server), not {type(app).__name__}")
    try:
        import uvicorn
    except ImportError as error:
        missing = 'serving over HTTP needs the extra `mcp-http`: pip install "jsonrpc_fast[mcp-http]"'
        raise ImportError(missing) from error

    arrived: list[int] = []

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started and isinstance(app, McpEndpoint):
                _say_where(self, app.path)

        async def shutdown(self, sockets: Any = None) -> None:
            # uvicorn waits for the responses in progress before it notifies the application.
            closing = asyncio.ensure_future(app.close(grace_seconds))
            await super().shutdown(sockets)
            await closing

        def handle_exit(self, sig: int, frame: Any) -> None:
            # After SIGINT, uvicorn would end the loop while tasks of the application run, with a traceback for each.
            # It ignores the others, and raises at its end those that it has handled.
            arrived.append(sig)  # before anything else: another signal may interrupt this
            if len(arrived) > 1:
                signal_children("SIGKILL")
                signal.signal(sig, signal.SIG_DFL)
                signal.raise_signal(sig)
            else:
                super().handle_exit(sig, frame)

    # How long uvicorn waits after the grace period, so that requests that have not finished get an error response.
    options: dict[str, Any] = {
        "access_log": False,
        "timeout_graceful_shutdown": math.ceil(grace_seconds) + 5,
        # A request that a client sends while the server closes its idle connection is lost, and uvicorn's 5 seconds are
        # near the 4 of Node. Clients should be the ones that close.
        "timeout_keep_alive": 75,
        # uvicorn asks stdout whether it is a terminal, and fails if the process was started without one.
        **({"use_colors": False} if sys.stdout is None else {}),
        "ws": "none",  # MCP has no WebSocket, and in old releases of uvicorn loading the library causes warnings
        **(uvicorn_options or {}),
    }
    # Said at the start, because nothing else shows it before somebody uses it.
    if not is_loopback(host) and isinstance(app, McpEndpoint) and (open_to := app.exposure()):
        _logger.warning("serving on %s, beyond this machine: %s", host, "; ".join(open_to))
    fill_closed_descriptors()
    server = Server(uvicorn.Config(app, host=host, port=port, **options))
    try:
        with _handling_hangup(server.handle_exit):
            server.run()
    except KeyboardInterrupt:
        return 130  # after SIGINT
    except SystemExit as exit:  # uvicorn has logged why
        return exit.code if isinstance(exit.code, int) else 1
    return 0 if server.started else 3  # for example, the port is in use
