"""Expected calls: handlers for a test of what a client sends, with the responses that it gets.

A message is served by the first expectation with its method and params that has messages left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self, Unpack

from ..codec import Params, Raw
from ..codes import ErrorCode
from ..errors import RpcError
from ..handlers import Handler, Handlers, RequestContext
from ..session import Session, SessionOptions
from ..support import check_callable, check_count, check_type, shorten
from ..transports import memory_pair
from ..types import UNSET, Unset


class Expectation:
    """An expected message, and its response: null, unless one of these methods sets another.

    Attributes:
        method: The method.
        params: The params; UNSET if any are accepted.
        served: How many messages it has served.
    """

    def __init__(self, method: str, params: Params | Unset) -> None:
        self.method: str = method
        self.params: Params | Unset = params
        self.served: int = 0
        self._times: int | None = 1
        self._function: Callable[[Any], Any] = lambda _: None

    def respond(self, result: Any) -> Self:
        """Respond with a result."""
        return self.respond_with(lambda _: result)

    def respond_error(self, code: int, message: str, data: Any = UNSET) -> Self:
        """Respond with an error."""
        error = RpcError(code, message, data)

        def refuse(_: Any) -> None:
            raise error

        return self.respond_with(refuse)

    def respond_with(self, function: Callable[[Any], Any]) -> Self:
        """Respond with what a function returns or raises. It is called with the params, and may be async."""
        check_callable("function", function, may_be_none=False, may_be_async=True)
        self._function = function
        return self

    def stay_silent(self) -> Self:
        """Do not respond: the call waits until it times out or is cancelled, or the session ends."""
        return self.respond_with(_wait)

    def times(self, count: int | None) -> Self:
        """Serve this many messages; None for any number, including 0."""
        check_count("count", count, 0)
        self._times = count
        return self

    def fits(self, method: str, params: Any) -> bool:
        """Return whether it serves a message."""
        if self.method != method or self.served == self._times:
            return False
        return isinstance(self.params, Unset) or bool(self.params == params)

    def serve(self, params: Any) -> Any:
        """Return the result for a message, or an awaitable of it."""
        self.served += 1
        return self._function(params)

    @property
    def is_met(self) -> bool:
        """Whether it has served as many messages as are expected."""
        return self._times is None or self.served == self._times

    def __repr__(self) -> str:
        times = "any number" if self._times is None else self._times
        return f"{_shown(self.method, self.params)}, {self.served} of {times} served"


class ExpectedCalls(Handlers):
    """Handlers that serve the calls that a test expects, for a session, an `Endpoint` or any other server.

    Attributes:
        messages: The method and the params of each message that arrived, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[str, Any]] = []
        self._expected: list[Expectation] = []
        self._unexpected: list[str] = []
        # Without unpacking, an expectation compares the params as they were sent.
        self._handler = Handler(self._serve_expected, unpack=False)

    def expect(self, method: str, params: Params | Unset = UNSET) -> Expectation:
        """Expect a message.

        Args:
            method: Its method.
            params: Its params, compared with `==`; None: it has none. By default any are accepted.
        """
        check_type("method", method, str)
        expectation = Expectation(method, params)
        self._expected.append(expectation)
        return expectation

    def check(self) -> None:
        """Check that all expected messages have arrived, and no others.

        Raises:
            AssertionError: A message is missing or unexpected. The text names each.
        """
        faults = [f"unexpected: {text}" for text in self._unexpected]
        faults += [f"missing: {expectation!r}" for expectation in self._expected if not expectation.is_met]
        if faults:
            raise AssertionError("\n".join(faults))

    def find(self, method: str) -> Handler | None:
        # Registered handlers come first: a test may serve some methods with its own functions.
        return super().find(method) or self._handler

    def _serve_expected(self, context: RequestContext, params: Any) -> Any:
        # A session with raw payloads passes a `Raw`, but expectations have values.
        if isinstance(params, Raw):
            params = params.decode()
        self.messages.append((context.method, params))
        for expectation in self._expected:
            if expectation.fits(context.method, params):
                return expectation.serve(params)
        shown = _shown(context.method, params)
        self._unexpected.append(shown)
        raise RpcError(ErrorCode.METHOD_NOT_FOUND, f"the test does not expect {shown}")


async def _wait(_: Any) -> None:
    await asyncio.get_running_loop().create_future()


def _shown(method: str, params: Any) -> str:
    return f"{shorten(method)} with {'any params' if isinstance(params, Unset) else shorten(params)}"


@asynccontextmanager
async def sessions(
    handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None,
    client_handlers: Handlers | Mapping[str, Callable[..., Any]] | None = None,
    client_options: SessionOptions | None = None,
    **options: Unpack[SessionOptions],
) -> AsyncIterator[tuple[Session, Session]]:
    """Connect a client and a server in memory. Messages are encoded and decoded as on a wire.

    Args:
        handlers: The handlers of the server.
        client_handlers: The handlers of the client.
        client_options: The options of the client's session.
        options: The options of the server's session.

    Yields:
        The session of the client, and that of the server.
    """
    one, other = memory_pair()
    async with (
        Session(other, handlers, **options) as server,
        Session(one, client_handlers, **(client_options or {})) as client,
    ):
        yield client, server
