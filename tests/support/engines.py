"""An engine whose decisions are recorded. Handlers do not run: a test says when each one returns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple

from jsonrpc_fast import Decoder, Notification, RpcError
from jsonrpc_fast.handlers import Handler, Handlers
from jsonrpc_fast.session import Call, Driver, InboundRequest, Rules
from jsonrpc_fast.session.engine import Engine
from jsonrpc_fast.session.requests import Run


class Fault(NamedTuple):
    """The peer sent something invalid. `response` is the response that was sent, or b"" for none."""

    error: BaseException
    response: bytes


class Cancelled(NamedTuple):
    """The peer cancelled a request whose handler is running."""

    request: InboundRequest


class Forever:
    """An awaitable that never ends."""

    def __await__(self) -> Generator[Any, None, Any]:
        raise AssertionError("nothing awaits this")
        yield


class AnyMethod(Handlers):
    """Handlers that return one function for every method."""

    def find(self, method: str) -> Handler:
        return Handler(lambda params: Forever(), unpack=False)


class _Task:
    def __init__(self, end: End, request: InboundRequest | None) -> None:
        self._end = end
        self._request = request

    def cancel(self) -> None:
        assert self._request is not None
        self._end.steps.append(Cancelled(self._request))


class End(Driver):
    """One side of a connection: an engine, with this object as its driver and its hooks.

    Attributes:
        engine: The engine.
        steps: The decisions of the engine, in order: settled calls, requests and notifications that are being served,
            faults of the peer, and bytes to write.
        unwritten_bytes: How many bytes the peer has not read; for a test to set.
        is_reading: Whether the engine wants to read.
        is_idle: Whether the engine has reported that all requests are served.
    """

    unwritten_bytes: int = 0  # type: ignore[assignment]

    def __init__(self, *, decoder: Decoder | None = None, handlers: Handlers | None = None, **options: Any) -> None:
        self.steps: list[Any] = []
        self.now = 0.0
        self.is_reading = True
        self.is_idle = False
        self._decoder = decoder or Decoder()
        self._is_turn_due = False
        self.engine: Engine = Engine(self, handlers or AnyMethod(), Rules(hooks=self, **options))
        self.calls = self.engine.calls
        self.serving = self.engine.requests

    # The driver.

    def time(self) -> float:
        return self.now

    def write(self, data: bytes) -> None:
        if self.steps and isinstance(self.steps[-1], Fault) and not self.steps[-1].response:
            self.steps[-1] = Fault(self.steps[-1].error, data)
        else:
            self.steps.append(data)

    def start(self, run: Run) -> None:
        run.task = _Task(self, run.request)
        if run.request is None:
            self.steps.append(run.item)
            self.engine.succeeded(run, None)
        else:
            self.steps.append(run.request)

    def settled(self, call: Call, result: Any, error: Exception | None) -> None:
        self.steps.append(call)

    def left(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def set_reading(self, wanted: bool) -> None:
        self.is_reading = wanted

    def soon(self) -> None:
        self._is_turn_due = True

    def drain(self) -> None:
        pass

    def wake_at(self, deadline: float) -> None:
        pass

    def idle(self) -> None:
        self.is_idle = True

    # The hooks.

    def fault(self, error: BaseException) -> None:
        self.steps.append(Fault(error, b""))

    # What a test does.

    def take(self) -> list[Any]:
        """Return the steps since the last call, and forget them."""
        steps, self.steps = self.steps, []
        return steps

    def receive(self, data: bytes, now: float = 0.0) -> list[Any]:
        """Receive a chunk of the stream, and return the new steps."""
        self.now = now
        for message in self._decoder.feed(data):
            self.engine.receive(message)
        return self.take()

    def receive_end(self) -> list[Any]:
        for message in self._decoder.close():
            self.engine.receive(message)
        return self.take()

    def call(
        self,
        method: str,
        params: Any,
        now: float,
        timeout: float | None = None,
        idle_timeout: float | None = None,
        on_progress: Callable[[Any], object] | None = None,
    ) -> tuple[Call, bytes]:
        return self.engine.calls.request(method, params, now, timeout, idle_timeout, on_progress)

    def call_batch(
        self, items: Iterable[tuple[str, Any] | Notification], now: float, timeout: float | None = None
    ) -> tuple[list[Call | None], bytes]:
        return self.engine.calls.batch(items, now, timeout)

    def expire(self, now: float) -> list[Any]:
        """Set the time, give the engine the turn that it wants, and return the calls that have expired."""
        self.now = now
        self.engine.tick()
        if self._is_turn_due:
            self._is_turn_due = False
            self.engine.turn()
        return [step for step in self.take() if isinstance(step, Call)]

    def lose(self) -> list[Any]:
        """Lose the connection, and return the calls that are settled by it."""
        self.engine.lose()
        return [step for step in self.take() if isinstance(step, Call)]

    def answer(self, request: InboundRequest, result: Any) -> bytes:
        """Let the handler of a request return, and return what is sent."""
        if request.run is not None:
            self.engine.succeeded(request.run, result)
        return self._sent()

    def refuse(self, request: InboundRequest, code: int, message: str) -> bytes:
        """Let the handler of a request raise an RpcError, and return what is sent."""
        if request.run is not None:
            self.engine.failed(request.run, RpcError(code, message))
        return self._sent()

    def respond_cancelled(self, request: InboundRequest) -> bytes:
        """Let the handler of a cancelled request end, and return what is sent."""
        self.engine.cancelled(request.run)
        return self._sent()

    def report_progress(self, request: InboundRequest, value: Any) -> bytes:
        return self.engine.progress(request, value)

    def _sent(self) -> bytes:
        return b"".join(
            step.response if isinstance(step, Fault) else step
            for step in self.take()
            if isinstance(step, (bytes, Fault))
        )


def receive(end: End, text: bytes, now: float = 0.0) -> list[Any]:
    """Receive one line, and return the new steps."""
    return end.receive(text + b"\n", now)


def request_from(steps: list[Any]) -> InboundRequest:
    """Return the request that is the only step."""
    [step] = steps
    assert isinstance(step, InboundRequest)
    return step


def fault_from(steps: list[Any]) -> Fault:
    """Return the fault that is the only step."""
    [step] = steps
    assert isinstance(step, Fault)
    return step
