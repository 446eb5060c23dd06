"""What a gateway shows of the tools of a server, and what its calls become."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp import Gateway
from jsonrpc_fast.mcp.server import Server

from ...support.mcp_gateway import Scripted, client_of, text_of
from ...support.tables import rows

pytestmark = pytest.mark.virtual_time

RULES: dict[str, Any] = {
    "includeTools": ["query*", "ask"],
    "excludeTools": ["query_admin"],
    "tools": {"query": {"name": "ask", "description": "Ask the shop.", "fixed": {"database": "shop", "limit": 5}}},
}


def database() -> Server:
    server = Server("database", "1.0")

    @server.tool
    def query(sql: str, database: str, limit: int = 1) -> str:
        """Ask any database."""
        return f"{sql} of {database}, {limit}"

    @server.tool
    def query_all() -> str:
        return "all"

    @server.tool
    def query_admin() -> str:
        return "secret"

    @server.tool
    def ask() -> str:
        return "of the server itself"

    @server.tool(scopes=["write"])
    def drop() -> str:
        return "dropped"

    return server


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_tools_of_a_server_are_chosen_and_changed(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    async with client_of(Gateway({"db": {"server": database(), **RULES}}), mode) as client:
        tools = {tool["name"]: tool for tool in await client.list_tools()}
        assert list(tools) == ["db_ask", "db_query_all"]
        assert tools["db_ask"]["description"] == "Ask the shop."
        schema = tools["db_ask"]["inputSchema"]
        assert (list(schema["properties"]), schema["required"]) == (["sql"], ["sql"])
        assert text_of(await client.call_tool("db_ask", {"sql": "tea"})) == "tea of shop, 5"
        assert text_of(await client.call_tool("db_query_all", {})) == "all"
        for name in ("query", "query_admin", "drop", "none"):
            with pytest.raises(RpcError, match="Unknown tool"):
                await client.call("tools/call", {"name": f"db_{name}", "arguments": {"sql": "tea"}})
        for arguments in ({"sql": "tea", "database": "other"}, {"limit": 5}):
            with pytest.raises(RpcError, match=r"the gateway sets the argument (database|limit): leave it out"):
                await client.call("tools/call", {"name": "db_ask", "arguments": arguments})
        assert not caplog.records


@rows(
    ("params", "sent"),
    [
        ({"name": "db_a"}, {"name": "b", "arguments": {"k": [1.50]}}),
        ({"name": "db_a", "arguments": {}}, {"name": "b", "arguments": {"k": [1.50]}}),
        ({"name": "db_a", "arguments": {"x": 2**70}}, {"name": "b", "arguments": {"x": 2**70, "k": [1.50]}}),
        ({"arguments": None, "name": "db_a"}, {"name": "b", "arguments": {"k": [1.50]}}),
        ({"name": "db_a", "arguments": []}, "arguments must be an object"),
        ({"name": "db_a", "arguments": "k"}, "arguments must be an object"),
    ],
)
async def test_no_call_lacks_a_fixed_argument(params: dict[str, Any], sent: Any) -> None:
    server = Scripted({"tools/call": {"content": []}})
    rules = {"tools": {"b": {"name": "a", "fixed": {"k": [1.5]}}}}
    async with client_of(Gateway({"db": {"server": server, **rules}})) as client:
        if isinstance(sent, str):
            with pytest.raises(RpcError, match=sent):
                await client.session.call("tools/call", params)
        else:
            await client.session.call("tools/call", params)
            assert server.script.requests[-1]["params"] == sent


async def test_the_scopes_are_those_of_the_tool_that_is_called() -> None:
    rules = {"tools": {"drop": {"name": "clear"}}, "excludeTools": ["ask"]}
    gateway = Gateway({"db": {"server": database(), **rules}})
    assert [gateway.tool_scopes(f"db_{name}") for name in ("clear", "drop", "ask")] == [{"write"}, set(), set()]


async def test_rules_that_fit_nothing_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    rules = {"includeTools": ["query", "tabels"], "tools": {"qury": {"name": "x"}, "query": {"fixed": {"databse": 1}}}}
    gateway = Gateway({"db": {"server": database(), **rules}})
    for _ in range(2):
        async with client_of(gateway) as client:
            assert [tool["name"] for tool in await client.list_tools()] == ["db_query"]
    [record] = caplog.records
    assert record.getMessage() == (
        "db: its rules name tools or arguments that it does not have: tabels, qury, query.databse"
    )


@rows(
    ("rules", "said"),
    [
        ({"includeTools": "secret"}, "/includeTools must be an array of strings"),
        ({"excludeTools": [1]}, "/excludeTools must be an array of strings"),
        ({"tools": ["secret"]}, "/tools must be an object of objects"),
        ({"tools": {"a": {"name": 1}}}, "/tools/a/name must be a string"),
        ({"tools": {"a": {"name": "b c"}}}, "/tools/a/name must consist of letters"),
        ({"tools": {"a": {"fixed": []}}}, "/tools/a/fixed must be an object"),
        ({"tools": {"a": {"arguments": {}}}}, "/tools/a may have name, description and fixed, not arguments"),
        ({"tools": {"a": {"name": "c"}, "b": {"name": "c"}}}, "/tools/b/name is also that of another tool"),
    ],
)
def test_rules_that_are_wrong(rules: dict[str, Any], said: str) -> None:
    for entry in ({"command": "a"}, {"server": "a"}):
        with pytest.raises(ValueError, match="the server 's'") as caught:
            Gateway({"s": {**entry, **rules}})
        assert said in str(caught.value)
        assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="may have beside its server only includeTools"):
        Gateway({"s": {"server": "a", "cwd": "b"}})


def test_a_client_without_a_gateway_refuses_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASE", "shop")
    file = {"mcpServers": {"db": {"command": "a", "tools": {"query": {"fixed": {"database": "${BASE}"}}}}}}
    with pytest.raises(ValueError, match="only a gateway applies the rules for the tools of 'db'"):
        mcp.connect(json.loads(json.dumps(file)))
    Gateway(json.loads(json.dumps(file)))
