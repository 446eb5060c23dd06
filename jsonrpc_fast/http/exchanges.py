"""Clients each of whose calls is an exchange: one request and its response, over HTTP or another carrier. No IO.

A response settles a call only if it has the id of the call. So does an error with the id null or without an id: the
HTTP response belongs to this request, in every profile. In a batch such an error belongs to the whole batch if it is
the only response, and otherwise to the only call without a response. The HTTP status of a response that settles a call
is ignored, because some servers map error codes to statuses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from typing import Any

from ..codec import Notification, Params, ParseError, Response, decode
from ..codec._backend import decoded
from ..codec._json import Default
from ..codec.encoders import Encoders
from ..codes import ErrorCode
from ..errors import CallTimeout, HttpStatusError, InvalidResponse, RpcError, malformed, no_response
from ..handlers.caller import BatchItem
from ..hooks import FoundHooks, Hooks, exchange
from ..profile import CLIENT, Profile, check_batches, check_profile, is_at_least_as_strict
from ..support import check_callable, check_seconds, check_type, shorten
from ..types import UNSET, Unset

__all__ = ["ExchangeClient", "ReadResponse"]


@dataclass(slots=True, eq=False, repr=False)
class ReadResponse:
    """An HTTP response that was received as a whole.

    Attributes:
        exchange: See `HttpStatusError`.
        is_success: Whether the status is 2xx.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    exchange: str = ""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_page(self) -> bool:
        """Whether a body that is not JSON is a page for people: it begins with a tag, or is HTML that has one.

        The type alone does not say so: PHP, Flask and Express call any text HTML, such as OK or a line break.
        """
        is_html = self.headers.get("content-type", "").lower().startswith("text/html")
        return self.body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or (is_html and b"<" in self.body)

    def status_error(self) -> HttpStatusError:
        return HttpStatusError(self.status, dict(self.headers), self.body[:4096], len(self.body), self.exchange)

    def fault(self, reason: str) -> HttpStatusError | InvalidResponse:
        """Return the exception for an HTTP response that contains no response to the call."""
        return InvalidResponse(reason) if self.is_success else self.status_error()


