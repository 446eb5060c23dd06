"""The clients of 2026-07-28, whose requests are independent of each other.

Rules:
  - A server with a handshake asks with requests, which do not say to which call they belong. So a call that may ask the
    client gets its own process of the server. The questions become the result, the call waits, and the client's next
    round brings the responses.
  - Over HTTP without authorization, the clients cannot be distinguished. So a call gets a process of the server with a
    handshake that no other call has used or will use; what all of them share has served only lists and completions.
  - Log messages go to the latest request in flight that asks for log messages, if its level includes them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ...codec import Raw, dumps
from ...codes import ErrorCode, McpErrorCode
from ...errors import RpcError
from ...session import detached, waits_for_peer
from ...support import on_failure
from ..protocol.capabilities import ClientCapabilities, Implementation
from ..protocol.meta import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, INPUT_REQUESTS, LIST_METHODS, LOG_LEVELS
from ..server.handshake import RequestRules
from ..server.inputs import MAX_STATE_BYTES, MAY_NEED_INPUT, StateSeal, refusal
from .catalog import Catalog, CatalogClient
from .payloads import GATEWAY_ERROR, TOKEN, as_raw, member, object_of, replaced, with_members
from .upstream import Upstream, first, is_input_required, retrieve

CALLS: Final = MAY_NEED_INPUT | {"completion/complete"}
"""The requests that go to one server."""
MAX_CLIENTS: Final = 256
"""Maximum number of clients of 2026-07-28 that are known. An idle one is forgotten to make room for a new one."""
MAX_CLIENT_BYTES: Final = 64 * 1024
"""Maximum size of the client's description of itself in each request, as JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class ModernCall:
    """One request.

    Attributes:
        subject: The sender, as far as it is known.
        completed: Returns a result that is not of 2026-07-28 with the members that it must have there.
    """

    method: str
    params: Raw
    rules: RequestRules
    subject: object
    send: Callable[[str, Any], None]
    completed: Callable[[Any], Raw]


@dataclass(eq=False, repr=False)
class LongCall:
    """A call to a server with a handshake, which may ask the client, in all its rounds.

    Attributes:
        asked: The requests of the server that have no response, by key: method, params and the response.
        timer: Ends the call while it waits for the client.
    """

    call: ModernCall
    client: ModernClient
    asked: dict[str, tuple[str, Raw, asyncio.Future[Raw]]] = field(default_factory=dict)
    task: asyncio.Task[Any] = field(init=False)
    timer: asyncio.TimerHandle = field(init=False)
    _is_asking: asyncio.Event = field(default_factory=asyncio.Event)  # set when there is a request
    _keys: Iterator[int] = field(default_factory=partial(itertools.count, 1))

    async def ask(self, method: str, params: Raw) -> Raw:
        """Return the client's response to a request of the server."""
        response: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        key = str(next(self._keys))
        self.asked[key] = method, params, response
        self._is_asking.set()
        try:
            with waits_for_peer():
                return await response
        finally:
            self.asked.pop(key, None)

    async def next_round(self) -> bool:
        """Wait until the call is done (True), or its server asks for input (False). If cancelled, cancel the call."""
        with waits_for_peer(), on_failure(self.task.cancel):
            while not self.task.done() and not self.asked:
                self._is_asking.clear()
                await first(self._is_asking, self.task)
        return self.task.done()

    def end(self) -> None:
        """Let the requests of the server fail: the call has ended."""
        for _, _, response in self.asked.values():
            if not response.done():
                response.set_exception(RpcError(GATEWAY_ERROR, "the client did not respond in time"))

    def requests(self) -> Raw:
        """Return the requests of the server as `inputRequests`."""
        return object_of(
            {key: object_of({"method": method, "params": params}) for key, (method, params, _) in self.asked.items()}
        )

    def resume(self, call: ModernCall) -> None:
        """Begin a round with the client's responses. Raises RpcError: a response is not an object (-32602)."""
        given = call.params.get(("inputResponses",))
        responses = {} if given is None else {key: part for key, part in given.items() if key in self.asked}
        # The server checks their contents.
        if not all(bytes(response).startswith(b"{") for response in responses.values()):
            raise RpcError.invalid_params("inputResponses must be an object of results")
        self.timer.cancel()
        self.call = call
        for key, part in responses.items():
            _, _, response = self.asked.pop(key)
            if not response.done():
                response.set_result(part)


