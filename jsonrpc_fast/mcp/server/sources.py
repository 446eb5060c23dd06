"""The interface of a changing set of prompts and resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..protocol.definitions import Prompt, Resource


class Source(Protocol):
    """A changing set of prompts and resources. Its owner calls `Server.list_changed` when the set changes."""

    async def prompts(self) -> Sequence[Prompt]:
        """Return all prompts."""

    async def resources(self) -> Sequence[Resource]:
        """Return all resources."""

    async def get(self, name: str, arguments: dict[str, str]) -> dict[str, Any] | None:
        """Return the `GetPromptResult` of a prompt; None if the prompt is unknown.

        Raises:
            RpcError: An error for the client.
        """

    async def read(self, uri: str) -> dict[str, Any] | None:
        """Return the contents of a resource, as from `text_contents`; None if the resource is unknown.

        Raises:
            RpcError: An error for the client.
        """

    async def complete(self, name: str, argument: dict[str, str]) -> dict[str, Any] | None:
        """Return the `completion` for an argument of a prompt, a dict with `values`; None if the prompt is unknown."""
