"""The client's side of the handshake, without IO: the next request, and the facts about the server in the responses.

Rules:
  - Mode "auto" probes with `server/discover`. After an error -32022 that names a common modern version it probes again
    with that; if the error names only unsupported versions, it fails. Any other error, a timeout, or a result without a
    common version means a legacy server: `initialize`. If that gets -32022, the server was only slow: it probes again,
    once.
  - A connection lost before the end of the handshake may be due to the probe: `restarted` begins again without it.

Sources: specification 2025-11-25 "Lifecycle", 2026-07-28 "Versioning and Compatibility" and "stdio".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from ...codec import Notification
from ...codes import ErrorCode, McpErrorCode
from ...errors import CallTimeout, HandshakeError, HttpStatusError, InvalidResponse, RpcError
from ..protocol.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from ..protocol.meta import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    MISSING_SERVER_REQUESTS,
    PROTOCOL_VERSION_KEY,
    SERVER_INFO_KEY,
    method_not_found,
    object_members,
)
from ..protocol.versions import (
    DEFAULT_VERSIONS,
    HANDSHAKE_VERSIONS,
    MODERN_VERSIONS,
    REVISIONS,
    VERSIONS,
    Revision,
    latest_common,
)

PROBE_SECONDS: Final = 10.0
"""How long a client waits for the response to its probe before it treats the server as legacy."""

_NO_COMMON_VERSION: Final = "the server and this client support no common version"


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The facts that a client knows about its server.

    Attributes:
        info: The server's name and version; None if a modern server leaves them out.
        instructions: How to use the server; None if the server sends none.
        meta: The members of `_meta` that every request carries: none for a legacy server.
    """

    revision: Revision
    capabilities: ServerCapabilities
    info: Implementation | None
    instructions: str | None
    meta: dict[str, Any] = field(default_factory=dict, repr=False)

    def params(self, params: Mapping[str, Any] | None = None, **meta: Any) -> dict[str, Any] | None:
        """Return the params of a request to this server, with the `_meta` that every request carries.

        Args:
            params: The request's own params; None: none.
        """
        members = {**self.meta, **meta}
        if not members:
            return None if params is None else dict(params)
        # The caller's own members stay, but the version and the capabilities are those of the handshake.
        given = (params or {}).get("_meta") or {}
        return {**(params or {}), "_meta": {**given, **members}}


@dataclass(frozen=True, slots=True)
class SendRequest:
    """A step of the handshake: send this request.

    Attributes:
        timeout_seconds: How long to wait for the response; None: the caller's own timeout.
        is_probe: Whether there is another step to try if there is no response, for which some time must be left.
    """

    method: str
    params: dict[str, Any]
    timeout_seconds: float | None = None
    is_probe: bool = False

    def seconds(self, left: float | None) -> float | None:
        """Return how long to wait for the response, with some seconds left for the handshake (None: no limit)."""
        if left is not None and self.is_probe:
            # A server that does not respond to the probe may still respond to `initialize`.
            left -= min(PROBE_SECONDS, left / 2)
        return min((seconds for seconds in (self.timeout_seconds, left) if seconds is not None), default=None)


Step: TypeAlias = "SendRequest | Notification | None"
"""A step of the handshake: a request, or the last step: a notification, or None if the revision has none."""


