"""Scopes of OAuth, which limit the use of a token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

SCOPE: Final = r"[!#-\[\]-~]+"
"""A scope (RFC 6749, section 3.3). Others fit neither into a header nor into a claim."""


def as_scopes(scopes: object, name: str = "scopes") -> frozenset[str]:
    """Return scopes as a set.

    Args:
        scopes: The scopes, as an iterable of strings.
        name: Its name in the error's text.

    Raises:
        TypeError: They are not an iterable of strings.
    """
    found: list[Any] = [None]
    if isinstance(scopes, Iterable) and not isinstance(scopes, (str, Mapping)):
        found = list(scopes)
    if not all(isinstance(scope, str) for scope in found):
        raise TypeError(f"{name} must be several strings")
    return frozenset(found)


def declared_scopes(scopes: object, name: str = "scopes") -> frozenset[str]:
    """Return the scopes that a program declares. The arguments are those of `as_scopes`.

    Raises:
        TypeError: They are not several strings.
        ValueError: One of them is not a scope: no token could have it.
    """
    found = as_scopes(scopes, name)
    for scope in found:
        if not re.fullmatch(SCOPE, scope):
            raise ValueError(f'{name}: {scope[:64]!a} must consist of visible ASCII characters without " and \\')
    return found


def scopes_of(claims: Any) -> frozenset[str]:
    """Return the scopes in claims: `scope` (a string, or several), `scp` or `scopes`, as a member or an attribute.

    Raises:
        TypeError: They are of another type.
    """
    # `scope` is that of RFC 9068; some issuers write `scp`.
    for name in ("scope", "scp", "scopes"):
        value = claims.get(name) if isinstance(claims, Mapping) else getattr(claims, name, None)
        if isinstance(value, str):
            return frozenset(scope for scope in value.split(" ") if scope)
        if value is not None:
            return as_scopes(value, f"{name} of the claims")
    return frozenset()
