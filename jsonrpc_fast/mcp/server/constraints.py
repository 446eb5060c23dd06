"""Constraints of pydantic that their type cannot be checked for, such as `Annotated[str, Field(ge=1)]`.

Pydantic takes them, and its check of any value raises TypeError. They show in the core schema: what a type does not
know as a constraint of its own is a function of pydantic's, which is called with the value. So each is called here with
a value of every type that it may get.
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
    "any": object(),
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
"""A value of each type of pydantic's, by its name in a core schema."""

_INSIDE: Final = {"json-or-python": "json_schema", "lax-or-strict": "lax_schema"}
"""Of schemas that are several: the one that reads JSON."""


def check_constraints(core_schema: Mapping[str, Any]) -> None:
    """Raises TypeError for a constraint that pydantic cannot check for values of its type. What is in doubt passes."""
    nodes = [*_nodes(core_schema)]
    definitions = {node["ref"]: node for node in nodes if isinstance(node.get("ref"), str)}
    for node in nodes:
        for constraint, name, checked in _constraints(node):
            for value in _values(checked, definitions):
                try:
                    constraint(value)
                except Exception as error:
                    # Any other error: it can be checked. Of a model that holds nothing the text may fail in its turn.
                    if isinstance(error, TypeError) or isinstance(error.__context__, TypeError):
                        what = type(value).__name__
                        raise TypeError(f"the constraint {name} cannot be checked for a value of type {what}") from None


def _nodes(core_schema: Any) -> Iterator[Mapping[str, Any]]:
    left, seen = [core_schema], set()
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            yield part
            left += [inner for name, inner in part.items() if name not in ("metadata", "serialization", "default")]
        elif isinstance(part, (list, tuple)):
            left += part


def _constraints(node: Mapping[str, Any]) -> Iterator[tuple[Any, str, Any]]:
    """The functions of pydantic's that are constraints, each with its name and the schema of what it is called with."""
    if node.get("type") == "function-after":
        function = node["function"]["function"]
        if isinstance(function, partial):
            if _is_pydantics(function.func) and function.keywords:
                yield function, ", ".join(function.keywords), node["schema"]
        elif _is_pydantics(function) and function.__name__ == "forbid_inf_nan_check":
            yield function, "allow_inf_nan", node["schema"]
    elif node.get("type") == "chain":
        first, *steps = node["steps"]
        for step in steps:  # `pattern` and the like, of a type that is not a text
            if step["type"] == "function-wrap" and _is_pydantics(step["function"]["function"]):
                yield _check_text, ", ".join(name for name in step["schema"] if name != "type"), first


def _is_pydantics(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("pydantic._internal.")


def _check_text(value: object) -> None:
    if not isinstance(value, (str, bytes)):
        raise TypeError


def _values(schema: Any, definitions: Mapping[str, Any]) -> Iterator[Any]:
    """Values of the types that a schema reads, as far as they are known."""
    left, seen = [schema], set()
    while left:
        node = left.pop()
        if isinstance(node, tuple):  # a choice of a union, with its label
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
            left += [node["schema"], {"type": "none"}]
        elif kind == "union":
            left += node["choices"]
        elif kind == "tagged-union":
            left += node["choices"].values()
        elif kind == "chain":
            left.append(node["steps"][-1])
        elif kind == "definition-ref":
            left.append(definitions.get(node["schema_ref"]))
        elif kind in _INSIDE:
            left.append(node[_INSIDE[kind]])
        elif kind in ("default", "definitions", "function-before") or any(_constraints(node)):
            left.append(node["schema"])  # what another function returns is not known
