"""The end of a sign-in in the browser: the redirect to this machine (RFC 8252, section 7.3)."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from ...errors import SignInError

# Not "localhost", which may be the address of another interface (RFC 8252, section 8.3).
HOST: Final = "127.0.0.1"
PATH: Final = "/callback"

_HEAD: Final = (
    "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n"
    "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n"
)


@contextlib.asynccontextmanager
async def redirect_to(port: int, state: str) -> AsyncIterator[asyncio.Future[dict[str, str]]]:
    """Listen for the redirect of a sign-in, and yield a future of the parameters of its URL.

    A request without the right `state` is refused, and the sign-in continues: any page in the browser could send it.

    Args:
        port: The port of 127.0.0.1.
        state: The `state` of the request to the authorization server.

    Raises:
        SignInError: The port is in use.
    """
    found: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    writers: dict[asyncio.StreamWriter, None] = {}  # the oldest first

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Browsers open spare connections. The oldest one is closed, so that silent ones cannot block the redirect.
        if len(writers) >= 16:
            oldest = next(iter(writers))
            del writers[oldest]
            oldest.transport.abort()
        writers[writer] = None
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10.0)
            parameters = _parameters(head)
            # Compared in constant time, because any local program may guess the state.
            is_ours = parameters is not None and secrets.compare_digest(
                parameters.get("state", "").encode(), state.encode()
            )
            status, text = (
                ("200 OK", "You are signed in, or the program says why not. You can close this page.")
                if is_ours
                else ("404 Not Found", "Not found.")
            )
            writer.write((_HEAD.format(status=status, length=len(text)) + text).encode())
            await writer.drain()
            if is_ours and parameters is not None and not found.done():
                found.set_result(parameters)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            writers.pop(writer, None)
            writer.close()

    try:
        server = await asyncio.start_server(serve, HOST, port, limit=16 * 1024)
    except OSError:
        raise SignInError(
            f"the browser is to return to port {port}, which another program uses: end it, or set redirect_port"
        ) from None
    try:
        yield found
    finally:
        server.close()
        for writer in writers:
            # A browser that keeps its connection open would keep the listener waiting.
            writer.transport.abort()


def _parameters(head: bytes) -> dict[str, str] | None:
    """Return the parameters of a request for PATH; None for other requests, and if a parameter is repeated."""
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or words[0] != b"GET":
        return None
    try:
        url = urlsplit(words[1].decode("ascii"))
        query = parse_qsl(url.query, keep_blank_values=True, max_num_fields=32)
    except ValueError:
        return None
    # A repeated parameter is refused, because readers differ in which value they use.
    parameters = dict(query)
    return parameters if url.path == PATH and len(parameters) == len(query) else None
