"""Serve JSON-RPC without IO: functions by method name, from a text to its reply.

    handlers = Handlers({"add": lambda a, b: a + b})
    handlers.dispatch(b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}')

Rules:
  - an array of params gives the positional arguments, an object the named ones (section 4.2). Params that do not fit
    the signature are answered with -32602, and the function is not called. Types are up to the function;
  - the signature is read once, when the function is registered;
  - a parameter annotated with `RequestContext`, or with `SessionContext` in a session, gets the context; the peer can
    neither set it nor leave it out;
  - names that begin with `rpc.` are reserved by JSON-RPC (section 4.3) and refused;
  - an RpcError that a function raises is the answer. Any other exception, and a result that cannot be encoded, is
    answered with -32603 without details, and logged with its traceback;
  - the items of a batch are served separately, and answered in the order of the batch (section 6);
  - notifications and responses are never answered (section 4.1).
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from inspect import Parameter
from typing import Any, Final, TypeVar, get_args, overload

from .codec import (
    Message,
    Notification,
    ParseError,
    Raw,
    RawMessage,
    Request,
    Response,
    decode,
    encode,
    encode_error,
    encode_result,
)
from .codec._json import Default, check_option
from .codes import ErrorCode
from .errors import HANDLER_FAILURES, RpcError, error_for, internal_error, standard_error
from .profile import JSONRPC, Profile
from .types import MessageId

Function = TypeVar("Function", bound=Callable[..., Any])

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
NEVER_AWAITABLE: Final = frozenset({dict, list, str, int, float, bool, type(None)})
"""The types of most results: a quick check before the type is asked for `__await__`."""


class RequestContext:
    """What a function can ask about the message that it serves.

    Attributes:
        method: The method of the message.
        id: The id of the request; None for a notification.
        is_notification: Whether the message is a notification, which gets no answer.
        context: The object that was passed to `dispatch` or `dispatch_async`, such as the headers of an HTTP request.
    """

    __slots__ = ("context", "id", "is_notification", "method")

    def __init__(self, method: str, id: MessageId, is_notification: bool, context: Any = None) -> None:
        self.context: Any = context
        self.id: MessageId = id
        self.is_notification: bool = is_notification
        self.method: str = method


class Handler:
    """A function and the params that it accepts.

    Args:
        function: A sync or async function.
        unpack: If False, pass the params as one argument, as received: a dict, a list, a `Raw` or None.

    Raises:
        TypeError: `function` is not callable, or its context parameter is in the wrong place.
    """

    __slots__ = (
        "_any_name",
        "_context_keyword",
        "_context_name",
        "_function",
        "_max_positional",
        "_min_positional",
        "_names",
        "_required",
        "_takes_object",
        "_unpack",
        "wants_context",
    )

    def __init__(self, function: Callable[..., Any], unpack: bool = True) -> None:
        if not callable(function):
            raise TypeError(f"a handler must be callable, not {type(function).__name__}")
        self._function = function
        self._unpack = unpack
        self.wants_context: bool = False
        self._context_name: str | None = None  # the peer must not pass it
        self._context_keyword: str | None = None  # None: the context is the first positional argument
        self._min_positional, self._max_positional = 0, sys.maxsize
        self._takes_object = self._any_name = True
        self._names: frozenset[str] = frozenset()
        self._required: frozenset[str] = frozenset()
        try:
            signature = inspect.signature(function)
        except ValueError:
            return  # a built-in without a signature
        self._read(list(signature.parameters.values()))

    def _read(self, parameters: list[Parameter]) -> None:
        for index, parameter in enumerate(parameters):
            if _is_context(parameter.annotation):
                if parameter.kind is Parameter.KEYWORD_ONLY:
                    self._context_keyword = parameter.name
                elif index:
                    raise TypeError("the RequestContext must be the first parameter, or a keyword-only one")
                self.wants_context = True
                if parameter.kind is not Parameter.POSITIONAL_ONLY:
                    self._context_name = parameter.name
                del parameters[index]
                break
        kinds = {parameter.kind for parameter in parameters}
        positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
        named = [parameter for parameter in parameters if parameter.kind in _NAMED]
        self._names = frozenset(parameter.name for parameter in named)
        self._required = frozenset(parameter.name for parameter in named if parameter.default is Parameter.empty)
        self._any_name = Parameter.VAR_KEYWORD in kinds
        required = [parameter for parameter in positional if parameter.default is Parameter.empty]
        self._takes_object = not any(parameter.kind is Parameter.POSITIONAL_ONLY for parameter in required)
        self._min_positional = len(required)
        if self._required - {parameter.name for parameter in positional}:
            self._max_positional = -1  # a keyword-only parameter is required: no array fits
        elif Parameter.VAR_POSITIONAL not in kinds:
            self._max_positional = len(positional)

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Call the function.

        Args:
            params: The params of the message.
            context: The context; required if `wants_context` is true.

        Returns:
            What the function returns: a result, or an awaitable of one.

        Raises:
            RpcError: The params do not fit the signature (-32602).
            Exception: Whatever the function raises.
        """
        if not self._unpack:
            return self._invoke_with_context([params], context) if self.wants_context else self._function(params)
        if type(params) is Raw:
            params = params.decode()
        try:
            if self.wants_context:
                return self._invoke_with_context(params, context)
            return self._function(**params) if type(params) is dict else self._function(*(params or ()))
        except TypeError:
            # Checking the params only after a failure saves the check in each successful call.
            if self._fits(params):
                raise
        raise standard_error(ErrorCode.INVALID_PARAMS)

    def _invoke_with_context(self, params: Any, context: RequestContext | None) -> Any:
        if type(params) is not dict:
            positional, named = params or (), {}
        elif self._context_name in params:
            raise TypeError
        else:
            positional, named = (), params
        if self._context_keyword is not None:
            return self._function(*positional, **named, **{self._context_keyword: context})
        return self._function(context, *positional, **named)

    def _fits(self, params: Any) -> bool:
        if type(params) is not dict:
            return self._min_positional <= len(params or ()) <= self._max_positional
        if not self._takes_object or self._context_name in params:
            return False
        return self._required <= params.keys() and (self._any_name or params.keys() <= self._names)


