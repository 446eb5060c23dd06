"""Sessions: two peers that call each other over a transport.

`Session` is the asyncio driver; `Peer` and `Tracker` below it do no IO and have no clock.
"""

from __future__ import annotations

from .conventions import Cancellation, Convention, LspConvention, McpConvention, Progress
from .driver import Session
from .handlers import Handler, Handlers, SessionContext
from .hooks import CallSettledHook, CallStartedHook, FaultHook, Hooks, RequestServedHook, RequestStartedHook
from .options import DEFAULT_TIMEOUT, SessionOptions
from .peer import Cancelled, Event, Fault, InboundRequest, Peer, Progressed, ReplyBudget
from .tracker import Call, Outcome, Serving, Tracker

__all__ = [
    "DEFAULT_TIMEOUT",
    "Call",
    "CallSettledHook",
    "CallStartedHook",
    "Cancellation",
    "Cancelled",
    "Convention",
    "Event",
    "Fault",
    "FaultHook",
    "Handler",
    "Handlers",
    "Hooks",
    "InboundRequest",
    "LspConvention",
    "McpConvention",
    "Outcome",
    "Peer",
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
