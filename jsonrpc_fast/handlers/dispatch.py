"""Functions by method name, and the way from a text to its reply.

Rules:
  - names that begin with `rpc.` are reserved by JSON-RPC (section 4.3) and refused;
  - an RpcError that a function raises is the answer. Any other exception, and a result that cannot be encoded, is
    answered with -32603 without details, and logged with its traceback;
  - the items of a batch are served separately, and answered in the order of the batch (section 6);
  - notifications and responses are never answered (section 4.1).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._checks import check_seconds
from ..codec import (
    Message,
    Notification,
    ParseError,
    RawMessage,
    Request,
    Response,
    decode,
    encode,
    encode_error,
    encode_result,
)
from ..codec._json import Default, check_option
from ..codes import DEADLINE_MESSAGE, ErrorCode, SessionErrorCode
from ..errors import HANDLER_FAILURES, EncodeError, RpcError, internal_error, standard_error
from ..profile import JSONRPC, Profile
from .handler import Handler, RequestContext, is_awaitable
from .middleware import Middleware
from .options import HandlerOptions, make_handler
from .replies import error_reply, failure_reply
from .results import encode_models

if TYPE_CHECKING:
    from typing_extensions import Unpack

Function = TypeVar("Function", bound=Callable[..., Any])


class Handlers:
    """Functions by method name. Several sessions may share one.

    A subclass may override `find` to look methods up in another way.

    Args:
        functions: Functions by method name.
        middleware: Functions around every handler, the outermost first; see `Middleware`.
        timeout: The default `timeout` of the methods; None: no limit.

    Raises:
        TypeError, ValueError: See `register`.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        *,
        middleware: Sequence[Middleware] = (),
        timeout: float | None = None,
    ) -> None:
        check_seconds("timeout", timeout, may_be_infinite=True)
        self._handlers: dict[str, Handler] = {}
        self._middleware = tuple(middleware)
        self._timeout = timeout
        for method, function in (functions or {}).items():
            self.register(method, function)

    @overload
    def register(self, method: str, **options: Unpack[HandlerOptions]) -> Callable[[Function], Function]: ...

    @overload
    def register(self, method: str, function: Function, **options: Unpack[HandlerOptions]) -> Function: ...

    def register(self, method: str, function: Any = None, **options: Unpack[HandlerOptions]) -> Any:
        """Register a function for a method. Without a function, return a decorator.

        Args:
            method: The method name.
            function: A sync or async function.
            options: See `HandlerOptions`.

        Returns:
            The function.

        Raises:
            TypeError: `method` is not a str, `function` is not callable, its context parameter is in the wrong place,
                or an option does not fit.
            ValueError: The method has a handler already or begins with `rpc.`, or `timeout` is negative or NaN.
        """
        if not isinstance(method, str):
            raise TypeError(f"method must be a str, not {type(method).__name__}")
        if method.startswith("rpc."):
            raise ValueError("method names that begin with rpc. are reserved by JSON-RPC")
        if function is None:
            return lambda decorated: self.register(method, decorated, **options)
        if method in self._handlers:
            raise ValueError("the method has a handler already")
        self._handlers[method] = make_handler(function, options, self._middleware, self._timeout)
        return function

    def find(self, method: str) -> Handler | None:
        """Return the handler of a method, or None."""
        return self._handlers.get(method)

    def dispatch(
        self,
        data: bytes | bytearray | memoryview | str | Message | RawMessage | list[Any],
        profile: Profile = JSONRPC,
        *,
        context: Any = None,
        peer: Any = None,
        raw: bool = False,
        delimited: bool = True,
        default: Default = None,
        option: int = 0,
    ) -> bytes:
        """Serve a text with sync functions and return the reply.

        What a function raises becomes the answer, except KeyboardInterrupt, cancellations and other exceptions that
        are not an `Exception`. A function that returns an awaitable needs `dispatch_async`; here it is answered with
        -32603, and the log says why.

        Args:
            data: One JSON text (a message or a batch), or what `decode` returned.
            profile: The rules and limits for decoding. `Limits.batch_items` bounds the number of functions that one
                text calls.
            context: Any object, for functions that take a `RequestContext`.
            peer: Who sent the text, such as an address, for the same functions.
            raw: Decode with `raw=True`, so that functions registered with `unpack=False` get `Raw` params.
            delimited: End the reply with a newline.
            default: As in `encode`, for results and error data; by default `to_jsonable`, which writes models of
                msgspec and pydantic.
            option: As in `encode`.

        Returns:
            The reply as one line of JSON; b"" if there is nothing to reply.

        Raises:
            TypeError: `data` is of another type.
            ValueError: `option` adds line breaks.
        """
        return Dispatch(self, data, profile, context, peer, raw, delimited, default, option).run()

    async def dispatch_async(
        self,
        data: bytes | bytearray | memoryview | str | Message | RawMessage | list[Any],
        profile: Profile = JSONRPC,
        *,
        context: Any = None,
        peer: Any = None,
        timeout: float | None = None,
        max_handlers: int = 256,
        raw: bool = False,
        delimited: bool = True,
        default: Default = None,
        option: int = 0,
    ) -> bytes:
        """Serve a text with sync and async functions and return the reply.

        Under asyncio the async functions of a batch run concurrently, each in a task of its own, and all have ended
        when this returns or is cancelled. Under another event loop, such as trio's, they run one after another.

        Args:
            data: As in `dispatch`, like the arguments that are not described here.
            timeout: Seconds for the whole text; None: no limit. After that, async functions that still run are
                cancelled, and functions that were not called yet are not called. Each of their requests is answered
                with `SessionErrorCode.DEADLINE_EXCEEDED`. A sync function is not interrupted.
            max_handlers: Maximum number of async functions of a batch that run at a time. The rest of the batch waits.

        Returns:
            The reply as one line of JSON; b"" if there is nothing to reply.

        Raises:
            TypeError: `data` is of another type.
            ValueError: `option` adds line breaks, `timeout` is negative or NaN, or `max_handlers` is less than 1.
            RuntimeError: There is a `timeout`, but the event loop is not asyncio's.
        """
        if max_handlers < 1:
            raise ValueError("max_handlers must be 1 or more")
        dispatch = Dispatch(self, data, profile, context, peer, raw, delimited, default, option)
        reply = dispatch.start(timeout, max_handlers)
        return reply if isinstance(reply, bytes) else await reply