class Rounds:
    """The calls of all clients that take several rounds."""

    def __init__(self, seal: StateSeal, max_calls: int) -> None:
        self._seal = seal
        self._max_calls = max_calls
        self._waiting: dict[int, LongCall] = {}
        self._numbers = itertools.count(1)

    def passed_on(self, call: ModernCall, server: str, result: Raw) -> Raw:
        """Return the result of a server that asks for input, with a state that leads back to it.

        Raises RpcError: the state is invalid, or too large (-32000).
        """
        state = member(result, ("requestState",))
        if state is not None and not isinstance(state, str):
            raise RpcError(GATEWAY_ERROR, f"the server {server!r} sent an invalid message")
        return with_members(result, {"requestState": self._sealed(call, server, None, state)})

    def opened(self, call: ModernCall) -> tuple[str, int | None, str | None] | None:
        """Return the content of a request's state: the server, the number of the waiting call, the server's state.

        Raises RpcError: the state is not valid for the request (-32602).
        """
        token = member(call.params, ("requestState",)) if call.method in MAY_NEED_INPUT else None
        if token is None:
            return None
        server, number, state = Raw(self._seal.open(token, call.method, call.params.decode(), call.subject)).decode()
        return server, number, state

    def suspend(self, long: LongCall, server: str) -> Raw:
        """Let a call wait for the client. Return the result that asks for its input.

        Raises RpcError: too many calls wait (-32000), or the state would be too large.
        """
        number = next(self._numbers)
        with on_failure(long.task.cancel):
            # At most half of the processes: calls that wait for people must not block the others.
            if len(self._waiting) >= self._max_calls:
                raise RpcError(GATEWAY_ERROR, "too many calls wait for input")
            state = self._sealed(long.call, server, number, None)
        self._waiting[number] = long
        long.timer = asyncio.get_running_loop().call_later(600.0, self._expire, number, context=Context())
        return object_of({"resultType": "input_required", "inputRequests": long.requests(), "requestState": state})

    def resumed(self, number: int, call: ModernCall) -> LongCall:
        """Return the call that a request continues.

        Raises RpcError: it does not wait, or a response is invalid (-32602).
        """
        long = self._waiting.get(number)
        if long is None:
            raise refusal("belongs to a call that no longer waits for it")
        # Checked first: if a response is invalid, the call keeps waiting.
        long.resume(call)
        del self._waiting[number]
        return long

    def forget(self, client: ModernClient) -> None:
        """End the calls of a client."""
        for number in [number for number, long in self._waiting.items() if long.client is client]:
            self._expire(number)

    def _expire(self, number: int) -> None:
        long = self._waiting.pop(number)
        long.timer.cancel()
        long.task.cancel()

    def _sealed(self, call: ModernCall, server: str, number: int | None, state: str | None) -> str:
        contents = dumps([server, number, state])
        if len(contents) > MAX_STATE_BYTES:
            raise RpcError(GATEWAY_ERROR, f"the server {server!r} sent a requestState that is too large")
        return self._seal.seal(contents, call.method, call.params.decode(), call.subject)


