"""The codec: bytes to messages and back, without IO. `_backend` selects the backend and lists the names."""

from __future__ import annotations

from . import _backend
from ._backend import *  # noqa: F403

__all__ = _backend.__all__
