"""An ASGI application on a real socket, served by uvicorn in the running loop."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import AsyncIterator
from typing import Any, Final
from unittest import mock

import uvicorn

from .waiting import settle

HOST = "127.0.0.1"
QUICK: Final = types.SimpleNamespace(**vars(asyncio) | {"sleep": lambda seconds: asyncio.sleep(seconds / 100)})
"""asyncio for uvicorn, whose end waits for 0.1 s and then polls every 0.1 s."""


@contextlib.asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[str]:
    """Serve an application, and yield its URL without a path."""
    options = {"timeout_graceful_shutdown": 5, "log_level": "critical", "ws": "none", **options}
    config = uvicorn.Config(app, host=HOST, port=0, **options)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # uvicorn's main loop checks for signals ten times per second, which would delay the end: the test runs without it.
    before = asyncio.all_tasks()
    await server.startup()
    of_lifespan = asyncio.all_tasks() - before
    assert server.started
    await server.on_tick(0)  # sets the headers of all responses
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://{HOST}:{port}"
    finally:
        await settle()  # until the clients have disconnected
        with mock.patch.object(uvicorn.server, "asyncio", QUICK):
            await server.shutdown()
        await asyncio.gather(*of_lifespan)  # it ends after the server
