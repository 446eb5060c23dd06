"""The session of a client: it performs the handshake and serves the server's requests and notifications."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from math import inf
from typing import Any, Final, TypeVar, Unpack

import msgspec

from ...codec import ParseError, Request, decoded
from ...codes import ErrorCode
from ...errors import CallTimeout, ConnectionLost, HttpStatusError, InvalidResponse, RpcError, StateError
from ...handlers import is_awaitable
from ...profile import MCP_2025_11_25
from ...session import McpConvention, SessionContext, SessionOptions
from ...transports import Transport, is_strict_enough
from ...validator import JsonRpcValidator
from ..http.headers import OWN_STATUSES
from ..protocol.capabilities import ClientCapabilities, Elicitation, Roots, Sampling
from ..protocol.meta import MAX_INPUTS, method_not_found
from ..protocol.records import EmptyObject
from ..protocol.sessions import McpSession
from ..protocol.versions import Revision
from .handshake import ClientHandshake, SendRequest, Step
from .results import invalid_result, timed_out

T = TypeVar("T")


def seconds_left(deadline: float) -> float | None:
    """Return the seconds until a deadline; None for an infinite one."""
    return None if deadline == inf else max(0.0, deadline - asyncio.get_running_loop().time())


async def wait_until(deadline: float, work: Awaitable[T], late: str) -> T:
    """Await something until the deadline. Then cancel it, and raise CallTimeout with the text `late` and the time."""
    if (seconds := seconds_left(deadline)) is None:
        return await work
    task = asyncio.ensure_future(work)
    try:
        # Not `wait_for`, which waits for the end of a task that it has cancelled: a deadline must hold.
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise timed_out(late, seconds)
        return task.result()
    finally:
        task.cancel()


class Restarts:
    """Counts the restarts of one server."""

    def __init__(self, most: int) -> None:
        self.most: int = most  # in a minute
        self._times: deque[float] = deque()

    def take(self, now: float) -> bool:
        """Count a restart. Return False if there were too many."""
        # Only the times within the period are kept, so the queue stays as short as the limit.
        while self._times and self._times[0] <= now - 60.0:
            self._times.popleft()
        if len(self._times) >= self.most:
            return False
        self._times.append(now)
        return True


ServerRequestHandler = Callable[[dict[str, Any]], "dict[str, Any] | Awaitable[dict[str, Any]]"]
"""Handles one method of the server's requests: takes the params, returns the result; sync or async."""
NotificationHandler = Callable[[dict[str, Any]], object]
"""Handles one method of the server's notifications: takes the params; sync or async."""

_validator: Final = JsonRpcValidator(MCP_2025_11_25)


