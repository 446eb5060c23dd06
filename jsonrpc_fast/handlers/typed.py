"""Params as types: msgspec Structs, pydantic models, dataclasses, TypedDicts and what else these libraries decode.

Rules:
  - a type with a part of pydantic (a model, a pydantic dataclass, a `TypeAdapter`, a constraint of pydantic or of
    annotated-types) is decoded by pydantic; all others by msgspec. Neither is imported before a method needs it;
  - a `Raw` goes straight into the decoder. Params that were decoded already give the same values;
  - absent params count as an empty object;
  - invalid params are answered with -32602. `data` is a list of problems, each with a `path` and a `reason`, which hold
    names and bounds of the type only: no value of the input, no name of an unknown member, no key of a mapping, and no
    text of an exception of the application.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection
from functools import partial
from inspect import Parameter
from itertools import takewhile
from operator import attrgetter
from typing import Any, Final, get_args

from ..codec import Raw
from ..codec._backend import dumps
from ..errors import EncodeError
from .handler import Handler, RequestContext, is_context
from .invalid_params import IS_REQUIRED, IS_UNKNOWN, misfit_error, pointer, too_many

Decode = Callable[[Any], Any]

_MAX_PROBLEMS: Final = 16
"""Maximum number of problems in one answer."""

_TOO_DEEP: Final = "Nested too deeply"
_INVALID: Final = "Invalid value"
_EXPECTED: Final = "Expected `"  # msgspec's messages that begin so quote the type only
_UNKNOWN: Final = "Object contains unknown field `"
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")

_PYDANTIC_REASONS: Final = {"missing": IS_REQUIRED, "extra_forbidden": IS_UNKNOWN}

_PYDANTIC_CONTEXT: Final = frozenset(
    {
        *("gt", "ge", "lt", "le", "multiple_of"),
        *("actual_length", "min_length", "max_length", "max_digits", "decimal_places", "whole_digits"),
        *("class", "class_name", "field_type", "expected", "pattern"),
        *("discriminator", "expected_tags", "expected_schemes", "expected_version", "tz_expected"),
    }
)
"""Values in pydantic's messages that come from the type, or are lengths."""


class TypedHandler(Handler):
    """A handler whose params are decoded into a type before it is called."""

    __slots__ = ("_decode", "_inner")

    def __init__(self, inner: Handler, decode: Decode) -> None:
        self.plain = None
        self.wants_context: bool = inner.wants_context
        self.takes_raw: bool = True
        self._inner = inner
        self._decode = decode

    def invoke(self, params: Any, context: RequestContext | None) -> Any:
        """Decode the params and call the function; otherwise as `Handler.invoke`."""
        return self._inner.invoke(self._decode(params), context)


def handler_of_type(function: Callable[..., Any], type_: Any) -> Handler:
    """Return the handler of a function that takes its params as one argument of a type.

    Raises:
        TypeError: The type cannot be decoded.
        ImportError: msgspec is not installed.
    """
    decode = _pydantic_decoder(type_) if _has_pydantic(type_) else _msgspec_decoder(type_)
    return TypedHandler(Handler(function, unpack=False), decode)


def handler_of_annotations(function: Callable[..., Any]) -> Handler:
    """Return the handler of a function whose arguments are decoded as its annotations say.

    Raises:
        TypeError: A parameter has no name for the peer, or a type that cannot be decoded.
        ImportError: msgspec is not installed.
    """
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(f"an annotation cannot be evaluated: {error}") from None
    parameters = [parameter for parameter in signature.parameters.values() if not is_context(parameter.annotation)]
    for parameter in parameters:
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            raise TypeError(f"typed needs parameters with a name of their own, unlike {parameter}")
    make = _msgspec_arguments
    if any(_has_pydantic(each.annotation) for each in parameters):
        make = _pydantic_arguments
    decode = make(parameters)
    names = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD]

    def decode_both(params: Any) -> Any:
        if type(params) is Raw and bytes(params).startswith(b"["):
            params = params.decode()
        if type(params) is list:
            if len(params) > len(names):
                raise misfit_error([too_many(len(names))])
            params = dict(zip(names, params, strict=False))
        return decode(params)

    return TypedHandler(Handler(function), decode_both)


def _type_of(parameter: Parameter) -> Any:
    return Any if parameter.annotation is Parameter.empty else parameter.annotation


