"""Serve JSON-RPC without IO: functions by method name, from a message to its response.

    handlers = Handlers({"add": lambda a, b: a + b})
    handlers.dispatch(b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}')

Sessions, HTTP endpoints and the NATS adapter build on it. `handlers.openrpc.openrpc` describes what they serve.
"""

from __future__ import annotations

from ..types import is_awaitable
from .dispatch import DispatchOptions
from .handler import Handler, RequestContext
from .middleware import CallNext, Middleware
from .options import HandlerOptions
from .registry import Function, Handlers
from .results import to_jsonable

__all__ = [
    "CallNext",
    "DispatchOptions",
    "Function",
    "Handler",
    "HandlerOptions",
    "Handlers",
    "Middleware",
    "RequestContext",
    "is_awaitable",
    "to_jsonable",
]
