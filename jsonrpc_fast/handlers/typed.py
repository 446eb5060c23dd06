"""Handlers whose params are converted into Python types before the function is called; see `params`.

Absent params are an empty object. Invalid params get the error -32602, whose `data` lists the problems.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .handler import Handler, OuterHandler, RequestContext, is_context
from .params.arguments import Arguments, hints_of, parameters_of
from .params.problems import Misfit
from .params.types import type_of


class TypedHandler(OuterHandler):
    """A handler whose params are converted before it is called.

    Args:
        inner: The handler.
        convert: Returns the converted params, or raises a `Misfit`.
        function: The function of `inner`, if the converted params are its only argument.
    """

    __slots__ = ("_convert", "_direct")

    def __init__(
        self, inner: Handler, convert: Callable[[Any], Any], function: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(inner)
        self.takes_raw = True
        self._direct = None if inner.wants_context else function
        self._convert = convert

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Convert the params and call the function; otherwise as `Handler.invoke`."""
        try:
            converted = self._convert(params)
        except Misfit as misfit:
            error = misfit.error()
        else:
            direct = self._direct
            return self._inner.invoke(converted, context) if direct is None else direct(converted)
        raise error


def handler_of_type(function: Callable[..., Any], type_: Any) -> Handler:
    """Return the handler of a function that takes its params as one argument of a type.

    Raises:
        TypeError: The type cannot be converted.
        ImportError: Msgspec is not installed.
    """
    convert = type_of(type_).convert
    inner = Handler(function, unpack=False)
    return TypedHandler(inner, lambda params: convert({} if params is None else params), function)


def handler_of_annotations(function: Callable[..., Any]) -> Handler:
    """Return the handler of a function whose arguments are converted as its annotations say.

    Raises:
        TypeError: A parameter cannot be passed by name, or has a type that cannot be converted.
        ImportError: Msgspec is not installed.
    """
    parameters = parameters_of(function, hints_of(function))
    arguments = Arguments({name: each for name, each in parameters.items() if not is_context(each.annotation)})
    return TypedHandler(Handler(function), arguments.reader())
