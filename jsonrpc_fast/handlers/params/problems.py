"""Problems of params.

A problem has a path and a reason. The path is a JSON pointer (RFC 6901) into the params, with the name of an argument
even if the params are an array. Neither contains a value of the input.

Reasons use JSON Schema's words for its types and bounds, whichever library finds the problem, so an MCP tool whose
schema refuses a value says the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from ...codes import RPC_MESSAGES, ErrorCode
from ...errors import RpcError
from ...support import pointer_to

IS_REQUIRED: Final = "is required"
IS_UNKNOWN: Final = "has an unknown member"
TOO_DEEP: Final = "Nested too deeply"
INVALID: Final = "Invalid value"

# A peer controls how many problems there are: without a bound, a small message could get a large response.
MAX_PROBLEMS: Final = 16
"""Maximum number of problems in one response, beside one that says how many more there are."""

_REASONS: Final = {
    "minimum": "is less than the minimum of {}",
    "exclusiveMinimum": "is less than or equal to the minimum of {}",
    "maximum": "is greater than the maximum of {}",
    "exclusiveMaximum": "is greater than or equal to the maximum of {}",
    "multipleOf": "is not a multiple of {}",
    "pattern": 'does not match "{}"',
    "minLength": "is shorter than {}",
    "maxLength": "is longer than {}",
    **dict.fromkeys(("minItems", "minProperties"), "has less than {}"),
    **dict.fromkeys(("maxItems", "maxProperties"), "has more than {}"),
}
"""The reasons by the keyword of JSON Schema that refuses a value."""
_UNITS: Final = {
    "Length": ("character", "characters"),
    "Items": ("item", "items"),
    "Properties": ("property", "properties"),
}
"""What is counted by the keywords that begin with "min" or "max" and have this ending."""

# msgspec has no structured errors. Its texts look like "Expected `int`, got `str` - at `$.a[0]`".
_MSGSPEC_TYPES: Final = {"int": "integer", "str": "string", "float": "number", "bool": "boolean"}
"""The types of JSON Schema by msgspec's names, where these differ."""
_MSGSPEC_BOUNDS: Final = {">": "exclusiveMinimum", ">=": "minimum", "<": "exclusiveMaximum", "<=": "maximum"}
_MSGSPEC_SIZES: Final = {"str": "Length", "object": "Properties"}  # others are of items
# Patterns are compiled when a problem is described, not when the module is imported.
_MSGSPEC_EXPECTED: Final = (
    r"(?s)Expected `(?P<types>[^`]+)`(?:"
    r", got .*"
    r"| (?P<bound>[<>]=?) (?P<limit>\S+)"
    r"| that's a multiple of (?P<factor>\S+)"
    r"| of (?:at least )?length (?:(?P<relation>[<>]=) )?(?P<length>\d+)(?:, got (?P<actual>\d+))?"
    r"| matching regex (?P<pattern>.+))"
)

_PYDANTIC_REASONS: Final = {"missing": IS_REQUIRED, "extra_forbidden": IS_UNKNOWN}

_PYDANTIC_TYPES: Final = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "boolean"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "array"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "dataclass_type"), "object"),
    "string_type": "string",
    "none_required": "null",
}
_PYDANTIC_KEYWORDS: Final = {
    "greater_than": ("exclusiveMinimum", "gt"),
    "greater_than_equal": ("minimum", "ge"),
    "less_than": ("exclusiveMaximum", "lt"),
    "less_than_equal": ("maximum", "le"),
    "multiple_of": ("multipleOf", "multiple_of"),
    "string_pattern_mismatch": ("pattern", "pattern"),
    "string_too_short": ("minLength", "min_length"),
    "string_too_long": ("maxLength", "max_length"),
    "too_short": ("minItems", "min_length"),
    "too_long": ("maxItems", "max_length"),
}
"""By pydantic's kind of error: the keyword of JSON Schema, and the name of the keyword's value in the context."""

_PYDANTIC_CONTEXT: Final = frozenset(
    {
        *("gt", "ge", "lt", "le", "multiple_of"),
        *("actual_length", "min_length", "max_length", "max_digits", "decimal_places", "whole_digits"),
        *("class", "class_name", "field_type", "expected", "pattern"),
        *("discriminator", "expected_tags", "expected_schemes", "expected_version", "tz_expected"),
    }
)
"""Values in pydantic's messages that come from the type, or that are lengths."""


class Problem(NamedTuple):
    """Why a value is invalid; `path` is the JSON pointer to it, "" for the params as a whole."""

    path: str
    reason: str


class Misfit(ValueError):
    """Params, or a part of them, do not have the expected type.

    `problems` says why; at most `MAX_PROBLEMS` are kept. `left_out`: how many there are beside these.
    """

    def __init__(self, problems: Iterable[Problem], left_out: int) -> None:
        found = list(problems)
        self.problems: list[Problem] = found[:MAX_PROBLEMS]
        self.left_out: int = left_out + len(found) - len(self.problems)
        super().__init__("; ".join(f"{path or '/'}: {reason}" for path, reason in self.listed()))

    def listed(self) -> list[Problem]:
        """Return the problems, and one that says how many more there are."""
        left_out = self.left_out
        more = [Problem("", f"has {left_out} more problem{'s' * (left_out != 1)}")] if left_out else []
        return [*self.problems, *more]

    def error(self) -> RpcError:
        """Return the error -32602, whose `data` lists the problems."""
        data = [problem._asdict() for problem in self.listed()]
        return RpcError(ErrorCode.INVALID_PARAMS, RPC_MESSAGES[ErrorCode.INVALID_PARAMS], data)


