"""The codec: bytes to messages and back, without IO. `_backend` selects the backend, `public` has the names."""

from __future__ import annotations

from ._backend import CORE_FAULT as CORE_FAULT
from ._backend import backend as backend  # type: ignore[attr-defined]  # no name of `jsonrpc_fast`
from .public import *  # noqa: F403
