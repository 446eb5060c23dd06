"""JSON-RPC over NATS: handlers as a service, its client, and a session over two subjects. Needs the extra `nats`.

    connection = await nats.connect("nats://localhost:4222")
    async with Service(connection, "calculator", {"add": lambda a, b: a + b}):
        total = await ServiceClient(connection, "calculator").call("add", [1, 2])

Rules:
  - the members of a queue group share the requests of a subject; the broker sends each to one of them. Reconnecting and
    subscribing again are done by nats-py;
  - core NATS delivers a message once or not at all. A call whose worker dies, or whose messages are lost with a
    connection, ends with `CallTimeout`; without any worker it ends with `ConnectionLost` at once. Nothing is sent
    twice;
  - with a JetStream context, a service takes its messages from a stream, and acknowledges them when the functions have
    ended. The broker sends those of a worker that died to another one: functions may run more than once;
  - a service that has too many messages answers with `SessionErrorCode.SERVER_BUSY`; a reply over the broker's
    `max_payload` becomes an error with the same id, or one without an id if the errors of a batch are too large, too;
  - a session needs every message, so its transport has a connection of its own, which does not reconnect. Whatever may
    lose a message closes it: the connection breaks, the peer is not subscribed, or this side reads too slowly.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from .._checks import check_count, check_seconds
from ..codec import (
    Params,
    ParseError,
    Request,
    Response,
    decode,
    encode_error,
    encode_notification,
    encode_request,
)
from ..codec._json import Default, check_option
from ..codes import ErrorCode, SessionErrorCode
from ..errors import CallTimeout, ConnectionLost, InvalidResponse, RpcError
from ..handlers import Handlers
from ..profile import JSONRPC, Profile
from ..transports.base import HIGH_WATER_BYTES, LOW_WATER_BYTES, State
from ..transports.message import MessageTransport
from ..transports.options import MessageOptions

try:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.errors import Error as NatsError
    from nats.errors import FlushTimeoutError, MaxPayloadError, NoRespondersError
    from nats.errors import TimeoutError as NatsTimeout
    from nats.js import JetStreamContext
    from nats.js.api import ConsumerConfig
except ImportError as _missing:
    raise ImportError('NATS needs the extra `nats`: pip install "jsonrpc_fast[nats]"') from _missing

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["Service", "ServiceClient", "SubjectTransport"]

DEFAULT_TIMEOUT: Final = 60.0
"""Seconds until a call times out, by default."""

CLOSE_SECONDS: Final = 1.0
"""How long a connection that a transport closes may take to write what is left."""

REPLY_HEADER: Final = "Jsonrpc-Reply-To"
"""The header with the subject for the reply to a message in a stream. Its own reply subject is JetStream's."""

_NO_RESPONDERS: Final = "503"
_BUSY_TEXT: Final = "the service has too many messages"
_TOO_LARGE_TEXT: Final = "the reply is larger than the broker allows"

_logger: Final = logging.getLogger("jsonrpc_fast.nats")


