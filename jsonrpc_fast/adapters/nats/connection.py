"""What clients, services and transports share: checks of subjects, and what they do with a connection of nats-py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from secrets import token_hex
from typing import Any, Final, TypedDict
from weakref import WeakKeyDictionary

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from ...errors import CallTimeout
from ...hooks import Hooks
from ...profile import Profile
from ...support import check_type

MAX_SUBJECT_BYTES: Final = 1024
"""The maximum size of a subject. The broker ends a connection that publishes to one of about 4 KB."""

NO_RESPONDERS: Final = "503"
"""The status of the broker's message that a subject has no subscribers."""

CLOSE_SECONDS: Final = 1.0
"""How long a connection that a transport closes may take to write its queue."""


class CodecOptions(TypedDict, total=False):
    """The options that services and their clients share.

    Attributes:
        profile: The rules for what is received, and for a client the form of requests (`Profile.writes`).
        raw: Whether functions registered with `unpack=False` get `Raw` params, or callers `Raw` results and error data.
        default: As in `encode`, for what is sent.
        hooks: An object with methods for metrics, traces and logs; see `jsonrpc_fast.hooks`. A trace context is sent
            in the headers, and read from the message or else from its headers.
    """

    profile: Profile
    raw: bool
    default: Callable[[Any], Any] | None
    hooks: Hooks | None


def check_options(options: CodecOptions) -> None:
    """Check the names of options: Python lets any pass in `**options`."""
    for name in options.keys() - CodecOptions.__annotations__.keys():
        raise TypeError(f"there is no option {name!r}")


def check_subject(name: str, subject: str, *, may_have_wildcards: bool = False) -> None:
    """Check an argument that is a subject of NATS. Raises TypeError or ValueError."""
    check_name(name, subject)
    tokens = subject.split(".")
    if "" in tokens:
        raise ValueError(f"{name} must not have an empty token")
    if may_have_wildcards:
        tokens = [token for token in tokens[:-1] if token != "*"] + [tokens[-1]] * (tokens[-1] not in ("*", ">"))
    if any("*" in token or ">" in token for token in tokens):
        raise ValueError(f"{name} must not have a wildcard")


def check_name(name: str, value: str) -> None:
    """Check an argument that is the name of a queue group, or a subject apart from its tokens."""
    check_type(name, value, str)
    if not value or re.search("[\0- \x7f\ud800-\udfff]", value) is not None:
        raise ValueError(f"{name} must not be empty, and must not have a blank or a control character")
    if len(value.encode()) > MAX_SUBJECT_BYTES:
        raise ValueError(f"{name} must have at most {MAX_SUBJECT_BYTES} bytes")


async def confirm(connection: Client) -> None:
    """Wait until the broker knows the subscriptions."""
    # nats-py writes the ping of a flush at once, before the pending data. The second ping comes after that.
    with reading_on(connection):
        await connection.flush()
        await connection.flush()


@contextlib.contextmanager
def reading_on(connection: Client) -> Iterator[None]:
    """Keep a connection reading when a flush in the block takes too long or is cancelled.

    nats-py cancels the future of such a flush and does not forget it. When the response arrives after all, nats-py
    stops reading, and the connection looks open but hears nothing until the broker has missed several pings.
    """
    try:
        yield
    finally:
        pongs = getattr(connection, "_pongs", [])
        pongs[:] = [asyncio.Future() if pong.cancelled() else pong for pong in pongs]


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


class ResponseInbox:
    """Receives the responses to the calls over one connection, on one subscription, without a reference to it.

    Where a stream stores the subject of a service, JetStream also sends a PubAck for each request, which says that the
    message is stored. It is not a response, but the `request` of nats-py takes whatever arrives first.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self._stored: set[str] = set()  # the subjects of requests that a stream has stored

    async def request(self, send: Callable[[str], Awaitable[object]], seconds: float) -> bytes:
        """Send a request, and return the text of its response. `send` gets the subject for the response.

        Raises:
            CallTimeout: No response arrived in time.
            nats.errors.NoRespondersError: The subject of the request has no subscribers.
        """
        # Unpredictable, because whoever knows the subject could send a response to it.
        subject = f"{self._prefix}.{token_hex(8)}"
        loop = asyncio.get_running_loop()
        response = self._waiting[subject] = loop.create_future()
        end = loop.time() + seconds
        try:
            await send(subject)
            return await asyncio.wait_for(response, max(end - loop.time(), 0.001))
        except TimeoutError:
            text = ""
            if subject in self._stored:
                text = ", but a stream stores this subject: its services need `jetstream`, and so do their clients"
            raise CallTimeout(text) from None
        finally:
            del self._waiting[subject]
            self._stored.discard(subject)

    async def receive(self, message: Msg) -> None:
        """Handle a message that arrived for a call."""
        response = self._waiting.get(message.subject)
        if response is None or response.done():
            return
        if message.headers is not None and message.headers.get("Status") == NO_RESPONDERS:
            response.set_exception(NoRespondersError())
        elif _is_pub_ack(message.data):
            # Not a response: the stream has stored the request, and a service may still respond.
            self._stored.add(message.subject)
        else:
            response.set_result(message.data)


_inboxes: Final[WeakKeyDictionary[Client, ResponseInbox]] = WeakKeyDictionary()


async def inbox_of(connection: Client) -> ResponseInbox:
    """Return the inbox of a connection, which is made for the first call."""
    inbox = _inboxes.get(connection)
    if inbox is None or connection.is_closed:  # nats-py forgets the subscriptions of a closed connection
        prefix = connection.new_inbox()
        inbox = ResponseInbox(prefix)
        await connection.subscribe(f"{prefix}.*", cb=inbox.receive)
        _inboxes[connection] = inbox
    return inbox


def _is_pub_ack(data: bytes) -> bool:
    """Return whether a message is the PubAck of JetStream, which has stored a request or could not store it."""
    # Checked first, so that usual responses are not decoded here. A PubAck has the name of the stream, a number and
    # perhaps a domain.
    if len(data) > 4096 or b'"stream"' not in data or b'"jsonrpc"' in data:
        return False
    try:
        found = json.loads(data)
    except ValueError:
        return False
    return isinstance(found, dict) and isinstance(found.get("stream"), str) and "seq" in found and "id" not in found
