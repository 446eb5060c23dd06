"""The old home of `support`."""

from __future__ import annotations

from .support import loader as loader
