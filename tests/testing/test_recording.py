"""A conversation with a real server over TCP, recorded and replayed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import RpcError
from jsonrpc_fast.profile import JSONRPC_1
from jsonrpc_fast.session import LspConvention, Session, SessionContext
from jsonrpc_fast.testing import recorded, replayed
from jsonrpc_fast.testing.recordings import read_recording
from jsonrpc_fast.transports import TcpClient, TcpServer, Transport
from jsonrpc_fast.transports.memory import MemoryChannel, MemoryTransport

from ..support.tables import rows


async def ask(context: SessionContext, name: str) -> Any:
    await context.session.notify("note", [name])
    return await context.session.call("name", [name])


@asynccontextmanager
async def server() -> AsyncIterator[TcpServer]:
    async def serve(transport: Transport) -> None:
        async with Session(transport, {"ask": ask, "add": lambda a, b: a + b}) as session:
            await session.wait_closed()

    found = TcpServer(serve, "127.0.0.1", 0)
    await found.start()
    try:
        yield found
    finally:
        await found.close()


async def talk(transport: Transport) -> list[Any]:
    """What a test does with the server or with its recording."""
    notes: list[Any] = []
    handlers = {"name": lambda name: name.upper(), "note": notes.append}
    async with Session(transport, handlers, timeout=20) as session:
        found = [await session.call("ask", ["tea"]), *await session.call_batch([("add", [1, 2]), ("add", [3, 4])])]
        with pytest.raises(RpcError):
            await session.call("x")
    return found + notes


async def test_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "recordings" / "talk.ndjson"
    async with server() as running, recorded(path, TcpClient("127.0.0.1", running.address[1])) as transport:
        found = await talk(transport)
    assert found == ["TEA", 3, 7, "tea"]
    assert [entry.name for entry in path.parent.iterdir()] == ["talk.ndjson"]
    assert os.name == "nt" or path.stat().st_mode & 0o777 == 0o600
    with path.open("rb") as file:
        lines = list(read_recording(file))
    assert [line.sender for line in lines][:4] == ["client", "server", "server", "client"]
    async with replayed(path) as transport:
        assert await talk(transport) == found


async def test_a_client_that_does_something_else(tmp_path: Path) -> None:
    path = tmp_path / "talk.ndjson"
    async with server() as running, recorded(path, TcpClient("127.0.0.1", running.address[1])) as transport:
        await talk(transport)

    async def add() -> None:
        async with replayed(path) as transport, Session(transport, timeout=20) as session:
            with pytest.raises(RpcError):
                await session.call("add", [1, 3])

    with pytest.raises(AssertionError, match=r"^unexpected: 'add' with \[1, 3\]\nmissing: 'ask' with \['tea'\]\n"):
        await add()


async def test_a_server_that_goes_closes_the_client(tmp_path: Path) -> None:
    async with (
        server() as running,
        recorded(tmp_path / "x", TcpClient("127.0.0.1", running.address[1])) as transport,
        Session(transport, timeout=20) as session,
    ):
        assert await session.call("add", [1, 2]) == 3
        await running.close()
        await session.wait_closed()


async def test_a_block_that_raises_leaves_the_old_recording(tmp_path: Path) -> None:
    path = tmp_path / "talk.ndjson"
    path.write_bytes(b"old")
    async with server() as running:
        with pytest.raises(KeyError):
            async with recorded(path, TcpClient("127.0.0.1", running.address[1])):
                raise KeyError
    assert path.read_bytes() == b"old"


@rows(
    ("result", "call"),
    [
        ('{"id":1,"result":1.10,"error":null}', '{"id":null,"method":"n","params":[2.50]}'),
        ('{"jsonrpc":"2.0","id":1,"result":1.10}', '{"jsonrpc":"2.0","method":"n","params":[2.50]}'),
    ],
)
async def test_a_peer_gets_the_form_that_it_writes(tmp_path: Path, result: str, call: str) -> None:
    path = tmp_path / "talk.ndjson"
    profile = JSONRPC_1.replace(floats="decimal")
    near, far = MemoryChannel.pair()
    peer = MemoryTransport(far, decode=lambda text: bytes(text).decode())
    texts: asyncio.Queue[str] = asyncio.Queue()
    peer.onmessage = texts.put_nowait
    await peer.start()
    async with (
        recorded(path, MemoryTransport(near, profile=profile)) as transport,
        Session(transport, timeout=20) as session,
    ):
        calling = asyncio.ensure_future(session.call("m", [Decimal("0.10")]))
        assert await asyncio.wait_for(texts.get(), 10) == '{"id":1,"method":"m","params":[0.10]}'
        peer.send(result.encode() + b"\n")
        assert repr(await calling) == "Decimal('1.10')"
        await session.notify("n", [Decimal("2.50")])
        assert await asyncio.wait_for(texts.get(), 10) == call
    async with replayed(path, profile=profile) as transport, Session(transport, timeout=20) as session:
        assert repr(await session.call("m", [Decimal("0.10")])) == "Decimal('1.10')"
        await session.notify("n", [Decimal("2.50")])


async def test_another_convention(tmp_path: Path) -> None:
    path = tmp_path / "talk.ndjson"
    async with (
        server() as running,
        recorded(path, TcpClient("127.0.0.1", running.address[1])) as transport,
        Session(transport, convention=LspConvention(), timeout=20) as session,
    ):
        assert await session.call("add", [1, 2]) == 3
    async with replayed(path) as transport, Session(transport, convention=LspConvention(), timeout=20) as session:
        assert await session.call("add", [1, 2]) == 3


async def test_what_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with replayed(tmp_path / "x"):
            raise NotImplementedError
    (tmp_path / "empty").write_bytes(b"")
    async with replayed(tmp_path / "empty"):
        pass
