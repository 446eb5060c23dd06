"""Count the functions and files of the package that three common tasks enter: `python -m benchmarks.walks [--list]`.

A walk shows how much code a reader has to follow. Each task runs once before it is counted, so imports and the filling
of caches are not counted. Each Python function or method is counted once. Comprehensions and the functions of the
compiled core are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import jsonrpc_fast
from jsonrpc_fast.transports import memory_pair

PACKAGE: Final = Path(jsonrpc_fast.__file__).resolve().parent
REQUEST: Final = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}\n'
INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"walks","version":"1"}}}\n'
)
INITIALIZED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
TURNS: Final = 50
"""Iterations of the event loop after which a response has certainly been written."""

Walk = list[str]
"""The functions entered, in order, each as `file:name`."""


@contextlib.contextmanager
def recording() -> Iterator[Walk]:
    walk: Walk = []
    seen: set[CodeType] = set()

    def enter(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in seen:
            seen.add(code)
            path = Path(code.co_filename)
            if path.is_relative_to(PACKAGE) and (code.co_name == "<lambda>" or not code.co_name.startswith("<")):
                walk.append(f"{path.relative_to(PACKAGE)}:{getattr(code, 'co_qualname', code.co_name)}")

    sys.setprofile(enter)
    try:
        yield walk
    finally:
        sys.setprofile(None)


def call_tool() -> Walk:
    """Serve a tools/call, from the received bytes to the written response."""
    from jsonrpc_fast.mcp.server import Server

    server = Server("walks", "1")

    @server.tool()
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    async def main() -> Walk:
        client, transport = memory_pair(profile=server.profile)
        replies: list[Any] = []
        client.onmessage = replies.append
        running = asyncio.create_task(server.run(transport))
        await client.start()
        for line in (INITIALIZE, INITIALIZED, REQUEST % 1):
            client.send(line)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        client.pause_reading()  # so that the client's own functions are not counted
        client.send(REQUEST % 2)
        with recording() as walk:
            for _ in range(TURNS):
                await asyncio.sleep(0)
        client.resume_reading()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert replies[-1].id == 2, replies
        assert replies[-1].result["structuredContent"] == {"sum": 3}, replies
        await client.close()
        await running
        return walk[walk.index("transports/connection.py:Connection.received") :]

    return asyncio.run(main())


def encode_result() -> Walk:
    """Encode a result."""
    jsonrpc_fast.encode_result(1, {"sum": 3})
    with recording() as walk:
        jsonrpc_fast.encode_result(2, {"sum": 3})
    return walk


def check_file() -> Walk:
    """Check a file of one message: `jsonrpc-fast check FILE`."""
    main = importlib.import_module("jsonrpc_fast.__main__").main
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "one.ndjson")
        file.write_bytes(REQUEST % 1)
        with contextlib.redirect_stdout(io.StringIO()):
            main(["check", str(file)])
            with recording() as walk:
                main(["check", str(file)])
    return walk


TASKS: Final[dict[str, Callable[[], Walk]]] = {
    "bytes received to a tool's response": call_tool,
    "encode_result": encode_result,
    "check FILE": check_file,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.walks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="list the functions, too")
    parser.add_argument("--json", action="store_true", help="print the walks on the backend in use as JSON, no table")
    options = parser.parse_args()
    if options.json:
        print(json.dumps([jsonrpc_fast.BACKEND, {task: walk() for task, walk in TASKS.items()}]))
        return
    for pure in ("0", "1"):
        # The backend is chosen when a process imports the package.
        command = [sys.executable, __file__, "--json"]
        env = {**os.environ, "JSONRPC_FAST_PURE": pure}
        backend, walks = json.loads(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout)
        for task, walk in walks.items():
            files = {function.partition(":")[0] for function in walk}
            print(f"{backend:7} {task:33} {len(walk):3} functions in {len(files):2} files")
            if options.list:
                print(*[f"            {function}" for function in walk], sep="\n")


if __name__ == "__main__":
    main()
