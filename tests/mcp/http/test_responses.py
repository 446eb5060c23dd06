"""Responses through the two functions of ASGI, as different servers implement them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from jsonrpc_fast.mcp.http.responses import AsgiRequest

from ...support.tables import rows

SENT = [
    {
        "type": "http.response.start",
        "status": 400,
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"2")],
    },
    {"type": "http.response.body", "body": b"{}"},
]


async def receive() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def returning_coroutine(sent: list[Any]) -> Callable[[Any], Awaitable[None]]:
    async def send(message: Any) -> None:
        await asyncio.sleep(0)
        sent.append(message)

    return send


def returning_future(sent: list[Any]) -> Callable[[Any], Awaitable[None]]:
    def send(message: Any) -> Awaitable[None]:
        sent.append(message)
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, None)
        return future

    return send


@rows("make_send", [returning_coroutine, returning_future])
def test_send_may_return_any_awaitable(make_send: Any) -> None:
    sent: list[Any] = []

    async def respond() -> bool:
        return await AsgiRequest(receive, make_send(sent), 60.0).send_json(400, b"{}\n")

    assert asyncio.run(respond()) is True
    assert sent == SENT


def test_a_send_that_raises_before_it_returns_means_that_the_client_is_gone() -> None:
    calls = []

    def send(message: Any) -> Awaitable[None]:
        calls.append(message)
        raise BrokenPipeError

    async def respond() -> tuple[bool, bool]:
        request = AsgiRequest(receive, send, 60.0)
        return await request.send_json(400, b"{}"), request.is_gone

    assert asyncio.run(respond()) == (False, True)
    assert calls == SENT[:1]


def test_a_send_that_waits_for_too_long_means_that_the_client_is_gone() -> None:
    async def send(message: Any) -> None:
        await asyncio.get_running_loop().create_future()

    async def respond() -> tuple[bool, bool]:
        request = AsgiRequest(receive, send, 0.01)
        return await request.write(b"{}"), request.is_gone

    began = time.monotonic()
    assert asyncio.run(respond()) == (False, True)
    assert time.monotonic() - began < 60
