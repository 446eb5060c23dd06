"""aiorpcX: its own tests, and sessions over TCP in one process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from .library import Library, Works
from .timing import interleaved, interleaved_calls

INSTALL = """
import aiorpcx, aiorpcx.session
from jsonrpc_fast.adapters import aiorpcx as adapter
for name in adapter.__all__:
    for module in (aiorpcx, aiorpcx.session, aiorpcx.jsonrpc):
        setattr(module, name, getattr(adapter, name))
"""
SMALL: Any = ["blockchain.block.header", 800_000]
LARGE: Any = [{"tx_hash": f"{number:064x}", "height": number, "value": 5000 * number} for number in range(720)]


def measure() -> Works:
    import aiorpcx  # type: ignore[import-untyped]

    from jsonrpc_fast.adapters import aiorpcx as adapter

    own, fast = aiorpcx.JSONRPCv2, adapter.JSONRPCv2
    found: Works = {}
    for size, params in (("small", SMALL), ("80 kB", LARGE)):
        text = json.dumps({"jsonrpc": "2.0", "method": "echo", "params": [params], "id": 1}).encode()
        found[f"decode {size}"] = interleaved(
            lambda text=text: own.message_to_item(text), lambda text=text: fast.message_to_item(text)
        )
        found[f"encode {size}"] = interleaved(
            lambda params=params: own.response_message(params, 1),
            lambda params=params: fast.response_message(params, 1),
        )
    return {**found, **asyncio.run(measure_sessions())}


async def measure_sessions() -> Works:
    import aiorpcx

    from jsonrpc_fast.adapters import aiorpcx as adapter

    class Session(aiorpcx.RPCSession):  # type: ignore[misc]
        cost_hard_limit = cost_soft_limit = 0
        module: Any

        def default_connection(self) -> Any:
            return self.module.JSONRPCConnection(self.module.JSONRPCv2)

        def default_framer(self) -> Any:
            return aiorpcx.NewlineFramer(1_000_000)

        async def handle_request(self, request: Any) -> Any:
            return request.args[0]

    found = {}
    async with contextlib.AsyncExitStack() as stack:
        sessions: list[Any] = []
        for module in (aiorpcx, adapter):
            kind = type("Session", (Session,), {"module": module})
            server = await aiorpcx.serve_rs(kind, "127.0.0.1", 0)
            stack.callback(server.close)
            port = server.sockets[0].getsockname()[1]
            sessions.append(
                await stack.enter_async_context(aiorpcx.connect_rs("127.0.0.1", port, session_factory=kind))
            )
        for size, params in (("small", SMALL), ("80 kB", LARGE)):
            found[f"end to end {size}"] = await interleaved_calls(
                lambda params=params: sessions[0].send_request("echo", [params]),
                lambda params=params: sessions[1].send_request("echo", [params]),
            )
    return found


LIBRARY = Library(
    name="aiorpcX",
    adapter="aiorpcx",
    install=INSTALL,
    tests=["tests", "-o", "asyncio_mode=auto"],
    package="aiorpcx",
    needs=["pytest-asyncio", "websockets"],
    measure=measure,
)
