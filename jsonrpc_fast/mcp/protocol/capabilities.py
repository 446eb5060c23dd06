"""The records of the handshake: the capabilities and the names of a client and a server.

    if context.client_capabilities.supports("elicitation.url"): …

The members follow `ClientCapabilities`, `ServerCapabilities` and `Implementation` in the schema of each revision. A
capability is present if its object is, even if empty; a boolean such as `listChanged` is present if it is true.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from .records import EmptyObject, Record, members_of

_FREE_NAMES = ("experimental", "extensions")  # the names of their members are the user's choice


class Icon(Record, frozen=True, kw_only=True, eq=False):
    """An icon for user interfaces, from 2025-11-25 on. `src` is an https or data URI."""

    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: Literal["dark", "light"] | UnsetType = UNSET


class Implementation(Record, frozen=True, kw_only=True, eq=False):
    """The name and version of a client or a server (`clientInfo`, `serverInfo`). They are not verified."""

    since: ClassVar[dict[str, str]] = {
        "title": "2025-06-18",
        "description": "2025-11-25",
        "icons": "2025-11-25",
        "websiteUrl": "2025-11-25",
    }

    name: str
    version: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    website_url: str | UnsetType = UNSET


class ListChanged(Record, frozen=True, kw_only=True, eq=False):
    """Whether the server sends a notification when its list of prompts or tools changes."""

    list_changed: bool | UnsetType = UNSET


class Roots(Record, frozen=True, kw_only=True, eq=False):
    """The client lists its roots. Up to 2025-11-25 it may send a notification when they change."""

    until: ClassVar[dict[str, str]] = {"listChanged": "2025-11-25"}

    list_changed: bool | UnsetType = UNSET


class Resources(Record, frozen=True, kw_only=True, eq=False):
    """Whether the server sends a notification when its list of resources, or a subscribed resource, changes."""

    subscribe: bool | UnsetType = UNSET
    list_changed: bool | UnsetType = UNSET


class Sampling(Record, frozen=True, kw_only=True, eq=False):
    """The client asks its model on behalf of the server, perhaps with the context of other servers or with tools."""

    since: ClassVar[dict[str, str]] = {"context": "2025-11-25", "tools": "2025-11-25"}

    context: EmptyObject | UnsetType = UNSET
    tools: EmptyObject | UnsetType = UNSET


class Elicitation(Record, frozen=True, kw_only=True, eq=False):
    """The client asks its user on behalf of the server, with a form or by opening a URL."""

    since: ClassVar[dict[str, str]] = {"form": "2025-11-25", "url": "2025-11-25"}

    form: EmptyObject | UnsetType = UNSET
    url: EmptyObject | UnsetType = UNSET

    def member(self, name: str) -> Any:
        """Return a member. Without a mode, `form` is present: before 2025-11-25 it was the only one."""
        value = super().member(name)
        # `elicitation: {}` of an older client means a form; `url` alone excludes it.
        if name == "form" and value is UNSET and super().member("url") is UNSET:
            return EmptyObject()
        return value


class Capabilities(Record, frozen=True, kw_only=True, eq=False):
    """The capabilities of one side."""

    def supports(self, path: str) -> bool:
        """Return whether a capability is present.

        Args:
            path: The protocol's names joined with dots: "tools.listChanged", "elicitation.url",
                "tasks.requests.tools.call". After `experimental` and `extensions` the rest is one name, dots included:
                "extensions.io.modelcontextprotocol/ui". Members that no revision defines work, too.
        """
        value: Any = self
        names = path.split(".")
        if names[0] in _FREE_NAMES:
            # Names of extensions contain dots.
            names[1:] = [".".join(names[1:])] if len(names) > 1 else []
        for name in names:
            if isinstance(value, Record):
                value = value.member(name)
            else:
                value = value.get(name, UNSET) if isinstance(value, dict) else UNSET
        # An empty object is present. Only an absent member, null and false mean that there is no such capability.
        return value is not UNSET and value is not False and value is not None


class ClientCapabilities(Capabilities, frozen=True, kw_only=True, eq=False):
    """The capabilities of a client."""

    since: ClassVar[dict[str, str]] = {"elicitation": "2025-06-18", "tasks": "2025-11-25", "extensions": "2026-07-28"}
    until: ClassVar[dict[str, str]] = {"tasks": "2025-11-25"}

    experimental: dict[str, dict[str, Any]] | UnsetType = UNSET
    roots: Roots | UnsetType = UNSET
    sampling: Sampling | UnsetType = UNSET
    elicitation: Elicitation | UnsetType = UNSET
    tasks: dict[str, Any] | UnsetType = UNSET
    extensions: dict[str, dict[str, Any]] | UnsetType = UNSET


class ServerCapabilities(Capabilities, frozen=True, kw_only=True, eq=False):
    """The capabilities of a server."""

    since: ClassVar[dict[str, str]] = {"completions": "2025-03-26", "tasks": "2025-11-25", "extensions": "2026-07-28"}
    until: ClassVar[dict[str, str]] = {"tasks": "2025-11-25"}

    experimental: dict[str, dict[str, Any]] | UnsetType = UNSET
    logging: EmptyObject | UnsetType = UNSET
    completions: EmptyObject | UnsetType = UNSET
    prompts: ListChanged | UnsetType = UNSET
    resources: Resources | UnsetType = UNSET
    tools: ListChanged | UnsetType = UNSET
    tasks: dict[str, Any] | UnsetType = UNSET
    extensions: dict[str, dict[str, Any]] | UnsetType = UNSET


def required_capabilities(path: str) -> dict[str, Any]:
    """Return the smallest `ClientCapabilities` object that has a capability, for the data of error -32021."""
    capabilities: dict[str, Any] = {}
    inner = capabilities
    kind: Any = ClientCapabilities
    names = path.split(".", 1) if path.startswith(_FREE_NAMES) else path.split(".")
    for name in names:
        members = members_of(kind, None) if isinstance(kind, type) and issubclass(kind, Record) else {}
        kind = members[name].type if name in members else None
        # A flag must be true: an empty object there would not be valid.
        if kind is bool:
            inner[name] = True
            break
        inner = inner.setdefault(name, {})
    return capabilities