class Service:
    """Handlers that serve the messages on a subject, together with the other members of a queue group.

    Functions that take a `RequestContext` find the `Msg` of nats-py in its `context`, with headers and subject.

    Args:
        connection: A connection of nats-py, which is not closed with the service.
        subject: The subject of the requests and notifications; it may have wildcards.
        handlers: A `Handlers`, or functions by method.
        queue: The queue group.
        jetstream: Take the messages from the stream that has the subject, as its durable consumer `queue`.
        ack_seconds: With JetStream: how long a function may take before its message is sent to another worker.
        timeout: Seconds for the functions of one message; None: no limit. Later they are cancelled and answered with
            `SessionErrorCode.DEADLINE_EXCEEDED`.
        max_handlers: How many messages are served at a time.
        max_waiting: How many more messages wait. Those beyond are refused. With JetStream they wait in the stream.
        profile: The rules for decoding.
        raw: As in `Handlers.dispatch`.
        default: As in `encode`, for results and error data.
        option: As in `encode`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(
        self,
        connection: Client,
        subject: str,
        handlers: Handlers | Mapping[str, Callable[..., Any]],
        *,
        queue: str = "jsonrpc",
        jetstream: JetStreamContext | None = None,
        ack_seconds: float = 30.0,
        timeout: float | None = None,
        max_handlers: int = 256,
        max_waiting: int = 4096,
        profile: Profile = JSONRPC,
        raw: bool = False,
        default: Default = None,
        option: int = 0,
    ) -> None:
        check_seconds("ack_seconds", ack_seconds, may_be_none=False)
        check_seconds("timeout", timeout)
        check_count("max_handlers", max_handlers, 1, may_be_none=False)
        check_count("max_waiting", max_waiting, 0, may_be_none=False)
        check_option(option)
        self._connection = connection
        self._subject = subject
        self._queue = queue
        self._jetstream = jetstream
        self._ack_seconds = ack_seconds
        self._handlers = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
        self._max_handlers = max_handlers
        self._max_waiting = max_waiting
        self._profile = profile
        self._raw = raw
        self._options: Any = {
            "timeout": timeout,
            "max_handlers": max_handlers,
            "delimited": False,
            "default": default,
            "option": option,
        }
        self._subscription: Any = None
        self._waiting: deque[Msg] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Subscribe. Returns when the broker knows of the subscription.

        Raises:
            nats.errors.Error: The broker refuses it, or the connection is closed.
        """
        if self._jetstream is not None:
            config = ConsumerConfig(ack_wait=self._ack_seconds, max_ack_pending=self._max_handlers)
            self._subscription = await self._jetstream.subscribe(
                self._subject,
                queue=self._queue,
                durable=self._queue,
                cb=self._receive,
                manual_ack=True,
                config=config,
            )
        else:
            self._subscription = await self._connection.subscribe(self._subject, queue=self._queue, cb=self._receive)
        await _confirm(self._connection)

    async def stop(self, grace_seconds: float | None = 30.0) -> None:
        """Stop receiving, serve the messages that have arrived, and return when their replies are sent.

        Args:
            grace_seconds: After this time the functions that still run are cancelled, and their callers get no reply;
                None: no limit.
        """
        check_seconds("grace_seconds", grace_seconds)
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with contextlib.suppress(NatsError):  # the connection is closed: nothing more arrives
                await subscription.drain()
        loop = asyncio.get_running_loop()
        end = None if grace_seconds is None else loop.time() + grace_seconds
        try:
            while self._tasks and (end is None or loop.time() < end):
                left = None if end is None else end - loop.time()
                await asyncio.wait(self._tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.clear()
            for task in self._tasks:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._connection.is_connected:
            with contextlib.suppress(NatsError):
                await self._connection.flush()

    async def _receive(self, message: Msg) -> None:
        """Begin to serve a message. It never waits, so that nats-py does not drop messages."""
        if len(self._tasks) < self._max_handlers:
            self._begin(message)
        elif len(self._waiting) < self._max_waiting or self._jetstream is not None:
            self._waiting.append(message)
        else:
            received = decode(message.data, self._profile)
            await self._reply(message, self._refusal(received, SessionErrorCode.SERVER_BUSY, _BUSY_TEXT))

    def _begin(self, message: Msg) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(message))
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("a message could not be answered: %r", error, exc_info=error)
        if self._waiting:
            self._begin(self._waiting.popleft())

    async def _serve(self, message: Msg) -> None:
        received = decode(message.data, self._profile, raw=self._raw)
        reply = await self._handlers.dispatch_async(received, self._profile, context=message, **self._options)
        if len(reply) > self._connection.max_payload:
            reply = self._refusal(received, ErrorCode.INTERNAL_ERROR, _TOO_LARGE_TEXT)
        try:
            await self._reply(message, reply)
        finally:
            # Also if the subject for the reply is invalid: otherwise the functions would run again without an end.
            if self._jetstream is not None:
                await message.ack()

    def _refusal(self, received: Any, code: int, text: str) -> bytes:
        """Return what refuses all requests of a message."""
        reply = _refusal(received, code, text)
        return reply if len(reply) <= self._connection.max_payload else encode_error(None, code, text, delimited=False)

    async def _reply(self, message: Msg, reply: bytes) -> None:
        subject = message.reply if self._jetstream is None else (message.headers or {}).get(REPLY_HEADER, "")
        if subject and reply:
            await self._connection.publish(subject, reply)


async def _confirm(connection: Client) -> None:
    """Wait until the broker knows the subscriptions."""
    # nats-py writes the ping of a flush at once, before what is pending. The second ping comes after that.
    await connection.flush()
    await connection.flush()


def _refusal(received: Any, code: int, text: str) -> bytes:
    """Return an error response to every request among decoded messages."""
    items = received if isinstance(received, list) else [received]
    replies = [encode_error(item.id, code, text, delimited=False) for item in items if isinstance(item, Request)]
    if not isinstance(received, list):
        return b"".join(replies)
    return b"[" + b",".join(replies) + b"]" if replies else b""


