"""An ASGI application on a real socket, served by uvicorn in the running loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

HOST = "127.0.0.1"


@contextlib.asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[str]:
    """Serve an application, and yield its URL without a path."""
    options = {"timeout_graceful_shutdown": 5, "log_level": "critical", **options}
    server = uvicorn.Server(uvicorn.Config(app, host=HOST, port=0, **options))
    task = asyncio.create_task(server.serve())
    while not server.started:
        assert not task.done()
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://{HOST}:{port}"
    finally:
        server.should_exit = True
        await task
        await asyncio.sleep(0.01)  # the task of the lifespan ends after the server
