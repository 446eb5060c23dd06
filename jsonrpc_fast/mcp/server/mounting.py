"""A server as the provider of another one.

Rules:
  - A request passes through the middleware of both servers, the outer one's first.
  - The functions get a context of their server, with its lifespan and its resources. Their requests and notifications
    to the client go through the outer server.
  - Tools never run as tasks of the outer server. Methods of extensions, notifications, instructions and declared
    capabilities are not mounted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, get_args

from ..protocol.definitions import Definition
from ..protocol.meta import LIST_METHODS
from .functions.providers import FeatureKind, Provider
from .functions.registry import Registry
from .methods import Methods, UnknownName
from .request.context import Context, mounted
from .request.lifespan import Lifespan


class ServerProvider(Provider):
    """A server as a provider for the servers that it is mounted at.

    Args:
        registry: The features of the server.
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
        """The kinds of features that are registered."""
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

    async def list_items(self, method: str, context: Context) -> list[Definition]:
        items: list[Definition] = []
        params: dict[str, Any] = {}
        # The inner server may have a page size of its own.
        while (page := await self._serve(method, params, context)) is not None:
            for item in page[LIST_METHODS[method].member]:
                # The tasks of the inner server are not served through the outer one.
                members = {name: value for name, value in item.items() if name != "execution"}
                items.append(LIST_METHODS[method].type.from_dict(members))
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        return items

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context) -> dict[str, Any] | None:
        return await self._serve("tools/call", {"name": name, "arguments": arguments}, context)

    async def get_prompt(self, name: str, arguments: dict[str, str], context: Context) -> dict[str, Any] | None:
        return await self._serve("prompts/get", {"name": name, "arguments": arguments}, context)

    async def read_resource(self, uri: str, context: Context) -> dict[str, Any] | None:
        return await self._serve("resources/read", {"uri": uri}, context)

    async def complete(
        self, reference: Mapping[str, Any], argument: dict[str, str], others: dict[str, str], context: Context
    ) -> dict[str, Any] | None:
        params = {"ref": dict(reference), "argument": argument, "context": {"arguments": others}}
        result = await self._serve("completion/complete", params, context)
        return None if result is None else result["completion"]

    async def _serve(self, method: str, params: dict[str, Any], context: Context) -> dict[str, Any] | None:
        """Return the result of a request; None if its name, URI or method is unknown."""
        inner = mounted(context, method, self._methods.shared)
        try:
            return await self._methods.serve_mounted(params, inner)
        # The outer server asks the next provider. Any other error -32602 is about the params, and is the client's.
        except UnknownName:
            return None
