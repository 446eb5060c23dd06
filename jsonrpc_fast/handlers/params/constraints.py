"""Finds pydantic constraints that fail for each value of their type, such as `Annotated[str, Field(ge=1)]`.

Pydantic accepts them, but validating any value raises TypeError. In pydantic's core schema, a constraint that a type
does not support is a function that is called with the value. So each function is called here with a sample value of
each type that it may get.
"""

from __future__ import annotations

import datetime
import fractions
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final

_VALUES: Final[dict[str, Any]] = {
    "any": object(),  # supports no operator
    "bool": False,
    "bytes": b"",
    "date": datetime.date(2000, 1, 1),
    "datetime": datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc),
    "decimal": Decimal(0),
    "deque": deque(),
    "dict": {},
    "float": 0.0,
    "fraction": fractions.Fraction(0),
    "frozenset": frozenset(),
    "int": 0,
    "list": [],
    "none": None,
    "ordered-dict": OrderedDict(),
    "set": set(),
    "str": "",
    "time": datetime.time(),
    "timedelta": datetime.timedelta(),
    "tuple": (),
    "typed-dict": {},
    "uuid": uuid.UUID(int=0),
}
"""A sample value of each type in a core schema, by name."""

_INSIDE: Final = {"json-or-python": "json_schema", "lax-or-strict": "lax_schema"}
"""By schema that contains several: the key of the one for JSON."""


def check_constraints(core_schema: Mapping[str, Any]) -> None:
    """Check that pydantic can apply all constraints of a type. Constraints that are not understood pass.

    Args:
        core_schema: The core schema of the type.

    Raises:
        TypeError: A constraint fails for each value of its type.
    """
    nodes = [*_nodes(core_schema)]
    definitions = {node["ref"]: node for node in nodes if isinstance(node.get("ref"), str)}
    for node in nodes:
        for constraint, name, checked in _constraints(node):
            for value in _values(checked, definitions):
                try:
                    constraint(value)
                except Exception as error:
                    # Other errors mean that the constraint works. For an empty model, making the text may fail, too.
                    if isinstance(error, TypeError) or isinstance(error.__context__, TypeError):
                        what = type(value).__name__
                        raise TypeError(f"the constraint {name} cannot be checked for a value of type {what}") from None


def _nodes(core_schema: Any) -> Iterator[Mapping[str, Any]]:
    # Not by recursion: a schema may refer to itself, and nest as deep as its types.
    queue, seen = [core_schema], set()
    while queue:
        part = queue.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            yield part
            queue += [inner for name, inner in part.items() if name not in ("metadata", "serialization", "default")]
        elif isinstance(part, (list, tuple)):
            queue += part


def _constraints(node: Mapping[str, Any]) -> Iterator[tuple[Any, str, Any]]:
    """The pydantic functions that are constraints, each with its name and the schema of its argument."""
    if node.get("type") == "function-after":
        function = node["function"]["function"]
        # Pydantic makes its own checks, such as `ge`, with `partial`; validators of the application are not called
        # here.
        if isinstance(function, partial):
            if _is_from_pydantic(function.func) and function.keywords:
                yield function, ", ".join(function.keywords), node["schema"]
        elif _is_from_pydantic(function) and function.__name__ == "forbid_inf_nan_check":
            yield function, "allow_inf_nan", node["schema"]
    elif node.get("type") == "chain":
        first, *steps = node["steps"]
        for step in steps:  # `pattern` and others, on a type that is not a string
            if step["type"] == "function-wrap" and _is_from_pydantic(step["function"]["function"]):
                yield _check_text, ", ".join(name for name in step["schema"] if name != "type"), first


def _is_from_pydantic(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("pydantic._internal.")


def _check_text(value: object) -> None:
    if not isinstance(value, (str, bytes)):
        raise TypeError


def _values(schema: Any, definitions: Mapping[str, Any]) -> Iterator[Any]:
    """Sample values of the types that a schema accepts, as far as they are known."""
    queue, seen = [schema], set()
    while queue:
        node = queue.pop()
        if isinstance(node, tuple):  # a choice of a union and its label
            node = node[0]
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        kind = node["type"]
        if kind in _VALUES:
            yield _VALUES[kind]
        elif kind == "literal":
            yield from node["expected"]
        elif kind == "enum":
            yield from node["members"]
        elif kind in ("model", "dataclass"):
            yield object.__new__(node["cls"])  # for the operators of the class
        elif kind == "nullable":
            queue += [node["schema"], {"type": "none"}]
        elif kind == "union":
            queue += node["choices"]
        elif kind == "tagged-union":
            queue += node["choices"].values()
        elif kind == "chain":
            queue.append(node["steps"][-1])
        elif kind == "definition-ref":
            queue.append(definitions.get(node["schema_ref"]))
        elif kind in _INSIDE:
            queue.append(node[_INSIDE[kind]])
        elif kind in ("default", "definitions", "function-before") or any(_constraints(node)):
            queue.append(node["schema"])  # the results of other functions are unknown