class ModernClient(CatalogClient):
    """A client, or several that cannot be distinguished.

    Attributes:
        listeners: By subscription: the function that is called with changes.
        used: When its last request arrived, by the loop's clock.
    """

    def __init__(
        self,
        make: Callable[[CatalogClient], Catalog],
        capabilities: ClientCapabilities,
        rounds: Rounds,
        is_shared: bool,
    ) -> None:
        self.catalog: Catalog = make(self)
        self.listeners: dict[object, Callable[[str, str], None]] = {}
        self.used: float = 0.0
        self._may_be_asked = any(map(capabilities.supports, INPUT_REQUESTS.values()))
        self._rounds = rounds
        self._is_shared = is_shared
        self._calls: dict[Upstream, LongCall] = {}
        self._more: dict[str, list[Upstream]] = {}  # processes of servers that were busy
        self._watched: Counter[str] = Counter()
        # Maximum number of subscriptions of one client that are begun at a time.
        self._watching = asyncio.Semaphore(16)
        self._ending: set[asyncio.Future[Any]] = set()

    async def close(self) -> None:
        """End the calls and the servers."""
        self._rounds.forget(self)
        for long in self._calls.values():
            long.task.cancel()
        for task in self._ending:
            task.cancel()
        more = itertools.chain.from_iterable(self._more.values())
        await asyncio.gather(self.catalog.close(), *[upstream.close() for upstream in more])

    def is_idle(self, now: float) -> bool:
        """Whether it may be forgotten: none of its calls or servers is running."""
        upstreams = itertools.chain(self.catalog.upstreams.values(), *self._more.values())
        # A request that came less than a second ago may not have reached a server yet.
        is_recent = now - self.used < 1.0
        return not is_recent and not self.listeners and not self._calls and all(each.is_ended for each in upstreams)

    # Requests.

    async def serve(self, call: ModernCall) -> Raw:
        """Return the result of a request for one server, or for a list of all.

        Raises RpcError: the error of the server; or there is no such server, or it cannot be reached.
        """
        if call.method in LIST_METHODS:
            return call.completed(await self.catalog.merged(call.method, call.params))
        try:
            return await self._serve(call)
        except RpcError as error:
            if call.method != "resources/read" or error.code != McpErrorCode.RESOURCE_NOT_FOUND:
                raise
            # 2026-07-28 has no code for an unknown resource.
            raise RpcError(ErrorCode.INVALID_PARAMS, error.message, error.data) from None

    async def _serve(self, call: ModernCall) -> Raw:
        state = self._rounds.opened(call)
        if state is None:
            result: Raw = await self.catalog.call(call.method, call.params, call, call.rules.revision)
            return result
        server, number, text = state
        if number is not None:
            long = self._rounds.resumed(number, call)
            return await long.client.go_on(long, server)
        upstream = self.catalog.upstreams.get(server)
        if upstream is None:  # the state is of a gateway with the same key but other servers
            raise refusal("names a server that is unknown")
        params = with_members(call.params, {} if text is None else {"requestState": text}, ("requestState",))
        # The URI has no prefix, so the state tells which server is meant.
        if call.method != "resources/read":
            _, params = self.catalog.find(call.method, params)
        return await self.forward(upstream, call.method, params, call)

    async def forward(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> Raw:
        call: ModernCall = origin
        await upstream.start()
        # Of a client that cannot be told from others, no process serves two calls.
        is_anonymous = self._is_shared and not upstream.is_modern
        alone = None
        if not upstream.is_modern and method in MAY_NEED_INPUT and (is_anonymous or self._may_be_asked):
            alone = self._process(upstream, self._is_unused if is_anonymous else self._is_free)
        if alone is None:
            # The call shares a process: the server has no reason to ask during it, or no process is free.
            if not is_anonymous:
                fitting = self._process(upstream, lambda each: not each.is_full and each not in self._calls)
                upstream = fitting or upstream
                if not upstream.is_modern:
                    await self._set_level(upstream, call)
            result = as_raw(await upstream.call(method, params, call))
            if not upstream.is_modern:
                return call.completed(result)
            return self._rounds.passed_on(call, upstream.name, result) if is_input_required(result) else result
        upstream = alone
        long = self._calls[upstream] = LongCall(call, self)
        # The task outlives the request that starts it.
        long.task = detached(asyncio.ensure_future, self._call_long(upstream, method, params, long))
        long.task.add_done_callback(partial(self._on_done, upstream, long))
        return await self.go_on(long, upstream.name)

    async def _call_long(self, upstream: Upstream, method: str, params: Raw, long: LongCall) -> Any:
        await self._set_level(upstream, long.call)
        return await upstream.call(method, params, long)

    def _on_done(self, upstream: Upstream, long: LongCall, task: asyncio.Future[Any]) -> None:
        # A callback, because the coroutine does not run if it is cancelled before it begins.
        del self._calls[upstream]
        long.end()
        retrieve(task)
        if self._is_shared:
            self._later(upstream.end())

    async def go_on(self, long: LongCall, server: str) -> Raw:
        """Return the result of a call, or the requests of its server for input."""
        if await long.next_round():
            return long.call.completed(long.task.result())
        return self._rounds.suspend(long, server)

    def _is_free(self, upstream: Upstream) -> bool:
        return not upstream.requests and upstream not in self._calls

    def _is_unused(self, upstream: Upstream) -> bool:
        return upstream.is_ended and upstream not in self._calls

    def _process(self, upstream: Upstream, fits: Callable[[Upstream], bool]) -> Upstream | None:
        """Return the first process of a server that fits, if necessary a new one; None if there are too many."""
        more = self._more.setdefault(upstream.name, [])
        found = next(filter(fits, (upstream, *more)), None)
        # The processes of clients that cannot be distinguished are bounded by the gateway's `max_servers` alone.
        if found is None and (self._is_shared or len(more) + 1 < 8):
            found = self.catalog.make(upstream.name)
            more.append(found)
        return found

    async def _set_level(self, upstream: Upstream, call: ModernCall) -> None:
        """Let a server with a handshake send the log messages that a request asks for."""
        level = call.rules.log_level
        # Without a level the client wants no log messages, and `tell` drops them.
        if level is None:
            return
        await upstream.start()
        if upstream.level is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(upstream.level):
            upstream.level = level
            if upstream.supports("logging"):
                with suppress(RpcError):
                    await upstream.call("logging/setLevel", {"level": level})

    # Subscriptions.

    async def watch(self, uri: str, call: ModernCall) -> None:
        """Subscribe to a resource, for another subscription of the client. Raises RpcError: no server has it."""
        if uri not in self._watched:
            async with self._watching:
                params = Raw(dumps({"uri": uri}))
                await self.catalog.call("resources/subscribe", params, None, call.rules.revision)
        # Counted, because several subscriptions of the client may name one resource, but the server is asked once.
        self._watched[uri] += 1

    def unwatch(self, uris: Iterable[str]) -> None:
        """End what `watch` began."""
        for uri in uris:
            self._watched[uri] -= 1
            if self._watched[uri] > 0:
                continue
            del self._watched[uri]
            for upstream in self.catalog.upstreams.values():
                if uri in upstream.subscriptions:
                    # Removed at once, before the request is sent: notifications that arrive meanwhile are useless.
                    upstream.subscriptions.pop(uri)
                    if upstream.is_running:
                        self._later(upstream.subscribe("resources/unsubscribe", Raw(dumps({"uri": uri}))))

    def _later(self, ending: Coroutine[Any, Any, Any]) -> None:
        """Run what ends a subscription or a process."""
        task = asyncio.ensure_future(ending)
        self._ending.add(task)
        task.add_done_callback(retrieve)
        task.add_done_callback(self._ending.discard)

    # The servers' messages.

    async def ask(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> Raw:
        long = self._calls.get(upstream)
        # A guess could show a question to the wrong person.
        if long is None or any(each is not None and each is not long for each in upstream.requests.values()):
            raise RpcError(GATEWAY_ERROR, "it is unknown which call this request belongs to")
        return await long.ask(method, params)

    def tell(self, upstream: Upstream, method: str, params: Raw, origin: Any) -> None:
        if method == "notifications/progress":
            call = _round_of(origin)
            if call is not None and (token := call.params.get(TOKEN)) is not None:
                told = replaced(params, ("progressToken",), token)
                call.send(method, told)
        elif method == "notifications/message":
            if self._is_shared and upstream not in self._calls:
                return  # a guess could show what one person does to another
            level = member(params, ("level",))
            # The latest first: JSON-RPC does not say which request a log message belongs to.
            calls = filter(None, map(_round_of, reversed(upstream.requests.values())))
            call = next((each for each in calls if each.rules.log_level is not None), None)
            if call is not None and level in LOG_LEVELS[LOG_LEVELS.index(str(call.rules.log_level)) :]:
                call.send(method, params)

    def changed(self, method: str, subject: str) -> None:
        # A connection with several subscriptions is notified once, because it knows its subscriptions.
        for tell in set(self.listeners.values()):
            tell(method, subject)


@dataclass(eq=False, repr=False)
class ModernClients:
    """The clients of one connection, or of all requests over HTTP.

    Args:
        is_http: Whether they are those over HTTP, where only a token shows whose a request is.
    """

    _make: Callable[[Implementation, ClientCapabilities, CatalogClient], Catalog]
    _info: Implementation
    _rounds: Rounds
    _is_http: bool
    _clients: dict[tuple[str, bytes, bytes], ModernClient] = field(default_factory=dict)

    def of(self, subject: object, params: Raw, rules: RequestRules) -> ModernClient:
        """Return the client of a request.

        Raises RpcError: there are too many clients (-32000), or its description of itself is too large (-32602).
        """
        found = [params.get(("_meta", name)) for name in (CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY)]
        name, capabilities = [b"" if each is None else bytes(each) for each in found]
        if len(name) + len(capabilities) > MAX_CLIENT_BYTES:
            raise RpcError.invalid_params(f"_meta describes the client in more than {MAX_CLIENT_BYTES} bytes")
        # The bytes as sent, not the records, so that requests are compared without being decoded.
        key = repr(subject), name, capabilities
        now = asyncio.get_running_loop().time()
        client = self._clients.get(key)
        if client is None:
            if len(self._clients) >= MAX_CLIENTS:
                self._clients = {key: each for key, each in self._clients.items() if not each.is_idle(now)}
                if len(self._clients) >= MAX_CLIENTS:
                    raise RpcError(GATEWAY_ERROR, "there are too many clients")
            info, given = rules.client_info or self._info, rules.client_capabilities
            is_shared = self._is_http and subject is None
            made = ModernClient(partial(self._make, info, given), given, self._rounds, is_shared)
            client = self._clients[key] = made
        client.used = now
        return client

    async def aclose(self) -> None:
        """End all calls and servers."""
        clients, self._clients = self._clients, {}
        await asyncio.gather(*[client.close() for client in clients.values()])


def _round_of(origin: Any) -> ModernCall | None:
    found: ModernCall | None = origin.call if type(origin) is LongCall else origin
    return found
