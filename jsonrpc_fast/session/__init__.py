"""Sessions: two peers that call each other over a transport.

`Session` runs on asyncio; the `Engine` below it does no IO and knows no event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from ..handlers import Handler as Handler
    from ..handlers import Handlers as Handlers
    from ..hooks import CallPreparedHook as CallPreparedHook
    from ..hooks import CallSettledHook as CallSettledHook
    from ..hooks import CallStartedHook as CallStartedHook
    from ..hooks import FaultHook as FaultHook
    from ..hooks import HandlerFaultHook as HandlerFaultHook
    from ..hooks import Hooks as Hooks
    from ..hooks import Outcome as Outcome
    from ..hooks import RequestReceivedHook as RequestReceivedHook
    from ..hooks import RequestServedHook as RequestServedHook
    from ..hooks import RequestStartedHook as RequestStartedHook
    from ..types import TIMEOUT_SECONDS as TIMEOUT_SECONDS
    from .budget import ResponseBudget as ResponseBudget
    from .calls import Call as Call
    from .context import SessionContext as SessionContext
    from .conventions import AcpConvention as AcpConvention
    from .conventions import Cancellation as Cancellation
    from .conventions import Convention as Convention
    from .conventions import Goodbye as Goodbye
    from .conventions import JsonRpcConvention as JsonRpcConvention
    from .conventions import LspConvention as LspConvention
    from .conventions import McpConvention as McpConvention
    from .conventions import Progress as Progress
    from .driver import Driver as Driver
    from .engine import Engine as Engine
    from .group import SessionGroup as SessionGroup
    from .options import SessionOptions as SessionOptions
    from .reconnecting import ReconnectingSession as ReconnectingSession
    from .requests import Destination as Destination
    from .requests import InboundRequest as InboundRequest
    from .room import Bounds as Bounds
    from .running import Run as Run
    from .session import Session as Session
    from .streams import ReconnectingStream as ReconnectingStream
    from .streams import Stream as Stream
    from .subscriptions import Gap as Gap
    from .subscriptions import Subscription as Subscription
    from .subscriptions import Subscriptions as Subscriptions
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".handlers": "Handler Handlers",
            ".hooks": (
                "CallPreparedHook CallSettledHook CallStartedHook FaultHook HandlerFaultHook Hooks Outcome "
                "RequestReceivedHook RequestServedHook RequestStartedHook"
            ),
            ".types": "TIMEOUT_SECONDS",
            "budget": "ResponseBudget",
            "calls": "Call",
            "context": "SessionContext",
            "conventions": (
                "AcpConvention Cancellation Convention Goodbye JsonRpcConvention LspConvention McpConvention Progress"
            ),
            "driver": "Driver",
            "engine": "Engine",
            "group": "SessionGroup",
            "options": "SessionOptions",
            "reconnecting": "ReconnectingSession",
            "requests": "Destination InboundRequest",
            "room": "Bounds",
            "running": "Run",
            "session": "Session",
            "streams": "ReconnectingStream Stream",
            "subscriptions": "Gap Subscription Subscriptions",
        },
    )
