"""The old home of `support`."""

from __future__ import annotations

import asyncio
from typing import Final

from ..support import is_failure as is_failure
from ..support import is_foreign_cancellation as is_foreign_cancellation
from ..support import on_failure as on_failure

CancelledError = asyncio.CancelledError
is_future: Final = asyncio.isfuture
