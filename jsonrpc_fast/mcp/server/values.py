"""Values of annotated types: their JSON Schemas, and their conversion from and to JSON.

Rules:
  - Arguments and results may have the same types, in the same JSON form: plain types, dataclasses, msgspec Structs,
    TypedDicts, enums, Decimal, UUID, datetime, sets and bytes (base64), as msgspec reads and writes them.
  - An annotation with any part from pydantic is handled by pydantic. Only such an annotation imports pydantic.
  - Constraints of `msgspec.Meta`, annotated-types and pydantic apply to the schema and to the conversion. A constraint
    that would have no effect, or that its type does not support, raises TypeError.
  - A number such as 1.0 is an integer, as in JSON Schema.
  - A type that neither msgspec nor pydantic supports raises TypeError.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import types
import typing
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Annotated, Any, Final, get_args, get_origin

import msgspec

from ...codec._json import dumps
from ...errors import EncodeError
from ..protocol.schemas import MAX_VALUE_DEPTH, MAX_VALUES, measure
from .constraints import check_constraints

_META_NAMES: Final = {
    "Ge": ("ge", "ge"),
    "Gt": ("gt", "gt"),
    "Le": ("le", "le"),
    "Lt": ("lt", "lt"),
    "MaxLen": ("max_length", "max_length"),
    "MinLen": ("min_length", "min_length"),
    "MultipleOf": ("multiple_of", "multiple_of"),
    "DocInfo": ("documentation", "description"),
}
"""By class of annotated-types: the attribute with the constraint, and its name in `msgspec.Meta`."""


def to_json(value: Any) -> Any:
    """Convert a value to JSON types: dicts, lists or tuples, strings, numbers, booleans, None. Containers are copied.

    Raises:
        EncodeError: The value has no JSON form.
    """
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_to_basic)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(str(error)) from error


def has_pydantic(annotation: Any) -> bool:
    """Return whether a part of an annotation is from pydantic, such as a model or `Annotated[int, Field(ge=1)]`."""
    return any(_is_from_pydantic(part) for part, _ in _parts(annotation))


class MsgspecType:
    """A type that msgspec converts.

    Args:
        annotation: The annotation of a parameter.

    Attributes:
        annotation: The annotation for msgspec: constraints of annotated-types are replaced by `msgspec.Meta`.

    Raises:
        TypeError: msgspec does not support the type, or a constraint of it.
    """

    __slots__ = ("annotation",)

    def __init__(self, annotation: Any) -> None:
        constraints = [(part, is_inside) for part, is_inside in _parts(annotation) if _is_constraint(part)]
        for part, is_inside in constraints:
            if is_inside:
                raise TypeError(f"{part!r} in a class has no effect: use msgspec.Meta there, or a pydantic model")
        self.annotation: Any = _with_meta(annotation) if constraints else annotation
        msgspec.json.schema(self.annotation)

    def convert(self, value: Any, *, strict: bool) -> Any:
        """Convert a value from JSON.

        Args:
            value: The value.
            strict: If False, strings are converted to numbers, booleans and so on where the type requires it.

        Raises:
            ValueError: The value does not match the type. The text may show the value.
        """
        try:
            return msgspec.convert(value, self.annotation, strict=strict, str_keys=True)
        except msgspec.ValidationError:
            depth, count = measure(value, MAX_VALUE_DEPTH, MAX_VALUES)
            if depth > MAX_VALUE_DEPTH or count > MAX_VALUES:
                raise
            return msgspec.convert(_integral(value), self.annotation, strict=strict, str_keys=True)


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
        for part, _ in _parts(annotation):
            if isinstance(part, msgspec.Meta) or (isinstance(part, type) and issubclass(part, msgspec.Struct)):
                raise TypeError("msgspec and pydantic cannot be mixed in one type")
            if is_field(part) and (part.alias is not None or part.validation_alias is not None):
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

    def default(self) -> Any:
        """Return the wrapped default value (`Field(default=…)`, `Field(default_factory=…)`), or None without one."""
        return self.adapter.get_default_value()


ValueType = MsgspecType | PydanticType


def type_of(annotation: Any) -> ValueType:
    """Return the type for an annotation.

    Raises:
        TypeError: The annotation is not supported.
    """
    return PydanticType(annotation) if has_pydantic(annotation) else MsgspecType(annotation)


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
        "properties": {name: _without_closed_tuples(schemas[name]) for name in fields},
        "required": [name for name in fields if name not in defaults],
        "additionalProperties": False,
    }
    return {**schema, "$defs": _without_closed_tuples(definitions)} if definitions else schema


def _without_closed_tuples(schema: Any) -> Any:
    """A schema without `"items": false`, which many clients cannot read, where `maxItems` means the same."""
    if isinstance(schema, list):
        return [_without_closed_tuples(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    is_closed = schema.get("items") is False and schema.get("maxItems") == len(schema.get("prefixItems", ()))
    return {
        name: inner if name in ("default", "enum", "const", "examples") else _without_closed_tuples(inner)
        for name, inner in schema.items()
        if not (is_closed and name == "items")
    }


def _to_basic(value: Any) -> Any:
    """Convert a value that msgspec cannot write to one that it can."""
    core = sys.modules.get("pydantic_core")
    if core is not None and _is_from_pydantic(type(value)):
        return core.to_jsonable_python(value)
    for base, convert in _BASES.items():
        if isinstance(value, base):
            return convert(value)
    raise TypeError(f"{type(value).__qualname__} is not a JSON value")


_BASES: Final[dict[type, Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    Mapping: dict,
    AbstractSet: list,
    deque: list,
    Sequence: list,
    PurePath: str,
}


def _integral(value: Any) -> Any:
    """A JSON value in which all numbers such as 1.0 are integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _integral(inner) for name, inner in value.items()}
    return [_integral(inner) for inner in value] if isinstance(value, list) else value


