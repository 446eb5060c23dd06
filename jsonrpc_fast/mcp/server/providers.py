"""Providers: tools, prompts and resources from other sources, and servers inside other servers.

    class Notes(Provider):
        async def list_tools(self, context: Context) -> list[Tool]:
            return [Tool(name="delete", input_schema={"type": "object"})] if context.subject == "ann" else []

        async def call_tool(self, name: str, arguments: dict[str, Any], context: Context) -> ToolResult | None:
            ...

    server.mount(Notes())

The features of the server itself come first, then the providers in the order of mounting: a request goes to the first
one that knows the name, and a list shows only the first of two. URIs get no prefix, since results contain them, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, get_args

from ..protocol.definitions import Definition, Prompt, Resource, ResourceTemplate, Tool
from ..protocol.meta import FeatureKind
from .blocks import ToolResult
from .context import Context


class ChangeListener(Protocol):
    """The part of a server that is notified of changes of a provider mounted at it."""

    def list_changed(self, kind: FeatureKind) -> None: ...

    def resource_updated(self, uri: str) -> None: ...


class Provider:
    """Tools, prompts and resources from another source. A subclass overrides the methods for the kinds that it has.

    The methods may raise RpcError, which the client gets. Other exceptions of `call_tool` give a result with `isError`,
    those of the other methods give error -32603; the client does not see their texts, and they are logged.

    Attributes:
        kinds: Those of "tools", "prompts" and "resources" that it has or may have later. The server declares them to
            clients that connect.
        unsafe_uris: Whether `read_resource` may be called with URIs that have `..` as a segment, NUL, or bytes that are
            not UTF-8, or whose path has an empty segment before another one, or a drive.
    """

    kinds: Collection[str] = get_args(FeatureKind)
    unsafe_uris: bool = False
    _listeners: tuple[ChangeListener, ...] = ()

    async def list_tools(self, context: Context) -> Sequence[Tool]:
        """Return the tools that a client sees."""
        return ()

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context
    ) -> ToolResult | Mapping[str, Any] | None:
        """Call a tool.

        Args:
            name: Its name, without the prefix.
            arguments: The arguments as the client sent them, unchecked.
            context: The request.

        Returns:
            A `ToolResult`, or a `CallToolResult` as the protocol has it; None if the tool is unknown.
        """
        return None

    def tool_scopes(self, name: str) -> Collection[str]:
        """Return the scopes that a call of a tool needs over HTTP: see `scopes` of `Server.tool`."""
        return ()

    async def list_items(self, method: str, context: Context) -> Sequence[Definition]:
        """Return the items of a list, from the method for that list.

        Args:
            method: The method of the request, such as "tools/list".
            context: The request.
        """
        # Looked up by method, so that a provider of other servers can pass the method on.
        lists: dict[str, Callable[[Context], Awaitable[Sequence[Definition]]]] = {
            "prompts/list": self.list_prompts,
            "resources/list": self.list_resources,
            "resources/templates/list": self.list_resource_templates,
            "tools/list": self.list_tools,
        }
        return await lists[method](context)

    async def list_prompts(self, context: Context) -> Sequence[Prompt]:
        """Return the prompts that a client sees."""
        return ()

    async def get_prompt(self, name: str, arguments: dict[str, str], context: Context) -> Mapping[str, Any] | None:
        """Return the `GetPromptResult` of a prompt; None if the prompt is unknown."""
        return None

    async def list_resources(self, context: Context) -> Sequence[Resource]:
        """Return the resources that a client sees."""
        return ()

    async def list_resource_templates(self, context: Context) -> Sequence[ResourceTemplate]:
        """Return the resource templates that a client sees."""
        return ()

    async def read_resource(self, uri: str, context: Context) -> Mapping[str, Any] | None:
        """Return a `ReadResourceResult`, or one of its `contents`; None if the resource is unknown."""
        return None

    async def complete(
        self, reference: Mapping[str, Any], argument: dict[str, str], others: dict[str, str], context: Context
    ) -> Mapping[str, Any] | None:
        """Complete an argument of a prompt, or a part of a resource template.

        Args:
            reference: `{"type": "ref/prompt", "name": …}` or `{"type": "ref/resource", "uri": …}`.
            argument: Its `name`, and its `value` so far.
            others: The arguments that are known already.
            context: The request.

        Returns:
            A dict with `values`, and perhaps `total` and `hasMore`; None if the reference is unknown.
        """
        return None

    def names(self, kind: FeatureKind) -> Collection[str]:
        """Return the names, or URIs and templates, that are known without asking: they may not be registered twice."""
        return ()

    def lifespan(self) -> AbstractAsyncContextManager[Any] | None:
        """Return a context manager, such as a connection, that is entered while the server runs, or None.

        It is called each time the server begins to run (see `Server.lifespan`), and when the provider is mounted.
        """
        return None

    def list_changed(self, kind: FeatureKind) -> None:
        """Tell the clients of the servers that have this provider that a list has changed."""
        for listener in self._listeners:
            listener.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource that it has changed."""
        for listener in self._listeners:
            listener.resource_updated(uri)

    def add_listener(self, listener: ChangeListener) -> None:
        """Register a server to be notified of changes. `Server.mount` calls this."""
        self._listeners = (*self._listeners, listener)
