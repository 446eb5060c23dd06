"""Record the conversation with a real peer once, and replay it in tests. The format is that of `recordings`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from ..codec import ParseError, encode
from ..errors import ConnectionLost, StateError
from ..profile import JSONRPC, Profile
from ..transports import Transport, memory_pair
from .recordings import read_recording, record_line
from .replay import Fits, Replay


@asynccontextmanager
async def recorded(path: str | os.PathLike[str], transport: Transport) -> AsyncIterator[Transport]:
    """Talk to a real peer, and record the conversation.

    Args:
        path: The file. It is written, or replaced, when the block ends without an exception.
        transport: A transport to the peer, which is not started.

    Yields:
        The transport for the client.
    """
    # A recording has the form of JSON-RPC 2.0, whatever form the peers use.
    profile = transport.profile or JSONRPC
    written = profile.replace(writes="2.0")
    near, far = memory_pair(profile=profile)
    lines: list[bytes] = []

    def passes(sender: Any, target: Transport) -> Callable[..., None]:
        def pass_on(message: Any, *_: Any) -> None:
            if isinstance(message, list):  # a batch: its invalid items cannot be served
                message = [item for item in message if not isinstance(item, ParseError)]
            text = encode(message, written, delimited=False)
            lines.append(record_line(text, sender, time=time.time()))
            with suppress(ConnectionLost, StateError):  # the other side is closed
                target.send(message)

        return pass_on

    transport.onmessage = passes("server", far)
    far.onmessage = passes("client", transport)
    closing: list[asyncio.Future[None]] = []
    transport.onclose = lambda: closing.append(asyncio.ensure_future(far.close()))
    await far.start()
    try:
        await transport.start()
        yield near
        await near.close()
        await far.close()
    finally:
        await transport.close()
        await far.disconnect()
    _write_at_once(Path(path), b"".join(lines))


@asynccontextmanager
async def replayed(
    path: str | os.PathLike[str], *, fits: Fits | None = None, profile: Profile = JSONRPC
) -> AsyncIterator[Transport]:
    """Talk to a recorded server.

    Args:
        path: The file. Its first conversation is replayed.
        fits: As in `Replay`.
        profile: The rules for decoding the messages of both sides.

    Yields:
        The transport for the client.

    Raises:
        AssertionError: At the end of the block: the client has not sent the recorded messages.
        OSError: The file cannot be read.
        ValueError: It is not a recording.
    """
    with Path(path).open("rb") as file:
        lines = list(read_recording(file))
    replay = Replay([line for line in lines if line.connection == lines[0].connection], fits=fits, profile=profile)
    near, far = memory_pair(profile=profile)

    def respond(message: Any) -> None:
        for item in message if isinstance(message, list) else [message]:
            for sent in [] if isinstance(item, ParseError) else replay.received(item):
                far.send(sent)

    far.onmessage = respond
    await far.start()
    for message in replay.greeting:
        far.send(message)
    try:
        yield near
        await near.close()
        await far.close()
    finally:
        await far.disconnect()
    replay.check()


def _write_at_once(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # `replace` is atomic: a test that is interrupted leaves the old recording, not half of a new one.
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    # A recording contains payloads, so only its owner may read it.
    with open(partial, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
    partial.replace(path)
