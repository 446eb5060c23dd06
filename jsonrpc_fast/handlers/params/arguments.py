"""The arguments of a function, converted as its annotations say.

Rules:
  - Each parameter is an argument that is passed by name; it is required if it has no default. A parameter without an
    annotation accepts any value.
  - `convert` converts one argument after another, and finds all problems. If msgspec converts every argument, it may
    make a Struct of all of them in `one_pass` instead; `convert` then handles arguments that msgspec refuses.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

from ...codec._backend import decoded
from ...support import pointer_to
from .annotations import is_field
from .docstrings import read_docstring
from .problems import IS_UNKNOWN, Misfit, Problem, missing, too_many
from .types import MsgspecType, PydanticType, ValueType, msgspec_module, type_of

# Classes whose values need no conversion, if no constraint is attached.
_PLAIN: Final = (str, int, float, bool, types.NoneType)


class Arguments:
    """The arguments of a function.

    Attributes:
        parameters: The parameters that are arguments, with evaluated annotations.
        types: Their types.
        required: Those without a default.
        plain: The classes whose values each argument accepts unconverted, if no other check is needed; else None.

    Raises:
        TypeError: A parameter cannot be passed by name, or its type is not supported.
        ImportError: A type needs msgspec, which is not installed.
    """

    __slots__ = ("_defaults", "_positional", "parameters", "plain", "required", "types")

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self.parameters: Mapping[str, Parameter] = parameters
        self.types: dict[str, ValueType] = {}
        self._defaults: dict[str, PydanticType] = {}  # by name: the defaults that an annotation contains
        self._positional = [name for name, each in parameters.items() if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        for name, parameter in parameters.items():
            if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
                raise TypeError(f"parameter {parameter} must not be positional-only")
            annotation, default = parameter.annotation, parameter.default
            if is_field(default):  # `a: int = Field(…)`
                annotation = Annotated[annotation, default]
            try:
                value_type = self.types[name] = type_of(annotation)
            except ImportError:
                raise
            except Exception as error:
                raise TypeError(f"the type of {name} is not supported: {last_line(error)}") from error
            has_default = default is not Parameter.empty and not is_field(default)
            if isinstance(value_type, PydanticType) and not has_default and value_type.default() is not None:
                self._defaults[name] = value_type
        self.required: frozenset[str] = frozenset(
            name
            for name, parameter in parameters.items()
            if (parameter.default is Parameter.empty or is_field(parameter.default)) and name not in self._defaults
        )
        self.plain: dict[str, tuple[type, ...]] | None = _plain_types(parameters)

    def default_of(self, name: str) -> Any:
        """Return the default of an argument that is not required."""
        return self._defaults[name].default().value if name in self._defaults else self.parameters[name].default

    def convert(self, arguments: Mapping[str, Any], reread: Callable[[str], Any] | None = None) -> dict[str, Any]:
        """Convert arguments to the annotated types.

        Args:
            arguments: JSON values, by name.
            reread: If given, strings are converted where the type requires it: to numbers, booleans and so on, or
                else to the value that this function returns for them.

        Raises:
            Misfit: An argument is missing, unknown, or of the wrong type.
        """
        problems = missing(name for name in self.parameters if name in self.required and name not in arguments)
        # Unknown names are reported without the names, which are input of the peer.
        if not arguments.keys() <= self.parameters.keys():  # compares the lengths first
            problems.append(Problem("", IS_UNKNOWN))
        converted, left_out = {}, 0
        for name, value in arguments.items():
            if (value_type := self.types.get(name)) is not None:
                try:
                    converted[name] = _convert(value_type, value, reread)
                except Misfit as misfit:
                    problems += [Problem(pointer_to([name]) + path, reason) for path, reason in misfit.problems]
                    left_out += misfit.left_out
        if problems:
            raise Misfit(problems, left_out)
        for name, value_type in self._defaults.items():
            if name not in converted:
                converted[name] = value_type.default().value
        return converted

    def bind(self, params: Any) -> dict[str, Any]:
        """Return the arguments in the params of a method: a list, a dict, a `Raw` of these, or None.

        Raises:
            Misfit: As in `convert`, or an array has too many items.
        """
        params = decoded(params)
        if type(params) is list:
            maximum = len(self._positional) if self.required <= set(self._positional) else -1  # no array fits
            if len(params) > maximum:
                raise Misfit([too_many(maximum)], 0)
            params = dict(zip(self._positional, params, strict=False))
        return self.convert(params or {})

    def one_pass(self, is_array: bool) -> tuple[MsgspecType, list[str]] | None:
        """Return a Struct of all arguments in an object or array, and their names; None if msgspec cannot make one.

        Its fields are named by `field_of`.
        """
        # A Struct has a field for each argument, so that msgspec finds missing and unknown ones itself.
        names = self._positional if is_array else list(self.parameters)
        types = {name: each for name in names if isinstance(each := self.types[name], MsgspecType)}
        if len(types) < len(names) or not self.required <= types.keys():
            return None
        struct = msgspec_module().defstruct(
            "Params",
            [(field_of(name), each.annotation, *_default(self.parameters[name])) for name, each in types.items()],
            array_like=is_array,
            kw_only=True,
            forbid_unknown_fields=True,
            rename={field_of(name): name for name in names},
        )
        return MsgspecType(struct), names


def field_of(name: str) -> str:
    """Return the field of a Struct for an argument: its own name could be an attribute of every Struct."""
    return f"field_{name}"


def _default(parameter: Parameter) -> tuple[Any, ...]:
    default = parameter.default
    if default is Parameter.empty:
        return ()
    # msgspec passes defaults of these types on unchanged.
    if type(default) in (*_PLAIN, bytes):
        return (default,)
    return (msgspec_module().field(default_factory=lambda: default),)  # msgspec would copy it, or refuse it


def _convert(value_type: ValueType, value: Any, reread: Callable[[str], Any] | None) -> Any:
    try:
        return value_type.convert(value, strict=reread is None)
    except Misfit:
        # Language models write numbers, objects and arrays as strings.
        read = reread(value) if reread is not None and isinstance(value, str) else value
        if read is value:
            raise
        with contextlib.suppress(Misfit):  # a problem here would be about a value that the caller did not send
            return value_type.convert(read, strict=False)
        raise


def _plain_types(parameters: Mapping[str, Parameter]) -> dict[str, tuple[type, ...]] | None:
    plain = {}
    for name, parameter in parameters.items():
        is_union = get_origin(parameter.annotation) in (typing.Union, types.UnionType)
        parts = get_args(parameter.annotation) if is_union else (parameter.annotation,)
        if not all(part in _PLAIN for part in parts) or is_field(parameter.default):
            return None
        plain[name] = parts
    return plain


class UndefinedName(TypeError):
    """An annotation uses a name that is not defined; it may be defined below the function."""


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function, evaluated; for a class those of `__init__`, and the class as the result.

    Raises TypeError: an UndefinedName for a name that is not defined, or not yet.
    """
    function = without_partial(function)
    # `get_type_hints` of an object looks at its class: the annotations are those of `__call__`.
    target: Any = function if inspect.isroutine(function) else type(function).__call__
    made: dict[str, Any] = {}
    if isinstance(function, type):
        target, made = vars(function).get("__init__", target), {"return": function}
    try:
        try:
            return typing.get_type_hints(target, include_extras=True) | made
        except NameError:  # perhaps a local name of the enclosing function
            return typing.get_type_hints(target, localns=_locals_around(target), include_extras=True) | made
    except NameError as error:
        raise UndefinedName(f"an annotation uses a name that is not defined: {error.name}") from None
    except Exception as error:
        raise TypeError(f"an annotation cannot be evaluated: {error}") from error


