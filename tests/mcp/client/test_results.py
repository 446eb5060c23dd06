"""Lists of several pages."""

from __future__ import annotations

import pytest

from jsonrpc_fast.errors import InvalidResponse
from jsonrpc_fast.mcp.client import results
from jsonrpc_fast.mcp.client.results import MAX_PAGES

from ...support.mcp_script import scripted

TOOL = {"name": "t", "inputSchema": {"type": "object"}}


async def test_a_list_without_an_end() -> None:
    pages = iter(range(10**6))
    answers = {"tools/list": lambda params: {"tools": [TOOL], "nextCursor": str(next(pages))}}
    async with scripted(answers) as (client, script):
        with pytest.raises(InvalidResponse, match="there are more than 1000 pages"):
            await client.list_tools()
        assert len(script.requests) == 1 + MAX_PAGES


async def test_a_list_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_LIST_BYTES", 10_000)

    pages = iter(range(10**6))
    large = {**TOOL, "description": "x" * 3000}
    answers = {
        "tools/list": lambda params: {"tools": [large], "nextCursor": str(next(pages))},
        "prompts/list": {"prompts": [{"name": "x" * 20_000}]},
        "resources/list": b'{"jsonrpc":"2.0","id":%s,"result":{"resources":[],"nextCursor":"1","a":'
        + b"[" * 500
        + b"]" * 500
        + b"}}",
    }
    async with scripted(answers) as (client, script):
        with pytest.raises(InvalidResponse, match=r"^the server sent an invalid result for tools/list: the pages"):
            await client.list_tools()
        assert len(script.requests) == 1 + 4
        assert len(await client.list_prompts()) == 1  # one page may be as large as a message
        with pytest.raises(InvalidResponse, match="a page is nested too deeply"):
            await client.list_resources()


async def test_an_empty_cursor_counts_and_null_ends_the_list() -> None:
    pages = [{"tools": [TOOL], "nextCursor": ""}, {"tools": [TOOL], "nextCursor": None}]
    async with scripted({"tools/list": pages}) as (client, script):
        assert await client.list_tools() == [TOOL, TOOL]
        assert script.requests[2]["params"] == {"cursor": ""}
