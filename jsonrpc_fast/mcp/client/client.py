"""The client: one connection to one server, for scripts and tests.

Results are dicts with the protocol's names. A timeout covers the whole method: all pages of a list, and all rounds of
input (2026-07-28), at most MAX_ROUNDS, including the handlers between them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import inf
from typing import Any, Final, Never, Self, Unpack

from ..._version import __version__
from ...codec import decoded
from ...codes import McpErrorCode
from ...errors import CallTimeout, ConnectionLost, HandshakeError, RpcError, StateError
from ...handlers import is_awaitable
from ...session import TIMEOUT_SECONDS, Caller, CallOptions, SessionOptions
from ...support import check_callable, check_count, check_seconds, check_type, on_failure
from ...transports import Transport
from ...types import UNSET, Unset
from ..protocol.capabilities import ClientCapabilities, Implementation
from ..protocol.definitions import contents_fault, message_fault
from ..protocol.meta import (
    LISTEN_METHOD,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    RESOURCES_FILTER,
    TASKS_CAPABILITY,
    UNKNOWN_LEVEL,
    changes_filter,
)
from ..protocol.schemas import Schema
from ..protocol.uris import uri_faults
from .handshake import PROBE_SECONDS, ClientHandshake, ServerContext
from .program import EXIT_SECONDS, ProgramTransport, explained
from .results import (
    ClientTask,
    Entries,
    all_pages,
    check_completion,
    check_items,
    checked_tool_result,
    invalid_result,
    timed_out,
)
from .session import (
    ClientSession,
    NotificationHandler,
    Restarts,
    ServerRequestHandler,
    capabilities_of,
    seconds_left,
    wait_until,
)

MAX_ROUNDS: Final = 10
"""Maximum number of times a request is repeated with the input that its result asks for."""


class ProgressQueue:
    """Call a function with each progress value, and await its result, one value after another."""

    def __init__(self, function: Callable[[Any], object], report: Callable[[BaseException], object]) -> None:
        self._function = function
        self._report = report
        # For an async function. A full deque drops its oldest value, because only the newest progress matters.
        self._waiting: deque[Any] = deque(maxlen=256)
        self._task: asyncio.Task[None] | None = None

    def add(self, value: Any) -> None:
        """Call the function with a value, now or after those before it. Raises the exceptions of a sync function."""
        if self._task is not None:
            self._waiting.append(value)
        elif is_awaitable(result := self._function(value)):
            # Not by `create_task`: an eager task may end before it is assigned.
            self._task = asyncio.Task(self._run(result), loop=asyncio.get_running_loop())

    async def finish(self, seconds: float | None) -> None:
        """Wait until all values have been handled, for a limited time; None: without limit."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)

    def cancel(self) -> None:
        """Drop the values that wait, and cancel the running function."""
        self._waiting.clear()
        if self._task is not None:
            # The call has ended, so further work of the function would be useless.
            self._task.cancel()

    async def _run(self, result: Any) -> None:
        try:
            while True:
                # A fault of a function that only watches the call must not end the call.
                try:
                    if is_awaitable(result):
                        await result
                    if not self._waiting:
                        break
                    result = self._function(self._waiting.popleft())
                except Exception as error:
                    self._report(error)
                    result = None
        finally:
            self._task = None


