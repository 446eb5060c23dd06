"""A client for scripts and tests: one connection to one server.

    async with connect("python", "server.py") as client:
        tools = await client.list_tools()
        result = await client.call_tool("add", {"a": 1, "b": 2})

Rules:
  - what comes back are the results as JSON has them: dicts, with the protocol's own spelling of the members. Typed
    are `client.server.capabilities` and `client.server.info`, and what is given to `connect`;
  - a tool that failed is a result with `isError`; an error of the protocol is an RpcError;
  - an answer that breaks the protocol is a ValueError: a ParseError where it breaks JSON-RPC's rules;
  - the server may ask this side for what there are `handlers` for, and gets -32601 for the rest: up to 2025-11-25 with
    requests of its own, in 2026-07-28 with a result that wants input. Then the request is sent again with the input,
    MAX_ROUNDS times at the most, before its method returns;
  - a result of another type is that of an extension. It is returned as it came if this side declares an extension, and
    is a ValueError otherwise;
  - a timeout is that of the whole method: of all pages of a list, and of all rounds with the handlers between them;
  - a call that is cancelled or that times out is cancelled at the server, too;
  - in mode "auto" a program that ends when it is probed is started again, once, and gets `initialize` first.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from ..._version import __version__
from ...codec._json import dumps
from ...errors import CallTimeout, ConnectionLost, EncodeError, StateError
from ...profile import MCP_2025_11_25
from ...session import DEFAULT_TIMEOUT, SessionOptions
from ...transports.options import check_seconds
from ...transports.protocol import Transport
from ...types import UNSET, Unset
from ..protocol.capabilities import ClientCapabilities, Implementation
from ..protocol.meta import LOG_LEVEL_KEY, LOG_LEVELS
from ..protocol.schemas import Schema
from ..protocol.uris import validate_uri
from ..protocol.versions import REVISIONS, VERSIONS
from ..server.contents import MAX_ITEMS, block_fault, contents_fault, items_fault, message_fault
from .handshake import ClientHandshake, ServerContext
from .session import (
    ClientSession,
    NotificationHandler,
    Reports,
    ServerRequestHandler,
    capabilities_of,
    plain,
    wrong_answer,
)

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")

MAX_PAGES: Final = 1000
"""How many pages of a list are asked for. A server that has more, or that turns in a circle, is wrong."""
MAX_LIST_BYTES: Final = 64 * 1024 * 1024
"""How long all pages of a list may be together, as JSON: a page may be as large as a message."""
MAX_ROUNDS: Final = 10
"""How often a request that wants input is sent again."""


_SAFE_VARIABLES: Final = (
    (
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERNAME",
        "USERPROFILE",
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)
"""What a server gets of this process's environment: no token, no key. It is what the official SDKs hand on."""


