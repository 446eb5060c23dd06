"""A server over HTTP as a program: `run_http` and `jsonrpc-fast serve --http`."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jsonrpc_fast.cli.main import main
from jsonrpc_fast.mcp.http import McpEndpoint
from jsonrpc_fast.mcp.http.serving import run_http
from jsonrpc_fast.mcp.server import Server

from ...support.command_line import posix
from ...support.forking import MARK
from ...support.mcp_http import ACCEPT, call, initialize
from ...support.processes import wait_until_asleep
from ...support.tables import rows
from ...support.waiting import accepts, blocking_eventually, free_port

SECONDS = 60
PROGRAM = (
    MARK
    + """
import asyncio, sys, time
from jsonrpc_fast.mcp.http import McpEndpoint, run_http
from jsonrpc_fast.mcp.server import Context, Server

server = Server("slow", "1")

@server.tool
def block() -> None:
    print("begun", file=sys.stderr, flush=True)
    time.sleep(60)

@server.tool
async def wait(context: Context) -> str:
    context.report_progress(0)
    await asyncio.sleep(0.2)
    return "waited"

sys.exit(run_http(McpEndpoint(server), port=int(sys.argv[1]), uvicorn_options={"log_level": "warning"}))
"""
)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def template_dir(tmp_path: Path) -> Path:
    (tmp_path / "hello.txt").write_text("Hello {{ name }}!")
    return tmp_path


@pytest.fixture
def program(port: int) -> Iterator[subprocess.Popen[bytes]]:
    yield from run(port, "-c", PROGRAM, str(port))


def test_the_start_names_the_url_for_clients(command: subprocess.Popen[bytes], port: int) -> None:
    command.terminate()
    assert command.stderr is not None
    assert f"MCP clients connect to http://127.0.0.1:{port}/mcp\n".encode() in command.stderr.read()


@pytest.fixture
def command(port: int, template_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    address = f"127.0.0.1:{port}"
    arguments = ["serve", "--template-dir", str(template_dir), "--http", address, "--allow-host", "example.org"]
    yield from run(port, "-m", "jsonrpc_fast", *arguments)


def run(port: int, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that serves a port."""
    with subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE) as process:
        try:
            blocking_eventually(lambda: process.poll() is not None or accepts(port), SECONDS)
            assert process.poll() is None, process.stderr and process.stderr.read()
            yield process
        finally:
            process.kill()


@posix
@pytest.mark.parametrize("descriptor", ["0<", "1>", "2>"])
@pytest.mark.ci
def test_a_process_without_a_standard_stream(descriptor: str, port: int, template_dir: Path) -> None:
    arguments = ["-m", "jsonrpc_fast", "serve", "--template-dir", str(template_dir), "--http", f"127.0.0.1:{port}"]
    command = ["/bin/sh", "-c", f'exec "$@" {descriptor}&-', "sh", sys.executable, *arguments]
    with subprocess.Popen(command) as process:
        blocking_eventually(lambda: process.poll() is not None or accepts(port), SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == -signal.SIGTERM


def begin(client: httpx2.Client) -> None:
    answer = client.post("/mcp", json=initialize())
    assert answer.status_code == 200
    client.headers["mcp-session-id"] = answer.headers["mcp-session-id"]


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", -15), ("SIGHUP", -1)])
def test_a_signal_lets_calls_finish_and_ends_streams(
    program: subprocess.Popen[bytes], port: int, name: str, status: int
) -> None:
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=ACCEPT, timeout=SECONDS) as client:
        begin(client)
        with client.stream("GET", "/mcp") as listening, client.stream("POST", "/mcp", json=call(1, "wait")) as waiting:
            chunks = waiting.iter_bytes()
            next(chunks)
            program.send_signal(getattr(signal, name))
            assert b"".join(chunks).endswith(b'"structuredContent":{"result":"waited"}}}\n\n')
            assert b"data: {" not in listening.read()
    assert program.wait(SECONDS) == status


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_second_signal_ends_a_process_whose_function_blocks(
    program: subprocess.Popen[bytes], port: int, name: str
) -> None:
    assert program.stderr is not None
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=ACCEPT, timeout=SECONDS) as client:
        begin(client)
        text = client.build_request("POST", "/mcp", json=call(1, "block"))
        head = "".join(f"{key}: {value}\r\n" for key, value in text.headers.items())
        with socket.create_connection(("127.0.0.1", port), SECONDS) as caller:
            caller.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + text.content)
            assert program.stderr.readline() == b"begun\n"
            # The system gives one of two signals at a time to another thread, which does not interrupt the function.
            for number in (signal.SIGTERM if name == "SIGINT" else signal.SIGINT, getattr(signal, name)):
                wait_until_asleep(program.pid)
                program.send_signal(number)
            assert program.wait(SECONDS) in (-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)


