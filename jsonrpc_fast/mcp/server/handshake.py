"""The server's side of the handshake, without IO.

Rules:
  - A request with a protocol version or client capabilities in `_meta` is modern. Both apply to this request only, so
    one stream may carry modern and legacy requests.
  - Every other request is legacy. Before `initialize` only `ping` is served; the rest gets an error: "method not found"
    if no legacy revision has the method, since newer clients probe for that, otherwise "not initialized".
  - A method that only other revisions define is not found; for modern requests that includes `initialize`. A registered
    method is found in every revision.

Sources: specification 2025-11-25 "Lifecycle", 2026-07-28 "Versioning and Compatibility" and "stdio".
"""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...codec import Notification, Request
from ...codes import ErrorCode, McpErrorCode
from ...errors import RpcError
from ..protocol.capabilities import ClientCapabilities, Implementation, ServerCapabilities, required_capabilities
from ..protocol.meta import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    MISSING_CLIENT_REQUESTS,
    MISSING_SERVER_REQUESTS,
    PROTOCOL_VERSION_KEY,
    SERVER_INFO_KEY,
    UNKNOWN_LEVEL,
    is_modern_meta,
    method_not_found,
    object_members,
    unsupported_version,
    version_of,
)
from ..protocol.versions import HANDSHAKE_VERSIONS, MODERN_VERSIONS, REVISIONS, Revision, in_order

_LEGACY_REQUESTS: Final = frozenset().union(*[REVISIONS[version].client_requests for version in HANDSHAKE_VERSIONS])
_SERVED_PLAINLY: Final = {
    version: REVISIONS[version].client_requests - {"initialize", "ping"} for version in HANDSHAKE_VERSIONS
}
"""By version: the requests of a session that need only a look-up if they have no `_meta`."""
_NO_CAPABILITIES: Final = ClientCapabilities()
_MODERN_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
_BEFORE_INITIALIZED: Final = frozenset({"notifications/message", "notifications/progress", "notifications/cancelled"})


CAPABILITIES: Final = ("completions", "logging", "prompts", "resources", "resources.subscribe", "tools")
"""The capabilities of a server that methods need."""


class RequestRules(NamedTuple):
    """The rules for serving one request.

    Attributes:
        client_info: Name and version of the client; None if a modern client did not send them.
        progress_token: The token for progress notifications; None: send none.
        log_level: The minimum level of log messages for this request; None: send none. Only for modern requests: a
            legacy client sets its level with `logging/setLevel`.
    """

    revision: Revision
    client_capabilities: ClientCapabilities
    client_info: Implementation | None = None
    progress_token: int | str | None = None
    log_level: str | None = None

    def require(self, capability: str) -> None:
        """Check that the client has a capability.

        Raises RpcError: the client lacks the capability (-32021; -32600 before 2026-07-28).
        """
        if self.client_capabilities.supports(capability):
            return
        message = f"the client lacks the capability {capability}"
        if not self.revision.is_modern:
            raise RpcError(ErrorCode.INVALID_REQUEST, message)
        data = {"requiredCapabilities": required_capabilities(capability)}
        raise RpcError(McpErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY, message, data)