def connect(
    server: str | os.PathLike[str] | Transport,
    *arguments: str | os.PathLike[str],
    mode: str = "auto",
    handlers: Mapping[str, ServerRequestHandler | NotificationHandler] | None = None,
    on_notification: Callable[[str, dict[str, Any]], object] | None = None,
    info: Implementation | None = None,
    capabilities: ClientCapabilities | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Literal["inherit", "discard"] | Callable[[str], None] = "inherit",
    **options: Unpack[SessionOptions],
) -> Client:
    """A client of a server that is a program, or at the other end of a transport: to be used in `async with`.

    Args:
        server: The program, searched for on PATH; or a transport that is not started yet.
        arguments: Those of the program.
        mode: "auto": the server's latest revision, found with a probe; "legacy": with the `initialize` handshake and
            no probe; "modern": without that handshake; or a revision, and no other: "2025-06-18".
        handlers: Functions by method. For what the server may ask ("roots/list", "sampling/createMessage",
            "elicitation/create"): called with the params, they return the result. An RpcError out of one is the answer;
            in 2026-07-28, where no answer to that can be an error, it comes out of the call that wanted the input. For
            what the server tells ("notifications/…"): called with the params. All may be async.
        on_notification: Called with the method and the params of what the server tells and `handlers` does not have;
            sync or async. Not with the progress of a call that has an `on_progress`.
        info: Who this client is.
        capabilities: What it can do; if not given, what there are handlers for. Extensions are declared here.
        env: Variables for the program beside those that any program gets: PATH, HOME, LOGNAME, SHELL, TERM and USER;
            on Windows APPDATA, PATH, SYSTEMROOT, TEMP, USERPROFILE and the like. `os.environ` hands on all.
        cwd: The program's working directory; None: this process's own.
        stderr: Where the program's stderr goes, as of `StdioClient`.
        options: Those of `Session`: `timeout` (seconds that a method may take unless it says otherwise, 300 by default;
            None: for ever), `hooks`, `max_handlers`, … The convention is MCP's and the reply policy "never", unless
            they are given.

    Returns:
        The client, which is not connected yet. `async with` raises OSError when the program cannot be run,
        HandshakeError when there is no revision in common, ConnectionLost, CallTimeout.

    Raises:
        TypeError: There are arguments of a program, but no program; or an option is of the wrong type.
        ValueError: The mode is unknown, or an option out of range.
    """
    restart: Callable[[], Transport] | None = None
    if isinstance(server, (str, os.PathLike)):
        from ...transports.stdio.client import StdioClient  # a client of another transport does without it

        # Which revision is spoken is not known yet, and one of them has batches.
        profile = REVISIONS[mode].profile if mode in REVISIONS else MCP_2025_11_25.replace(name="mcp", batches=True)
        restart = partial(
            StdioClient,
            [server, *arguments],
            env={**_safe_environment(), **(env or {})},
            cwd=cwd,
            stderr=stderr,
            profile=profile,
        )
        server = restart()
    elif arguments or env is not None or cwd is not None or stderr != "inherit":
        raise TypeError("arguments, env, cwd and stderr are those of a program, not of a transport")
    return Client(
        server,
        mode=mode,
        handlers=handlers,
        on_notification=on_notification,
        info=info,
        capabilities=capabilities,
        restart=restart,
        **options,
    )


