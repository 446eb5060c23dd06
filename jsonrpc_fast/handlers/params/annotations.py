"""The parts of annotations: their classes, constraints, and parts from pydantic."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import sys
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Final, get_args, get_origin

_META_NAMES: Final = {
    "Ge": ("ge", "ge"),
    "Gt": ("gt", "gt"),
    "Le": ("le", "le"),
    "Lt": ("lt", "lt"),
    "MaxLen": ("max_length", "max_length"),
    "MinLen": ("min_length", "min_length"),
    "MultipleOf": ("multiple_of", "multiple_of"),
    "Doc": ("documentation", "description"),
    "DocInfo": ("documentation", "description"),
}
"""By class of annotated-types: the attribute with the constraint, and its name in `msgspec.Meta`."""


def has_pydantic(annotation: Any) -> bool:
    """Return whether a part of an annotation is from pydantic, such as a model or `Annotated[int, Field(ge=1)]`."""
    return any(is_from_pydantic(part) for part, _ in parts_of(annotation))


def is_constraint(part: Any) -> bool:
    """Whether metadata of an annotation is from annotated-types."""
    # Whoever wrote the annotation has imported its library, so nothing is imported to ask.
    known = sys.modules.get("annotated_types")
    return known is not None and isinstance(part, (known.BaseMetadata, known.GroupedMetadata, known.DocInfo))


def is_field(part: Any) -> bool:
    """Return whether a part of an annotation is a pydantic `Field(…)`."""
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(part, fields.FieldInfo)


def is_from_pydantic(part: Any) -> bool:
    if "pydantic" not in sys.modules or isinstance(part, (str, bytes)):
        return False
    kind = part if isinstance(part, type) else type(part)
    return (
        hasattr(kind, "__get_pydantic_core_schema__")
        or hasattr(kind, "__pydantic_core_schema__")
        or kind.__module__.partition(".")[0] in ("pydantic", "pydantic_core")
    )


def parts_of(annotation: Any) -> Iterator[tuple[Any, bool]]:
    """The classes and metadata in an annotation, each with whether it is inside a class."""
    seen: dict[int, Any] = {}  # keeps the parts alive, so that their ids stay unique
    queue: list[tuple[Any, bool]] = [(annotation, False)]
    while queue:
        part, is_inside = queue.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        yield part, is_inside
        # The arguments of a Literal are values, not types.
        if get_origin(part) is typing.Literal:
            continue
        if get_origin(part) is Annotated:
            yield from ((data, is_inside) for data in part.__metadata__)
            queue.append((part.__origin__, is_inside))
            continue
        queue += [(inner, is_inside) for inner in get_args(part)]
        # A `NewType` has the type that it stands for, and so has an alias (`type X = ...`, Python 3.12).
        queue += [(getattr(part, name), is_inside) for name in ("__supertype__", "__value__") if hasattr(part, name)]
        kind = get_origin(part) or part
        if isinstance(kind, type):
            queue += [(inner, True) for inner in _members(kind)]


def enum_values(part: Any) -> list[Any] | None:
    """Return the values of a Literal or of an enumeration, in the order of their definition; None for other types."""
    if get_origin(part) is typing.Literal:
        return [*get_args(part)]
    if isinstance(part, type) and issubclass(part, enum.Enum):
        return [member.value for member in part]
    return None


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


def with_meta(annotation: Any) -> Any:
    """Replace the constraints of annotated-types in an annotation by `msgspec.Meta`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Literal:
        return annotation
    if origin is Annotated:
        data = [meta for part in annotation.__metadata__ for meta in _meta_of(part)]
        converted = with_meta(annotation.__origin__)
        for meta in data:
            converted = Annotated[converted, meta]
        return converted
    for name in ("__supertype__", "__value__"):
        if origin is None and hasattr(annotation, name):
            return with_meta(getattr(annotation, name))
    if not arguments:
        return annotation
    inner = tuple(with_meta(argument) for argument in arguments)
    if origin is typing.Union or origin is types.UnionType:
        return typing.Union[inner]  # noqa: UP007
    return annotation.copy_with(inner) if hasattr(annotation, "copy_with") else origin[inner]


def _meta_of(part: Any) -> list[Any]:
    """Convert one piece of metadata for msgspec. A constraint that msgspec does not support raises TypeError."""
    if not is_constraint(part):
        return [part]
    name = type(part).__name__
    if name in _META_NAMES:
        attribute, keyword = _META_NAMES[name]
        return [importlib.import_module("msgspec").Meta(**{keyword: getattr(part, attribute)})]
    # A group, such as `Interval(ge=0, le=9)`.
    if hasattr(part, "__iter__"):
        return [meta for inner in part for meta in _meta_of(inner)]
    raise TypeError(f"the constraint {part!r} is not supported")
