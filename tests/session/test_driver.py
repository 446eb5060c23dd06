"""Drivers of an engine on threads and on trio: those of the page `docs/other-loops.md`."""

from __future__ import annotations

import importlib.util
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jsonrpc_fast import Request, decode, encode
from jsonrpc_fast.errors import ConnectionLost, RpcError

from ..support.pages import write_scripts
from ..support.places import ROOT
from ..support.waiting import SECONDS

trio = pytest.importorskip("trio")
pytest.importorskip("trio.testing")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    found = {}
    for path in write_scripts(ROOT / "docs" / "other-loops.md", Path(tmp_path_factory.mktemp("drivers"))):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[path.stem] = found[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[path.stem])
    yield found
    for name in found:
        del sys.modules[name]


async def wait(seconds: float) -> str:
    await trio.sleep(seconds)
    return "done"


FUNCTIONS: dict[str, Any] = {"add": lambda a, b: a + b, "wait": wait, "size": len}


class TestThreads:
    @pytest.fixture
    def sockets(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        left, right = socket.socketpair()
        with left, right:
            left.settimeout(SECONDS)
            yield left, right
            left.shutdown(socket.SHUT_RDWR)

    def test_threads_call_at_the_same_time(self, scripts: dict[str, ModuleType], sockets: Any) -> None:
        connect = scripts["thread_connection"].Connection
        client, _ = connect(sockets[0]), connect(sockets[1], FUNCTIONS)
        results: list[int] = []
        threads = [
            threading.Thread(target=lambda n=n: results.append(client.call("add", [n, 0], timeout=SECONDS)))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert sorted(results) == list(range(8))

    def test_failures(self, scripts: dict[str, ModuleType], sockets: Any) -> None:
        connect = scripts["thread_connection"].Connection
        client, _ = connect(sockets[0]), connect(sockets[1], FUNCTIONS)
        with pytest.raises(RpcError) as unknown:
            client.call("unknown", timeout=SECONDS)
        assert unknown.value.code == -32601
        with pytest.raises(RpcError) as unable:  # an async function
            client.call("wait", [1], timeout=SECONDS)
        assert unable.value.code == -32603
        with pytest.raises(TimeoutError):
            client.call("add", [1, 2], timeout=0)
        sockets[1].shutdown(socket.SHUT_RDWR)
        with pytest.raises(ConnectionLost):
            client.call("add", [1, 2], timeout=SECONDS)

    def test_a_large_batch_takes_several_turns(self, scripts: dict[str, ModuleType], sockets: Any) -> None:
        scripts["thread_connection"].Connection(sockets[1], FUNCTIONS)
        sockets[0].sendall(encode([Request(n, "add", [n, n]) for n in range(5000)]))
        received = b""
        while not received.endswith(b"\n"):
            received += sockets[0].recv(65536)
        responses: Any = decode(received)
        assert [response.result for response in responses] == [2 * n for n in range(5000)]


class TestTrio:
    def run(self, scripts: dict[str, ModuleType], talk: Any) -> None:
        async def main() -> None:
            connect = scripts["trio_connection"].Connection
            left, right = trio.socket.socketpair()
            with trio.fail_after(SECONDS), left, right:
                async with trio.open_nursery() as nursery:
                    client = connect(trio.SocketStream(left), nursery)
                    server = connect(trio.SocketStream(right), nursery, FUNCTIONS)
                    await talk(client, server)
                    nursery.cancel_scope.cancel()

        trio.run(main)

    def test_calls_and_failures(self, scripts: dict[str, ModuleType]) -> None:
        async def talk(client: Any, server: Any) -> None:
            assert await client.call("add", [40, 2]) == 42
            assert await client.call("wait", [0.001]) == "done"
            with pytest.raises(RpcError):
                await client.call("unknown")
            with pytest.raises(trio.TooSlowError):
                await client.call("wait", [60], timeout=0.05)
            assert client.engine.is_idle
            await client.stream.aclose()
            with pytest.raises(ConnectionLost):
                await client.call("add", [40, 2])

        self.run(scripts, talk)

    def test_a_peer_that_does_not_read_is_not_served_further(self, scripts: dict[str, ModuleType]) -> None:
        async def talk(client: Any, server: Any) -> None:
            client.may_read = trio.Event()
            text = "x" * 100_000
            async with trio.open_nursery() as calling:
                for _ in range(100):
                    calling.start_soon(client.call, "add", [text, text])
                await trio.testing.wait_all_tasks_blocked(0.05)
                assert 1024 * 1024 < server.unwritten_bytes < 2 * 1024 * 1024
                client.set_reading(True)
                client.may_read.set()
            await trio.testing.wait_all_tasks_blocked()
            assert server.engine.is_idle

        self.run(scripts, talk)
