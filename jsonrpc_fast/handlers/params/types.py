"""The types of values: their conversion from JSON, by msgspec or by pydantic.

Rules:
  - Arguments and results support the same types, in the same JSON form: plain types, dataclasses, msgspec Structs,
    TypedDicts, enums, Decimal, UUID, datetime, sets and bytes (base64), as msgspec reads and writes them.
  - Pydantic, if it is installed, also converts a union of several dataclasses, and an alias that refers to itself, such
    as `type Json = list[Json] | int`.
  - Constraints of `msgspec.Meta`, annotated-types and pydantic apply to the conversion. A constraint that would have no
    effect, or that its type does not support, raises TypeError. So does a type that neither library supports.
  - A `Raw` is passed straight to the decoder; the result equals that of the decoded JSON value.
"""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import sys
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from ...codec import Raw
from ...codec._backend import decoded, dumps
from ...errors import EncodeError
from .annotations import has_pydantic, is_constraint, is_field, parts_of, with_meta
from .problems import (
    INVALID,
    MAX_PROBLEMS,
    TOO_DEEP,
    Misfit,
    Problem,
    msgspec_pointers,
    msgspec_problem,
    pydantic_problems,
)


class MsgspecType:
    """A type that msgspec converts.

    Attributes:
        annotation: The annotation for msgspec: constraints of annotated-types are replaced by `msgspec.Meta`.
        decode: Converts a JSON text in the usual form of the type, in one pass, or raises one of `refusals`.
        refusals: The exceptions that `decode` and `convert_usual` raise.

    Raises:
        TypeError: Msgspec does not support the type, or a constraint of it.
        ImportError: Msgspec is not installed.
    """

    __slots__ = ("_has_other_keys", "_msgspec", "_names", "_needs_defaults", "annotation", "decode", "refusals")

    def __init__(self, annotation: Any) -> None:
        self._msgspec = msgspec = msgspec_module()
        parts = list(parts_of(annotation))
        for part, is_inside in parts:
            if is_inside and is_constraint(part):
                raise TypeError(f"{part!r} in a class has no effect: use msgspec.Meta there, or a pydantic model")
        self.annotation: Any = with_meta(annotation) if any(is_constraint(part) for part, _ in parts) else annotation
        decode: Callable[[bytes], Any] = msgspec.json.Decoder(self.annotation).decode
        self._names, self._has_other_keys = _msgspec_names(self.annotation)
        self._needs_defaults = any(_has_class_defaults(part) for part, _ in parts)
        self.decode: Callable[[bytes], Any] = decode
        if self._needs_defaults:
            self.decode = lambda text: _with_defaults(decode(text))
        self.refusals: tuple[type[Exception], ...] = (msgspec.DecodeError, RecursionError)

    def convert(self, value: Any, *, strict: bool = True) -> Any:
        """Convert a value.

        Args:
            value: A JSON value, or a `Raw`.
            strict: If False, strings are converted to numbers, booleans and so on where the type requires it.

        Raises:
            Misfit: The value does not match the type.
        """
        # Three attempts, the fastest and strictest first: the text in one pass; the value; the value with 1.0 as 1,
        # which is an integer for JSON Schema but not for msgspec.
        try:
            if type(value) is Raw:
                try:
                    return value.decode(self.decode)
                except self.refusals:
                    value = value.decode()
            try:
                return self.convert_usual(value, strict)
            except self._msgspec.ValidationError:
                return self.convert_usual(_integral(value), strict)
        except self._msgspec.DecodeError as error:
            problem = msgspec_problem(error, msgspec_pointers(self._names))
        except RecursionError:
            problem = Problem("", TOO_DEEP)
        raise Misfit([problem], 0)

    def convert_usual(self, value: Any, strict: bool = True) -> Any:
        """Convert a JSON value in the usual form of the type, or raise one of `refusals`."""
        converted = self._msgspec.convert(value, self.annotation, strict=strict, str_keys=self._has_other_keys)
        return _with_defaults(converted) if self._needs_defaults else converted

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of values that `convert` accepts.

        Raises:
            TypeError: The type has no schema.
        """
        schema: dict[str, Any] = self._msgspec.json.schema(self.annotation)
        return schema

    def result_schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of values that were written as JSON."""
        return self.schema()