@pytest.mark.ci
def test_the_command_serves_templates(command: subprocess.Popen[bytes], port: int) -> None:
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=ACCEPT, timeout=SECONDS) as client:
        assert client.post("/mcp", json=initialize()).status_code == 421
        client.headers["host"] = "example.org"
        begin(client)
        get = {"name": "hello", "arguments": {"name": "you"}}
        answer = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": get})
        assert answer.json()["result"]["messages"][0]["content"]["text"] == "Hello you!"
    command.send_signal(signal.SIGINT)
    assert command.wait(SECONDS) == 130


def test_a_port_in_use(template_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code = main(["serve", "--template-dir", str(template_dir), "--http", address])
    assert code in (1, 3)  # 1 before uvicorn 0.50
    assert "address already in use" in capfd.readouterr().err


@rows("text", ["", "localhost", "localhost:", "::1:80", "a:65536", "a:-1", "a:8\n"])
def test_a_malformed_address_is_refused(text: str, template_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--template-dir", str(template_dir), "--http", text]) == 2
    assert capsys.readouterr().err.startswith("jsonrpc-fast serve: the address ")


def test_options_of_http_need_it(template_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--template-dir", str(template_dir), "--allow-host", "example.org"]) == 2
    assert capsys.readouterr().err == "jsonrpc-fast serve: --allow-host and --allow-origin need --http\n"


BEYOND = "serving on 0.0.0.0, beyond this machine: whoever can reach it can use all of it: authorization"


@rows(
    ("host", "options", "said"),
    [
        (
            "0.0.0.0",
            {},
            f"{BEYOND}; any name in Host is accepted, so a page whose name is pointed here can use it: allowed_hosts",
        ),
        (
            "0.0.0.0",
            {"allowed_hosts": ["example.org"]},
            BEYOND,
        ),
        ("127.0.0.1", {}, None),
    ],
)
@pytest.mark.ci
def test_the_start_says_what_is_open_to_whom(
    host: str, options: dict[str, Any], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server((host, 0)) as taken:
        app = McpEndpoint(Server("open", "1"), **options)
        caplog.clear()
        assert run_http(app, host, taken.getsockname()[1]) in (1, 3)
    messages = [record.getMessage() for record in caplog.records if record.name == "jsonrpc_fast.mcp"]
    assert messages == ([] if said is None else [said])


def test_the_client_closes_an_idle_connection_first(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[Any] = []
    monkeypatch.setattr("uvicorn.Server.run", lambda server: configs.append(server.config))
    assert run_http(McpEndpoint(Server("idle", "1"))) == 3  # it did not start
    assert run_http(McpEndpoint(Server("idle", "1")), uvicorn_options={"timeout_keep_alive": 1}) == 3
    assert [config.timeout_keep_alive for config in configs] == [75, 1]


def test_a_server_is_no_application() -> None:
    with pytest.raises(TypeError, match=r"such as McpEndpoint\(server\), not Server$"):
        run_http(Server("s", "1"))
