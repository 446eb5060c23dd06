"""The client's side of the handshake, without IO.

Rules:
  - legacy: `initialize` with the latest version it speaks; it leaves if it does not speak the one it is answered.
  - modern: `server/discover`, then `_meta` on every request.
  - auto: it probes with `server/discover`. An error -32022 with a version in common is tried again, once; any other
    error, a timeout, or an answer without a version in common means a legacy server. If such a one answers
    `initialize` with -32022, it was only slow, and is asked again, once. If the connection is lost before the
    handshake is done, the server may have ended because of the probe: on another connection there is none.

Sources: specification 2025-11-25 "Lifecycle", 2026-07-28 "Versioning and Compatibility" and "stdio".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ...codec import Notification, Request
from ...codes import ErrorCode, McpErrorCode
from ...errors import CallTimeout, HandshakeError, RpcError
from ..protocol.capabilities import ClientCapabilities, Implementation, ServerCapabilities
from ..protocol.meta import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    MISSING_SERVER_REQUESTS,
    PROTOCOL_VERSION_KEY,
    SERVER_INFO_KEY,
    HandshakeReply,
    method_not_found,
    object_members,
)
from ..protocol.versions import (
    HANDSHAKE_VERSIONS,
    MODERN_VERSIONS,
    REVISIONS,
    VERSIONS,
    Revision,
    in_order,
    latest_common,
)

PROBE_SECONDS: Final = 10.0
"""How long a client waits for the answer to its probe before it takes the server for a legacy one."""


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What a client knows of its server.

    revision      the protocol revision
    capabilities  what the server offers
    info          who the server says it is, or None (a modern one may leave it out)
    instructions  how to use the server, or None
    meta          what every request carries in `_meta`: nothing for a legacy server
    """

    revision: Revision
    capabilities: ServerCapabilities
    info: Implementation | None
    instructions: str | None
    meta: dict[str, Any] = field(default_factory=dict, repr=False)

    def params(self, params: Mapping[str, Any] | None = None, **meta: Any) -> dict[str, Any] | None:
        """The params of a request to this server, with what every request carries.

        meta  more members of `_meta`: `progressToken=…`, `**{LOG_LEVEL_KEY: "info"}`
        """
        members = {**self.meta, **meta}
        if not members:
            return None if params is None else dict(params)
        given = (params or {}).get("_meta") or {}
        return {**(params or {}), "_meta": {**given, **members}}


@dataclass(frozen=True, slots=True)
class Call:
    """The next request of a handshake. Without an answer in `timeout_seconds` it has failed; None: the caller's own."""

    method: str
    params: dict[str, Any]
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """The handshake is done: send `notification`, if there is one, and go on."""

    server: ServerContext
    notification: Notification | None = None