class ExchangeClient:
    """What such clients share: how a message is sent with `_post`, which does the IO. `HttpClient` has the options.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    def __init__(
        self,
        timeout: float | None,
        profile: Profile,
        raw: bool,
        default: Default,
        hooks: Hooks | None,
        extra: Mapping[str, Any] | None,
    ) -> None:
        check_callable("default", default)
        check_profile(profile)
        check_type("extra", extra, Mapping, may_be_none=True)
        Notification("", extra=dict(extra or {}))  # refuses a name that JSON-RPC defines
        self._extra = extra
        self._timeout = timeout
        self._profile = profile
        self._is_lenient = is_at_least_as_strict(CLIENT, profile)
        self._reads = _without_ids(profile)
        self._raw = raw
        self._encode_call = partial(Encoders(profile).encode_call, delimited=False, default=default)
        self._ids = count(1)
        self._hooks = None if hooks is None else FoundHooks(hooks)

    def _seconds_of(self, timeout: float | Unset | None) -> float | None:
        """Return the seconds until a call times out."""
        if isinstance(timeout, Unset):
            return self._timeout
        check_seconds("timeout", timeout, may_be_zero=False)
        return timeout

    async def _post(self, body: bytes, seconds: float | None, headers: Mapping[str, str] | None) -> ReadResponse:
        """Send a text and return the response. The text of its CallTimeout is what else is known."""
        raise NotImplementedError

    async def _response(
        self, to: str, body: bytes, seconds: float | None, headers: Mapping[str, str] | None
    ) -> ReadResponse:
        try:
            response = await self._post(body, seconds, headers)
        except CallTimeout as error:
            raise no_response(to, seconds, str(error)) from error.__cause__
        response.exchange += f" to {to}"
        return response

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
        seconds = self._seconds_of(timeout)
        id = next(self._ids) if is_call else None
        text = self._encode_call(method, params, UNSET if id is None else id, extra=self._members(extra))
        with exchange(self._hooks, {id: method}) as sent:
            response = await self._response(shorten(method), text, seconds, sent.headers(headers))
            if id is None:
                return self._check_notified(response)
            return self._read_result(response, id, is_typed)

    async def _send_batch(
        self,
        items: list[BatchItem],
        is_typed: bool,
        *,
        timeout: float | Unset | None = UNSET,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        seconds = self._seconds_of(timeout)
        ids, calls, text = self._encode_batch(items, self._members(extra))
        with exchange(self._hooks, calls) as sent:
            response = await self._response(f"a batch of {len(ids)}", text, seconds, sent.headers(headers))
            found = dict(zip(calls, sent.settled(self._read_results(response, calls, is_typed)), strict=True))
        return [None if id is None else found[id] for id in ids]

    def _members(self, extra: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Return the further members of a message; those of the call come before those of the client."""
        return {**(self._extra or {}), **(extra or {})}

    def _encode_batch(
        self, items: list[BatchItem], extra: Mapping[str, Any]
    ) -> tuple[list[int | None], dict[int | None, str], bytes]:
        """Return the id of each item, None for a notification; the methods of the calls by id; and the text."""
        ids: list[int | None] = []
        calls: dict[int | None, str] = {}
        texts = []
        for item in items:
            if isinstance(item, Notification):
                ids.append(None)
                texts.append(self._encode_call(item.method, item.params, extra={**extra, **(item.extra or {})}))
            else:
                method, params = item
                id = next(self._ids)
                ids.append(id)
                calls[id] = method
                texts.append(self._encode_call(method, params, id, extra=extra))
        if not texts:
            raise ValueError("a batch must not be empty")
        if calls:
            check_batches(self._profile)
        return ids, calls, b"[" + b",".join(texts) + b"]"

    def _decode(self, http_response: ReadResponse, raw: bool) -> Any:
        if not http_response.body:
            raise http_response.fault("the server sent no response")
        received = decode(http_response.body, self._reads, raw=raw)
        # A proxy may send HTML with an error status, which says more than the fault of the body.
        if isinstance(received, ParseError) and not http_response.is_success:
            raise http_response.status_error()
        return received

    def _check_notified(self, http_response: ReadResponse) -> None:
        """Raise the error of a server that refuses a message without calls; it owes no other response.

        Some servers say OK, `{}` or something else. Only a page, of a sign-in or at a wrong URL, shows that the message
        has not arrived.
        """
        received: Any = decode(http_response.body, self._reads, raw=True) if http_response.body else []
        for item in received if isinstance(received, list) else [received]:
            if isinstance(item, Response):
                self._result_of(item)
        if not http_response.is_success:
            raise http_response.status_error()
        is_fault = isinstance(received, ParseError) and received.rpc_code == ErrorCode.PARSE_ERROR
        if is_fault and http_response.is_page:
            raise malformed(received, self._is_lenient)

    def _read_result(self, http_response: ReadResponse, id: int, is_typed: bool) -> Any:
        """Return the result of a call, or raise its error. The result is left as `Raw` if it will get a type."""
        response = self._decode(http_response, self._raw or is_typed)
        if isinstance(response, Response) and self._is_response_to(response, id):
            return self._result_of(response)
        if isinstance(response, ParseError):
            raise malformed(response, self._is_lenient)
        raise http_response.fault("the response does not belong to this call")

    def _read_results(self, http_response: ReadResponse, ids: Collection[int | None], is_typed: bool) -> list[Any]:
        """Return the results of the calls in a batch, in their order; they are left as `Raw` if they will get types."""
        if not ids:
            self._check_notified(http_response)
            return []
        received = self._decode(http_response, self._raw or is_typed)
        if isinstance(received, ParseError):
            raise malformed(received, self._is_lenient)
        # Section 6: the server sends a single error if the batch itself is invalid. Some servers put it into an array.
        whole = received[0] if isinstance(received, list) and len(received) == 1 else received
        if isinstance(whole, Response) and whole.id is None:
            self._result_of(whole)  # the error of the whole batch
        if not isinstance(received, list):
            raise http_response.fault("the response is not a batch")
        sent = set(ids)
        found: dict[int | None, Any] = {}
        unknown: list[Exception] = []  # faults without an id, each of which may belong to any call
        for item in received:
            if isinstance(item, ParseError):
                value: Any = malformed(item, self._is_lenient)
            elif isinstance(item, Response):
                value = item.result if item.error is None else self._error_of(item)
            else:
                raise http_response.fault("the batch has an item that is not a response")
            if item.id is None:
                unknown += [value] if isinstance(value, Exception) else []
            # This client only sends int ids. `True` and 1.0 equal 1 in Python, but are other ids in JSON.
            elif type(item.id) is not int or item.id not in sent:
                raise http_response.fault("the batch has a response to another call")
            elif item.id in found:
                raise http_response.fault("the batch has two responses to one call")
            else:
                found[item.id] = value
        # One error without an id and one call without a response belong together. With more of either, a match would be
        # a guess.
        if len(unknown) == len(ids) - len(found) == 1:
            [missing] = sent - found.keys()
            found[missing] = unknown.pop()
        return [found[id] if id in found else _missing(unknown) for id in ids]

    def _is_response_to(self, response: Response[Any], id: int) -> bool:
        # An error may have no id, or the id null if the server could not read the id (section 5). A result may not,
        # unless the profile says so.
        if response.id is None:
            return response.error is not None or self._profile.missing_ids is True
        return type(response.id) is int and response.id == id

    def _error_of(self, response: Response[Any]) -> RpcError:
        error = response.error
        assert error is not None
        # Error data is not converted to a type.
        return RpcError(error.code, error.message, error.data if self._raw else decoded(error.data))

    def _result_of(self, response: Response[Any]) -> Any:
        if response.error is not None:
            raise self._error_of(response)
        return response.result


@lru_cache(maxsize=64)
def _without_ids(profile: Profile) -> Profile:
    """Return the profile that also accepts errors without an id: the exchange says which request they answer."""
    return profile if profile.missing_ids else profile.replace(missing_ids="errors")


def _missing(unknown: list[Exception]) -> InvalidResponse:
    error = InvalidResponse("the batch has no response to this call")
    error.__cause__ = unknown[-1] if unknown else None
    return error
