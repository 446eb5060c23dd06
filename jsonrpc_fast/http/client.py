"""JSON-RPC clients over HTTP POST, sync and async, on httpx2. They need the extra `http`.

    with HttpClient("https://example.org/rpc", auth=("user", "password")) as client:
        total = client.call("add", [1, 2])

No request is sent a second time, and redirects are followed only if httpx2 is configured to follow them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from ..codec._json import Default
from ..errors import CallTimeout, ConnectionLost, InvalidResponse
from ..handlers.caller import BatchCaller, BlockingBatchCaller
from ..hooks import Hooks
from ..profile import JSONRPC, Profile
from ..support import check_count, check_headers, check_seconds
from ..types import TIMEOUT_SECONDS, T
from .exchanges import ExchangeClient, ReadResponse
from .library import (
    ERRORS,
    Inflater,
    check_client,
    coding_of,
    exchange_with,
    received_chunks,
    received_chunks_async,
    refuse_httpx,
    translated,
    url_of,
)

try:
    import anyio
    import httpx2
except ImportError as _error:
    raise ImportError('the HTTP clients need the extra `http`: pip install "jsonrpc_fast[http]"') from _error

__all__ = ["AsyncHttpClient", "HttpClient"]

C = TypeVar("C")  # a client of the library


class _BaseClient(ExchangeClient, Generic[C]):
    """The part that both clients share: all except IO. The `_post` of the sync client never waits; see `run_sync`."""

    _kind: ClassVar[type]
    """The client class of the library."""

    def __init__(
        self,
        url: str,
        client: C | None = None,
        *,
        timeout: float | None = TIMEOUT_SECONDS,
        max_response_bytes: int = 64 * 1024 * 1024,
        profile: Profile = JSONRPC,
        raw: bool = False,
        default: Default = None,
        hooks: Hooks | None = None,
        extra: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        check_seconds("timeout", timeout, may_be_zero=False)
        check_count("max_response_bytes", max_response_bytes, 1, may_be_none=False)
        super().__init__(timeout, profile, raw, default, hooks, extra)
        check_client(client, self._kind)
        refuse_httpx(*options.values())
        if client is not None and options:
            raise TypeError("pass an HTTP client or its options, not both")
        self._url = url_of(url, may_be_relative=client is not None or "base_url" in options)
        self._max_response_bytes = max_response_bytes
        self._is_owner = client is None
        self._client: Any = self._kind(**options) if client is None else client

    def __repr__(self) -> str:
        # Neither user and password, nor the path, which may hold a key.
        url = self._url if self._url.host else self._client.base_url
        return f"<{type(self).__name__} of {url.scheme}://{url.netloc.decode()}>"

    def _options(self, body: bytes, headers: Mapping[str, str] | None, seconds: float | None) -> dict[str, Any]:
        """Return the arguments of `Client.stream`. Raises ConnectionLost: the client is closed."""
        if self._client.is_closed:
            raise ConnectionLost("the HTTP client is closed: make a new one", was_sent=False)
        check_headers(headers)
        json_type = "application/json"
        sent = httpx2.Headers({"accept": json_type, "accept-encoding": "gzip", "content-type": json_type})
        sent.update(headers)
        return {"method": "POST", "url": self._url, "content": body, "headers": sent, "timeout": seconds}

    def _inflater(self, response: Any) -> Inflater:
        """Return the decompressor for the body of a response."""
        try:
            return Inflater(coding_of(response))
        except InvalidResponse as error:
            raise ReadResponse(response.status_code, response.headers, b"", exchange_with(response.url)).fault(
                str(error)
            ) from None

    def _collect(self, pieces: Iterable[bytes], received: bytearray) -> None:
        """Add pieces to what was received, within its maximum size."""
        for piece in pieces:
            received += piece
            if len(received) > self._max_response_bytes:
                raise InvalidResponse(f"the response is larger than {self._max_response_bytes} bytes")


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    # The sync client shares the coroutines of the async one. Its `_post` blocks, so they end in their first step.
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("the coroutine waits")


class HttpClient(_BaseClient[httpx2.Client], BlockingBatchCaller):
    """A client of a JSON-RPC server over HTTP. Several threads may share it.

    Args:
        url: Where to POST the messages.
        client: An httpx2 client, which is not closed with this one. By default one is made from `options`.
        timeout: Seconds until a call times out, from its start to the last byte of its response, more than 0; None: no
            limit. Until the body of the response begins, it bounds each wait for the network instead, which a server
            that sends its headers byte by byte can prolong. `AsyncHttpClient` bounds the whole time.
        max_response_bytes: The maximum size of a response in bytes, after decompression; 64 MiB by default.
        profile: The rules for responses, and the form of requests (`Profile.writes`).
        raw: Return results and error data as `Raw`.
        default: As in `encode`, for params.
        hooks: An object with methods for metrics and traces; see `jsonrpc_fast.hooks`. A trace context is sent in the
            headers of the request, except with a batch.
        extra: Further members of each message, by name, for a server that wants such as "auth" beside the params. It is
            read at each message, so a dict may be changed after a login.
        options: Options of `httpx2.Client`, such as `auth`, `headers`, `transport` or `verify`.

    Raises:
        TypeError: An argument has the wrong type, such as one of httpx, or there are a client and options for one.
        ValueError: `url` is not a URL, or a number is out of range.
    """

    _kind = httpx2.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._is_owner:
            self._client.close()

    def _wait(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        return run_sync(method(self, *args, **kwargs))

    async def _post(self, body: bytes, seconds: float | None, headers: Mapping[str, str] | None) -> ReadResponse:
        end = None if seconds is None else time.monotonic() + seconds
        options = self._options(body, headers, seconds)
        received = bytearray()
        # The timeout of httpx2 bounds each wait for the network. The check of `end` bounds the whole body.
        try:
            with self._client.stream(**options) as response:
                inflater = self._inflater(response)
                for chunk in received_chunks(response):
                    if end is not None and time.monotonic() > end:
                        raise CallTimeout
                    self._collect(inflater.feed(chunk), received)
                inflater.finish()
        except ERRORS as error:
            raise translated(error) from error
        return ReadResponse(response.status_code, response.headers, bytes(received), exchange_with(response.url))


class AsyncHttpClient(_BaseClient[httpx2.AsyncClient], BatchCaller):
    """An async client of a JSON-RPC server over HTTP, on asyncio or trio.

    Args:
        url: As in `HttpClient`; so are the arguments that are not described here.
        client: An httpx2 client, which is not closed with this one. By default one is made from `options`.
        timeout: Seconds until a call times out, from its start to the last byte of its response, more than 0; None: no
            limit.
        options: Options of `httpx2.AsyncClient`, such as `auth`, `headers`, `transport` or `verify`.

    Raises:
        TypeError: An argument has the wrong type, such as one of httpx, or there are a client and options for one.
        ValueError: `url` is not a URL, or a number is out of range.
    """

    _kind = httpx2.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._is_owner:
            await self._client.aclose()

    async def _post(self, body: bytes, seconds: float | None, headers: Mapping[str, str] | None) -> ReadResponse:
        options = self._options(body, headers, seconds)
        received = bytearray()
        try:
            with anyio.fail_after(seconds):
                async with self._client.stream(**options) as response:
                    inflater = self._inflater(response)
                    async for chunk in received_chunks_async(response):
                        self._collect(inflater.feed(chunk), received)
                    inflater.finish()
        except ERRORS as error:
            raise translated(error) from error
        except TimeoutError as error:
            raise CallTimeout from error
        return ReadResponse(response.status_code, response.headers, bytes(received), exchange_with(response.url))
