"""Values of annotated types: their JSON Schemas, and one conversion from JSON and to JSON.

Rules:
  - what an argument can be, a result can be, in the same spelling: plain types, dataclasses, msgspec Structs,
    TypedDicts, enums, Decimal, UUID, datetime, sets and bytes (base64) as msgspec reads and writes them;
  - an annotation with anything of pydantic's in it is pydantic's, schema and check. It is imported for these alone;
  - constraints hold in the schema and in the check: those of `msgspec.Meta`, of annotated-types and of pydantic. One
    that would hold in neither, or that the type cannot be checked for, raises TypeError;
  - a number such as 1.0 is an integer, as in JSON Schema;
  - TypeError for a type that neither of both can read.
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
"""Of annotated-types' classes: the attribute with the constraint, and what `msgspec.Meta` calls it."""


def to_json(value: Any) -> Any:
    """A value as JSON has it: dicts, lists or tuples, texts, numbers. Copies containers.

    Raises EncodeError for a value that JSON does not have.
    """
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(str(error)) from error


def has_pydantic(annotation: Any) -> bool:
    """Whether a part of an annotation is pydantic's, such as a model or `Annotated[int, Field(ge=1)]`."""
    return any(_is_pydantics(part) for part, _ in _parts(annotation))


class MsgspecType:
    """A type that msgspec reads. `annotation` is as msgspec wants it. Raises TypeError for any other type."""

    __slots__ = ("annotation",)

    def __init__(self, annotation: Any) -> None:
        constraints = [(part, is_inside) for part, is_inside in _parts(annotation) if _is_constraint(part)]
        for part, is_inside in constraints:
            if is_inside:
                raise TypeError(f"{part!r} in a class has no effect: use msgspec.Meta there, or a pydantic model")
        self.annotation: Any = _with_meta(annotation) if constraints else annotation
        msgspec.json.schema(self.annotation)

    def convert(self, value: Any, *, strict: bool) -> Any:
        """The value that JSON stands for. Raises ValueError for one that does not fit; the text may show the value."""
        try:
            return msgspec.convert(value, self.annotation, strict=strict, str_keys=True)
        except msgspec.ValidationError:
            depth, count = measure(value, MAX_VALUE_DEPTH, MAX_VALUES)
            if depth > MAX_VALUE_DEPTH or count > MAX_VALUES:
                raise
            return msgspec.convert(_integral(value), self.annotation, strict=strict, str_keys=True)


class PydanticType:
    """A type that pydantic reads. Raises TypeError for any other, and where a part of it is msgspec's."""

    __slots__ = ("adapter",)

    def __init__(self, annotation: Any) -> None:
        pydantic = _pydantic()
        for part, _ in _parts(annotation):
            if isinstance(part, msgspec.Meta) or (isinstance(part, type) and issubclass(part, msgspec.Struct)):
                raise TypeError("parts of msgspec and of pydantic cannot be mixed in one type")
            if is_field(part) and (part.alias is not None or part.validation_alias is not None):
                raise TypeError("an alias cannot be served: an argument has the name of its parameter")
        try:
            self.adapter: Any = pydantic.TypeAdapter(annotation)
            self.adapter.json_schema()
        except pydantic.errors.PydanticUserError as error:
            raise TypeError(error.message.partition("\n")[0]) from None
        check_constraints(self.adapter.core_schema)

    def convert(self, value: Any, *, strict: bool) -> Any:
        """As `MsgspecType.convert`. Whether texts become numbers is for the type to say, whatever `strict` is."""
        return self.adapter.validate_json(dumps(value))  # by the rules of JSON, which has no tuples and no dates

    def default(self) -> Any:
        """The value where none is given, wrapped, or None: `Field(default=…)` and `Field(default_factory=…)`."""
        return self.adapter.get_default_value()


ValueType = MsgspecType | PydanticType


def type_of(annotation: Any) -> ValueType:
    """What reads the values of an annotation. Raises TypeError if nothing does."""
    return PydanticType(annotation) if has_pydantic(annotation) else MsgspecType(annotation)