class ClientHandshake:
    """The client's side of one connection.

        step = handshake.start()
        while isinstance(step, Call):
            try:
                result = …                          # the answer to step.method, step.params
            except (RpcError, CallTimeout) as error:
                step = handshake.failed(error)
            else:
                step = handshake.answered(result)

    info           who the client is
    capabilities   what it can do. Each server sees the members that its revision has
    mode           "legacy", "modern" or "auto"
    versions       the revisions it speaks, in any order
    probe_seconds  how long to wait for the answer to a probe

    Raises ValueError if no version is left for the mode.
    """

    def __init__(
        self,
        info: Implementation,
        capabilities: ClientCapabilities,
        mode: Literal["auto", "legacy", "modern"] = "auto",
        *,
        versions: Sequence[str] = VERSIONS,
        probe_seconds: float = PROBE_SECONDS,
    ) -> None:
        if mode not in ("auto", "legacy", "modern"):
            raise ValueError('mode must be "auto", "legacy" or "modern"')
        speaks = in_order(versions)
        self._legacy_versions = [v for v in speaks if v in HANDSHAKE_VERSIONS and mode != "modern"]
        self._modern_versions = [v for v in speaks if v in MODERN_VERSIONS and mode != "legacy"]
        if not self._legacy_versions and not self._modern_versions:
            raise ValueError(f"none of the versions is {mode}")
        self._info = info
        self._capabilities = capabilities
        self._probe_seconds = probe_seconds
        self._asked: Literal["", "initialize", "server/discover"] = ""
        self._was_corrected = False
        self._server: ServerContext | None = None

    @property
    def server(self) -> ServerContext | None:
        """What is known of the server; None before the handshake is done."""
        return self._server

    def start(self) -> Call:
        """The first request."""
        return self._discover(self._modern_versions[-1]) if self._modern_versions else self._initialize()

    def answered(self, result: object) -> Call | Ready:
        """What follows the result of the request that was sent last. Raises HandshakeError: leave."""
        members = object_members(result)
        return self._initialized(members) if self._asked == "initialize" else self._discovered(members)

    def failed(self, error: RpcError | CallTimeout) -> Call | Ready:
        """What follows the error, or the timeout, of the request that was sent last. Raises HandshakeError: leave."""
        is_unsupported = isinstance(error, RpcError) and error.code == McpErrorCode.UNSUPPORTED_PROTOCOL_VERSION
        if is_unsupported:
            theirs = _strings(object_members(error.data).get("supported")) if isinstance(error, RpcError) else None
            common = latest_common(theirs or (), self._modern_versions)
            if common is not None and not self._was_corrected:
                self._was_corrected = True
                return self._discover(common)
            if theirs and latest_common(theirs, self._legacy_versions) is None:
                raise HandshakeError("the server speaks no version that this client does") from error
        if self._asked == "server/discover" and self._legacy_versions:
            return self._initialize()
        raise HandshakeError(f"the server did not answer {self._asked} with a result") from error

    def restarted(self) -> Call | None:
        """The first request on another connection, after the first one was lost.

        None: the handshake was done, or there was no probe that could be the reason.
        """
        if self._server is not None or not self._modern_versions or not self._legacy_versions:
            return None
        self._modern_versions = []
        return self._initialize()

    def receive_request(self, request: Request) -> ServerContext | HandshakeReply:
        """How to serve a request of the server: by a handler, or with this answer. Raises RpcError, the answer then."""
        server = self._server
        if server is None:
            if request.method == "ping":
                return HandshakeReply({})
            raise RpcError(ErrorCode.INVALID_REQUEST, "the session is not initialized")
        if request.method in MISSING_SERVER_REQUESTS[server.revision.version]:
            raise method_not_found()
        return HandshakeReply({}) if request.method == "ping" else server

    def _discover(self, version: str) -> Call:
        self._asked = "server/discover"
        return Call("server/discover", {"_meta": self._meta(version)}, self._probe_seconds)

    def _initialize(self) -> Call:
        self._asked = "initialize"
        version = self._legacy_versions[-1]
        params = {
            "protocolVersion": version,
            "capabilities": self._capabilities.to_dict(version),
            "clientInfo": self._info.to_dict(version),
        }
        return Call("initialize", params)

    def _meta(self, version: str) -> dict[str, Any]:
        return {
            PROTOCOL_VERSION_KEY: version,
            CLIENT_INFO_KEY: self._info.to_dict(version),
            CLIENT_CAPABILITIES_KEY: self._capabilities.to_dict(version),
        }

    def _initialized(self, result: dict[str, Any]) -> Ready:
        version = result.get("protocolVersion")
        if not isinstance(version, str) or version not in self._legacy_versions:
            raise HandshakeError("the server offers a version that this client does not speak")
        try:
            capabilities = ServerCapabilities.from_dict(result.get("capabilities"), version, path="/capabilities")
            info = Implementation.from_dict(result.get("serverInfo"), version, path="/serverInfo")
        except ValueError as fault:
            raise HandshakeError(f"the server's answer to initialize is wrong: {fault}") from None
        self._server = ServerContext(REVISIONS[version], capabilities, info, _text(result.get("instructions")))
        return Ready(self._server, Notification("notifications/initialized"))

    def _discovered(self, result: dict[str, Any]) -> Call | Ready:
        version = latest_common(_strings(result.get("supportedVersions")) or (), self._modern_versions)
        fault = "the server speaks no version that this client does"
        if version is not None:
            try:
                capabilities = ServerCapabilities.from_dict(result.get("capabilities"), version, path="/capabilities")
            except ValueError as error:
                fault = f"the server's answer to server/discover is wrong: {error}"
            else:
                instructions = _text(result.get("instructions"))
                info = _server_info(result, version)
                self._server = ServerContext(REVISIONS[version], capabilities, info, instructions, self._meta(version))
                return Ready(self._server)
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
