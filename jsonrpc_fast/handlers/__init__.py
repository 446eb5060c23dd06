"""Serve JSON-RPC without IO: functions by method name, from a message to its response.

    handlers = Handlers({"add": lambda a, b: a + b})
    handlers.dispatch(b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}')

Sessions, HTTP endpoints and the NATS adapter build on it. `handlers.openrpc.openrpc` describes what they serve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..support import loader
from ..types import is_awaitable
from .dispatch import DispatchOptions
from .handler import Handler, RequestContext
from .interface import Function
from .middleware import CallNext, Middleware, with_middleware
from .options import HandlerOptions
from .registry import Handlers
from .results import to_jsonable

if TYPE_CHECKING:
    from .json_values import json_of, to_json
    from .on_asyncio import timed
else:
    __getattr__ = loader(__name__, {"on_asyncio": ("timed",), "json_values": ("json_of", "to_json")})

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
    "json_of",
    "timed",
    "to_json",
    "to_jsonable",
    "with_middleware",
]
