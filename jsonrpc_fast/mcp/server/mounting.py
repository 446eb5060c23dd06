"""A server as the provider of another one.

Rules:
  - A request passes through the middleware of both servers, the outer one's first.
  - The functions get a context of their server, with its lifespan and its resources. Their requests and notifications
    to the client go through the outer server.
  - Tools never run as tasks of the outer server. Methods of extensions, notifications, instructions and declared
    capabilities are not mounted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, get_args

import msgspec

from ..protocol.definitions import Definition, Prompt, Resource, ResourceTemplate, Tool
from ..protocol.meta import LIST_METHODS
from .context import Context, MountedContext
from .lifespan import Lifespan
from .methods import Methods, UnknownName
from .providers import FeatureKind, Provider
from .registry import Registry

D = TypeVar("D", bound=Definition)


class ServerProvider(Provider):
    """A server as a provider for the servers that it is mounted at.

    Args:
        registry: What the server has.
        methods: Its methods.
        server_lifespan: Its lifespan.
    """

    unsafe_uris = True  # its templates decide

    def __init__(self, registry: Registry, methods: Methods, server_lifespan: Lifespan) -> None:
        self._registry = registry
        self._methods = methods
        self._lifespan = server_lifespan

    @property
    def kinds(self) -> Collection[str]:  # type: ignore[override]
        """The kinds of which something is registered."""
        capabilities = self._registry.capabilities()
        return [kind for kind in get_args(FeatureKind) if capabilities.supports(kind)]

    def contains(self, provider: Provider) -> bool:
        """Return whether this is the provider, or the provider is mounted at this server, at any depth."""
        inside = (mount.provider for mount in self._registry.mounts)
        return self is provider or any(
            each is provider or (isinstance(each, ServerProvider) and each.contains(provider)) for each in inside
        )

    def tool_scopes(self, name: str) -> Collection[str]:
        return self._registry.tool_scopes(name)

    def names(self, kind: FeatureKind) -> Collection[str]:
        return self._registry.names(kind)

    def lifespan(self) -> AbstractAsyncContextManager[Any] | None:
        return self._lifespan if self._lifespan.exists else None

    async def list_tools(self, context: Context) -> list[Tool]:
        found = await self._list("tools/list", Tool.from_dict, context)
        # The tasks of the inner server are not served through the outer one.
        return [msgspec.structs.replace(tool, execution=msgspec.UNSET) for tool in found]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context) -> dict[str, Any] | None:
        return await self._serve("tools/call", {"name": name, "arguments": arguments}, context)

    async def list_prompts(self, context: Context) -> list[Prompt]:
        return await self._list("prompts/list", Prompt.from_dict, context)

    async def get_prompt(self, name: str, arguments: dict[str, str], context: Context) -> dict[str, Any] | None:
        return await self._serve("prompts/get", {"name": name, "arguments": arguments}, context)

    async def list_resources(self, context: Context) -> list[Resource]:
        return await self._list("resources/list", Resource.from_dict, context)

    async def list_resource_templates(self, context: Context) -> list[ResourceTemplate]:
        return await self._list("resources/templates/list", ResourceTemplate.from_dict, context)

    async def read_resource(self, uri: str, context: Context) -> dict[str, Any] | None:
        return await self._serve("resources/read", {"uri": uri}, context)

    async def complete(
        self, reference: Mapping[str, Any], argument: dict[str, str], others: dict[str, str], context: Context
    ) -> dict[str, Any] | None:
        params = {"ref": dict(reference), "argument": argument, "context": {"arguments": others}}
        result = await self._serve("completion/complete", params, context)
        return None if result is None else result["completion"]

    async def _list(self, method: str, read: Callable[[object], D], context: Context) -> list[D]:
        items: list[D] = []
        params: dict[str, Any] = {}
        # The inner server may have a page size of its own.
        while (page := await self._serve(method, params, context)) is not None:
            items += map(read, page[LIST_METHODS[method].member])
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        return items

    async def _serve(self, method: str, params: dict[str, Any], context: Context) -> dict[str, Any] | None:
        """Return the result of a request; None if its name, URI or method is unknown."""
        inner = MountedContext(context, method, self._methods)
        try:
            return await self._methods.serve_mounted(params, inner)
        except UnknownName:
            return None
