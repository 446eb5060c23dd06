"""Clients of other projects: web3.py, viem, curl, and a page in Chromium."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..peers.node import PEERS, install
from ..support import needs
from ..support.chromium import visit
from ..support.eth_app import BALANCE
from ..support.http_process import COMMANDS, Server, serving

pytestmark = pytest.mark.slow

ADDRESS = "0x0000000000000000000000000000000000000001"
ADD = '{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
SUM = '{"jsonrpc":"2.0","id":1,"result":3}'


@pytest.fixture(scope="module", params=["uvicorn", "granian"])
def node(request: pytest.FixtureRequest) -> Iterator[Server]:
    with serving(request.param, "tests.support.eth_app:app") as found:
        yield found


def test_web3(node: Server) -> None:
    """In a process of its own: importing web3 warns."""
    pytest.importorskip("web3")
    script = f"""
import json
from web3 import Web3
from web3.exceptions import Web3RPCError
w3 = Web3(Web3.HTTPProvider({node.url!r}))
found = [w3.eth.chain_id, w3.eth.block_number, str(w3.eth.get_balance({ADDRESS!r})), w3.client_version]
with w3.batch_requests() as batch:
    batch.add(w3.eth.get_balance({ADDRESS!r}))
    batch.add(w3.eth.get_balance({ADDRESS!r}))
    found.append(list(map(str, batch.execute())))
try:
    w3.manager.request_blocking("eth_unknown", [])
except Web3RPCError as error:
    found.append(error.rpc_response["error"]["code"])
answer = w3.provider.make_request("eth_call", [{{"to": {ADDRESS!r}}}, "latest"])
found.append(answer["error"])
print(json.dumps(found))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    balance = str(BALANCE)
    error = {"code": 3, "message": "execution reverted", "data": "0x08c379a0"}
    expected = [1337, 16_000_000, balance, "test/1", [balance, balance], -32601, error]
    assert json.loads(run.stdout.splitlines()[-1]) == expected


def test_viem(node: Server) -> None:
    folder = PEERS / "viem"
    command = [install(folder), str(folder / "http_client.mjs"), node.url]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {
        "chain": 1337,
        "block": "16000000",
        "balance": str(BALANCE),
        "code": 3,
        "data": "0x08c379a0",
        "unknown": -32601,
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_curl(name: str, tmp_path: Path) -> None:
    curl = needs.require("curl")

    def run(*arguments: str) -> str:
        command = [curl, "-s", "-w", " %{http_code} %{num_connects}", "-m", "30", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    large = tmp_path / "large"
    large.write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": ["x" * 900_000]}))
    too_large = tmp_path / "too_large"
    too_large.write_bytes(b" " * 1_000_001)
    json_type = ("-H", "Content-Type: application/json")
    with serving(name) as server:
        assert run(server.url, "--json", ADD) == SUM + " 200 1"
        twice = run(server.url, "--json", ADD, "--next", "-s", "-w", " %{num_connects}", server.url, "--json", ADD)
        assert twice == f"{SUM} 200 1{SUM} 0"
        assert run(server.url, "-d", ADD).endswith(" 415 1")
        assert run(server.url, *json_type, "-d", ADD, "-H", "Expect: 100-continue") == SUM + " 200 1"
        assert run(server.url, *json_type, "-d", ADD, "-H", "Transfer-Encoding: chunked") == SUM + " 200 1"
        assert len(run(server.url, *json_type, "--data-binary", f"@{large}")) > 900_000
        assert " 413 " in run(server.url, *json_type, "--data-binary", f"@{too_large}")
        assert run("-I", server.url).endswith(" 405 1")
        assert run(server.url + "health") == "ok\n 200 1"


def test_a_page_in_chromium(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    app, cors = "tests.support.browser_app:app", "tests.support.browser_app:cors_app"
    with serving("uvicorn", app) as page, serving("uvicorn", app) as other, serving("uvicorn", cors) as cors_server:

        def show(host: str, target: str) -> str:
            names = "--host-resolver-rules=MAP evil.example 127.0.0.1"
            url = f"http://{host}:{page.port}/?target={target}"
            return str(visit(url, ["window.report"], tmp_path, names)[0][0])

        def called(server: Server, path: str) -> int:
            body = b'{"jsonrpc":"2.0","id":1,"method":"called"}'
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            length = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            return int(json.loads(server.send((head + length).encode() + body).partition(b"\r\n\r\n")[2])["result"])

        # A page of the same origin.
        assert show("localhost", f"http://localhost:{page.port}/rpc") == f"200 {SUM}"
        assert called(page, "/rpc") == 1
        # A page of another origin: the browser asks first, and the endpoint does not allow it.
        assert show("localhost", f"http://127.0.0.1:{other.port}/rpc") == "blocked"
        assert show("evil.example", f"http://127.0.0.1:{other.port}/rpc") == "blocked"
        assert called(other, "/rpc") == 0
        # The framework allows it.
        assert show("localhost", f"http://127.0.0.1:{cors_server.port}/") == f"200 {SUM}"
        assert called(cors_server, "/") == 1
        # A page whose name leads to this machine (DNS rebinding): the same origin for the browser.
        refused = "421 This host is not allowed here: see allowed_hosts.\n"
        assert show("evil.example", f"http://evil.example:{page.port}/rpc") == refused
        assert called(page, "/rpc") == 1
