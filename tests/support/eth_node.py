"""A small Ethereum node in a process of its own, over IPC, WebSocket and HTTP: python -m tests.support.eth_node PATH

It has the methods of `eth_app`, and two for tests: `test_reply` responds with the text in its params, and `test_close`
closes the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .eth_app import FUNCTIONS
from .places import ROOT

HEADS = 3
LOGS = [
    {
        "address": "0x" + "a0" * 20,
        "topics": ["0x" + "dd" * 32, "0x" + "0" * 24 + "ab" * 20, "0x" + "0" * 24 + "cd" * 20],
        "data": f"0x{number:064x}",
        "blockNumber": hex(number),
        "blockHash": "0x" + "12" * 32,
        "transactionHash": f"0x{number:064x}",
        "transactionIndex": "0x1",
        "logIndex": hex(number),
        "removed": False,
    }
    for number in range(130)
]
LOGS_TEXT = json.dumps(LOGS, separators=(",", ":"))


@dataclass
class Node:
    """The addresses of a node."""

    ipc: str
    websocket: str
    http: str


@contextlib.contextmanager
def running_node(folder: Path) -> Iterator[Node]:
    """Run a node until the block ends."""
    path = folder / "geth.ipc"
    command = [sys.executable, "-m", "tests.support.eth_node", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            websocket, http = process.stdout.readline().split()
            yield Node(str(path), f"ws://127.0.0.1:{websocket}", f"http://127.0.0.1:{http}")
        finally:
            process.kill()


def reply(text: str | bytes) -> list[str] | None:
    """Return the messages to send after a text, or None to close the connection."""
    received = json.loads(text)
    if isinstance(received, list):
        return ["[" + ",".join(reversed([message for each in received for message in reply_to(each) or []])) + "]"]
    return reply_to(received)


def reply_to(request: dict[str, Any]) -> list[str] | None:
    """Return the response to a request, and any further messages."""
    method, params, id = request["method"], request["params"], json.dumps(request["id"])
    opening = f'{{"jsonrpc":"2.0","id":{id},'
    if method == "test_close":
        return None
    if method == "test_reply":
        return [params[0].replace("ID", id)]
    if method == "test_echo":
        return [opening + f'"result":{json.dumps(params)}}}']
    if method == "eth_getLogs":
        return [opening + f'"result":{LOGS_TEXT}}}']
    if method == "eth_call":
        return [opening + '"error":{"message":"execution reverted","code":3,"data":"0x08c379a0"}}']
    if method == "eth_unsubscribe":
        return [opening + '"result":true}']
    if method == "eth_subscribe":
        heads = [
            {"jsonrpc": "2.0", "method": "eth_subscription", "params": {"subscription": "0xabc", "result": head}}
            for head in ({"number": hex(number)} for number in range(HEADS))
        ]
        return [opening + '"result":"0xabc"}', *map(json.dumps, heads)]
    if method in FUNCTIONS:
        return [opening + f'"result":{json.dumps(FUNCTIONS[method](*params))}}}']
    return [opening + '"error":{"code":-32601,"message":"Method not found"}}']


async def serve_ipc(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while text := await reader.readline():
        messages = reply(text)
        if messages is None:
            break
        for message in messages:
            writer.write(message.encode("utf-8", "surrogatepass") + b"\n")
        await writer.drain()
    writer.close()


async def serve_websocket(connection: Any) -> None:
    async for text in connection:
        messages = reply(text)
        if messages is None:
            break
        for message in messages:
            await connection.send(message)


async def serve_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            messages = reply(await reader.readexactly(length))
            if messages is None:
                break
            text = messages[0].encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text))
            writer.write(text)
            await writer.drain()
    writer.close()


async def main(path: str) -> None:
    from websockets.asyncio.server import serve

    await asyncio.start_unix_server(serve_ipc, path, limit=1 << 24)
    websocket = await serve(serve_websocket, "127.0.0.1", 0, max_size=1 << 24, compression=None)
    http = await asyncio.start_server(serve_http, "127.0.0.1", 0, limit=1 << 24)
    print(*[server.sockets[0].getsockname()[1] for server in (websocket, http)], flush=True)  # type: ignore[attr-defined]
    await asyncio.to_thread(sys.stdin.read)  # until the parent ends


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
