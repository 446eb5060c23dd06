"""JSON Schemas of tools: compiled once, validated with limits.

Rules:
  - The dialect is the one in `$schema`, by default 2020-12 (specification 2025-11-25, "JSON Schema Usage"). Nothing is
    ever fetched.
  - The depth and the size of schemas and values, and the backtracking of patterns, are limited. Counting comes first
    and stops at the limits, so refusing a huge message is cheap.
  - The work is estimated before it is done, since branches multiply it: a schema that refers to itself in two branches
    of `anyOf` doubles the work with each level of the value. A schema that needs too much work for a flat value does
    not compile. A value that needs too much work is a fault. If listing all faults would take too long, one fault for
    the whole value replaces them.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...support import nearest_of, pointer_to, reference_target
from ...types import UNSET

if TYPE_CHECKING:
    import jsonschema_rs

MASK: Final = "the value"
"""The text that the validator writes in place of values."""

_MESSAGE_CHARACTERS: Final = 500  # a keyword may be as long as the schema
_MAX_UNKNOWN: Final = 50
"""Maximum number of faults that are listed for one of several alternatives."""


class SchemaFault(NamedTuple):
    """A rule of a schema that a value breaks.

    Attributes:
        path: The JSON pointer (RFC 6901) to the place in the value; "" for the whole value.
        keyword: The JSON Schema keyword; "depth" if the value nests too deep or is too large; "" if unknown.
    """

    path: str
    keyword: str
    message: str


class _Alternative(NamedTuple):
    """One alternative of a union, and why the value does not match it."""

    name: str
    tags: dict[str, list[Any]]
    faults: list[SchemaFault]

    def is_refused_at(self, path: str, keyword: str | None = None) -> bool:
        return any(fault.path == path and keyword in (None, fault.keyword) for fault in self.faults)


def faults_of(error: jsonschema_rs.ValidationError, schema: dict[str, Any]) -> Iterator[SchemaFault]:
    """Return the faults for an error of the validator, phrased so that a language model can fix the value.

    A fault names the place and the keyword. It may show the schema, never the value, and its length is limited. A union
    (`anyOf`, `oneOf`) has the faults of the alternative that was probably meant: the one for the type of the value, or
    for its tag, a member with different constants in each alternative. If several remain, one fault lists them all.
    """
    keyword = error.kind.name
    if keyword in ("anyOf", "oneOf"):
        found = _union_faults(error, schema)
    else:
        path = list(error.instance_path)
        if keyword == "required":
            path.append(error.kind.as_dict()["property"])
        found = [SchemaFault(_pointer(path), keyword, _message(error, schema))]
    for fault in found:
        is_long = len(fault.message) > _MESSAGE_CHARACTERS
        yield fault._replace(message=fault.message[:_MESSAGE_CHARACTERS] + "…") if is_long else fault


def _message(error: jsonschema_rs.ValidationError, schema: dict[str, Any]) -> str:
    keyword = error.kind.name
    # With the value masked, the messages of these keywords show only the schema.
    if keyword in {
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
    }:
        return error.message.removeprefix(MASK).strip()
    # The path points to the missing member, so the message need not name it.
    if keyword == "required":
        return "is required"
    if keyword == "not":
        return f"must not match {_text(error.kind.as_dict()['schema'])}"
    if keyword == "propertyNames":
        return f"has a member whose name {_message(error.kind.as_dict()['error'], schema)}"
    if "additionalProperties" in error.schema_path[-1:]:
        parent = _part(schema, error.schema_path[:-1])
        known = [] if parent is None else [*parent.get("properties", ())]
        if not known:
            return "must not have members"
        meant = _closest(error.kind.as_dict().get("unexpected", ()), known)
        hint = "" if meant is None else f", did you mean {_text(meant)}?"
        return f"has an unknown member{hint}; known are {', '.join(map(_text, known))}"
    return "is not allowed" if keyword == "falseSchema" else f"does not match {keyword}"


def _closest(unknown: Iterable[str], known: list[str]) -> str | None:
    """Return the known name that is most like one of these, which are not shown; None if none is."""
    for name in itertools.islice(unknown, _MAX_UNKNOWN):
        if (nearest := nearest_of(name, known)) is not None:
            return nearest
    return None


def _union_faults(error: jsonschema_rs.ValidationError, schema: dict[str, Any]) -> list[SchemaFault]:
    place = _pointer(error.instance_path)
    alternatives = []
    for index, errors in enumerate(error.kind.as_dict()["context"]):
        part = _part(schema, [*error.schema_path, index])
        # Bounded for each alternative, because unions may contain unions.
        faults = [fault for inner in errors[:40] for fault in faults_of(inner, schema)]
        alternatives.append(_Alternative(_name(part, index), _tags(_target_of(part, schema)), faults))
    # Only `oneOf` refuses a value that an alternative accepts.
    if not all(each.faults for each in alternatives):
        return [SchemaFault(place, error.kind.name, "matches more than one alternative")]
    # For example "x" for `int | bool`: one text for all alternatives is shorter than one for each.
    if all(fault.path == place for each in alternatives for fault in each.faults):
        return [_joined(place, error.kind.name, [fault for each in alternatives for fault in each.faults])]
    # An alternative for another type does not help to fix the value.
    meant = [each for each in alternatives if not each.is_refused_at(place, "type")] or alternatives
    # Sorted, so that the same value gets the same text.
    for tag in sorted(set.intersection(*[{*each.tags} for each in meant])):
        path = f"{place}{_pointer([tag])}"
        tagged = [each for each in meant if not each.is_refused_at(path)]
        if not tagged:
            values = ", ".join(dict.fromkeys(_text(value) for each in meant for value in each.tags[tag]))
            is_missing = all(SchemaFault(path, "required", "is required") in each.faults for each in meant)
            return [
                SchemaFault(path, "enum", f"is required, one of {values}" if is_missing else f"is not one of {values}")
            ]
        meant = tagged
    # A fault of all alternatives must be fixed in any case.
    shared = [fault for fault in meant[0].faults if all(fault in each.faults for each in meant)]
    if shared:
        return shared
    reasons = [f"{each.name}: {_reasons(each.faults, place)}" for each in meant[:8]]
    return [SchemaFault(place, error.kind.name, f"matches no alternative: {'; '.join(reasons)}")]


def _joined(place: str, keyword: str, faults: list[SchemaFault]) -> SchemaFault:
    """Return one fault for alternatives that all refuse the value itself, such as those of `int | str`."""
    # A dict keeps the order: the text is the same for the same schema.
    types = dict.fromkeys(
        name for fault in faults if fault.keyword == "type" for name in re.findall(r'"([a-z]+)"', fault.message)
    )
    messages = dict.fromkeys(fault.message for fault in faults if fault.keyword != "type")
    if types:
        messages["is not of type " + " or ".join(map(_text, types))] = None
    keywords = {fault.keyword for fault in faults}
    return SchemaFault(place, keywords.pop() if len(keywords) == 1 else keyword, ", and ".join(messages))


def _reasons(faults: list[SchemaFault], place: str) -> str:
    reasons = [f"{fault.path.removeprefix(place)} {fault.message}".strip() for fault in faults[:3]]
    return ", ".join([*reasons, "…"] if len(faults) > 3 else reasons)


def _name(part: dict[str, Any] | None, index: int) -> str:
    """Return the name of an alternative, as the schema shows it."""
    part = part or {}
    name = part.get("title") or str(part.get("$ref", "")).rpartition("/")[2] or part.get("type")
    return name if isinstance(name, str) else f"alternative {index + 1}"


def _tags(part: dict[str, Any] | None) -> dict[str, list[Any]]:
    """Return the members of an object that have constant values, with these values."""
    members = (part or {}).get("properties")
    tags = {}
    for name, member in members.items() if isinstance(members, dict) else ():
        if isinstance(member, dict) and "const" in member:
            tags[name] = [member["const"]]
        elif isinstance(member, dict) and isinstance(member.get("enum"), list):
            tags[name] = member["enum"]
    return tags


def _part(schema: Any, path: Sequence[int | str]) -> dict[str, Any] | None:
    """Return the part of a schema at a path; None if it is elsewhere, as that of a schema with its own `$id`."""
    for name in path:
        try:
            schema = schema[name]
        except (LookupError, TypeError):
            return None
    return schema if isinstance(schema, dict) else None


def _target_of(part: dict[str, Any] | None, schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the part that a `$ref` refers to, if it is a definition; other parts unchanged."""
    reference = (part or {}).get("$ref")
    if not isinstance(reference, str):
        return part
    target = reference_target(schema, reference)
    return target if isinstance(target, dict) else None


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _pointer(path: Iterable[int | str]) -> str:
    pointer = pointer_to(path)
    return pointer[:200] + "…" if len(pointer) > 200 else pointer


