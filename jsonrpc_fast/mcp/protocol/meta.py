"""Constants and helpers of both sides: names in `_meta`, log levels, missing methods, responses of the handshake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from ...codec import Raw, decoded
from ...codes import ErrorCode, McpErrorCode
from ...errors import RpcError
from .capabilities import ServerCapabilities
from .definitions import Definition, Prompt, Resource, ResourceTemplate, Tool
from .versions import REVISIONS

PROTOCOL_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
REQUEST_KEYS: Final = frozenset({PROTOCOL_VERSION_KEY, CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY})
"""The members of `_meta` in which a client of 2026-07-28 describes itself in each request."""
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID_KEY: Final = "io.modelcontextprotocol/subscriptionId"

HEADER_KEY: Final = "x-mcp-header"
"""The annotation of an input schema by which a tool asks for an argument as a header (SEP-2243)."""

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The extension of 2026-07-28 for tasks (SEP-2663)."""
TASKS_CAPABILITY: Final = f"extensions.{TASKS_EXTENSION}"

INPUT_REQUESTS: Final = {
    "elicitation/create": "elicitation",
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
}
"""The requests by which a server asks its client, and the capability that each needs."""

LISTEN_METHOD: Final = "subscriptions/listen"
"""The request that opens a subscription (2026-07-28). Its response ends the subscription."""
RESOURCES_FILTER: Final = "resourceSubscriptions"
"""The member of its filter with the URIs whose changes the client wants."""

FINAL_STATUSES: Final = frozenset({"cancelled", "completed", "failed"})
"""The statuses in which a task stays."""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of `notifications/message` (RFC 5424), the least severe first."""
UNKNOWN_LEVEL: Final = f"level must be one of {', '.join(LOG_LEVELS)}"

MAX_COMPLETIONS: Final = 100
"""Maximum number of values in one completion (specification, "Completion")."""

MAX_INPUTS: Final = 1000
"""Maximum number of members in `inputRequests`, in `inputResponses` and in the responses of earlier rounds."""

_MAX_VERSION_CHARACTERS: Final = 64  # errors repeat the version, so its size has a bound

MISSING_CLIENT_REQUESTS: Final[dict[str, frozenset[str]]] = {
    version: frozenset().union(*[other.client_requests for other in REVISIONS.values()]) - revision.client_requests
    for version, revision in REVISIONS.items()
}
"""By version: the client requests that only other revisions define."""
MISSING_SERVER_REQUESTS: Final[dict[str, frozenset[str]]] = {
    version: frozenset().union(*[other.server_requests for other in REVISIONS.values()]) - revision.server_requests
    for version, revision in REVISIONS.items()
}
"""By version: the server requests that only other revisions define."""


FeatureKind: TypeAlias = Literal["tools", "prompts", "resources"]


class ListChange(NamedTuple):
    """The notification of it, the capability to send that, and the member of a subscription's filter to get it."""

    method: str
    capability: str
    member: str


LIST_CHANGES: Final[dict[FeatureKind, ListChange]] = {
    kind: ListChange(f"notifications/{kind}/list_changed", f"{kind}.listChanged", f"{kind}ListChanged")
    for kind in get_args(FeatureKind)
}
"""The changes of lists by kind."""


UPDATED: Final = "notifications/resources/updated"
"""The notification that a resource has changed."""


def changes_filter(capabilities: ServerCapabilities) -> dict[str, Any]:
    """Return the filter of `subscriptions/listen` for all changes of lists that a server announces."""
    return {change.member: True for change in LIST_CHANGES.values() if capabilities.supports(change.capability)}


class ListMethod(NamedTuple):
    """A list that clients ask for.

    Attributes:
        kind: The capability that it needs, and the kind for `list_changed`.
        member: The member of the result with the items.
    """

    kind: FeatureKind
    member: str
    key: str
    type: type[Definition]


LIST_METHODS: Final = {
    "prompts/list": ListMethod("prompts", "prompts", "name", Prompt),
    "resources/list": ListMethod("resources", "resources", "uri", Resource),
    "resources/templates/list": ListMethod("resources", "resourceTemplates", "uriTemplate", ResourceTemplate),
    "tools/list": ListMethod("tools", "tools", "name", Tool),
}
"""The lists by method."""


def object_members(value: object) -> dict[str, Any]:
    """Return the members of an object, decoded or raw; {} for a value that is not an object."""
    if type(value) is dict:  # the usual case
        return value
    value = decoded(value)
    return value if isinstance(value, dict) else {}


def member_of(payload: object, name: str) -> Any:
    """Return a member of an object, decoded; None if it is absent, or the value is not an object.

    Of a `Raw`, the other members are not decoded.
    """
    if type(payload) is dict:
        return payload.get(name)
    # A gateway reads single members of payloads of any size.
    found = payload.get((name,)) if type(payload) is Raw else None
    return None if found is None else found.decode()


def is_modern_meta(meta: object) -> bool:
    """Return whether `_meta` marks a modern request. One of two members is enough; an error names the missing one."""
    return isinstance(meta, dict) and (PROTOCOL_VERSION_KEY in meta or CLIENT_CAPABILITIES_KEY in meta)


def method_not_found() -> RpcError:
    """Return the error -32601."""
    return RpcError(ErrorCode.METHOD_NOT_FOUND)


def version_of(members: Mapping[str, Any], name: str) -> str:
    """Return the version in a member. Raises RpcError: it is no string, or too long for an error (-32602)."""
    version = members.get(name)
    if not isinstance(version, str) or len(version) > _MAX_VERSION_CHARACTERS:
        raise RpcError.invalid_params(f"{name} must be a string of at most {_MAX_VERSION_CHARACTERS} characters")
    return version


def unsupported_version(requested: str, supported: Sequence[str], where: str = "") -> RpcError:
    """Return the error -32022. It lists the supported versions, given the oldest first, the latest first."""
    data = {"supported": [*reversed(supported)], "requested": requested}
    return RpcError(McpErrorCode.UNSUPPORTED_PROTOCOL_VERSION, f"Unsupported protocol version{where}", data)


class Prefixes:
    """The names of several servers in one list: the server's name, a separator, the name at that server.

    No name is ambiguous: no prefix begins with another one.
    """

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._prefixes: dict[str, str] = {}

    def add(self, server: str, prefix: str | None = None) -> None:
        """Add a server, whose names begin with a prefix: its name and the separator, if none is given.

        Raises ValueError: the names of two servers make the names of their tools ambiguous.
        """
        prefix = server + self._separator if prefix is None else prefix
        # If one prefix began with another, a name would have two meanings: `a_b_c` could be of `a` or of `a_b`.
        for other, known in self._prefixes.items():
            if prefix.startswith(known) or known.startswith(prefix):
                raise ValueError(
                    f"the servers {other!r} and {server!r} would have names in common: change one, or the separator"
                )
        self._prefixes[server] = prefix

    def join(self, server: str, name: str) -> str:
        """Return the name in the common list."""
        return self._prefixes[server] + name

    def split(self, name: str) -> tuple[str, str] | None:
        """Return the server of a name in the common list, and the name at that server; None if no server has it."""
        # At most one fits, because `add` refuses a prefix that begins with another.
        for server, prefix in self._prefixes.items():
            if name.startswith(prefix):
                return server, name[len(prefix) :]
        return None
