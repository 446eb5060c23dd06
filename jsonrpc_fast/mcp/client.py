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
  - a call that is cancelled or that times out is cancelled at the server, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from .. import __version__
from .._json import dumps
from ..codes import UNSET, Unset
from ..errors import EncodeError, StateError
from ..profile import MCP_2025_11_25
from ..session import DEFAULT_TIMEOUT, Hooks
from ..transports.base import Transport
from .capabilities import ClientCapabilities, Implementation
from .client_session import ClientSession, ServerRequestHandler, capabilities_of, plain, wrong_answer
from .handshake import LOG_LEVEL_KEY, LOG_LEVELS, ClientHandshake, ServerContext
from .resources import validate_uri
from .schemas import Schema
from .versions import REVISIONS, VERSIONS

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_PAGES: Final = 1000
"""How many pages of a list are asked for. A server that has more, or that turns in a circle, is wrong."""
MAX_LIST_BYTES: Final = 64 * 1024 * 1024
"""How long all pages of a list may be together, as JSON: a page may be as large as a message."""
MAX_ROUNDS: Final = 10
"""How often a request that wants input is sent again."""


def connect(
    server: str | os.PathLike[str] | Transport,
    *arguments: str | os.PathLike[str],
    mode: str = "auto",
    handlers: Mapping[str, ServerRequestHandler] | None = None,
    on_notification: Callable[[str, dict[str, Any]], object] | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    info: Implementation | None = None,
    capabilities: ClientCapabilities | None = None,
    hooks: Hooks | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Literal["inherit", "discard"] | Callable[[str], None] = "inherit",
) -> Client:
    """A client of a server that is a program, or at the other end of a transport: to be used in `async with`.

    server           the program, searched for on PATH; or a transport that is not started yet
    arguments        of the program
    mode             "auto": the server's latest revision, found with a probe; "legacy": with the `initialize` handshake
                     and no probe, for a server that cannot bear one; "modern": without that handshake; or a revision,
                     and no other: "2025-06-18"
    handlers         for what the server may ask, by method: "roots/list", "sampling/createMessage",
                     "elicitation/create". An RpcError out of one is the answer; in 2026-07-28, where no answer to that
                     can be an error, it comes out of the call that wanted the input
    on_notification  called with the method and the params of what the server tells; sync or async. Not with the
                     progress of a call that has an `on_progress`
    timeout          seconds that a call may take, unless it says otherwise; None: for ever
    info             who this client is
    capabilities     what it can do; if not given, what there are handlers for
    hooks            as of `Session`: what is wrong with messages, for one
    env, cwd, stderr as of `StdioClient`

    Raises ValueError for an unknown mode. `async with` raises OSError when the program cannot be run, HandshakeError
    when there is no revision in common, ConnectionLost, CallTimeout.
    """
    if isinstance(server, (str, os.PathLike)):
        from ..transports.stdio import StdioClient  # a client of another transport does without it

        # Which revision is spoken is not known yet, and one of them has batches.
        profile = REVISIONS[mode].profile if mode in REVISIONS else MCP_2025_11_25.replace(name="mcp", batches=True)
        server = StdioClient([server, *arguments], env=env, cwd=cwd, stderr=stderr, profile=profile)
    elif arguments or env is not None or cwd is not None or stderr != "inherit":
        raise TypeError("arguments, env, cwd and stderr are those of a program, not of a transport")
    return Client(
        server,
        mode=mode,
        handlers=handlers,
        on_notification=on_notification,
        timeout=timeout,
        info=info,
        capabilities=capabilities,
        hooks=hooks,
    )


