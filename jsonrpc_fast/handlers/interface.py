"""Classes that declare methods for both sides: `Handlers.add` serves an object of one, a proxy calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def methods_of(interface: object) -> dict[str, Callable[..., Any]]:
    """Return the public methods that a class declares or inherits, by name, in the order of their declaration.

    Raises:
        TypeError: It is not a class, declares no method, or one that needs no object or is a generator.
    """
    if not isinstance(interface, type):
        raise TypeError(f"interface must be a class, not {type(interface).__name__}")
    members = {name: member for base in reversed(interface.__mro__) for name, member in vars(base).items()}
    found: dict[str, Callable[..., Any]] = {}
    for name, member in members.items():
        if name.startswith("_"):
            continue
        if isinstance(member, (staticmethod, classmethod)) or inspect.isasyncgenfunction(member):
            raise TypeError(f"{name} must be an ordinary method")
        if inspect.isfunction(member):
            found[name] = member
    if not found:
        raise TypeError(f"{interface.__name__} must declare a method")
    return found
