"""Names of `typing` that Python 3.10 does not have. Annotations are not evaluated at run time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self as Self
    from typing_extensions import Unpack as Unpack
    from typing_extensions import dataclass_transform as dataclass_transform
else:
    Unpack = Any
    if sys.version_info >= (3, 11):
        from typing import Self, dataclass_transform
    else:
        Self = Any

        def dataclass_transform(**_: bool) -> Any:
            return lambda kind: kind
