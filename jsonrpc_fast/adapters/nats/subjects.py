"""A session's transport over two subjects."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import FlushTimeoutError

from ...errors import ConnectionLost
from ...support import check_type, on_failure
from ...transports import Connection, Events, MessageOptions, QueuedChannel
from .connection import CLOSE_SECONDS, NO_RESPONDERS, check_subject, close_client, confirm


@dataclass(eq=False, repr=False)
class _SubjectChannel(QueuedChannel):
    """The channel of a `SubjectTransport`, which describes the arguments."""

    _receives: str
    _sends: str
    _servers: str | list[str]
    _nats_options: Mapping[str, Any]
    _max_waiting: int = 65536  # received messages while reading is paused; one more closes the transport
    _client: Client | None = None
    _writer: asyncio.Task[None] | None = None
    _closing: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        super().__init__()

    async def open(self, events: Events) -> None:
        self._events = events
        self._client = client = Client()
        options: Any = {
            # A transport never reconnects: messages would be lost in between, and a session needs all of them.
            "max_reconnect_attempts": 1,
            "connect_timeout": 10,
            **self._nats_options,
            "allow_reconnect": False,
            "error_cb": self._on_error,
            "closed_cb": self._on_closed,
        }

        async def give_up() -> None:
            self._client = None
            await close_client(client)

        try:
            # Also after a cancellation: a connection of nats-py has tasks, which would keep running.
            async with on_failure(give_up):
                await client.connect(self._servers, **options)
                await client.subscribe(self._receives, cb=self._on_message, pending_msgs_limit=self._max_waiting)
                # The peer may send as soon as this side says that it is open: the broker must know the subscription by
                # then.
                await confirm(client)
        except (TimeoutError, NatsError) as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        self._writer = asyncio.get_running_loop().create_task(self._write())

    @property
    def name(self) -> str:
        return f"nats {self._receives}"

    def abort(self) -> None:
        if self._client is not None:
            self._may_read.set()
            self._lose(None)

    async def _write(self) -> None:
        """Publish the queued messages, until the transport closes."""
        client = self._client
        assert client is not None
        try:
            # Not `while True`, because nats-py may swallow a cancellation while it writes.
            while self._closing is None:
                await self._may_write.wait()
                while self._outgoing:
                    text = self._outgoing.popleft()
                    # With a reply subject, the broker reports a subject without subscribers ("no responders").
                    await client.publish(self._sends, text, reply=self._receives)
                    self._unwritten -= len(text)
                    self._events.drained()
                self._may_write.clear()
                if self._is_finishing:
                    # An empty message marks the end of the stream.
                    await client.publish(self._sends, b"")
                    await client.flush()
                    self._lose(None, says_end=False)
                    return
        except (TimeoutError, NatsError, OSError) as error:
            self._lose(ConnectionLost(str(error) or type(error).__name__))

    async def _on_message(self, message: Msg) -> None:
        if message.headers is not None and message.headers.get("Status") == NO_RESPONDERS:
            self._lose(ConnectionLost(f"no peer is subscribed to {self._sends}"))
            return
        # While this waits, nats-py queues messages up to `pending_msgs_limit`; one more is a slow consumer, and closes
        # the transport.
        await self._may_read.wait()
        self._events.received(message.data)

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, FlushTimeoutError):
            return  # the broker reads slowly, but no message is lost: pending data stays pending
        self._lose(ConnectionLost(str(error) or type(error).__name__))

    async def _on_closed(self) -> None:
        self._lose(ConnectionLost("the connection to the broker is closed"))

    def _lose(self, fault: Exception | None, *, says_end: bool = True) -> None:
        """Close the connection, and report the end of the channel. Tell the peer of the end if possible."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(fault, says_end))

    async def _close(self, fault: Exception | None, says_end: bool) -> None:
        self._outgoing.clear()
        self._unwritten = 0
        self._may_read.set()
        writer, client = self._writer, self._client
        if writer is not None and writer is not asyncio.current_task():
            writer.cancel()
        try:
            if client is not None:
                if says_end and client.is_connected:
                    await asyncio.wait([asyncio.ensure_future(self._say_end(client))], timeout=CLOSE_SECONDS)
                await close_client(client)
            if writer is not None and writer is not asyncio.current_task() and not writer.done():
                await asyncio.wait([writer], timeout=CLOSE_SECONDS)
        finally:
            self._events.lost(fault)

    async def _say_end(self, client: Client) -> None:
        with contextlib.suppress(NatsError, OSError):
            await client.publish(self._sends, b"")


class SubjectTransport(Connection):
    """A `Transport` over two subjects, one for each direction. Each subject belongs to one session.

    The transport has its own connection. Either side may start first only if it sends nothing before the other is
    subscribed: a message without a subscriber closes the transport. An empty message marks the end of a stream.

    Args:
        receives: The subject to which this side subscribes.
        sends: The subject to which the peer subscribes.
        servers: The URLs of the servers of one cluster.
        nats_options: Options of `nats.connect`, such as `user_credentials` or `tls`.
        options: Options of `Connection`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value; a subject has no wildcards.
    """

    def __init__(
        self,
        receives: str,
        sends: str,
        *,
        servers: str | list[str] = "nats://localhost:4222",
        nats_options: Mapping[str, Any] | None = None,
        **options: Unpack[MessageOptions],
    ) -> None:
        check_subject("receives", receives)  # also the reply subject of sent messages
        check_subject("sends", sends)
        check_type("servers", servers, str, list)
        check_type("nats_options", nats_options, Mapping, may_be_none=True)
        super().__init__(_SubjectChannel(receives, sends, servers, dict(nats_options or {})), **options)