class Dispatch:
    """One text that is being served.

    Attributes:
        received: What `decode` returned.
        is_batch: Whether it is a batch.
    """

    __slots__ = (
        "_context",
        "_default",
        "_delimited",
        "_ends_items",
        "_handlers",
        "_is_expired",
        "_option",
        "_peer",
        "is_batch",
        "received",
    )

    def __init__(
        self,
        handlers: Handlers,
        data: Any,
        profile: Profile,
        context: Any,
        peer: Any,
        raw: bool,
        delimited: bool,
        default: Default,
        option: int,
    ) -> None:
        check_option(option)
        if isinstance(data, (bytes, bytearray, memoryview, str)):
            data = decode(data, profile, raw=raw)
        self.received: Any = data
        self.is_batch: bool = isinstance(data, list)
        self._handlers = handlers
        self._context = context
        self._peer = peer
        self._delimited = delimited
        self._ends_items = delimited and not self.is_batch
        self._default = default
        self._option = option
        self._is_expired = False  # the deadline has passed

    def run(self) -> bytes:
        if self.is_batch:
            return self._batch([self._serve(item) for item in self.received])
        return self._serve(self.received)

    def start(self, timeout: float | None, max_handlers: int) -> bytes | Coroutine[Any, Any, bytes]:
        """Return the reply, or a coroutine of it where it is not known at once."""
        if timeout is None and not self.is_batch:
            reply = self.begin(self.received)
            return reply if isinstance(reply, bytes) else self.finish(self.received, reply)
        return self.run_async(timeout, max_handlers)

    async def run_async(self, timeout: float | None, max_handlers: int) -> bytes:
        if timeout is not None and not timeout >= 0:
            raise ValueError("timeout must be 0 seconds or more")
        # If asyncio is not imported, or no task of it runs, the event loop is another one.
        asyncio = sys.modules.get("asyncio")
        try:
            task = None if asyncio is None else asyncio.current_task()
        except RuntimeError:
            task = None
        if task is not None:
            if self.is_batch:
                return self._batch(await self._run_tasks(asyncio, timeout, max_handlers))
            return await self._run_in_time(timeout or 0)
        if timeout is not None:
            raise RuntimeError("timeout needs asyncio: use the timeouts of this event loop")
        replies = []
        for item in self.received:
            reply = self.begin(item)
            replies.append(reply if isinstance(reply, bytes) else await self.finish(item, reply))
        return self._batch(replies)

    async def _run_in_time(self, timeout: float) -> bytes:
        """Serve one message in the current task, with a deadline."""
        from .deadlines import InTime  # it needs asyncio

        item = self.received
        reply = self.begin(item) if timeout else self._refuse_late(item)
        return reply if isinstance(reply, bytes) else await self.finish(item, InTime(reply, timeout))

    async def _run_tasks(self, asyncio: Any, timeout: float | None, max_handlers: int) -> list[bytes]:
        """Serve a batch and return its replies; all tasks have ended afterwards."""
        loop = asyncio.get_running_loop()
        replies: list[bytes] = []
        tasks: dict[int, Any] = {}
        begun: list[Awaitable[Any]] = []
        running = 0
        waiter: Any = None

        def end(_: object) -> None:
            nonlocal running
            running -= 1
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

        def expire() -> None:
            self._is_expired = True
            for task in tasks.values():
                task.cancel()

        deadline = inf if timeout is None else loop.time() + timeout
        timer = None if deadline == inf else loop.call_at(deadline, expire)
        try:
            for index, item in enumerate(self.received):
                while running >= max_handlers:
                    waiter = loop.create_future()
                    await waiter
                if timer is not None and not self._is_expired and loop.time() >= deadline:
                    expire()
                reply = self._refuse_late(item) if self._is_expired else self.begin(item)
                if not isinstance(reply, bytes):
                    begun.append(reply)
                    tasks[index] = task = loop.create_task(self.finish(item, reply))
                    reply = b""
                    if not task.done():  # as an eager task may be
                        running += 1
                        task.add_done_callback(end)
                replies.append(reply)
            if running:
                await asyncio.wait(tasks.values())
        finally:
            if timer is not None:
                timer.cancel()
            for task in tasks.values():
                task.cancel()
            while pending := [task for task in tasks.values() if not task.done()]:
                # anyio cancels again and again: wait for the tasks all the same.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait(pending)
            for work in begun:
                if isinstance(work, Coroutine):
                    work.close()  # its task may have been cancelled before the first step
        for index, task in tasks.items():
            item = self.received[index]
            try:
                replies[index] = task.result()
            except asyncio.CancelledError as error:
                # Without a deadline the function raised it: nobody cancelled the batch.
                replies[index] = self._refuse_late(item) if self._is_expired else self._fail(item, error)
        return replies

    def _batch(self, replies: list[bytes]) -> bytes:
        text = b",".join(filter(None, replies))
        if not text:
            return b""
        return b"[" + text + (b"]\n" if self._delimited else b"]")

    def _serve(self, item: Any) -> bytes:
        reply = self.begin(item)
        if isinstance(reply, bytes):
            return reply
        if isinstance(reply, Coroutine):
            reply.close()
        return self._fail(item, TypeError("the function is async: use dispatch_async"))

    def begin(self, item: Any) -> bytes | Awaitable[Any]:
        """Return the reply to an item, or the awaitable of its result."""
        if not isinstance(item, (Request, Notification)):
            return self._answer(item)
        try:
            result = self._invoke(item)
        except HANDLER_FAILURES as error:
            return self._fail(item, error)
        return result if is_awaitable(result) else self._succeed(item, result)

    def _answer(self, item: Any) -> bytes:
        """Return the reply to something that calls no function."""
        if isinstance(item, ParseError):
            if not item.reply_expected:
                return b""
            return encode(item.to_response(), delimited=self._ends_items, default=self._default, option=self._option)
        if isinstance(item, Response):
            return b""
        raise TypeError(f"data must be a JSON text or what decode returned, not {type(item).__name__}")

    def _invoke(self, item: Request[Any] | Notification[Any]) -> Any:
        handler = self._handlers.find(item.method)
        if handler is None:
            raise standard_error(ErrorCode.METHOD_NOT_FOUND)
        if not handler.wants_context:
            return handler.invoke(item.params, None)
        is_notification = isinstance(item, Notification)
        id = None if isinstance(item, Notification) else item.id
        return handler.invoke(item.params, RequestContext(item.method, id, is_notification, self._context, self._peer))

    async def finish(self, item: Request[Any] | Notification[Any], work: Awaitable[Any]) -> bytes:
        """Return the reply to an item when its function ends."""
        try:
            result = await work
        except HANDLER_FAILURES as error:
            return self._fail(item, error)
        return self._succeed(item, result)

    def _succeed(self, item: Request[Any] | Notification[Any], result: Any) -> bytes:
        if isinstance(item, Notification):
            return b""
        try:
            return encode_result(
                item.id, result, delimited=self._ends_items, default=self._default, option=self._option
            )
        except HANDLER_FAILURES as error:  # an EncodeError, or what the methods of a payload raise
            if isinstance(error, EncodeError):
                with contextlib.suppress(*HANDLER_FAILURES):
                    options: dict[str, Any] = {"delimited": self._ends_items, "option": self._option}
                    return encode_models(error, self._default, encode_result, item.id, result, **options)
            return failure_reply(error, item.method, item.id, partial(self._encode_error, item), internal_error)[0]

    def _fail(self, item: Request[Any] | Notification[Any], error: BaseException) -> bytes:
        if isinstance(item, Notification):
            if not isinstance(error, RpcError):
                internal_error(error, item.method)
            return b""
        return error_reply(error, item.method, item.id, partial(self._encode_error, item), internal_error)[0]

    def _refuse_late(self, item: Any) -> bytes:
        """Return the reply to an item whose deadline has passed."""
        if not isinstance(item, (Request, Notification)):
            return self._answer(item)
        return self._fail(item, RpcError(SessionErrorCode.DEADLINE_EXCEEDED, DEADLINE_MESSAGE))

    def _encode_error(self, item: Request, code: int, message: str, data: Any) -> bytes:
        options: dict[str, Any] = {"delimited": self._ends_items, "option": self._option}
        try:
            return encode_error(item.id, code, message, data, default=self._default, **options)
        except EncodeError as error:
            return encode_models(error, self._default, encode_error, item.id, code, message, data, **options)
