"""A dispatcher that reports to hooks; see `jsonrpc_fast.hooks`.

Rules:
  - Each request is reported as served once, with the code of the response that was made for it, even without a function
    for its method; a notification without one is not reported. If the caller gave up, or the task was cancelled, the
    outcome is CANCELLED.
  - A function, and everything that it awaits, runs in the context (`contextvars`) in which its request was reported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from copy import copy
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from ..codec import Notification, ParseError, Request
from ..codes import ErrorCode
from ..errors import RpcError
from ..hooks import FoundHooks, Hooks, Outcome, trace_in
from ..profile import Profile
from ..support import HANDLER_FAILURES, is_foreign_cancellation, on_failure
from .awaiting import OuterCoroutine
from .dispatch import Dispatch, EncodeOptions, Inbound, ParamsReading
from .handler import Handler


class _Report:
    """A message that is being served: when it began, and the code of its error response."""

    __slots__ = ("code", "context", "started", "trace")

    def __init__(self) -> None:
        self.code: int | None = None
        self.context: Context = copy_context()
        self.started: float = time.monotonic()
        self.trace: Any = None


class ObservedDispatch(Dispatch):
    """A dispatcher that calls hooks; see `Handlers.prepare`."""

    __slots__ = ("_carrier", "_hooks", "_reports")

    def __init__(
        self,
        find: Callable[[str], Handler | None],
        reading: ParamsReading,
        profile: Profile,
        hooks: Hooks,
        **options: Unpack[EncodeOptions],
    ) -> None:
        super().__init__(find, reading, profile, **options)
        self._is_plain = False  # every request is reported
        self._hooks = found = FoundHooks(hooks)
        self._report = found.handler_fault
        self._carrier: dict[str, str] = {}
        # Keyed by the identity of the message: two messages may have equal ids, and a notification has none. A report
        # lives only while its message is served, so no other object gets that identity meanwhile.
        self._reports: dict[int, _Report] = {}

    def continuing(self, members: object) -> Dispatch:
        if self._hooks.request_received is None:
            return self
        # A shallow copy: both share the reports, and only the carrier differs.
        found = copy(self)
        found._carrier = trace_in(members)
        return found

    def start(
        self, data: Any, context: Any = None, peer: Any = None, timeout: float | None = None, max_handlers: int = 256
    ) -> bytes | Coroutine[Any, Any, bytes]:
        # Decoded here, not in the base class, because reports are found by the identity of the messages.
        received = self._decode(data)
        response = super().start(received, context, peer, timeout, max_handlers)
        return response if isinstance(response, bytes) else self._run_to_end(received, response)

    async def _run_to_end(self, received: Any, work: Coroutine[Any, Any, bytes]) -> bytes:
        # The remaining requests were not concluded: the caller gave up, or the task was cancelled.
        try:
            return await work
        finally:
            for item in received if isinstance(received, list) else [received]:
                self._conclude(item, Outcome.CANCELLED)

    def _begin(
        self, item: Any, is_line: bool, context: Any, peer: Any, handler: Handler | None = None
    ) -> bytes | Awaitable[Any]:
        if not isinstance(item, (Request, Notification)):
            return self._respond(item, is_line)
        report = self._reports[id(item)] = _Report()
        try:
            handler = self._find(item.method)
        except HANDLER_FAILURES as error:
            return self._fail_at_once(item, error, is_line)
        if handler is None:
            if isinstance(item, Notification):
                del self._reports[id(item)]
                return b""
            return self._fail_at_once(item, RpcError(ErrorCode.METHOD_NOT_FOUND), is_line)
        with on_failure(partial(self._conclude, item, Outcome.CANCELLED)):
            # Called in the context of the function, so that the function sees a span that the hook makes current.
            report.trace = report.context.run(self._started, item)
            response = report.context.run(super()._begin, item, is_line, context, peer, handler)
        if not isinstance(response, bytes):
            return _InContext(response, report.context)
        self._conclude(item)
        return response

    async def _finish(self, item: Inbound, work: Awaitable[Any], is_line: bool) -> bytes:
        try:
            response = await super()._finish(item, work, is_line)
        except asyncio.CancelledError as error:
            # A cancellation of the task itself has no response; `_run_to_end` reports it.
            if is_foreign_cancellation(error):  # the response is -32603
                self._reports[id(item)].code = int(ErrorCode.INTERNAL_ERROR)
                self._conclude(item)
            raise
        self._conclude(item)
        return response

    def _respond(self, item: Any, is_line: bool) -> bytes:
        if isinstance(item, ParseError):
            self._hooks.peer_fault(item)
        return super()._respond(item, is_line)

    def _refuse_async(self, item: Inbound, work: Awaitable[Any], is_line: bool) -> bytes:
        response = super()._refuse_async(item, work, is_line)
        self._conclude(item)
        return response

    def _refuse_late(self, item: Any, is_line: bool) -> bytes:
        if isinstance(item, (Request, Notification)):
            self._reports.setdefault(id(item), _Report())
        response = super()._refuse_late(item, is_line)
        self._conclude(item)
        return response

    def _fail_at_once(self, item: Inbound, error: BaseException, is_line: bool) -> bytes:
        response = self._fail(item, error, is_line)
        self._conclude(item)
        return response

    def _fail(self, item: Inbound, error: BaseException, is_line: bool) -> bytes:
        if isinstance(item, Notification) and id(item) in self._reports:
            self._reports[id(item)].code = int(ErrorCode.INTERNAL_ERROR)
        return super()._fail(item, error, is_line)

    def _encode_error(self, item: Request[Any], is_line: bool, code: int, message: str, data: Any) -> bytes:
        report = self._reports.get(id(item))
        if report is not None:
            report.code = code
        return super()._encode_error(item, is_line, code, message, data)

    def _started(self, item: Inbound) -> Any:
        number = None if isinstance(item, Notification) else item.id
        if self._hooks.request_received is not None:
            return self._hooks.request_received(number, item.method, trace_in(item.extra) or self._carrier)
        started = self._hooks.request_started
        return None if started is None else started(number, item.method)

    def _conclude(self, item: Any, outcome: Outcome | None = None) -> None:
        """Report a message as served, unless it was reported already."""
        report = self._reports.pop(id(item), None)
        served = self._hooks.request_served
        if report is None or served is None:
            return
        code = report.code if outcome is None else None
        if outcome is None:
            outcome = Outcome.RESULT if code is None else Outcome.ERROR
        number = None if isinstance(item, Notification) else item.id
        seconds = time.monotonic() - report.started
        report.context.run(served, report.trace, number, item.method, outcome, code, seconds)


class _InContext(OuterCoroutine[Any]):
    """Awaits `work` in its own context, on any event loop."""

    __slots__ = ("_context",)

    def __init__(self, work: Awaitable[Any], context: Context) -> None:
        super().__init__(work, None)
        self._context = context

    # The object is its own iterator: `await` and tasks call its `send`, so each step runs in the context.

    def __await__(self) -> Self:
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._context.run(self._runner.send, None)

    def send(self, value: Any) -> Any:
        return self._context.run(self._runner.send, value)

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None) -> Any:
        return self._context.run(super().throw, kind, value)

    def close(self) -> None:
        self._context.run(super().close)
