"""web3.py on the HTTP client: several nodes, and calls gathered in batches."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("web3", reason="web3 is not installed")
pytest.importorskip("anyio", reason="the extra `http` is not installed")
if sys.platform == "win32":
    pytest.skip("the node listens on a Unix socket", allow_module_level=True)

from web3 import AsyncWeb3
from web3.exceptions import MethodUnavailable, Web3TypeError

from jsonrpc_fast.adapters.web3_client import AsyncClientProvider
from jsonrpc_fast.http.batching import Batching
from jsonrpc_fast.http.client import AsyncHttpClient
from jsonrpc_fast.http.upstreams import Upstreams

from ..support.eth_app import BALANCE
from ..support.eth_node import LOGS, Node, running_node
from ..support.waiting import free_port

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ADDRESS: Any = "0x" + "00" * 19 + "01"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(tmp_path_factory.mktemp("node")) as running:
        yield running


async def test_several_nodes(node: Node) -> None:
    upstreams = Upstreams(f"http://127.0.0.1:{free_port()}/", node.http)
    async with AsyncHttpClient(node.http, transport=upstreams) as client:
        w3 = AsyncWeb3(AsyncClientProvider(client))
        assert await w3.is_connected()
        assert await w3.eth.get_balance(ADDRESS) == BALANCE
        assert len(await w3.eth.get_logs({"address": ADDRESS})) == len(LOGS)
        with pytest.raises(MethodUnavailable):
            await w3.manager.coro_request("x", [])  # type: ignore[arg-type]
        with pytest.raises(Web3TypeError):
            await w3.provider.make_request("eth_call", [object()])


async def test_batches(node: Node) -> None:
    sizes: list[int] = []

    async def count(request: Any) -> None:
        sizes.append(request.content.count(b'"method"'))

    async with AsyncHttpClient(node.http, event_hooks={"request": [count]}) as client:
        w3 = AsyncWeb3(AsyncClientProvider(Batching(client)))
        assert await asyncio.gather(*[w3.eth.get_balance(ADDRESS) for _ in range(5)]) == [BALANCE] * 5
        async with w3.batch_requests() as batch:
            for _ in range(3):
                batch.add(w3.eth.get_balance(ADDRESS))
            found: list[Any] = await batch.async_execute()
            assert found == [BALANCE] * 3
    assert sizes == [5, 3]


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="client"):
        AsyncClientProvider("http://localhost/")  # type: ignore[arg-type]