class ServiceClient:
    """A client of the services on a subject.

    Args:
        connection: A connection of nats-py, which is not closed with the client.
        subject: The subject of the service.
        jetstream: Put the messages into the stream that has the subject.
        timeout: Seconds until a call times out.
        headers: Headers of every message.
        profile: The rules for decoding responses.
        raw: Return results and error data as `Raw`.
        default: As in `encode`, for params.
        option: As in `encode`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(
        self,
        connection: Client,
        subject: str,
        *,
        jetstream: JetStreamContext | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        headers: Mapping[str, str] | None = None,
        profile: Profile = JSONRPC,
        raw: bool = False,
        default: Default = None,
        option: int = 0,
    ) -> None:
        check_seconds("timeout", timeout, may_be_none=False)
        check_option(option)
        self._connection = connection
        self._subject = subject
        self._jetstream = jetstream
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._profile = profile
        self._raw = raw
        self._encoding: Any = {"delimited": False, "default": default, "option": option}
        self._ids = count(1)

    async def call(
        self,
        method: str,
        params: Params = None,
        *,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Call a method and return its result.

        Args:
            method: The method to call.
            params: A list (positional), a dict (named) or None.
            timeout: Seconds until the call times out; None for those of the client.
            headers: Further headers of the message.

        Returns:
            The result.

        Raises:
            RpcError: The service answered with an error.
            CallTimeout: No response arrived in time: the function may have run, or may still run.
            ConnectionLost: No service is subscribed, or the connection is closed or cannot take more.
            InvalidResponse: What arrived is not a response to this call.
            EncodeError, TypeError: The params cannot be encoded.
            ValueError: The message is larger than the broker allows, or `timeout` is negative or NaN.
        """
        seconds = self._timeout if timeout is None else timeout
        check_seconds("timeout", seconds, may_be_none=False)
        id = next(self._ids)
        text = encode_request(id, method, params, **self._encoding)
        sent = {**self._headers, **(headers or {})}
        try:
            if self._jetstream is None:
                answer = await self._connection.request(self._subject, text, seconds, headers=sent or None)
            else:
                answer = await self._request_by_stream(text, seconds, sent)
        except (NatsError, asyncio.TimeoutError) as error:
            raise _translated(error) from error
        return self._read(answer.data, id)

    async def notify(self, method: str, params: Params = None, *, headers: Mapping[str, str] | None = None) -> None:
        """Send a notification. With JetStream it is stored when this returns; else it may be lost.

        Args:
            method: The method.
            params: As in `call`.
            headers: As in `call`.

        Raises:
            Exception: As in `call`, but no RpcError and no InvalidResponse.
        """
        text = encode_notification(method, params, **self._encoding)
        sent = {**self._headers, **(headers or {})} or None
        try:
            if self._jetstream is None:
                await self._connection.publish(self._subject, text, headers=sent)
            else:
                await self._jetstream.publish(self._subject, text, timeout=self._timeout, headers=sent)
        except (NatsError, asyncio.TimeoutError) as error:
            raise _translated(error) from error

    async def _request_by_stream(self, text: bytes, seconds: float, headers: dict[str, str]) -> Msg:
        """Store a request in the stream, and wait for the reply on a subject of its own."""
        assert self._jetstream is not None
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        inbox = self._connection.new_inbox()
        subscription = await self._connection.subscribe(inbox, max_msgs=1)
        try:
            headers = {**headers, REPLY_HEADER: inbox}
            await self._jetstream.publish(self._subject, text, timeout=seconds, headers=headers)
            return await subscription.next_msg(max(end - loop.time(), 0.001))
        finally:
            with contextlib.suppress(NatsError):
                await subscription.unsubscribe()

    def _read(self, text: bytes, id: int) -> Any:
        response = decode(text, self._profile, raw=self._raw)
        if isinstance(response, ParseError):
            raise InvalidResponse("the response is malformed") from response
        if not isinstance(response, Response) or not _is_response_to(response, id):
            raise InvalidResponse("the answer is not a response to this call")
        if response.error is not None:
            raise RpcError(response.error.code, response.error.message, response.error.data)
        return response.result


def _is_response_to(response: Response[Any], id: int) -> bool:
    if response.id is None:
        return response.error is not None  # the service could not read the id
    return type(response.id) is int and response.id == id


def _translated(error: Exception) -> Exception:
    """Return the exception of this package for one of nats-py."""
    if isinstance(error, MaxPayloadError):
        return ValueError("the message is larger than the broker allows")
    if isinstance(error, NoRespondersError):
        return ConnectionLost("no service is subscribed to the subject")
    if isinstance(error, (NatsTimeout, asyncio.TimeoutError)):
        return CallTimeout("no response arrived in time")
    return ConnectionLost(str(error) or type(error).__name__)


