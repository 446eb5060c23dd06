"""Handlers that serve the messages on a subject."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, Final, Self, Unpack

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import BadSubjectError
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig
from nats.js.errors import NotFoundError

from ...codec import ParseError, encode_error
from ...codes import ErrorCode, SessionErrorCode
from ...errors import RpcError, StateError
from ...handlers import Handlers
from ...hooks import FoundHooks, Hooks, Outcome
from ...support import check_count, check_seconds, check_type, logger_of
from ...types import MessageId
from .connection import (
    CLOSE_SECONDS,
    MAX_SUBJECT_BYTES,
    CodecOptions,
    check_name,
    check_options,
    check_subject,
    confirm,
    reading_on,
)

REPLY_HEADER: Final = "Jsonrpc-Reply-To"
"""The header with the subject for the response to a message in a stream, whose reply subject is JetStream's."""

_MAX_DOUBLINGS: Final = 4
"""The delay before the next delivery is doubled this often, so that it is at most 16 times `ack_seconds`."""

_logger: Final = logger_of("nats")

_served: ContextVar[list[bool]] = ContextVar("served")
"""For each request and notification of the message that is being served: whether it has not to be served again."""


class Service:
    """Handlers that serve the messages on a subject, together with the other members of a queue group.

    Functions that take a `RequestContext` find the `Msg` of nats-py in its `context`, with headers and subject.

    Args:
        connection: A connection of nats-py, which is not closed with the service.
        subject: The subject of the requests and notifications; it may have wildcards.
        handlers: A `Handlers`, or functions by method.
        queue: The queue group.
        jetstream: Take the messages from the stream that has the subject. The services with the same queue and subject
            share a durable consumer, which the last one that starts sets to its `ack_seconds` and `max_handlers`.
        ack_seconds: With JetStream, how long a function may take before the broker sends its message to another worker,
            and how long a notification waits that failed. Each further delivery waits twice as long as the one before,
            up to 16 times `ack_seconds`.
        max_deliveries: With JetStream, how often a message is delivered that ends its worker, or a notification that is
            not served. After that it is a dead letter: the log has an error with its number in the stream. None: no
            limit.
        dead_letters: The subject to which dead letters are published, with the headers that they had. None: they stay
            in the stream.
        timeout: Seconds for the functions of one message; None: no limit. After that they are cancelled, and the
            response is the error `SessionErrorCode.DEADLINE_EXCEEDED`.
        max_handlers: How many messages are served at a time. 4,096 more wait; further ones are refused, or
            with JetStream wait in the stream.
        options: `profile`, `raw`, `default` and `hooks`, as in `EndpointOptions`. A trace context is read from the
            message, or else from its headers.

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
        max_deliveries: int | None = 5,
        dead_letters: str | None = None,
        timeout: float | None = None,
        max_handlers: int = 256,
        **options: Unpack[CodecOptions],
    ) -> None:
        check_options(options)
        check_type("connection", connection, Client)
        check_subject("subject", subject, may_have_wildcards=True)
        check_name("queue", queue)
        check_type("jetstream", jetstream, JetStreamContext, may_be_none=True)
        check_seconds("ack_seconds", ack_seconds, may_be_none=False)
        check_count("max_deliveries", max_deliveries, 1)
        if dead_letters is not None:
            check_subject("dead_letters", dead_letters)
        check_seconds("timeout", timeout)
        check_count("max_handlers", max_handlers, 1, may_be_none=False)
        self._connection = connection
        self._subject = subject
        self._queue = queue
        self._jetstream = jetstream
        self._ack_seconds = ack_seconds
        self._max_deliveries = max_deliveries
        self._dead_letters = dead_letters
        found = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
        self._report = FoundHooks(options.get("hooks")).peer_fault
        if jetstream is not None:
            options["hooks"] = _Outcomes(options.get("hooks"))
        self._dispatch = found.prepare(delimited=False, **options)
        self._timeout = timeout
        self._max_handlers = max_handlers
        self._max_waiting = 4096
        self._subscription: Any = None
        self._watching: asyncio.Task[None] | None = None
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
            ValueError: The stream has a consumer of that name for another subject.
        """
        if self._jetstream is not None:
            self._subscription = await self._consume(self._jetstream)
            self._watching = asyncio.get_running_loop().create_task(self._watch(self._jetstream))
        else:
            self._subscription = await self._connection.subscribe(self._subject, queue=self._queue, cb=self._receive)
        await confirm(self._connection)

    async def _consume(self, jetstream: JetStreamContext) -> JetStreamContext.PushSubscription:
        """Take messages from the stream, as one of the workers of a durable consumer.

        nats-py uses an existing consumer unchanged, whatever subject it filters and whatever its settings are.
        """
        stream = await jetstream.find_stream_name_by_subject(self._subject)
        name = consumer_name(self._queue, self._subject)
        # `max_ack_pending` bounds the work: the broker sends no more than this many messages without an
        # acknowledgement.
        settings: Any = {
            "ack_wait": self._ack_seconds,
            "backoff": [self._delay(number) for number in range(1, _MAX_DOUBLINGS + 2)][: self._max_deliveries],
            "max_ack_pending": self._max_handlers,
            # One more than the functions run: with the last one the worker learns of a message that ends workers.
            "max_deliver": -1 if self._max_deliveries is None else self._max_deliveries + 1,
        }
        try:
            found = (await jetstream.consumer_info(stream, name)).config
        except NotFoundError:
            pass  # it is made with the subscription
        else:
            if found.filter_subject != self._subject:
                raise ValueError(
                    f"the consumer {name!r} of the stream {stream!r} takes the messages of {found.filter_subject!r}, "
                    f"not of {self._subject!r}: delete it, or choose another queue"
                )
            # `add_consumer` updates a consumer that exists.
            await jetstream.add_consumer(stream, config=found, **settings)
        return await jetstream.subscribe(
            self._subject,
            queue=name,
            stream=stream,
            cb=self._receive,
            manual_ack=True,
            config=ConsumerConfig(**settings),
        )

    def _delay(self, number: int) -> float:
        """Return the seconds between the delivery of this number, from 1 on, and the next one."""
        return self._ack_seconds * float(2 ** min(number - 1, _MAX_DOUBLINGS))

    async def _watch(self, jetstream: JetStreamContext) -> None:
        """Take up the consumer again if it is gone, or was made again by another worker.

        nats-py makes subscriptions of core NATS again, but a consumer belongs to the broker: it can be deleted, and is
        lost with a stream in memory.
        """
        said = ""  # what the log has said already
        # Not `while True`: on Python 3.11 a request of nats-py swallows a cancellation if its response is there.
        while self._watching is not None:
            await asyncio.sleep(min(self._ack_seconds or 10.0, 10.0))
            old = self._subscription
            found = ""
            try:
                info = await old.consumer_info()
                if info.config.deliver_subject == old.subject:
                    said = ""
                    continue
                found = "was made again"
            except NotFoundError:
                found = "is gone"
            except (NatsError, TimeoutError) as error:
                # Without a connection nothing can be known; nats-py reports that.
                if not said and self._connection.is_connected:
                    said = "the broker does not say whether the consumer of %s exists: %r"
                    _logger.warning(said, self._subject, error)
                continue
            try:
                self._subscription = await self._consume(jetstream)
                await confirm(self._connection)
            except (NatsError, ValueError, TimeoutError) as error:
                text = "the consumer of %s %s, and cannot be taken up again: no messages arrive: %s"
                if said != text:
                    said = text
                    why = "no stream has the subject" if isinstance(error, NotFoundError) else repr(error)
                    _logger.error(text, self._subject, found, why)
                continue
            said = ""
            _logger.warning("the consumer of %s %s: the service has taken it up again", self._subject, found)
            with contextlib.suppress(NatsError):
                await old.unsubscribe()

    async def stop(self, grace_seconds: float | None = 30.0) -> None:
        """Stop receiving, serve the messages that have arrived, and return when their responses are sent.

        Args:
            grace_seconds: After this time the functions that still run are cancelled, and their callers get no
                response, and messages that have not begun are refused; None: no limit.
        """
        check_seconds("grace_seconds", grace_seconds)
        loop = asyncio.get_running_loop()
        end = None if grace_seconds is None else loop.time() + grace_seconds
        broker_seconds: Any = 10.0  # the longest time; nats-py declares an int
        if grace_seconds is not None:
            broker_seconds = min(max(grace_seconds, CLOSE_SECONDS), broker_seconds)
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
        # First stop receiving; messages that have arrived are still served.
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await self._unsubscribe(subscription, broker_seconds)
        try:
            while self._tasks and (end is None or loop.time() < end):
                left = None if end is None else end - loop.time()
                await asyncio.wait(self._tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            unserved = list(self._waiting)
            self._waiting.clear()
            for task in self._tasks:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5.0)
        if self._jetstream is None:  # a stream sends again what is not acknowledged
            for message in unserved:
                with contextlib.suppress(NatsError):  # the hooks are told of it in any case
                    await self._refuse(message, "the service has stopped")
        if self._connection.is_connected:
            with contextlib.suppress(NatsError), reading_on(self._connection):
                await self._connection.flush(broker_seconds)

    async def _unsubscribe(self, subscription: Any, broker_seconds: Any) -> None:
        """End the subscription: receive only what the broker has already sent. Do not wait for a broker that hangs.

        nats-py keeps a subscription whose `drain` fails, makes it again when it reconnects, and has no public way to
        end it: `unsubscribe` refuses a subscription that is marked as closed.
        """
        with contextlib.suppress(NatsError):  # the connection is closed: nothing more arrives
            if self._connection.is_connected:
                try:
                    with reading_on(self._connection):
                        await self._connection.flush(broker_seconds)
                        # A late response to an earlier flush may have settled this one: the broker may hang.
                        await asyncio.wait_for(subscription.drain(), broker_seconds)
                    return
                except TimeoutError:
                    # `drain` has marked it as closed: see above.
                    subscription._closed = False
            await subscription.unsubscribe()

    async def _receive(self, message: Msg) -> None:
        """Begin to serve a message. Never waits, because nats-py would drop messages meanwhile."""
        if len(self._tasks) < self._max_handlers:
            self._begin(message)
        # A stream never exceeds `max_ack_pending`, so its messages need no bound here.
        elif len(self._waiting) < self._max_waiting or self._jetstream is not None:
            self._waiting.append(message)
        else:
            await self._refuse(message, "the service has too many messages")

    async def _refuse(self, message: Msg, text: str) -> None:
        """Refuse a message that will not be served. The hooks are told, too: nobody else learns of a notification."""
        self._report(StateError(text))
        await self._respond(message, self._refusal(message.data, SessionErrorCode.SERVER_BUSY, text))

    def _begin(self, message: Msg) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(message))
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("the response to a message could not be sent: %r", error, exc_info=error)
        if self._waiting:
            self._begin(self._waiting.popleft())

    async def _serve(self, message: Msg) -> None:
        if self._jetstream is not None and await self._is_dead(message):
            return
        outcomes: list[bool] = []
        _served.set(outcomes)
        dispatch = self._dispatch.continuing(message.headers)
        response = dispatch.start(message.data, message, None, self._timeout, self._max_handlers)
        if not isinstance(response, bytes):
            response = await response
        # nats-py would raise, and the caller would wait for its timeout.
        if len(response) > self._connection.max_payload:
            text = "the response is larger than the broker allows"
            response = self._refusal(message.data, ErrorCode.INTERNAL_ERROR, text)
        try:
            await self._respond(message, response)
        finally:
            if self._jetstream is not None:
                # Nobody learns of a notification that failed, or that no function serves: it is delivered again. After
                # a response, acknowledged even if that cannot be sent: the functions would run again and again.
                is_told = bool(response) and REPLY_HEADER in (message.headers or {})
                if all(outcomes) and (outcomes or is_told):
                    await message.ack()
                else:
                    await message.nak(self._delay(message.metadata.num_delivered))

    async def _is_dead(self, message: Msg) -> bool:
        """Return whether a message was delivered too often, and make it a dead letter."""
        found, limit = message.metadata, self._max_deliveries
        if limit is None or found.num_delivered <= limit:
            return False
        place = f"message {found.sequence.stream} of the stream {found.stream!r} ({message.subject})"
        if self._dead_letters is None:
            # Without an acknowledgement it stays in the stream. This was its last delivery.
            _logger.error("%s was delivered %d times and not served: it stays in the stream", place, limit)
        else:
            await self._connection.publish(self._dead_letters, message.data, headers=message.headers)
            await confirm(self._connection)
            await message.ack()
            _logger.error("%s was delivered %d times and not served: a dead letter", place, limit)
        text = "the message was delivered too often without being served"
        await self._respond(message, self._refusal(message.data, ErrorCode.INTERNAL_ERROR, text))
        return True

    def _refusal(self, data: bytes, code: int, text: str) -> bytes:
        """Return the error responses that refuse all requests of a message."""
        response = self._dispatch.failed(data, RpcError(code, text))
        if len(response) <= self._connection.max_payload:
            return response
        return encode_error(None, code, text, delimited=False)  # only the responses to a batch can be so large

    async def _respond(self, message: Msg, response: bytes) -> None:
        """Publish a response to the subject that the sender chose.

        The sender may not be allowed to publish to it, but this side is. So the response does not go to the subjects of
        the broker, which begin with `$`: a message to JetStream's API may delete the messages in a stream.
        """
        subject = (message.headers or {}).get(REPLY_HEADER, "")
        if not subject and self._jetstream is None:
            subject = message.reply  # otherwise the sender's own inbox, or that of JetStream's acknowledgement
        if not (subject and response):
            return
        try:
            if subject.startswith("$") or len(subject.encode()) > MAX_SUBJECT_BYTES:
                raise BadSubjectError
            await self._connection.publish(subject, response)
        except BadSubjectError:  # at debug level, because any client can cause it
            _logger.debug("a response is dropped: its subject is invalid, is too long or belongs to the broker")


