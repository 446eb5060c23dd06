"""The revisions of the protocol: their names, their rules on the wire, and what each of them has.

A revision is legacy when a session begins with `initialize` (up to 2025-11-25), and modern when every request
carries its version and the client's capabilities in `_meta` (2026-07-28). Names are compared by their place in
`REVISIONS`, never as text: an unknown name has no place, and is older and newer than nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...profile import MCP_2024_11_05, MCP_2025_03_26, MCP_2025_06_18, MCP_2025_11_25, MCP_2026_07_28, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One revision of the protocol. The method sets are those of its schema (`ClientRequest`, `ServerRequest` …).

    version                    its name
    profile                    the rules of its messages
    is_modern                  no handshake: each request stands for itself
    structured_results         a tool's result may have `structuredContent`, an object
    any_structured_results     … or any JSON value
    client_requests            what a client may ask a server
    server_requests            what a server may ask a client
    client_notifications       what a client may tell a server
    server_notifications       what a server may tell a client
    cacheable                  the requests whose result says how long it may be kept (`ttlMs`, `cacheScope`)
    """

    version: str
    profile: Profile
    is_modern: bool = False
    structured_results: bool = False
    any_structured_results: bool = False
    client_requests: frozenset[str]
    server_requests: frozenset[str]
    client_notifications: frozenset[str]
    server_notifications: frozenset[str]
    cacheable: frozenset[str] = frozenset()


_CLIENT_REQUESTS = frozenset(
    {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "tools/call",
        "tools/list",
    }
)
_SERVER_REQUESTS = frozenset({"ping", "roots/list", "sampling/createMessage"})
_CLIENT_NOTIFICATIONS = frozenset(
    {
        "notifications/cancelled",
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
    }
)
_SERVER_NOTIFICATIONS = frozenset(
    {
        "notifications/cancelled",
        "notifications/message",
        "notifications/progress",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    }
)
_TASKS = frozenset({"tasks/cancel", "tasks/get", "tasks/list", "tasks/result"})
_TASK_STATUS = frozenset({"notifications/tasks/status"})

REVISIONS: Final = {
    revision.version: revision
    for revision in (
        Revision(
            version="2024-11-05",
            profile=MCP_2024_11_05,
            client_requests=_CLIENT_REQUESTS,
            server_requests=_SERVER_REQUESTS,
            client_notifications=_CLIENT_NOTIFICATIONS,
            server_notifications=_SERVER_NOTIFICATIONS,
        ),
        Revision(
            version="2025-03-26",
            profile=MCP_2025_03_26,
            client_requests=_CLIENT_REQUESTS,
            server_requests=_SERVER_REQUESTS,
            client_notifications=_CLIENT_NOTIFICATIONS,
            server_notifications=_SERVER_NOTIFICATIONS,
        ),
        Revision(
            version="2025-06-18",
            profile=MCP_2025_06_18,
            structured_results=True,
            client_requests=_CLIENT_REQUESTS,
            server_requests=_SERVER_REQUESTS | {"elicitation/create"},
            client_notifications=_CLIENT_NOTIFICATIONS,
            server_notifications=_SERVER_NOTIFICATIONS,
        ),
        Revision(
            version="2025-11-25",
            profile=MCP_2025_11_25,
            structured_results=True,
            client_requests=_CLIENT_REQUESTS | _TASKS,
            server_requests=_SERVER_REQUESTS | _TASKS | {"elicitation/create"},
            client_notifications=_CLIENT_NOTIFICATIONS | _TASK_STATUS,
            server_notifications=_SERVER_NOTIFICATIONS | _TASK_STATUS | {"notifications/elicitation/complete"},
        ),
        Revision(
            version="2026-07-28",
            profile=MCP_2026_07_28,
            is_modern=True,
            structured_results=True,
            any_structured_results=True,
            client_requests=_CLIENT_REQUESTS
            - {"initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"}
            | {"server/discover", "subscriptions/listen"},
            server_requests=frozenset(),
            client_notifications=frozenset({"notifications/cancelled"}),
            server_notifications=_SERVER_NOTIFICATIONS | {"notifications/subscriptions/acknowledged"},
            cacheable=frozenset(
                {
                    "prompts/list",
                    "resources/list",
                    "resources/read",
                    "resources/templates/list",
                    "server/discover",
                    "tools/list",
                }
            ),
        ),
    )
}
"""Every revision by its name, the oldest first."""

VERSIONS: Final = tuple(REVISIONS)
HANDSHAKE_VERSIONS: Final = tuple(version for version in VERSIONS if not REVISIONS[version].is_modern)
MODERN_VERSIONS: Final = tuple(version for version in VERSIONS if REVISIONS[version].is_modern)
LATEST_HANDSHAKE_VERSION: Final = HANDSHAKE_VERSIONS[-1]
LATEST_MODERN_VERSION: Final = MODERN_VERSIONS[-1]


def in_order(versions: Sequence[str]) -> tuple[str, ...]:
    """The versions that are given, the oldest first. Raises ValueError for an unknown one, or for none at all."""
    unknown = [version for version in versions if version not in REVISIONS]
    if unknown or not versions or isinstance(versions, str):
        raise ValueError(f"versions must be some of {', '.join(VERSIONS)}")
    return tuple(version for version in VERSIONS if version in versions)


def negotiate(requested: str, supported: Sequence[str] = HANDSHAKE_VERSIONS) -> str:
    """The version that a server answers `initialize` with: the one asked for, or the latest of its own.

    requested  `protocolVersion` of the request
    supported  the versions with a handshake that the server speaks, the oldest first; one at least
    """
    return requested if requested in supported else supported[-1]


def latest_common(theirs: Sequence[str], ours: Sequence[str]) -> str | None:
    """The latest of our versions, the oldest first, that the peer names too; None if there is none."""
    return next((version for version in reversed(ours) if version in theirs), None)
