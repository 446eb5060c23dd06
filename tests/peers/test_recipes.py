"""The clients in `examples/` with the servers that they are for, or with scripts, where no package has the server."""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ..support import needs
from ..support.command_line import environment
from ..support.places import ROOT
from ..support.tables import rows
from ..support.waiting import SECONDS, accepts, accepts_at, blocking_eventually, free_port
from .venvs import python_of

pytestmark = [pytest.mark.ci, pytest.mark.time_limit(100)]


class Program:
    """A running program, whose output is read line by line."""

    def __init__(self, *command: object, **options: Any) -> None:
        self.process = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, text=True, env=environment(), **options
        )

    def lines(self, count: int) -> list[str]:
        assert self.process.stdout is not None
        return [self.process.stdout.readline().rstrip("\n") for _ in range(count)]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=SECONDS)


@contextlib.contextmanager
def running(*command: object, **options: Any) -> Iterator[Program]:
    program = Program(*command, **options)
    timer = threading.Timer(3 * SECONDS, program.process.kill)  # so that no line is waited for without end
    timer.start()
    try:
        yield program
    finally:
        timer.cancel()
        program.end()


def example(name: str, *words: object) -> contextlib.AbstractContextManager[Program]:
    return running(sys.executable, ROOT / "examples" / f"{name}.py", *words)


@needs.mark("aria2c")
def test_aria2(tmp_path: Path) -> None:
    pytest.importorskip("websockets", reason="the extra `websocket` is not installed")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    (tmp_path / "file").write_text("x")
    port = free_port()
    options = ["--enable-rpc", f"--rpc-listen-port={port}", "--rpc-secret=secret", "--no-conf", "-q"]
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as files,
        running(needs.require("aria2c"), *options, "-d", tmp_path / "downloads"),
    ):
        threading.Thread(target=files.serve_forever, args=(0.01,), daemon=True).start()
        blocking_eventually(lambda: accepts(port), SECONDS)
        url = f"http://127.0.0.1:{files.server_port}"
        with example("aria2", f"ws://127.0.0.1:{port}/jsonrpc", "secret", f"{url}/file", f"{url}/none") as client:
            assert sorted(client.lines(4)) == [
                f"aria2.onDownloadComplete {url}/file",
                f"aria2.onDownloadError {url}/none",
                f"aria2.onDownloadStart {url}/file",
                f"aria2.onDownloadStart {url}/none",
            ]
            assert client.process.wait(SECONDS) == 0
        with running(
            sys.executable, ROOT / "examples" / "aria2.py", f"ws://127.0.0.1:{port}/jsonrpc", "wrong", url, stderr=-1
        ) as refused:
            assert refused.process.communicate(timeout=SECONDS) == ("", "1: Unauthorized\n")
        files.shutdown()
    assert (tmp_path / "downloads" / "file").read_text() == "x"


