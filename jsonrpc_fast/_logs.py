"""The old home of `support`."""

from __future__ import annotations

from .support import Seldom as Seldom
from .support import logger_of as logger_of
