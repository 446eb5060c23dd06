"""The types of Python for the JSON Schemas of an OpenRPC document.

Rules:
  - A shape names the kinds of values that a schema accepts: at most one type of array, one of mapping, and a set of
    classes (TypedDicts) for objects. Kinds that msgspec does not allow together in a union are joined.
  - A value that a schema accepts has the type of its shape. A type cannot express patterns, bounds, `not` and
    conditions, so they are left out. A schema without restrictions accepts any value, and so does a reference that
    leads nowhere or out of the document.
  - `anyOf` and `oneOf` join shapes; `allOf`, and keywords next to a reference or a union, intersect them. Where objects
    are joined, one class has the members of all, and requires those that all require. A member that one of them does
    not name has any value, unless `additionalProperties` is false there.
  - Objects with the same schema are one class. A schema may refer to itself through an object. If it refers to itself
    only through arrays, the inner reference accepts any value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from ..support import reference_target
from ..types import UNSET

# A document may be hostile, or generated: each of these bounds something that can multiply.
MAX_DEPTH: Final = 100
MAX_CLASSES: Final = 10_000
_MAX_JOINED: Final = 64
"""The largest number of classes that are joined, or intersected, one by one."""

_NUMBER: Final = frozenset({"int", "float"})  # float alone would round large integers
_TYPES: Final = {
    "null": frozenset({"None"}),
    "boolean": frozenset({"bool"}),
    "integer": frozenset({"int"}),
    "number": _NUMBER,
    "string": frozenset({"str"}),
}


class DocumentError(ValueError):
    """The document cannot be translated. The text is for the user."""


class Shape(NamedTuple):
    """The kinds of values that a schema accepts."""

    plain: frozenset[str] = frozenset()  # "Any", "None", "bool", "int", "float" and "str"
    literals: frozenset[tuple[str, Any]] = frozenset()  # single strings and integers
    items: Shape | None = None  # of arrays; None: no arrays
    values: Shape | None = None  # of mappings; None: no mappings
    classes: frozenset[int] = frozenset()  # their numbers


ANY: Final = Shape(frozenset({"Any"}))
NEVER: Final = Shape()


class Member(NamedTuple):
    """A member of a class."""

    shape: Shape
    is_required: bool


_ANYTHING: Final = Member(ANY, False)


@dataclass(slots=True, eq=False)
class ObjectClass:
    """A class for objects."""

    hint: str
    members: dict[str, Member] = field(default_factory=dict)
    is_closed: bool = False  # no other members are valid


class Shapes:
    """The shapes of the schemas of a document. Raises DocumentError if it is too large."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.classes: list[ObjectClass] = []
        self._interned: dict[Any, int] = {}
        self._numbers: dict[int, int] = {}  # by the id of a schema, which the document keeps alive
        self._class_numbers: dict[Any, int] = {}
        self._waiting: deque[Callable[[], None]] = deque()  # functions that fill the classes with members
        self._referred: dict[str, Shape] = {}
        self._open: set[str] = set()
        self._hints: dict[frozenset[int], str] = {}  # names of unions
        self._number(document, 0)

    def of(self, schema: Any, hint: str) -> Shape:
        """Return the shape of a schema. `hint` is a name for its class, if the schema has none."""
        shape = self._of(schema, hint, 0)
        # Classes are filled here, not where they are found, so that a schema may refer to itself through an object.
        while self._waiting:
            self._waiting.popleft()()
        return shape

    def resolve(self, value: Any) -> Any:
        """Return the target of a Reference Object, None if it leads nowhere; any other value unchanged."""
        # Bounded, because references may form a circle.
        for _ in range(MAX_DEPTH):
            if not isinstance(value, dict) or "$ref" not in value:
                return value
            value = self._found(value["$ref"])
        return None

    def class_of(self, classes: frozenset[int]) -> int:
        """Return the number of the class that has the members of several classes."""
        if len(classes) == 1:
            return next(iter(classes))
        if classes in self._class_numbers:
            return self._class_numbers[classes]
        parts = [self.classes[number] for number in sorted(classes)]
        number, joined = self._add(classes, self._hints.get(classes) or "Or".join(part.hint for part in parts[:3]))
        joined.is_closed = all(part.is_closed for part in parts)
        for name in dict.fromkeys(name for part in parts for name in part.members):
            possible = [part for part in parts if name in part.members or not part.is_closed]
            found = [part.members.get(name, _ANYTHING) for part in possible]
            is_required = len(found) == len(parts) and all(each.is_required for each in found)
            joined.members[name] = Member(join(each.shape for each in found), is_required)
        return number

    def _number(self, value: Any, depth: int) -> int:
        """Return a number that equal values share. Titles, descriptions and other notes are ignored."""
        if depth > MAX_DEPTH:
            raise DocumentError(f"the document is nested more than {MAX_DEPTH} levels deep")
        key: Any
        if isinstance(value, dict):
            kept = {
                name: inner
                for name, inner in value.items()
                if not (name in ("title", "description", "summary", "examples", "example") and isinstance(inner, str))
                and name != "examples"
            }
            key = tuple(sorted((name, self._number(inner, depth + 1)) for name, inner in kept.items()))
        elif isinstance(value, list):
            key = ("[", *[self._number(inner, depth + 1) for inner in value])
        else:
            # The type is a part of the key, because 1, 1.0 and True are equal.
            key = type(value), value
        # Values of the document that differ.
        if len(self._interned) > 2_000_000:
            raise DocumentError("the document has too many values")
        number = self._interned.setdefault(key, len(self._interned))
        if isinstance(value, dict):
            self._numbers[id(value)] = number
        return number

    def _found(self, reference: Any) -> Any:
        """Return the target of a reference; None if it leads nowhere."""
        found = reference_target(self._document, reference) if isinstance(reference, str) else UNSET
        return None if found is UNSET else found

    def _of(self, schema: Any, hint: str, depth: int) -> Shape:
        if depth > MAX_DEPTH:
            raise DocumentError(f"a schema refers to others more than {MAX_DEPTH} times in a row")
        if not isinstance(schema, dict):
            return ANY
        shapes = [self._own(schema, hint, depth)]
        if "$ref" in schema:
            shapes.append(self._of_reference(schema["$ref"], depth))
        for combined in ("allOf", "anyOf", "oneOf"):
            parts = schema.get(combined)
            if isinstance(parts, list) and parts:
                found = [self._of(part, _titled(part, hint), depth + 1) for part in parts]
                shapes += found if combined == "allOf" else [join(found)]
        shape = ANY
        for each in shapes:
            shape = self._meet(shape, each)
        return join([shape, Shape(frozenset({"None"}))]) if schema.get("nullable") is True else shape

    def _of_reference(self, reference: Any, depth: int) -> Shape:
        # A schema that refers to itself without an object in between has no finite type.
        if not isinstance(reference, str) or reference in self._open:
            return ANY
        if reference not in self._referred:
            name = unquote(reference.rpartition("/")[2])
            self._open.add(reference)
            try:
                shape = self._referred[reference] = self._of(self._found(reference), name, depth + 1)
            finally:
                self._open.discard(reference)
            if len(shape.classes) > 1:
                self._hints.setdefault(shape.classes, name)
        return self._referred[reference]

    def _own(self, schema: Mapping[str, Any], hint: str, depth: int) -> Shape:
        """Return the shape of the keywords of a schema, without those that refer to and combine other schemas."""
        values = (
            schema["enum"] if isinstance(schema.get("enum"), list) else [schema["const"]] if "const" in schema else []
        )
        if values:
            return join(_shape_of_value(value) for value in values)
        types = _types_of(schema)
        if types is None:
            return ANY
        plain = frozenset(kind for type in types for kind in _TYPES.get(type, ()))
        items = values_shape = None
        classes: frozenset[int] = frozenset()
        if "array" in types:
            inner = schema.get("items")
            several = [part for part in (schema.get("prefixItems"), inner) if isinstance(part, list)]
            parts = [part for found in several for part in found] + ([inner] if isinstance(inner, dict) else [])
            if several and not isinstance(inner, dict) and inner is not False:
                parts.append(None)
            items = join(self._of(part, _titled(part, f"{hint} item"), depth + 1) for part in parts) if parts else ANY
        if "object" in types:
            members, has_patterns = schema.get("properties"), "patternProperties" in schema
            inner = schema.get("additionalProperties")
            if isinstance(members, dict) and members and not has_patterns:
                classes = frozenset({self._class(schema, hint)})
            elif isinstance(inner, dict) and not has_patterns and not members:
                values_shape = self._of(inner, _titled(inner, f"{hint} value"), depth + 1)
            else:
                values_shape = ANY
        return Shape(plain, frozenset(), items, values_shape, classes)

    def _class(self, schema: Mapping[str, Any], hint: str) -> int:
        key = self._numbers[id(schema)]
        if key not in self._class_numbers:
            _, made = self._add(key, hint)
            self._waiting.append(partial(self._fill, made, schema))
        return self._class_numbers[key]

    def _fill(self, made: ObjectClass, schema: Mapping[str, Any]) -> None:
        required = schema.get("required")
        names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        made.is_closed = schema.get("additionalProperties") is False
        for name, inner in schema["properties"].items():
            made.members[name] = Member(self._of(inner, _titled(inner, f"{made.hint} {name}"), 0), name in names)

    def _add(self, key: Any, hint: str) -> tuple[int, ObjectClass]:
        if len(self.classes) >= MAX_CLASSES:
            raise DocumentError(f"the document needs more than {MAX_CLASSES} classes")
        number = self._class_numbers[key] = len(self.classes)
        made = ObjectClass(hint[:100])
        self.classes.append(made)
        return number, made

    def _meet(self, one: Shape, other: Shape) -> Shape:
        """Return the shape of values that have both shapes, or one of the two shapes if that is unknown."""
        if one == other or other == ANY:
            return one
        if one == ANY:
            return other
        literals = frozenset(
            each
            for mine, theirs in ((one, other), (other, one))
            for each in mine.literals
            if each in theirs.literals or each[0] in theirs.plain
        )
        items, values = (
            None if mine is None or theirs is None else self._meet(mine, theirs)
            for mine, theirs in ((one.items, other.items), (one.values, other.values))
        )
        classes: frozenset[int] = frozenset()
        # Each pair would be a class, and with an `allOf` of unions their number grows with each step.
        if len(one.classes) * len(other.classes) > _MAX_JOINED:
            classes = one.classes
        elif one.classes and other.classes:
            classes = frozenset(self._both(a, b) for a in one.classes for b in other.classes)
        # One side accepts objects with any members, so the class of the other side remains.
        elif one.values is not None or other.values is not None:
            classes = one.classes or other.classes
        met = Shape(one.plain & other.plain, literals, items, values, classes)
        # No value would be valid: the document is wrong, and a type that refuses every value is useless.
        return one if met == NEVER else met

    def _both(self, one: int, other: int) -> int:
        """Return the class that has all members of two."""
        if one == other:
            return one
        key = ("both", one, other)
        if key not in self._class_numbers:
            parts = self.classes[one], self.classes[other]
            _, both = self._add(key, parts[1].hint)
            self._waiting.append(partial(self._fill_both, both, parts))  # the members of the parts are filled first
        return self._class_numbers[key]

    def _fill_both(self, both: ObjectClass, parts: tuple[ObjectClass, ObjectClass]) -> None:
        both.is_closed = any(part.is_closed for part in parts)
        for part in parts:
            for name, (shape, is_required) in part.members.items():
                had = both.members.get(name, _ANYTHING)
                both.members[name] = Member(self._meet(had.shape, shape), had.is_required or is_required)