def _pydantic() -> Any:
    return importlib.import_module("pydantic")


def _is_constraint(part: Any) -> bool:
    """Whether metadata of an annotation is from annotated-types."""
    known = sys.modules.get("annotated_types")
    return known is not None and isinstance(part, (known.BaseMetadata, known.GroupedMetadata, known.DocInfo))


def is_field(part: Any) -> bool:
    """Return whether a part of an annotation is a pydantic `Field(…)`."""
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(part, fields.FieldInfo)


def _is_from_pydantic(part: Any) -> bool:
    if "pydantic" not in sys.modules or isinstance(part, (str, bytes)):
        return False
    kind = part if isinstance(part, type) else type(part)
    return (
        hasattr(kind, "__get_pydantic_core_schema__")
        or hasattr(kind, "__pydantic_core_schema__")
        or kind.__module__.partition(".")[0] in ("pydantic", "pydantic_core")
    )


def _parts(annotation: Any) -> Iterator[tuple[Any, bool]]:
    """The classes and metadata in an annotation, each with whether it is inside a class."""
    seen: dict[int, Any] = {}  # keeps the parts alive, so that their ids stay unique
    queue: list[tuple[Any, bool]] = [(annotation, False)]
    while queue:
        part, is_inside = queue.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        yield part, is_inside
        if get_origin(part) is typing.Literal:
            continue
        if get_origin(part) is Annotated:
            yield from ((data, is_inside) for data in part.__metadata__)
            queue.append((part.__origin__, is_inside))
            continue
        queue += [(inner, is_inside) for inner in get_args(part)]
        queue += [(getattr(part, name), is_inside) for name in ("__supertype__", "__value__") if hasattr(part, name)]
        kind = get_origin(part) or part
        if isinstance(kind, type):
            queue += [(inner, True) for inner in _members(kind)]


def _members(kind: type) -> list[Any]:
    """The annotations of the fields of a class, and those of their defaults that are a pydantic `Field`."""
    if kind.__module__ == "builtins" or not getattr(kind, "__annotations__", None):
        return []
    try:
        members = [*typing.get_type_hints(kind, include_extras=True).values()]
    except (NameError, TypeError):
        return []  # converting the type reports the fault
    if dataclasses.is_dataclass(kind):
        members += [field.default for field in dataclasses.fields(kind) if is_field(field.default)]
    return members


def _with_meta(annotation: Any) -> Any:
    """Replace the constraints of annotated-types in an annotation by `msgspec.Meta`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Literal:
        return annotation
    if origin is Annotated:
        data = [meta for part in annotation.__metadata__ for meta in _meta_of(part)]
        converted = _with_meta(annotation.__origin__)
        for meta in data:
            converted = Annotated[converted, meta]
        return converted
    for name in ("__supertype__", "__value__"):
        if origin is None and hasattr(annotation, name):
            return _with_meta(getattr(annotation, name))
    if not arguments:
        return annotation
    inner = tuple(_with_meta(argument) for argument in arguments)
    if origin is typing.Union or origin is types.UnionType:
        return typing.Union[inner]  # noqa: UP007
    return annotation.copy_with(inner) if hasattr(annotation, "copy_with") else origin[inner]


def _meta_of(part: Any) -> list[Any]:
    """Convert one piece of metadata for msgspec. A constraint that msgspec does not support raises TypeError."""
    if not _is_constraint(part):
        return [part]
    name = type(part).__name__
    if name in _META_NAMES:
        attribute, keyword = _META_NAMES[name]
        return [msgspec.Meta(**{keyword: getattr(part, attribute)})]
    if hasattr(part, "__iter__"):
        return [meta for inner in part for meta in _meta_of(inner)]
    raise TypeError(f"the constraint {part!r} is not supported")