class ServerHandshake:
    """The server's side of the handshake of one connection.

    Args:
        capabilities: The capabilities of the server. Each client gets the members that its revision defines.

    Attributes:
        declared: The names of those that methods need, of `CAPABILITIES`.
        session: The rules that `initialize` agreed on; None without a legacy session.

    Raises ValueError: a version is unknown, or no version is given.
    """

    def __init__(
        self,
        info: Implementation,
        capabilities: ServerCapabilities,
        versions: Sequence[str],
        instructions: str | None,
        cache_hints: Mapping[str, Any],
        methods: Container[str],
    ) -> None:
        self._info = info
        self.capabilities: ServerCapabilities = capabilities
        self.declared: frozenset[str] = frozenset(filter(capabilities.supports, CAPABILITIES))
        self._versions = in_order(versions)
        self._legacy_versions = [version for version in self._versions if version in HANDSHAKE_VERSIONS]
        self._modern_versions = [version for version in self._versions if version in MODERN_VERSIONS]
        self._instructions = instructions
        self._written_info: dict[str, dict[str, Any]] = {}  # by version
        self._cache_hints = cache_hints
        self._methods = methods
        self.session: RequestRules | None = None
        self.is_initialized: bool = False

    def receive_request(self, method: str, params: object = None) -> RequestRules | dict[str, Any]:
        """Decide how to serve a request. Call this for all requests, in the order of arrival.

        Returns:
            The rules for a handler, or the result if the handshake itself serves the request.

        Raises RpcError: the request is refused with this error.
        """
        # An array has no `_meta`, and neither have absent params: then the request is legacy.
        members = params if type(params) is dict else object_members(params)
        meta = members.get("_meta")
        session = self.session
        if meta is None and session is not None and method in _SERVED_PLAINLY[session.revision.version]:
            return session
        # Modern requests are stateless, so each one is examined. The name of `server/discover` makes it modern.
        if self._modern_versions and (
            method == "server/discover" or not self._legacy_versions or (meta is not None and is_modern_meta(meta))
        ):
            if method == "initialize" and not is_modern_meta(meta):
                raise unsupported_version(version_of(members, "protocolVersion"), self._modern_versions)
            return self._receive_modern(method, meta)
        if method == "initialize":
            return self._initialize(members)
        if method == "ping":
            return {}
        if session is None:
            # To clients that probe, -32601 means a server of an earlier revision.
            if method in _LEGACY_REQUESTS or method in self._methods:
                raise RpcError(ErrorCode.INVALID_REQUEST, "the session is not initialized")
            raise method_not_found()
        # A method of another revision does not exist for this client, even if this server has it for others.
        if method in MISSING_CLIENT_REQUESTS[session.revision.version] and method not in self._methods:
            raise method_not_found()
        token = None if meta is None else _progress_token(meta)
        return session if token is None else session._replace(progress_token=token)

    def receive_notification(self, method: str) -> bool:
        """Return whether to handle a notification. Early and repeated ones are dropped ("Lifecycle")."""
        if method == "notifications/initialized":
            # A repeated notification must not call its functions again.
            is_due = self.session is not None and not self.is_initialized
            self.is_initialized |= is_due
            return is_due
        if self.session is not None:
            return True
        # Cancellation is the only notification of a modern client.
        return bool(self._modern_versions) and method == "notifications/cancelled"

    def may_send(self, message: Request | Notification) -> bool:
        """Return whether the server may send a request or a notification now.

        Only legacy clients get requests: before `notifications/initialized` only `ping`.
        """
        session = self.session
        if isinstance(message, Request):
            if session is None or message.method in MISSING_SERVER_REQUESTS[session.revision.version]:
                return False
            return self.is_initialized or message.method == "ping"
        # Without a session, the only possible messages belong to a modern request: there is no other client to write
        # to.
        if self.is_initialized or (session is None and self._modern_versions):
            return True
        return session is not None and message.method in _BEFORE_INITIALIZED

    def complete(self, revision: Revision, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return a handler's result with the members that its revision requires. Members already set are kept.

        From 2026-07-28 on these are `resultType`, `ttlMs` and `cacheScope`, and the server's name and version in
        `_meta`. Before, `resultType`, `ttlMs` and `cacheScope` are left out.
        """
        if not revision.is_modern:
            if _MODERN_MEMBERS.isdisjoint(result):
                return result
            return {name: value for name, value in result.items() if name not in _MODERN_MEMBERS}
        completed: dict[str, Any] = {"resultType": "complete"}
        # A result that asks for input must not be cached.
        if method in revision.cacheable and result.get("resultType", "complete") == "complete":
            completed.update(self._cache_hints)
        # The members of the result come last: what a handler has set is kept.
        completed |= result
        # Written once for each revision, because every modern result needs it.
        info = self._written_info.get(revision.version)
        if info is None:
            info = self._written_info[revision.version] = self._info.to_dict(revision.version)
        completed["_meta"] = {SERVER_INFO_KEY: dict(info), **(result.get("_meta") or {})}
        return completed

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        requested = version_of(params, "protocolVersion")
        if self.session is not None:
            raise RpcError(ErrorCode.INVALID_REQUEST, "the session is already initialized")
        # An unknown version is not an error: the client decides whether it can use the one that is offered.
        version = requested if requested in self._legacy_versions else self._legacy_versions[-1]
        self.session = RequestRules(
            REVISIONS[version],
            _record(ClientCapabilities, params, "capabilities", version),
            _record(Implementation, params, "clientInfo", version),
        )
        result = {
            "protocolVersion": version,
            "capabilities": self.capabilities.to_dict(version),
            "serverInfo": self._info.to_dict(version),
        }
        return result if self._instructions is None else {**result, "instructions": self._instructions}

    def _receive_modern(self, method: str, meta: object) -> RequestRules | dict[str, Any]:
        if not isinstance(meta, dict) or PROTOCOL_VERSION_KEY not in meta:
            raise RpcError.invalid_params(f"_meta lacks {PROTOCOL_VERSION_KEY}")
        version = version_of(meta, PROTOCOL_VERSION_KEY)
        if version not in self._modern_versions:
            # The error lists the versions that `server/discover` lists: the client chooses one and repeats its request.
            raise unsupported_version(version, self._modern_versions)
        revision = REVISIONS[version]
        capabilities = meta.get(CLIENT_CAPABILITIES_KEY)
        if capabilities == {}:
            # Most clients send the same capabilities, so the record is read only once for all of them.
            capabilities = _NO_CAPABILITIES
        else:
            capabilities = _record(ClientCapabilities, meta, CLIENT_CAPABILITIES_KEY, version)
        info = meta.get(CLIENT_INFO_KEY)  # optional here, unlike in `initialize`
        if info is not None:
            # Clients repeat it with each request, so it is cached, with a bound.
            is_usual = type(info) is dict and len(info) == 2
            is_usual = is_usual and type(info.get("name")) is str and type(info.get("version")) is str
            if is_usual and len(info["name"]) + len(info["version"]) < 256:
                info = _client_info(version, *info.items())
            else:
                info = _record(Implementation, meta, CLIENT_INFO_KEY, version)
        # The level applies to one request; without it no log messages are sent. Modern clients have no
        # `logging/setLevel`.
        level = meta.get(LOG_LEVEL_KEY)
        if level is not None and level not in LOG_LEVELS:
            raise RpcError.invalid_params(f"{LOG_LEVEL_KEY}: {UNKNOWN_LEVEL}")
        token = _progress_token(meta) if "progressToken" in meta else None
        rules = RequestRules(revision, capabilities, info, token, level)
        if method in MISSING_CLIENT_REQUESTS[version] and method not in self._methods:
            raise method_not_found()
        return self._discover(rules) if method == "server/discover" else rules

    def _discover(self, rules: RequestRules) -> dict[str, Any]:
        result = {
            # Those that a request may carry, the latest first: legacy versions need a session.
            "supportedVersions": [*reversed(self._modern_versions)],
            "capabilities": self.capabilities.to_dict(rules.revision.version),
        }
        if self._instructions is not None:
            result["instructions"] = self._instructions
        return self.complete(rules.revision, "server/discover", result)


@functools.lru_cache(256)
def _client_info(version: str, *items: tuple[str, str]) -> Implementation:
    return Implementation.from_dict(dict(items), version)


def _record(cls: Any, members: dict[str, Any], name: str, version: str) -> Any:
    found = members.get(name)
    if found is None:
        raise RpcError.invalid_params(f"{name} is missing")
    try:
        return cls.from_dict(found, version)
    except ValueError as fault:
        raise RpcError.invalid_params(f"{name}: {fault}") from None


def _progress_token(meta: object) -> int | str | None:
    """The progress token; None if it is absent or invalid."""
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    # An invalid token is not a reason to refuse the call: the client gets no progress.
    return token if isinstance(token, str) or type(token) is int else None
