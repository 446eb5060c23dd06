"""Functions that serve: what their arguments are, read from the signature.

Rules:
  - each parameter is one argument; one without a default is required. `*args` and `**kwargs` are refused, since
    no schema can be told for them;
  - a parameter that is annotated with `Context` is given that, and is no argument;
  - annotations are what `values.py` knows: plain types, `Literal`, `list[…]`, dataclasses, Structs, `datetime`,
    pydantic models and the like, with `Annotated[…, msgspec.Meta(description=…, ge=…)]` or pydantic's `Field(…)` for
    more. Without one, any value fits;
  - the arguments become what the annotations say before the function is called;
  - an annotation of an argument or the result that cannot be served is a TypeError when the function is registered;
  - a function may be sync or async. A sync one runs on the loop, and nothing else does meanwhile.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping
from inspect import Parameter
from pathlib import PurePath
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

from ...errors import EncodeError
from .context import Context
from .values import PydanticType, ValueType, is_field, object_schema, type_of

Role = Literal["tool", "prompt", "resource", "method"]

_REFUSED: Final[dict[Role, tuple[type, ...]]] = {
    "tool": (),
    "prompt": (int, float, bytes, bytearray, types.NoneType),
    "resource": (int, float),
    "method": (str, int, float, bytes, bytearray, list, tuple, set, frozenset, types.NoneType),
}
"""Results that a kind of function cannot have, whatever their value."""


class ServingFunction:
    """A function and its arguments.

    Args:
        function: Sync or async.
        fits: False: the arguments are handed over as they are, by name, for their schema is given elsewhere.
        role: What the function is registered as. Its annotated result is checked.
        name: What it is registered by, for the texts of errors. The function's own name if None.

    Raises:
        TypeError: For what is not callable, a signature that breaks the rules of this module, and a type that cannot be
            served. The text names the role, the name and the parameter.
    """

    __slots__ = (
        "_context_name",
        "_defaults",
        "_fits",
        "_function",
        "_schema",
        "_types",
        "name",
        "parameters",
        "required",
    )

    def __init__(
        self, function: Callable[..., Any], fits: bool = True, role: Role | None = None, name: str | None = None
    ) -> None:
        if not callable(function):
            raise TypeError(f"what serves must be callable, not {type(function).__name__}")
        self._function = function
        self._fits = fits
        self.name: str = name_of(function)
        label = (name or self.name) if role is None else f"{role} {name or self.name}"
        self._context_name: str | None = None
        self.parameters: dict[str, Parameter] = {}
        """The arguments by their names."""
        hints = _hints(function, label)
        try:
            signature = inspect.signature(function)
        except ValueError as error:  # some builtins have none
            raise TypeError(f"{label}: {error}") from None
        for parameter_name, parameter in signature.parameters.items():
            if hints.get(parameter_name) is Context:
                self._context_name = parameter_name
            else:
                annotation = hints.get(parameter_name, Any)
                self.parameters[parameter_name] = parameter.replace(annotation=annotation)
        self._types: dict[str, ValueType] = {}
        self._defaults: dict[str, PydanticType] = {}
        if fits:
            self._read_types(label)
        self.required: frozenset[str] = frozenset(
            name
            for name, parameter in self.parameters.items()
            if (parameter.default is Parameter.empty or is_field(parameter.default)) and name not in self._defaults
        )
        """The arguments that have to be given."""
        self._schema = self._written_schema(label) if fits else {}
        if role is not None:
            self._check_result(hints, role, label)

    @property
    def description(self) -> str | None:
        """The function's docstring."""
        return inspect.getdoc(self._function) if inspect.isroutine(self._function) else None

    def schema(self) -> dict[str, Any]:
        """The JSON Schema (2020-12) of the arguments, an object."""
        return self._schema

    def descriptions(self) -> dict[str, str]:
        """What the annotations say of the arguments, by their names."""
        properties = self._schema.get("properties", {})
        return {name: told["description"] for name, told in properties.items() if "description" in told}

    def convert(self, arguments: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """The arguments as the annotations want them.

        Args:
            arguments: By name, as JSON has them.
            strict: False: a text that stands for a number, a boolean or the like becomes one.

        Raises:
            ValueError: For one that is missing, unknown, or does not fit; the text names it, unless it is unknown.
        """
        if not self._fits:
            return dict(arguments)
        if missing := [name for name in self.parameters if name in self.required and name not in arguments]:
            raise ValueError(f"missing: {', '.join(missing)}")
        if not arguments.keys() <= self.parameters.keys():  # compares the lengths first
            raise ValueError(f"unknown; there are: {', '.join(self.parameters) or 'none'}")
        converted = {}
        for name, value in arguments.items():
            try:
                converted[name] = self._types[name].convert(value, strict=strict)
            except (ValueError, EncodeError):
                raise ValueError(f"not of the right type: {name}") from None  # its own text may show the value
        for name, of in self._defaults.items():
            if name not in converted:
                converted[name] = of.default().value
        return converted

    def call(self, arguments: Mapping[str, Any], context: Context) -> Any:
        """What the function returns for arguments that are converted: a result, or an awaitable of one."""
        if self._context_name is None:
            return self._function(**arguments)
        return self._function(**arguments, **{self._context_name: context})

    def _read_types(self, label: str) -> None:
        for name, parameter in self.parameters.items():
            if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
                raise TypeError(f"{label}: {name} cannot be given by its name alone")
            annotation, default = parameter.annotation, parameter.default
            if is_field(default):  # `a: int = Field(…)`
                annotation = Annotated[annotation, default]
            try:
                of = type_of(annotation)
            except Exception as error:
                raise TypeError(f"{label}: the type of {name} cannot be served: {_reason(error)}") from error
            self._types[name] = of
            is_told = default is not Parameter.empty and not is_field(default)
            if isinstance(of, PydanticType) and not is_told and of.default() is not None:
                self._defaults[name] = of

    def _written_schema(self, label: str) -> dict[str, Any]:
        defaults = {
            name: of.default().value if (of := self._defaults.get(name)) is not None else parameter.default
            for name, parameter in self.parameters.items()
            if name not in self.required
        }
        try:
            return object_schema(self._types, defaults)
        except Exception as error:
            raise TypeError(f"{label}: the types of the parameters cannot be served: {_reason(error)}") from error

    def _check_result(self, hints: Mapping[str, Any], role: Role, label: str) -> None:
        if inspect.isgeneratorfunction(self._function) or inspect.isasyncgenfunction(self._function):
            raise TypeError(f"{label}: a generator cannot be served")
        if "return" in hints and (faulty := _unservable(hints["return"], _REFUSED[role])) is not None:
            raise TypeError(f"{label}: a result of type {_shown(faulty)} cannot be served")


def name_of(function: Callable[..., Any]) -> str:
    """A function's own name; the class's of an object that is called."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def _hints(function: Callable[..., Any], label: str) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{label}: an annotation names what is not known where the function is defined: {error.name}"
        ) from None


def _unservable(annotation: Any, refused: tuple[type, ...]) -> Any:
    """The part of a result's annotation that cannot be written as JSON, or None. What is in doubt can."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    inner: tuple[Any, ...] = ()
    if origin is Annotated:
        inner = (annotation.__origin__,)
    elif origin is typing.Union or origin is types.UnionType:
        inner = tuple(part for part in arguments if part is not types.NoneType)
    elif isinstance(origin, type) and issubclass(origin, Awaitable):
        inner = arguments[-1:]
    elif origin is None and hasattr(annotation, "__supertype__"):
        inner = (annotation.__supertype__,)
    if inner:
        return next((part for part in inner if _unservable(part, refused) is not None), None)
    kind = origin or annotation
    if not isinstance(kind, type) or kind in (Any, object) or isinstance(annotation, TypeVar):
        return None
    if issubclass(kind, refused) or issubclass(kind, (Iterator, AsyncIterable)):
        return annotation
    if issubclass(kind, Iterable) and not typing.is_typeddict(kind):
        parts = (part for part in arguments if part is not Ellipsis)
        return next((part for part in parts if _unservable(part, ()) is not None), None)
    if issubclass(kind, (PurePath, types.NoneType)):
        return None
    try:
        type_of(annotation)
    except Exception:
        return annotation
    return None


def _reason(error: Exception) -> str:
    """The last line of a text: msgspec says there which type it is."""
    return str(error).strip().rpartition("\n")[2]


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