class Client:
    """A client over a transport. `async with` starts it, ends it, and ends a server that `connect` started.

    What the methods have in common:

    timeout          seconds until CallTimeout; None: for ever; the client's own if not given
    idle_timeout     seconds without progress, which the server is asked for
    on_progress      called with each progress: a dict of `progress`, and perhaps `total` and `message`. An async one is
                     awaited, one progress after the other, before the method returns. What it raises is a fault (see
                     `hooks`)

    They raise RpcError, CallTimeout, ConnectionLost, StateError before `async with`, TypeError or ValueError for
    arguments that the protocol does not allow, and ValueError for answers that break it.

    Args:
        transport: Not started, made with an MCP profile.
        restart: Makes another transport to the server anew, for a server that ends when it is probed.

    The other arguments are those of `connect`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        mode: str = "auto",
        handlers: Mapping[str, ServerRequestHandler | NotificationHandler] | None = None,
        on_notification: Callable[[str, dict[str, Any]], object] | None = None,
        info: Implementation | None = None,
        capabilities: ClientCapabilities | None = None,
        restart: Callable[[], Transport] | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        info = Implementation(name="jsonrpc_fast", version=__version__) if info is None else info
        capabilities = capabilities_of(handlers or {}) if capabilities is None else capabilities
        self._declares_extensions = bool(capabilities.extensions)
        self._handshake = _handshake(mode, info, capabilities)
        self._make_session = partial(
            ClientSession,
            handshake=self._handshake,
            handlers=handlers or {},
            on_notification=on_notification,
            **options,
        )
        self.session: ClientSession = self._make_session(transport)
        self._restart = restart
        self._timeout = options.get("timeout", DEFAULT_TIMEOUT)
        self._log_level: str | None = None
        self._output_schemas: dict[str, dict[str, Any] | Schema | None] = {}

    async def __aenter__(self) -> Self:
        try:
            await self._begin()
        except BaseException:
            await self.session.close()
            raise
        return self

    async def _begin(self) -> None:
        await self.session.start()
        try:
            await self.session.shake_hands(self._handshake.start())
        except ConnectionLost:
            step = None if self._restart is None else self._handshake.restarted()
            if step is None or self._restart is None:
                raise
            await self.session.close()
            self.session = self._make_session(self._restart())
            await self.session.start()
            await self.session.shake_hands(step)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Settles the calls in flight and closes the connection. A program that `connect` started has ended then."""
        await self.session.close()

    @property
    def server(self) -> ServerContext:
        """What is known of the server: its revision, capabilities, name and instructions.

        `client.server.capabilities.supports("tools.listChanged")` asks for one capability. StateError before
        `async with`.
        """
        server = self._handshake.server
        if server is None:
            raise StateError("the client is not connected")
        return server

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | Unset | None = UNSET,
        idle_timeout: float | None = None,
        on_progress: Callable[[dict[str, Any]], object] | None = None,
    ) -> dict[str, Any]:
        """Any request, for what has no method of its own, and its result.

        One page of a list is `call("tools/list", {"cursor": …})`. In 2026-07-28 a subscription is
        `call("subscriptions/listen", {"notifications": {…}}, timeout=None)`, in a task: what it brings goes to
        `on_notification`, and it lasts until the task is cancelled.
        """
        _check_method(method)
        deadline = self._deadline(timeout)
        if on_progress is None:
            return await self._call(method, params, deadline, idle_timeout, None)
        reports = Reports(on_progress, self.session.report)
        try:
            result = await self._call(method, params, deadline, idle_timeout, reports.add)
            await reports.finish(_left(deadline))
            return result
        finally:
            reports.cancel()

    async def _call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        deadline: float,
        idle_timeout: float | None,
        on_progress: Callable[[Any], object] | None,
    ) -> dict[str, Any]:
        server = self.server
        is_modern = server.revision.is_modern
        meta = {LOG_LEVEL_KEY: self._log_level} if is_modern and self._log_level is not None else {}
        given = dict(params or {})
        repeats = 0
        while True:
            result = plain(
                await self.session.call(
                    method,
                    server.params(given or params, **meta),
                    timeout=_left(deadline),
                    idle_timeout=idle_timeout,
                    on_progress=on_progress,
                )
            )
            if not isinstance(result, dict):  # the profile of the transport is not that of the protocol
                raise wrong_answer(method, "it must be an object")
            kind = result.get("resultType", "complete") if is_modern else "complete"
            if kind != "input_required":
                if kind != "complete" and not (self._declares_extensions and isinstance(kind, str)):
                    raise wrong_answer(method, "/resultType is of a kind that this client does not know")
                return result
            if repeats == MAX_ROUNDS:
                raise wrong_answer(method, "it wants input again and again")
            inputs = await _within(deadline, self.session.inputs(method, result, repeats))
            given = {**(params or {}), **inputs}
            repeats += 1

    def _deadline(self, timeout: float | Unset | None) -> float:
        """When a method that begins now has to be done, by the loop's clock in seconds. Raises as `check_seconds`."""
        seconds = self._timeout if timeout is UNSET else timeout
        if seconds is None:
            return inf
        check_seconds("timeout", seconds, may_be_infinite=True)
        return asyncio.get_running_loop().time() + seconds

    def _is_of_extension(self, result: dict[str, Any]) -> bool:
        """Whether a result has members of its own instead of those of its method."""
        return self.server.revision.is_modern and result.get("resultType", "complete") != "complete"

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Tells the server something: `notify("notifications/roots/list_changed")`."""
        _check_method(method)
        await self.session.notify(method, None if params is None else dict(params))

    async def ping(self, *, timeout: float | Unset | None = UNSET) -> None:
        """Returns when the server has answered. 2026-07-28 has no `ping`: there it is `server/discover`."""
        await self.call("server/discover" if self.server.revision.is_modern else "ping", timeout=timeout)

    async def list_prompts(self, *, timeout: float | Unset | None = UNSET) -> list[dict[str, Any]]:
        """All prompts, each with its `name`: every page of `prompts/list`, within MAX_PAGES and MAX_LIST_BYTES."""
        return await self._list("prompts/list", "prompts", "name", timeout)

    async def list_resources(self, *, timeout: float | Unset | None = UNSET) -> list[dict[str, Any]]:
        """All resources, each with its `uri` and `name`. As `list_prompts`."""
        return await self._list("resources/list", "resources", "uri", timeout)

    async def list_resource_templates(self, *, timeout: float | Unset | None = UNSET) -> list[dict[str, Any]]:
        """All templates of resources, each with its `uriTemplate` and `name`. As `list_prompts`."""
        return await self._list("resources/templates/list", "resourceTemplates", "uriTemplate", timeout)

    async def list_tools(self, *, timeout: float | Unset | None = UNSET) -> list[dict[str, Any]]:
        """All tools, each with its `name` and `inputSchema`. As `list_prompts`.

        Of the tools that were listed last, `call_tool` checks results by their `outputSchema`.
        """
        tools = await self._list("tools/list", "tools", "name", timeout)
        schemas = {tool["name"]: tool.get("outputSchema") for tool in tools}
        self._output_schemas = {name: schema for name, schema in schemas.items() if isinstance(schema, dict)}
        return tools

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | Unset | None = UNSET,
        on_progress: Callable[[dict[str, Any]], object] | None = None,
    ) -> dict[str, Any]:
        """A prompt with its `messages`. Its arguments are texts."""
        params = _named(name, arguments)
        if not all(isinstance(value, str) for value in params.get("arguments", {}).values()):
            raise TypeError("the arguments of a prompt must be strings")
        result = await self.call("prompts/get", params, timeout=timeout, on_progress=on_progress)
        if self._is_of_extension(result):
            return result
        _check_items("prompts/get", result, "messages", message_fault)
        return result

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | Unset | None = UNSET,
        idle_timeout: float | None = None,
        on_progress: Callable[[dict[str, Any]], object] | None = None,
    ) -> dict[str, Any]:
        """What a tool returns: `content`, perhaps `structuredContent`, and `isError` when it failed.

        An `outputSchema` that cannot be used is reported to the hooks as a fault before the call; what the tool returns
        is not checked by it then.
        """
        schema = self._output_schema(name)
        result = await self.call(
            "tools/call",
            _named(name, arguments),
            timeout=timeout,
            idle_timeout=idle_timeout,
            on_progress=on_progress,
        )
        if self._is_of_extension(result):
            return result
        _check_items("tools/call", result, "content", block_fault)
        if schema is not None and not result.get("isError"):
            if "structuredContent" not in result:
                raise wrong_answer("tools/call", "/structuredContent is missing")
            for fault in schema.faults(result["structuredContent"]):
                raise wrong_answer("tools/call", f"/structuredContent{fault.path}: {fault.message}")
        return result

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: float | Unset | None = UNSET,
        on_progress: Callable[[dict[str, Any]], object] | None = None,
    ) -> dict[str, Any]:
        """A resource with its `contents`, each with a `text` or a `blob` in base64."""
        if faults := validate_uri(uri).errors:
            raise ValueError("; ".join([fault.value for fault in faults]))
        result = await self.call("resources/read", {"uri": uri}, timeout=timeout, on_progress=on_progress)
        if self._is_of_extension(result):
            return result
        _check_items("resources/read", result, "contents", contents_fault)
        return result

    async def complete(
        self,
        reference: Mapping[str, str],
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
        *,
        timeout: float | Unset | None = UNSET,
    ) -> dict[str, Any]:
        """What an argument may be: `values`, and perhaps `total` and `hasMore`.

        reference  {"type": "ref/prompt", "name": …} or {"type": "ref/resource", "uri": …}
        argument   its name
        value      what of its value is known
        context    the other arguments that are known already, from 2025-06-18 on
        """
        params: dict[str, Any] = {"ref": dict(reference), "argument": {"name": argument, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        result = await self.call("completion/complete", params, timeout=timeout)
        completion = result.get("completion")
        values = completion.get("values") if isinstance(completion, dict) else None
        if not isinstance(values, list) or len(values) > MAX_ITEMS or not all(isinstance(item, str) for item in values):
            raise wrong_answer("completion/complete", "/completion/values must be an array of strings")
        return dict(completion) if isinstance(completion, dict) else {}

    async def set_level(self, level: str, *, timeout: float | Unset | None = UNSET) -> None:
        """The least severe log messages that the server is to send, from now on; one of `LOG_LEVELS`.

        In 2026-07-28 every later request says so, and gets the messages that belong to it.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"level must be one of {', '.join(LOG_LEVELS)}")
        if not self.server.revision.is_modern:
            await self.call("logging/setLevel", {"level": level}, timeout=timeout)
        self._log_level = level

    def _output_schema(self, tool: str) -> Schema | None:
        """The schema for the results of a tool, compiled; None if there is none, or it cannot be used."""
        schema = self._output_schemas.get(tool)
        if isinstance(schema, dict):
            try:
                schema = Schema(schema)
            except ValueError as error:
                schema = None
                self.session.report_peer(wrong_answer("tools/list", f"an outputSchema cannot be used: {error}"))
            self._output_schemas[tool] = schema
        return schema

    async def _list(self, method: str, name: str, key: str, timeout: float | Unset | None) -> list[dict[str, Any]]:
        deadline = self._deadline(timeout)
        found: list[dict[str, Any]] = []
        params: dict[str, str] | None = None
        cursors: set[str] = set()
        size = 0
        for _ in range(MAX_PAGES):
            page = await self._call(method, params, deadline, None, None)
            _check_objects(method, page, name, key)
            found += page[name]
            cursor = page.get("nextCursor")
            if cursor is None:
                return found
            if not isinstance(cursor, str):
                raise wrong_answer(method, "/nextCursor must be a string")
            if cursor in cursors:
                raise wrong_answer(method, "/nextCursor was given before")
            try:
                size += len(dumps(page))
            except EncodeError:  # JSON is read four times as deep as it is written
                raise wrong_answer(method, "a page nests too deep") from None
            if size > MAX_LIST_BYTES:
                raise wrong_answer(method, f"its pages have more than {MAX_LIST_BYTES} bytes")
            cursors.add(cursor)
            params = {"cursor": cursor}
        raise wrong_answer(method, f"there are more than {MAX_PAGES} pages")


