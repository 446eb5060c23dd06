"""The dispatcher: from a JSON text, or a decoded message, to its response. It does no IO and knows no event loop.

A `Dispatch` is prepared once for a set of options, and serves any number of messages. `serve` returns the response of
sync functions; `start` returns the response, or a coroutine for the caller to run, which returns it.

Rules:
  - An RpcError that a function raises is the response. Any other exception, and a result that cannot be encoded, gives
    -32603 without details, and is logged with its traceback.
  - The items of a batch are served separately; the responses are in the order of the batch (section 6).
  - Notifications and responses never get a response (section 4.1).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from ..codec import Notification, ParseError, Raw, Request, Response, decode
from ..codec._backend import serve_plain
from ..codec._json import Default
from ..codec.encoders import PLAIN, Encoders, has_jsonrpc
from ..codes import DEADLINE_MESSAGE, ErrorCode, SessionErrorCode
from ..errors import EncodeError, RpcError, internal_error
from ..profile import JSONRPC, Profile, check_profile, is_plain
from ..support import HANDLER_FAILURES, check_callable, check_seconds
from ..types import is_awaitable
from .awaiting import discard
from .handler import Handler, RequestContext
from .results import ReportFailure, encode_models, response_to_error, response_to_failure, unwritable

if TYPE_CHECKING:
    from ..codec._serving import Called  # with the core, it would load the messages and the scanner of the pure backend

Inbound: TypeAlias = "Request[Any] | Notification[Any]"

TEXTS: Final = (bytes, str, bytearray, memoryview)


class EncodeOptions(TypedDict, total=False):
    """The keyword options of `Handlers.prepare`.

    Attributes:
        raw: Decode with `raw=True`, so that functions registered with `unpack=False` get `Raw` params. False by
            default.
        delimited: End the response with a newline. True by default.
        default: As in `encode`, for results and error data; by default `to_jsonable`, which writes models of msgspec
            and pydantic.
    """

    raw: bool
    delimited: bool
    default: Default


class DispatchOptions(EncodeOptions, total=False):
    """The keyword options of `Handlers.dispatch` and `Handlers.dispatch_async`: those of `EncodeOptions`, and these.

    Attributes:
        context: Any object, for functions that take a `RequestContext`; None by default.
        peer: The sender, such as an address, for the same functions; None by default.
    """

    context: Any
    peer: Any


class ParamsReading:
    """How texts are read for handlers and their children.

    Attributes:
        is_raw: Whether texts are read with `Raw` params, because a method takes them. Other methods get them decoded.
    """

    __slots__ = ("is_raw",)

    def __init__(self) -> None:
        self.is_raw: bool = False


class Dispatch:
    """Serves JSON texts and decoded messages; see `Handlers.prepare` and `DispatchOptions`."""

    __slots__ = (
        "_default",
        "_delimited",
        "_encoders",
        "_find",
        "_is_plain",
        "_is_raw",
        "_profile",
        "_reading",
        "_reads_decimals",
        "_report",
    )

    def __init__(
        self,
        find: Callable[[str], Handler | None],
        reading: ParamsReading,
        profile: Profile,
        *,
        raw: bool = False,
        delimited: bool = True,
        default: Default = None,
    ) -> None:
        check_callable("default", default)
        check_profile(profile)
        self._find = find
        self._reading = reading
        self._profile = profile
        self._reads_decimals = profile.floats == "decimal"
        self._is_raw = raw
        self._delimited = delimited
        self._default = default
        self._report: ReportFailure = internal_error
        # Whether plain requests (`codec/_serving.py`) take the fast path.
        self._is_plain = is_plain(profile) and default is None
        self._encoders = PLAIN if profile is JSONRPC else Encoders(profile)

    def continuing(self, members: object) -> Dispatch:
        """Return the dispatcher for messages whose trace context is outside the message, for example in headers.

        Args:
            members: A mapping that may have the members of the trace context, among others; None: without any.
        """
        return self

    def serve(self, data: Any, context: Any = None, peer: Any = None) -> bytes:
        """Return the response of sync functions to a JSON text, or to a value that `decode` returned."""
        if not self._is_plain:
            return self._serve_all(self._decode(data), context, peer)
        served = serve_plain(data, self._find, self._is_raw or self._reading.is_raw, self._profile, self._delimited)
        return served if isinstance(served, bytes) else self.conclude(served, context, peer)

    def conclude(self, called: Called, context: Any = None, peer: Any = None) -> bytes:
        """Return the response to a message that `serve_plain` has not served to its end, in a sync dispatch."""
        item, handler, result, error = called
        if handler is None:
            return self._serve_all(item, context, peer)
        response = self._conclude_called(item, handler, result, error)
        return response if isinstance(response, bytes) else self._refuse_async(item, response, self._delimited)

    def _conclude_called(
        self, item: Any, handler: Any, result: Any, error: BaseException | None
    ) -> bytes | Awaitable[Any]:
        """Return the response to a request whose function was called, or the awaitable that the function returned."""
        if error is not None:
            return self._fail(item, handler.explained(error, item.params), self._delimited)
        if is_awaitable(result):
            awaitable: Awaitable[Any] = result
            return awaitable
        return self._write(item, result, self._delimited)

    def _serve_all(self, received: Any, context: Any, peer: Any) -> bytes:
        """Serve a decoded message or batch with sync functions."""
        if isinstance(received, list):
            return self._join([self._serve(item, False, context, peer) for item in received])
        return self._serve(received, self._delimited, context, peer)

    def _decode(self, data: Any) -> Any:
        """Return the messages of a JSON text; decoded messages are returned unchanged."""
        if not isinstance(data, TEXTS):
            return data
        return decode(data, self._profile, raw=self._is_raw or self._reading.is_raw)

    def start(
        self, data: Any, context: Any = None, peer: Any = None, timeout: float | None = None, max_handlers: int = 256
    ) -> bytes | Coroutine[Any, Any, bytes]:
        """Return the response, b"" for none; or a coroutine that returns it, if it is not known at once.

        It does no IO: the caller runs the coroutine, on any event loop, and may cancel it. The arguments are those of
        `Handlers.dispatch_async`.
        """
        if timeout is None and self._is_plain:
            served = serve_plain(data, self._find, self._is_raw or self._reading.is_raw, self._profile, self._delimited)
            if isinstance(served, bytes):
                return served
            received, handler, result, error = served
            if handler is not None:
                response = self._conclude_called(received, handler, result, error)
                return response if isinstance(response, bytes) else self._finish(received, response, self._delimited)
        else:
            received = self._decode(data)
        if timeout is None and type(received) is not list:
            response = self._begin(received, self._delimited, context, peer)
            return response if isinstance(response, bytes) else self._finish(received, response, self._delimited)
        return self._run(received, context, peer, timeout, max_handlers)

    async def _run(self, received: Any, context: Any, peer: Any, timeout: float | None, max_handlers: int) -> bytes:
        check_seconds("timeout", timeout, may_be_infinite=True)
        # If asyncio is not imported, or none of its tasks is running, this is another event loop.
        asyncio = sys.modules.get("asyncio")
        try:
            task = None if asyncio is None else asyncio.current_task()
        except RuntimeError:
            task = None
        if task is not None:
            if isinstance(received, list):
                return self._join(await self._run_tasks(asyncio, received, context, peer, timeout, max_handlers))
            return await self._run_in_time(received, context, peer, timeout or 0)
        if timeout is not None:
            raise RuntimeError("timeout needs asyncio: use the timeouts of this event loop")
        # Without a timeout this is a batch: `start` serves a single message itself.
        responses: list[bytes] = []
        for item in received:
            response = self._begin(item, False, context, peer)
            responses.append(response if isinstance(response, bytes) else await self._finish(item, response, False))
        return self._join(responses)

    async def _run_in_time(self, item: Any, context: Any, peer: Any, timeout: float) -> bytes:
        """Serve one message in the current task, with a deadline."""
        from .on_asyncio import timed  # imports asyncio

        if not timeout:
            return self._refuse_late(item, self._delimited)
        response = self._begin(item, self._delimited, context, peer)
        if isinstance(response, bytes):
            return response
        return await self._finish(item, timed(response, timeout), self._delimited)

    async def _run_tasks(
        self, asyncio: Any, batch: list[Any], context: Any, peer: Any, timeout: float | None, max_handlers: int
    ) -> list[bytes]:
        """Serve a batch and return its responses; all tasks have ended afterwards."""
        loop = asyncio.get_running_loop()
        responses: list[bytes] = []
        tasks: dict[int, Any] = {}
        begun: list[Awaitable[Any]] = []
        running, waiter = 0, None
        is_expired = False  # the deadline has passed

        def end(_: object) -> None:
            nonlocal running
            running -= 1
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

        def expire() -> None:
            nonlocal is_expired
            is_expired = True
            for task in tasks.values():
                task.cancel()

        deadline = inf if timeout is None else loop.time() + timeout
        # In an empty context: asyncio keeps the context of a timer until its time comes, even if it is cancelled.
        timer = None if deadline == inf else loop.call_at(deadline, expire, context=Context())
        try:
            for index, item in enumerate(batch):
                # The rest of the batch waits: a sync function in it must not run before earlier items have begun.
                while running >= max_handlers:
                    waiter = loop.create_future()
                    await waiter
                # Sync functions may have held the loop for longer than the timer.
                if timer is not None and not is_expired and loop.time() >= deadline:
                    expire()
                response = self._refuse_late(item, False) if is_expired else self._begin(item, False, context, peer)
                if not isinstance(response, bytes):
                    begun.append(response)
                    # The place in `responses` is kept, so that the array has the order of the batch.
                    tasks[index] = task = loop.create_task(self._finish(item, response, False))
                    response = b""
                    if not task.done():  # an eager task may be done
                        running += 1
                        task.add_done_callback(end)
                responses.append(response)
            if running:
                await asyncio.wait(tasks.values())
        finally:
            if timer is not None:
                timer.cancel()
            # However this coroutine ends, all its tasks end.
            await _end(asyncio, list(tasks.values()), begun)
        for index, task in tasks.items():
            item = batch[index]
            try:
                responses[index] = task.result()
            except asyncio.CancelledError as error:
                # The deadline has not passed, so the function raised it: the batch was not cancelled.
                responses[index] = self._refuse_late(item, False) if is_expired else self._fail(item, error, False)
        return responses

    def _join(self, responses: list[bytes]) -> bytes:
        text = b",".join(filter(None, responses))
        # Section 6: without any response, the server sends nothing at all, not even an empty array.
        if not text:
            return b""
        return b"[" + text + (b"]\n" if self._delimited else b"]")

    def _serve(self, item: Any, is_line: bool, context: Any, peer: Any) -> bytes:
        response = self._begin(item, is_line, context, peer)
        return response if isinstance(response, bytes) else self._refuse_async(item, response, is_line)

    def _refuse_async(self, item: Inbound, work: Awaitable[Any], is_line: bool) -> bytes:
        """Return the response to an item whose function returned an awaitable, in a sync dispatch."""
        discard(work)
        return self._fail(item, TypeError("the function is async: use dispatch_async"), is_line)

    def _begin(
        self, item: Any, is_line: bool, context: Any, peer: Any, handler: Handler | None = None
    ) -> bytes | Awaitable[Any]:
        """Return the response to an item, or the awaitable of its result. `handler`: that of its method, if known."""
        if not isinstance(item, (Request, Notification)):
            return self._respond(item, is_line)
        try:
            if handler is None and (handler := self._find(item.method)) is None:
                raise RpcError(ErrorCode.METHOD_NOT_FOUND)
            shown = _context_of(item, context, peer) if handler.wants_context else None
            params = item.params
            # If a type read the text, numbers would follow the rules of its library, not those of the profile.
            if type(params) is Raw and (self._reads_decimals if handler.takes_raw else not self._is_raw):
                params = params.decode()
            result = handler.invoke(params, shown)
        except HANDLER_FAILURES as error:
            return self._fail(item, error, is_line)
        if is_awaitable(result):
            awaitable: Awaitable[Any] = result
            return awaitable
        return self._write(item, result, is_line)

    def _write(self, item: Inbound, result: Any, is_line: bool) -> bytes:
        """Return the response with a result; b"" for a notification."""
        if isinstance(item, Notification):
            return b""
        try:
            return self._encoders.encode_result(item.id, result, delimited=is_line, default=self._default)
        except HANDLER_FAILURES as error:
            return self._encode_again(item, result, error, is_line)

    def _respond(self, item: Any, is_line: bool) -> bytes:
        """Return the response to an item that calls no function."""
        if isinstance(item, ParseError):
            if not item.reply_expected:
                return b""
            return self._encoders.encode(item.to_response(), delimited=is_line, default=self._default)
        if isinstance(item, Response):
            return b""
        raise TypeError(f"data must be a JSON text or a value that decode returned, not {type(item).__name__}")

    async def _finish(self, item: Inbound, work: Awaitable[Any], is_line: bool) -> bytes:
        """Return the response to an item when its function ends."""
        try:
            result = await work
        except HANDLER_FAILURES as error:
            return self._fail(item, error, is_line)
        return self._write(item, result, is_line)

    def _encode_again(self, item: Request[Any], result: Any, error: BaseException, is_line: bool) -> bytes:
        """Encode a result again, with its models converted; return an error response if that fails too.

        Args:
            error: An EncodeError, or an exception that a method of the payload raised.
        """
        if isinstance(error, EncodeError):
            try:
                return encode_models(
                    error, self._default, self._encoders.encode_result, item.id, result, delimited=is_line
                )
            except HANDLER_FAILURES as failure:  # that of a model, which says more
                error = failure
        encode = partial(self._encode_error, item, is_line)
        return response_to_failure(unwritable(error), item.method, item.id, encode, self._report)[0]

    def _fail(self, item: Inbound, error: BaseException, is_line: bool) -> bytes:
        if isinstance(item, Notification):
            if not isinstance(error, RpcError):
                self._report(error, item.method, None)
            return b""
        encode = partial(self._encode_error, item, is_line)
        return response_to_error(error, item.method, item.id, encode, self._report)[0]

    def failed(self, data: Any, error: BaseException) -> bytes:
        """Return the error responses for the requests of a message that is not served; b"" if it has none.

        Args:
            data: A JSON text.
            error: An RpcError; or, for a single request, another exception: a CancelledError that its handler raised
                without being cancelled.

        Raises:
            RuntimeError: The message is a batch, so it is unknown which function raised the other exception.
        """
        received = self._decode(data)
        if isinstance(received, (Request, Notification)):
            return self._fail(received, error, self._delimited)
        if not isinstance(received, list):
            return b""
        if not isinstance(error, RpcError):
            raise RuntimeError(f"a function raised {type(error).__name__}") from error
        return self._join([self._fail(item, error, False) for item in received if isinstance(item, Request)])

    def _refuse_late(self, item: Any, is_line: bool) -> bytes:
        """Return the response to an item whose deadline has passed."""
        if not isinstance(item, (Request, Notification)):
            return self._respond(item, is_line)
        return self._fail(item, RpcError(SessionErrorCode.DEADLINE_EXCEEDED, DEADLINE_MESSAGE), is_line)

    def _encode_error(self, item: Request[Any], is_line: bool, code: int, message: str, data: Any) -> bytes:
        try:
            return self._encoders.encode_error(item.id, code, message, data, default=self._default, delimited=is_line)
        except EncodeError as error:
            return encode_models(
                error, self._default, self._encoders.encode_error, item.id, code, message, data, delimited=is_line
            )


class DispatchByForm(Dispatch):
    """Two dispatchers, for a profile that reads messages with and without `jsonrpc`, and writes those without it.

    `plain` serves input with `jsonrpc`, and writes JSON-RPC 2.0. `own` serves other input, and decoded messages.
    """

    __slots__ = ("_own", "_plain")

    def __init__(self, own: Dispatch, plain: Dispatch) -> None:
        self._own, self._plain = own, plain

    def _for(self, data: Any) -> Dispatch:
        return self._plain if isinstance(data, TEXTS) and has_jsonrpc(data) else self._own

    def continuing(self, members: object) -> Dispatch:
        return DispatchByForm(self._own.continuing(members), self._plain.continuing(members))

    def serve(self, data: Any, context: Any = None, peer: Any = None) -> bytes:
        return self._for(data).serve(data, context, peer)

    def start(self, data: Any, *arguments: Any, **options: Any) -> bytes | Coroutine[Any, Any, bytes]:
        return self._for(data).start(data, *arguments, **options)

    def failed(self, data: Any, error: BaseException) -> bytes:
        return self._for(data).failed(data, error)


async def _end(asyncio: Any, tasks: list[Any], begun: list[Awaitable[Any]]) -> None:
    """Cancel tasks, wait until none of them runs, and discard what they have not awaited."""
    for task in tasks:
        task.cancel()
    while pending := [task for task in tasks if not task.done()]:
        # anyio repeats its cancellation: continue to wait for the tasks.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(pending)
    for work in begun:
        discard(work)  # a task that is cancelled before its first step never awaits its work


def _context_of(item: Inbound, context: Any, peer: Any) -> RequestContext:
    if isinstance(item, Notification):
        return RequestContext(item.method, None, True, context, peer)
    return RequestContext(item.method, item.id, False, context, peer)
