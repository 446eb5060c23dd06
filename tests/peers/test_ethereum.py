"""Clients of Ethereum over WebSocket, web3.py and viem, with a server of this package: they call and subscribe."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra `websocket` is not installed")

from jsonrpc_fast.session import Session, SessionContext
from jsonrpc_fast.transports.websocket import WebSocketServer

from ..support.tables import rows
from .node import node_command

pytestmark = pytest.mark.time_limit(100)

HEADS = 3


@contextlib.asynccontextmanager
async def node_of_ethereum() -> AsyncIterator[str]:
    """A node that knows a few methods; yields its URI."""
    tasks: set[asyncio.Task[None]] = set()

    def subscribe(context: SessionContext, kind: str) -> str:
        async def publish() -> None:
            for number in range(HEADS):
                params = {"subscription": "0xabc", "result": {"number": hex(number)}}
                await context.session.notify("eth_subscription", params)

        # The task begins after the result was sent.
        task = asyncio.ensure_future(publish())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return "0xabc"

    handlers = {
        "eth_chainId": lambda: "0x7a69",
        "eth_getBalance": lambda address, block: hex(int(address, 16) * 10),
        "eth_subscribe": subscribe,
        "eth_unsubscribe": lambda subscription: True,
    }

    async def serve(transport: Any) -> None:
        session = Session(transport, handlers)
        await session.start()
        await session.wait_closed()

    server = WebSocketServer(serve, "127.0.0.1", 0)
    await server.start()
    try:
        yield f"ws://127.0.0.1:{server.address[1]}"
    finally:
        await server.close()


@rows("text_frames", [False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_web3(text_frames: bool) -> None:
    """web3.py sends binary frames unless it is told otherwise."""
    web3 = pytest.importorskip("web3", reason="web3 is not installed")
    async with node_of_ethereum() as uri:
        provider = web3.WebSocketProvider(uri, use_text_frames=text_frames)
        async with web3.AsyncWeb3(provider) as client:
            assert await client.eth.chain_id == 31337
            addresses = [web3.Web3.to_checksum_address(f"0x{number:040x}") for number in range(50)]
            balances = await asyncio.gather(*[client.eth.get_balance(address) for address in addresses])
            assert balances == [10 * number for number in range(50)]
            id = await client.eth.subscribe("newHeads")
            numbers: list[int] = []
            async for message in client.socket.process_subscriptions():
                assert message["subscription"] == id
                numbers.append(message["result"]["number"])
                if len(numbers) == HEADS:
                    break
            assert numbers == list(range(HEADS))
            assert await client.eth.unsubscribe(id) is True
            assert await client.eth.chain_id == 31337


@pytest.mark.slow
async def test_viem() -> None:
    async with node_of_ethereum() as uri:
        process = await asyncio.create_subprocess_exec(
            *node_command("viem_client.mjs", uri), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        output, errors = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, errors.decode()
    assert json.loads(output) == {
        "chainId": 31337,
        "balances": 50,
        "last": hex(490),
        "heads": ["0x0", "0x1", "0x2"],
        "code": -32601,
    }
