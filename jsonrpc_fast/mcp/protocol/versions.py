"""The revisions of the protocol: their names, their rules on the wire, their methods.

Rules:
  - A revision is legacy if a session begins with `initialize`. It is modern if every request carries its version and
    the client's capabilities in `_meta`. A draft is a row with `is_released=False, is_default=False`: it is served and
    asked for where it is named, needs no schema and no preset, and is offered to nobody else.
  - Versions are compared by their position in `VERSIONS`, never as text. An unknown version is neither older nor newer
    than another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ...profile import MCP_2024_11_05, MCP_2025_03_26, MCP_2025_06_18, MCP_2025_11_25, MCP_2026_07_28, Profile


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """One revision of the protocol. The sets of methods follow its schema (`ClientRequest`, `ServerRequest` …).

    Attributes:
        version: Its name, such as "2025-11-25".
        profile: The rules for decoding its messages.
        is_released: Whether the specification is final: it has a schema, and a preset of its name.
        is_default: Whether servers and clients offer it where no revision is named.
        is_modern: Whether there is no handshake: each request carries version and capabilities.
        structured_results: Whether the result of a tool may have `structuredContent`, an object.
        any_structured_results: Whether `structuredContent` may be any JSON value.
        client_requests: The requests that a client may send.
        server_requests: The requests that a server may send.
        server_notifications: The notifications that a server may send.
        cacheable: The requests whose result says how long it may be cached (`ttlMs`, `cacheScope`).
    """

    version: str
    profile: Profile
    is_released: bool = True
    is_default: bool = True
    is_modern: bool = False
    structured_results: bool = False
    any_structured_results: bool = False
    client_requests: frozenset[str]
    server_requests: frozenset[str]
    server_notifications: frozenset[str]
    cacheable: frozenset[str] = frozenset()


_TASK_REQUESTS = frozenset({"tasks/cancel", "tasks/get", "tasks/list", "tasks/result"})

_2024_11_05 = Revision(
    version="2024-11-05",
    profile=MCP_2024_11_05,
    client_requests=frozenset(
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
    ),
    server_requests=frozenset({"ping", "roots/list", "sampling/createMessage"}),
    server_notifications=frozenset(
        {
            "notifications/cancelled",
            "notifications/message",
            "notifications/progress",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/resources/updated",
            "notifications/tools/list_changed",
        }
    ),
)
# Each revision is given by its differences from the previous one.
_2025_03_26 = replace(_2024_11_05, version="2025-03-26", profile=MCP_2025_03_26)
_2025_06_18 = replace(
    _2025_03_26,
    version="2025-06-18",
    profile=MCP_2025_06_18,
    structured_results=True,
    server_requests=_2025_03_26.server_requests | {"elicitation/create"},
)
_2025_11_25 = replace(
    _2025_06_18,
    version="2025-11-25",
    profile=MCP_2025_11_25,
    client_requests=_2025_06_18.client_requests | _TASK_REQUESTS,
    server_requests=_2025_06_18.server_requests | _TASK_REQUESTS,
    server_notifications=_2025_06_18.server_notifications
    | {"notifications/elicitation/complete", "notifications/tasks/status"},
)
_2026_07_28 = replace(
    _2025_11_25,
    version="2026-07-28",
    profile=MCP_2026_07_28,
    is_modern=True,
    any_structured_results=True,
    client_requests=_2025_06_18.client_requests
    - {"initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"}
    | {"server/discover", "subscriptions/listen"},
    server_requests=frozenset(),
    server_notifications=_2025_06_18.server_notifications | {"notifications/subscriptions/acknowledged"},
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
)
REVISIONS: Final = {each.version: each for each in (_2024_11_05, _2025_03_26, _2025_06_18, _2025_11_25, _2026_07_28)}
"""The revisions by name, the oldest first."""

VERSIONS: Final = tuple(REVISIONS)
"""Those that are known; RELEASED_VERSIONS and DEFAULT_VERSIONS are the columns of the table."""
RELEASED_VERSIONS: Final = tuple(version for version, each in REVISIONS.items() if each.is_released)
DEFAULT_VERSIONS: Final = tuple(version for version, each in REVISIONS.items() if each.is_default)
HANDSHAKE_VERSIONS: Final = tuple(version for version in VERSIONS if not REVISIONS[version].is_modern)
MODERN_VERSIONS: Final = tuple(version for version in VERSIONS if REVISIONS[version].is_modern)


def since(version: str) -> tuple[str, ...]:
    """Return a version and the later ones."""
    return VERSIONS[VERSIONS.index(version) :]


def in_order(versions: Sequence[str]) -> tuple[str, ...]:
    """Sort versions, the oldest first. Raises ValueError: a version is unknown, or no version is given."""
    unknown = [version for version in versions if version not in REVISIONS]
    if unknown or not versions or isinstance(versions, str):
        raise ValueError(f"versions must be some of {', '.join(VERSIONS)}")
    return tuple(version for version in VERSIONS if version in versions)


def latest_common(theirs: Sequence[str], ours: Sequence[str]) -> str | None:
    """Return the latest version that both sides support, or None."""
    return next((version for version in reversed(ours) if version in theirs), None)
