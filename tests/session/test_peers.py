"""Sessions with peers of other libraries, in processes of their own: vscode-jsonrpc, pygls, aiorpcX."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast import LSP, Notification
from jsonrpc_fast.errors import CallTimeout, RpcError
from jsonrpc_fast.session import LspConvention, Session
from jsonrpc_fast.transports import StdioClient, TcpClient

from ..peers.node import node_command
from ..support.places import PEERS
from ..support.session_pairs import Faults

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("loop")]
HERE = "127.0.0.1"


class Handlers:
    """The methods that the peers call, and the notifications that they have sent."""

    def __init__(self) -> None:
        self.noted: asyncio.Queue[Any] = asyncio.Queue()
        self.cancelled: asyncio.Queue[bool] = asyncio.Queue()
        self.faults = Faults()

    def functions(self) -> dict[str, Callable[..., Any]]:
        return {
            "double": lambda value: value * 2,
            "refuse": self.refuse,
            "crash": lambda: 1 / 0,
            "hang": self.hang,
            "noted": lambda text: self.noted.put_nowait(text),
            "cancelled": lambda: self.noted.put_nowait("cancelled"),
        }

    def refuse(self) -> None:
        raise RpcError(-32001, "not now", {"wait": 5})

    async def hang(self) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.cancelled.put_nowait(True)
            raise


@asynccontextmanager
async def over_stdio(command: list[str], handlers: Handlers) -> AsyncIterator[Session]:
    transport = StdioClient(command, framing="content-length", profile=LSP, stderr="discard")
    options: dict[str, Any] = {"convention": LspConvention(), "hooks": handlers.faults, "timeout": 20}
    async with Session(transport, handlers.functions(), **options) as session:
        yield session


# vscode-jsonrpc


@asynccontextmanager
async def vscode() -> AsyncIterator[tuple[Session, Handlers]]:
    handlers = Handlers()
    async with over_stdio(node_command("vscode_server.mjs"), handlers) as session:
        yield session, handlers


async def test_vscode_is_called() -> None:
    async with vscode() as (session, handlers):
        assert await session.call("add", [1, 2]) == 3
        assert await session.call("length", {"text": "ünï\u2028\U0001f600"}) == 6  # in UTF-16
        with pytest.raises(RpcError) as refused:
            await session.call("refuse")
        assert (refused.value.code, refused.value.message, refused.value.data) == (-32001, "not now", {"wait": 5})
        for method, code in (("crash", -32603), ("unknown", -32601)):
            with pytest.raises(RpcError) as caught:
                await session.call(method)
            assert caught.value.code == code
        assert await asyncio.gather(*[session.call("add", [number, 1]) for number in range(200)]) == list(range(1, 201))
        assert handlers.faults.seen == []


async def test_vscode_calls() -> None:
    async with vscode() as (session, _):
        assert await session.call("ask", ["double", [21]]) == {"result": 42}
        assert await session.call("ask", ["double", [{"value": 21}]]) == {"result": 42}
        assert await session.call("ask", ["refuse", []]) == {"code": -32001, "message": "not now"}
        assert await session.call("ask", ["crash", []]) == {"code": -32603, "message": "Internal error"}
        assert (await session.call("ask", ["unknown", []]))["code"] == -32601
        assert (await session.call("ask", ["double", []]))["code"] == -32602


async def test_vscode_is_notified_and_notifies() -> None:
    async with vscode() as (session, handlers):
        await session.notify("note", ["a"])
        await session.notify("note", {"text": "b"})
        assert [await handlers.noted.get(), await handlers.noted.get()] == ["a", "b"]


async def test_vscode_is_cancelled() -> None:
    async with vscode() as (session, handlers):
        call = asyncio.create_task(session.call("hang"))
        assert await session.call("add", [1, 2]) == 3
        call.cancel()
        assert await handlers.noted.get() == "cancelled"
        with pytest.raises(CallTimeout):
            await session.call("hang", timeout=0.05)
        assert await handlers.noted.get() == "cancelled"
        # Both late responses have arrived: they are not faults.
        assert await session.call("add", [1, 2]) == 3
        assert handlers.faults.seen == []


async def test_vscode_cancels() -> None:
    async with vscode() as (session, handlers):
        assert await session.call("ask and cancel", ["hang"]) == {"code": -32800, "message": "Request cancelled"}
        assert await handlers.cancelled.get()


async def test_vscode_reports_progress() -> None:
    async with vscode() as (session, _):
        seen: list[Any] = []
        assert await session.call("work", {}, on_progress=seen.append) == "done"
        assert seen == [{"percentage": percentage} for percentage in (0, 50, 100)]


# pygls


@asynccontextmanager
async def pygls() -> AsyncIterator[tuple[Session, Handlers]]:
    pytest.importorskip("pygls", reason="pygls is not installed")
    handlers = Handlers()
    async with over_stdio([sys.executable, str(PEERS / "pygls_server.py")], handlers) as session:
        yield session, handlers


async def test_pygls_is_called_and_calls() -> None:
    async with pygls() as (session, handlers):
        assert await session.call("add", {"a": 1, "b": 2}) == 3
        assert await session.call("ask", {"value": 21}) == 42
        for method, code in (("crash", -32603), ("unknown", -32601)):
            with pytest.raises(RpcError) as caught:
                await session.call(method, {})
            assert caught.value.code == code
        results = await asyncio.gather(*[session.call("add", {"a": number, "b": 1}) for number in range(100)])
        assert results == list(range(1, 101))
        await session.notify("note", {"text": "a"})
        assert await handlers.noted.get() == "a"


async def test_pygls_is_cancelled() -> None:
    async with pygls() as (session, handlers):
        call = asyncio.create_task(session.call("hang", {}))
        assert await session.call("add", {"a": 1, "b": 2}) == 3
        call.cancel()
        assert await handlers.noted.get() == "cancelled"
        assert await session.call("add", {"a": 1, "b": 2}) == 3


# aiorpcX


@pytest.fixture
def aiorpcx_port() -> Iterator[int]:
    pytest.importorskip("aiorpcx", reason="aiorpcX is not installed")
    with subprocess.Popen([sys.executable, str(PEERS / "aiorpcx_server.py")], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def test_aiorpcx(aiorpcx_port: int) -> None:
    handlers = Handlers()
    transport = TcpClient(HERE, aiorpcx_port)
    async with Session(transport, handlers.functions(), hooks=handlers.faults, timeout=20) as session:
        assert await session.call("add", [1, 2]) == 3
        assert await session.call("add", {"a": 1, "b": 2}) == 3
        with pytest.raises(RpcError, match="not now") as refused:
            await session.call("refuse")
        assert refused.value.code == -32001
        with pytest.raises(RpcError) as unknown:
            await session.call("unknown")
        assert unknown.value.code == -32601

        assert await session.call("ask", ["double", 21]) == 42
        assert await session.call("ask", ["refuse"]) == {"code": -32001}
        await session.notify("note", ["a"])
        assert await handlers.noted.get() == "a"

        results = await session.call_batch([("add", [1, 2]), Notification("note", ["b"]), ("unknown", None)])
        assert results[:2] == [3, None]
        assert isinstance(results[2], RpcError)
        assert await handlers.noted.get() == "b"

        with pytest.raises(CallTimeout):
            await session.call("wait", [0.1], timeout=0.02)
        assert await session.call("wait", [0.2]) == 0.2
        assert handlers.faults.seen == []