def _handshake(mode: str, info: Implementation, capabilities: ClientCapabilities) -> ClientHandshake:
    if mode in REVISIONS:
        return ClientHandshake(info, capabilities, versions=[mode])
    if mode not in ("auto", "legacy", "modern"):
        raise ValueError(f'mode must be "auto", "legacy", "modern" or one of {", ".join(VERSIONS)}')
    return ClientHandshake(info, capabilities, cast("Literal['auto', 'legacy', 'modern']", mode))


def _safe_environment() -> dict[str, str]:
    found = {name: os.environ[name] for name in _SAFE_VARIABLES if name in os.environ}
    return {name: value for name, value in found.items() if not value.startswith("()")}  # a function of an old shell


def _left(deadline: float) -> float | None:
    """The seconds until a deadline; None: for ever."""
    return None if deadline == inf else max(0.0, deadline - asyncio.get_running_loop().time())


async def _within(deadline: float, work: Awaitable[T]) -> T:
    """What is awaited. Raises CallTimeout at the deadline, when it is cancelled."""
    if (seconds := _left(deadline)) is None:
        return await work
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise CallTimeout("the input that the server wants did not come in time")
        return task.result()
    finally:
        task.cancel()


def _check_method(method: str) -> None:
    if not method:
        raise ValueError("the method is empty")


def _named(name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """The params of a request for something by its name."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise TypeError(f"arguments must be a mapping, not {type(arguments).__name__}")
    return {"name": name} if arguments is None else {"name": name, "arguments": dict(arguments)}


def _check_items(method: str, result: dict[str, Any], name: str, fault_of: Callable[[Any, str], str | None]) -> None:
    """Raises ValueError unless a member is an array of which every item is without fault."""
    items = result.get(name)
    fault = items_fault(items, f"/{name}")
    if fault is None:
        faults = (fault_of(item, f"/{name}/{index}") for index, item in enumerate(items or ()))
        fault = next((found for found in faults if found is not None), None)
    if fault is not None:
        raise wrong_answer(method, fault)


def _check_objects(method: str, result: dict[str, Any], name: str, key: str | None = None) -> None:
    """Raises ValueError unless a member is an array of objects that have a text at `key`."""
    items = result.get(name)
    if not isinstance(items, list) or len(items) > MAX_ITEMS:
        raise wrong_answer(method, items_fault(items, f"/{name}") or "")
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise wrong_answer(method, f"/{name}/{index} must be an object")
        if key is not None and not isinstance(item.get(key), str):
            raise wrong_answer(method, f"/{name}/{index}/{key} must be a string")