class _Outcomes:
    """Hooks that note in `_served` how each request of a message ended, around those of the user."""

    def __init__(self, hooks: Hooks | None) -> None:
        self._hooks = hooks
        self._found = FoundHooks(hooks)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._hooks, name)

    def fault(self, error: BaseException, method: str | None, id: MessageId) -> None:
        found = self._found
        if method is not None:
            found.handler_fault(error, method, id)
        else:
            (found.peer_fault if isinstance(error, ParseError) else found.fault)(error)

    def request_served(
        self, trace: Any, id: MessageId, method: str, outcome: Outcome, code: int | None, seconds: float
    ) -> None:
        _served.get().append(id is not None or outcome is Outcome.RESULT)
        if self._found.request_served is not None:
            self._found.request_served(trace, id, method, outcome, code, seconds)


def consumer_name(queue: str, subject: str) -> str:
    """Return the name of the durable consumer of the services with a queue and a subject.

    Two subjects never share a name: a hash distinguishes subjects that differ in characters a name may not contain.
    """
    # 64 bits: two of a few thousand subjects do not share them.
    digest = sha256(f"{queue} {subject}".encode()).hexdigest()[:16]
    # The broker makes a file with the name of a consumer, and file names have at most 255 bytes.
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', f'{queue}-{subject}')[:200]}-{digest}"