@needs.mark("ovsdb-server")
def test_ovsdb(tmp_path: Path) -> None:
    schema = {"name": "Small", "version": "1.0.0", "tables": {"Bridge": {"columns": {"name": {"type": "string"}}}}}
    (tmp_path / "schema").write_text(json.dumps(schema))
    socket = tmp_path / "socket"
    subprocess.run([needs.require("ovsdb-tool"), "create", tmp_path / "db", tmp_path / "schema"], check=True)
    options = ["--no-chdir", f"--unixctl={tmp_path / 'ctl'}", "-vconsole:off", "-vfile:off"]

    def transact(operation: str, **more: Any) -> None:
        change = {"op": operation, "table": "Bridge", **more}
        command = [needs.require("ovsdb-client"), "transact", f"unix:{socket}", json.dumps(["Small", change])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    with running(needs.require("ovsdb-server"), tmp_path / "db", f"--remote=punix:{socket}", *options):
        blocking_eventually(lambda: accepts_at(socket), SECONDS)
        transact("insert", row={"name": "br0"})
        with example("ovsdb", socket, "Small", "Bridge", "name") as client:
            assert client.lines(1) == ["None -> br0"]
            transact("update", row={"name": "ä"}, where=[])
            transact("delete", where=[])
            assert client.lines(2) == ["br0 -> ä", "ä -> None"]


@needs.mark("snapserver")
def test_snapserver(tmp_path: Path) -> None:
    port, control = free_port(), free_port()
    config = (
        f"[server]\ndatadir={tmp_path}\n[stream]\nport={port}\nsource=pipe://{tmp_path}/fifo?name=music&mode=create\n"
    )
    (tmp_path / "conf").write_text(f"{config}[tcp]\nport={control}\n[http]\nenabled=false\n")
    with running(needs.require("snapserver"), "-c", tmp_path / "conf", stderr=subprocess.DEVNULL):
        blocking_eventually(lambda: accepts(control), SECONDS)
        with example("snapserver", "127.0.0.1", control) as client:
            assert client.lines(1) == ["stream {'id': 'music', 'status': 'idle'}"]


SERVER = """
import json, socket, sys
place, end = sys.argv[1], bytes([int(sys.argv[2])])
server = socket.socket() if place.isdigit() else socket.socket(socket.AF_UNIX)
server.bind(("127.0.0.1", int(place)) if place.isdigit() else place)
server.listen()
print("ready", flush=True)
peer = server.accept()[0]
file = peer.makefile("rb")
for answer in sys.argv[3:]:
    asked = b""
    while not asked.endswith(end):
        asked += file.read(1)
    print(json.loads(asked[:-1])["method"], flush=True)
    peer.sendall(answer.encode() + end)
file.read()
"""


def test_a_pool() -> None:
    port = free_port()
    answers = [
        '{"id":1,"result":[[["mining.notify","ae68"]],"08000002",4],"error":null}',
        (
            '{"id":2,"result":true,"error":null}\n'
            '{"id":null,"method":"mining.notify","params":["bf","4d16","01","",[],"00","1c2ac4af","504e86b9",true]}'
        ),
        '{"id":3,"result":null,"error":[21,"Job not found",null]}',
    ]
    with running(sys.executable, "-c", SERVER, port, 10, *answers) as pool:
        assert pool.lines(1) == ["ready"]
        with example("stratum", "127.0.0.1", port, "worker", "x") as client:
            assert client.lines(2) == ["job bf at 504e86b9", "refused: 21 Job not found"]
        assert pool.lines(3) == ["mining.subscribe", "mining.authorize", "mining.submit"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no Unix sockets in asyncio")
def test_moonraker(tmp_path: Path) -> None:
    answers = [
        '{"jsonrpc":"2.0","id":1,"result":{"connection_id":1}}',
        '{"jsonrpc":"2.0","id":2,"result":{"klippy_state":"ready"}}',
        (
            '{"jsonrpc":"2.0","id":3,"result":{"eventtime":1.5,"status":{"extruder":{"target":0.0}}}}\x03'
            '{"jsonrpc":"2.0","method":"notify_status_update","params":[{"extruder":{"target":210.0}},2.5]}'
        ),
    ]
    with running(sys.executable, "-c", SERVER, tmp_path / "socket", 3, *answers) as printer:
        assert printer.lines(1) == ["ready"]
        with example("moonraker", tmp_path / "socket") as client:
            expected = {"ready", "1.5 {'extruder': {'target': 0.0}}", "2.5 {'extruder': {'target': 210.0}}"}
            assert set(client.lines(3)) == expected  # a notification may overtake the task that awaits a response
        methods = ["server.connection.identify", "server.info", "printer.objects.subscribe"]
        assert printer.lines(3) == methods


SOURCE = 'import os\nx: int = "a"\n\n\ndef double(a):\n    y = a + 1\n    return y\n\n\nprint(double(1))\n'


@pytest.mark.slow
@rows(
    ("command", "said"),
    [
        (["pylsp"], "double(a)"),
        (["ruff", "server"], "`os` imported but unused"),
        (["jedi-language-server"], "def double(a)"),
        (["pyright-langserver", "--stdio"], 'is not assignable to declared type "int"'),
    ],
    ids=["pylsp", "ruff", "jedi", "pyright"],
)
def test_language_servers(command: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    program = Path(python_of("languages")).with_name(command[0])
    words = [tmp_path / "a.py", "python", 5, 5, "--", program, *command[1:]]
    with running(sys.executable, ROOT / "examples" / "language_client.py", *words, stderr=-1) as client:
        shown, _ = client.process.communicate(timeout=3 * SECONDS)
        assert said in shown
        assert client.process.returncode == 0


@needs.mark("clangd")
def test_clangd(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int add(int a) { return a + größe; }\nint main(void) { return add(1); }\n")
    with example(
        "language_client", tmp_path / "a.c", "c", 1, 5, "--", needs.require("clangd"), "--log=error"
    ) as client:
        shown, _ = client.process.communicate(timeout=SECONDS)
        assert shown.startswith("1: Use of undeclared identifier 'größe'\n{'kind': 'plaintext', 'value': 'function add")
        assert client.process.returncode == 0


@pytest.mark.slow
def test_debugpy(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    adapter = [python_of("languages"), "-m", "debugpy.adapter"]
    with example("debug_adapter", tmp_path / "a.py", 7, "y * 10", "--", *adapter) as client:
        shown, _ = client.process.communicate(timeout=3 * SECONDS)
        assert shown == "stopped in double at line 7\ny * 10 = 20\n2\n"
        assert client.process.returncode == 0
