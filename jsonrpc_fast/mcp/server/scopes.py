"""Scopes of OAuth: what a token may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def as_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return scopes as a set.

    Raises:
        TypeError: They are not several strings.
    """
    found = None if isinstance(scopes, str) else frozenset(scopes)
    if found is None or not all(isinstance(scope, str) for scope in found):
        raise TypeError("scopes must be several strings")
    return found


def scopes_of(claims: Any) -> frozenset[str]:
    """Return the scopes in claims: `scope` (a string, or several), `scp` or `scopes`, as a member or an attribute."""
    for name in ("scope", "scp", "scopes"):
        value = claims.get(name) if isinstance(claims, Mapping) else getattr(claims, name, None)
        if isinstance(value, str):
            return frozenset(value.split())
        if isinstance(value, Iterable):
            return frozenset(scope for scope in value if isinstance(scope, str))
    return frozenset()
