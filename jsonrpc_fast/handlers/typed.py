"""Handlers whose params are converted into Python types before the function is called; see `params`.

Rules:
  - Absent params are an empty object. Invalid params get the error -32602, whose `data` lists the problems.
  - msgspec decodes the text of the params at once (`OnePass`), into a Struct of all arguments. Where it refuses, and
    for types of pydantic, the conversion of each argument says why, or accepts another form of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter
from typing import Any, Final

from ..codec import Raw
from .handler import Handler, OuterHandler, RequestContext, is_context
from .params.arguments import Arguments, field_of, hints_of, parameters_of
from .params.problems import Misfit
from .params.types import MsgspecType, ValueType, msgspec_module, type_of, with_defaults

_ARRAY: Final = ord("[")


class OnePass:
    """Converts params at once, if they have the usual form of their type.

    Args:
        type_: The type, for msgspec.
        parts: The types that it consists of.
        call: Calls the function with converted params and the context.

    Attributes:
        call: The same.
        decode: Converts a JSON text, or raises one of `refusals`.
        refusals: What `decode` and `convert` raise.
    """

    __slots__ = ("_completes", "_convert", "_has_other_keys", "_type", "call", "decode", "refusals")

    def __init__(
        self, type_: Any, parts: Iterable[MsgspecType], call: Callable[[Any, RequestContext | None], Any]
    ) -> None:
        msgspec = msgspec_module()
        self._type = type_
        self._convert = msgspec.convert
        self._has_other_keys = any(part.has_other_keys for part in parts)
        self._completes = any(part.needs_defaults for part in parts)
        self.call = call
        self.refusals: tuple[type[Exception], ...] = (msgspec.DecodeError, RecursionError)
        decode: Callable[[bytes], Any] = msgspec.json.Decoder(type_).decode
        self.decode: Callable[[bytes], Any] = (lambda text: with_defaults(decode(text))) if self._completes else decode

    def convert(self, params: Any) -> Any:
        """Convert a JSON value, or raise one of `refusals`."""
        found = self._convert(params, self._type, str_keys=self._has_other_keys)
        return with_defaults(found) if self._completes else found


class TypedHandler(OuterHandler):
    """A handler whose params are converted before it is called.

    Args:
        inner: The handler.
        convert: Returns what `inner` is called with, or raises a `Misfit`.
        by_name: Converts an object of params.
        by_position: Converts an array.
    """

    __slots__ = ("_by_name", "_by_position", "_convert")

    def __init__(
        self, inner: Handler, convert: Callable[[Any], Any], by_name: OnePass | None, by_position: OnePass | None
    ) -> None:
        super().__init__(inner)
        self.takes_raw = True
        self._convert = convert
        self._by_name = by_name
        self._by_position = by_position

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Convert the params and call the function; otherwise as `Handler.invoke`."""
        text = bytes(params) if type(params) is Raw else None
        is_array = type(params) is list if text is None else text[0] == _ARRAY
        one_pass = self._by_position if is_array else self._by_name
        if one_pass is not None and params is not None:
            try:
                found = one_pass.convert(params) if text is None else one_pass.decode(text)
            except one_pass.refusals:
                pass
            else:
                return one_pass.call(found, context)
        try:
            converted = self._convert(params)
        except Misfit as misfit:
            error = misfit.error()
        else:
            return self._inner.invoke(converted, context)
        raise error


def handler_of_type(function: Callable[..., Any], type_: Any) -> Handler:
    """Return the handler of a function that takes its params as one argument of a type.

    Raises:
        TypeError: The type cannot be converted.
        ImportError: Msgspec is not installed.
    """
    found: ValueType = type_of(type_)
    inner = Handler(function, unpack=False)
    one_pass = None
    if isinstance(found, MsgspecType):
        call = inner.invoke if inner.wants_context else lambda params, context: function(params)
        one_pass = OnePass(found.annotation, [found], call)
    return TypedHandler(inner, lambda params: found.convert({} if params is None else params), one_pass, one_pass)


def handler_of_annotations(function: Callable[..., Any]) -> Handler:
    """Return the handler of a function whose arguments are converted as its annotations say.

    Raises:
        TypeError: A parameter cannot be passed by name, or has a type that cannot be converted.
        ImportError: Msgspec is not installed.
    """
    parameters = parameters_of(function, hints_of(function))
    arguments = Arguments({name: each for name, each in parameters.items() if not is_context(each.annotation)})

    def one_pass(is_array: bool) -> OnePass | None:
        found = arguments.struct(is_array)
        if found is None:
            return None
        struct, names = found
        parts: Any = [arguments.types[name] for name in names]
        return OnePass(struct, parts, _caller(function, parameters, names))

    return TypedHandler(Handler(function), arguments.bind, one_pass(False), one_pass(True))


def _caller(function: Callable[..., Any], parameters: Mapping[str, Parameter], names: list[str]) -> Any:
    """Return a function that calls another one with the fields of a Struct and the context."""
    values = dict(zip(names, [f"found.{field_of(name)}" for name in names], strict=True))
    values |= {name: "context" for name, each in parameters.items() if is_context(each.annotation)}
    given = [
        f"{name}={values[name]}" if each.kind is Parameter.KEYWORD_ONLY else values[name]
        for name, each in parameters.items()
        if name in values
    ]
    # Written for the signature, because a loop over the names takes as long as the decoding.
    return eval(f"lambda found, context: call({', '.join(given)})", {"call": function})
