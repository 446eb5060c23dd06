"""The command `info`: versions, backend and the rules of the profiles."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterator

from .._version import __version__
from ..codec import BACKEND, CORE_FAULT, ORJSON_FAULT, ORJSON_VERSION, TRICKS
from ..profile import PRESETS, Profile
from .output import Status


def run(options: argparse.Namespace) -> int:
    """Run the command. Return the exit status."""
    facts = {
        "version": __version__,
        "backend": BACKEND,
        "core_fault": CORE_FAULT,
        "tricks": TRICKS or None,
        # The engine for the JSON of payloads outside the core's fast path.
        "engine": f"orjson {ORJSON_VERSION}" if ORJSON_VERSION else "the core" if BACKEND == "cython" else "json",
        "orjson_fault": ORJSON_FAULT,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    profiles = {name: _rules(profile) for name, profile in PRESETS.items()}
    if options.json:
        print(json.dumps({**facts, "profiles": profiles}))
        return Status.SUCCESS
    for name, fact in facts.items():
        if isinstance(fact, dict):
            fact = ", ".join([f"{trick} {'on' if is_on else 'off'}" for trick, is_on in fact.items()])
        if fact is not None:  # the faults are None if the core and orjson are in use
            print(f"{name:<12}  {fact}")
    print()
    for line in _table(profiles):
        print(line)
    return Status.SUCCESS


def _rules(profile: Profile) -> dict[str, str | int]:
    """Return the fields of a profile and of its limits."""
    rules = {name: getattr(profile, name) for name in profile.FIELDS if name not in ("name", "limits")}
    return rules | {name: getattr(profile.limits, name) for name in profile.limits.FIELDS}


def _table(profiles: dict[str, dict[str, str | int]]) -> Iterator[str]:
    """Yield the lines of a table of the rules that differ between profiles, then of the other rules."""
    # "mcp-2025-11-25" on one line would make the table too wide: it takes three.
    names = [name.split("-", 2) for name in profiles]
    height = max(map(len, names))
    rows = list(zip(*[[""] * (height - len(parts)) + parts for parts in [["profile"], *names]], strict=True))
    same = []
    for rule in _rules(Profile()):
        found = [rules[rule] for rules in profiles.values()]
        values = [("no", "yes")[value] if isinstance(value, bool) else str(value) for value in found]
        if len(set(values)) == 1:
            same.append(f"{rule} {values[0]}")
        else:
            rows.append((rule, *values))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]).rstrip()
    yield ""
    yield f"the same in all: {', '.join(same)}"
