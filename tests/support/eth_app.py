"""The few methods of an Ethereum node that the tests with Ethereum clients call."""

from __future__ import annotations

from typing import Any

from jsonrpc_fast import RpcError
from jsonrpc_fast.http import Endpoint

BALANCE = 10**24


def call(transaction: Any, block: str = "latest", overrides: Any = None) -> str:
    raise RpcError(3, "execution reverted", "0x08c379a0")


FUNCTIONS: dict[str, Any] = {
    "eth_chainId": lambda: hex(1337),
    "eth_blockNumber": lambda: hex(16_000_000),
    "eth_getBalance": lambda address, block: hex(BALANCE),
    "eth_call": call,
    "web3_clientVersion": lambda: "test/1",
}

app = Endpoint(FUNCTIONS)
