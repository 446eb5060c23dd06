"""A function that serves a method: which params fit it, and how it is called.

Rules:
  - An array of params gives the positional arguments, an object the named ones (section 4.2). Params that do not fit
    the signature give -32602, and the function is not called. Types are up to the function.
  - The signature is read when the function is registered, once for all functions with the same code.
  - A parameter annotated with `RequestContext`, or with `SessionContext` in a session, gets the context; the peer
    can neither set nor omit it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from inspect import Parameter
from types import CodeType, FunctionType
from typing import Any, Final, get_args
from weakref import WeakKeyDictionary

from ..codec import Raw
from ..codec._backend import decoded
from ..support import shorten
from ..types import MessageId
from .params.problems import IS_UNKNOWN, Misfit, Problem, missing, too_many

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class RequestContext:
    """The message that a function serves.

    Attributes:
        method: The method of the message.
        id: The id of the request; None for a notification.
        is_notification: Whether the message is a notification, which gets no response.
        context: The object that was passed to `dispatch`, `dispatch_async` or the session, such as the headers of an
            HTTP request or the user of a session.
    """

    __slots__ = ("_peer", "context", "id", "is_notification", "method")

    def __init__(
        self, method: str, id: MessageId, is_notification: bool, context: Any = None, peer: Any = None
    ) -> None:
        self._peer = peer
        self.context: Any = context
        self.id: MessageId = id
        self.is_notification: bool = is_notification
        self.method: str = method

    def __repr__(self) -> str:
        # Without `context`, which may hold secrets of the request, such as its headers.
        id = "" if self.is_notification else f" id={shorten(self.id)}"
        return f"<{type(self).__name__} method={shorten(self.method)}{id}>"

    @property
    def peer(self) -> Any:
        """The sender of the message as the transport knows it, such as the address of a client; None if unknown."""
        return self._peer

    async def send_item(self, item: Any) -> bool:
        """Send the peer a part of the result, as the items of an async generator are sent.

        It waits while the peer does not read.

        Args:
            item: The part. The convention of the session says what it may be.

        Returns:
            False if the peer has not asked for parts, as always without a session: the result must then be complete.

        Raises:
            EncodeError, TypeError: The item cannot be sent.
        """
        return False

    def result_of(self, items: list[Any] | None) -> Any:
        """Return the result made of the items; `items` is None if they were sent."""
        return items

    def without_token(self, params: Any, taken: Collection[str]) -> Any:
        """Return the params without the members that ask for parts or progress, except those with names in `taken`."""
        return params


_read: Final[WeakKeyDictionary[CodeType, tuple[dict[str, Any], list[Parameter]]]] = WeakKeyDictionary()
"""By the code of a function, its annotations and its parameters."""


def _parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function, in a new list. Raises ValueError for a built-in without a signature.

    They are read once, although `serve` may make the function anew for each connection, such as a lambda.
    """
    # What has attributes may be a wrapper. Defaults would be kept alive.
    if (
        type(function) is not FunctionType
        or function.__dict__
        or function.__defaults__ is not None
        or function.__kwdefaults__ is not None
    ):
        return list(inspect.signature(function).parameters.values())
    found = _read.get(function.__code__)
    if found is None or found[0] != function.__annotations__:
        parameters = list(inspect.signature(function).parameters.values())
        found = _read[function.__code__] = dict(function.__annotations__), parameters
    return list(found[1])