class Handlers:
    """Functions by method name. Several sessions may share one.

    A subclass may override `find` to look methods up in another way.

    Args:
        functions: Functions by method name.

    Raises:
        TypeError, ValueError: See `register`.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._handlers: dict[str, Handler] = {}
        for method, function in (functions or {}).items():
            self.register(method, function)

    @overload
    def register(self, method: str, *, unpack: bool = True) -> Callable[[Function], Function]: ...

    @overload
    def register(self, method: str, function: Function, *, unpack: bool = True) -> Function: ...

    def register(self, method: str, function: Any = None, *, unpack: bool = True) -> Any:
        """Register a function for a method. Without a function, return a decorator.

        Args:
            method: The method name.
            function: A sync or async function.
            unpack: If False, pass the params as one argument, as received.

        Returns:
            The function.

        Raises:
            TypeError: `method` is not a str, `function` is not callable, or its context parameter is in the wrong
                place.
            ValueError: The method has a handler already, or begins with `rpc.`.
        """
        if not isinstance(method, str):
            raise TypeError(f"method must be a str, not {type(method).__name__}")
        if method.startswith("rpc."):
            raise ValueError("method names that begin with rpc. are reserved by JSON-RPC")
        if function is None:
            return lambda decorated: self.register(method, decorated, unpack=unpack)
        if method in self._handlers:
            raise ValueError("the method has a handler already")
        self._handlers[method] = Handler(function, unpack)
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
            raw: Decode with `raw=True`, so that functions registered with `unpack=False` get `Raw` params.
            delimited: End the reply with a newline.
            default: As in `encode`, for results and error data.
            option: As in `encode`.

        Returns:
            The reply as one line of JSON; b"" if there is nothing to reply.

        Raises:
            TypeError: `data` is of another type.
            ValueError: `option` adds line breaks.
        """
        return _Dispatch(self, data, profile, context, raw, delimited, default, option).run()

    async def dispatch_async(
        self,
        data: bytes | bytearray | memoryview | str | Message | RawMessage | list[Any],
        profile: Profile = JSONRPC,
        *,
        context: Any = None,
        raw: bool = False,
        delimited: bool = True,
        default: Default = None,
        option: int = 0,
    ) -> bytes:
        """Serve a text with sync and async functions and return the reply.

        Under asyncio the async functions of a batch run concurrently, each in a task of its own, and all have ended
        when this returns or is cancelled. Under another event loop, such as trio's, they run one after another.

        Args:
            data: As in `dispatch`, like the other arguments.

        Returns:
            The reply as one line of JSON; b"" if there is nothing to reply.

        Raises:
            TypeError: `data` is of another type.
            ValueError: `option` adds line breaks.
        """
        return await _Dispatch(self, data, profile, context, raw, delimited, default, option).run_async()


