"""The fast path of serving: decode, look up, call and encode. Most requests take it. The core has the same.

A request is *plain* if all of these hold. For any other message no function has been called when it goes the ordinary
way.
  - It is a request, and not an item of a batch.
  - Its method has a handler that does not need the context.
  - In a session: it arrives on the stream and not by an exchange of its own, its id is not in flight, and nothing makes
    messages wait or shows them to hooks (`PlainServer.room`).

The function of a plain request is called as in the ordinary way. If it returns a value that is not an
awaitable and can be written, that value is the result. Otherwise the ordinary way gets what the function returned or
raised, and concludes the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any

from ..errors import HANDLER_FAILURES
from ..types import UNSET, MessageId, Unset, is_awaitable
from ._messages import Raw, Request

Find = Callable[[str], Any]
"""Returns the handler of a method, or None: a `jsonrpc_fast.handlers.Handler`, whose `plain`, `takes_raw`,
`wants_context` and `invoke` are used."""
Called = tuple[Any, Any, Any, "BaseException | None"]
"""A message; the handler whose function was called for it, or None; what the function returned; what it raised."""


def call_plain(handler: Any, params: Any) -> Any:
    """Call the function of a handler that does not need the context."""
    function = handler.plain
    if function is None or type(params) is Raw:
        return handler.invoke(params, None)
    if type(params) is dict:
        return function(**params)
    return function() if params is None else function(*params)


class PlainServer:
    """Serves the plain requests of one conversation.

    Args:
        find: Returns the handler of a method, or None.
        serving: The requests that are being served, by id.
        encode: Writes a response, as `encode_result` does.
        context: Each function runs in a copy of it.
        receive: Called with each other message and its destination; returns what `receive` returns.
        conclude: Called with a message, its handler, the context, and what the function returned or raised, if the
            response is not known yet; returns what `receive` returns.

    Attributes:
        find: As the argument. Methods may be added.
        room: While it is positive, requests need not wait, and so many bytes may be written before the receiver has to
            ask again how much is unwritten. It is never positive while messages must wait, or while hooks see them.
        last_read: The id of the last request that was read; UNSET before the first.
    """

    __slots__ = ("_conclude", "_context", "_encode", "_receive", "_serving", "find", "last_read", "room")

    def __init__(
        self,
        find: Find,
        serving: Mapping[Any, object],
        encode: Callable[..., bytes],
        context: Context,
        receive: Callable[[Any, Any], bytes | None],
        conclude: Callable[[Any, Any, Context, Any, BaseException | None], bytes | None],
    ) -> None:
        self.find: Find = find
        self.room: int = 0
        self.last_read: MessageId | Unset = UNSET
        self._serving = serving
        self._encode = encode
        self._context = context
        self._receive = receive
        self._conclude = conclude

    def receive(self, message: Any, destination: Any = None) -> bytes | None:
        """Handle a decoded message or batch. Return the response for the stream, if it is known at once.

        Args:
            message: What the codec returned, or what was put in its place.
            destination: The place for the responses; None: the stream.
        """
        handler = None
        if self.room > 0 and destination is None and type(message) is Request and not self._is_in_flight(message.id):
            handler = self.find(message.method)
        if handler is None or (handler.plain is None and handler.wants_context):
            return self._receive(message, destination)
        self.last_read = message.id
        # Whatever made the transport read, such as another handler, has a context of its own.
        context = self._context.copy()
        try:
            result = context.run(call_plain, handler, message.params)
        # Not only `Exception`: a CancelledError or a SystemExit of a function is its own failure, too. Passed on, it
        # would end the reading of the stream, and the request would get no response.
        except BaseException as error:
            response = self._conclude(message, handler, context, None, error)
            if isinstance(error, KeyboardInterrupt):
                raise
            return response
        if not is_awaitable(result):
            try:
                text = self._encode(message.id, result)
            except HANDLER_FAILURES:
                pass  # encoded again in the ordinary way, which says why
            else:
                self.room -= len(text)
                return text
        return self._conclude(message, handler, context, result, None)

    def _is_in_flight(self, id: MessageId) -> bool:
        # An id of another type has another key there (`Requests`).
        return bool(self._serving) and (type(id) not in (int, str) or id in self._serving)
