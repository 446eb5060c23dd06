"""Calls as methods: an object whose methods call the peer, made from a class that declares them.

Each public method of the class is a call. Its parameters are the params, passed by name; if one of them is
positional-only, all are passed as an array. An argument that is left out is left out of the params. Arguments are
written by their types, and the result is converted into the annotation of the return value, as typed handlers convert
params. `handlers.interface.method` gives the names of a method, or of its params, that Python does not allow as names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

from ..handlers.caller import BlockingCaller, Caller, result_reader
from ..handlers.interface import Method, methods_of
from ..handlers.json_values import to_json
from ..handlers.params.arguments import hints_of
from ..types import T


def proxy(caller: Caller | BlockingCaller, interface: Callable[..., T], *, prefix: str = "", **options: Any) -> T:
    """Return an object whose methods call the peer's.

        class Shop(Protocol):
            async def price(self, item: str) -> float: ...

        shop = proxy(session, Shop, prefix="shop.")
        await shop.price("tea")  # calls the method shop.price

    `Handlers.add` serves an object of the same class. Needs the extra `typed`.

    Args:
        caller: A session, an HTTP client, a client of services over NATS or any other `Caller`; or a blocking one.
        interface: The class, such as a `Protocol`. Its annotations are the types of params and results.
        prefix: The prefix of the names of the peer's methods.
        options: Options of every call, such as `timeout`.

    Returns:
        The object. Its methods raise what `call` raises, and InvalidResponse for a result of another type: the text
        names the place, but no value.

    Raises:
        TypeError: The class has no methods, one is not async although `caller.call` is, or the other way round, or a
            type is not supported.
        ImportError: Msgspec is not installed.
    """
    is_async = inspect.iscoroutinefunction(caller.call)
    members = {}
    for name, declared in methods_of(interface).items():
        if inspect.iscoroutinefunction(declared.function) != is_async:
            raise TypeError(f"{name} must {'' if is_async else 'not '}be async def, like the caller's call")
        members[name] = _member(caller.call, prefix, declared, is_async, options)
    proxied: T = type(f"Proxy of {getattr(interface, '__name__', 'a class')}", (), {"__slots__": (), **members})()
    return proxied


def _member(call: Callable[..., Any], prefix: str, declared: Method, is_async: bool, options: Any) -> Any:
    function = declared.function
    method = prefix + declared.name
    signature = inspect.signature(function)
    hints = hints_of(function)
    kinds = {each.kind for each in signature.parameters.values()}
    if kinds & {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:
        raise TypeError(f"{function.__name__} must not have *args or **kwargs")
    # Made in advance: unsupported types are refused when the proxy is made, not by the first call.
    read = result_reader(hints.get("return", Any))
    shown = [each.replace(annotation=Parameter.empty) for each in list(signature.parameters.values())[1:]]
    taken = inspect.Signature(shown)
    ordered = list(signature.parameters)[1:]  # without self
    names = {name: declared.params.get(name, name) for name in ordered}
    array_kinds = {signature.parameters[name].kind for name in ordered}
    is_array = Parameter.POSITIONAL_ONLY in array_kinds
    if is_array and Parameter.KEYWORD_ONLY in array_kinds:
        raise TypeError(f"{function.__name__} must not have both positional-only and keyword-only parameters")

    def params_of(args: Any, kwargs: Any) -> Any:
        try:
            bound = signature.bind(None, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__} takes {taken}: {error}") from None
        given = bound.arguments
        if is_array:
            # An array has no gaps: an omitted argument before a given one gets its default.
            number = max((place for place, name in enumerate(ordered, 1) if name in given), default=0)
            bound.apply_defaults()  # for arguments before the last given one
            return [to_json(bound.arguments[name]) for name in ordered[:number]] or None
        return {names[name]: to_json(given[name]) for name in ordered if name in given} or None

    def wait(self: object, /, *args: Any, **kwargs: Any) -> Any:
        return read(method, call(method, params_of(args, kwargs), **options))

    async def await_(self: object, /, *args: Any, **kwargs: Any) -> Any:
        return read(method, await call(method, params_of(args, kwargs), **options))

    member = await_ if is_async else wait
    member.__name__, member.__doc__ = function.__name__, function.__doc__
    return member
