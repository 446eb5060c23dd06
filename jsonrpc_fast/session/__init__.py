"""Sessions: two peers that call each other over a transport.

`Session` runs on asyncio; the `Engine` below it does no IO and knows no event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..handlers import Handler, Handlers
from ..handlers.caller import BatchCaller, BlockingCaller, Caller, CallOptions, blocking_form
from ..hooks import Hooks, Outcome
from ..support import loader
from ..types import TIMEOUT_SECONDS
from .calls import Call
from .conventions import (
    AcpConvention,
    Cancellation,
    Convention,
    Goodbye,
    JsonRpcConvention,
    LspConvention,
    McpConvention,
    Progress,
    Withdrawn,
    look_ahead,
)
from .driver import Driver
from .engine import Engine
from .options import Rules, SessionOptions
from .requests import Destination, InboundRequest, Run, detached, waits_for_peer

if TYPE_CHECKING:
    from .blocking_session import Blocking, BlockingSession, blocking
    from .reconnecting import ReconnectingSession
    from .session import Session, SessionContext, broadcast, serving
    from .streams import Stream
    from .subscriptions import Gap, Subscription, Subscriptions
else:
    __getattr__ = loader(
        __name__,
        {
            "blocking_session": ("Blocking", "BlockingSession", "blocking"),
            "reconnecting": ("ReconnectingSession",),
            "session": ("Session", "SessionContext", "broadcast", "serving"),
            "streams": ("Stream",),
            "subscriptions": ("Gap", "Subscription", "Subscriptions"),
        },
    )

__all__ = [
    "TIMEOUT_SECONDS",
    "AcpConvention",
    "BatchCaller",
    "Blocking",
    "BlockingCaller",
    "BlockingSession",
    "Call",
    "CallOptions",
    "Caller",
    "Cancellation",
    "Convention",
    "Destination",
    "Driver",
    "Engine",
    "Gap",
    "Goodbye",
    "Handler",
    "Handlers",
    "Hooks",
    "InboundRequest",
    "JsonRpcConvention",
    "LspConvention",
    "McpConvention",
    "Outcome",
    "Progress",
    "ReconnectingSession",
    "Rules",
    "Run",
    "Session",
    "SessionContext",
    "SessionOptions",
    "Stream",
    "Subscription",
    "Subscriptions",
    "Withdrawn",
    "blocking",
    "blocking_form",
    "broadcast",
    "detached",
    "look_ahead",
    "serving",
    "waits_for_peer",
]
