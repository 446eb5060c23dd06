"""Helpers of services and transports for a connection of nats-py."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from nats.aio.client import Client
from nats.errors import Error as NatsError

CLOSE_SECONDS: Final = 1.0
"""How long a connection that a transport closes may take to write what is left."""


async def confirm(connection: Client) -> None:
    """Wait until the broker knows the subscriptions."""
    # nats-py writes the ping of a flush at once, before what is pending. The second ping comes after that.
    await connection.flush()
    await connection.flush()


async def close_client(client: Client) -> None:
    """Close a connection, without waiting long for a broker that does not read."""
    closing = asyncio.ensure_future(client.close())
    try:
        await asyncio.wait([closing], timeout=CLOSE_SECONDS)
    finally:
        if not closing.done():
            # nats-py waits until everything is written, and has no other way to close.
            writer = getattr(getattr(client, "_transport", None), "_io_writer", None)
            if writer is not None:
                writer.transport.abort()
    await asyncio.wait([closing], timeout=CLOSE_SECONDS)
    if closing.done():
        with contextlib.suppress(NatsError, OSError, asyncio.TimeoutError, asyncio.CancelledError):
            closing.result()
    else:
        closing.cancel()
