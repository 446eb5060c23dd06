"""JSON Schemas of tools: compiled once, checked within bounds, faults without values.

Rules:
  - The dialect is that of `$schema`, and 2020-12 where there is none (specification 2025-11-25, "JSON Schema Usage").
  - Nothing is ever fetched: a `$ref` to another document is an error when the schema is compiled.
  - A schema and a value nest only so deep and have only so many places, and a pattern may backtrack only so often.
    Counting stops at these limits, before anything else is done, so a message of any size costs little to refuse.
  - The work is estimated before it is done. Each branch of `anyOf` is looked into, and a schema that refers to itself
    from two of them doubles the work with every level of the value. A schema that needs too much for a flat value is
    an error when it is compiled; a value that is too deep for its schema is a fault; and where naming every fault
    would take too long, the fault is that of the whole value.
  - A fault names where and which keyword. It may show the schema, never the value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import jsonschema_rs

SCHEMA_DEPTH: Final = 64
VALUE_DEPTH: Final = 128
MAX_SCHEMA_PLACES: Final = 20_000
"""Maximum number of values in a schema, nested ones included."""
MAX_PATTERNS: Final = 250
"""Maximum number of regular expressions in a schema: one may take several milliseconds to compile."""
MAX_VALUE_PLACES: Final = 1_000_000
"""Maximum number of values in a value that is checked, nested ones included."""
MAX_FAULTS: Final = 20

_BACKTRACKS: Final = 100_000
# Schema places that are looked at, at the worst, by the estimate. A million take less than a tenth of a second.
_COMPILED_WORK: Final = 1_000_000
_VALID_WORK: Final = 50_000_000
_NAMING_WORK: Final = 50_000  # naming is slower: all faults are found, each with what its keyword says

_PATH_CHARACTERS: Final = 200
_MESSAGE_CHARACTERS: Final = 500  # a keyword may be as long as the schema
_MASK: Final = "the value"

# Their messages, with the value masked, show nothing but the schema.
_TELLING: Final = frozenset(
    {
        "type",
        "enum",
        "const",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
    }
)


class SchemaFault(NamedTuple):
    """One rule of a schema that a value breaks.

    path     where in the value: a JSON pointer (RFC 6901), "" for the whole of it
    keyword  which keyword of JSON Schema, or "depth" for a value that nests too deep or is too large
    message  the rule in words
    """

    path: str
    keyword: str
    message: str


class Schema:
    """A schema, compiled. Raises ValueError for one that is wrong, too deep, too large, or needs another document."""

    __slots__ = ("_validator", "_work")

    def __init__(self, schema: dict[str, Any]) -> None:
        if not isinstance(schema, dict):
            raise ValueError("a schema must be an object")
        depth, places = measure(schema, SCHEMA_DEPTH, MAX_SCHEMA_PLACES)
        if depth > SCHEMA_DEPTH:
            raise ValueError(f"the schema nests deeper than {SCHEMA_DEPTH}")
        if places > MAX_SCHEMA_PLACES:
            raise ValueError(f"the schema has more than {MAX_SCHEMA_PLACES} values")
        if _patterns(schema) > MAX_PATTERNS:
            raise ValueError(f"the schema has more than {MAX_PATTERNS} patterns")
        try:
            self._validator = jsonschema_rs.validator_for(
                schema,
                offline=True,
                mask=_MASK,
                validate_formats=True,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            where = "".join(f"/{part}" for part in getattr(error, "instance_path", []))
            reason = getattr(error, "message", None) or str(error)
            raise ValueError(f"the schema cannot be used: {where or '/'}: {reason}") from None
        self._work = _Work(schema)
        if self._work.at(1) > _COMPILED_WORK:
            raise ValueError("the schema cannot be used: it branches too much")

    def faults(self, value: Any) -> list[SchemaFault]:
        """What is wrong with a JSON value, at most MAX_FAULTS of it; [] if it is valid."""
        depth, places = measure(value, VALUE_DEPTH, MAX_VALUE_PLACES)
        if depth > VALUE_DEPTH:
            return [SchemaFault("", "depth", f"nests deeper than {VALUE_DEPTH}")]
        if places > MAX_VALUE_PLACES:
            return [SchemaFault("", "depth", f"has more than {MAX_VALUE_PLACES} values")]
        work = self._work.at(depth) * places
        if work > _VALID_WORK:
            return [SchemaFault("", "depth", "nests too deep, or is too large, for this schema")]
        try:
            if self._validator.is_valid(value):
                return []
            if work <= _NAMING_WORK:
                return [_fault(error) for error in itertools.islice(self._validator.iter_errors(value), MAX_FAULTS)]
        except ValueError:  # what JSON has no value for, or a pattern that gave up
            pass
        return [SchemaFault("", "", "does not match the schema")]


def _fault(error: jsonschema_rs.ValidationError) -> SchemaFault:
    keyword = error.kind.name
    path = list(error.instance_path)
    if keyword == "required":
        path.append(error.kind.as_dict()["property"])
        message = "is required"
    elif keyword in _TELLING:
        message = error.message.removeprefix(_MASK).strip()
    else:
        message = f"does not match {keyword}"
    pointer = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
    if len(pointer) > _PATH_CHARACTERS:
        pointer = pointer[:_PATH_CHARACTERS] + "…"
    if len(message) > _MESSAGE_CHARACTERS:
        message = message[:_MESSAGE_CHARACTERS] + "…"
    return SchemaFault(pointer, keyword, message)


_CONTAINERS: Final = (dict, list, tuple)


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        return iter(value.values())
    return iter(value) if isinstance(value, (list, tuple)) else iter(())


def measure(value: Any, deepest: int, most: int) -> tuple[int, int]:
    """How deep containers nest, and how many values there are in all; both count no further than one past their limit.

    A container adds its length before it is looked into, so at most `most` places are visited. No recursion: the value
    may be as deep as it likes.
    """
    depth, places = 0, 1
    level = [value] if isinstance(value, _CONTAINERS) else []
    while level:
        depth += 1
        if depth > deepest:
            break
        inner: list[Any] = []
        for container in level:
            places += len(container)
            if places > most:
                return depth, most + 1
            inner += [child for child in _children(container) if isinstance(child, _CONTAINERS)]
        level = inner
    return depth, places


def _patterns(value: Any) -> int:
    """The regular expressions in a schema that nests within bounds; members of other objects by these names count."""
    own = 0
    if isinstance(value, dict):
        properties = value.get("patternProperties")
        own = ("pattern" in value) + (len(properties) if isinstance(properties, dict) else 0)
    return own + sum(map(_patterns, _children(value)))


def _size(value: Any) -> int:
    """The places in a part of a schema, of which a long text is several."""
    text = len(value) // _TEXT_CHARACTERS if isinstance(value, str) else 0
    return 1 + text + sum(map(_size, _children(value)))


_BESIDE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_INTO_ONE: Final = ("properties", "prefixItems", "items")  # of several, one is for each place of the value
_INTO_EACH: Final = (
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "additionalItems",
    "unevaluatedItems",
    "contains",
)
_COMPARED: Final = ("enum", "const", "required", "dependentRequired", "dependencies", "pattern")
"""What is held against a place of the value entry by entry, or repeated in the text of a fault."""
_TEXT_CHARACTERS: Final = 64  # that count as one place
_MOST: Final = 1 << 60


class _Work:
    """How many places of a schema one place of a value is held against, at the worst, by the depth of the value."""

    __slots__ = ("_elsewhere", "_levels", "_schema")

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        # A reference that is no pointer may mean any of these.
        self._elsewhere = [schema, *_children(schema.get("$defs")), *_children(schema.get("definitions"))]
        self._levels: list[dict[int, int]] = []

    def at(self, depth: int) -> int:
        try:
            for level in range(len(self._levels), depth + 1):
                self._levels.append({})
                self._of(self._schema, level)
            return self._of(self._schema, depth)
        except RecursionError:
            self._levels = []
            return _MOST

    def _of(self, schema: Any, depth: int) -> int:
        """The work for a subschema, where the value goes on for `depth` levels."""
        if not isinstance(schema, dict):
            return 1
        known = self._levels[depth]
        if id(schema) not in known:
            known[id(schema)] = 0  # a reference that leads back here without a step into the value adds nothing
            work = len(schema) + sum(_size(schema[name]) for name in _COMPARED if name in schema)
            work += sum(self._of(beside, depth) for beside in self._beside(schema))
            if depth:
                for name in _INTO_ONE:
                    work += max(
                        (self._of(inner, depth - 1) for inner in _subschemas(schema.get(name), name)), default=0
                    )
                for name in _INTO_EACH:
                    work += sum(self._of(inner, depth - 1) for inner in _subschemas(schema.get(name), name))
            known[id(schema)] = min(work, _MOST)
        return known[id(schema)]

    def _beside(self, schema: dict[str, Any]) -> Iterator[Any]:
        """The subschemas that are for the same place of the value."""
        for name in _BESIDE:
            yield from _subschemas(schema.get(name), name)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found = _pointed(self._schema, reference)
            yield from self._elsewhere if found is None else [found]
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            yield from self._elsewhere


def _subschemas(value: Any, name: str) -> Iterator[Any]:
    """The subschemas that the value of a keyword is made of: of some keywords it is one itself."""
    if isinstance(value, dict) and name not in ("properties", "patternProperties", "dependentSchemas", "dependencies"):
        return iter((value,))
    return _children(value)


def _pointed(schema: Any, reference: str) -> Any:
    """What a reference within the schema points at, or None."""
    if reference == "#":
        return schema
    if not reference.startswith("#/"):
        return None
    for part in unquote(reference[2:]).split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and name.isascii() and name.isdigit() and int(name) < len(schema):
            schema = schema[int(name)]
        elif isinstance(schema, dict):
            schema = schema.get(name)
        else:
            return None
    return schema
