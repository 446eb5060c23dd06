"""The old home of `support`."""

from __future__ import annotations

from .support import SHOWN_BYTES as SHOWN_BYTES
from .support import shorten as shorten
