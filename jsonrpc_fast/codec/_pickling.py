"""What the pickles of messages name, so that a process whose backend is another one reads them, too."""

from __future__ import annotations

import sys
from typing import Any


def remake(backend: str, maker: str, *fields: Any) -> Any:
    """The object that a pickle holds, of the backend that wrote it where that is loaded, else of the one in use.

    backend: the name of its module. maker: what makes the object of its fields there.
    """
    module = sys.modules.get(backend) or sys.modules[f"{__package__}._backend"].backend
    return getattr(module, maker)(*fields)
