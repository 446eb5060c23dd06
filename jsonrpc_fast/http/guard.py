"""How an ASGI application runs the work of a request: its time, its client's disconnection, its user's functions.

The work runs in the task that awaits it, and needs neither a timer nor a task if it ends without suspending.

Rules:
  - The guard cancels the work by cancelling that task, and catches this cancellation and no other.
  - An endpoint of JSON-RPC leaves an exception of a user's function to the server, which sends 500 and logs it, as for
    any application. MCP does both itself, because no log may show a token. A `Refusal` becomes the response.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Generic, TypeVar

from ..handlers.awaiting import awaited, resume
from ..support import TaskPart, is_failure
from .requests import Header, Receive, Refusal, Send

__all__ = ["WATCH_SECONDS", "Cancellable", "awaited", "closing_fields", "serve_other", "user_failures", "within"]

Result = TypeVar("Result")

WATCH_SECONDS: Final = 0.05
"""How long work continues before a task watches for the client's disconnection."""


@dataclass(slots=True, eq=False, repr=False)
class Cancellable(Generic[Result]):
    """An awaitable of the result of a coroutine; None if the coroutine is cancelled.

        work = serve()
        try:  # the first step: most work ends in it, and needs no guard
            result = await Cancellable(work, work.send(None), seconds=5)
        except StopIteration as end:  # the coroutine ended without suspending
            result = end.value

    Args:
        work: The coroutine, which has begun.
        waiting: The object that its `send` returned.
        seconds: How long it may take; None: no limit.
        receive: The `receive` of an ASGI application that has received the whole body. The coroutine is cancelled when
            the client disconnects.
    """

    _work: Coroutine[Any, Any, Result]
    _waiting: Any
    _: KW_ONLY
    seconds: float | None = None
    receive: Receive | None = None
    _part: TaskPart = field(init=False)
    _watcher: asyncio.Task[None] | None = field(default=None, init=False)

    @property
    def is_cancelled(self) -> bool:
        """Whether the coroutine was cancelled. It may still have returned a result."""
        return bool(self._part.cancellations)

    def cancel(self) -> None:
        """Cancel the coroutine, if it is being awaited."""
        self._part.cancel()

    def __await__(self) -> Generator[Any, Any, Result | None]:
        part = self._part = TaskPart()
        loop = part.task.get_loop()
        timer = result = None
        if self.receive is not None:
            # Most requests end sooner, and do not pay for the watching task.
            timer = loop.call_later(WATCH_SECONDS, self._watch, self.receive)
        elif self.seconds is not None:
            timer = loop.call_later(self.seconds, part.cancel)
        try:
            with part:
                result = yield from resume(self._work, self._waiting)
            # The watcher is inside `receive`: it has to end first.
            if self._watcher is not None and not self._watcher.done():
                self._watcher.cancel()
                yield from asyncio.wait([self._watcher], timeout=1.0).__await__()
        finally:
            if timer is not None:
                timer.cancel()
            if self._watcher is not None:
                self._watcher.cancel()
        if part.cancellations and part.is_task_cancelled:
            raise asyncio.CancelledError
        return result

    def _watch(self, receive: Receive) -> None:
        self._watcher = self._part.task.get_loop().create_task(self._await_disconnect(receive))

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass  # the end of the body, which was not awaited when its declared length was reached
        self._part.cancel()


async def within(seconds: float | None, work: Coroutine[Any, Any, Result], status: int, reason: str) -> Result | None:
    """Return the result of a coroutine. It needs neither a timer nor a task if it ends without suspending.

    Args:
        seconds: How long it may take; None: no limit.
        work: The coroutine.
        status: The status of the refusal if it takes longer.
        reason: The reason.

    Raises:
        Refusal: It took longer.
    """
    try:
        waiting = work.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    guarded = Cancellable(work, waiting, seconds=seconds)
    found = await guarded
    if guarded.is_cancelled:
        raise Refusal(status, reason)
    return found


@contextlib.contextmanager
def user_failures(reason: str = "", log: Callable[[BaseException], object] | None = None) -> Iterator[None]:
    """Return a context manager around the call of a user's function.

        with user_failures("The user could not be identified.", log):
            user = find_user(scope)

    Args:
        reason: The text of the response if the request is refused because of a failure.
        log: Called with the exception in that case. None: every failure becomes an `Exception`.

    Raises:
        Refusal: The function raised it, or failed (500) and there is a `log`.
        RuntimeError: The function raised SystemExit or a foreign cancellation.
        Exception: Any other exception of the function.
    """
    try:
        yield
    except BaseException as error:
        if not is_failure(error) or isinstance(error, Refusal):
            raise
        if log is not None:
            log(error)
            raise Refusal(500, reason) from None
        if not isinstance(error, Exception):
            raise RuntimeError(f"a function raised {type(error).__name__}") from error
        raise


def closing_fields(scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> list[Header]:
    """Return the header that closes the connection of a request whose body is not read."""
    # In HTTP/1, the unread body would be read as the next request (RFC 9112, section 9.3); HTTP/2 has separate streams.
    has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
    return [(b"connection", b"close")] if has_body and scope["http_version"].startswith("1") else []


async def serve_other(
    kind: str, receive: Receive, send: Send, lifespan: Callable[[str], Awaitable[str | None]] | None = None
) -> None:
    """Respond to the events of a lifespan, and close a WebSocket before it opens.

    Args:
        kind: The type of the scope.
        receive: The application's `receive`.
        send: The application's `send`.
        lifespan: Awaited with each event, "lifespan.startup" and "lifespan.shutdown". Returns why it failed; None if it
            did not.

    Raises:
        ValueError: The scope is of an unknown type.
    """
    if kind == "websocket":
        await send({"type": "websocket.close"})
        return
    if kind != "lifespan":
        raise ValueError("the scope is of an unknown type")
    event = "lifespan.startup"
    while event == "lifespan.startup":
        event = (await receive())["type"]
        fault = None if lifespan is None else await lifespan(event)
        if fault is not None:
            await send({"type": f"{event}.failed", "message": fault})
            return
        await send({"type": f"{event}.complete"})
