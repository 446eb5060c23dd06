"""Calls to the services on a subject."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack, overload

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
from ...hooks import Hooks, exchange
from ...http.exchanges import ExchangeClient, ReadResponse
from ...profile import JSONRPC, Profile
from ...session import TIMEOUT_SECONDS
from ...support import check_headers, check_seconds, check_type
from ...types import UNSET
from .connection import check_subject
from .inbox import inbox_of
from .service import REPLY_HEADER

T = TypeVar("T")


class PublishOptions(TypedDict, total=False):
    """The options of `call`, except the type of the result."""

    timeout: float | None
    headers: Mapping[str, str] | None


class ServiceClient(ExchangeClient):
    """A client of the services on a subject.

    Args:
        connection: A connection of nats-py, which is not closed with the client.
        subject: The subject of the service.
        jetstream: Put the messages into the stream that has the subject.
        timeout: Seconds until a call times out.
        headers: Headers of every message.
        profile: The rules for responses, and the form of requests (`Profile.writes`).
        raw: Return results and error data as `Raw`.
        default: As in `encode`, for params.
        option: As in `encode`.
        hooks: An object with methods for metrics and traces; see `jsonrpc_fast.hooks`. A trace context is sent in the
            headers.

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
        profile: Profile = JSONRPC,
        raw: bool = False,
        default: Callable[[Any], Any] | None = None,
        option: int = 0,
        hooks: Hooks | None = None,
    ) -> None:
        check_type("connection", connection, Client)
        check_subject("subject", subject)
        check_type("jetstream", jetstream, JetStreamContext, may_be_none=True)
        check_seconds("timeout", timeout, may_be_none=False)
        self._headers = _checked(headers)
        super().__init__(timeout, profile, raw, default, option, hooks)
        self._connection = connection
        self._subject = subject
        self._jetstream = jetstream

    @overload
    async def call(
        self, method: str, params: Params = None, *, returns: type[T], **options: Unpack[PublishOptions]
    ) -> T: ...

    @overload
    async def call(
        self, method: str, params: Params = None, *, returns: Any = ..., **options: Unpack[PublishOptions]
    ) -> Any: ...

    async def call(
        self,
        method: str,
        params: Params = None,
        *,
        returns: Any = UNSET,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Call a method and return its result.

        Args:
            method: The method to call.
            params: A list (positional), a dict (named) or None.
            returns: The type of the result, as in `Session.call`.
            timeout: Seconds until the call times out; None for the timeout of the client.
            headers: Further headers of the message.

        Returns:
            The result.

        Raises:
            RpcError: The service responded with an error.
            CallTimeout: No response arrived in time: the function may have run, or may still run.
            ConnectionLost: No service is subscribed, or the connection is closed or cannot take more. Its `was_sent` is
                then False: the call may be sent again.
            InvalidResponse: The reply is not a response to this call, or its result is not of the type `returns`.
            EncodeError, TypeError: The params cannot be encoded, or the type `returns` is not supported.
            ValueError: The message is larger than the broker allows, `timeout` is negative or NaN, a header has a wrong
                name, or one is Jsonrpc-Reply-To, which the client sets itself.
        """
        return await self._call(method, params, returns, timeout, {**self._headers, **_checked(headers)})

    async def notify(self, method: str, params: Params = None, *, headers: Mapping[str, str] | None = None) -> None:
        """Send a notification. With JetStream it is stored when this returns; otherwise it may be lost.

        Args:
            method: The method.
            params: As in `call`.
            headers: As in `call`.

        Raises:
            Exception: As in `call`, but no RpcError and no InvalidResponse.
        """
        text = self._encode_call(method, params)
        with exchange(self._hooks, {None: method}) as exchanged:
            sent = dict(exchanged.headers({**self._headers, **_checked(headers)}) or {}) or None
        try:
            if self._jetstream is None:
                await self._connection.publish(self._subject, text, headers=sent)
            else:
                await self._jetstream.publish(self._subject, text, timeout=self._timeout, headers=sent)
        except (TimeoutError, NatsError) as error:
            raise _translated(error) from error

    def _seconds_of(self, timeout: Any) -> float:
        seconds: Any = self._timeout if timeout is None else timeout
        check_seconds("timeout", seconds, may_be_none=False)
        return float(seconds)

    async def _post(self, body: bytes, seconds: float | None, headers: Mapping[str, str] | None) -> ReadResponse:
        assert seconds is not None
        send = partial(self._send, body, dict(headers or {}), seconds)
        try:
            inbox = await inbox_of(self._connection)
            return ReadResponse(200, {}, await inbox.request(send, seconds))
        except NatsError as error:
            raise _translated(error) from error

    async def _send(self, data: bytes, headers: dict[str, str], seconds: float, inbox: str) -> None:
        """Publish a request, or store it in the stream. The response comes on the subject `inbox`."""
        if self._jetstream is None:
            await self._connection.publish(self._subject, data, reply=inbox, headers=headers or None)
        else:
            # JetStream uses the reply subject of the message for its acknowledgement.
            headers = {**headers, REPLY_HEADER: inbox}
            await self._jetstream.publish(self._subject, data, timeout=seconds, headers=headers)


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
        return CallTimeout("no response arrived in time")
    return ConnectionLost(str(error) or type(error).__name__)
