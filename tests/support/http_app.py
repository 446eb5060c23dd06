"""The application that the HTTP tests run under real servers."""

from __future__ import annotations

import asyncio
from typing import Any

from jsonrpc_fast.handlers import RequestContext
from jsonrpc_fast.http import Endpoint, WsgiEndpoint

from .waiting import forever

BODY_SECONDS = 1.0
MAX_BODY = 1_000_000

cancelled: list[str] = []


async def wait(name: str) -> None:
    """Wait until the client disconnects."""
    try:
        await forever()
    except asyncio.CancelledError:
        cancelled.append(name)
        raise


async def later(value: Any) -> Any:
    """Return the value in a later iteration of the event loop."""
    await asyncio.sleep(0)
    return value


def client_of(context: RequestContext) -> Any:
    return context.context["client"][0]


FUNCTIONS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "echo": lambda value: value,
    "cancelled": lambda: cancelled,
    "wait": wait,
    "later": later,
    "client": client_of,
}

app = Endpoint(FUNCTIONS, body_seconds=BODY_SECONDS, max_body_bytes=MAX_BODY)
wsgi_app = WsgiEndpoint(FUNCTIONS, max_body_bytes=MAX_BODY)
