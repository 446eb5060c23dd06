"""The rules of DESIGN section 3, row by row, written by hand."""

from __future__ import annotations

from .requests import AMBIGUOUS, ID, METHOD, PARAMS, VERSION
from .responses import RESPONSES
from .texts import BATCH, MEMBERS, TEXT
from .vector import PRESET_NAMES, Vector

VECTORS = [*VERSION, *ID, *METHOD, *PARAMS, *AMBIGUOUS, *RESPONSES, *MEMBERS, *BATCH, *TEXT]

__all__ = ["PRESET_NAMES", "VECTORS", "Vector"]
