"""Handlers whose params are converted into Python types before the function is called; see `params`.

Rules:
  - Absent params are an empty object. Invalid params get the error -32602, whose `data` lists the problems.
  - msgspec decodes the text of the params in one pass, into a Struct of all arguments. If msgspec refuses, or if a type
    is pydantic's, the arguments are converted one by one: this finds the problems, or accepts another form of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from ..codec import Raw
from .handler import Handler, OuterHandler, RequestContext, is_context
from .params.arguments import Arguments, field_of, hints_of, parameters_of
from .params.problems import Misfit
from .params.types import MsgspecType, ValueType, type_of

Invoke = Callable[[Any, RequestContext | None], Any]
"""Calls a function with converted params and the context."""


class TypedHandler(OuterHandler):
    """A handler whose params are converted before it is called.

    `convert` returns the arguments for `inner`, or raises a `Misfit`. `by_name` is the type of an object of params, and
    the call with the converted arguments; `by_position` is the same for an array.
    """

    __slots__ = ("_by_name", "_by_position", "_convert")

    def __init__(
        self,
        inner: Handler,
        convert: Callable[[Any], Any],
        by_name: tuple[MsgspecType, Invoke] | None,
        by_position: tuple[MsgspecType, Invoke] | None,
    ) -> None:
        super().__init__(inner)
        self.takes_raw = True  # the text is decoded once, straight to the type
        self._convert = convert
        self._by_name = by_name
        self._by_position = by_position

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Convert the params and call the function; otherwise like `Handler.invoke`."""
        text = bytes(params) if type(params) is Raw else None
        is_array = type(params) is list if text is None else text.startswith(b"[")
        one_pass = self._by_position if is_array else self._by_name
        # Absent params go to `_convert`, which reads them as an empty object.
        if one_pass is not None and params is not None:
            type_, call = one_pass
            try:
                found = type_.convert_usual(params) if text is None else type_.decode(text)
            except type_.refusals:
                pass
            else:
                return call(found, context)
        try:
            converted = self._convert(params)
        except Misfit as misfit:
            error = misfit.error()  # raised outside `except`: its `__context__` could hold values of the input
        else:
            return self._inner.invoke(converted, context)
        raise error


def handler_of_type(function: Callable[..., Any], type_: Any) -> Handler:
    """Return the handler of a function that takes its params as one argument of a type. Raises like `type_of`."""
    found: ValueType = type_of(type_)
    inner = Handler(function, unpack=False)
    call: Invoke = inner.invoke if inner.wants_context else lambda params, context: function(params)
    one_pass = (found, call) if isinstance(found, MsgspecType) else None
    return TypedHandler(inner, lambda params: found.convert({} if params is None else params), one_pass, one_pass)


def handler_of_annotations(function: Callable[..., Any]) -> Handler:
    """Return the handler of a function whose arguments are converted as its annotations say.

    Raises:
        TypeError: A parameter cannot be passed by name, or has a type that cannot be converted.
        ImportError: Msgspec is not installed.
    """
    parameters = parameters_of(function, hints_of(function))
    arguments = Arguments({name: each for name, each in parameters.items() if not is_context(each.annotation)})
    by_name, by_position = (
        None if found is None else (found[0], _caller(function, parameters, found[1]))
        for found in (arguments.one_pass(is_array=False), arguments.one_pass(is_array=True))
    )
    return TypedHandler(Handler(function), arguments.bind, by_name, by_position)


def _caller(function: Callable[..., Any], parameters: Mapping[str, Parameter], names: list[str]) -> Invoke:
    """Return a function that calls another one with the fields of a Struct and the context."""
    values = dict(zip(names, [f"found.{field_of(name)}" for name in names], strict=True))
    values |= {name: "context" for name, each in parameters.items() if is_context(each.annotation)}
    given = [
        f"{name}={values[name]}" if each.kind is Parameter.KEYWORD_ONLY else values[name]
        for name, each in parameters.items()
        if name in values
    ]
    # The call is generated for the signature, because a loop over the names would take as long as the decoding.
    call: Invoke = eval(f"lambda found, context: call({', '.join(given)})", {"call": function})
    return call
