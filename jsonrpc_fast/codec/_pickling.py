"""Unpickling of messages, even in a process that uses the other backend."""

from __future__ import annotations

import sys
from typing import Any


def remake(backend: str, maker: str, *fields: Any) -> Any:
    """Return an object of the backend that pickled it, if that is loaded, otherwise of the backend in use.

    Args:
        backend: The name of the module that pickled it.
        maker: The name of the class or function there that makes the object.
        fields: The arguments of the maker.
    """
    # A pickle of the core must load where only the pure backend is available, and vice versa.
    module = sys.modules.get(backend) or sys.modules[f"{__package__}._backend"].backend
    return getattr(module, maker)(*fields)
