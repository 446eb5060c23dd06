"""Sessions: two peers that call each other over a transport.

`Session` runs on asyncio; `Peer` and `Tracker` below it do no IO and have no clock.
"""

from __future__ import annotations

from ..handlers import Handler, Handlers
from .budget import ReplyBudget
from .context import SessionContext
from .conventions import Cancellation, Convention, LspConvention, McpConvention, Progress
from .events import Cancelled, InboundRequest, PeerEvent, PeerFault, Progressed
from .hooks import CallSettledHook, CallStartedHook, FaultHook, Hooks, RequestServedHook, RequestStartedHook
from .options import DEFAULT_TIMEOUT, SessionOptions
from .peer import Peer
from .session import Session
from .tracker import Call, Outcome, Serving, Tracker

__all__ = [
    "DEFAULT_TIMEOUT",
    "Call",
    "CallSettledHook",
    "CallStartedHook",
    "Cancellation",
    "Cancelled",
    "Convention",
    "FaultHook",
    "Handler",
    "Handlers",
    "Hooks",
    "InboundRequest",
    "LspConvention",
    "McpConvention",
    "Outcome",
    "Peer",
    "PeerEvent",
    "PeerFault",
    "Progress",
    "Progressed",
    "ReplyBudget",
    "RequestServedHook",
    "RequestStartedHook",
    "Serving",
    "Session",
    "SessionContext",
    "SessionOptions",
    "Tracker",
]
