"""What a gateway shows of the tools of a server: `includeTools`, `excludeTools` and `tools` of an entry.

    "includeTools": ["query*", "tables"], "excludeTools": ["query_admin"],
    "tools": {"query": {"name": "ask", "description": "Ask the shop's database.", "fixed": {"database": "shop"}}}

A call that has a fixed argument is refused, because the gateway must not replace what a client sends without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from ..protocol.records import Record


class ToolChange(Record, frozen=True, kw_only=True, eq=False):
    """How one tool is shown.

    Attributes:
        name: Its other name; "": that of the server.
        description: Its other description; "": that of the server.
        fixed: The arguments that every call has.
    """

    name: str = ""
    description: str = ""
    fixed: dict[str, Any] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class ToolRules:
    """What is shown of the tools of one server.

    Args:
        included: Patterns of the names of the tools that are shown.
        excluded: Patterns of the names of those that are not.
        changes: How tools are changed, by name: an object with `name`, `description` and `fixed`.

    Raises:
        ValueError: A change is malformed, or two tools would have one name.
    """

    included: tuple[str, ...] = ("*",)
    excluded: tuple[str, ...] = ()
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        read = {
            name: ToolChange.from_dict(dict(change), path=f"/tools/{name}") for name, change in self.changes.items()
        }
        inner: dict[str, str] = {}
        for name, change in read.items():
            if change.extra:
                raise ValueError(f"/tools/{name} may have name, description and fixed, not {next(iter(change.extra))}")
            if change.name:
                # Specification 2025-11-25, "Tool Names".
                if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", change.name):
                    raise ValueError(f"/tools/{name}/name must consist of letters, digits, _, - and .")
                if inner.setdefault(change.name, name) != name:
                    raise ValueError(f"/tools/{name}/name is also that of another tool")
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_inner", inner)

    _read: Mapping[str, ToolChange] = field(init=False, repr=False, compare=False)
    _inner: Mapping[str, str] = field(init=False, repr=False, compare=False)  # by other names

    def __bool__(self) -> bool:
        return self != ToolRules()

    def inner(self, shown: str) -> str | None:
        """Return the server's name of a tool that is shown by a name; None if no tool can be."""
        name = self._inner.get(shown, shown)
        is_included = any(fnmatchcase(name, pattern) for pattern in self.included)
        is_excluded = any(fnmatchcase(name, pattern) for pattern in self.excluded)
        return name if is_included and not is_excluded and self._shown(name) == shown else None

    def _shown(self, name: str) -> str:
        change = self._read.get(name)
        return name if change is None or not change.name else change.name

    def fixed(self, name: str) -> Mapping[str, Any]:
        """Return the fixed arguments of a tool, by the server's name of it."""
        change = self._read.get(name)
        return {} if change is None else change.fixed

    def item(self, tool: dict[str, Any]) -> dict[str, Any] | None:
        """Return an item of the server's list as it is shown; None if it is not."""
        shown = self._shown(tool["name"])
        if self.inner(shown) != tool["name"]:
            return None
        change = self._read.get(tool["name"])
        if change is None:
            return tool
        changed = {**tool, "name": shown}
        if change.description:
            changed["description"] = change.description
        schema = tool.get("inputSchema")
        if change.fixed and isinstance(schema, dict):
            changed["inputSchema"] = _without(schema, change.fixed)
        return changed

    def unfit(self, tools: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return the names and arguments in the rules that the tools of a server do not have."""
        schemas = {tool["name"]: tool.get("inputSchema") for tool in tools}
        # "*" fits a server without tools.
        patterns = [pattern for pattern in (*self.included, *self.excluded) if pattern != "*"]
        found = [each for each in patterns if not any(fnmatchcase(name, each) for name in schemas)]
        found += [name for name in self._read if name not in schemas]
        for name, change in self._read.items():
            schema = schemas.get(name)
            properties = schema.get("properties") if isinstance(schema, dict) else None
            if isinstance(properties, dict):
                found += [f"{name}.{argument}" for argument in change.fixed if argument not in properties]
        return found


def _without(schema: dict[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object without some of its members."""
    found = dict(schema)
    if isinstance(properties := schema.get("properties"), dict):
        found["properties"] = {name: each for name, each in properties.items() if name not in names}
    if isinstance(required := schema.get("required"), list):
        found["required"] = [name for name in required if name not in names]
    return found