class ClientSession(McpSession):
    """The session of a `Client`.

    Attributes:
        acknowledged: Set when the server has acknowledged a subscription (2026-07-28).
    """

    def __init__(
        self,
        transport: Transport,
        handshake: ClientHandshake,
        handlers: Mapping[str, ServerRequestHandler | NotificationHandler],
        on_notification: Callable[[str, dict[str, Any]], object] | None,
        **options: Unpack[SessionOptions],
    ) -> None:
        convention = McpConvention() if transport.has_exchanges else _Convention()
        super().__init__(transport, {"convention": convention, **options})
        self._must_validate = not is_strict_enough(transport, MCP_2025_11_25)
        self._handshake = handshake
        self._request_handlers: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self._notification_handlers: dict[str, Callable[[dict[str, Any]], Any]] = {}
        for method, function in handlers.items():
            is_notification = method.startswith("notifications/")
            (self._notification_handlers if is_notification else self._request_handlers)[method] = function
        self._on_notification = on_notification
        self.acknowledged: asyncio.Event = asyncio.Event()

    def report(self, error: BaseException) -> None:
        """Report an exception of one of the caller's functions."""
        self._engine.rules.hooks.fault(error)

    def report_server(self, fault: Exception) -> None:
        """Report a fault of the server that no call raises."""
        self._engine.rules.hooks.peer_fault(fault)

    async def shake_hands(self, step: Step, deadline: float = inf) -> None:
        """Perform the handshake.

        Raises:
            HandshakeError: The handshake failed.
            HttpStatusError: The server refused it over HTTP.
            ConnectionLost: The connection was lost before the handshake was done.
        """
        while isinstance(step, SendRequest):
            timeout = step.seconds(seconds_left(deadline))
            try:
                result = await self.call(step.method, step.params, timeout=timeout)
            # A malformed response shows that the server does not know the request, so it is treated as an error
            # response.
            except InvalidResponse as error:
                if not isinstance(error.__cause__, ParseError):
                    raise
                step = self._handshake.failed(error)
            except (RpcError, CallTimeout) as error:
                step = self._handshake.failed(error)
            except HttpStatusError as error:
                # A server that refuses the probe with a status such as 400 may be a legacy one.
                if step.method == "initialize" or error.status in OWN_STATUSES:
                    raise
                step = self._handshake.failed(error)
            else:
                step = self._handshake.succeeded(result)
        if step is not None:
            await self.notify(step.method, step.params)

    def _ping(self, seconds: float) -> None:
        server = self._handshake.server
        if server is None or not server.revision.is_modern:
            super()._ping(seconds)
            return
        with suppress(ConnectionLost, StateError):  # as in `McpSession._ping`
            self._engine.ping(seconds, "server/discover", server.params())

    @property
    def revision(self) -> Revision | None:
        server = self._handshake.server
        return None if server is None else server.revision

    def serve(self, params: Any, context: SessionContext) -> Any:
        """Serve a request or a notification of the server."""
        params = decoded(params) or {}
        if not isinstance(params, dict):
            raise RpcError.invalid_params("params must be an object")
        if context.is_notification:
            if context.method == "notifications/subscriptions/acknowledged":
                self.acknowledged.set()
            handler = self._notification_handlers.get(context.method)
            if handler is not None:
                return handler(params)
            return None if self._on_notification is None else self._on_notification(context.method, params)
        if self._must_validate:
            request = Request(context.id, context.method, params)
            # The transport may have been made with another profile, which is looser than MCP's.
            if not _validator.validate_request(request.to_dict()).valid:
                raise RpcError(ErrorCode.INVALID_REQUEST)
        result = self._handshake.receive_request(context.method)
        if result is not None:
            return result
        function = self._request_handlers.get(context.method)
        if function is None:
            raise method_not_found()
        # The function is called inside the coroutine: if the request is cancelled before, there is no coroutine that is
        # never awaited.
        return _called(function, params)

    async def inputs(self, method: str, result: dict[str, Any], repeats: int) -> dict[str, Any]:
        """Return the params for repeating a request after a result that asks for input.

        Raises:
            ValueError: The result is invalid.
            StateError: There is no handler for the input.
            TypeError: A handler did not return a dict.
        """
        requests, state = result.get("inputRequests", {}), result.get("requestState")
        # Bounded, because each member calls a handler, which may ask a person.
        if isinstance(requests, dict) and len(requests) > MAX_INPUTS:
            raise invalid_result(method, f"/inputRequests has more than {MAX_INPUTS} members")
        if not isinstance(requests, dict) or not all(
            isinstance(request, dict) and isinstance(request.get("method"), str) for request in requests.values()
        ):
            raise invalid_result(method, "/inputRequests must be an object of requests")
        if state is not None and not isinstance(state, str):
            raise invalid_result(method, "/requestState must be a string")
        # The repeated request would be the same, and so would its result, endlessly.
        if not requests and state is None:
            raise invalid_result(method, "it asks for input without inputRequests or requestState")
        inputs: dict[str, Any] = {} if state is None else {"requestState": state}
        if not requests:
            # The server wants the request again with only its state, for example because it is not ready. The pauses
            # prevent a busy loop.
            await asyncio.sleep(min(0.05 * 2**repeats, 0.25))
            return inputs
        responses: dict[str, Any] = {}
        for key, request in requests.items():
            function = self._request_handlers.get(request["method"])
            if function is None:
                raise StateError("there is no handler for the input that the server asks for")
            responses[key] = await _called(function, request.get("params") or {})
        return {**inputs, "inputResponses": responses}


class _Convention(McpConvention):
    """MCP's convention, without cancellation of the probe: a legacy server knows neither before `initialize`."""

    never_cancelled = McpConvention.never_cancelled | {"server/discover"}


def capabilities_of(handlers: Mapping[str, object]) -> ClientCapabilities:
    """Return the capabilities of a client with these handlers."""
    return ClientCapabilities(
        roots=Roots() if "roots/list" in handlers else msgspec.UNSET,
        sampling=Sampling() if "sampling/createMessage" in handlers else msgspec.UNSET,
        elicitation=Elicitation(form=EmptyObject()) if "elicitation/create" in handlers else msgspec.UNSET,
    )


async def _called(function: Callable[[dict[str, Any]], Any], params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a handler, sync or async."""
    result = function(params)
    if is_awaitable(result):
        result = await result
    if not isinstance(result, dict):
        raise TypeError(f"a handler must return a dict, not {type(result).__name__}")
    return result
