"""Values of annotated types: their JSON Schemas, and their conversion from and to JSON.

Rules:
  - Arguments and results may have the same types, in the same JSON form: plain types, dataclasses, msgspec Structs,
    TypedDicts, enums, Decimal, UUID, datetime, sets and bytes (base64), as msgspec reads and writes them.
  - An annotation with any part from pydantic is handled by pydantic. So are a union of several dataclasses and an alias
    that refers to itself, such as `type Json = list[Json] | int`, if pydantic is installed. Others do not import it.
  - Constraints of `msgspec.Meta`, annotated-types and pydantic apply to the schema and to the conversion. A constraint
    that would have no effect, or that its type does not support, raises TypeError.
  - A number such as 1.0 is an integer, as in JSON Schema.
  - A type that neither msgspec nor pydantic supports raises TypeError.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ...codec._backend import dumps
from ...errors import EncodeError
from ...handlers.invalid_params import pointer
from ...handlers.typed import msgspec_problem, place_in, pydantic_reason, strings_in
from ..protocol.schemas import MAX_VALUE_DEPTH, MAX_VALUES, measure
from .annotations import has_pydantic, is_constraint, is_field, parts_of, with_meta
from .constraints import check_constraints
from .generated_schemas import without_closed_tuples, without_root_reference, without_time_formats
from .json_values import to_json

_MAX_FAULTS: Final = 16
_MANY_ERRORS: Final = 1000  # listing so many takes too much memory

_PLACE: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
"""A part of a place in an error text of msgspec, such as `$.items[0].prices[...]`."""


class MsgspecType:
    """A type that msgspec converts.

    Args:
        annotation: The annotation of a parameter.

    Attributes:
        annotation: The annotation for msgspec: constraints of annotated-types are replaced by `msgspec.Meta`.

    Raises:
        TypeError: msgspec does not support the type, or a constraint of it.
    """

    __slots__ = ("_needs_defaults", "annotation")

    def __init__(self, annotation: Any) -> None:
        constraints = [(part, is_inside) for part, is_inside in parts_of(annotation) if is_constraint(part)]
        for part, is_inside in constraints:
            if is_inside:
                raise TypeError(f"{part!r} in a class has no effect: use msgspec.Meta there, or a pydantic model")
        self.annotation: Any = with_meta(annotation) if constraints else annotation
        msgspec.json.schema(self.annotation)
        self._needs_defaults = any(map(_has_class_defaults, (part for part, _ in parts_of(annotation))))

    def convert(self, value: Any, *, strict: bool) -> Any:
        """Convert a value from JSON.

        Args:
            value: The value.
            strict: If False, strings are converted to numbers, booleans and so on where the type requires it.

        Raises:
            ValueError: The value does not match the type. The text may show the value.
        """
        try:
            converted = msgspec.convert(value, self.annotation, strict=strict, str_keys=True)
        except msgspec.ValidationError:
            depth, count = measure(value, MAX_VALUE_DEPTH, MAX_VALUES)
            if depth > MAX_VALUE_DEPTH or count > MAX_VALUES:
                raise
            converted = msgspec.convert(_integral(value), self.annotation, strict=strict, str_keys=True)
        if self._needs_defaults:
            _set_defaults(converted)
        return converted

    def faults(self, value: Any, *, strict: bool) -> list[str]:
        """Return the fault for which `convert` refused a value, with the JSON pointer (RFC 6901) to its place.

        Returns:
            The fault; [] if it is not known. It shows no values, and no keys of mappings.
        """
        depth, count = measure(value, MAX_VALUE_DEPTH, MAX_VALUES)
        if depth > MAX_VALUE_DEPTH or count > MAX_VALUES:
            return []
        try:  # inside a list, the text ends with the place: a validator may have written the rest
            msgspec.convert([_integral(value)], list[self.annotation], strict=strict, str_keys=True)  # type: ignore[name-defined]
        except msgspec.ValidationError as error:
            place, reason = msgspec_problem(error)
            parts = [name or number for name, number in _PLACE.findall(place.removeprefix("$[0]"))]
            parts += ["..."] if "`key` in `$[0]" in str(error) else []
            return [f"{pointer(['…' if part == '...' else part for part in parts])}: {reason}"]
        return []

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of values that `convert` accepts."""
        schema = without_root_reference(msgspec.json.schema(self.annotation))
        written: dict[str, Any] = without_closed_tuples(schema)
        return written

    def result_schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of values that were written as JSON."""
        return self.schema()


class PydanticType:
    """A type that pydantic converts.

    Args:
        annotation: The annotation of a parameter.

    Attributes:
        adapter: The `pydantic.TypeAdapter`.

    Raises:
        TypeError: pydantic does not support the type or a constraint of it, or a part of the type is from msgspec.
    """

    __slots__ = ("adapter",)

    def __init__(self, annotation: Any) -> None:
        pydantic = _pydantic()
        for part, is_inside in parts_of(annotation):
            if isinstance(part, msgspec.Meta) or (isinstance(part, type) and issubclass(part, msgspec.Struct)):
                raise TypeError("msgspec and pydantic cannot be mixed in one type")
            if is_field(part) and not is_inside and (part.alias is not None or part.validation_alias is not None):
                raise TypeError("an alias is not supported: an argument has the name of its parameter")
        try:
            self.adapter: Any = pydantic.TypeAdapter(annotation)
            self.adapter.json_schema()
        except pydantic.errors.PydanticUserError as error:
            raise TypeError(error.message.partition("\n")[0]) from None
        check_constraints(self.adapter.core_schema)

    def convert(self, value: Any, *, strict: bool) -> Any:
        """Convert a value, as in `MsgspecType.convert`. `strict` has no effect: pydantic's type decides."""
        return self.adapter.validate_json(dumps(value))  # in JSON mode, since JSON has no tuples and no dates

    def faults(self, error: Exception, value: Any) -> list[str]:
        """Return the faults in an error of `convert`: each with the JSON pointer (RFC 6901) to its place.

        They show no values, no keys of mappings, and no texts of validators.
        """
        if not hasattr(error, "errors") or not hasattr(error, "error_count") or error.error_count() > _MANY_ERRORS:
            return []
        known = strings_in(self.adapter.core_schema)
        found = error.errors(include_url=False, include_input=False)[:_MAX_FAULTS]
        places = [["…" if part is None else part for part in place_in(value, each, known)] for each in found]
        return [f"{pointer(place)}: {pydantic_reason(each)}" for place, each in zip(places, found, strict=True)]

    def write(self, value: Any) -> Any:
        """Convert a value to JSON types as its model says: aliases, serializers, defaults of what a dict lacks.

        Raises:
            ValueError: The value does not match the type, or cannot be written. The text may show the value.
        """
        value = self.adapter.validate_python(value)
        if hasattr(value, "model_dump"):  # keeps the members of a subclass
            return value.model_dump(mode="json", by_alias=True, warnings=False)
        return self.adapter.dump_python(value, mode="json", by_alias=True, warnings=False)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of values that `convert` accepts."""
        return without_root_reference(self.adapter.json_schema())

    def result_schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of values that `write` wrote."""
        schema = without_root_reference(self.adapter.json_schema(mode="serialization"))
        written: dict[str, Any] = without_closed_tuples(without_time_formats(schema))
        return written

    def default(self) -> Any:
        """Return the wrapped default value (`Field(default=…)`, `Field(default_factory=…)`), or None without one."""
        return self.adapter.get_default_value()


