"""The part that the `install` functions of adapters share: replacing an object of a library in every module."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def replace(replacements: Mapping[str, tuple[Any, Any]]) -> None:
    """Replace objects in all modules of this process, and thereby in modules that import them later.

    Args:
        replacements: The old and the new object, by the name under which modules know both.
    """
    # A list, because a module with lazy attributes may import others when it is looked at.
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for name, (old, new) in replacements.items():
            if names.get(name) is old:
                names[name] = new
