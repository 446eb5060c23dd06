"""Calls to the services on a subject."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from nats.aio.client import Client
from nats.errors import (
    ConnectionClosedError,
    ConnectionDrainingError,
    MaxPayloadError,
    NoRespondersError,
    OutboundBufferLimitError,
)
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeout
from nats.js import JetStreamContext

from ...codec import Params
from ...errors import CallTimeout, ConnectionLost
from ...hooks import exchange
from ...http.exchanges import ExchangeClient, ReadResponse
from ...profile import JSONRPC
from ...session import TIMEOUT_SECONDS, Caller
from ...support import check_headers, check_seconds, check_type
from ...types import UNSET, Unset
from .connection import CodecOptions, check_options, check_subject, inbox_of
from .service import REPLY_HEADER


class ServiceClient(ExchangeClient, Caller):
    """A client of the services on a subject.

    After CallTimeout the function may have run, or may still run. ConnectionLost with `was_sent` False says that no
    service is subscribed, or that the connection is closed or cannot take more: the call may be sent again. With
    JetStream a notification is stored when `notify` returns; otherwise it may be lost.

    Args:
        connection: A connection of nats-py, which is not closed with the client.
        subject: The subject of the service.
        jetstream: Put the messages into the stream that has the subject.
        timeout: Seconds until a call times out.
        headers: Headers of every message.
        options: `profile`, `raw`, `default` and `hooks`, as in `HttpClient`. A trace context is sent in the headers.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(
        self,
        connection: Client,
        subject: str,
        *,
        jetstream: JetStreamContext | None = None,
        timeout: float = TIMEOUT_SECONDS,
        headers: Mapping[str, str] | None = None,
        **options: Unpack[CodecOptions],
    ) -> None:
        check_options(options)
        check_type("connection", connection, Client)
        check_subject("subject", subject)
        check_type("jetstream", jetstream, JetStreamContext, may_be_none=True)
        check_seconds("timeout", timeout, may_be_none=False)
        self._headers = _checked(headers)
        profile, raw = options.get("profile", JSONRPC), options.get("raw", False)
        super().__init__(timeout, profile, raw, options.get("default"), options.get("hooks"), None)
        self._connection = connection
        self._subject = subject
        self._jetstream = jetstream

    async def _send(
        self,
        method: str,
        params: Params,
        is_call: bool,
        is_typed: bool,
        *,
        timeout: float | Unset | None = UNSET,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Any:
        headers = {**self._headers, **_checked(headers)}
        if is_call:
            return await super()._send(method, params, True, is_typed, timeout=timeout, headers=headers, extra=extra)
        seconds = self._seconds_of(timeout)
        text = self._encode_call(method, params, extra=extra)
        with exchange(self._hooks, {None: method}) as exchanged:
            headers = dict(exchanged.headers(headers) or {})
        try:
            await self._publish(text, headers, seconds)
        except (TimeoutError, NatsError) as error:
            raise _translated(error) from error

    def _seconds_of(self, timeout: float | Unset | None) -> float | None:
        seconds = self._timeout if isinstance(timeout, Unset) else timeout
        check_seconds("timeout", seconds, may_be_none=False)
        return seconds

    async def _post(self, body: bytes, seconds: float | None, headers: Mapping[str, str] | None) -> ReadResponse:
        assert seconds is not None
        try:
            inbox = await inbox_of(self._connection)
            send = partial(self._publish, body, dict(headers or {}), seconds)
            return ReadResponse(200, {}, await inbox.request(send, seconds))
        except NatsError as error:
            raise _translated(error) from error

    async def _publish(self, data: bytes, headers: dict[str, str], seconds: float | None, inbox: str = "") -> None:
        """Publish a message, or store it in the stream. The response to a request comes on the subject `inbox`."""
        if self._jetstream is None:
            await self._connection.publish(self._subject, data, reply=inbox, headers=headers or None)
            return
        if inbox:
            # JetStream uses the reply subject of the message for its acknowledgement.
            headers = {**headers, REPLY_HEADER: inbox}
        await self._jetstream.publish(self._subject, data, timeout=seconds, headers=headers or None)


def _checked(headers: Mapping[str, str] | None) -> dict[str, str]:
    check_headers(headers, any_values=True)  # nats-py refuses a wrong name too late, with an exception of its own
    found = dict(headers or {})
    # The service would send the response to the subject in the header, and the call would time out.
    if any(name.lower() == REPLY_HEADER.lower() for name in found):
        raise ValueError(f"headers must not contain {REPLY_HEADER}, which the client sets itself")
    return found


def _translated(error: Exception) -> Exception:
    """Return the exception of this package for one of nats-py."""
    if isinstance(error, MaxPayloadError):
        return ValueError("the message is larger than the broker allows")
    if isinstance(error, NoRespondersError):
        return ConnectionLost("no service is subscribed to the subject", was_sent=False)
    if isinstance(error, (ConnectionClosedError, ConnectionDrainingError, OutboundBufferLimitError)):
        return ConnectionLost(str(error), was_sent=False)  # raised before anything is written
    if isinstance(error, (NatsTimeout, asyncio.TimeoutError)):
        return CallTimeout()
    return ConnectionLost(str(error) or type(error).__name__)
