"""The unchanged recipes of docs/hooks.md, under real servers."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anyio", reason="the extra `http` is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import httpx2

from jsonrpc_fast.codes import SessionErrorCode
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.http import Endpoint
from jsonrpc_fast.http.client import AsyncHttpClient
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import TcpClient, TcpServer

from .support.asgi_servers import serving
from .support.pages import write_scripts
from .support.places import ROOT
from .support.waiting import results_of


def recipe(name: str, folder: Path) -> Any:
    write_scripts(ROOT / "docs" / "hooks.md", folder)
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_prometheus(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.prometheus", reason="the exporter is not installed (extra `test`)")
    async with serving(recipe("metrics", tmp_path).app) as url, AsyncHttpClient(f"{url}/rpc") as client:
        assert await client.call("add", [1, 2]) == 3
        for method in ("made up", "made up, too"):
            with pytest.raises(RpcError):
                await client.call(method)
        async with httpx2.AsyncClient() as browser:
            text = (await browser.get(f"{url}/metrics/")).text
    counts = re.findall(r'^rpc_server_call_duration_seconds_count{.*rpc_method="(\w+)".*} (\S+)$', text, re.MULTILINE)
    assert sorted(counts) == [("_OTHER", "2.0"), ("add", "1.0")]


async def test_an_access_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "access")
    async with serving(recipe("access_log", tmp_path).app) as url, AsyncHttpClient(url) as client:
        await client.call("add", [1, 2])
        with pytest.raises(RpcError):
            await client.call("a\nb" * 100)
    lines = [record.getMessage() for record in caplog.records if record.name == "access"]
    assert re.fullmatch(r"127\.0\.0\.1 'add' result - \d+\.\d ms", lines[0])
    assert re.fullmatch(r"127\.0\.0\.1 'a\\nba\\nb.{,100} error -32601 \d+\.\d ms", lines[1])


async def allowed_of(client: Any, method: str, count: int) -> int:
    """Return how many of some calls are allowed; the others are refused."""
    found = await results_of(*[client.call(method) for _ in range(count)])
    refused = [error for error in found if isinstance(error, RpcError) and error.code == SessionErrorCode.SERVER_BUSY]
    assert len(refused) + found.count(1) == count
    return found.count(1)


async def test_a_limit(tmp_path: Path) -> None:
    module = recipe("limits", tmp_path)
    assert isinstance(module.app, Endpoint)
    now = [0.0]
    limit = module.Limit(per_second=2, burst=3, clock=lambda: now[0])
    handlers = Handlers({"a": lambda: 1, "b": lambda: 1}, middleware=[limit])
    async with serving(Endpoint(handlers)) as url, AsyncHttpClient(url) as client:
        assert [await allowed_of(client, method, 5) for method in "ab"] == [3, 3]
        now[0] += 1
        assert await allowed_of(client, "a", 5) == 2

    async def serve(transport: Any) -> None:
        async with Session(transport, handlers) as session:
            await session.wait_closed()

    now[0] += 1
    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    async with Session(TcpClient("127.0.0.1", server.address[1])) as session:
        assert await allowed_of(session, "a", 5) == 2
    await server.close()
