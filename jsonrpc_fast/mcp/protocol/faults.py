"""The faults of a value that does not match a JSON Schema, phrased so that a language model can fix the value.

Rules:
  - A fault names the place and the keyword. It may show the schema, never the value, and its length is limited.
  - A union (`anyOf`, `oneOf`) has the faults of the alternative that was probably meant: the one for the type of the
    value, or for its tag, a member with different constants in each alternative. If several remain, one fault lists the
    faults of each of them.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...support import pointer_to, reference_target

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
        message: The rule, for people and models.
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
    """Return the faults for an error of the validator.

    Args:
        error: The error.
        schema: The schema of the validator.
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
        import difflib  # loaded for the first name that is unknown

        if found := difflib.get_close_matches(name[:_MAX_UNKNOWN], known[:_MAX_UNKNOWN], n=1):
            return found[0]
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
