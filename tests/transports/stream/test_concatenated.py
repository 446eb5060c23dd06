"""Peers that write JSON without delimiters, over TCP, Unix sockets and stdio."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.codec import Notification
from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.profile import Limits
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StdioClient, TcpClient, TcpServer, UnixClient, UnixServer

from ...support.eth_app import BALANCE, FUNCTIONS

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("each_loop")]

needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")


async def serve(transport: Any) -> None:
    async with Session(transport, {"add": lambda a, b: a + b, **FUNCTIONS}) as session:
        await session.wait_closed()


async def exchange(writer: asyncio.StreamWriter, reader: asyncio.StreamReader, text: bytes) -> bytes:
    writer.write(text)
    return await asyncio.wait_for(reader.readline(), 10)


@needs_unix
async def test_a_peer_without_delimiters(tmp_path: Path) -> None:
    path = str(tmp_path / "ipc")
    server = UnixServer(serve, path, framing="concatenated")
    await server.start()
    reader, writer = await asyncio.open_unix_connection(path)
    message = {"jsonrpc": "2.0", "id": 1, "method": "add", "params": ["{", "]"]}
    answer = b'{"jsonrpc":"2.0","id":1,"result":"{]"}\n'
    for text in (json.dumps(message), json.dumps(message, indent=2), json.dumps(message, indent=0)):
        assert await exchange(writer, reader, text.encode()) == answer
    two = json.dumps(message).encode() * 2
    assert await exchange(writer, reader, two[:70]) == answer
    assert await exchange(writer, reader, two[70:]) == answer
    malformed = b'{"jsonrpc":"2.0","id":2,"method":}' + json.dumps([message], indent=4).encode()
    parse_error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n'
    assert await exchange(writer, reader, malformed) == parse_error
    assert await asyncio.wait_for(reader.readline(), 10) == b"[%b]\n" % answer[:-1]
    writer.close()
    await server.close()


async def test_sessions_over_tcp() -> None:
    server = TcpServer(serve, "127.0.0.1", 0, framing="concatenated")
    await server.start()
    async with Session(TcpClient(*server.address, framing="concatenated")) as session:
        assert await session.call("add", [1, 2]) == 3
        found = await asyncio.gather(*[session.call("add", [number, 1]) for number in range(500)])
        assert found == [number + 1 for number in range(500)]
    await server.close()


async def test_the_end_inside_a_value() -> None:
    server = TcpServer(serve, "127.0.0.1", 0, framing="concatenated")
    await server.start()
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}{"jsonrpc"')
    writer.write_eof()
    assert await asyncio.wait_for(reader.readline(), 10) == b'{"jsonrpc":"2.0","id":1,"result":3}\n'
    await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await server.close()


async def test_a_child_that_pretty_prints() -> None:
    script = (
        "import json, sys\n"
        "for number in range(3):\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'method': 'n', 'params': [number]}, indent=2), end='', flush=True)\n"
        "sys.stdin.read()\n"
    )
    client = StdioClient([sys.executable, "-c", script], framing="concatenated")
    received: list[Any] = []
    arrived = asyncio.Event()

    def receive(message: Any) -> None:
        received.append(message)
        if len(received) == 3:
            arrived.set()

    client.onmessage = receive
    await client.start()
    await asyncio.wait_for(arrived.wait(), 30)
    assert received == [Notification("n", [0]), Notification("n", [1]), Notification("n", [2])]
    await client.close()


@needs_unix
async def test_a_value_over_the_limit(tmp_path: Path) -> None:
    """The rest of the value is dropped as it arrives, and the next value is read."""
    path = str(tmp_path / "ipc")
    server = UnixServer(serve, path, framing="concatenated", limits=Limits(message_bytes=1000))
    await server.start()
    reader, writer = await asyncio.open_unix_connection(path)
    text = b'{"jsonrpc":"2.0","id":7,"method":"add","params":[%b1]}' % (b"[[]]," * 100_000)
    small = b'{"jsonrpc":"2.0","id":8,"method":"add","params":[1,2]}'
    error = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"Invalid Request"}}\n'
    assert await exchange(writer, reader, text + small) == error
    assert await asyncio.wait_for(reader.readline(), 10) == b'{"jsonrpc":"2.0","id":8,"result":3}\n'
    writer.close()
    await server.close()


@needs_unix
@pytest.mark.slow
@pytest.mark.time_limit(120)
async def test_web3_over_ipc(tmp_path: Path) -> None:
    """web3.py's provider for the IPC of go-ethereum, in a process of its own: importing web3 warns."""
    pytest.importorskip("web3")
    path = str(tmp_path / "geth.ipc")
    server = UnixServer(serve, path, framing="concatenated")
    await server.start()
    script = f"""
import json
from web3 import Web3, IPCProvider
w3 = Web3(IPCProvider({path!r}))
address = "0x0000000000000000000000000000000000000001"
found = [w3.eth.chain_id, w3.eth.block_number, str(w3.eth.get_balance(address)), w3.client_version]
with w3.batch_requests() as batch:
    batch.add(w3.eth.get_balance(address))
    batch.add(w3.eth.get_balance(address))
    found.append(list(map(str, batch.execute())))
print(json.dumps(found))
"""
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(run.communicate(), 100)
    assert run.returncode == 0, err.decode()
    balance = str(BALANCE)
    assert json.loads(out.splitlines()[-1]) == [1337, 16_000_000, balance, "test/1", [balance, balance]]
    await server.close()


@needs_unix
async def test_a_session_with_a_server_that_writes_no_delimiters(tmp_path: Path) -> None:
    """Its responses arrive in one piece, pretty-printed and cut anywhere."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = [json.loads(await reader.readline()) for _ in range(3)]
        replies = [{"jsonrpc": "2.0", "id": request["id"], "result": request["params"]} for request in requests]
        text = "".join([json.dumps(reply, indent=3) for reply in reversed(replies)]).encode()
        for at in range(0, len(text), 50):
            writer.write(text[at : at + 50])
            await asyncio.sleep(0)
        await reader.read()
        writer.close()

    path = str(tmp_path / "ipc")
    server = await asyncio.start_unix_server(answer, path)
    async with Session(UnixClient(path, framing="concatenated")) as session:
        assert await asyncio.gather(*[session.call("m", [number]) for number in range(3)]) == [[0], [1], [2]]
        call = asyncio.create_task(session.call("m", [4]))
        await asyncio.sleep(0)
    with pytest.raises(ConnectionLost):
        await call
    server.close()
