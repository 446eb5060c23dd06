"""Registered functions: their arguments, read from the signature.

Rules:
  - Each parameter is an argument; it is required if it has no default. `*args` and `**kwargs` are refused: they have no
    schema.
  - A parameter annotated with `Context` or `Context | None`, of any name, gets the context; it is not an argument.
    There may be one.
  - Annotations may be all types that `values.py` supports, with `Annotated[…, msgspec.Meta(description=…, ge=…)]` or
    pydantic's `Field(…)` for constraints. A parameter without an annotation accepts any value.
  - Arguments are converted to the annotated types before the call.
  - A parameter without a description gets the one in the docstring.
  - An unsupported type of a parameter or of the result is a TypeError when the function is registered.
  - A function may be sync or async. A sync function blocks the event loop, unless it runs in a thread.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping
from inspect import Parameter
from pathlib import PurePath
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

from ...errors import EncodeError
from .annotations import is_field
from .context import Context
from .docstrings import read_docstring
from .json_values import json_of
from .threads import ThreadFunction
from .values import PydanticType, ValueType, object_schema, type_of

_PLAIN: Final = (str, int, float, bool, types.NoneType)

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
        thread: Whether to call the function in a thread: see `threads.py`.

    Attributes:
        description: The docstring of the function, without its part about parameters; None without one.
        name: The name of the function.
        parameters: The parameters that are arguments, by name.
        required: The names of the arguments without a default.
        returns: The annotation of the result; `Parameter.empty` without one.

    Raises:
        TypeError: The function is not callable, its signature breaks the rules of this module, or a type is not
            supported. The text names the role, the name and the parameter.
    """

    __slots__ = (
        "_context_name",
        "_converts",
        "_defaults",
        "_function",
        "_plain",
        "_schema",
        "_thread",
        "_types",
        "description",
        "name",
        "parameters",
        "required",
        "returns",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        converts: bool = True,
        role: Role | None = None,
        name: str | None = None,
        *,
        thread: bool = False,
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
            is_context = _is_context(hints.get(parameter_name))
            if parameter.kind is Parameter.POSITIONAL_ONLY and (is_context or not converts):
                raise TypeError(f"{label}: it must be possible to pass {parameter_name} by name")
            if is_context:
                if self._context_name is not None:
                    raise TypeError(f"{label}: {self._context_name} and {parameter_name} are both a Context")
                self._context_name = parameter_name
            else:
                annotation = hints.get(parameter_name, parameter.annotation)
                if annotation is Parameter.empty or isinstance(annotation, str):
                    annotation = Any
                self.parameters[parameter_name] = parameter.replace(annotation=annotation)
        try:
            self._thread: ThreadFunction | None = ThreadFunction(function, self._context_name) if thread else None
        except TypeError as error:
            raise TypeError(f"{label}: {error}") from None
        self.returns: Any = hints.get("return", Parameter.empty)
        self._types: dict[str, ValueType] = {}
        self._defaults: dict[str, PydanticType] = {}
        if converts:
            self._read_types(label)
        self.required: frozenset[str] = frozenset(
            name
            for name, parameter in self.parameters.items()
            if (parameter.default is Parameter.empty or is_field(parameter.default)) and name not in self._defaults
        )
        documented = _without_partial(function)
        doc = inspect.getdoc(documented) if inspect.isroutine(documented) else None
        description, described = read_docstring(doc, self.parameters)
        self.description: str | None = description
        self._schema = self._make_schema(label) if converts else {}
        for parameter_name, text in described.items():
            if converts:
                self._schema["properties"][parameter_name].setdefault("description", text)
        self._plain: dict[str, tuple[type, ...]] | None = self._plain_types() if converts else None
        if role is not None:
            self._check_result(hints, role, label)

    def schema(self, *, ignores_unknown: bool = False) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the arguments; {} if they are not converted.

        Args:
            ignores_unknown: Whether there may be other arguments.
        """
        if not ignores_unknown:
            return self._schema
        return {name: value for name, value in self._schema.items() if name != "additionalProperties"}

    def descriptions(self) -> dict[str, str]:
        """Return the descriptions of arguments, by name."""
        properties = self._schema.get("properties", {})
        return {name: schema["description"] for name, schema in properties.items() if "description" in schema}

    def convert(self, arguments: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """Convert arguments to the annotated types.

        Args:
            arguments: The arguments by name, from JSON.
            strict: If False, strings are converted where the type requires it: to numbers, booleans and so on, and as
                JSON texts to arrays and objects.

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
                converted[name] = self._convert(self._types[name], value, strict)
            except (ValueError, EncodeError, RecursionError) as error:  # its text may show the value
                value_type = self._types[name]
                if isinstance(value_type, PydanticType):
                    faults = value_type.faults(error, value)
                else:
                    faults = value_type.faults(value, strict=strict)
                raise ValueError("; ".join([f"/{name}{fault}" for fault in faults or [": Invalid value"]])) from None
        for name, value_type in self._defaults.items():
            if name not in converted:
                converted[name] = value_type.default().value
        return converted

    def are_plain(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether arguments are valid and need no conversion, as far as their classes show it.

        Only arguments without constraints are checked: str, int, float, bool, None, and unions of these.
        """
        plain = self._plain
        if plain is None or len(arguments) > len(plain) or not self.required <= arguments.keys():
            return False
        for name, value in arguments.items():
            if type(value) not in plain.get(name, ()):
                return False
        return True

    def call(self, arguments: Mapping[str, Any], context: Context) -> Any:
        """Call the function with converted arguments. Return what it returns: a result, or an awaitable of one."""
        if self._thread is not None:
            return self._thread(arguments, context)
        if self._context_name is None:
            return self._function(**arguments)
        return self._function(**arguments, **{self._context_name: context})

    def _convert(self, value_type: ValueType, value: Any, strict: bool) -> Any:
        try:
            return value_type.convert(value, strict=strict)
        except (ValueError, EncodeError, RecursionError):
            read = value if strict or not isinstance(value, str) else json_of(value)
            if read is value:
                raise
            return value_type.convert(read, strict=False)

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

    def _plain_types(self) -> dict[str, tuple[type, ...]] | None:
        """The classes that each parameter accepts as they are, if that is all there is to check."""
        plain = {}
        for name, parameter in self.parameters.items():
            is_union = get_origin(parameter.annotation) in (typing.Union, types.UnionType)
            parts = get_args(parameter.annotation) if is_union else (parameter.annotation,)
            if not all(part in _PLAIN for part in parts) or is_field(parameter.default):
                return None
            plain[name] = parts
        return plain

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
    """Return the name of a function, also of a `functools.partial`; for a callable object the name of its class."""
    target = _without_partial(function)
    name: str = getattr(target, "__name__", type(target).__name__)
    return name


def _without_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a `functools.partial` calls; other functions as they are."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _is_context(annotation: Any) -> bool:
    """Whether an annotation is `Context`, perhaps with None or metadata."""
    if get_origin(annotation) in (typing.Union, types.UnionType, Annotated):
        return any(_is_context(part) for part in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, Context)


def _hints(function: Callable[..., Any], label: str) -> dict[str, Any]:
    function = _without_partial(function)
    target: Any = function if inspect.isroutine(function) else type(function).__call__
    made: dict[str, Any] = {}
    if isinstance(function, type):
        target, made = vars(function).get("__init__", target), {"return": function}
    try:
        try:
            return typing.get_type_hints(target, include_extras=True) | made
        except NameError:  # perhaps a name of the function around it
            return typing.get_type_hints(target, localns=_locals_around(target), include_extras=True) | made
    except NameError as error:
        raise TypeError(f"{label}: an annotation uses a name that is not defined: {error.name}") from None
    except Exception as error:
        raise TypeError(f"{label}: an annotation cannot be evaluated: {error}") from error


def _locals_around(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the local names of the functions that are running and in which a function was defined."""
    found: dict[str, Any] = {}
    outer = getattr(function, "__qualname__", "").split(".<locals>.")[:-1]
    names = {name.rpartition(".")[2] for name in outer}
    frame = inspect.currentframe()
    while frame is not None and names:
        if frame.f_code.co_name in names and frame.f_globals is getattr(function, "__globals__", None):
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


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