class SubjectTransport(MessageTransport):
    """A `Transport` over two subjects, one for each direction. Each subject belongs to one session.

    The transport has a connection of its own. Either side may start first only if it sends nothing before the other is
    subscribed: a message without a subscriber closes the transport. An empty message marks the end of a stream.

    Args:
        receives: The subject to which this side subscribes.
        sends: The subject to which the peer subscribes.
        servers: The URLs of the servers of one cluster.
        nats_options: Options of `nats.connect`, such as `user_credentials` or `tls`.
        max_pending: How many received messages may wait while reading is paused. One more closes the transport.
        options: Options of `BaseTransport`.
    """

    def __init__(
        self,
        receives: str,
        sends: str,
        *,
        servers: str | list[str] = "nats://localhost:4222",
        nats_options: Mapping[str, Any] | None = None,
        max_pending: int = 65536,
        **options: Unpack[MessageOptions],
    ) -> None:
        check_count("max_pending", max_pending, 1, may_be_none=False)
        super().__init__(**options)
        self._receives = receives
        self._sends = sends
        self._servers = servers
        self._nats_options = dict(nats_options or {})
        self._max_pending = max_pending
        self._client: Client | None = None
        self._outgoing: deque[bytes] = deque()
        self._outgoing_bytes = 0
        self._is_finishing = False
        self._may_read = asyncio.Event()
        self._may_write = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def open_channel(self) -> None:
        self._client = client = Client()
        options: Any = {
            "max_reconnect_attempts": 1,
            "connect_timeout": 10,
            **self._nats_options,
            "allow_reconnect": False,
            "error_cb": self._on_error,
            "closed_cb": self._on_closed,
        }
        try:
            await client.connect(self._servers, **options)
            await client.subscribe(self._receives, cb=self._on_message, pending_msgs_limit=self._max_pending)
            await _confirm(client)
        except BaseException as error:
            self._client = None
            await _close_client(client)
            if isinstance(error, (NatsError, asyncio.TimeoutError)):
                raise ConnectionError(str(error) or type(error).__name__) from error
            raise
        self._writer = asyncio.get_running_loop().create_task(self._write())

    def channel_name(self) -> str:
        return f"nats {self._receives}"

    def set_reading(self, wanted: bool) -> None:
        if wanted:
            self._may_read.set()
        else:
            self._may_read.clear()

    def write_messages(self, texts: list[bytes]) -> None:
        self._outgoing += texts
        self._outgoing_bytes += sum(map(len, texts))
        self._may_write.set()
        if self._outgoing_bytes > HIGH_WATER_BYTES and not self._is_blocked:
            self.set_blocked(True)

    def unwritten_bytes(self) -> int:
        return self._outgoing_bytes

    def finish_channel(self) -> None:
        self._is_finishing = True
        self._may_read.set()
        self._may_write.set()

    def abort_channel(self) -> None:
        self._lose(None)

    async def _write(self) -> None:
        """Publish what is queued, until the transport closes."""
        client = self._client
        assert client is not None
        try:
            while self._closing is None:  # nats-py may swallow a cancellation while it writes
                await self._may_write.wait()
                while self._outgoing:
                    text = self._outgoing.popleft()
                    await client.publish(self._sends, text, reply=self._receives)
                    self._outgoing_bytes -= len(text)
                    if self._is_blocked and self._outgoing_bytes <= LOW_WATER_BYTES:
                        self.set_blocked(False)
                self._may_write.clear()
                if self._is_finishing:
                    await client.publish(self._sends, b"")
                    await client.flush()
                    self._lose(None)
                    return
        except (NatsError, OSError, asyncio.TimeoutError) as error:
            self._lose(ConnectionLost(str(error) or type(error).__name__))

    async def _on_message(self, message: Msg) -> None:
        if message.headers is not None and message.headers.get("Status") == _NO_RESPONDERS:
            self._lose(ConnectionLost(f"no peer is subscribed to {self._sends}"))
            return
        while not self._may_read.is_set() and self._state is State.RUNNING:
            await self._may_read.wait()
        if message.data:
            self.receive(message.data)
        else:
            self.end_received()

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, FlushTimeoutError):
            return  # the broker reads slowly, but nothing is lost: what is pending stays so
        self._lose(ConnectionLost(str(error) or type(error).__name__))

    async def _on_closed(self) -> None:
        self._lose(ConnectionLost("the connection to the broker is closed"))

    def _lose(self, fault: Exception | None) -> None:
        """Close the connection, and report the end of the channel."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(fault))

    async def _close(self, fault: Exception | None) -> None:
        self._outgoing.clear()
        self._outgoing_bytes = 0
        writer, client = self._writer, self._client
        if writer is not None and writer is not asyncio.current_task():
            writer.cancel()
        try:
            if client is not None:
                await _close_client(client)
            if writer is not None and writer is not asyncio.current_task() and not writer.done():
                await asyncio.wait([writer], timeout=CLOSE_SECONDS)
        finally:
            self.channel_lost(fault)


async def _close_client(client: Client) -> None:
    """Close a connection, without waiting long for a broker that reads nothing."""
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
