"""What a client and a server can do, and who they are: the records that the handshake carries.

    if context.client_capabilities.supports("elicitation.url"): …

The members are those of `ClientCapabilities`, `ServerCapabilities` and `Implementation` in the schema of each
revision, nested ones included. A capability is there when its object is, even an empty one; a switch like
`listChanged` is there when it is true.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from .records import EmptyObject, Record, members_of

_NAMED_FREELY = ("experimental", "extensions")


class Icon(Record, frozen=True, kw_only=True, eq=False):
    """An icon to show: `src` is an https or data URI. From 2025-11-25 on."""

    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: Literal["dark", "light"] | UnsetType = UNSET


class Implementation(Record, frozen=True, kw_only=True, eq=False):
    """Who a client or a server is: `clientInfo`, `serverInfo`. What it says is not verified."""

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
    """The server tells when its list of prompts, or of tools, changes."""

    list_changed: bool | UnsetType = UNSET


class Roots(Record, frozen=True, kw_only=True, eq=False):
    """The client lists its roots, and tells when they change (up to 2025-11-25)."""

    until: ClassVar[dict[str, str]] = {"listChanged": "2025-11-25"}

    list_changed: bool | UnsetType = UNSET


class Resources(Record, frozen=True, kw_only=True, eq=False):
    """The server tells when its list of resources changes, and when one that is subscribed to does."""

    subscribe: bool | UnsetType = UNSET
    list_changed: bool | UnsetType = UNSET


class Sampling(Record, frozen=True, kw_only=True, eq=False):
    """The client asks its model on behalf of the server, with context of other servers, or with tools."""

    since: ClassVar[dict[str, str]] = {"context": "2025-11-25", "tools": "2025-11-25"}

    context: EmptyObject | UnsetType = UNSET
    tools: EmptyObject | UnsetType = UNSET


class Elicitation(Record, frozen=True, kw_only=True, eq=False):
    """The client asks its user on behalf of the server, by a form or by sending them to a URL."""

    since: ClassVar[dict[str, str]] = {"form": "2025-11-25", "url": "2025-11-25"}

    form: EmptyObject | UnsetType = UNSET
    url: EmptyObject | UnsetType = UNSET

    def member(self, name: str) -> Any:
        """As of every record; but where no mode is named, there is the form, the only one before 2025-11-25."""
        value = super().member(name)
        if name == "form" and value is UNSET and super().member("url") is UNSET:
            return EmptyObject()
        return value


class SamplingTasks(Record, frozen=True, kw_only=True, eq=False):
    create_message: EmptyObject | UnsetType = UNSET


class ElicitationTasks(Record, frozen=True, kw_only=True, eq=False):
    create: EmptyObject | UnsetType = UNSET


class ToolTasks(Record, frozen=True, kw_only=True, eq=False):
    call: EmptyObject | UnsetType = UNSET


class ClientTaskRequests(Record, frozen=True, kw_only=True, eq=False):
    sampling: SamplingTasks | UnsetType = UNSET
    elicitation: ElicitationTasks | UnsetType = UNSET


class ServerTaskRequests(Record, frozen=True, kw_only=True, eq=False):
    tools: ToolTasks | UnsetType = UNSET


class ClientTasks(Record, frozen=True, kw_only=True, eq=False):
    """The client runs requests as tasks (2025-11-25 alone; an extension since)."""

    list: EmptyObject | UnsetType = UNSET
    cancel: EmptyObject | UnsetType = UNSET
    requests: ClientTaskRequests | UnsetType = UNSET


class ServerTasks(Record, frozen=True, kw_only=True, eq=False):
    """The server runs requests as tasks (2025-11-25 alone; an extension since)."""

    list: EmptyObject | UnsetType = UNSET
    cancel: EmptyObject | UnsetType = UNSET
    requests: ServerTaskRequests | UnsetType = UNSET


class Capabilities(Record, frozen=True, kw_only=True, eq=False):
    """What one side can do."""

    def supports(self, path: str) -> bool:
        """Whether a capability is there.

        path  names in the protocol's spelling, with dots between: "tools.listChanged", "elicitation.url",
              "tasks.requests.tools.call". Behind `experimental` and `extensions` comes one name, dots and all:
              "extensions.io.modelcontextprotocol/ui".

        Members that no revision defines can be asked for, too.
        """
        value: Any = self
        names = path.split(".")
        if names[0] in _NAMED_FREELY:
            names[1:] = [".".join(names[1:])] if len(names) > 1 else []
        for name in names:
            if isinstance(value, Record):
                value = value.member(name)
            else:
                value = value.get(name, UNSET) if isinstance(value, dict) else UNSET
        return value is not UNSET and value is not False and value is not None


class ClientCapabilities(Capabilities, frozen=True, kw_only=True, eq=False):
    """What a client can do for its servers."""

    since: ClassVar[dict[str, str]] = {"elicitation": "2025-06-18", "tasks": "2025-11-25", "extensions": "2026-07-28"}
    until: ClassVar[dict[str, str]] = {"tasks": "2025-11-25"}

    experimental: dict[str, dict[str, Any]] | UnsetType = UNSET
    roots: Roots | UnsetType = UNSET
    sampling: Sampling | UnsetType = UNSET
    elicitation: Elicitation | UnsetType = UNSET
    tasks: ClientTasks | UnsetType = UNSET
    extensions: dict[str, dict[str, Any]] | UnsetType = UNSET


class ServerCapabilities(Capabilities, frozen=True, kw_only=True, eq=False):
    """What a server offers."""

    since: ClassVar[dict[str, str]] = {"completions": "2025-03-26", "tasks": "2025-11-25", "extensions": "2026-07-28"}
    until: ClassVar[dict[str, str]] = {"tasks": "2025-11-25"}

    experimental: dict[str, dict[str, Any]] | UnsetType = UNSET
    logging: EmptyObject | UnsetType = UNSET
    completions: EmptyObject | UnsetType = UNSET
    prompts: ListChanged | UnsetType = UNSET
    resources: Resources | UnsetType = UNSET
    tools: ListChanged | UnsetType = UNSET
    tasks: ServerTasks | UnsetType = UNSET
    extensions: dict[str, dict[str, Any]] | UnsetType = UNSET


def required_capabilities(path: str) -> dict[str, Any]:
    """The client capabilities, as JSON has them, that hold what `path` names and no more: for error -32021."""
    capabilities: dict[str, Any] = {}
    inner = capabilities
    kind: Any = ClientCapabilities
    names = path.split(".", 1) if path.startswith(_NAMED_FREELY) else path.split(".")
    for name in names:
        members = members_of(kind, None) if isinstance(kind, type) and issubclass(kind, Record) else {}
        kind = members[name].type if name in members else None
        if kind is bool:
            inner[name] = True
            break
        inner = inner.setdefault(name, {})
    return capabilities
