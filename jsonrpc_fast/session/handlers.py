"""What serves the peer's requests and notifications: functions by the names of their methods.

Rules:
  - params in an array are the positional arguments, params in an object the named ones (section 4.2). What does not fit
    the signature is -32602, and the function is not called. Types are the function's own business;
  - the signature is read once, when the function is registered;
  - a parameter that is annotated with `RequestContext` is given that; the peer can neither set nor miss it;
  - names that begin with `rpc.` belong to JSON-RPC itself (section 4.3), and are refused;
  - a function may be sync or async: what it returns is awaited where that can be done.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from ..codec import Raw
from ..codes import RPC_MESSAGES, ErrorCode
from ..errors import MessageId, RpcError
from .peer import InboundRequest

if TYPE_CHECKING:
    from .driver import Session

Function = TypeVar("Function", bound=Callable[..., Any])

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class RequestContext:
    """What a handler may want to know of the message that it serves.

    session  to call the peer back
    method   of the message
    """

    __slots__ = ("_request", "method", "session")

    def __init__(self, session: Session, method: str, request: InboundRequest | None) -> None:
        self.session = session
        self.method = method
        self._request = request

    @property
    def id(self) -> MessageId:
        """The request's id; None for a notification, too."""
        return None if self._request is None else self._request.id

    @property
    def is_notification(self) -> bool:
        """Nothing is going to be answered."""
        return self._request is None

    @property
    def is_cancelled(self) -> bool:
        """The peer has no use for the answer any more. An async handler is cancelled as well."""
        return self._request is not None and self._request.is_cancelled

    def report_progress(self, value: Any) -> bool:
        """Tells the peer how far its request is, by the session's convention: False when it did not ask for that."""
        return self._request is not None and self.session.report_progress(self._request, value)


class Handler:
    """A function, and which params it takes.

    function  sync or async
    unpack    False: the params are one argument, as they came: a dict, a list, a `Raw` or None
    """

    __slots__ = (
        "_any_name",
        "_context_keyword",
        "_context_name",
        "_function",
        "_least",
        "_most",
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
        self.wants_context = False
        self._context_name: str | None = None  # which the peer must not give
        self._context_keyword: str | None = None  # by which it is handed over, unless it goes first
        self._least, self._most = 0, sys.maxsize  # positional arguments
        self._takes_object = self._any_name = True
        self._names: frozenset[str] = frozenset()  # that may be given
        self._required: frozenset[str] = frozenset()  # that have to be
        try:
            signature = inspect.signature(function)
        except ValueError:
            return  # a built-in that does not tell
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
        self._least = len(required)
        if self._required - {parameter.name for parameter in positional}:
            self._most = -1  # a keyword-only parameter is required: no array fits
        elif Parameter.VAR_POSITIONAL not in kinds:
            self._most = len(positional)

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """What the function returns: a result, or an awaitable of one. `context` is needed where it is wanted.

        Raises RpcError -32602 for params that do not fit, and whatever the function raises.
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
            # Either the params do not fit, and nothing was run, or it is the function's own. To look only now saves
            # looking each time.
            if self._fits(params):
                raise
        raise RpcError(ErrorCode.INVALID_PARAMS, RPC_MESSAGES[ErrorCode.INVALID_PARAMS])

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
            return self._least <= len(params or ()) <= self._most
        if not self._takes_object or self._context_name in params:
            return False
        return self._required <= params.keys() and (self._any_name or params.keys() <= self._names)


class Handlers:
    """Functions by the names of their methods. Several sessions may share one.

    functions: a mapping of names to functions, or None. What `find` returns decides, and may be overridden.
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
        """Serves `method` by a function from now on; without a function it is a decorator.

        unpack: False hands the params over as one argument, as they came.
        Raises ValueError for a name that is taken or begins with `rpc.`, TypeError for what is not callable.
        """
        if not isinstance(method, str):
            raise TypeError(f"method must be a str, not {type(method).__name__}")
        if method.startswith("rpc."):
            raise ValueError("methods that begin with rpc. belong to JSON-RPC itself")
        if function is None:
            return lambda decorated: self.register(method, decorated, unpack=unpack)
        if method in self._handlers:
            raise ValueError("the method has a handler already")
        self._handlers[method] = Handler(function, unpack)
        return function

    def find(self, method: str) -> Handler | None:
        """What serves `method`; None: nothing does."""
        return self._handlers.get(method)


def _is_context(annotation: object) -> bool:
    """Annotations may be texts, and are not evaluated: the name is enough."""
    if isinstance(annotation, str):
        return annotation.strip("'\"").rpartition(".")[2] == RequestContext.__name__
    return annotation is RequestContext
