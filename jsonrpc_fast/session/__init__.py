"""Sessions: two peers that call each other over a transport.

`Session` is the asyncio driver; `Peer` and `Tracker` below it do no IO and have no clock.
"""

from __future__ import annotations

from .conventions import Cancellation, Convention, LspConvention, McpConvention, Progress
from .driver import Session
from .handlers import Handler, Handlers, RequestContext
from .options import DEFAULT_TIMEOUT, SessionOptions
from .peer import Cancelled, Event, Fault, InboundRequest, Peer, Progressed, ReplyBudget
from .tracker import Call, Outcome, Serving, Tracker

__all__ = [
    "DEFAULT_TIMEOUT",
    "Call",
    "Cancellation",
    "Cancelled",
    "Convention",
    "Event",
    "Fault",
    "Handler",
    "Handlers",
    "InboundRequest",
    "LspConvention",
    "McpConvention",
    "Outcome",
    "Peer",
    "Progress",
    "Progressed",
    "ReplyBudget",
    "RequestContext",
    "Serving",
    "Session",
    "SessionOptions",
    "Tracker",
]