# msgspec.


def _msgspec_decoder(type_: Any) -> Decode:
    try:
        import msgspec
    except ImportError:
        raise ImportError('typed params need msgspec: pip install "jsonrpc_fast[typed]"') from None
    decode = msgspec.json.Decoder(type_).decode
    pointer_of = _pointer_reader(_msgspec_names(type_))

    def decode_params(params: Any) -> Any:
        try:
            if type(params) is Raw:
                return params.decode(decode)
            return msgspec.convert({} if params is None else params, type_, str_keys=True)
        except msgspec.DecodeError as error:
            place, reason = msgspec_problem(error)
            problem = pointer_of(place), reason
        except RecursionError:
            problem = "", _TOO_DEEP
        raise misfit_error([problem])

    return decode_params


def msgspec_problem(error: Exception) -> tuple[str, str]:
    """Return the place in an error of msgspec, such as `$.items[0]`, and the reason, without values of the input."""
    text = str(error)
    cause = error.__cause__  # an exception of `__post_init__`, whose text begins the message
    if cause is not None:
        text = text.removeprefix(str(cause))
    reason, at, path = text.rpartition(" - at `")
    if not at:
        reason, path = text, "$`"
    if cause is not None:
        reason = _INVALID
    elif missing := _MISSING.fullmatch(reason):
        return f"{path[:-1]}.{missing[1]}", IS_REQUIRED
    elif reason.startswith(_UNKNOWN):
        reason = IS_UNKNOWN
    elif not reason.startswith(_EXPECTED):
        reason = re.split("[`']", reason)[0].rstrip()
    return path[:-1].removeprefix("key` in `"), reason


def _msgspec_arguments(parameters: list[Parameter]) -> Decode:
    """Return what decodes an object of arguments: into a list of them, or a dict if one of them is keyword-only.

    The arguments are the fields of one Struct, so msgspec reads them in one pass.
    """
    try:
        from msgspec import defstruct, field
    except ImportError:
        return _msgspec_decoder(None)  # raises
    # Fields have names of their own: those of the parameters could be names of Struct's own.
    fields = {f"field_{index}": parameter for index, parameter in enumerate(parameters)}
    struct = defstruct(
        "Params",
        [
            (name, _type_of(each))
            if each.default is Parameter.empty
            else (name, _type_of(each), field(default_factory=partial(_same, each.default)))
            for name, each in fields.items()
        ],
        kw_only=True,
        forbid_unknown_fields=True,
        rename={name: each.name for name, each in fields.items()},
    )
    decode = _msgspec_decoder(struct)
    if any(each.kind is Parameter.KEYWORD_ONLY for each in parameters):
        return lambda params: _named(decode(params), fields)
    if len(fields) < 2:
        return lambda params: [getattr(decode(params), name) for name in fields]
    values = attrgetter(*fields)
    return lambda params: list(values(decode(params)))


def _same(value: Any) -> Any:
    return value


def _named(arguments: Any, fields: dict[str, Parameter]) -> dict[str, Any]:
    return {parameter.name: getattr(arguments, name) for name, parameter in fields.items()}


def _msgspec_names(type_: Any) -> set[str]:
    """Return the names of all fields inside a type.

    Raises:
        TypeError: A part of the type is a class that msgspec does not know.
    """
    from msgspec import inspect as types

    names: set[str] = set()
    seen: set[int] = set()
    waiting: list[Any] = [types.type_info(type_)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting += part
        elif isinstance(part, types.CustomType):
            raise TypeError(f"msgspec cannot decode {part.cls!r}: use a TypeAdapter of pydantic")
        elif isinstance(part, types.Type | types.Field) and id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, types.Field):
                names.add(part.encode_name)
            elif tag_field := getattr(part, "tag_field", None):
                names.add(tag_field)
            waiting += [getattr(part, name) for name in part.__struct_fields__]
    return names


def _pointer_reader(names: set[str]) -> Callable[[str], str]:
    """Return a function from a path of msgspec to its JSON pointer, as far as it has these names and indexes."""
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    part = re.compile(rf"\.({known})(?![^.\[])|\[([0-9]+)\]" if names else r"\[([0-9]+)()\]")

    def pointer_of(path: str) -> str:
        parts = []
        at = 1
        while found := part.match(path, at):
            parts.append(found[1] or found[2])
            at = found.end()
        return pointer(parts)

    return pointer_of