class Handler:
    """A function and the params that it accepts.

    Args:
        function: A sync or async function.
        unpack: If False, pass the params as one argument, as received: a dict, a list, a `Raw` or None.

    Attributes:
        plain: The function, if its arguments are exactly the params; else None. The dispatcher calls it without
            `invoke`, and passes its exceptions through `explained`.
        takes_raw: Whether `invoke` is faster with `Raw` params.
        wants_context: Whether `invoke` needs the context.
        is_ordered: The option `ordered` of the method.

    Raises:
        TypeError: `function` is not callable, or its context parameter is in the wrong place.
    """

    is_ordered: bool | None = None
    __slots__ = (
        "_context_keyword",
        "_context_name",
        "_function",
        "_parameters",
        "_unpack",
        "plain",
        "takes_raw",
        "wants_context",
    )

    def __init__(self, function: Callable[..., Any], unpack: bool = True) -> None:
        if not callable(function):
            raise TypeError(f"a handler must be callable, not {type(function).__name__}")
        self._function: Any = function  # or the inner handler
        self._unpack = unpack
        self.plain: Callable[..., Any] | None = function if unpack else None
        self.wants_context: bool = False
        self.takes_raw: bool = False
        self._context_name: str | None = None  # the peer must not pass a parameter of this name
        self._context_keyword: str | None = None  # None: the context is the first positional argument
        self._parameters: list[Parameter] | None = None  # without the context
        # A built-in without a signature gets any params: if it raises TypeError, they are not necessarily wrong.
        try:
            self._parameters = parameters = _parameters_of(function)
        except ValueError:
            return
        for index, parameter in enumerate(parameters):
            if is_context(parameter.annotation):
                if parameter.kind is Parameter.KEYWORD_ONLY:
                    self._context_keyword = parameter.name
                # Otherwise the peer's positional arguments would fill its place.
                elif index:
                    raise TypeError("the RequestContext must be the first parameter, or a keyword-only one")
                self.wants_context = True
                self.plain = None
                if parameter.kind is not Parameter.POSITIONAL_ONLY:
                    self._context_name = parameter.name
                del parameters[index]
                break

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._function!r})"

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
        # Fast path: the call itself checks the params. Only a TypeError is examined, which the function itself may have
        # raised.
        function = self.plain
        try:
            if function is not None:
                if type(params) is dict:
                    return function(**params)
                if type(params) is list:
                    return function(*params)
            return self._call(params, context)
        except TypeError as error:
            # Raised outside of the `except`, so that it carries neither the error nor a frame that holds the params.
            explained = self.explained(error, params)
        raise explained

    def explained(self, error: BaseException, params: Any) -> BaseException:
        """Return the error -32602 for a TypeError of params that do not fit; any other error unchanged.

        The params are checked only after a failure, which saves the check in each successful call.
        """
        if isinstance(error, TypeError) and self._unpack and (problems := self._problems(params)):
            return Misfit(problems, 0).error()
        return error

    def _call(self, params: Any, context: RequestContext | None) -> Any:
        if not self._unpack:
            return self._invoke_with_context([params], context) if self.wants_context else self._function(params)
        if type(params) is Raw:
            params = params.decode()
        if self.wants_context:
            return self._invoke_with_context(params, context)
        return self._function(**params) if type(params) is dict else self._function(*(params or ()))

    def _invoke_with_context(self, params: Any, context: RequestContext | None) -> Any:
        if type(params) is not dict:
            positional, named = params or (), {}
        # A peer could otherwise set the context by its name.
        elif self._context_name in params:
            raise TypeError
        else:
            positional, named = (), params
        # A name in both mappings would be a TypeError; this was excluded above.
        if self._context_keyword is not None:
            return self._function(*positional, **named, **{self._context_keyword: context})
        return self._function(context, *positional, **named)

    def _problems(self, params: Any) -> list[Problem]:
        """Return why the params do not fit the signature; empty if they do."""
        if self._parameters is None:
            return []
        kinds = {each.kind for each in self._parameters}
        fixed = [each for each in self._parameters if each.kind in (*_POSITIONAL, *_NAMED)]
        required = [each for each in fixed if each.default is Parameter.empty]
        needs_array = any(each.kind is Parameter.POSITIONAL_ONLY for each in required)
        params = decoded(params)
        if params is None:
            params = [] if needs_array else {}
        # Section 4.2: an object of params has the names of the parameters, an array has their order.
        if type(params) is not dict:
            if any(each.kind is Parameter.KEYWORD_ONLY for each in required):
                return [too_many(-1)]
            maximum = sum(each.kind in _POSITIONAL for each in fixed)
            if len(params) > maximum and Parameter.VAR_POSITIONAL not in kinds:
                return [too_many(maximum)]
            return missing(each.name for each in required[len(params) :])
        if needs_array:
            return [Problem("", "must be an array")]
        names = {each.name for each in fixed if each.kind in _NAMED}
        is_unknown = self._context_name in params or not (Parameter.VAR_KEYWORD in kinds or params.keys() <= names)
        problems = missing(each.name for each in required if each.name not in params)
        return problems + [Problem("", IS_UNKNOWN)] * is_unknown


class OuterHandler(Handler):
    """A handler around another one, which implements an option of a method."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Handler) -> None:
        # Without `super().__init__`, which reads the signature of a function: this one has only the handler inside.
        self.plain: Callable[..., Any] | None = None
        self.wants_context: bool = inner.wants_context
        self.takes_raw: bool = inner.takes_raw
        self._inner = self._function = inner
        self._unpack = False


def is_context(annotation: object) -> bool:
    """Return whether an annotation names the context, even as `RequestContext | None`. Strings are not evaluated."""
    if isinstance(annotation, str):
        return "Context" in annotation and re.search(r"\b(?:Request|Session)Context\b", annotation) is not None
    if isinstance(annotation, type):
        return issubclass(annotation, RequestContext)
    return any(is_context(part) for part in get_args(annotation))
