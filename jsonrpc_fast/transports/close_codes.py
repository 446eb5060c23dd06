"""The close codes of WebSocket (RFC 6455, section 7.4.1), for both the library `websockets` and ASGI servers."""

from __future__ import annotations

import enum
from typing import Final

from ..errors import ConnectionLost

NO_CODE: Final = 1005
"""Stands for a close frame without a code."""
ABNORMAL: Final = 1006
"""Stands for a connection that ended without a close frame."""


class CloseCode(enum.IntEnum):
    """The close codes that this package sends (RFC 6455, section 7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    INVALID_TEXT = 1007
    POLICY_VIOLATION = 1008
    TOO_BIG = 1009


def fault_of(code: int) -> ConnectionLost | None:
    """Return the fault of a connection that the peer has closed; None if the code is that of a normal end."""
    if code in (CloseCode.NORMAL, CloseCode.GOING_AWAY, NO_CODE):
        return None
    fault = ConnectionLost(f"the peer closed the connection with {code}")
    if code == ABNORMAL:
        fault.__cause__ = EOFError("the socket ended")
    return fault
