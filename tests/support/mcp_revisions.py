"""The released revisions by kind: a draft in the table of revisions changes no test."""

from __future__ import annotations

from typing import Final

from jsonrpc_fast.mcp.protocol.versions import RELEASED_VERSIONS, REVISIONS

HANDSHAKE_VERSIONS: Final = tuple(version for version in RELEASED_VERSIONS if not REVISIONS[version].is_modern)
MODERN_VERSIONS: Final = tuple(version for version in RELEASED_VERSIONS if REVISIONS[version].is_modern)
