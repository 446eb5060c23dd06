"""The session of a client: the handshake, and what a server asks and tells.

Rules:
  - a request of the server goes through the handshake, then to the handler of its method; without one it is -32601;
  - what a handler returns has to be an object, as all results of the protocol;
  - a notification goes to the handler of its method, or else to `on_notification`;
  - a batch is taken from a server of 2025-03-26 alone. Any other is a fault.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...codec import ParseError, Raw, Request
from ...codes import RPC_MESSAGES, ErrorCode
from ...errors import CallTimeout, RpcError, StateError
from ...handlers import is_awaitable
from ...profile import MCP_2025_11_25
from ...session import McpConvention, SessionContext, SessionOptions
from ...transports.protocol import Transport, is_strict_enough
from ...types import UNSET
from ...validator import JsonRpcValidator
from ..protocol.capabilities import ClientCapabilities, Elicitation, Roots, Sampling
from ..protocol.meta import MAX_INPUTS, HandshakeReply
from ..protocol.records import EmptyObject
from ..protocol.versions import Revision
from ..session import McpSession
from .handshake import Call, ClientHandshake, Ready

if TYPE_CHECKING:
    from typing_extensions import Unpack

ServerRequestHandler = Callable[[dict[str, Any]], "dict[str, Any] | Awaitable[dict[str, Any]]"]
"""Serves one method that a server may ask for: takes the params, returns the result; sync or async."""
NotificationHandler = Callable[[dict[str, Any]], object]
"""Hears one method that a server may tell: takes the params; sync or async."""

MAX_REPORTS: Final = 256
"""How many reports of progress wait for an async `on_progress`. Beyond that the oldest is dropped."""

_validator: Final = JsonRpcValidator(MCP_2025_11_25)
_PAUSES: Final = (0.05, 0.1, 0.2, 0.25)  # seconds before a request is repeated that wants no input, but to be repeated


class ClientSession(McpSession):
    """The session under a `Client`.

    handlers         by method
    on_notification  called with the method and the params of other notifications
    options          those of `Session`
    """

    def __init__(
        self,
        transport: Transport,
        handshake: ClientHandshake,
        handlers: Mapping[str, ServerRequestHandler | NotificationHandler],
        on_notification: Callable[[str, dict[str, Any]], object] | None,
        **options: Unpack[SessionOptions],
    ) -> None:
        super().__init__(transport, self._serve, options, _Convention())
        self._must_validate = not is_strict_enough(transport, MCP_2025_11_25)
        self._handshake = handshake
        self._functions: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self._hearing: dict[str, Callable[[dict[str, Any]], Any]] = {}
        for method, function in handlers.items():
            (self._hearing if method.startswith("notifications/") else self._functions)[method] = function
        self._on_notification = on_notification

    def report(self, error: BaseException) -> None:
        """Reports what went wrong in a function of the caller."""
        self._hooks.fault(error)

    async def shake_hands(self, step: Call | Ready) -> None:
        """Finds out by which revision the server is served. Raises HandshakeError, ConnectionLost.

        step  the first one
        """
        while isinstance(step, Call):
            timeout = UNSET if step.timeout_seconds is None else step.timeout_seconds
            try:
                result = await self.call(step.method, step.params, timeout=timeout)
            except ParseError as fault:
                step = self._handshake.failed(RpcError(fault.rpc_code, fault.message))
            except (RpcError, CallTimeout) as error:
                step = self._handshake.failed(error)
            else:
                step = self._handshake.answered(result)
        if step.notification is not None:
            await self.notify(step.notification.method, step.notification.params)

    @property
    def revision(self) -> Revision | None:
        server = self._handshake.server
        return None if server is None else server.revision

    def _serve(self, context: SessionContext, params: Any) -> Any:
        """Serves a request or a notification of the server."""
        params = plain(params) or {}
        if not isinstance(params, dict):
            raise RpcError(ErrorCode.INVALID_PARAMS, "params must be an object")
        if context.is_notification:
            hearing = self._hearing.get(context.method)
            if hearing is not None:
                return hearing(params)
            return None if self._on_notification is None else self._on_notification(context.method, params)
        request = Request(context.id, context.method, params)
        if self._must_validate and not _validator.validate_request(request.to_dict()).valid:
            raise RpcError(ErrorCode.INVALID_REQUEST, RPC_MESSAGES[ErrorCode.INVALID_REQUEST])
        step = self._handshake.receive_request(request)
        if isinstance(step, HandshakeReply):
            return step.result
        function = self._functions.get(context.method)
        if function is None:
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, RPC_MESSAGES[ErrorCode.METHOD_NOT_FOUND])
        result = function(params)
        return _checked(result) if isinstance(result, dict) else _awaited(result)

    def report_peer(self, fault: Exception) -> None:
        """Reports a fault of the server that no caller hears of."""
        self._hooks.peer_fault(fault)

    async def inputs(self, method: str, result: dict[str, Any], repeats: int) -> dict[str, Any]:
        """What a request that wants input is to be repeated with."""
        requests, state = result.get("inputRequests", {}), result.get("requestState")
        if isinstance(requests, dict) and len(requests) > MAX_INPUTS:
            raise wrong_answer(method, f"/inputRequests has more than {MAX_INPUTS} members")
        if not isinstance(requests, dict) or not all(
            isinstance(request, dict) and isinstance(request.get("method"), str) for request in requests.values()
        ):
            raise wrong_answer(method, "/inputRequests must be an object of requests")
        if state is not None and not isinstance(state, str):
            raise wrong_answer(method, "/requestState must be a string")
        if not requests and state is None:
            raise wrong_answer(method, "it wants input, but does not say which")
        inputs: dict[str, Any] = {} if state is None else {"requestState": state}
        if not requests:
            await asyncio.sleep(_PAUSES[min(repeats, len(_PAUSES) - 1)])
            return inputs
        responses: dict[str, Any] = {}
        for key, request in requests.items():
            function = self._functions.get(request["method"])
            if function is None:
                raise StateError("the server wants input that there is no handler for")
            given = function(request.get("params") or {})
            responses[key] = _checked(given) if isinstance(given, dict) else await _awaited(given)
        return {**inputs, "inputResponses": responses}


class Reports:
    """Hands the progress of one call to a function, and awaits what it returns, one report after the other.

    function  sync or async
    fault     called with what it raises
    """

    def __init__(self, function: Callable[[Any], object], fault: Callable[[BaseException], object]) -> None:
        self._function = function
        self._fault = fault
        self._waiting: deque[Any] = deque(maxlen=MAX_REPORTS)
        self._task: asyncio.Task[None] | None = None

    def add(self, value: Any) -> None:
        """Hands on one report, now or after those that are at work. Raises what a sync function raises."""
        if self._task is not None:
            self._waiting.append(value)
        elif is_awaitable(result := self._function(value)):
            # Never an eager one, which may have ended before it is kept here.
            self._task = asyncio.Task(self._run(result), loop=asyncio.get_running_loop())

    async def _run(self, result: Any) -> None:
        try:
            while True:
                try:
                    if is_awaitable(result):
                        await result
                except Exception as error:
                    self._fault(error)
                if not self._waiting:
                    break
                result = self._next()
        finally:
            self._task = None

    def _next(self) -> Any:
        try:
            return self._function(self._waiting.popleft())
        except Exception as error:
            self._fault(error)
            return None

    async def finish(self, seconds: float | None) -> None:
        """Returns when all reports were handed on, or when the time is over."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)

    def cancel(self) -> None:
        """Drops what waits and cancels what is at work."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()


class _Convention(McpConvention):
    """A server that does not know the probe has no use for its cancellation either, before `initialize` at least."""

    never_cancelled = McpConvention.never_cancelled | {"server/discover"}


def capabilities_of(handlers: Mapping[str, object]) -> ClientCapabilities:
    """What a client with these handlers can do."""
    return ClientCapabilities(
        roots=Roots() if "roots/list" in handlers else msgspec.UNSET,
        sampling=Sampling() if "sampling/createMessage" in handlers else msgspec.UNSET,
        elicitation=Elicitation(form=EmptyObject()) if "elicitation/create" in handlers else msgspec.UNSET,
    )


def plain(value: Any) -> Any:
    """What a transport may have left as bytes."""
    return value.decode() if type(value) is Raw else value


def _checked(result: Any) -> dict[str, Any]:
    """What a handler gives, if the protocol allows it."""
    if not isinstance(result, dict):
        raise TypeError(f"a handler must return a dict, not {type(result).__name__}")
    return result


async def _awaited(result: Any) -> dict[str, Any]:
    return _checked(await result if hasattr(result, "__await__") else result)


def wrong_answer(method: str, what: str) -> ValueError:
    """The error for an answer that breaks the protocol."""
    return ValueError(f"the server's answer to {method} is wrong: {what}")
