"""A remote server as the provider of a server.

    server.mount(Proxy(lambda handlers: mcp.connect("https://example.org/mcp", handlers=handlers)), prefix="example")

Rules:
  - Each list is requested again. The name of a tool or a prompt that was not in the last list is looked up in a new one
    before the call.
  - Progress goes to the client that called. So do requests of the remote server (roots, sampling, elicitation), if it
    is certain to which call they belong: from 2026-07-28 on, or if there is only one call in flight. Others are
    refused.

To pass on all messages of many clients without decoding them, use the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from ...codes import ErrorCode, McpErrorCode
from ...errors import ConnectionLost, RpcError, StateError
from ...support import check_callable, logger_of
from ..client.client import Client
from ..protocol.definitions import Prompt, Resource, ResourceTemplate, Tool
from ..protocol.meta import (
    INPUT_REQUESTS,
    LIST_CHANGES,
    LIST_METHODS,
    LISTEN_METHOD,
    SERVER_INFO_KEY,
    FeatureKind,
    changes_filter,
)
from ..server.context import Context
from ..server.providers import Provider
from ..server.serving import InProcess

_current: ContextVar[Context | None] = ContextVar("the request that a call of a proxy serves", default=None)
_logger: Final = logger_of("mcp")


class Proxy(Provider):
    """The tools, prompts and resources of a remote server.

    Args:
        connect: Makes a client that is not connected. It takes the handlers to give to `mcp.connect`: for requests of
            the remote server, and for changes of its lists.
        kinds: Those of "tools", "prompts" and "resources" that the server has. The kinds are declared before the remote
            server is known.

    Raises:
        TypeError: `connect` is not callable.
    """

    def __init__(
        self,
        connect: Callable[[Mapping[str, Callable[[dict[str, Any]], Any]]], Client],
        kinds: Collection[str] = Provider.kinds,
    ) -> None:
        check_callable("connect", connect, may_be_none=False)
        self.kinds = kinds
        self._connect = connect
        self._client: Client | None = None
        # A list, because one context may have several calls in flight.
        self._calls: list[Context] = []  # in flight
        self._known: dict[str, set[str]] = {}  # the names of the last lists, by method

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Connect the client, and close it at the end."""
        handlers: dict[str, Callable[[dict[str, Any]], Any]] = {
            change.method: partial(self._on_change, kind) for kind, change in LIST_CHANGES.items()
        }
        handlers |= {method: partial(self._ask, method) for method in INPUT_REQUESTS}
        async with self._connect(handlers) as client:
            self._client = client
            # Not needed for a legacy server, which announces changes without a subscription.
            listening = asyncio.ensure_future(_listen(client)) if client.server.revision.is_modern else None
            try:
                yield
            finally:
                self._client = None
                if listening is not None:
                    listening.cancel()
                    await asyncio.wait([listening])

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise StateError("the server does not run: enter its lifespan")
        return self._client

    def _on_change(self, kind: FeatureKind, params: dict[str, Any]) -> None:
        self.list_changed(kind)

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Pass a request of the remote server on to the client to whose call it belongs."""
        context = _current.get()
        # Up to 2025-11-25 a request of the server does not say which call it belongs to. With one call in flight there
        # is no other.
        if context is None and len(self._calls) == 1 and not self._calls[0].revision.is_modern:
            [context] = self._calls
        if context is None:
            raise RpcError(ErrorCode.INVALID_REQUEST, "it is not certain which call this request belongs to")
        return await context.call(method, params)

    @contextmanager
    def _call(self, context: Context) -> Any:
        # The handlers of a modern server's requests run inside the call, and find their context here.
        token = _current.set(context)
        self._calls.append(context)
        try:
            yield
        finally:
            self._calls.remove(context)
            _current.reset(token)

    def tool_scopes(self, name: str) -> frozenset[str]:
        """Return the scopes of a tool of a server in this process, which gets no token. A remote one checks its own."""
        transport = self._connected.transport
        return transport.tool_scopes(name) if isinstance(transport, InProcess) else frozenset()

    async def list_tools(self, context: Context) -> list[Tool]:
        return await self._list("tools/list")

    async def list_prompts(self, context: Context) -> list[Prompt]:
        return await self._list("prompts/list")

    async def list_resources(self, context: Context) -> list[Resource]:
        return await self._list("resources/list")

    async def list_resource_templates(self, context: Context) -> list[ResourceTemplate]:
        return await self._list("resources/templates/list")

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context) -> dict[str, Any] | None:
        if not await self._knows("tools/list", name):
            return None
        with self._call(context):
            result = await self._connected.call_tool(name, arguments, on_progress=partial(_report, context))
        return _passed_on(result)

    async def get_prompt(self, name: str, arguments: dict[str, str], context: Context) -> dict[str, Any] | None:
        if not await self._knows("prompts/list", name):
            return None
        with self._call(context):
            return _passed_on(await self._connected.get_prompt(name, arguments))

    async def read_resource(self, uri: str, context: Context) -> dict[str, Any] | None:
        if not self._has("resources"):
            return None
        try:
            with self._call(context):
                return _passed_on(await self._connected.read_resource(uri))
        except RpcError as error:
            # The next provider may have the resource.
            if error.code in (McpErrorCode.RESOURCE_NOT_FOUND, ErrorCode.INVALID_PARAMS):
                return None
            raise

    async def complete(
        self, reference: Mapping[str, Any], argument: dict[str, str], others: dict[str, str], context: Context
    ) -> dict[str, Any] | None:
        if not self._has("completions"):
            return None
        try:
            return await self._connected.complete(
                {name: str(value) for name, value in reference.items()}, argument["name"], argument["value"], others
            )
        except RpcError as error:
            if error.code == ErrorCode.INVALID_PARAMS:
                return None
            raise

    def _has(self, capability: str) -> bool:
        return self._connected.server.capabilities.supports(capability)

    async def _knows(self, method: str, name: str) -> bool:
        # The name may be new, or the server may show each user different tools.
        if name not in self._known.get(method, ()):
            await self._list(method)
        return name in self._known.get(method, ())

    async def _list(self, method: str) -> list[Any]:
        kind, member, _, type_ = LIST_METHODS[method]
        if not self._has(kind):
            return []
        client = self._connected
        lists = {
            "prompts/list": client.list_prompts,
            "resources/list": client.list_resources,
            "resources/templates/list": client.list_resource_templates,
            "tools/list": client.list_tools,
        }
        found: list[Any] = []
        for item in await lists[method]():
            try:
                # `execution` declares support for tasks, which are not passed on.
                found.append(type_.from_dict({name: each for name, each in item.items() if name != "execution"}))
            except ValueError as fault:
                _logger.warning("one of the %s of a remote server is invalid, and left out: %s", member, fault)
        # Only unknown names cost a request of the list.
        self._known[method] = {item.name for item in found}
        return found


async def _listen(client: Client) -> None:
    """Subscribe to the changes of lists, which a modern server sends only to subscribers."""
    if wanted := changes_filter(client.server.capabilities):
        try:
            await client.call(LISTEN_METHOD, {"notifications": wanted}, timeout=None)
            reason = "it has ended the subscription"
        except (RpcError, ConnectionLost, StateError) as error:
            # The server has chosen the text of its error.
            reason = f"error {error.code}" if isinstance(error, RpcError) else str(error)
        _logger.warning("a remote server does not announce changes of its lists: %s", reason)


def _report(context: Context, progress: dict[str, Any]) -> None:
    context.report_progress(progress["progress"], progress.get("total"), progress.get("message"))


def _passed_on(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without members that concern only the connection to the remote server."""
    passed = {name: value for name, value in result.items() if name not in ("resultType", "ttlMs", "cacheScope")}
    meta = passed.pop("_meta", None) or {}
    rest = {name: value for name, value in meta.items() if name != SERVER_INFO_KEY}
    return {**passed, "_meta": rest} if rest else passed