ValueType = MsgspecType | PydanticType


def type_of(annotation: Any) -> ValueType:
    """Return the type for an annotation.

    Raises:
        TypeError: The annotation is not supported.
    """
    if has_pydantic(annotation):
        return PydanticType(annotation)
    try:
        return MsgspecType(annotation)
    except (TypeError, RecursionError) as error:
        # Pydantic tries one class of a union after the other, and supports aliases that refer to themselves.
        is_for_pydantic = isinstance(error, RecursionError) or str(error).startswith("Type unions may not contain")
        if not is_for_pydantic or any(
            is_constraint(part) or isinstance(part, msgspec.Meta) for part, _ in parts_of(annotation)
        ):
            raise
        try:
            return PydanticType(annotation)
        except Exception:
            pass
        raise


def object_schema(fields: Mapping[str, ValueType], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of an object.

    Args:
        fields: The types of the members, by name.
        defaults: The defaults of the members that are not required, by name.

    Raises:
        TypeError: Two different types have the same name.
    """
    schemas: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    msgspecs = {name: field.annotation for name, field in fields.items() if isinstance(field, MsgspecType)}
    written, components = msgspec.json.schema_components(msgspecs.values(), ref_template="#/$defs/{name}")
    schemas |= zip(msgspecs, written, strict=True)
    definitions |= components
    pydantics = [
        (name, "validation", field.adapter) for name, field in fields.items() if isinstance(field, PydanticType)
    ]
    if pydantics:
        inner, outer = _pydantic().TypeAdapter.json_schemas(pydantics)
        schemas |= {name: schema for (name, _), schema in inner.items()}
        for name, schema in outer.get("$defs", {}).items():
            if definitions.setdefault(name, schema) != schema:
                raise TypeError(f"two types have the name {name}")
    for name, default in defaults.items():
        if "default" not in schemas[name]:
            try:
                if default.__hash__ is not None:  # do not show mutable defaults
                    schemas[name] = {**schemas[name], "default": to_json(default)}
            except EncodeError:
                pass  # without a JSON form it is not shown
    schema = {
        "type": "object",
        "properties": {name: dict(without_closed_tuples(schemas[name])) for name in fields},
        "required": [name for name in fields if name not in defaults],
        "additionalProperties": False,
    }
    return {**schema, "$defs": without_closed_tuples(definitions)} if definitions else schema


def _integral(value: Any) -> Any:
    """A JSON value in which all numbers such as 1.0 are integers."""
    if isinstance(value, float) and value.is_integer():
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


def _set_defaults(value: Any) -> None:
    """Set the defaults of decoded dataclasses. msgspec leaves them to the class, and would not write them again."""
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        for item in value:
            _set_defaults(item)
    elif isinstance(value, dict):
        for item in value.values():
            _set_defaults(item)
    elif isinstance(value, msgspec.Struct):
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


def _pydantic() -> Any:
    return importlib.import_module("pydantic")
