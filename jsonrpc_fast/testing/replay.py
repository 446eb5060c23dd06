"""A recorded server: it sends the recorded messages, as long as the client does so, too; and the recording of one.

Rules:
  - A recorded response is sent when its request has arrived, with the id that the request has now. Any other message of
    the server is sent after the client's message that it followed in the recording. Messages that followed the same one
    are sent in their order.
  - A request that matches no recorded one gets the error -32601 with the reason, and is a fault. Other messages without
    a match are faults, too, and so are recorded messages that never arrive. Methods that begin with `rpc.`, such as
    pings, are not faults: timers send them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from ..codec import Error, Notification, ParseError, Request, Response, decode, encode
from ..codes import ErrorCode
from ..errors import ConnectionLost, StateError
from ..profile import JSONRPC, Profile
from ..support import check_callable, id_key, shorten
from ..transports import Transport, memory_pair
from ..types import IdKey, MessageId
from .recordings import Recorded, read_recording, record_line

ReplayedMessage: TypeAlias = "Request[Any] | Notification[Any] | Response[Any]"
Fits: TypeAlias = Callable[[Any, Any], bool]


class _Step:
    """A recorded message of the client, and the messages that the server sends when it has arrived."""

    __slots__ = ("followers", "has_come", "message")

    def __init__(self, message: Any) -> None:
        self.message = message
        self.has_come = False
        self.followers: list[ReplayedMessage] = []


class Replay:
    """The server of a recording.

    Args:
        recording: The lines of one conversation, as `read_recording` returns them.
        fits: Called with the recorded params and the present ones; returns whether they are the same. By default they
            must be equal.
        profile: The rules for decoding the messages.

    Attributes:
        faults: The messages that did not fit.
        greeting: The messages that the server sends before the client has sent anything.

    Raises:
        TypeError: `fits` is not callable.
        ValueError: A message of the recording is invalid. The text names the line.
    """

    def __init__(self, recording: Iterable[Recorded], *, fits: Fits | None = None, profile: Profile = JSONRPC) -> None:
        check_callable("fits", fits)
        self.faults: list[str] = []
        self._fits = fits
        self._steps: list[_Step] = []
        self._ids: dict[IdKey, MessageId] = {}  # maps the ids in the recording to the present ids of the requests
        # Holds the messages that the server sends before the client has sent anything. No message of the client fits
        # it.
        first = _Step(None)
        for recorded in recording:
            for message in _messages_of(recorded, profile):
                if recorded.sender == "client":
                    self._steps.append(_Step(message))
                else:
                    self._leader(message, first).followers.append(message)
        self.greeting: list[ReplayedMessage] = first.followers

    def _leader(self, message: ReplayedMessage, first: _Step) -> _Step:
        """Return the client's message that a message of the server follows."""
        if isinstance(message, Response):
            # The latest request with the id, because a client may use an id again.
            for step in reversed(self._steps):
                if isinstance(step.message, Request) and id_key(step.message.id) == id_key(message.id):
                    return step
        return self._steps[-1] if self._steps else first

    def received(self, message: ReplayedMessage) -> list[ReplayedMessage]:
        """Return the messages that the server sends after a message of the client."""
        step = next((step for step in self._steps if not step.has_come and self._is_same(step.message, message)), None)
        if step is None:
            if not _is_extension(message):
                self.faults.append(f"unexpected: {_shown(message)}")
            if not isinstance(message, Request):
                return []
            reason = f"the recording does not have {_shown(message)}"
            return [Response(message.id, error=Error(ErrorCode.METHOD_NOT_FOUND, reason))]
        step.has_come = True  # each recorded message is matched once, so that repeated ones are distinguished
        if isinstance(message, Request):
            self._ids[id_key(step.message.id)] = message.id
        return [self._with_present_id(follower) for follower in step.followers]

    def check(self) -> None:
        """Check that the client has sent the recorded messages, and no others.

        Raises:
            AssertionError: It has not: the text names each message.
        """
        missing = [step.message for step in self._steps if not step.has_come]
        faults = self.faults + [f"missing: {_shown(message)}" for message in missing if not _is_extension(message)]
        if faults:
            raise AssertionError("\n".join(faults))

    def _is_same(self, recorded: Any, message: Any) -> bool:
        if type(recorded) is not type(message):
            return False
        if isinstance(message, Response):
            return id_key(recorded.id) == id_key(message.id)
        if recorded.method != message.method:
            return False
        return bool(self._fits(recorded.params, message.params) if self._fits else recorded.params == message.params)

    def _with_present_id(self, message: ReplayedMessage) -> ReplayedMessage:
        if not isinstance(message, Response) or id_key(message.id) not in self._ids:
            return message
        # The client under test chooses new ids, so the recorded id would belong to no request.
        id = self._ids[id_key(message.id)]
        return Response(id, message.result) if message.error is None else Response(id, error=message.error)


def _messages_of(recorded: Recorded, profile: Profile) -> list[ReplayedMessage]:
    if recorded.message is None:
        raise ValueError(f"line {recorded.line} of the recording has no message")
    found: Any = decode(bytes(recorded.message), profile)
    items = found if isinstance(found, list) else [found]
    if not all(isinstance(item, (Request, Notification, Response)) for item in items):
        raise ValueError(f"line {recorded.line} of the recording has an invalid message")
    return items


def _is_extension(message: ReplayedMessage) -> bool:
    return not isinstance(message, Response) and message.method.startswith("rpc.")


def _shown(message: ReplayedMessage) -> str:
    if isinstance(message, Response):
        return f"the response to {shorten(message.id)}"
    return f"{shorten(message.method)} with {shorten(message.params)}"


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
