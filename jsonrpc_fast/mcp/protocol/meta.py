"""The names in `_meta`, the log levels, and which side may send which request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ...codec import Raw
from ...codes import RPC_MESSAGES, ErrorCode
from ...errors import RpcError
from .versions import (
    REVISIONS,
    VERSIONS,
)

PROTOCOL_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"


CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"


CLIENT_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"


LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"


SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"


SUBSCRIPTION_ID_KEY: Final = "io.modelcontextprotocol/subscriptionId"


LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of `notifications/message` (RFC 5424), the least severe first."""


_CLIENT_REQUESTS: Final = frozenset().union(*[revision.client_requests for revision in REVISIONS.values()])


_SERVER_REQUESTS: Final = frozenset().union(*[revision.server_requests for revision in REVISIONS.values()])


# What other revisions have, and one has not.
_NO_CLIENT_REQUESTS: Final = {name: _CLIENT_REQUESTS - REVISIONS[name].client_requests for name in VERSIONS}


_NO_SERVER_REQUESTS: Final = {name: _SERVER_REQUESTS - REVISIONS[name].server_requests for name in VERSIONS}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is to be answered with: it needs no handler."""

    result: dict[str, Any]


def _members_of(params: object) -> dict[str, Any]:
    """The members of an object, decoded or raw. What is no object has none: it lacks whatever is needed."""
    if isinstance(params, Raw):
        params = params.decode()
    return params if isinstance(params, dict) else {}


def _not_found() -> RpcError:
    return RpcError(ErrorCode.METHOD_NOT_FOUND, RPC_MESSAGES[ErrorCode.METHOD_NOT_FOUND])


def _invalid_params(message: str) -> RpcError:
    return RpcError(ErrorCode.INVALID_PARAMS, message)