class Client(Caller):
    """A client over a transport. `async with` connects it and closes it.

    `call` is for requests without a method here, and for a single page of a list: `call("tools/list", {"cursor": …})`.
    Of its result only `resultType` has been checked. `notify("notifications/roots/list_changed")` sends a notification.

    These arguments are the same for all methods:

      - `timeout`: Seconds until CallTimeout; None: no timeout. The default is the client's own timeout.
      - `idle_timeout`: Maximum seconds without progress, which the server is asked to report.
      - `on_progress`: Called with each progress: a dict with `progress`, and perhaps `total` and `message`. If it is
        async, the calls are awaited one after another before the method returns. An exception that it raises is
        reported as a fault (see `hooks`).

    A result of another `resultType` belongs to an extension: it is returned unchecked if this side declares one.

    All methods raise RpcError, CallTimeout and ConnectionLost; StateError outside `async with`; TypeError or ValueError
    for arguments that the protocol does not allow; InvalidResponse or ParseError for results that break it.

    Args:
        transport: A transport that is not started, made with an MCP profile; or a function that returns a new one to a
            server that is a program.
        max_restarts: As in `connect`.
        sign_in: Called before the client connects; its time does not count toward the timeout.
        options: Options of `Session`.

    The other arguments are those of `connect`.

    Attributes:
        transport: The transport that was passed.

    Raises:
        ValueError: The mode is unknown, or an option is out of range.
        TypeError: An option has the wrong type.
    """

    def __init__(
        self,
        transport: Transport | Callable[[], ProgramTransport],
        *,
        max_restarts: int = 0,
        sign_in: Callable[[], Awaitable[None]] | None = None,
        mode: str = "auto",
        handlers: Mapping[str, ServerRequestHandler | NotificationHandler] | None = None,
        on_notification: Callable[[str, dict[str, Any]], object] | None = None,
        info: Implementation | None = None,
        capabilities: ClientCapabilities | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        check_type("mode", mode, str)
        check_type("handlers", handlers, Mapping, may_be_none=True)
        for method, function in (handlers or {}).items():
            check_type("a name in handlers", method, str)
            check_callable("a function in handlers", function, may_be_none=False, may_be_async=True)
        check_callable("on_notification", on_notification, may_be_async=True)
        check_type("info", info, Implementation, may_be_none=True)
        check_type("capabilities", capabilities, ClientCapabilities, may_be_none=True)
        check_callable("sign_in", sign_in, may_be_async=True)
        self.transport: Transport | None = transport if isinstance(transport, Transport) else None
        self._start = None if isinstance(transport, Transport) else transport
        check_callable("transport, if it is no Transport,", self._start)
        info = Implementation(name="jsonrpc_fast", version=__version__) if info is None else info
        capabilities = capabilities_of(handlers or {}) if capabilities is None else capabilities
        # A result type that no revision defines is expected only if this side declares an extension.
        self._declares_extensions = bool(capabilities.extensions)
        # Over HTTP a server always responds, but a person may have to authorize the client first.
        probe_seconds = None if self.transport is not None and self.transport.has_exchanges else PROBE_SECONDS
        self._make_handshake = partial(ClientHandshake, info, capabilities, mode, probe_seconds)
        self._make_session = partial(ClientSession, handlers=handlers or {}, on_notification=on_notification, **options)
        check_count("max_restarts", max_restarts, 0)
        self._sign_in = sign_in
        self._program: ProgramTransport | None = None
        if not isinstance(transport, Transport):
            transport = self._program = transport()
        self._handshake = self._make_handshake()
        self.session: ClientSession = self._make_session(transport, self._handshake)
        self._restarts = Restarts(max_restarts)
        # Calls that fail together must start the program only once.
        self._restarting = asyncio.Lock()
        self._server: ServerContext | None = None
        self._is_closed = False
        self._timeout = options.get("timeout", TIMEOUT_SECONDS)
        self._log_level: str | None = None
        self._output_schemas: dict[str, dict[str, Any] | Schema | None] = {}

    async def start(self) -> None:
        """Connect, as `async with` does: for a notebook, whose cells share the client. `close` ends it.

        Raises:
            StateError: The client was started already.
            Exception: See `connect`.
        """
        if self._sign_in is not None:
            await self._sign_in()
        await self._connect(self._deadline(UNSET))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _connect(self, deadline: float) -> None:
        """Open the session and perform the handshake; close everything if that fails."""
        left = seconds_left(deadline)
        # Entering the block has one deadline: the handshake must leave time for ending a program, first by closing its
        # stdin, then by signals.
        kept = 2.0 if left is None else min(2.0, left / 10)
        async with on_failure(partial(self._end, deadline - kept / 2, kept / 2)):
            try:
                begun = self._begin(deadline - kept)
                await wait_until(deadline - kept / 2, begun, "the server could not be reached")
            except (ConnectionLost, HandshakeError) as error:
                await _explain(error, self._program, kept / 4)
                raise
        # Set only now: a failed restart must not change what callers see.
        self._server = self._handshake.server

    async def _begin(self, deadline: float) -> None:
        await self.session.start()
        try:
            await self.session.shake_hands(self._handshake.start(), deadline)
        except ConnectionLost:
            if self._program is None or self._start is None:
                raise
            await self._program.report()
            # A program that exits before it has read anything did not exit because of the probe.
            step = self._handshake.restarted() if self._program.has_read else None
            if step is None:
                raise
            await self.session.close()
            self._program = self._start()
            self.session = self._make_session(self._program, self._handshake)
            await self.session.start()
            await self.session.shake_hands(step, deadline)

    async def _end(self, deadline: float, kill_seconds: float) -> None:
        """Close the session until a deadline; then end a program within `kill_seconds`."""
        closing = asyncio.ensure_future(self.session.close())
        if self._program is not None:
            # Not `wait_for`, which would cancel the close: it must always run to its end.
            await asyncio.wait([closing], timeout=seconds_left(deadline))
            if not closing.done():
                await self._program.end(kill_seconds)
        await closing

    async def _restart(self, deadline: float) -> None:
        """Restart a program that has ended, at most `max_restarts` times: then the call says how it ended."""
        await wait_until(deadline, self._restarting.acquire(), "the server was not started again")
        try:
            # Another call may have restarted the program while this one waited for the lock.
            if self._start is None or self.session.is_connected:
                return
            # A program that ends at once would be started again with each call.
            if not self._restarts.take(asyncio.get_running_loop().time()):
                loss = self.session.refusal()
                await _explain(loss, self._program)
                how, *report = str(loss).split("\n")
                how += f", and is started again at most {self._restarts.most} times in a minute (max_restarts)"
                loss.args = ("\n".join([how, *report]),)
                raise loss
            await self.session.close()
            self._program = self._start()
            self._handshake = self._make_handshake()
            self.session = self._make_session(self._program, self._handshake)
            await self._connect(deadline)
        finally:
            self._restarting.release()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        revision = "" if self._server is None else f", {self._server.revision.version}"
        return f"<{type(self).__name__} with {self.session!r}{revision}>"

    async def close(self) -> None:
        """Settle the calls in flight and close the connection. By then, a program that `connect` started has exited."""
        # Set first: a call that fails because of the close must not start the program again.
        self._is_closed = True
        await self.session.close()

    @property
    def server(self) -> ServerContext:
        """The server: its revision, capabilities, name and instructions.

        `client.server.capabilities.supports("tools.listChanged")` asks for one capability.

        Raises:
            StateError: The client is not connected.
        """
        if self._server is None:
            raise StateError("the client is not connected: use it in `async with`, or await its `start`")
        return self._server

    async def _send(
        self,
        method: str,
        params: Any,
        is_call: bool,
        is_typed: bool,
        *,
        timeout: float | Unset | None = UNSET,
        on_progress: Callable[[Any], object] | None = None,
        **options: Any,
    ) -> Any:
        _check_method(method)
        if params is not None and not isinstance(params, Mapping):
            raise TypeError(f"the params of MCP are a dict, not {type(params).__name__}")
        if not is_call:
            await self.session.notify(method, None if params is None else dict(params), timeout=timeout, **options)
            return None
        deadline = self._deadline(timeout)
        if on_progress is None:
            return await self._call(method, params, deadline, **options)
        progress = ProgressQueue(on_progress, self.session.report)
        try:
            result = await self._call(method, params, deadline, **options, on_progress=progress.add)
            # An async `on_progress` may still be busy: the caller must not see the result before the last progress.
            await progress.finish(seconds_left(deadline))
            return result
        finally:
            progress.cancel()

    async def _call(
        self, method: str, params: Mapping[str, Any] | None, deadline: float, **options: Any
    ) -> dict[str, Any]:
        server = self.server
        # A report on the program, which has ended because of that, would read like a failure of the program.
        if self._is_closed:
            raise ConnectionLost("this client was closed: make a new one", was_sent=False)
        # Restarted before the request is sent, so no request is sent twice.
        if self._start is not None and not self.session.is_connected:
            await self._restart(deadline)
            server = self.server
        is_modern = server.revision.is_modern
        meta = {LOG_LEVEL_KEY: self._log_level} if is_modern and self._log_level is not None else {}
        given = dict(params or {})
        # Kept here: after a restart, the error of this call must not contain another program's output.
        program = self._program
        repeats = 0
        while True:
            try:
                sent = server.params(given or params, **meta)
                result = decoded(await self.session.call(method, sent, timeout=seconds_left(deadline), **options))
            except ConnectionLost as error:
                if not self._is_closed:
                    await _explain(error, program)
                raise
            if not isinstance(result, dict):  # a transport without an MCP profile
                raise invalid_result(method, "it must be an object")
            kind = result.get("resultType", "complete") if is_modern else "complete"
            if kind != "input_required":
                if kind != "complete" and not (self._declares_extensions and isinstance(kind, str)):
                    raise invalid_result(method, "/resultType is unknown")
                return result
            if repeats == MAX_ROUNDS:
                raise invalid_result(method, f"it asks for input more than {MAX_ROUNDS} times")
            inputs = await wait_until(
                deadline,
                self.session.inputs(method, result, repeats),
                "the handlers did not return the requested input",
            )
            # From the original params: the state and the responses of an earlier round must not be repeated.
            given = {**(params or {}), **inputs}
            repeats += 1

    def _deadline(self, timeout: float | Unset | None) -> float:
        """Return the deadline of a method that begins now, by the loop's clock; infinite without a timeout."""
        seconds = self._timeout if timeout is UNSET else timeout
        if seconds is None:
            return inf
        check_seconds("timeout", seconds, may_be_infinite=True)
        return asyncio.get_running_loop().time() + seconds

    def _is_of_extension(self, result: dict[str, Any]) -> bool:
        """Return whether a result has the members of an extension instead of those of its method."""
        return self.server.revision.is_modern and result.get("resultType", "complete") != "complete"

    async def ping(self, *, timeout: float | Unset | None = UNSET) -> None:
        """Send a ping and wait for the response. 2026-07-28 has no `ping`: `server/discover` is sent instead."""
        await self.call("server/discover" if self.server.revision.is_modern else "ping", timeout=timeout)

    async def list_prompts(self, *, timeout: float | Unset | None = UNSET) -> list[dict[str, Any]]:
        """Return all prompts, each with its `name`: every page of `prompts/list`.

        Args:
            timeout: Seconds for all pages together.

        Raises:
            ValueError: A page is invalid, or the pages exceed MAX_PAGES or MAX_LIST_BYTES.
        """
        return await self._list("prompts/list", timeout)

    async def list_resources(self, *, timeout: float | Unset | None = UNSET) -> list[dict[str, Any]]:
        """Return all resources, each with its `uri` and `name`; see `list_prompts`."""
        return await self._list("resources/list", timeout)

    async def list_resource_templates(self, *, timeout: float | Unset | None = UNSET) -> list[dict[str, Any]]:
        """Return all resource templates, each with its `uriTemplate` and `name`; see `list_prompts`."""
        return await self._list("resources/templates/list", timeout)

    async def list_tools(self, *, timeout: float | Unset | None = UNSET) -> list[dict[str, Any]]:
        """Return all tools, each with its `name` and `inputSchema`; see `list_prompts`.

        From then on `call_tool` checks structured results against the `outputSchema` of these tools.
        """
        tools = await self._list("tools/list", timeout)
        # Compiled at the first call, because most tools of a list are never called.
        schemas = {tool["name"]: tool.get("outputSchema") for tool in tools}
        self._output_schemas = {name: schema for name, schema in schemas.items() if isinstance(schema, dict)}
        return tools

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *more: Never, **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        """Return a prompt with its `messages`.

        Args:
            name: The name of the prompt.
            arguments: The arguments: strings by name.
        """
        _check_call("get_prompt", more, options)
        params = _named_params(name, arguments)
        if not all(isinstance(value, str) for value in params.get("arguments", {}).values()):
            raise TypeError("the arguments of a prompt must be strings")
        result: dict[str, Any] = await self.call("prompts/get", params, **options)
        if self._is_of_extension(result):
            return result
        check_items("prompts/get", result, "messages", message_fault)
        return result

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *more: Never, **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        """Call a tool and return its result: `content`, perhaps `structuredContent`, and `isError` if it failed.

        An unusable `outputSchema` is reported to the hooks as a fault before the call; the result is then not checked
        against it.

        Args:
            name: The name of the tool.
            arguments: The arguments by name.
        """
        _check_call("call_tool", more, options)
        params = _named_params(name, arguments)
        schema = self._output_schema(name)
        deadline = self._deadline(options.get("timeout", UNSET))
        try:
            result = await self.call("tools/call", params, **options)
        except RpcError as error:
            # A server of 2026-07-28 over HTTP may have changed the headers that a tool requires.
            if error.code != McpErrorCode.HEADER_MISMATCH or not self.server.revision.is_modern:
                raise
            # The schema names the arguments that are repeated in headers of the call.
            await self.list_tools(timeout=seconds_left(deadline))
            options["timeout"] = seconds_left(deadline)
            result = await self.call("tools/call", params, **options)
        return result if self._is_of_extension(result) else checked_tool_result(schema, result)

    async def start_task(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | Unset | None = UNSET,
    ) -> ClientTask:
        """Call a tool as a task of 2026-07-28, whose result is available later.

            task = await client.start_task("compute", {"steps": 1000})
            result = await task.result()

        The client must declare the extension: `connect(…, capabilities=ClientCapabilities(extensions=
        {"io.modelcontextprotocol/tasks": {}}))`. The server then decides whether the call is a task.

        Args:
            name: The name of the tool.
            arguments: The arguments by name.
            timeout: Seconds until the task is created.

        Raises:
            StateError: The server has no tasks, or the client does not declare the extension.
        """
        if not self.server.capabilities.supports(TASKS_CAPABILITY) or not self._declares_extensions:
            raise StateError("the server does not run tools as tasks, or the client does not declare the extension")
        schema = self._output_schema(name)
        result = await self.call("tools/call", _named_params(name, arguments), timeout=timeout)
        check = partial(checked_tool_result, schema)
        is_task = result.get("resultType") == "task"
        return ClientTask(
            self.call, self.session.inputs, result if is_task else {}, None if is_task else check(result), check
        )

    async def read_resource(self, uri: str, **options: Unpack[CallOptions]) -> dict[str, Any]:
        """Return a resource with its `contents`, each with a `text` or a `blob` in base64.

        Args:
            uri: The URI of the resource.
        """
        if faults := uri_faults(uri):
            raise ValueError("; ".join(faults))
        result: dict[str, Any] = await self.call("resources/read", {"uri": uri}, **options)
        if self._is_of_extension(result):
            return result
        check_items("resources/read", result, "contents", contents_fault)
        return result

    async def complete(
        self,
        reference: Mapping[str, str],
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Return completions of an argument: `values`, and perhaps `total` and `hasMore`.

        Args:
            reference: `{"type": "ref/prompt", "name": …}` or `{"type": "ref/resource", "uri": …}`.
            argument: The name of the argument.
            value: The beginning of its value.
            context: The arguments that are known already (from 2025-06-18 on).
        """
        params: dict[str, Any] = {"ref": dict(reference), "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        return check_completion(await self.call("completion/complete", params, **options))

    @asynccontextmanager
    async def listen(self, *uris: str, timeout: float | Unset | None = UNSET) -> AsyncIterator[None]:
        """Subscribe to resources, and to the changes of lists, inside `async with`, in every revision.

            async with client.listen("notes://today"):
                ...  # `on_notification` gets notifications/resources/updated and notifications/tools/list_changed

        Up to 2025-11-25 a server announces the changes of its lists to every client.

        Args:
            uris: The URIs of the resources.
            timeout: As in `call`, for each request.
        """
        for uri in uris:
            if faults := uri_faults(uri):
                raise ValueError("; ".join(faults))
        if not self.server.revision.is_modern:
            begun: list[str] = []
            try:
                for uri in uris:
                    await self.call("resources/subscribe", {"uri": uri}, timeout=timeout)
                    begun.append(uri)
                yield
            finally:
                # A server that is gone, or too slow, has nothing to end.
                with suppress(RpcError, CallTimeout, ConnectionLost, StateError):
                    for uri in begun:
                        await self.call("resources/unsubscribe", {"uri": uri}, timeout=timeout)
            return
        session = self.session
        session.acknowledged.clear()
        wanted = {**changes_filter(self.server.capabilities), **({RESOURCES_FILTER: [*uris]} if uris else {})}
        stream = asyncio.ensure_future(self.call(LISTEN_METHOD, {"notifications": wanted}, timeout=None))
        acknowledged = asyncio.ensure_future(session.acknowledged.wait())
        deadline = self._deadline(timeout)
        try:
            seconds = None if deadline == inf else seconds_left(deadline)
            await asyncio.wait([stream, acknowledged], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if stream.done():
                stream.result()  # raises why it is refused
            elif not acknowledged.done():
                raise timed_out("the server did not acknowledge the subscription", seconds or 0.0)
            yield
        finally:
            acknowledged.cancel()
            stream.cancel()
            await asyncio.gather(stream, acknowledged, return_exceptions=True)

    async def set_level(self, level: str, *, timeout: float | Unset | None = UNSET) -> None:
        """Set the minimum level of the server's log messages.

        In 2026-07-28 there is no request for it: each later request carries the level, and the server sends the log
        messages that belong to that request.

        Args:
            level: One of `LOG_LEVELS`.
        """
        if level not in LOG_LEVELS:
            raise ValueError(UNKNOWN_LEVEL)
        if not self.server.revision.is_modern:
            await self.call("logging/setLevel", {"level": level}, timeout=timeout)
        # Stored only now: a level that the server has refused must not be kept.
        self._log_level = level

    def _output_schema(self, tool: str) -> Schema | None:
        """Return the compiled output schema of a tool; None without a usable one."""
        schema = self._output_schemas.get(tool)
        if isinstance(schema, dict):
            try:
                schema = Schema(schema)
            except ValueError as error:
                schema = None
                self.session.report_server(invalid_result("tools/list", f"an outputSchema cannot be used: {error}"))
            self._output_schemas[tool] = schema
        return schema

    async def _list(self, method: str, timeout: float | Unset | None) -> list[dict[str, Any]]:
        deadline = self._deadline(timeout)
        return Entries(await all_pages(method, lambda params: self._call(method, params, deadline)))


async def _explain(
    error: ConnectionLost | HandshakeError, program: ProgramTransport | None, seconds: float = EXIT_SECONDS
) -> None:
    """Add a description of the program to an error about it."""
    if program is None or error.program is not None:
        return
    error.program = report = await program.report(min(EXIT_SECONDS, seconds))
    error.args = (explained(str(error), report),)


def _check_method(method: str) -> None:
    if not method:
        raise ValueError("method must not be empty")


def _check_call(method: str, more: tuple[object, ...], options: Mapping[str, Any]) -> None:
    """Refuse arguments of a tool, or of a prompt, that are given as arguments of the method."""
    if more or options.keys() - CallOptions.__annotations__.keys():
        raise TypeError(f'{method} takes the arguments as one dict: {method}("add", {{"a": 1}})')


def _named_params(name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the params of a request for something with a name."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise TypeError(f"arguments must be a mapping, not {type(arguments).__name__}")
    return {"name": name} if arguments is None else {"name": name, "arguments": dict(arguments)}
