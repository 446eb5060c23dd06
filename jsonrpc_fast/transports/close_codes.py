"""The close codes of WebSocket (RFC 6455, section 7.4.1), for both the library `websockets` and ASGI servers."""

from __future__ import annotations

import enum

from ..errors import ConnectionLost


class CloseCode(enum.IntEnum):
    """The close codes that this package sends, and those that stand for the absence of one (section 7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    NO_CODE = 1005  # a close frame without a code
    ABNORMAL = 1006  # a connection that ended without a close frame
    INVALID_TEXT = 1007
    POLICY_VIOLATION = 1008
    TOO_BIG = 1009


def fault_of(code: int) -> ConnectionLost | None:
    """Return the fault of a connection that the peer has closed; None if the code is that of a normal end."""
    if code in (CloseCode.NORMAL, CloseCode.GOING_AWAY, CloseCode.NO_CODE):
        return None
    fault = ConnectionLost(f"the peer closed the connection with {code}")
    if code == CloseCode.ABNORMAL:
        fault.__cause__ = EOFError("the socket ended")
    return fault
