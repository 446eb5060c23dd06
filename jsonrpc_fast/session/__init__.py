"""Sessions: two peers that call each other over a transport.

`Session` runs on asyncio; `Peer` and `Tracker` below it do no IO and have no clock.
"""

from __future__ import annotations

from ..handlers import Handler, Handlers
from .budget import ReplyBudget
from .context import SessionContext
from .conventions import Cancellation, Convention, Goodbye, JsonRpcConvention, LspConvention, McpConvention, Progress
from .events import Cancelled, InboundRequest, Leaving, PeerEvent, PeerFault, Progressed
from .group import SessionGroup
from .hooks import (
    CallPreparedHook,
    CallSettledHook,
    CallStartedHook,
    FaultHook,
    HandlerFaultHook,
    Hooks,
    RequestReceivedHook,
    RequestServedHook,
    RequestStartedHook,
)
from .options import DEFAULT_TIMEOUT, SessionOptions
from .peer import Peer
from .reconnecting import ReconnectingSession
from .session import Session
from .subscriptions import Gap, Subscription, Subscriptions
from .tracker import Call, Outcome, Serving, Tracker

__all__ = [
    "DEFAULT_TIMEOUT",
    "Call",
    "CallPreparedHook",
    "CallSettledHook",
    "CallStartedHook",
    "Cancellation",
    "Cancelled",
    "Convention",
    "FaultHook",
    "Gap",
    "Goodbye",
    "Handler",
    "HandlerFaultHook",
    "Handlers",
    "Hooks",
    "InboundRequest",
    "JsonRpcConvention",
    "Leaving",
    "LspConvention",
    "McpConvention",
    "Outcome",
    "Peer",
    "PeerEvent",
    "PeerFault",
    "Progress",
    "Progressed",
    "ReconnectingSession",
    "ReplyBudget",
    "RequestReceivedHook",
    "RequestServedHook",
    "RequestStartedHook",
    "Serving",
    "Session",
    "SessionContext",
    "SessionGroup",
    "SessionOptions",
    "Subscription",
    "Subscriptions",
    "Tracker",
]
