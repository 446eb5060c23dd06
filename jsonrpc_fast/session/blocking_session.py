"""Sessions for programs without an event loop: their methods wait for the result.

One thread, a daemon, runs the event loop of all blocking objects of the process, from the first one to the last.
Sessions, transports and handlers live in it; any other thread may call, but a handler that waited there would keep the
loop from reading the response. A wait that is interrupted, as by Ctrl-C, cancels its call.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, Concatenate, Final, Self, Unpack

from ..errors import ConnectionLost, StateError
from ..handlers import Handlers
from ..handlers.caller import BlockingBatchCaller, Caller
from ..support import on_failure
from ..transports import Transport
from ..types import P, T
from .calling import run_threadsafe
from .options import SessionOptions
from .reconnecting import ReconnectingSession
from .session import Session
from .streams import StreamCaller


class _LoopThread:
    """The thread of the event loop, while something uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event

    def enter(self) -> None:
        """Count one more user, and start the thread for the first one."""
        with self._lock:
            # In a forked child, the thread of the parent is not alive.
            if self._thread is None or not self._thread.is_alive():
                begun: concurrent.futures.Future[None] = concurrent.futures.Future()
                work = self._run(begun)
                self._thread = threading.Thread(target=asyncio.run, args=(work,), name="jsonrpc_fast", daemon=True)
                self._thread.start()
                begun.result()
                self._users = 0
            self._users += 1

    def leave(self) -> None:
        """Count one user less, and end the thread after the last one."""
        with self._lock:
            self._users -= 1
            if self._users or self._thread is None:
                return
            thread, self._thread = self._thread, None
            if thread.is_alive():
                self._loop.call_soon_threadsafe(self._end.set)
        thread.join()

    def wait_for(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the loop, and wait for its result.

        Raises:
            StateError: The caller runs in the loop's thread, or that thread does not run.
            ConnectionLost: The coroutine was cancelled, because its object is closed.
        """
        thread = self._thread
        if threading.current_thread() is thread:
            raise StateError("a blocking call in the thread of its own event loop never ends: await context.session")
        if thread is None or not thread.is_alive():
            raise StateError("it is not started, or the process was forked after the start: use it in `with`")
        future = run_threadsafe(self._loop, lambda _: begin())
        try:
            result: T = future.result()
        except concurrent.futures.CancelledError:
            raise ConnectionLost("it was closed meanwhile") from None
        except BaseException:
            future.cancel()  # of a wait that was interrupted; otherwise the future is done
            raise
        finally:
            del future  # it holds the exception, whose traceback holds this frame
        return result

    async def _run(self, begun: concurrent.futures.Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        begun.set_result(None)
        await self._end.wait()


_shared: Final = _LoopThread()


_CLOSED: Final = "it is closed, and connects only once: make a new one"


class Blocking:
    """An asynchronous object behind methods that block. `with` starts it and closes it; several threads may use it.

    Args:
        inner: The object: its `start` and its `close` are coroutine functions.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._is_open = self._is_closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._inner!r}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Connect, and return when that is done.

        Raises:
            StateError: It was started already, or is closed.
            Exception: What starting the asynchronous object raises.
        """
        with self._lock:
            if self._is_open:
                raise StateError("it was started already")
            if self._is_closed:
                raise StateError(_CLOSED)
            _shared.enter()
            with on_failure(_shared.leave):
                _shared.wait_for(self._inner.start)
            self._is_open = True

    def close(self) -> None:
        """Close the connection, and return when that is done. A second call does nothing.

        Raises:
            StateError: A handler calls it, in the thread of the event loop.
        """
        with self._lock:
            if self._is_open:
                _shared.wait_for(self._inner.close)
                self._is_open, self._is_closed = False, True
                _shared.leave()

    def wait_for(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the event loop, and return its result.

            price = client.wait_for(lambda: client.session.call("price"))

        Args:
            begin: Called in the thread of the event loop; returns the coroutine.

        Raises:
            StateError: It is not started, or a handler calls this in the thread of the event loop.
            ConnectionLost: It is closed, or was closed meanwhile.
            Exception: What the coroutine raises.
        """
        if self._is_closed:
            raise ConnectionLost(_CLOSED, was_sent=False)
        if not self._is_open:
            raise StateError("it is not connected: use it in `with`, or call its `start`")
        return _shared.wait_for(begin)

    def _wait(self, method: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        return self.wait_for(lambda: method(self._inner, *args, **kwargs))


def _blocking_stream(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Like `blocking_form`, for a method that returns a `Stream`."""

    @functools.wraps(method)
    def iterate(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        blocking: Blocking = self

        async def begin() -> Any:
            return method(blocking._inner, *args, **kwargs)

        async def end() -> None:
            parts.close()

        parts = blocking.wait_for(begin)
        try:
            while True:
                try:
                    part = blocking.wait_for(parts.__anext__)
                except StopAsyncIteration:
                    return
                yield part
        finally:
            if blocking._is_open:
                blocking.wait_for(end)

    return iterate


class BlockingSession(Blocking, BlockingBatchCaller):
    """A session whose methods block: see `blocking`.

    Closing the iterator of `stream`, or leaving a loop over it, cancels the call.

    Attributes:
        session: The session, which belongs to the thread of the event loop.
    """

    stream: Final = _blocking_stream(StreamCaller.stream)

    def __init__(self, session: Session | ReconnectingSession) -> None:
        super().__init__(session)
        self.session: Session | ReconnectingSession = session


def blocking(
    transport: Transport | ReconnectingSession,
    handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None,
    **options: Unpack[SessionOptions],
) -> BlockingSession:
    """Return a session for a program without an event loop. `with` connects it and closes it.

        with blocking(TcpClient("127.0.0.1", 8000)) as client:
            print(client.call("add", [1, 2], timeout=10))

    Several threads may use it. The session, and the sessions of all other blocking clients, run in one thread of their
    own, in which the handlers run, too.

    Args:
        transport: As in `Session`; or a `ReconnectingSession`, which has its own handlers and options.
        handlers: As in `Session`. A handler must not use the blocking session: its `context.session` is the
            asynchronous one.
        options: See `SessionOptions`.

    Raises:
        TypeError: An option does not exist, or has a value of the wrong type; or handlers or options are given beside a
            `ReconnectingSession`.
        ValueError: The value of an option is out of range.
    """
    if isinstance(transport, ReconnectingSession):
        if handlers is not None or options:
            raise TypeError("a ReconnectingSession has its handlers and options already")
        return BlockingSession(transport)
    if isinstance(transport, Caller):
        cure = "give blocking the arguments of Session, and mcp.blocking those of mcp.connect"
        raise TypeError(f"transport must be a Transport, not {type(transport).__name__}: {cure}")
    return BlockingSession(Session(transport, handlers, **options))