class ClientHandshake:
    """The client's side of the handshake on one connection.

        step = handshake.start()
        while isinstance(step, SendRequest):
            try:
                result = …                          # send step.method and step.params, wait for the response
            except (RpcError, CallTimeout) as error:
                step = handshake.failed(error)
            else:
                step = handshake.succeeded(result)
        if step is not None:
            …                                       # send the notification

    Args:
        capabilities: What the client supports. Each server gets the members that its revision defines.
        mode: "legacy": only `initialize`; "modern": only `server/discover`; "auto"; or the only version to support.
        probe_seconds: How long to wait for the response to a probe; None: the caller's own timeout.

    Attributes:
        server: The facts about the server; None before the handshake is done.

    Raises ValueError: the mode is unknown.
    """

    def __init__(
        self,
        info: Implementation,
        capabilities: ClientCapabilities,
        mode: str,
        probe_seconds: float | None,
    ) -> None:
        if mode not in ("auto", "legacy", "modern", *VERSIONS):
            raise ValueError(f'mode must be "auto", "legacy", "modern" or one of {", ".join(VERSIONS)}')
        supported = [mode] if mode in REVISIONS else DEFAULT_VERSIONS
        self._legacy_versions = [v for v in supported if v in HANDSHAKE_VERSIONS and mode != "modern"]
        self._modern_versions = [v for v in supported if v in MODERN_VERSIONS and mode != "legacy"]
        self._info = info
        self._capabilities = capabilities
        self._probe_seconds = probe_seconds
        self._asked: Literal["", "initialize", "server/discover"] = ""
        self._was_corrected = False
        self._has_probed = False
        self.server: ServerContext | None = None

    def start(self, *, probes: bool = True) -> SendRequest:
        """Return the first step.

        Args:
            probes: Whether mode "auto" begins with the probe. Otherwise `initialize` comes first, and the probe only if
                the server does not know it.
        """
        if self._modern_versions and (probes or not self._legacy_versions):
            return self._discover(self._modern_versions[-1])
        return self._initialize()

    def succeeded(self, result: object) -> Step:
        """Return the step after the result of the last request.

        Raises HandshakeError: the result is invalid, or there is no common version: disconnect.
        """
        members = object_members(result)
        return self._initialized(members) if self._asked == "initialize" else self._discovered(members)

    def failed(self, error: RpcError | CallTimeout | HttpStatusError | InvalidResponse) -> Step:
        """Return the step after an error, an HTTP status, a timeout or a malformed response of the last request.

        Raises HandshakeError: there is nothing else to try: disconnect.
        """
        if isinstance(error, RpcError) and error.code == McpErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
            offered = _strings(object_members(error.data).get("supported"))
            common = latest_common(offered or (), self._modern_versions)
            # Only once: a server that refuses the versions that it offers would be probed endlessly.
            if common is not None and not self._was_corrected:
                self._was_corrected = True
                return self._discover(common)
            # The server has named its versions, and `initialize` could not agree on any of them either.
            if offered and latest_common(offered, self._legacy_versions) is None:
                raise HandshakeError(_NO_COMMON_VERSION) from error
        # A modern server does not know `initialize`.
        is_unknown = isinstance(error, RpcError) and error.code == ErrorCode.METHOD_NOT_FOUND
        if is_unknown and self._modern_versions and not self._has_probed:
            return self._discover(self._modern_versions[-1])
        # A legacy server responds to the probe with any error, such as that for unknown methods or for requests before
        # `initialize`, so the code is ignored.
        if self._asked == "server/discover" and self._legacy_versions:
            return self._initialize()
        raise HandshakeError(f"the server did not respond to {self._asked} with a result: {error}") from error

    def restarted(self) -> SendRequest | None:
        """Return the first step on a new connection, after the first connection was lost.

        Returns:
            The step; None if the probe cannot be the cause, because the handshake was done or there was no probe.
        """
        if self.server is not None or not self._modern_versions or not self._legacy_versions:
            return None
        # The second process must not get the probe that has ended the first one.
        self._modern_versions = []
        return self._initialize()

    def receive_request(self, method: str) -> dict[str, Any] | None:
        """Return the result of a request of the server that the handshake itself serves; None if a handler does.

        Raises RpcError: the error to send: the method is unknown, or the handshake is not done.
        """
        server = self.server
        if server is not None and method in MISSING_SERVER_REQUESTS[server.revision.version]:
            raise method_not_found()
        if method == "ping":
            return {}
        # Up to 2025-11-25 only pings may be sent before the handshake is done ("Lifecycle").
        if server is None:
            raise RpcError(ErrorCode.INVALID_REQUEST, "the session is not initialized")
        return None

    def _discover(self, version: str) -> SendRequest:
        self._asked = "server/discover"
        self._has_probed = True
        is_probe = bool(self._legacy_versions)
        seconds = self._probe_seconds if is_probe else None
        return SendRequest("server/discover", {"_meta": self._meta(version)}, seconds, is_probe)

    def _initialize(self) -> SendRequest:
        self._asked = "initialize"
        # The latest version; the server responds with the latest that it supports, which may be an older one.
        version = self._legacy_versions[-1]
        params = {
            "protocolVersion": version,
            "capabilities": self._capabilities.to_dict(version),
            "clientInfo": self._info.to_dict(version),
        }
        return SendRequest("initialize", params)

    def _meta(self, version: str) -> dict[str, Any]:
        return {
            PROTOCOL_VERSION_KEY: version,
            CLIENT_INFO_KEY: self._info.to_dict(version),
            CLIENT_CAPABILITIES_KEY: self._capabilities.to_dict(version),
        }

    def _initialized(self, result: dict[str, Any]) -> Notification:
        version = result.get("protocolVersion")
        if not isinstance(version, str) or version not in self._legacy_versions:
            raise HandshakeError("the server chose a version that this client does not support")
        try:
            capabilities = ServerCapabilities.from_dict(result.get("capabilities"), version, path="/capabilities")
            info = Implementation.from_dict(result.get("serverInfo"), version, path="/serverInfo")
        except ValueError as fault:
            raise HandshakeError(f"the server sent an invalid result for initialize: {fault}") from None
        self.server = ServerContext(REVISIONS[version], capabilities, info, _text(result.get("instructions")))
        return Notification("notifications/initialized")

    def _discovered(self, result: dict[str, Any]) -> Step:
        version = latest_common(_strings(result.get("supportedVersions")) or (), self._modern_versions)
        fault = _NO_COMMON_VERSION
        if version is not None:
            try:
                capabilities = ServerCapabilities.from_dict(result.get("capabilities"), version, path="/capabilities")
            except ValueError as error:
                fault = f"the server sent an invalid result for server/discover: {error}"
            else:
                instructions = _text(result.get("instructions"))
                info = _server_info(result, version)
                self.server = ServerContext(REVISIONS[version], capabilities, info, instructions, self._meta(version))
                return None
        if self._legacy_versions:
            return self._initialize()
        raise HandshakeError(fault)


def _server_info(result: dict[str, Any], version: str) -> Implementation | None:
    try:
        return Implementation.from_dict(object_members(result.get("_meta")).get(SERVER_INFO_KEY), version)
    except ValueError:
        return None


def _strings(value: object) -> list[str] | None:
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