class _Dispatch:
    """One text that is being served."""

    __slots__ = ("_context", "_delimited", "_encoding", "_handlers", "_received")

    def __init__(
        self,
        handlers: Handlers,
        data: Any,
        profile: Profile,
        context: Any,
        raw: bool,
        delimited: bool,
        default: Default,
        option: int,
    ) -> None:
        check_option(option)
        self._received: Any = data
        if isinstance(data, (bytes, bytearray, memoryview, str)):
            self._received = decode(data, profile, raw=raw)
        self._handlers = handlers
        self._context = context
        self._delimited = delimited
        is_batch = isinstance(self._received, list)
        self._encoding: Any = {"delimited": delimited and not is_batch, "default": default, "option": option}

    def run(self) -> bytes:
        if isinstance(self._received, list):
            return self._batch([self._serve(item) for item in self._received])
        return self._serve(self._received)

    async def run_async(self) -> bytes:
        if not isinstance(self._received, list):
            reply = self._begin(self._received)
            return reply if isinstance(reply, bytes) else await self._finish(self._received, reply)
        # If asyncio is not imported, or no task of it runs, the event loop is another one.
        asyncio = sys.modules.get("asyncio")
        try:
            is_concurrent = asyncio is not None and asyncio.current_task() is not None
        except RuntimeError:
            is_concurrent = False
        if is_concurrent:
            return self._batch(await self._run_tasks(asyncio))
        replies = []
        for item in self._received:
            reply = self._begin(item)
            replies.append(reply if isinstance(reply, bytes) else await self._finish(item, reply))
        return self._batch(replies)

    async def _run_tasks(self, asyncio: Any) -> list[bytes]:
        """Serve a batch and return its replies; all tasks have ended afterwards."""
        loop = asyncio.get_running_loop()
        replies: list[bytes] = []
        tasks: dict[int, Any] = {}
        begun: list[Awaitable[Any]] = []
        try:
            for index, item in enumerate(self._received):
                reply = self._begin(item)
                if not isinstance(reply, bytes):
                    begun.append(reply)
                    tasks[index] = loop.create_task(self._finish(item, reply))
                    reply = b""
                replies.append(reply)
            if tasks:
                await asyncio.wait(tasks.values())
        finally:
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
            try:
                replies[index] = task.result()
            except asyncio.CancelledError as error:  # the function raised it: nobody cancelled the batch
                replies[index] = self._fail(self._received[index], error)
        return replies

    def _batch(self, replies: list[bytes]) -> bytes:
        text = b",".join(filter(None, replies))
        if not text:
            return b""
        return b"[" + text + (b"]\n" if self._delimited else b"]")

    def _serve(self, item: Any) -> bytes:
        reply = self._begin(item)
        if isinstance(reply, bytes):
            return reply
        if isinstance(reply, Coroutine):
            reply.close()
        return self._fail(item, TypeError("the function is async: use dispatch_async"))

    def _begin(self, item: Any) -> bytes | Awaitable[Any]:
        """Return the reply to an item, or the awaitable of its result."""
        if not isinstance(item, (Request, Notification)):
            if isinstance(item, ParseError):
                return encode(item.to_response(), **self._encoding) if item.reply_expected else b""
            if isinstance(item, Response):
                return b""
            raise TypeError(f"data must be a JSON text or what decode returned, not {type(item).__name__}")
        try:
            result = self._invoke(item)
        except HANDLER_FAILURES as error:
            return self._fail(item, error)
        return result if is_awaitable(result) else self._succeed(item, result)

    def _invoke(self, item: Request[Any] | Notification[Any]) -> Any:
        handler = self._handlers.find(item.method)
        if handler is None:
            raise standard_error(ErrorCode.METHOD_NOT_FOUND)
        if not handler.wants_context:
            return handler.invoke(item.params, None)
        is_notification = isinstance(item, Notification)
        id = None if isinstance(item, Notification) else item.id
        return handler.invoke(item.params, RequestContext(item.method, id, is_notification, self._context))

    async def _finish(self, item: Request[Any] | Notification[Any], work: Awaitable[Any]) -> bytes:
        try:
            result = await work
        except HANDLER_FAILURES as error:
            return self._fail(item, error)
        return self._succeed(item, result)

    def _succeed(self, item: Request[Any] | Notification[Any], result: Any) -> bytes:
        if isinstance(item, Notification):
            return b""
        try:
            return encode_result(item.id, result, **self._encoding)
        except HANDLER_FAILURES as error:  # an EncodeError, or what the methods of a payload raise
            return self._refuse(item, internal_error(error, item.method, item.id))

    def _fail(self, item: Request[Any] | Notification[Any], error: BaseException) -> bytes:
        if isinstance(item, Request):
            return self._refuse(item, error_for(error, item.method, item.id))
        if not isinstance(error, RpcError):
            internal_error(error, item.method)
        return b""

    def _refuse(self, item: Request, error: RpcError) -> bytes:
        try:
            return encode_error(item.id, error.code, error.message, error.data, **self._encoding)
        except HANDLER_FAILURES as failure:  # data that cannot be encoded, or a subclass without one of the fields
            error = internal_error(failure, item.method, item.id)
            return encode_error(item.id, error.code, error.message, **self._encoding)


def is_awaitable(result: object) -> bool:
    """Return whether `await` accepts a result. Like `await`, it asks the type: attributes of a result are not safe."""
    return type(result) not in NEVER_AWAITABLE and hasattr(type(result), "__await__")


def _is_context(annotation: object) -> bool:
    """Return whether an annotation names the context, also as `RequestContext | None`. Strings are not evaluated."""
    if isinstance(annotation, str):
        return _CONTEXT_NAME.search(annotation) is not None
    if isinstance(annotation, type):
        return issubclass(annotation, RequestContext)
    return any(_is_context(part) for part in get_args(annotation))


_CONTEXT_NAME: Final = re.compile(r"\b(?:Request|Session)Context\b")
