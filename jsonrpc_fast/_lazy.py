"""Names of a package that are imported at their first use, so that importing a module of the package stays cheap.

Type checkers do not see the functions made here. They read imports beside them, under `TYPE_CHECKING`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, names: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package whose names are imported at their first use.

    Args:
        package: The `__name__` of the package.
        names: The names that each module of the package has, with spaces between them. The module is found by its own
            name as well, as if the package had imported it.
    """
    homes = {name: f".{module}" for module, listed in names.items() for name in listed.split()}

    def find(name: str) -> Any:
        if name in names:
            return import_module(f".{name}", package)
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home, package), name)
        # The next use does not come here.
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return list(homes), find, list_names
