"""The programs in `examples/` run as their first lines say."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import http.server
import operator
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jsonrpc_fast.session import Session, SessionContext
from jsonrpc_fast.transports import StreamTransport, TcpServer

from ..support import needs
from ..support.command_line import SECONDS, environment, run_here, run_program_here
from ..support.places import ROOT
from ..support.tables import rows
from ..support.waiting import accepts, blocking_eventually, free_port

EXAMPLES = ROOT / "examples"
MCP = ("jsonschema_rs", "msgspec")


def program(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / name), *arguments]


@contextlib.contextmanager
def running(*command: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment())
    try:
        blocking_eventually(lambda: process.poll() is not None or accepts(port), SECONDS)
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait(SECONDS)


def call(*words: str) -> str:
    done = run_here("call", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def output(name: str, *arguments: str) -> str:
    done = run_program_here(EXAMPLES / name, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@rows("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_says_how_to_run_it(path: Path) -> None:
    """Its docstring is a sentence and then command lines, which name it, and the README of the folder lists it."""
    sentence, commands = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")
    assert sentence.endswith(".")
    assert all(shlex.split(line) for line in commands.replace("\\\n", "").splitlines())
    assert f"examples/{path.name}" in commands
    assert f"]({path.name})" in (EXAMPLES / "README.md").read_text()


def test_a_server_and_its_clients() -> None:
    server = program("server.py")
    assert call("add", "a=1", "b=2", "--", *server) == "3\n"
    assert output("client.py", *server) == "1 + 2 = 3\nerror -32601 Method not found\n"
    assert output("threads.py", *server) == "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n"


def test_a_language_server() -> None:
    params = '{"textDocument": {"uri": "file:///a"}, "position": {"line": 0}}'
    assert (
        call("--lsp", "textDocument/hover", params, "--", *program("language_server.py")) == '{"contents":"0 lines"}\n'
    )


@pytest.mark.ci
def test_a_server_of_pygls() -> None:
    pytest.importorskip("pygls", reason="pygls is not installed")
    params = '{"textDocument": {"uri": "file:///a"}, "position": {"line": 4, "character": 0}}'
    server = [sys.executable, "-m", "jsonrpc_fast", "run", str(EXAMPLES / "pygls_server.py")]
    assert call("--lsp", "textDocument/hover", params, "--", *server) == '{"contents":"line 4"}\n'


def test_a_server_that_describes_itself(tmp_path: Path) -> None:
    pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
    document = tmp_path / "shop.json"
    document.write_text(call("rpc.discover", "--", *program("openrpc.py")))
    done = run_here("stubs", str(document))
    assert (done.returncode, done.stderr) == (0, "")
    assert "async def shop_find(self, words: list[str], limit: int = 10) -> list[Item]:" in done.stdout


def test_results_with_types() -> None:
    pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
    assert output("typed_client.py") == (
        "tea 2.5\n[Item(name='salt', price=2.5), Item(name='rice', price=2.5)]\n"
        'the result of shop.find has another type: /0: is not of type "string"\n'
    )


def test_a_client_of_bitcoind() -> None:
    """A server of JSON-RPC 1.0, whose errors have the status 500."""
    pytest.importorskip("httpx2", reason="the extra `http` is not installed")
    bodies = []

    class Node(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            is_first = len(bodies) == 1
            outcome = b'20.99999990,"error":null' if is_first else b'null,"error":{"code":-5,"message":"no address"}'
            text = b'{"result":%b,"id":%d}\n' % (outcome, len(bodies))
            self.send_response(200 if is_first else 500)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Node) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            found = output("bitcoin.py", f"http://user:password@127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join(SECONDS)
    assert found == "20.99999990 of 21000000\n-5 no address\n"
    assert bodies == [
        b'{"id":1,"method":"getbalance","params":[]}',
        b'{"id":2,"method":"sendtoaddress","params":["bc1qexample",10.49999995]}',
    ]


async def test_a_client_of_an_electrum_server() -> None:
    tasks = []

    async def subscribe(context: SessionContext) -> dict[str, int]:
        announced = context.session.notify("blockchain.headers.subscribe", [{"height": 8}])
        tasks.append(asyncio.create_task(announced))  # begins after the response
        return {"height": 7}

    async def serve(transport: StreamTransport) -> None:
        handlers = {
            "server.version": lambda client, protocol: ["ElectrumX", protocol],
            "blockchain.headers.subscribe": subscribe,
        }
        async with Session(transport, handlers) as session:
            await session.wait_closed()

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    command = program("electrum.py", "127.0.0.1", str(server.address[1]), "1")
    process = await asyncio.create_subprocess_exec(*command, env=environment(), stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    await asyncio.gather(*tasks)
    await server.close()
    assert (process.returncode, printed.split()) == (0, b"ElectrumX 1.4 7 8".split())


@pytest.mark.ci
def test_workers_of_nats(tmp_path: Path) -> None:
    pytest.importorskip("nats", reason="the extra `nats` is not installed")
    needs.require("nats-server")
    from ..support.nats_server import nats_server

    with nats_server(tmp_path) as server, contextlib.ExitStack() as workers:
        pids = set()
        for _ in range(2):
            command = program("nats_worker.py", server.url)
            worker = workers.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()))
            workers.callback(worker.kill)
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"serving rpc.sums\n"
            pids.add(worker.pid)
        found = ast.literal_eval(output("nats_worker.py", server.url, "call", "1", "2"))
        assert found["sum"] == 3
        assert found["worker"] in pids


def test_a_capture() -> None:
    wire = sorted(map(str, (ROOT / "tests" / "vectors" / "wire").glob("*.ndjson")))
    counts = dict(reversed(line.split(None, 1)) for line in output("capture.py", *wire).splitlines())
    assert int(counts["Request tools/call"]) > 0
    assert int(counts["result"]) > 0
    assert not [name for name in counts if name.startswith("invalid")]


def test_a_chat() -> None:
    port = free_port()
    with running(*program("chat.py", str(port)), port=port):
        assert call(f"tcp://127.0.0.1:{port}", "join", "name=Ada") == '["Ada"]\n'


def test_a_client_that_connects_again() -> None:
    """It calls a method that the chat does not have: the test shows that it connects, calls and ends."""
    port = free_port()
    with running(*program("chat.py", str(port)), port=port):
        assert output("reconnect.py", "127.0.0.1", str(port)) == "failed: Method not found (-32601)\n" * 3


def test_changes_in_order() -> None:
    assert output("order.py") == "a longer text\n"


def test_cancellations() -> None:
    assert output("cancel.py") == "line 9; 9 of 10 cancelled; less than half served: True\n"


def test_a_stream() -> None:
    found = ["2", "3", "5", "7", "searched below 1000000", "searched below 12", "[2, 3, 5, 7, 11]"]
    assert output("stream.py").splitlines() == found


def test_a_gateway() -> None:
    port, chat = free_port(), free_port()
    with running(*program("chat.py", str(chat)), port=chat):
        gateway = program("gateway.py", str(port), f"join=127.0.0.1:{chat}")
        with running(*gateway, port=port):
            assert call(f"tcp://127.0.0.1:{port}", "join", "name=Ada") == '["Ada"]\n'
            assert run_here("call", f"tcp://127.0.0.1:{port}", "other.say").returncode == 1


def test_servers_of_http_and_websocket() -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
    pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
    port = free_port()
    with running(*program("http_server.py", str(port)), port=port):
        words = ["order", 'item={"name": "tea", "price": 2.5}', "count=2"]
        assert call(f"http://127.0.0.1:{port}/", *words) == '{"text":"2 x tea","total":5.0}\n'
    port = free_port()
    with running(*program("websocket_server.py", str(port)), port=port):
        assert call(f"ws://127.0.0.1:{port}/", "add", "a=1", "b=2") == "3\n"


@pytest.mark.ci
def test_tokens_and_usage() -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    port = free_port()
    url, words = f"http://127.0.0.1:{port}/", ("--header", "Authorization: Bearer 7f3a")
    with running(*program("http_auth.py", str(port)), port=port):
        assert call(*words, url, "add", "a=1", "b=2") == "3\n"
        assert run_here("call", *words, url, "add", "a=1").returncode == 1
        assert call(*words, url, "usage") == '{"result":1,"error":1}\n'
        assert call("--header", "Authorization: Bearer 11c8", url, "usage") == "{}\n"
        refused = run_here("call", url, "usage")
        assert (refused.returncode, "401" in refused.stderr) == (3, True)


def test_an_access_log_and_several_servers() -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    pytest.importorskip("anyio", reason="the extra `http` is not installed")
    port = free_port()
    command = program("access_log.py", str(port))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            blocking_eventually(lambda: process.poll() is not None or accepts(port), SECONDS)
            assert call(f"http://127.0.0.1:{port}/", "add", "a=1", "b=2") == "3\n"
            urls = f"http://127.0.0.1:{free_port()}/", f"http://127.0.0.1:{port}/"
            assert run_program_here(EXAMPLES / "upstreams.py", *urls).stdout == "[1, 2, 3, 4, 5]\n"
        finally:
            process.terminate()
        assert process.stderr is not None
        assert re.fullmatch(r"'add' result - \d+\.\d ms\n", process.stderr.readline())


@pytest.mark.ci
def test_tests_of_a_client(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ["-q", "-p", "no:cacheprovider", "-p", "jsonrpc_fast.testing.plugin", "-c", str(tmp_path / "pytest.ini")]
    command = [sys.executable, "-m", "pytest", *options, str(EXAMPLES / "test_prices.py")]
    env = {**environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, env=env, timeout=SECONDS, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.ci
def test_mcp() -> None:
    for module in MCP:
        pytest.importorskip(module, reason="the extra `mcp` is not installed")
    server = program("mcp_server.py")
    assert output("mcp_client.py", *server) == (
        "tool convert - Convert degrees Celsius to Fahrenheit.\nconverted\n{'fahrenheit': 68.0}\nIt is sunny in Rome.\n"
    )


@pytest.mark.ci
async def test_mcp_sign_in(tmp_path: Path) -> None:
    pytest.importorskip(
        "mcp.client.auth.extensions.identity_assertion", reason="the extra `mcp-client-oauth` is missing"
    )
    from ..mcp.client.test_oauth import world

    browser = tmp_path / "browser.py"
    browser.write_text("import sys, urllib.request; urllib.request.urlopen(sys.argv[1])")
    variables = {
        **environment(),
        "BROWSER": f"{shlex.quote(sys.executable)} {shlex.quote(str(browser))} %s",
        "XDG_STATE_HOME": str(tmp_path),
        "LOCALAPPDATA": str(tmp_path),
    }
    async with world() as here:
        process = await asyncio.create_subprocess_exec(
            *program("mcp_sign_in.py", here.url), env=variables, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
        assert (process.returncode, printed.split()) == (0, b"tool read tool write tool meet".split())
        assert here.provider.grants == ["code"]


@pytest.mark.ci
async def test_mcp_gateway() -> None:
    for module in MCP:
        pytest.importorskip(module, reason="the extra `mcp` is not installed")
    from jsonrpc_fast import mcp

    async with mcp.connect(*program("mcp_gateway.py"), env=environment(), stderr="discard", timeout=SECONDS) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["weather_convert", "calls_add", "calls_divide"]
        result = await client.call_tool("weather_convert", {"celsius": 20})
    assert result["structuredContent"] == {"fahrenheit": 68.0}


async def test_mcp_middleware() -> None:
    for module in MCP:
        pytest.importorskip(module, reason="the extra `mcp` is not installed")
    from jsonrpc_fast import mcp

    log: list[str] = []
    command = program("mcp_middleware.py")
    async with mcp.connect(*command, env=environment(), stderr=log.append, timeout=SECONDS) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["add", "divide"]
        texts = []
        for name, divisor in (("divide", 0), ("reset", 1), ("divide", 2), ("divide", 1)):
            result = await client.call_tool(name, {} if name == "reset" else {"a": 1, "b": divisor})
            texts.append(result["content"][0]["text"])
    with pytest.raises(ZeroDivisionError) as by_zero:  # CPython 3.14 words it differently
        operator.truediv(1.0, 0.0)
    assert texts == [
        f"Tool divide failed: {by_zero.value}",
        "There is no such tool.",
        "0.5",
        "You have made 3 calls: that is all.",
    ]
    timed = [line.partition(":")[0] for line in log if re.fullmatch(r"[a-z/]+: [\d.]+ ms", line)]
    assert timed == ["tools/list", *["tools/call"] * 4]


def test_acp() -> None:
    answer = output("acp_client.py", "hello world", "--", *program("acp_agent.py"))
    assert answer == "HELLO WORLD (end_turn)\n"


async def test_mcp_composed() -> None:
    for module in MCP:
        pytest.importorskip(module, reason="the extra `mcp` is not installed")
    from jsonrpc_fast import mcp

    async with mcp.connect(*program("mcp_composed.py"), env=environment(), timeout=SECONDS) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["clock_later", "shop_price"]
        found = await client.call_tool("clock_later", {"hour": 23})
        assert found["structuredContent"] == {"result": 0}
        found = await client.call_tool("shop_price", {"name": "tea", "count": 2})
        assert found["content"][0]["text"] == "5.0"
