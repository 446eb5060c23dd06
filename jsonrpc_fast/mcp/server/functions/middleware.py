"""Middleware of a server: functions around every method.

    async def measure(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        began = time.perf_counter()
        try:
            return await call_next(params)
        finally:
            seconds[context.method] = time.perf_counter() - began

    server = Server("sums", "1.0", middleware=[measure])

Rules, in addition to those of `jsonrpc_fast.handlers.middleware`:
  - The params are those of the request, a dict. `call_next` takes a dict, which may be another one: a middleware may
    alter arguments, or have another tool called. `Context.params` stays as the client sent it.
  - The result is the one of the protocol, a dict, before the members that a revision adds to all results. A tool that
    failed has returned a result with `isError`. A call that runs as a task has returned the task.
  - An RpcError that a middleware raises is sent to the client. A ToolError becomes the result of a `tools/call`. Any
    other exception is error -32603 and is logged.
  - It is called for notifications with a function, too, whose results are dropped. It is not called for `initialize`,
    `server/discover` and `ping`, which belong to the handshake, for methods that are not found, and for what a function
    of the server reads with `Context.read_resource`.
  - In 2026-07-28 a function that asks the client for input runs again from its start, and so does the middleware around
    it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ....handlers import CallNext, is_awaitable
from ..request.context import Context
from ..values.results import ToolError
from ..values.tools import error_result

Middleware: TypeAlias = Callable[[Context, dict[str, Any], CallNext], Any]
"""A sync or async function of the context, the params and `call_next`; returns the result."""


async def run_within(invoke: Callable[[Any, Context], Any], params: dict[str, Any], context: Context) -> Any:
    """Return the result of a request whose method is inside middleware."""
    try:
        result = invoke(params, context)
        return await result if is_awaitable(result) else result
    # A middleware that refuses a call can tell the model why.
    except ToolError as error:
        if context.method != "tools/call":
            raise
        return error_result(str(error))
