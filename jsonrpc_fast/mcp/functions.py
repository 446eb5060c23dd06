"""Functions that serve: what their arguments are, read from the signature.

Rules:
  - each parameter is one argument; one without a default is required. `*args` and `**kwargs` are refused, since
    no schema can be told for them;
  - a parameter that is annotated with `Context` is given that, and is no argument;
  - annotations are what msgspec knows: plain types, `Literal`, `list[…]`, dataclasses, Structs, `datetime` and the
    like, with `Annotated[…, msgspec.Meta(description=…, ge=…)]` for more. Without one, any value fits;
  - the arguments become what the annotations say before the function is called;
  - a function may be sync or async. A sync one runs on the loop, and nothing else does meanwhile.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from copy import copy
from inspect import Parameter
from typing import Any, Final

import msgspec

from .context import Context

_RECORD: Final = "Arguments"


class ServingFunction:
    """A function and its arguments.

    function  sync or async
    fits      False: the arguments are handed over as they are, by name, for their schema is given elsewhere

    Raises TypeError for what is not callable, and for a signature that breaks the rules of this module.
    """

    __slots__ = ("_context_name", "_fits", "_function", "name", "parameters", "required")

    def __init__(self, function: Callable[..., Any], fits: bool = True) -> None:
        if not callable(function):
            raise TypeError(f"what serves must be callable, not {type(function).__name__}")
        self._function = function
        self._fits = fits
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self._context_name: str | None = None
        self.parameters: dict[str, Parameter] = {}
        """The arguments by their names."""
        hints = _hints(function)
        for name, parameter in inspect.signature(function).parameters.items():
            if hints.get(name) is Context:
                self._context_name = name
            else:
                self.parameters[name] = parameter.replace(annotation=hints.get(name, Any))
        if fits:
            self._check_kinds()
        self.required: frozenset[str] = frozenset(
            name for name, parameter in self.parameters.items() if parameter.default is Parameter.empty
        )
        """The arguments that have to be given."""

    @property
    def description(self) -> str | None:
        """The function's docstring."""
        return inspect.getdoc(self._function) if inspect.isroutine(self._function) else None

    def schema(self) -> dict[str, Any]:
        """The JSON Schema (2020-12) of the arguments, an object.

        Raises TypeError for an annotation that msgspec has no schema for.
        """
        fields: list[Any] = []
        for name, parameter in self.parameters.items():
            default = parameter.default
            if default is Parameter.empty:
                fields.append((name, parameter.annotation))
            elif default.__hash__ is None:  # msgspec takes no mutable one
                fields.append(
                    (name, parameter.annotation, msgspec.field(default_factory=functools.partial(copy, default)))
                )
            else:
                fields.append((name, parameter.annotation, default))
        arguments = msgspec.defstruct(_RECORD, fields, kw_only=True, forbid_unknown_fields=True)
        written = msgspec.json.schema(arguments)
        definitions = written.pop("$defs")
        # The protocol wants the object itself at the root, not a reference to it.
        schema = {name: value for name, value in definitions.pop(_RECORD).items() if name != "title"}
        return {**schema, "$defs": definitions} if definitions else schema

    def descriptions(self) -> dict[str, str]:
        """What the annotations say of the arguments, by their names."""
        properties = self.schema().get("properties", {})
        return {name: told["description"] for name, told in properties.items() if "description" in told}

    def convert(self, arguments: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """The arguments as the annotations want them.

        strict  False: a text that stands for a number, a boolean or the like becomes one

        Raises ValueError for one that is missing, unknown, or does not fit; the text names it, unless it is unknown.
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
                converted[name] = msgspec.convert(value, self.parameters[name].annotation, strict=strict)
            except msgspec.ValidationError:
                raise ValueError(f"not of the right type: {name}") from None  # its own text may show the value
        return converted

    def call(self, arguments: Mapping[str, Any], context: Context) -> Any:
        """What the function returns for arguments that are converted: a result, or an awaitable of one."""
        if self._context_name is None:
            return self._function(**arguments)
        return self._function(**arguments, **{self._context_name: context})

    def _check_kinds(self) -> None:
        for name, parameter in self.parameters.items():
            if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
                raise TypeError(f"{self.name}: {name} cannot be given by its name alone")


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise TypeError(f"an annotation names what is not known where the function is defined: {error.name}") from None