def object_schema(fields: Mapping[str, ValueType], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of an object with these members; those without a default are required.

    Raises TypeError for two types of one name that differ.
    """
    schemas: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    msgspecs = {name: field.annotation for name, field in fields.items() if isinstance(field, MsgspecType)}
    written, components = msgspec.json.schema_components(msgspecs.values(), ref_template="#/$defs/{name}")
    schemas |= zip(msgspecs, written, strict=True)
    definitions |= components
    pydantics = [(name, "validation", of.adapter) for name, of in fields.items() if isinstance(of, PydanticType)]
    if pydantics:
        inner, outer = _pydantic().TypeAdapter.json_schemas(pydantics)
        schemas |= {name: schema for (name, _), schema in inner.items()}
        for name, schema in outer.get("$defs", {}).items():
            if definitions.setdefault(name, schema) != schema:
                raise TypeError(f"two types have the name {name}")
    for name, default in defaults.items():
        if "default" not in schemas[name]:
            try:
                if default.__hash__ is not None:  # a mutable one is no value to show
                    schemas[name] = {**schemas[name], "default": to_json(default)}
            except EncodeError:
                pass  # the member may be left out all the same
    schema = {
        "type": "object",
        "properties": {name: _without_closed_tuples(schemas[name]) for name in fields},
        "required": [name for name in fields if name not in defaults],
        "additionalProperties": False,
    }
    return {**schema, "$defs": _without_closed_tuples(definitions)} if definitions else schema


def _without_closed_tuples(schema: Any) -> Any:
    """A written schema without `"items": false`, which many clients cannot read, where `maxItems` says the same."""
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


def _plain(value: Any) -> Any:
    """What msgspec does not write by itself, as something that it does."""
    core = sys.modules.get("pydantic_core")
    if core is not None and _is_pydantics(type(value)):
        return core.to_jsonable_python(value)
    for kind, plain in _BASES.items():
        if isinstance(value, kind):
            return plain(value)
    raise TypeError(f"{type(value).__qualname__} is no JSON value")


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
    """A JSON value with 1.0 as 1 throughout."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _integral(inner) for name, inner in value.items()}
    return [_integral(inner) for inner in value] if isinstance(value, list) else value


def _pydantic() -> Any:
    return importlib.import_module("pydantic")


def _is_constraint(part: Any) -> bool:
    """Whether metadata of an annotation is annotated-types'."""
    known = sys.modules.get("annotated_types")
    return known is not None and isinstance(part, (known.BaseMetadata, known.GroupedMetadata, known.DocInfo))


def is_field(part: Any) -> bool:
    """Whether something is what pydantic's `Field(…)` makes."""
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(part, fields.FieldInfo)


def _is_pydantics(part: Any) -> bool:
    if "pydantic" not in sys.modules or isinstance(part, (str, bytes)):
        return False
    kind = part if isinstance(part, type) else type(part)
    return (
        hasattr(kind, "__get_pydantic_core_schema__")
        or hasattr(kind, "__pydantic_core_schema__")
        or kind.__module__.partition(".")[0] in ("pydantic", "pydantic_core")
    )


def _parts(annotation: Any) -> Iterator[tuple[Any, bool]]:
    """The classes and the metadata that an annotation is made of, and whether each is inside of a class."""
    seen: dict[int, Any] = {}  # holds what is made on the way, so that no id comes twice
    left: list[tuple[Any, bool]] = [(annotation, False)]
    while left:
        part, is_inside = left.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        yield part, is_inside
        if get_origin(part) is typing.Literal:
            continue
        if get_origin(part) is Annotated:
            yield from ((data, is_inside) for data in part.__metadata__)
            left.append((part.__origin__, is_inside))
            continue
        left += [(inner, is_inside) for inner in get_args(part)]
        left += [(getattr(part, name), is_inside) for name in ("__supertype__", "__value__") if hasattr(part, name)]
        kind = get_origin(part) or part
        if isinstance(kind, type):
            left += [(inner, True) for inner in _members(kind)]


def _members(kind: type) -> list[Any]:
    """The annotations of a class's fields, and what their defaults say of them."""
    if kind.__module__ == "builtins" or not getattr(kind, "__annotations__", None):
        return []
    try:
        members = [*typing.get_type_hints(kind, include_extras=True).values()]
    except (NameError, TypeError):
        return []  # whoever reads the type says what is wrong
    if dataclasses.is_dataclass(kind):
        members += [field.default for field in dataclasses.fields(kind) if is_field(field.default)]
    return members


def _with_meta(annotation: Any) -> Any:
    """An annotation with `msgspec.Meta` in place of what annotated-types says."""
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
    """One piece of metadata as msgspec has it. Raises TypeError for a constraint that msgspec cannot check."""
    if not _is_constraint(part):
        return [part]
    name = type(part).__name__
    if name in _META_NAMES:
        attribute, keyword = _META_NAMES[name]
        return [msgspec.Meta(**{keyword: getattr(part, attribute)})]
    if hasattr(part, "__iter__"):
        return [meta for inner in part for meta in _meta_of(inner)]
    raise TypeError(f"the constraint {part!r} has no place in a schema")