def join(shapes: Iterable[Shape]) -> Shape:
    """Return the shape of values that have one of several shapes."""
    joined = NEVER
    for shape in shapes:
        if "Any" in shape.plain or len(joined.classes) > _MAX_JOINED:
            return ANY
        items, values = _either(joined.items, shape.items), _either(joined.values, shape.values)
        classes = joined.classes | shape.classes
        # msgspec decodes a union with at most one type for JSON objects.
        if values is not None and classes:
            values, classes = ANY, frozenset()
        plain = joined.plain | shape.plain
        # A literal says nothing next to its own type.
        literals = frozenset(each for each in joined.literals | shape.literals if each[0] not in plain)
        # Literals of one union; more become their types.
        if len(literals) > 256:
            plain, literals = plain | {kind for kind, _ in literals}, frozenset()
        joined = Shape(plain, literals, items, values, classes)
    return joined if joined != NEVER else ANY


def _either(one: Shape | None, other: Shape | None) -> Shape | None:
    return join([one, other]) if one is not None and other is not None else one or other


def _types_of(schema: Mapping[str, Any]) -> list[str] | None:
    """Return the JSON types that a schema accepts; None if it does not restrict them."""
    given = schema.get("type")
    if isinstance(given, (str, list)):
        types = [each for each in ([given] if isinstance(given, str) else given) if isinstance(each, str)]
        return types if types and all(each in (*_TYPES, "array", "object") for each in types) else None
    if isinstance(schema.get("properties"), dict):
        return ["object"]
    return ["array"] if isinstance(schema.get("items"), dict) else None


def _shape_of_value(value: Any) -> Shape:
    if value is None:
        return Shape(frozenset({"None"}))
    if isinstance(value, bool):
        return Shape(frozenset({"bool"}))
    if isinstance(value, int) and value.bit_length() < 64:
        return Shape(literals=frozenset({("int", value)}))
    if isinstance(value, str):
        return Shape(literals=frozenset({("str", value)}))
    return Shape(_NUMBER) if isinstance(value, (int, float)) else ANY


def _titled(schema: Any, hint: str) -> str:
    title = schema.get("title") if isinstance(schema, dict) else None
    return title if isinstance(title, str) and title else hint