def missing(names: Iterable[str]) -> list[Problem]:
    """Return the problems of required arguments that are missing."""
    return [Problem(pointer_to([name]), IS_REQUIRED) for name in names]


def too_many(maximum: int) -> Problem:
    """Return the problem of an array with more arguments than a function takes."""
    if maximum < 0:
        return Problem("", "must be an object")
    return Problem("", f"must have at most {maximum} item" + "s" * (maximum != 1))


def msgspec_problem(error: Exception, pointer_of: Callable[[str], str]) -> Problem:
    """Return the problem in an error of msgspec. `pointer_of`: see `msgspec_pointers`."""
    text = str(error)
    cause = error.__cause__  # the message begins with the text of an exception that `__post_init__` raised
    if cause is not None:
        text = text.removeprefix(str(cause))
    reason, at, path = text.rpartition(" - at `")
    if not at:
        reason, path = text, "$`"
    if cause is not None:
        reason = INVALID
    elif found := re.fullmatch(r"Object missing required field `(.*)`", reason):
        return Problem(pointer_of(f"{path[:-1]}.{found[1]}"), IS_REQUIRED)
    elif reason.startswith("Object contains unknown field `"):
        reason = IS_UNKNOWN
    elif expected := re.fullmatch(_MSGSPEC_EXPECTED, reason):
        reason = _msgspec_reason(expected)
    elif not reason.startswith("Expected `"):
        reason = re.split(r"[`']| [-+]?[0-9]", reason)[0].rstrip()
    return Problem(pointer_of(path[:-1].removeprefix("key` in `")), reason)


def _msgspec_reason(expected: re.Match[str]) -> str:
    types = expected["types"].split(" | ")
    if expected["bound"]:
        return _reason(_MSGSPEC_BOUNDS[expected["bound"]], expected["limit"])
    if expected["factor"]:
        return _reason("multipleOf", expected["factor"])
    if expected["pattern"]:
        return _reason("pattern", ast.literal_eval(expected["pattern"]))
    if expected["length"]:
        length = int(expected["length"])
        is_short = expected["relation"] == ">=" or int(expected["actual"] or length) < length
        return _reason(f"{'min' if is_short else 'max'}{_MSGSPEC_SIZES.get(types[0], 'Items')}", length)
    return _type_reason(_MSGSPEC_TYPES.get(name, name) for name in types)


def _reason(keyword: str, value: object) -> str:
    unit = _UNITS.get(keyword[len("min") :])
    return _REASONS[keyword].format(value if unit is None else f"{value} {unit[value != 1]}")


def _type_reason(types: Iterable[str]) -> str:
    return "is not of type " + " or ".join(f'"{name}"' for name in types)


def msgspec_pointers(names: Iterable[str]) -> Callable[[str], str]:
    """Return a function from a path of msgspec to its JSON pointer, up to the first part that is not in `names`."""
    # The longest names first, because a regular expression takes the first alternative that matches: `a.b` before `a`.
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    part = re.compile(rf"\.({known})(?![^.\[])|\[([0-9]+)\]" if known else r"\[([0-9]+)()\]")

    def pointer_of(path: str) -> str:
        parts = []
        at = 1  # after the "$"
        while found := part.match(path, at):
            parts.append(found[1] or found[2])
            at = found.end()
        return pointer_to(parts)

    return pointer_of


def pydantic_problems(error: Any, value: Any, names: AbstractSet[str]) -> list[Problem]:
    """Return the problems in a ValidationError of pydantic about a JSON value. `names`: those that a path may hold."""
    # `errors` makes a dict for each problem, and a peer controls how many there are.
    if error.error_count() > 100 * MAX_PROBLEMS:
        return [Problem("", f"{error.error_count()} invalid values")]
    found = error.errors(include_url=False, include_input=False)[:MAX_PROBLEMS]
    return [Problem(pointer_to(_pydantic_place(each, value, names)), _pydantic_reason(each)) for each in found]


def _pydantic_place(found: Any, value: Any, names: AbstractSet[str]) -> list[str | int]:
    """Return the names and indexes that lead to the place of an error, up to the first key of a mapping.

    A location of pydantic also contains classes and tags of unions, and validators, which are not in the value.
    """
    place: list[str | int] = []
    location = found["loc"]
    for index, part in enumerate(location, 1):
        if isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif isinstance(value, dict) and part in value:
            value = value[part]
            if part not in names:
                break
        elif not (index == len(location) and found["type"] == "missing" and part in names):
            continue
        place.append(part)
    return place


def _pydantic_reason(found: Any) -> str:
    """Return the reason in an error of pydantic, without values and without texts of the application."""
    from pydantic_core import PydanticKnownError

    kind, context = found["type"], found.get("ctx", {})
    if kind in _PYDANTIC_REASONS:
        return _PYDANTIC_REASONS[kind]
    if kind in _PYDANTIC_TYPES:
        return _type_reason([_PYDANTIC_TYPES[kind]])
    if kind in _PYDANTIC_KEYWORDS:
        keyword, name = _PYDANTIC_KEYWORDS[kind]
        if context.get("field_type") == "Dictionary":
            keyword = keyword.replace("Items", "Properties")
        return _reason(keyword, context[name])
    try:
        if context.keys() <= _PYDANTIC_CONTEXT:
            return PydanticKnownError(kind, context or None).message()
        PydanticKnownError(kind, context)  # raises for a kind that pydantic does not know
    except (KeyError, TypeError):  # a kind of the application's own
        return INVALID
    return INVALID if kind in ("value_error", "assertion_error") else str(kind).replace("_", " ").capitalize()
