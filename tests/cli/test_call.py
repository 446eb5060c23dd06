"""`jsonrpc-fast call` and `list`, through `main`, against servers that are programs, sockets and HTTP applications."""

from __future__ import annotations

import hashlib
import html
import http.server
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jsonrpc_fast.cli.main import main

from ..support.command_line import SECONDS, Terminal, command, environment, posix
from ..support.forking import MARK
from ..support.http_process import serving
from ..support.tables import rows
from ..support.waiting import blocking_eventually

SERVER = """# may be forked
import asyncio
import sys
from jsonrpc_fast import LSP
from jsonrpc_fast.session import LspConvention, Session, SessionContext
from jsonrpc_fast.transports import run_stdio

async def ticks(context: SessionContext):
    for number in range(2):
        await context.session.notify("tick", {"number": number})
    return "done"

async def leave(context: SessionContext):
    await context.session.close(0)

def leave_later(context: SessionContext):
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, lambda: loop.create_task(context.session.close(0)))

handlers = {
    "add": lambda a, b: a + b, "ticks": ticks, "leave later": leave_later,
    "initialize": lambda **params: {"capabilities": {}}, "initialized": lambda: None, "shutdown": lambda: None,
    "exit": leave, "textDocument/hover": lambda **params: {"contents": params["uri"]},
}

async def serve(transport):
    async with Session(transport, handlers) as session:
        await session.wait_closed()

options = {"framing": "content-length", "profile": LSP} if "lsp" in sys.argv else {}
raise SystemExit(run_stdio(serve, **options))
"""
PLAIN = """
import json
import sys

def write(members):
    text = json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":"), ensure_ascii=False)
    sys.stdout.buffer.write(text.encode() + b"\\n")
    sys.stdout.buffer.flush()

for line in sys.stdin.buffer:
    request = json.loads(line)
    id, method, params = request.get("id"), request["method"], request.get("params", {})
    if method == "add" and id is not None:
        a, b = params if isinstance(params, list) else params.values()
        write({"id": id, "result": a + b})
    elif method == "echo":
        write({"id": id, "result": params})
    elif method == "fail":
        write({"id": id, "error": {"code": -32050, "message": "no\x1b[31m", "data": {"why": "\x9b"}}})
    elif id is not None:
        write({"id": id, "error": {"code": -32601, "message": "Method not found"}})
"""
"""A server that does not import the package, and starts at once."""
DESCRIBED = """
import json
import sys

describe = {"openrpc": "1.3.2", "methods": [
    {"name": "add", "summary": "Add.\\nMore.", "params": [
        {"name": "a", "required": True, "schema": {"type": "integer"}}, {"name": "b", "schema": {"type": "integer"}}]},
    {"name": "\\x1b[31m", "params": [{"name": "x"}]}, 7,
]}
request = json.loads(input())
assert request["method"] == "rpc.discover"
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": describe}), flush=True)
sys.stdin.read()
"""
NOISE = "import sys; print('noise', flush=True); sys.stdin.read()"
SOCKETS = (
    MARK
    + """
import asyncio
import sys
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import TcpServer, UnixServer
from jsonrpc_fast.transports.websocket import WebSocketServer

async def serve(transport):
    async with Session(transport, {"add": lambda a, b: a + b}) as session:
        await session.wait_closed()

async def main():
    servers = [TcpServer(serve, "127.0.0.1", 0), WebSocketServer(serve, "127.0.0.1", 0), UnixServer(serve, sys.argv[1])]
    for server in servers:
        await server.start()
    print(*(server.address[1] for server in servers[:2]), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
)
MCP_SERVER = '''# may be forked
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp.server import Context, Server

server = Server("sums", "1.0")

@server.tool()
def add(a: int, b: int = 1) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}

@server.tool()
def slow(context: Context) -> str:
    context.report_progress(1, total=2, message="half \\033[31m")
    return "done"

@server.resource("file:///notes", description="Notes.")
def notes() -> str:
    return "note"

@server.prompt()
def greet(name: str) -> str:
    """Greet."""
    return name

raise SystemExit(server.serve_stdio())
'''


@pytest.fixture
def server(tmp_path: Path) -> list[str]:
    """The command of a JSON-RPC server."""
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return ["--", sys.executable, str(path)]


@pytest.fixture
def plain(tmp_path: Path) -> list[str]:
    """The command of a server with plain methods."""
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    return ["--", sys.executable, str(path)]


@pytest.fixture
def mcp_server(tmp_path: Path) -> list[str]:
    pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
    path = tmp_path / "mcp_server.py"
    path.write_text(MCP_SERVER)
    return ["--", sys.executable, str(path)]


@pytest.fixture
def sockets(tmp_path: Path) -> Iterator[list[str]]:
    """The addresses of a server: TCP, WebSocket, Unix."""
    pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
    arguments = [sys.executable, "-c", SOCKETS, str(tmp_path / "socket")]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment())
    assert process.stdout is not None
    tcp, websocket = process.stdout.readline().decode().split()
    yield [f"tcp://127.0.0.1:{tcp}", f"ws://127.0.0.1:{websocket}/", f"unix:{tmp_path / 'socket'}"]
    process.kill()
    process.communicate(timeout=SECONDS)


def call(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command. Return its exit status and what it printed."""
    status = main(arguments)
    return status, *capfd.readouterr()


@rows(
    ("words", "printed"),
    [
        (["add", "[1, 2]"], "3"),
        (["add", "a=1", "b=2.5"], "3.5"),
        (["echo", "name=Ada", 'id="3"', "x=[1, null]"], '{"name":"Ada","id":"3","x":[1,null]}'),
        (["echo", "text=\x9bü"], '{"text":"\x9bü"}'),
        (["echo"], "{}"),
    ],
)
@pytest.mark.ci
def test_a_result(words: list[str], printed: str, plain: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert call(capfd, "call", *words, *plain) == (0, f"{printed}\n", "")


def test_an_error(plain: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """The server's text cannot control the terminal."""
    said = 'jsonrpc-fast call: error -32050: no\\x1b[31m\njsonrpc-fast call: data: {"why":"\\x9b"}\n'
    assert call(capfd, "call", "fail", *plain) == (1, "", said)


@rows(
    ("words", "status", "printed"),
    [
        (["add", "[1, 2]"], 0, '{"result":3}'),
        (["echo", "n=12345678901234567890"], 0, '{"result":{"n":12345678901234567890}}'),
        (["fail"], 1, '{"error":{"code":-32050,"message":"no\\u001b[31m","data":{"why":"\x9b"}}}'),
        (["unknown"], 1, '{"error":{"code":-32601,"message":"Method not found"}}'),
    ],
)
def test_json(words: list[str], status: int, printed: str, plain: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert call(capfd, "call", "--json", *words, *plain) == (status, f"{printed}\n", "")


def test_a_notification(plain: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert call(capfd, "call", "--notify", "add", "a=1", "b=2", *plain) == (0, "", "")


def test_notifications_in_a_batch_are_followed(capfd: pytest.CaptureFixture[str]) -> None:
    batch = '[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b","params":[1]}]'
    response = '{"jsonrpc":"2.0","id":1,"result":1}'
    source = f"input(); print('{batch}'); print('{response}')"
    status, output, _ = call(capfd, "call", "--follow", "add", "--", sys.executable, "-c", source)
    assert (status, output) == (0, '{"method":"a"}\n{"method":"b","params":[1]}\n1\n')


def test_the_method_of_a_notification_is_printed_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    source = """input(); print('{"jsonrpc":"2.0","method":"größe"}'); print('{"jsonrpc":"2.0","id":1,"result":1}')"""
    status, output, _ = call(capfd, "call", "--follow", "add", "--", sys.executable, "-X", "utf8", "-c", source)
    assert (status, output) == (0, '{"method":"größe"}\n1\n')


@pytest.mark.parametrize("line", ["a log", "[1]"])
def test_the_first_faults_of_a_server_are_shown(line: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A server that prints a log to stdout causes one for each line."""
    log, response = f"{line}\\n" * 25, '{"jsonrpc":"2.0","id":1,"result":1}'
    source = f"input(); print('{log}' + '{response}')"
    status, output, errors = call(capfd, "call", "add", "--", sys.executable, "-c", source)
    assert (status, output) == (0, "1\n")
    assert len(errors.splitlines()) == 10, errors


@pytest.mark.ci
def test_notifications_are_followed_without_the_extra_mcp(server: list[str]) -> None:
    source = "import sys; sys.modules['msgspec'] = None; from jsonrpc_fast.cli.main import main; sys.exit(main())"
    words = ["call", "--follow", "leave later", *server]
    done = subprocess.run([sys.executable, "-c", source, *words], capture_output=True, timeout=SECONDS)
    assert (done.returncode, done.stderr, done.stdout.splitlines()[0]) == (0, b"", b"null")


@pytest.mark.ci
def test_notifications_are_followed(server: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    ticks = '{"method":"tick","params":{"number":0}}\n{"method":"tick","params":{"number":1}}\n"done"\n'
    assert call(capfd, "call", "ticks", *server) == (0, '"done"\n', "")
    followed = subprocess.Popen(
        command("call", "--follow", "ticks", *server), stdout=subprocess.PIPE, env=environment(), text=True
    )
    assert followed.stdout is not None
    assert "".join(followed.stdout.readline() for _ in range(3)) == ticks
    followed.send_signal(signal.SIGINT)
    assert followed.wait(SECONDS) == 130
    followed.stdout.close()


@pytest.mark.ci
def test_the_handshake_of_lsp(server: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    status, output, said = call(capfd, "call", "--lsp", "textDocument/hover", "uri=file:///a", *server, "lsp")
    assert (status, output, said) == (0, '{"contents":"file:///a"}\n', "")
    assert call(capfd, "call", "--lsp", "initialize", *server, "lsp") == (0, '{"capabilities":{}}\n', "")


@rows(
    ("command", "said"),
    [
        (["call", "{tcp}", "add"], "it may still be busy; a language server needs --lsp, and other servers"),
        (["call", "--lsp", "{tcp}", "add"], "it may still be busy; another --framing may be right"),
        (
            ["list", "{tcp}"],
            "it may still be busy; a language server describes itself in the result of `call --lsp initialize`",
        ),
        (
            ["stubs", "{tcp}"],
            "it may still be busy; a language server describes itself in the result of `call --lsp initialize`",
        ),
    ],
)
def test_a_silent_server(command: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Each command gives a cure that it has."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        words = [word.replace("{tcp}", target) for word in command]
        status, _, error = call(capfd, words[0], "--timeout", "0.1", *words[1:])
    assert status == 4
    assert f"{command[0]}: nothing has arrived from the server yet: {said}" in error


def test_sockets(sockets: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    for target in sockets:
        assert call(capfd, "call", target, "add", "a=1", "b=2") == (0, "3\n", "")


@pytest.mark.ci
def test_http(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    with serving("uvicorn") as server:
        url = f"http://127.0.0.1:{server.port}/"
        assert call(capfd, "call", url, "add", "[1, 2]") == (0, "3\n", "")
        assert call(capfd, "call", "--notify", url, "add", "[1, 2]") == (0, "", "")
        assert call(capfd, "call", url, "unknown")[0] == 1
        assert call(capfd, "call", "--follow", url, "add")[0] == 2


@rows(
    ("words", "status", "said"),
    [
        (["add", "--", "/no/such/program"], 127, "/no/such/program: No such file or directory"),
        (["add", "--", "python x.py"], 127, "No such file or directory; pass the program and its arguments separately"),
        (["add", "--", "/etc/passwd"], 126, "/etc/passwd: Permission denied"),
        (["add", "--", sys.executable, "-c", ""], 3, "the connection is closed"),
        (
            ["--timeout", "0.2", "add", "--", sys.executable, "-c", "import sys; sys.stdin.read()"],
            4,
            "call: nothing has arrived from the server yet: a language server needs --lsp",
        ),
        (
            ["--timeout", "0.2", "--lsp", "add", "--", sys.executable, "-c", "import sys; sys.stdin.read()"],
            4,
            (
                "no response to 'initialize' came in 0.2 s, and nothing has arrived from the peer: it may still be "
                "busy, or speak another framing or protocol"
            ),
        ),
        (
            ["--mcp", "--timeout", "0.2", "add", "--", sys.executable, "-c", "import sys; sys.stdin.read()"],
            4,
            "the server did not respond to initialize with a result",
        ),
        (["ws://", "add"], 2, "isn't a valid URI"),
        (
            ["--timeout", "1", "add", "--", sys.executable, "-c", NOISE],
            4,
            "call: the text is not JSON; it looks like a log line or printed text",
        ),
        (["tcp://127.0.0.1:1", "add"], 3, "tcp://127.0.0.1:1: Connect call failed ('127.0.0.1', 1)"),
        (["unix:/no/such", "--timeout", "5", "add", "a=1"], 3, "unix:/no/such: No such file or directory"),
        (["unix:/no/such", "--notify", "add", "1"], 2, "1 is not NAME=VALUE"),
        (["unix:/no/such", "add", "--bogus", "a=1"], 2, "unrecognized arguments: --bogus"),
        (["nowhere", "add"], 2, "nowhere is not an address: "),
        (["add", "a=1", "tcp://h:1"], 2, "the address stands first: jsonrpc-fast call tcp://h:1 ..."),
        (["add", "a=1", "python", "s.py"], 2, "stands after --, as in jsonrpc-fast call METHOD -- COMMAND"),
        (["tcp://nowhere", "add"], 2, "the address nowhere must be HOST:PORT"),
        (["tcp://127.0.0.1:99999", "add"], 2, "must be HOST:PORT, with a port of 0 to 65535"),
        (["ws://127.0.0.1:99999", "add"], 2, "the host of the URI is malformed, or its port is not 0 to 65535"),
        (["ws://[::1", "add"], 2, "the host of the URI is malformed, or its port is not 0 to 65535"),
        (["http://127.0.0.1:99999", "add"], 2, "the port of the URL must be 0 to 65535"),
        (["http://a:b@127.0.0.1:1/c", "add"], 3, "call: the server at 127.0.0.1:1 cannot be reached: "),
        (["tcp://127.0.0.1:1", "add", "1"], 2, "1 is not NAME=VALUE"),
        (["--header", "A: b", "tcp://127.0.0.1:1", "add"], 2, "--header needs a URL"),
        (["--mcp", "tcp://127.0.0.1:1", "add"], 2, "--mcp needs a URL"),
        (["--mcp", "--extra", "a=1", "http://127.0.0.1:1", "add"], 2, "--extra is for JSON-RPC"),
        (["--digest", "http://127.0.0.1:1", "add"], 2, "--digest needs a URL such as http://user:password@host/"),
        (["--digest", "tcp://a@127.0.0.1:1", "add"], 2, "--digest needs a URL such as http://user:password@host/"),
        (["--extra", "id=1", "http://127.0.0.1:1", "add"], 2, "id is not an extra member"),
        (["--extra", "a", "http://127.0.0.1:1", "add"], 2, "a is not NAME=VALUE"),
        (["tcp://127.0.0.1:1"], 2, "expected METHOD"),
        ([], 2, "expected TARGET, or a command after --"),
        (["--timeout", "0", "http://localhost", "add"], 2, "must be a number of seconds, more than 0"),
    ],
)
@pytest.mark.ci
def test_a_call_that_fails(words: list[str], status: int, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    found, output, error = call(capfd, "call", *words)
    assert (found, output) == (status, "")
    assert said in error


def test_further_members(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        seen: list[bytes] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                seen.append(connection.recv(65536))
                connection.sendall(b'{"jsonrpc":"2.0","id":1,"result":[]}\n')
                connection.recv(65536)

        thread = threading.Thread(target=serve)
        thread.start()
        target = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        words = ["--extra", "auth=0424bd", "--extra", "src=user", "--extra", "n=1.50", target, "host.get", "limit=1"]
        assert call(capfd, "call", *words) == (0, "[]\n", "")
        thread.join(SECONDS)
    text = '{"jsonrpc":"2.0","id":1,"method":"host.get","params":{"limit":1},"auth":"0424bd","src":"user","n":1.5}\n'
    assert seen == [text.encode()]


def test_digest_authentication(capfd: pytest.CaptureFixture[str]) -> None:
    """RFC 7616, with the challenge of Monero's daemon."""
    pytest.importorskip("httpx2", reason="the extra `http` is not installed")
    seen: list[dict[str, str]] = []

    class Daemon(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            given = self.headers.get("authorization", "")
            self.send_response(200 if given.startswith("Digest ") else 401)
            if given.startswith("Digest "):
                seen.append(dict(re.findall(r'(\w+)="?([^",]+)"?', given)))
                body = b'{"jsonrpc":"2.0","id":%d,"result":true}' % json.loads(body)["id"]
            else:
                self.send_header(
                    "WWW-Authenticate", 'Digest qop="auth",algorithm=MD5,realm="monero-rpc",nonce="ICSz=="'
                )
                body = b""
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Daemon) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        host = f"127.0.0.1:{server.server_port}/json_rpc"
        assert call(capfd, "call", "--digest", f"http://ada:p%40ss@{host}", "get_balance") == (0, "true\n", "")
        assert call(capfd, "call", f"http://ada:p%40ss@{host}", "get_balance")[0] == 3
        server.shutdown()
    [fields] = seen

    def md5(*parts: str) -> str:
        return hashlib.md5(":".join(parts).encode(), usedforsecurity=False).hexdigest()

    parts = [fields[name] for name in ("nonce", "nc", "cnonce", "qop")]
    assert fields["response"] == md5(md5("ada", "monero-rpc", "p@ss"), *parts, md5("POST", "/json_rpc"))


def test_a_refused_websocket(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 404 N\r\nContent-Length: 5\r\n\r\nhello")

        thread = threading.Thread(target=refuse)
        thread.start()
        status, output, said = call(capfd, "call", f"ws://127.0.0.1:{listener.getsockname()[1]}/", "add")
        thread.join(SECONDS)
    assert (status, output) == (3, "")
    assert said.startswith("jsonrpc-fast call: server rejected WebSocket connection: HTTP 404")
    assert "Traceback" not in said


@posix
@rows("words", [["call", "add", "a=1", "b=2"], ["call", "--follow", "ticks"]])
@pytest.mark.ci
def test_a_reader_that_closes_the_output(words: list[str], server: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        command(*words, *server), stdout=writer, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment()
    )
    os.close(writer)
    assert process.communicate(timeout=SECONDS) == (None, b"")
    assert process.returncode == 141


@posix
@rows("encoding, said", [("ascii", "caf\\xe9 \\u2192 tea"), ("latin-1", "café \\u2192 tea"), ("utf-8", "café → tea")])
@pytest.mark.ci
def test_a_description_that_stdout_cannot_encode(tmp_path: Path, encoding: str, said: str) -> None:
    source = """if True:
        import json, sys
        methods = [{"name": "tea", "description": "café → tea", "params": []}]
        result = {"openrpc": "1.3.2", "info": {"title": "t", "version": "1"}, "methods": methods}
        for line in sys.stdin:
            print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": result}), flush=True)
    """
    (tmp_path / "server.py").write_text(source, encoding="utf-8")
    words = command("list", "--", sys.executable, "-S", str(tmp_path / "server.py"))
    done = subprocess.run(words, capture_output=True, timeout=SECONDS, env=environment(PYTHONIOENCODING=encoding))
    assert (done.stderr, done.returncode) == (b"", 0)
    assert said in done.stdout.decode(encoding)


@posix
@rows("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.ci
def test_a_signal_ends_the_program_too(tmp_path: Path, number: signal.Signals, status: int) -> None:
    """Soon: a program that ignores the end of its stdin would otherwise have more time than this test."""
    main = f"""if True:
        import signal, sys
        from jsonrpc_fast.cli.main import main
        from jsonrpc_fast.transports import StdioClient
        signal.signal(signal.SIGINT, signal.default_int_handler)
        StdioClient.__init__.__kwdefaults__["exit_seconds"] = {10 * SECONDS}
        sys.exit(main())
    """
    source = (
        "import os, pathlib, signal, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)"
    )
    file = tmp_path / f"pid {number}"
    words = ["call", "add", "--", sys.executable, "-c", source, str(file)]
    process = subprocess.Popen([sys.executable, "-c", main, *words], env=environment())
    blocking_eventually(lambda: file.exists() and file.read_text(), SECONDS)
    process.send_signal(number)
    assert process.wait(SECONDS) == status
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


@posix
@rows("words", [["call", "add"], ["list"]])
@pytest.mark.ci
def test_a_second_interrupt_kills_the_program(words: list[str]) -> None:
    source = """if True:
        import signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.stdin.buffer.read(1)  # when this arrives, the client knows its program
        print("begun", file=sys.stderr, flush=True)
        sys.stdin.buffer.read()
        print("stdin is closed", file=sys.stderr, flush=True)
        time.sleep(20)
        print("lives on", file=sys.stderr, flush=True)
    """
    with subprocess.Popen(
        command(*words, "--", sys.executable, "-c", source),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # the tests may ignore it
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == b"stdin is closed\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""  # at its end: neither process has it open
        assert process.wait(SECONDS) == -signal.SIGINT


@posix
@rows("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_that_a_signal_ends_says_nothing(
    number: signal.Signals, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The request arrives when the client knows its program.
    source = f"import os, sys; sys.stdin.buffer.read(1); os.kill(os.getppid(), {number}); sys.stdin.buffer.read()"
    try:
        assert call(capfd, "call", "add", "--", sys.executable, "-S", "-c", source) == (status, "", "")
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


@posix
def test_a_result_on_a_terminal(plain: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["call", "echo", 'na"me=Ada: 1', "text=\x9b", "n=[-1.5e3, true, {}, null]", *plain]
    plain = (
        '{\n  "na\\"me": "Ada: 1",\n  "text": "\\u009b",\n  "n": [\n'
        "    -1500.0,\n    true,\n    {},\n    null\n  ]\n}\n"
    )
    coloured = (
        '{\n  <1>"na\\"me"<0>: <32>"Ada: 1"<0>,\n  <1>"text"<0>: <32>"\\u009b"<0>,\n  <1>"n"<0>: [\n'
        "    <36>-1500.0<0>,\n    <35>true<0>,\n    {},\n    <35>null<0>\n  ]\n}\n"
    )
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for no_color, term, expected in (("", "xterm", coloured), ("1", "xterm", plain), ("", "dumb", plain)):
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("TERM", term)
        terminal = Terminal()
        with open(terminal.writer, "w", closefd=False) as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            assert main(words) == 0
        shown = terminal.text().replace("\r\n", "\n")
        assert re.sub("\033\\[([0-9]+)m", r"<\1>", shown) == expected


@posix
def test_an_error_on_a_terminal(plain: list[str]) -> None:
    terminal = Terminal()
    words = ["call", "unknown", *plain]
    process = subprocess.Popen(command(*words), stderr=terminal.writer, env=environment(TERM="xterm"))
    assert process.wait(SECONDS) == 1
    assert terminal.text().startswith("jsonrpc-fast call: \033[31merror -32601\033[0m: Method not found")


@posix
def test_the_progress_of_a_tool_is_shown_on_a_terminal(mcp_server: list[str]) -> None:
    terminal = Terminal()
    words = command("call", "--mcp", "slow", *mcp_server)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=terminal.writer, env=environment(TERM="xterm"))
    output, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, json.loads(output)["content"][0]["text"]) == (0, "done")
    assert terminal.text() == "\r1 of 2: half \\x1b[31m\033[K\r\033[K"


def test_methods_are_listed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "described.py"
    path.write_text(DESCRIBED)
    program = ["--", sys.executable, str(path)]
    lines = "method add(a: integer, b?: integer)  Add.\nmethod \\x1b[31m(x?)\nmethod None()\n"
    assert call(capfd, "list", *program) == (0, lines, "")
    status, output, _ = call(capfd, "list", "--json", *program)
    assert (status, len(json.loads(output)["methods"])) == (0, 3)


def test_a_page_of_the_methods(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "described server.py"
    path.write_text(DESCRIBED)
    program = [sys.executable, str(path)]
    status, page, said = call(capfd, "list", "--html", "--", *program)
    assert (status, said) == (0, "")
    assert page.startswith("<!doctype html>")
    assert f'data-before="jsonrpc-fast call " data-after=" -- {html.escape(shlex.join(program))}"' in page
    assert '"name": "add"' in page
    status, page, said = call(capfd, "list", "--html", "--mcp", "--", *program)
    assert (status, page) == (2, "")
    assert "leave out --mcp" in said


ANSWER = "print(input() and '" + '{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"%s"}}' + "')"


@rows(
    ("command", "words", "code", "message", "said"),
    [
        ("call", ["add"], -32601, "Method not found", "an MCP server needs --mcp"),
        ("call", ["tools/list"], -32602, "Invalid request parameters", "an MCP server needs --mcp"),
        ("call", ["add"], -32600, "not initialized", "an MCP server needs --mcp, a language server --lsp"),
        ("call", ["add"], -32002, "Server not initialized", "an MCP server needs --mcp, a language server --lsp"),
        ("call", ["add"], -32602, "Invalid params", None),
        ("list", [], -32601, "Method not found", "it has no rpc.discover (OpenRPC); an MCP server needs --mcp"),
    ],
)
def test_a_server_that_wants_a_handshake(
    command: str, words: list[str], code: int, message: str, said: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    program = ["--", sys.executable, "-S", "-c", ANSWER % (code, message)]
    _, _, error = call(capfd, command, *words, *program)
    assert error.endswith(f"{said}\n") if said else "--mcp" not in error


@rows(
    ("words", "status", "said"),
    [
        (["call", "add"], 3, "call: the connection broke: the child process ended with exit code 3\n"),
        (
            ["call", "--mcp", "add"],
            3,
            "call: the server ended with exit code 3\n{command}\n",
        ),
        (
            ["list", "--mcp"],
            3,
            "list: the server ended with exit code 3\n{command}\n",
        ),
    ],
)
@pytest.mark.ci
def test_the_end_of_a_program_is_told_once(
    words: list[str], status: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = f"jsonrpc-fast {said}".replace("{command}", f"command: {sys.executable} -S -c 'import os; os._exit(3)'")
    assert call(capfd, *words, "--", sys.executable, "-S", "-c", "import os; os._exit(3)") == (status, "", text)


def test_the_end_of_a_program_is_told_if_nothing_waits_for_it(capfd: pytest.CaptureFixture[str]) -> None:
    source = """print(input() and '{"jsonrpc":"2.0","id":1,"result":1}', flush=True); import os; os._exit(3)"""
    status, output, said = call(capfd, "call", "--follow", "add", "--", sys.executable, "-S", "-c", source)
    assert (status, output, said) == (0, "1\n", "jsonrpc-fast call: the child process ended with exit code 3\n")


def test_a_server_without_a_description(plain: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    said = "the server does not describe its methods: it has no rpc.discover (OpenRPC); an MCP server needs --mcp"
    assert call(capfd, "list", *plain) == (2, "", f"jsonrpc-fast list: {said}\n")
    # Without --mcp, which this command has not.
    said = said.partition(";")[0]
    assert call(capfd, "stubs", *plain) == (2, "", f"jsonrpc-fast stubs: {said}\n")


@pytest.mark.ci
def test_tools(mcp_server: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    status, output, said = call(capfd, "call", "--mcp", "add", "a=1", "b=2", *mcp_server)
    assert (status, json.loads(output)["structuredContent"], said) == (0, {"sum": 3}, "")
    status, output, _ = call(capfd, "call", "--mcp", "--json", "add", "a=x", *mcp_server)
    assert (status, json.loads(output)["result"]["isError"]) == (1, True)
    status, output, said = call(capfd, "call", "--mcp", "--json", "resources/read", "uri=no:such", *mcp_server)
    assert (status, json.loads(output)["error"]["code"], said) == (1, -32602, "")
    status, output, _ = call(capfd, "call", "--mcp", "resources/read", "uri=file:///notes", *mcp_server)
    assert (status, json.loads(output)["contents"][0]["text"]) == (0, "note")


@pytest.mark.ci
def test_what_an_mcp_server_offers_is_listed(mcp_server: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    lines = (
        "tool add(a: integer, b?: integer)  Add two numbers.\ntool slow()\n"
        "prompt greet(name)  Greet.\n"
        "resource notes  file:///notes  Notes.\n"
    )
    assert call(capfd, "list", "--mcp", *mcp_server) == (0, lines, "")


def test_an_mcp_server_that_cannot_be_run(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
    status, output, said = call(capfd, "list", "--mcp", "--", "/no/such/program")
    assert (status, output) == (127, "")
    assert said.startswith("jsonrpc-fast list: cannot start the server: No such file or directory: /no/such/program\n")
