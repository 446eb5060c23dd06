"""Helpers of services and transports for a connection of nats-py."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Final

from nats.aio.client import Client
from nats.errors import Error as NatsError

from ...support import check_type

MAX_SUBJECT_BYTES: Final = 1024
"""The maximum size of a subject. The broker ends a connection that publishes to one of about 4 KB."""

CLOSE_SECONDS: Final = 1.0
"""How long a connection that a transport closes may take to write its queue."""


def check_subject(name: str, subject: str, *, may_have_wildcards: bool = False) -> None:
    """Check an argument that is a subject of NATS.

    Raises:
        TypeError: It is not a str.
        ValueError: It is empty or too large, or it has an empty token, a blank, a control character or a
            wildcard that is not allowed there.
    """
    check_name(name, subject)
    tokens = subject.split(".")
    if "" in tokens:
        raise ValueError(f"{name} must not have an empty token")
    if may_have_wildcards:
        tokens = [token for token in tokens[:-1] if token != "*"] + [tokens[-1]] * (tokens[-1] not in ("*", ">"))
    if any("*" in token or ">" in token for token in tokens):
        raise ValueError(f"{name} must not have a wildcard")


def check_name(name: str, value: str) -> None:
    """Check an argument that is the name of a queue group, or a subject apart from its tokens.

    Raises:
        Exception: As in `check_subject`.
    """
    check_type(name, value, str)
    if not value or re.search("[\0- \x7f\ud800-\udfff]", value) is not None:
        raise ValueError(f"{name} must not be empty, and must not have a blank or a control character")
    if len(value.encode()) > MAX_SUBJECT_BYTES:
        raise ValueError(f"{name} must have at most {MAX_SUBJECT_BYTES} bytes")


async def confirm(connection: Client) -> None:
    """Wait until the broker knows the subscriptions."""
    # nats-py writes the ping of a flush at once, before the pending data. The second ping comes after that.
    await connection.flush()
    await connection.flush()


async def close_client(client: Client) -> None:
    """Close a connection, without waiting long for a broker that does not read."""
    closing = asyncio.ensure_future(client.close())
    try:
        await asyncio.wait([closing], timeout=CLOSE_SECONDS)
    finally:
        if not closing.done():
            # nats-py waits until everything is written, and has no other way to close. Over WebSocket there is no such
            # writer.
            with contextlib.suppress(AttributeError):
                client._transport._io_writer.transport.abort()  # type: ignore[union-attr]
    await asyncio.wait([closing], timeout=CLOSE_SECONDS)
    if closing.done():
        with contextlib.suppress(NatsError, OSError, asyncio.TimeoutError, asyncio.CancelledError):
            closing.result()
    else:
        closing.cancel()
