"""One small module for each library that can use this package's codec and transports."""

from __future__ import annotations

import sys
from typing import Any


def replace(*replacements: tuple[Any, Any]) -> None:
    """Replace objects, classes or functions known by their names, in all modules of this process and in later ones."""
    # A copy, because reading a lazy attribute of a module may import others.
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for old, new in replacements:
            name = old.__name__
            if names.get(name) is old:
                names[name] = new
