"""The implementation of `respond` for both backends, which pass their classes and encoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import HANDLER_FAILURES, RpcError, error_for, internal_error
from ._json import Default, check_option

if TYPE_CHECKING:
    from ._messages import Notification, ParseError, Request, Response
else:
    from ..types import has_type as isinstance  # noqa: A004  # the core compares types the same way


class Responder:
    """The classes and the encoders of a backend."""

    __slots__ = ("_encode", "_encode_error", "_fault", "_notification", "_request", "_response")

    def __init__(
        self,
        request: type[Request[Any]],
        notification: type[Notification[Any]],
        response: type[Response[Any]],
        fault: type[ParseError],
        encode: Callable[..., bytes],
        encode_error: Callable[..., bytes],
    ) -> None:
        self._request = request
        self._notification = notification
        self._response = response
        self._fault = fault
        self._encode = encode
        self._encode_error = encode_error

    def respond(
        self, received: object, handler: Callable[[Any], Any], delimited: bool, default: Default, option: int
    ) -> bytes:
        """Implement `respond`."""
        check_option(option)
        if isinstance(received, list):
            responses = [self._respond(item, handler, False, default, option) for item in received]
            text = b",".join([response for response in responses if response])
            if not text:
                return b""
            return b"[" + text + (b"]\n" if delimited else b"]")
        return self._respond(received, handler, delimited, default, option)

    def _respond(
        self, received: object, handler: Callable[[Any], Any], delimited: bool, default: Default, option: int
    ) -> bytes:
        """Return the response to one message or fault."""
        if isinstance(received, self._request):
            try:
                response = handler(received)
                if not isinstance(response, self._response):
                    raise TypeError(f"the handler must return a Response to a request, not {type(response).__name__}")
                return self._encode(response, delimited=delimited, default=default, option=option)
            except HANDLER_FAILURES as failure:
                error = error_for(failure, received.method, received.id)
            # Encoding the error itself may fail, because its data comes from the handler.
            members = (received.id, error.code, error.message)
            try:
                return self._encode_error(*members, error.data, delimited=delimited, default=default, option=option)
            except HANDLER_FAILURES as failure:
                error = internal_error(failure, received.method, received.id)
            return self._encode_error(received.id, error.code, error.message, delimited=delimited)
        if isinstance(received, self._notification):
            try:
                handler(received)
            # Section 4.1: a notification gets no response, so the error cannot be sent.
            except RpcError:
                pass
            except HANDLER_FAILURES as failure:
                internal_error(failure, received.method)
        elif isinstance(received, self._fault):
            return self._encode(received.to_response(), delimited=delimited) if received.reply_expected else b""
        elif not isinstance(received, self._response):
            raise TypeError(f"received must be what decode returned, not {type(received).__name__}")
        return b""
