"""Registered functions: their arguments, read from the signature.

Rules:
  - Each parameter is an argument; it is required if it has no default. `*args` and `**kwargs` are refused: they have no
    schema.
  - A parameter annotated with `Context` gets the context; it is not an argument.
  - Annotations may be all types that `values.py` supports, with `Annotated[…, msgspec.Meta(description=…, ge=…)]` or
    pydantic's `Field(…)` for constraints. A parameter without an annotation accepts any value.
  - Arguments are converted to the annotated types before the call.
  - An unsupported type of a parameter or of the result is a TypeError when the function is registered.
  - A function may be sync or async. A sync function blocks the event loop.
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
"""By role: types that are never a valid result."""


class RegisteredFunction:
    """A registered function and its arguments.

    Args:
        function: A sync or async function.
        converts: Whether to check and convert the arguments. If False they are passed as received.
        role: What the function is registered as; None for a notification. With a role, the annotated result is checked.
        name: The name for error texts; by default the name of the function.

    Attributes:
        name: The name of the function.
        parameters: The parameters that are arguments, by name.
        required: The names of the arguments without a default.

    Raises:
        TypeError: The function is not callable, its signature breaks the rules of this module, or a type is not
            supported. The text names the role, the name and the parameter.
    """

    __slots__ = (
        "_context_name",
        "_converts",
        "_defaults",
        "_function",
        "_schema",
        "_types",
        "name",
        "parameters",
        "required",
    )

    def __init__(
        self, function: Callable[..., Any], converts: bool = True, role: Role | None = None, name: str | None = None
    ) -> None:
        if not callable(function):
            raise TypeError(f"the function must be callable, not {type(function).__name__}")
        self._function = function
        self._converts = converts
        self.name: str = name_of(function)
        label = (name or self.name) if role is None else f"{role} {name or self.name}"
        self._context_name: str | None = None
        self.parameters: dict[str, Parameter] = {}
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
        if converts:
            self._read_types(label)
        self.required: frozenset[str] = frozenset(
            name
            for name, parameter in self.parameters.items()
            if (parameter.default is Parameter.empty or is_field(parameter.default)) and name not in self._defaults
        )
        self._schema = self._make_schema(label) if converts else {}
        if role is not None:
            self._check_result(hints, role, label)

    @property
    def description(self) -> str | None:
        """The docstring of the function, or None."""
        return inspect.getdoc(self._function) if inspect.isroutine(self._function) else None

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the arguments; {} if they are not converted."""
        return self._schema

    def descriptions(self) -> dict[str, str]:
        """Return the descriptions of arguments, by name."""
        properties = self._schema.get("properties", {})
        return {name: schema["description"] for name, schema in properties.items() if "description" in schema}

    def convert(self, arguments: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """Convert arguments to the annotated types.

        Args:
            arguments: The arguments by name, from JSON.
            strict: If False, strings are converted to numbers, booleans and so on where the type requires it.

        Raises:
            ValueError: An argument is missing, unknown, or of the wrong type. The text never shows a value, or a name
                that the caller made up.
        """
        if not self._converts:
            return dict(arguments)
        if missing := [name for name in self.parameters if name in self.required and name not in arguments]:
            raise ValueError(f"missing: {', '.join(missing)}")
        if not arguments.keys() <= self.parameters.keys():  # compares the lengths first
            raise ValueError(f"unknown name; expected: {', '.join(self.parameters) or 'none'}")
        converted = {}
        for name, value in arguments.items():
            try:
                converted[name] = self._types[name].convert(value, strict=strict)
            except (ValueError, EncodeError):
                raise ValueError(f"wrong type: {name}") from None  # the text of this error may show the value
        for name, value_type in self._defaults.items():
            if name not in converted:
                converted[name] = value_type.default().value
        return converted

    def call(self, arguments: Mapping[str, Any], context: Context) -> Any:
        """Call the function with converted arguments. Return what it returns: a result, or an awaitable of one."""
        if self._context_name is None:
            return self._function(**arguments)
        return self._function(**arguments, **{self._context_name: context})

    def _read_types(self, label: str) -> None:
        for name, parameter in self.parameters.items():
            if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
                raise TypeError(f"{label}: it must be possible to pass {name} by name")
            annotation, default = parameter.annotation, parameter.default
            if is_field(default):  # `a: int = Field(…)`
                annotation = Annotated[annotation, default]
            try:
                value_type = type_of(annotation)
            except Exception as error:
                raise TypeError(f"{label}: the type of {name} is not supported: {_reason(error)}") from error
            self._types[name] = value_type
            has_default = default is not Parameter.empty and not is_field(default)
            if isinstance(value_type, PydanticType) and not has_default and value_type.default() is not None:
                self._defaults[name] = value_type

    def _make_schema(self, label: str) -> dict[str, Any]:
        defaults = {
            name: self._defaults[name].default().value if name in self._defaults else parameter.default
            for name, parameter in self.parameters.items()
            if name not in self.required
        }
        try:
            return object_schema(self._types, defaults)
        except Exception as error:
            raise TypeError(f"{label}: the types of the parameters are not supported: {_reason(error)}") from error

    def _check_result(self, hints: Mapping[str, Any], role: Role, label: str) -> None:
        if inspect.isgeneratorfunction(self._function) or inspect.isasyncgenfunction(self._function):
            raise TypeError(f"{label}: a generator is not supported")
        if "return" in hints and (part := _unsupported(hints["return"], _REFUSED[role])) is not None:
            raise TypeError(f"{label}: a result of type {_shown(part)} is not supported")


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function; for a callable object the name of its class."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def _hints(function: Callable[..., Any], label: str) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise TypeError(f"{label}: an annotation uses a name that is not defined: {error.name}") from None


def _unsupported(annotation: Any, refused: tuple[type, ...]) -> Any:
    """The part of a result's annotation that certainly has no JSON form, or None."""
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
        return next((part for part in inner if _unsupported(part, refused) is not None), None)
    kind = origin or annotation
    if not isinstance(kind, type) or kind in (Any, object) or isinstance(annotation, TypeVar):
        return None
    if issubclass(kind, refused) or issubclass(kind, (Iterator, AsyncIterable)):
        return annotation
    if issubclass(kind, Iterable) and not typing.is_typeddict(kind):
        parts = (part for part in arguments if part is not Ellipsis)
        return next((part for part in parts if _unsupported(part, ()) is not None), None)
    if issubclass(kind, (PurePath, types.NoneType)):
        return None
    try:
        type_of(annotation)
    except Exception:
        return annotation
    return None


def _reason(error: Exception) -> str:
    """The last line of an error text, where msgspec names the type."""
    return str(error).strip().rpartition("\n")[2]


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
