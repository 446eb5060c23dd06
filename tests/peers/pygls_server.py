"""A pygls server on stdin and stdout that uses only the framing and the cancellation of LSP."""

from __future__ import annotations

import asyncio
from typing import Any

from pygls.protocol import JsonRPCProtocol, default_converter
from pygls.server import JsonRPCServer

server = JsonRPCServer(JsonRPCProtocol, default_converter)


@server.feature("add")
def add(params: Any) -> int:
    return int(params.a + params.b)


@server.feature("crash")
def crash(params: Any) -> None:
    raise ZeroDivisionError


@server.feature("hang")
async def hang(params: Any) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        server.protocol.notify("cancelled", None)
        raise


@server.feature("ask")
async def ask(params: Any) -> Any:
    """Call back, and return the result."""
    return await server.protocol.send_request_async("double", {"value": params.value})


@server.feature("note")
def note(params: Any) -> None:
    server.protocol.notify("noted", {"text": params.text})


if __name__ == "__main__":
    server.start_io()