# pydantic.


def _has_pydantic(part: Any) -> bool:
    """Return whether a type, or a part of it, is pydantic's."""
    if "pydantic" not in sys.modules:
        return False
    kind = part if isinstance(part, type) else type(part)
    return (
        any(hasattr(part, name) for name in ("__pydantic_core_schema__", "__get_pydantic_core_schema__"))
        or kind.__module__.partition(".")[0] in ("pydantic", "annotated_types")
        or any(map(_has_pydantic, get_args(part)))
    )


def _pydantic_decoder(type_: Any) -> Decode:
    from pydantic import TypeAdapter, ValidationError

    adapter: Any = type_ if isinstance(type_, TypeAdapter) else TypeAdapter(type_)
    validate_json = adapter.validate_json
    names: set[str] = set()

    def decode_params(params: Any) -> Any:
        try:
            if type(params) is Raw:
                return params.decode(validate_json)
            try:
                text = b"{}" if params is None else dumps(params)
            except EncodeError:  # an integer beyond 64 bits, or too deep for the encoder
                return adapter.validate_python(params)
            return validate_json(text)
        except ValidationError as error:
            names.update(() if names else strings_in(adapter.core_schema))
            problems = _pydantic_problems(error, names, params)
        except RecursionError:
            problems = [("", _TOO_DEEP)]
        raise misfit_error(problems)

    return decode_params


def _pydantic_arguments(parameters: list[Parameter]) -> Decode:
    from typing_extensions import NotRequired, Required, TypedDict  # pydantic needs it

    items = {
        each.name: Required[_type_of(each)] if each.default is Parameter.empty else NotRequired[_type_of(each)]
        for each in parameters
    }
    arguments = TypedDict("Params", items)  # type: ignore[misc]
    setattr(arguments, "__pydantic_config__", {"extra": "forbid"})  # noqa: B010  # type checkers know no such attribute
    return _pydantic_decoder(arguments)


def _pydantic_problems(error: Any, names: set[str], params: Any) -> list[tuple[str, str]]:
    if error.error_count() > 100 * _MAX_PROBLEMS:
        return [("", f"{error.error_count()} invalid values")]  # each one takes memory
    found = error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
    value = params.decode() if type(params) is Raw else params
    return [
        (pointer(takewhile(lambda part: part is not None, place_in(value, each, names))), pydantic_reason(each))
        for each in found
    ]


def place_in(value: Any, found: Any, names: Collection[str]) -> list[Any]:
    """Return the names and indexes on the way to the place of an error of pydantic; None for a key of a mapping.

    A location of pydantic also has the classes and tags of unions, and validators, which are not in the value.

    Args:
        value: What pydantic has refused, from JSON.
        found: The error, one of `ValidationError.errors()`.
        names: The names in the type, and other strings of it.
    """
    place: list[Any] = []
    location = found["loc"]
    for index, part in enumerate(location):
        is_last = index == len(location) - 1
        if isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif isinstance(value, dict) and part in value:
            value = value[part]
            part = part if part in names else None
        elif not (is_last and found["type"] == "missing" and part in names):
            continue
        place.append(part)
    return place


def pydantic_reason(found: Any) -> str:
    """Return the reason in an error of pydantic, without values and without texts of the application."""
    from pydantic_core import PydanticKnownError

    kind, context = found["type"], found.get("ctx", {})
    if kind in _PYDANTIC_REASONS:
        return _PYDANTIC_REASONS[kind]
    try:
        if context.keys() <= _PYDANTIC_CONTEXT:
            return PydanticKnownError(kind, context or None).message()
        PydanticKnownError(kind, context)
    except (KeyError, TypeError):  # a kind of the application's own
        return _INVALID
    return _INVALID if kind in ("value_error", "assertion_error") else str(kind).replace("_", " ").capitalize()


def strings_in(schema: Any) -> set[str]:
    """Return all strings in a schema of pydantic: the names and tags that a location may hold, and others."""
    found: set[str] = set()
    seen: set[int] = set()  # a default may hold itself
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, str):
            found.add(part)
        elif isinstance(part, dict):
            waiting += part
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
    return found
