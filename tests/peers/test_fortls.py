"""A language server with a JSON-RPC of its own: an exception's text is the message, a notification may fail unseen."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import LSP
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.session import LspConvention, Session
from jsonrpc_fast.transports import StdioClient

from ..support import needs
from ..support.waiting import SECONDS

pytestmark = [needs.mark("fortls"), pytest.mark.ci, pytest.mark.time_limit(100)]
SOURCE = "program x\n integer :: i\n i = 1\nend program x\n"


async def test_the_whole_conversation(tmp_path: Path) -> None:
    file = tmp_path / "x.f90"
    file.write_text(SOURCE)
    document = {"uri": file.as_uri()}
    published: asyncio.Queue[Any] = asyncio.Queue()
    handlers = {"textDocument/publishDiagnostics": lambda **params: published.put_nowait(params)}
    command = [needs.require("fortls")]
    transport = StdioClient(command, framing="content-length", profile=LSP)
    async with Session(transport, handlers, convention=LspConvention(), timeout=SECONDS) as session:
        params: dict[str, Any] = {"processId": None, "rootUri": tmp_path.as_uri(), "capabilities": {}}
        assert (await session.call("initialize", params))["capabilities"]["hoverProvider"] is True
        await session.notify("initialized", {})
        opened = {**document, "languageId": "fortran", "version": 1, "text": SOURCE}
        await session.notify("textDocument/didOpen", {"textDocument": opened})
        assert (await asyncio.wait_for(published.get(), SECONDS))["uri"] == file.as_uri()
        [program, *_] = await session.call("textDocument/documentSymbol", {"textDocument": document})
        assert program["name"].lower() == "x"
        await session.notify("no/such", {})
        with pytest.raises(RpcError) as unknown:
            await session.call("no/such", {})
        assert unknown.value.code == -32601
        with pytest.raises(RpcError) as failed:
            await session.call("textDocument/hover", [1])
        assert failed.value.code == -32603
        assert "must be integers or slices" in failed.value.message
        assert await session.call("shutdown") is None
        await session.notify("exit")
        await asyncio.wait_for(session.wait_closed(), SECONDS)
