"""The context of a registered function: its client, progress, notifications."""

from __future__ import annotations

import json
import logging
import math
from datetime import date
from typing import Any

import pytest

from jsonrpc_fast.errors import ConnectionLost, StateError
from jsonrpc_fast.mcp.server.context import Context
from jsonrpc_fast.mcp.server.server import Server

from ...support.mcp_conversation import converse
from ...support.mcp_sample import sample
from ...support.tables import rows

CLIENT = {"name": "test", "version": "1"}


@rows("version", ["2025-11-25", "2026-07-28"])
async def test_a_function_sends_notifications_of_an_extension(version: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("tells", "1")
    kept: list[Context] = []

    @server.tool
    async def tell(context: Context) -> str:
        kept.append(context)
        await context.notify("notifications/tasks/status", {"taskId": "t", "when": date(2026, 1, 2)})
        await context.notify("com.example/bare")
        return "sent"

    @server.tool
    async def fail(context: Context, method: str = "notifications/x", faulty: bool = False) -> None:
        await context.notify(method, {"x": object()} if faulty else {})

    with caplog.at_level(logging.ERROR, "jsonrpc_fast"):
        async with converse(server, version) as client:
            await client.result("tools/call", {"name": "tell"})
            assert [(heard["method"], heard.get("params")) for heard in client.notifications] == [
                ("notifications/tasks/status", {"taskId": "t", "when": "2026-01-02"}),
                ("com.example/bare", None),
            ]
            await kept[0].notify("com.example/late")  # after the response to its request
            await client.notification("com.example/late")
            for arguments in (
                {"method": "notifications/progress"},
                {"method": "notifications/message"},
                {"method": "notifications/tools/list_changed"},
                {"faulty": True},
            ):
                failed = await client.result("tools/call", {"name": "fail", "arguments": arguments})
                assert failed["isError"] is True
        with pytest.raises((ConnectionLost, StateError)):
            await kept[0].notify("com.example/late")
    assert [type(record.exc_info[1]).__name__ for record in caplog.records if record.exc_info] == [
        *["ValueError"] * 3,
        "EncodeError",
    ]


async def test_notify_is_refused_before_the_client_is_initialized() -> None:
    server = Server("tells", "1")

    @server.tool
    async def tell(context: Context) -> None:
        await context.notify("com.example/early")

    async with converse(server, "") as client:
        client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT})
        assert (await client.error("tools/call", {"name": "tell"}))[0] == -32600
        client.notify("notifications/initialized")
        await client.result("tools/call", {"name": "tell"})
        await client.notification("com.example/early")


async def test_progress_is_sent_only_to_clients_that_asked() -> None:
    async with converse(sample(), "2025-11-25") as client:
        await client.result("tools/call", {"name": "work", "arguments": {"steps": 1}})
        assert [heard["method"] for heard in client.notifications] == ["notifications/message"]
        params = {"name": "work", "arguments": {"steps": 1}, "_meta": {"progressToken": 7}}
        await client.result("tools/call", params)
        progress = await client.notification("notifications/progress")
        assert progress["params"] == {"progressToken": 7, "progress": 1, "total": 1, "message": "working"}


@rows(
    ("numbers", "fault"),
    [
        ((math.nan,), "ValueError: progress must be finite"),
        ((1, math.inf), "ValueError: total must be finite"),
        (("1",), "TypeError: progress must be a number, not str"),
        ((None,), "TypeError: progress must be a number, not NoneType"),
        ((1, True), "TypeError: total must be a number, not bool"),
    ],
)
@rows("thread", [False, True])
async def test_progress_that_is_not_a_finite_number_is_refused(numbers: Any, fault: str, thread: bool) -> None:
    server = Server("counts", "1")

    @server.tool(thread=thread)
    def count(context: Context) -> str:
        try:
            context.report_progress(*numbers)
        except (TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return "sent"

    async with converse(server, "2025-11-25") as client:
        result = await client.result("tools/call", {"name": "count", "_meta": {"progressToken": 7}})
        assert result["content"] == [{"type": "text", "text": fault}]
        assert not client.notifications


@rows("version", ["2025-11-25", "2026-07-28"])
async def test_a_tool_sees_its_client(version: str) -> None:
    server = Server("curious", "1")

    @server.tool()
    def who(context: Context) -> Any:
        name = None if context.client_info is None else context.client_info.name
        return [name, context.client_capabilities.supports("elicitation.url"), context.revision.version]

    @server.tool()
    def needs(context: Context) -> None:
        context.require("elicitation.url")

    async with converse(server, version) as client:
        [block] = (await client.result("tools/call", {"name": "who"}))["content"]
        assert json.loads(block["text"]) == ["test" if version == "2025-11-25" else None, False, version]
        code, _, data = await client.error("tools/call", {"name": "needs"})
        if version == "2025-11-25":
            assert (code, data) == (-32600, None)
        else:
            assert (code, data) == (-32021, {"requiredCapabilities": {"elicitation": {"url": {}}}})