def parameters_of(function: Callable[..., Any], hints: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the parameters of a function, by name, with evaluated annotations, and Any for a parameter without one.

    Raises:
        TypeError: The function has no signature.
    """
    try:
        signature = inspect.signature(function)
    except ValueError as error:  # some builtins have none
        raise TypeError(str(error)) from None
    found = {}
    for name, parameter in signature.parameters.items():
        annotation = hints.get(name, parameter.annotation)
        if annotation is Parameter.empty or isinstance(annotation, str):
            annotation = Any
        found[name] = parameter.replace(annotation=annotation)
    return found


class FunctionSignature(NamedTuple):
    """What the signature and the docstring of a function say.

    Attributes:
        name: The name of the function, even of a `functools.partial`; for a callable object, that of its class.
        parameters: The parameters by name, with evaluated annotations, and Any for a parameter without one.
        returns: The evaluated annotation of the result; `Parameter.empty` without one.
        description: The docstring, without its part about parameters; None without one.
        descriptions: What the docstring says about parameters, by name.
    """

    name: str
    parameters: dict[str, Parameter]
    returns: Any
    description: str | None
    descriptions: Mapping[str, str]


def signature_of(function: Callable[..., Any]) -> FunctionSignature:
    """Read the signature and the docstring of a function. Raises like `hints_of`, and TypeError without a signature."""
    hints = hints_of(function)
    parameters = parameters_of(function, hints)
    inner = without_partial(function)
    # The docstring of an object is that of its class, which does not describe the call.
    text = inspect.getdoc(inner) if inspect.isroutine(inner) else None
    returns = hints.get("return", Parameter.empty)
    return FunctionSignature(name_of(function), parameters, returns, *read_docstring(text, parameters))


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, even of a `functools.partial`; for a callable object, the name of its class."""
    inner = without_partial(function)
    name: str = getattr(inner, "__name__", type(inner).__name__)
    return name


def without_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a `functools.partial` calls, and other functions unchanged."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _locals_around(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the local names of the functions that are running and in which a function was defined."""
    found: dict[str, Any] = {}
    outer = getattr(function, "__qualname__", "").split(".<locals>.")[:-1]
    names = {name.rpartition(".")[2] for name in outer}
    # `get_type_hints` sees only globals. The frame of a running function has its local classes.
    frame = inspect.currentframe()
    while frame is not None and names:
        if frame.f_code.co_name in names and frame.f_globals is getattr(function, "__globals__", None):
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def last_line(error: Exception) -> str:
    """Return the last line of an error's text, where msgspec names the type."""
    return str(error).strip().rpartition("\n")[2]