class PydanticType:
    """A type that pydantic converts, given as an annotation or a `TypeAdapter`.

    Raises TypeError if pydantic does not support the type or a constraint of it, or a part of the type is from msgspec.
    """

    __slots__ = ("_names", "_validation_error", "adapter")

    def __init__(self, annotation: Any) -> None:
        pydantic = _pydantic()
        self._names: frozenset[str] | None = None
        self._validation_error = pydantic.ValidationError
        if isinstance(annotation, pydantic.TypeAdapter):
            self.adapter: Any = annotation
            return
        msgspec = sys.modules.get("msgspec")
        for part, is_inside in parts_of(annotation):
            if msgspec is not None and (
                isinstance(part, msgspec.Meta) or (isinstance(part, type) and issubclass(part, msgspec.Struct))
            ):
                raise TypeError("msgspec and pydantic cannot be mixed in one type")
            if is_field(part) and not is_inside and (part.alias is not None or part.validation_alias is not None):
                raise TypeError("an alias is not supported: an argument has the name of its parameter")
        try:
            self.adapter = pydantic.TypeAdapter(annotation)
        except pydantic.errors.PydanticUserError as error:
            raise TypeError(error.message.partition("\n")[0]) from None
        for part in _parts_of_schema(self.adapter.core_schema):
            _check_constraint(part)

    def convert(self, value: Any, *, strict: bool = True) -> Any:
        """Convert a value, as in `MsgspecType.convert`. `strict` has no effect: pydantic's type decides."""
        left_out = 0
        validate_json = self.adapter.validate_json  # in JSON mode, since JSON has no tuples and no dates
        try:
            if type(value) is Raw:
                # pydantic reads the text itself, without a dict in between.
                return value.decode(validate_json)
            try:
                text = dumps(value)
            except EncodeError:  # an integer beyond 64 bits, or too deep for the encoder
                return self.adapter.validate_python(value)
            return validate_json(text)
        except self._validation_error as error:
            # Made when the first value is refused, since most types never refuse a value.
            if self._names is None:
                parts = _parts_of_schema(self.adapter.core_schema)
                self._names = frozenset([part for part in parts if isinstance(part, str)])
            problems = pydantic_problems(error, decoded(value), self._names)
            left_out = error.error_count() - len(problems) if len(problems) == MAX_PROBLEMS else 0
        except RecursionError:
            problems = [Problem("", TOO_DEEP)]
        except ValueError:  # raised by a validator
            problems = [Problem("", INVALID)]
        raise Misfit(problems, left_out)

    def write(self, value: Any) -> Any:
        """Convert a value to JSON types as its model says: with aliases, serializers, and defaults for missing members.

        Raises:
            ValueError: The value does not match the type, or cannot be written. The text may show the value.
        """
        value = self.adapter.validate_python(value)
        if hasattr(value, "model_dump"):  # keeps the members that a subclass adds
            return value.model_dump(mode="json", by_alias=True, warnings=False)
        return self.adapter.dump_python(value, mode="json", by_alias=True, warnings=False)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of values that `convert` accepts.

        Raises:
            TypeError: The type has no schema.
        """
        return self._schema("validation")

    def result_schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of values that `write` wrote."""
        return self._schema("serialization")

    def _schema(self, mode: str) -> dict[str, Any]:
        try:
            schema: dict[str, Any] = self.adapter.json_schema(mode=mode)
        except _pydantic().errors.PydanticUserError as error:
            raise TypeError(error.message.partition("\n")[0]) from None
        return schema

    def default(self) -> Any:
        """Return the wrapped default value (`Field(default=…)`, `Field(default_factory=…)`), or None without one."""
        return self.adapter.get_default_value()


ValueType = MsgspecType | PydanticType


def type_of(annotation: Any) -> ValueType:
    """Return the type for an annotation, or for a `TypeAdapter` of pydantic.

    Raises:
        TypeError: The annotation is not supported.
        ImportError: The type needs msgspec, which is not installed.
    """
    if has_pydantic(annotation):
        return PydanticType(annotation)
    try:
        return MsgspecType(annotation)
    except (TypeError, RecursionError) as error:
        # Pydantic tries the classes of a union one after another, and supports aliases that refer to themselves.
        is_for_pydantic = isinstance(error, RecursionError) or str(error).startswith("Type unions may not contain")
        meta = msgspec_module().Meta
        if not is_for_pydantic or any(
            is_constraint(each) or isinstance(each, meta) for each, _ in parts_of(annotation)
        ):
            raise
        try:
            return PydanticType(annotation)
        except Exception:
            pass
        raise


