"""The old home of `support`."""

from __future__ import annotations

from .support import INDEX_DIGITS as INDEX_DIGITS
from .support import index_of as index_of
from .support import pointer_parts, reference_target
from .support import pointer_to as pointer_to

parts_of = pointer_parts
target_of = reference_target