MAX_SCHEMA_DEPTH: Final = 64
"""Maximum nesting depth of a schema."""
MAX_VALUE_DEPTH: Final = 128
"""Maximum nesting depth of a value to validate."""
MAX_SCHEMA_VALUES: Final = 20_000
"""Maximum number of values in a schema, including nested ones."""
MAX_PATTERNS: Final = 250
"""Maximum number of regular expressions in a schema; compiling one can take several milliseconds."""
MAX_VALUES: Final = 1_000_000
"""Maximum number of values in a value to validate, including nested ones."""


MORE: Final = "more"
"""The keyword of the fault that says how many others are not listed."""
SCHEMA_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose values are schemas by name."""
DATA_KEYWORDS: Final = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords whose values are not schemas, whatever is in them; `example` is that of OpenAPI."""


class Schema:
    """A compiled JSON Schema.

    Raises:
        ValueError: The schema is invalid, nests too deep, is too large, branches too much, or needs another document.
    """

    __slots__ = ("_growth", "_schema", "_slow_patterns", "_validator", "_work")

    def __init__(self, schema: dict[str, Any]) -> None:
        if not isinstance(schema, dict):
            raise ValueError("a schema must be an object")
        # Checked first, because all later steps recurse into the schema, or compile it.
        depth, count = measure(schema, MAX_SCHEMA_DEPTH, MAX_SCHEMA_VALUES)
        if depth > MAX_SCHEMA_DEPTH:
            raise ValueError(f"the schema nests deeper than {MAX_SCHEMA_DEPTH}")
        if count > MAX_SCHEMA_VALUES:
            raise ValueError(f"the schema has more than {MAX_SCHEMA_VALUES} values")
        patterns = [*_patterns(schema)]
        if len(patterns) > MAX_PATTERNS:
            raise ValueError(f"the schema has more than {MAX_PATTERNS} patterns")
        import jsonschema_rs  # loaded for the first schema

        try:
            self._validator = jsonschema_rs.validator_for(
                schema,
                # A schema may come from a peer: a fetched `$ref` would let it reach hosts in this network.
                offline=True,
                mask=MASK,
                validate_formats=True,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            where = "".join(f"/{part}" for part in getattr(error, "instance_path", []))
            reason = getattr(error, "message", None) or str(error)
            raise ValueError(f"the schema cannot be used: {where or '/'}: {reason}") from None
        self._schema = schema
        powers = [power for pattern in patterns if (power := growth(pattern)) > 1]
        self._slow_patterns = len(powers)
        self._growth = max(powers, default=1)
        self._work = _Work(schema)
        # Too much work even for a flat value: such a schema could not be used for any value. The work is an estimate of
        # the schema values visited in the worst case, of which a million take less than 0.1 seconds.
        if self._work.at(1) > 1_000_000:
            raise ValueError("the schema cannot be used: it branches too much")

    def faults(self, value: Any) -> list[SchemaFault]:
        """Return the faults of a JSON value; [] if it is valid. After 20 faults the last one says how many more."""
        depth, count = measure(value, MAX_VALUE_DEPTH, MAX_VALUES)
        if depth > MAX_VALUE_DEPTH:
            return [SchemaFault("", "depth", f"nests deeper than {MAX_VALUE_DEPTH}")]
        if count > MAX_VALUES:
            return [SchemaFault("", "depth", f"has more than {MAX_VALUES} values")]
        work = self._work.at(depth) * count
        if work > 50_000_000:
            return [SchemaFault("", "depth", "nests too deep, or is too large, for this schema")]
        # Steps over characters, 0.2 to 0.5 seconds.
        if self._slow_patterns and self._slow_patterns * _pattern_work(value, self._growth) > 50_000_000:
            return [SchemaFault("", "pattern", "has a string that is too long for the patterns of the schema")]
        try:
            # Most values are valid, which is found quickly. Listing faults is slower, and done only for invalid ones.
            if self._validator.is_valid(value):
                return []
            # A million schema values take less than 0.1 seconds, but listing does not stop at the first fault.
            if work <= 50_000:
                errors = self._validator.iter_errors(value)
                found = (fault for error in errors for fault in faults_of(error, self._schema))
                faults = [*itertools.islice(found, 20)]
                more = sum(1 for _ in found)
                return (
                    [*faults, SchemaFault("", MORE, f"has {more} more fault{'s' if more > 1 else ''}")]
                    if more
                    else faults
                )
        except ValueError:  # not a JSON value, or a pattern backtracked too often
            pass
        return [SchemaFault("", "", "does not match the schema")]


_CONTAINERS: Final = (dict, list, tuple)


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        return iter(value.values())
    return iter(value) if isinstance(value, (list, tuple)) else iter(())


def measure(value: Any, max_depth: int, max_values: int) -> tuple[int, int]:
    """Return the nesting depth and the number of values, including nested ones.

    Counting stops as soon as either exceeds its maximum. The length of a container is added before its items are
    visited, so at most `max_values` values are visited. There is no recursion: the value may nest to any depth.
    """
    depth, count = 0, 1
    level = [value] if isinstance(value, _CONTAINERS) else []
    while level:
        depth += 1
        if depth > max_depth:
            break
        inner: list[Any] = []
        for container in level:
            count += len(container)
            if count > max_values:
                return depth, max_values + 1
            inner += [child for child in _children(container) if isinstance(child, _CONTAINERS)]
        level = inner
    return depth, count


def _all_in(value: Any) -> Iterator[Any]:
    """Yield a value and everything that is nested in it."""
    level = [value]
    while level:
        yield from level
        level = [child for each in level for child in _children(each)]


def _patterns(schema: Any) -> Iterator[str]:
    """The patterns in a schema. This includes other objects with members of these names."""
    for part in _all_in(schema):
        if isinstance(part, dict):
            if isinstance(pattern := part.get("pattern"), str):
                yield pattern
            if isinstance(properties := part.get("patternProperties"), dict):
                yield from properties


def _pattern_work(value: Any, power: int) -> int:
    """The sum over all strings and names in a value of limited size: their lengths to a power."""
    work = 0
    for part in _all_in(value):
        texts = part if isinstance(part, dict) else [part]
        work += sum(len(text) ** power for text in texts if isinstance(text, str))
    return work


def _size(value: Any) -> int:
    """Count the values in a part of a schema; a long string is several."""
    return sum(1 + len(part) // 64 if isinstance(part, str) else 1 for part in _all_in(value))


_MAX_WORK: Final = 1 << 60


class _Work:
    """The number of schema values that one value is checked against in the worst case, by the depth of the value."""

    __slots__ = ("_levels", "_schema", "_targets")

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        # A reference that is not a pointer may mean any of these.
        self._targets = [schema, *_children(schema.get("$defs")), *_children(schema.get("definitions"))]
        self._levels: list[dict[int, int]] = []

    def at(self, depth: int) -> int:
        try:
            # From the shallowest level up, so that each step of the recursion finds the level below it computed.
            for level in range(len(self._levels), depth + 1):
                self._levels.append({})
                self._of(self._schema, level)
            return self._of(self._schema, depth)
        except RecursionError:
            self._levels = []
            return _MAX_WORK

    def _of(self, schema: Any, depth: int) -> int:
        """The work for a subschema if the value has `depth` more levels."""
        if not isinstance(schema, dict):
            return 1
        known = self._levels[depth]
        if id(schema) not in known:
            known[id(schema)] = 0  # a reference back to here, at the same value, adds no work
            # Entries that are compared with a value one by one, or are repeated in the text of a fault.
            work = len(schema) + sum(
                _size(schema[name])
                for name in ("enum", "const", "required", "dependentRequired", "dependencies", "pattern")
                if name in schema
            )
            work += sum(self._of(beside, depth) for beside in self._beside(schema))
            if depth:
                # Each value is checked against one of them.
                for name in ("properties", "prefixItems", "items"):
                    work += max(
                        (self._of(inner, depth - 1) for inner in _subschemas(schema.get(name), name)), default=0
                    )
                for name in (
                    "patternProperties",
                    "additionalProperties",
                    "unevaluatedProperties",
                    "propertyNames",
                    "additionalItems",
                    "unevaluatedItems",
                    "contains",
                ):
                    work += sum(self._of(inner, depth - 1) for inner in _subschemas(schema.get(name), name))
            # Bounded, because the products would otherwise grow to numbers of thousands of digits.
            known[id(schema)] = min(work, _MAX_WORK)
        return known[id(schema)]

    def _beside(self, schema: dict[str, Any]) -> Iterator[Any]:
        """The subschemas that apply to the same value."""
        for name in ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"):
            yield from _subschemas(schema.get(name), name)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = reference_target(self._schema, reference)
            yield from self._targets if target is UNSET else [target]
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            yield from self._targets


def _subschemas(value: Any, name: str) -> Iterator[Any]:
    """The subschemas in the value of a keyword. For some keywords the value itself is a subschema."""
    if isinstance(value, dict) and name not in SCHEMA_MAPS and name != "dependencies":
        return iter((value,))
    return _children(value)


def growth(pattern: str) -> int:
    """Return the power of the text's length with which the time of matching grows, at most: 1 for linear time.

    A pattern without lookaround, backreferences and atomic groups is matched in linear time, the others by
    backtracking. The number of steps back is limited, but each step may read the whole text: the time grows with the
    square of the length, and by one more power for each level of nested lookaround. Lookahead right after `^` is tried
    once, which is linear: `^(?!\\s*$).+`.
    """
    # The groups contain no other group.
    first = re.match(r"\^(?:\(\?[=!](?:[^()\\\[\]]|\\.|\[(?:[^\]\\]|\\.)*\])*\))*", pattern)
    if first is not None and "|" not in pattern[first.end() :]:  # each alternative may need a ^ of its own
        pattern = pattern[first.end() :]
    if re.search(r"\(\?(?:[=!>(]|<[=!]|P=)|\\[1-9gkGK]|[*+?}]\+", pattern) is None:
        return 1
    groups: list[bool] = []  # whether each open group is a lookaround
    depth, deepest = 0, 1
    for token in re.findall(r"\\.|\[(?:[^\]\\]|\\.)*(?:\]|\Z)|\(\?(?:[=!]|<[=!])|[()]", pattern, re.DOTALL):
        if token[0] == "(":
            groups.append(len(token) > 1)
            depth += groups[-1]
            deepest = max(deepest, depth)
        elif token == ")" and groups:
            depth -= groups.pop()
    return 1 + deepest
