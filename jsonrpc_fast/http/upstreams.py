"""Several servers behind one client: fail-over as a transport of the HTTP clients. It needs the extra `http`.

    upstreams = Upstreams("https://a.example/rpc", "https://b.example/rpc", may_repeat=lambda name: name in READS)
    client = AsyncHttpClient("https://a.example/rpc", transport=upstreams)

Rules:
  - A request goes to the first upstream that is not resting; if all of them rest, it waits, but never longer than the
    call may take: then it fails at once, unsent. An upstream that fails rests: longer with each failure in a row, or as
    long as its `Retry-After` says. Attempts that begin before the end of a rest and fail count as one failure.
  - A request that was certainly not served may be sent again, first to the others: no connection was made, or the
    status is 429. After any other failure, and after 502, 503 and 504, it may have been served: it is sent again only
    if `may_repeat` returns true for each of its methods.
  - When no further attempt is made, the client gets the last response or exception, as from a single server. An outcome
    after which the request may have been served takes precedence. If the body of a response breaks off, or stops, the
    client gets that failure, and the upstream does not rest: only the status is considered.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf
from typing import Any, Final, Self

from ..codec import Notification, Request, decode
from ..profile import LENIENT
from ..support import check_callable, check_count, check_seconds, logger_of
from .library import refuse_httpx, url_of

try:
    import anyio
    import httpx2
except ImportError as _error:
    raise ImportError('the HTTP clients need the extra `http`: pip install "jsonrpc_fast[http]"') from _error

_logger: Final = logger_of("http")

MAX_REST_SECONDS: Final = 300.0
"""The longest rest of an upstream, even if its `Retry-After` is longer."""

_ANY_FORM: Final = LENIENT.replace(optional_jsonrpc=True)
"""A profile that reads all forms that a client may write (`Profile.writes`)."""


class Upstreams:
    """A transport of httpx2 that sends each request to one of several servers.

    It serves sync and async clients. The URL of the request is replaced by that of the upstream, and its headers are
    kept. Put the credentials of an upstream into its URL.

    Args:
        urls: The URLs of the servers, the preferred one first.
        attempts: How many times a request is sent, at most.
        may_repeat: Called with a method; returns whether it may run twice, like a method that only reads. By default no
            method may.
        attempt_seconds: How long each wait for one upstream may take: for a connection, for room to write, for the
            headers of the response, and for each further part of its body. Their sum is bounded only by the timeout of
            the call. None: as long as the call.
        transport: The transport that sends the requests, of httpx2; by default one with the default options.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: There are no URLs, one is malformed, or a number is out of range.
    """

    inner: Any

    def __init__(
        self,
        *urls: str,
        attempts: int = 3,
        may_repeat: Callable[[str], bool] | None = None,
        attempt_seconds: float | None = None,
        transport: Any = None,
    ) -> None:
        check_count("attempts", attempts, 1, may_be_none=False)
        check_callable("may_repeat", may_repeat)
        check_seconds("attempt_seconds", attempt_seconds)
        if not urls:
            raise ValueError("there must be at least one URL")
        refuse_httpx(transport)
        self.inner = transport
        self._upstreams = [_Upstream(str(url_of(url))) for url in urls]
        self._lock = threading.Lock()  # of `inner`: threads may share a sync client
        self._attempts = attempts
        self._may_repeat = may_repeat
        self._rest_seconds = 1.0  # after a failure; each further one after the rest doubles this time
        self._attempt_seconds = inf if attempt_seconds is None else attempt_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Close the connections of a sync client."""
        if self.inner is not None:
            self.inner.close()

    async def aclose(self) -> None:
        """Close the connections of an async client."""
        if self.inner is not None:
            await self.inner.aclose()

    def handle_request(self, request: Any) -> Any:
        """Send a request of a sync client, and return the response."""
        exchange = _Exchange(self, request, request.read(), time.monotonic())
        with self._lock:
            if self.inner is None:
                self.inner = httpx2.HTTPTransport()
        while True:
            upstream, seconds = exchange.next(time.monotonic())
            if seconds:
                time.sleep(seconds)
            try:
                response = self.inner.handle_request(exchange.request_to(upstream, time.monotonic()))
            except httpx2.TransportError as error:
                exchange.failed(upstream, error, time.monotonic())
            else:
                if exchange.is_last(upstream, response, time.monotonic()):
                    return response
                response.close()

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request of an async client, and return the response."""
        exchange = _Exchange(self, request, await request.aread(), anyio.current_time())
        if self.inner is None:
            self.inner = httpx2.AsyncHTTPTransport()
        while True:
            upstream, seconds = exchange.next(anyio.current_time())
            if seconds:
                await anyio.sleep(seconds)
            try:
                response = await self.inner.handle_async_request(exchange.request_to(upstream, anyio.current_time()))
            except httpx2.TransportError as error:
                exchange.failed(upstream, error, anyio.current_time())
            else:
                if exchange.is_last(upstream, response, anyio.current_time()):
                    return response
                await response.aclose()


@dataclass(slots=True, eq=False, repr=False)
class _Upstream:
    """A server, and the end of its rest."""

    url: str
    failures: int = 0  # in a row
    rests_until: float = -inf
    has_asked: bool = False  # whether a call has tried it during this rest


class _Exchange:
    """A request and its attempts, without IO."""

    def __init__(self, owner: Upstreams, request: Any, body: bytes, now: float) -> None:
        self._owner = owner
        self._request = request
        self._body = body
        self._attempts = 0
        self._begun = now  # when the current attempt began
        self._timeouts: dict[str, float | None] = request.extensions.get("timeout", {})
        # httpx2 has a timeout for each kind of wait. The largest is taken as that of the call.
        given = [seconds for seconds in self._timeouts.values() if seconds is not None]
        self._deadline = now + max(given) if given else inf
        self._may_be_served: Exception | None = None  # the last failure after which the request may have been served
        self._tried: set[_Upstream] = set()
        self._chosen: tuple[_Upstream, float] | None = None  # for the next attempt, and when it may begin

    def next(self, now: float) -> tuple[_Upstream, float]:
        """Return the upstream for the next attempt, and how long to wait for it.

        Raises:
            ConnectError: Of httpx2. This is the first attempt, and all upstreams rest for longer than the call
                may take.
            TransportError: Of httpx2. There is no further attempt, and the request may have been served.
        """
        if not self._attempts:
            self._chosen = self._choose(now)
        # `_may_continue` has chosen the upstream of every further attempt.
        if self._may_be_served is not None and self._chosen is None:
            raise self._may_be_served
        if self._chosen is None:
            seconds = min(upstream.rests_until for upstream in self._owner._upstreams) - now
            text = f"all upstreams rest, for {seconds:.1f} s or more"
            raise httpx2.ConnectError(text, request=self._request)
        self._attempts += 1
        (upstream, start), self._chosen = self._chosen, None
        self._tried.add(upstream)
        return upstream, min(max(start - now, 0.0), max(self._deadline - now, 0.0))

    def _choose(self, now: float) -> tuple[_Upstream, float] | None:
        """Return the upstream to try next, and when; None if each rests for longer than the call may take."""
        upstreams = [upstream for upstream in self._owner._upstreams if self._is_in_reach(upstream, now)]
        if not upstreams:
            return None
        found = min(upstreams, key=lambda upstream: (upstream in self._tried, max(upstream.rests_until, now)))
        # One call may try a resting upstream early. Otherwise a short failure of all would make calls fail for
        # the whole rest.
        return found, now if self._may_try(found) else max(found.rests_until, now)

    def _is_in_reach(self, upstream: _Upstream, now: float) -> bool:
        if upstream.rests_until <= now:
            return True
        return self._may_try(upstream) or upstream.rests_until < self._deadline

    def _may_try(self, upstream: _Upstream) -> bool:
        """Return whether to try an upstream although it rests: if all have failed, one may have recovered."""
        return not self._tried and not upstream.has_asked

    def request_to(self, upstream: _Upstream, now: float) -> Any:
        """Return the request as it is sent to an upstream, with no more time than is left for the call."""
        self._begun = now
        request, url = self._request, httpx2.URL(upstream.url)
        # httpx2 sets Host and Content-Length again, for the URL of the upstream.
        not_copied = b"host", b"content-length", b"transfer-encoding"
        headers = [field for field in request.headers.raw if field[0].lower() not in not_copied]
        # Credentials of this upstream replace those of the client, which would otherwise be sent to every upstream.
        if url.userinfo:
            headers = [field for field in headers if field[0].lower() != b"authorization"]
            user = f"{url.username}:{url.password}".encode()
            headers.append((b"authorization", b"Basic " + base64.b64encode(user)))
        # More than 0, because with 0 httpx2 would not even wait for the connection.
        left = min(self._owner._attempt_seconds, max(self._deadline - now, 0.001))
        timeouts = {name: min(inf if given is None else given, left) for name, given in self._timeouts.items()}
        timeouts = {name: None if seconds == inf else seconds for name, seconds in timeouts.items()}
        extensions = {**request.extensions, "timeout": timeouts}
        return httpx2.Request(request.method, url, headers=headers, content=self._body, extensions=extensions)

    def is_last(self, upstream: _Upstream, response: Any, now: float) -> bool:
        """Return whether a response goes to the client; if not, `next` returns the next attempt, or raises."""
        status = response.status_code
        # Any other status is the response of the service, even an error: another upstream would give the same one.
        if status not in (429, 502, 503, 504):
            upstream.failures = 0
            return True
        self._rest(upstream, now, f"status {status}", _retry_seconds(response.headers.get("retry-after")))
        # 429 says that the request was not served (RFC 6585, section 4). After 502, 503 and 504 a server behind a proxy
        # may have served it.
        was_refused = status == 429
        may_continue = self._may_continue(now, was_refused)
        if not was_refused and self._may_be_served is None:
            self._may_be_served = httpx2.ReadError(f"status {status}", request=self._request)
        return not may_continue and not (was_refused and self._may_be_served)

    def failed(self, upstream: _Upstream, error: Exception, now: float) -> None:
        """Count a failed attempt, and raise the exception if it is the last one."""
        # The text of another error may hold what the server sent.
        why = f": {error}" if isinstance(error, httpx2.ConnectError) else ""
        self._rest(upstream, now, f"{type(error).__name__}{why}", None)
        # Without a connection nothing was sent. A read or write error comes after the request has begun to be sent.
        was_refused = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout))
        may_continue = self._may_continue(now, was_refused)
        if not was_refused and self._may_be_served is None:
            self._may_be_served = error
        if not may_continue:
            raise self._may_be_served or error

    def _may_continue(self, now: float, was_refused: bool) -> bool:
        if self._attempts >= self._owner._attempts or now >= self._deadline:
            return False
        self._chosen = self._choose(now)
        return self._chosen is not None and (was_refused or self._may_repeat())

    def _may_repeat(self) -> bool:
        may_repeat = self._owner._may_repeat
        if may_repeat is None:
            return False
        decoded: Any = decode(self._body, _ANY_FORM, raw=True)
        items = decoded if isinstance(decoded, list) else [decoded]
        # All methods of a batch must be repeatable, because it is sent again as a whole.
        return all(isinstance(item, (Request, Notification)) and may_repeat(item.method) for item in items)

    def _rest(self, upstream: _Upstream, now: float, reason: str, seconds: float | None) -> None:
        if self._begun < upstream.rests_until:
            if seconds is None:
                return
            seconds = max(seconds, upstream.rests_until - now)
        else:
            upstream.failures += 1
        # After a `Retry-After` the upstream is not tried early: it has said when it will be available.
        upstream.has_asked = seconds is not None
        if seconds is None:
            # The exponent has a bound because a float overflows beyond 2**1023.
            seconds = self._owner._rest_seconds * 2.0 ** min(upstream.failures - 1, 30)
        seconds = min(seconds, MAX_REST_SECONDS)
        upstream.rests_until = now + seconds
        host = httpx2.URL(upstream.url).host  # only the host: the path of a URL may contain a key
        _logger.warning("the upstream %s failed (%s) and is not used for %.1f s", host, reason, seconds)


def _retry_seconds(value: str | None) -> float | None:
    """Return the seconds of a `Retry-After` (RFC 9110, section 10.2.3); None if it is absent or malformed."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        # Nine digits are 31 years; a longer number would be slow to convert, or overflow.
        return float(value[:9])
    try:
        until = parsedate_to_datetime(value)
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        return max((until - datetime.now(UTC)).total_seconds(), 0.0)
    except (TypeError, ValueError, OverflowError):
        return None
