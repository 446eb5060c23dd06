"""The fast path of serving: decode, look up, call and encode. Most requests take it. The core implements the same.

A request is *plain* if all of these hold. For any other message, no function has been called before it takes the
ordinary path.
  - It is a request, but not an item of a batch.
  - Its method has a handler that does not need the context.
  - In a session: it arrives on the stream and not by an exchange of its own, its id is not in flight, and nothing makes
    messages wait or shows them to hooks (`PlainServer.credit`).

A dispatcher serves decoded messages in the same way, without decoding.

The function of a plain request is called as on the ordinary path. If it returns a coroutine, that is started, and may
return the result in its first step. If the result can be written, that is the response. Otherwise the ordinary path
gets the result or the exception, and concludes the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar
from types import CoroutineType
from typing import Any, Self

from ..support import HANDLER_FAILURES
from ..types import UNSET, MessageId, Unset, is_awaitable
from ._messages import Raw, Request

Find = Callable[[str], Any]
"""Returns the handler of a method, or None: a `jsonrpc_fast.handlers.Handler`, whose `plain`, `takes_raw`,
`wants_context` and `invoke` are used."""
Called = tuple[Any, Any, Any, "BaseException | None"]
"""A message; the handler whose function was called for it, or None; the result of the function; its exception."""


def call_plain(handler: Any, params: Any) -> Any:
    """Call the function of a handler that does not need the context."""
    function = handler.plain
    if function is None or type(params) is Raw:
        return handler.invoke(params, None)
    if type(params) is dict:
        return function(**params)
    return function() if params is None else function(*params)


class PlainServer:
    """Serves the plain requests of one conversation. Its subclass serves everything else.

    Attributes:
        find: Returns the handler of a method, or None. Methods may be added.
        context: Each function runs in a copy of it.
        requests: The requests that are being served, by id.
        runs: The handlers that run. While there is none, and `credit` is positive, a handler may start at once.
        credit: While it is positive, requests need not wait, and this many bytes may be written before the unwritten
            bytes have to be counted again. It is never positive while messages must wait, or while hooks see them.
        last_read: The id of the last request that was read; UNSET before the first.
        make_task: `asyncio.Task`, if it starts tasks eagerly; None: `begin` starts all handlers.
        loop: The loop of these tasks.
    """

    __slots__ = (
        "_current",
        "_encode",
        "context",
        "credit",
        "find",
        "last_read",
        "loop",
        "make_task",
        "requests",
        "runs",
    )

    def __init__(self, find: Find, encode: Callable[..., bytes], context: Context, current: ContextVar[Any]) -> None:
        self.find: Find = find
        self.context: Context = context
        self.requests: dict[Any, Any] = {}
        self.runs: dict[Any, None] = {}
        self.credit: int = 0
        self.last_read: MessageId | Unset = UNSET
        self.make_task: Callable[..., Any] | None = None
        self.loop: Any = None
        self._encode = encode
        self._current = current

    # What the subclass does, in the context of the message.

    def receive_other(self, message: Any, destination: Any, /) -> bytes | None:
        """Handle a message that is not plain, like `serve`."""
        raise NotImplementedError

    def may_start(self) -> bool:
        """Return whether a handler may start at once."""
        raise NotImplementedError

    def begin(self, message: Any, work: Awaitable[Any], context: Context, /) -> None:
        """Start the awaitable that a function returned, now or later."""
        raise NotImplementedError

    def make_run(self, work: Awaitable[Any], message: Any, context: Context, /) -> Any:
        """Return the run of a handler that has started and not returned. `task` is an attribute of it."""
        raise NotImplementedError

    def ended(self, run: Any, result: Any, error: BaseException | None, /) -> None:
        """Conclude a run, with its result or its exception."""
        raise NotImplementedError

    def conclude(self, message: Any, handler: Any, result: Any, error: BaseException | None, /) -> None:
        """Conclude a message, with what its function raised, or a result that cannot be written."""
        raise NotImplementedError

    def serve(self, message: Any, destination: Any = None) -> bytes | None:
        """Handle a decoded message or batch, or what was put in its place. Return the response for the stream, if it is
        known at once. `destination` is the place for the responses; None: the stream."""
        handler = None
        if self.credit > 0 and destination is None and type(message) is Request and not self._is_in_flight(message.id):
            handler = self.find(message.method)
        if handler is None or (handler.plain is None and handler.wants_context):
            return self.receive_other(message, destination)
        self.last_read = message.id
        # The code that made the transport read, such as another handler, has its own context.
        context = self.context.copy()
        return context.run(self._serve_in, message, handler, context)

    def _serve_in(self, message: Any, handler: Any, context: Context) -> bytes | None:
        try:
            result = call_plain(handler, message.params)
        # Not only `Exception`: a CancelledError or a SystemExit is a failure of the function, too. If it propagated, it
        # would end the reading of the stream, and the request would get no response.
        except BaseException as error:
            self.conclude(message, handler, None, error)
            if isinstance(error, KeyboardInterrupt):
                raise
            return None
        if is_awaitable(result):
            make_task = self.make_task
            if make_task is None or type(result) is not CoroutineType or (self.runs and not self.may_start()):
                self.begin(message, result, context)
                return None
            served = ServedCoroutine(self, result, None, message, context)
            self._current.set(served)
            task = make_task(served, loop=self.loop, name=message.method, eager_start=True)
            if not served.has_returned:
                served.get_run().task = task
                return None
            result = served.result
        try:
            text = self._encode(message.id, result)
        except HANDLER_FAILURES:
            self.conclude(message, handler, result, None)  # encodes it again, and says why it cannot
            return None
        self.credit -= len(text)
        return text

    def _is_in_flight(self, id: MessageId) -> bool:
        # An id of another type has a different key there (`InboundRequest.key`).
        return bool(self.requests) and (type(id) not in (int, str) or id in self.requests)


class ServedCoroutine:
    """A coroutine around that of a handler, which tells the owner how the handler ended. It runs in a task.

    It has no run as long as the handler has not needed one (`make_run`): if it returns in its first step, it never
    does.

    Attributes:
        result: What the handler returned, if it had no run.
        has_returned: Whether it has returned without a run.
    """

    __slots__ = ("_context", "_message", "_owner", "_run", "_work", "has_returned", "result")

    def __init__(
        self, owner: PlainServer, work: Any, run: Any, message: Any = None, context: Context | None = None
    ) -> None:
        self.result: Any = None
        self.has_returned: bool = False
        self._owner: Any = owner
        self._work = work
        self._run = run
        self._message = message
        self._context: Any = context

    def __getattr__(self, name: str) -> Any:
        # asyncio reads these attributes of a coroutine to show where its task waits.
        return getattr(self._work, name)

    def get_run(self) -> Any:
        """Return the run of the handler; None if it has returned without one."""
        if self._run is None and not self.has_returned:
            self._run = self._owner.make_run(self._work, self._message, self._context)
            self._context = None  # it refers to this object
        return self._run

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._step(self._work.send, None)

    def send(self, value: Any) -> Any:
        """Continue the coroutine of the handler."""
        return self._step(self._work.send, None)

    def throw(self, error: BaseException, *_: Any) -> Any:
        """Raise an exception in the coroutine of the handler."""
        try:
            return self._step(self._work.throw, error)
        finally:
            del error  # as in `_step`

    def close(self) -> None:
        """Close the coroutine of the handler without a report, because the loop is closed."""
        self._work.close()

    def _drop_owner(self) -> Any:
        # The context of a timer that the handler has started refers to this object, and must not keep the owner.
        owner, self._owner = self._owner, None
        return owner

    def _step(self, step: Callable[[Any], Any], value: Any) -> Any:
        try:
            return step(value)
        except StopIteration as end:
            owner = self._drop_owner()
            if self._run is None:
                self.result = end.value
                self.has_returned = True
                self._context = None
            else:
                owner.ended(self._run, end.value, None)
        # Cancellations end here, too: the request has its response, and no code awaits the task. In asyncio, a
        # SystemExit that leaves a task would end the loop.
        except BaseException as error:
            value = None  # the error's traceback has this frame, which would keep the error
            run = self.get_run()
            self._drop_owner().ended(run, None, error)
            if isinstance(error, KeyboardInterrupt):
                raise
        raise StopIteration