def _integral(value: Any) -> Any:
    """A JSON value in which all numbers such as 1.0 are integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, dict):
        return {name: _integral(inner) for name, inner in value.items()}
    return [_integral(inner) for inner in value] if isinstance(value, list) else value


def _has_class_defaults(part: Any) -> bool:
    """Whether a type is a dataclass with defaults that are attributes of the class."""
    return (
        isinstance(part, type)
        and dataclasses.is_dataclass(part)
        and part.__dictoffset__ != 0
        and any(field.default is not dataclasses.MISSING for field in _fields(part))
    )


def _with_defaults(value: Any) -> Any:
    """Return a value after setting the defaults in its decoded dataclasses.

    msgspec leaves them to the class, and would not write them again.
    """
    _set_defaults(value)
    return value


def _set_defaults(value: Any) -> None:
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        for item in value:
            _set_defaults(item)
    elif isinstance(value, dict):
        for item in value.values():
            _set_defaults(item)
    elif hasattr(type(value), "__struct_fields__"):
        for name in value.__struct_fields__:
            _set_defaults(getattr(value, name))
    elif dataclasses.is_dataclass(value) and hasattr(value, "__dict__"):
        for field in _fields(value):
            if field.name not in value.__dict__ and field.default is not dataclasses.MISSING:
                object.__setattr__(value, field.name, field.default)  # it may be frozen
            else:
                _set_defaults(getattr(value, field.name, None))


def _fields(of: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(of)


def _msgspec_names(annotation: Any) -> tuple[frozenset[str], bool]:
    """Return the names of all fields inside a type, and whether it has mappings whose keys are not strings.

    Raises:
        TypeError: A part of the type is a class that msgspec does not know.
    """
    from msgspec import inspect as types

    names: set[str] = set()
    has_other_keys = False
    seen: set[int] = set()
    waiting: list[Any] = [types.type_info(annotation)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting += part
        elif isinstance(part, types.CustomType):
            raise TypeError(f"type {part.cls!r} is not supported: use a pydantic TypeAdapter")
        elif isinstance(part, types.Type | types.Field) and id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, types.Field):
                names.add(part.encode_name)
                # msgspec 0.22 does not find a non-ASCII name in JSON before it has written that name once.
                msgspec_module().json.encode(part.encode_name)
            elif tag_field := getattr(part, "tag_field", None):
                names.add(tag_field)
            elif isinstance(part, types.DictType) and not isinstance(part.key_type, types.StrType | types.AnyType):
                has_other_keys = True
            waiting += [getattr(part, name) for name in part.__struct_fields__]
    return frozenset(names), has_other_keys


def _parts_of_schema(schema: Any) -> Iterator[Any]:
    """Yield the parts of a core schema of pydantic. Its strings include the names and tags in a location."""
    seen: set[int] = set()  # a default may contain itself
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            waiting += part
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part


def _check_constraint(part: Any) -> None:
    """Check that a part of a core schema is not a constraint that fails for every value of a built-in type.

    Raises:
        TypeError: It is one, such as `Field(ge=1)` for a str.
    """
    # A constraint that a type does not support is a function of pydantic, which raises TypeError for each value.
    match part:
        case {"type": "function-after", "function": {"function": function}, "schema": {"type": name}}:
            arguments = []
        case {"type": "chain", "steps": [{"type": name}, {"function": {"function": function}}, *_]}:
            # Strings: the function calls this validator with the value.
            arguments = [_pydantic().TypeAdapter(str).validate_python]
        case _:
            return
    kind = getattr(builtins, name, None)
    # Functions of the application are not called here.
    if isinstance(kind, type) and getattr(function, "func", function).__module__.startswith("pydantic._internal."):
        try:
            function(kind(), *arguments)
        except TypeError:
            raise TypeError(f"a pydantic constraint does not fit the type {name}") from None
        except Exception:
            pass  # the constraint works


def msgspec_module() -> Any:
    """Return msgspec, or raise an ImportError that says what to install."""
    try:
        return importlib.import_module("msgspec")
    except ImportError:
        raise ImportError('typed params need msgspec: pip install "jsonrpc_fast[typed]"') from None


def _pydantic() -> Any:
    return importlib.import_module("pydantic")
