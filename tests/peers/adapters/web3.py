"""web3.py: its own tests of providers, and each provider with a node in another process."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from ...support.eth_node import LOGS, LOGS_TEXT, Node, running_node
from .library import Library, Works
from .timing import interleaved, interleaved_calls

INSTALL = """
import sys
import web3, web3.main, web3.providers.auto
from jsonrpc_fast.adapters import web3 as adapter
modules = [module for name, module in sys.modules.items() if name in ("web3", "web3.main")]
modules += [module for name, module in sys.modules.items() if name.startswith("web3.providers")]
for name in adapter.__all__:
    for module in modules:
        if hasattr(module, name):
            setattr(module, name, getattr(adapter, name))
"""
METHODS = {"small": "eth_blockNumber", "80 kB": "eth_getLogs"}


def measure() -> Works:
    import web3

    from jsonrpc_fast.adapters import web3 as adapter

    modules: tuple[Any, Any] = (web3, adapter)
    found: Works = {}
    own, fast = (module.IPCProvider("/nowhere") for module in modules)
    params: Any
    for size, result, params in (("small", '"0xf4240"', []), ("80 kB", LOGS_TEXT, LOGS)):
        text = f'{{"jsonrpc":"2.0","id":1,"result":{result}}}\n'.encode()
        found[f"decode {size}"] = interleaved(
            lambda text=text: own.decode_rpc_response(text), lambda text=text: fast.decode_rpc_response(text)
        )
        found[f"encode {size}"] = interleaved(
            lambda params=params: own.encode_rpc_request("eth_blockNumber", params),
            lambda params=params: fast.encode_rpc_request("eth_blockNumber", params),
        )
    with tempfile.TemporaryDirectory() as folder, running_node(Path(folder)) as node:
        for name, uri in (("IPCProvider", node.ipc), ("HTTPProvider", node.http)):
            own, fast = (getattr(module, name)(uri) for module in modules)
            for size, method in METHODS.items():
                work = "end to end" if name == "IPCProvider" else name
                found[f"{work} {size}"] = interleaved(
                    lambda own=own, method=method: own.make_request(method, []),
                    lambda fast=fast, method=method: fast.make_request(method, []),
                )
            if name == "IPCProvider":
                clients = [web3.Web3(provider) for provider in (own, fast)]
                found["eth.get_logs over IPC 80 kB"] = interleaved(
                    lambda clients=clients: clients[0].eth.get_logs({}),
                    lambda clients=clients: clients[1].eth.get_logs({}),
                )
        return {**found, **asyncio.run(measure_asynchronous(modules, node))}


async def measure_asynchronous(modules: tuple[Any, Any], node: Node) -> Works:
    found = {}
    for name, uri in (
        ("AsyncIPCProvider", node.ipc),
        ("WebSocketProvider", node.websocket),
        ("AsyncHTTPProvider", node.http),
    ):
        own, fast = (getattr(module, name)(uri) for module in modules)
        if name != "AsyncHTTPProvider":
            for provider in (own, fast):
                await provider.connect()
        for size, method in METHODS.items():
            found[f"{name} {size}"] = await interleaved_calls(
                lambda own=own, method=method: own.make_request(method, []),
                lambda fast=fast, method=method: fast.make_request(method, []),
            )
        for provider in (own, fast):
            await provider.disconnect()
    return found


LIBRARY = Library(
    name="web3",
    adapter="web3",
    install=INSTALL,
    tests=["tests/core/providers", "tests/core/manager", "tests/core/method-class", "-o", "asyncio_mode=auto"],
    package="web3",
    needs=["eth-tester[py-evm]>=0.14.0b1,<0.15.0b1", "pytest-asyncio>=1.3", "pytest-mock", "hypothesis", "flaky"],
    failures=dict.fromkeys(
        [
            "test_async_ipc_provider_write_messages_end_with_new_line_delimiter",
            "test_ipc_provider_write_messages_end_with_new_line_delimiter",
            "test_websocket_provider_use_text_frames",
        ],
        "compares the text, which the adapter writes without spaces: both are right",
    ),
    measure=measure,
)
