"""The subject on which a connection receives the responses to its calls: one subscription for all of them.

Where a stream stores the subject of a service, JetStream also sends a PubAck for each request, which says that the
message is stored. It is not a response, but the `request` of nats-py takes whatever arrives first.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Final
from weakref import WeakKeyDictionary

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from ...errors import CallTimeout

NO_RESPONDERS: Final = "503"
"""The status of the broker's message that a subject has no subscribers."""


class ResponseInbox:
    """Receives the responses to the calls over one connection, without a reference to that connection."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self._stored: set[str] = set()  # the subjects of requests that a stream has stored

    async def request(self, send: Callable[[str], Awaitable[object]], seconds: float) -> bytes:
        """Send a request, and return the text of its response.

        Args:
            send: Publishes the request. It gets the subject for the response.
            seconds: How long the response may take.

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
            text = "no response arrived in time"
            if subject in self._stored:
                text += ", but a stream stores this subject: its services need `jetstream`, and so do their clients"
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
    """Return the inbox of a connection; it is made for the first call.

    Raises:
        nats.errors.Error: The connection is closed.
    """
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