class Client:
    """A client over a transport. The arguments are those of `connect`; its transport is made with an MCP profile.

    `async with` starts it, ends it, and ends a server that `connect` started. What the methods have in common:

    timeout          seconds until CallTimeout; None: for ever; the client's own if not given
    idle_timeout     seconds without progress, which the server is asked for
    on_progress      called with each progress: a dict of `progress`, and perhaps `total` and `message`

    They raise RpcError, CallTimeout, ConnectionLost, StateError before `async with`, TypeError or ValueError for
    arguments that the protocol does not allow, and ValueError for answers that break it.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        mode: str = "auto",
        handlers: Mapping[str, ServerRequestHandler] | None = None,
        on_notification: Callable[[str, dict[str, Any]], object] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        info: Implementation | None = None,
        capabilities: ClientCapabilities | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        info = Implementation(name="jsonrpc_fast", version=__version__) if info is None else info
        capabilities = capabilities_of(handlers or {}) if capabilities is None else capabilities
        self._handshake = _handshake(mode, info, capabilities)
        self.session: ClientSession = ClientSession(
            transport, self._handshake, handlers or {}, on_notification, timeout=timeout, hooks=hooks
        )
        self._log_level: str | None = None
        self._output_schemas: dict[str, dict[str, Any] | Schema] = {}

    async def __aenter__(self) -> Self:
        try:
            await self.session.start()
            await self.session.shake_hands()
        except BaseException:
            await self.session.close()
            raise
        return self

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
                    timeout=timeout,
                    idle_timeout=idle_timeout,
                    on_progress=on_progress,
                )
            )
            if not isinstance(result, dict):  # the profile of the transport is not that of the protocol
                raise wrong_answer(method, "it must be an object")
            kind = result.get("resultType", "complete") if is_modern else "complete"
            if kind == "complete":
                return result
            if kind != "input_required":
                raise wrong_answer(method, "/resultType is of a kind that this client does not know")
            if repeats == MAX_ROUNDS:
                raise wrong_answer(method, "it wants input again and again")
            inputs = await self.session.inputs(method, result, repeats)
            given = {**(params or {}), **inputs}
            repeats += 1

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Tells the server something: `notify("notifications/roots/list_changed")`."""
        _check_method(method)
        await self.session.notify(method, None if params is None else dict(params))

    async def ping(self, *, timeout: float | Unset | None = UNSET) -> None:
        """Returns when the server has answered. 2026-07-28 has no `ping`: there it is `server/discover`."""
        await self.call("server/discover" if self.server.revision.is_modern else "ping", timeout=timeout)

    async def list_prompts(self) -> list[dict[str, Any]]:
        """All prompts, each with its `name`: every page of `prompts/list`, within MAX_PAGES and MAX_LIST_BYTES."""
        return await self._list("prompts/list", "prompts", "name")

    async def list_resources(self) -> list[dict[str, Any]]:
        """All resources, each with its `uri` and `name`. As `list_prompts`."""
        return await self._list("resources/list", "resources", "uri")

    async def list_resource_templates(self) -> list[dict[str, Any]]:
        """All templates of resources, each with its `uriTemplate` and `name`. As `list_prompts`."""
        return await self._list("resources/templates/list", "resourceTemplates", "uriTemplate")

    async def list_tools(self) -> list[dict[str, Any]]:
        """All tools, each with its `name` and `inputSchema`. As `list_prompts`.

        Of the tools that were listed last, `call_tool` checks results by their `outputSchema`.
        """
        tools = await self._list("tools/list", "tools", "name")
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
        _check_objects("prompts/get", result, "messages")
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
        """What a tool returns: `content`, perhaps `structuredContent`, and `isError` when it failed."""
        result = await self.call(
            "tools/call",
            _named(name, arguments),
            timeout=timeout,
            idle_timeout=idle_timeout,
            on_progress=on_progress,
        )
        _check_objects("tools/call", result, "content")
        if name in self._output_schemas and not result.get("isError"):
            if "structuredContent" not in result:
                raise wrong_answer("tools/call", "/structuredContent is missing")
            for fault in self._output_schema(name).faults(result["structuredContent"]):
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
        _check_objects("resources/read", result, "contents")
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
        if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
            raise wrong_answer("completion/complete", "/completion/values must be an array of strings")
        return dict(completion) if isinstance(completion, dict) else {}

    async def set_level(self, level: str) -> None:
        """The least severe log messages that the server is to send, from now on; one of `LOG_LEVELS`.

        In 2026-07-28 every later request says so, and gets the messages that belong to it.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"level must be one of {', '.join(LOG_LEVELS)}")
        if not self.server.revision.is_modern:
            await self.call("logging/setLevel", {"level": level})
        self._log_level = level

    def _output_schema(self, tool: str) -> Schema:
        schema = self._output_schemas[tool]
        if not isinstance(schema, Schema):
            self._output_schemas[tool] = schema = Schema(schema)
        return schema

    async def _list(self, method: str, name: str, key: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        params: dict[str, str] | None = None
        cursors: set[str] = set()
        size = 0
        for _ in range(MAX_PAGES):
            page = await self.call(method, params)
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


def _check_objects(method: str, result: dict[str, Any], name: str, key: str | None = None) -> None:
    """Raises ValueError unless a member is an array of objects that have a text at `key`."""
    items = result.get(name)
    if not isinstance(items, list):
        raise wrong_answer(method, f"/{name} must be an array")
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise wrong_answer(method, f"/{name}/{index} must be an object")
        if key is not None and not isinstance(item.get(key), str):
            raise wrong_answer(method, f"/{name}/{index}/{key} must be a string")
