"""What a server sends to a client unprompted: log messages, and their levels."""

from __future__ import annotations

import pytest

from jsonrpc_fast.mcp.server.session import check_level

from ...support.mcp_conversation import converse
from ...support.mcp_sample import sample
from ...support.tables import rows


async def test_a_legacy_client_sets_its_log_level() -> None:
    server = sample()
    async with converse(server, "2025-11-25") as client:
        server.log("debug", "no")
        server.log("info", "one")
        await client.result("logging/setLevel", {"level": "error"})
        server.log("warning", "no")
        server.log("emergency", {"two": 2}, "sample")
        await client.result("tools/call", {"name": "work", "arguments": {"steps": 1}})
        assert [heard["params"] for heard in client.notifications] == [
            {"level": "info", "data": "one"},
            {"level": "emergency", "data": {"two": 2}, "logger": "sample"},
        ]
        assert (await client.error("logging/setLevel", {"level": "loud"}))[0] == -32602
        with pytest.raises(ValueError, match=r"^level must be one of debug, info"):
            server.log("loud", "no")


@rows("level", ["", "loud", "Info", "warn", None])
def test_an_unknown_level(level: str) -> None:
    with pytest.raises(ValueError, match=r"^level must be one of debug, info, notice, warning, error, critical, alert"):
        check_level(level)
