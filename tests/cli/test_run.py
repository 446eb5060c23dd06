"""The command `run`: unchanged programs of other libraries, with the adapters installed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from jsonrpc_fast.framing.frames import frame

from ..support.command_line import environment, run
from ..support.tables import rows

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":null,"rootUri":null,"capabilities":{}}}'
)
LSP = b"".join(
    frame(text, "content-length")
    for text in (
        INITIALIZE,
        b'{"jsonrpc":"2.0","method":"initialized","params":{}}',
        b'{"jsonrpc":"2.0","id":2,"method":"adapter"}',
        b'{"jsonrpc":"2.0","id":3,"method":"shutdown"}',
        b'{"jsonrpc":"2.0","method":"exit"}',
    )
)
PYGLS = """
import sys
from pygls.lsp.server import LanguageServer

class Server(LanguageServer):
    pass

server = Server("test", "1")

@server.feature("adapter")
def adapter(ls: Server, *_):
    return 2 * [Server.__mro__[1].__module__] + sys.argv

if __name__ == "__main__":
    server.start_io()
"""
PYLSP = """
import sys
from pylsp_jsonrpc.dispatchers import MethodDispatcher
from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter

class Server(MethodDispatcher):
    def __init__(self, reader, writer):
        self.reader = reader
        self.endpoint = Endpoint(self, writer.write)
    def m_initialize(self, **_):
        return {}
    def m_initialized(self, **_):
        pass
    def m_adapter(self, **_):
        return [JsonRpcStreamReader.__module__, JsonRpcStreamWriter.__module__] + sys.argv
    def m_shutdown(self, **_):
        pass
    def m_exit(self, **_):
        self.reader.close()

server = Server(JsonRpcStreamReader(sys.stdin.buffer), JsonRpcStreamWriter(sys.stdout.buffer))
server.reader.listen(server.endpoint.consume)
"""
AIORPCX = """
import asyncio
import aiorpcx
from aiorpcx import RPCSession
asyncio.set_event_loop(asyncio.new_event_loop())
print(aiorpcx.JSONRPCv2.__module__, type(RPCSession.default_connection(None)).__module__)
"""
MCP = """
import anyio
from mcp.server.stdio import stdio_server
print(stdio_server.__module__)
"""
PLAIN = """
import sys
if __name__ == "__main__":
    print(sys.argv, __file__, sys.path[0])
    sys.exit(7)
"""


def program(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "program.py"
    path.write_text(text)
    return path


@rows(("library", "text", "adapter"), [("pygls.lsp.server", PYGLS, "pygls"), ("pylsp_jsonrpc.streams", PYLSP, "pylsp")])
@pytest.mark.ci
def test_language_servers(library: str, text: str, adapter: str, tmp_path: Path) -> None:
    pytest.importorskip(library, reason=f"the extra `{adapter}` is not installed")
    path = program(tmp_path, text)
    command = [sys.executable, "-m", "jsonrpc_fast", "run", str(path), "--flag"]
    done = subprocess.run(command, input=LSP, capture_output=True, env=environment(), timeout=50, check=False)
    module = f"jsonrpc_fast.adapters.{adapter}"
    shown = done.stdout.replace(b": ", b":").replace(b", ", b",")
    assert f'["{module}","{module}","{path}","--flag"]'.encode() in shown, done.stderr
    assert done.returncode == 0


@rows(
    ("library", "text", "expected"),
    [
        ("aiorpcx", AIORPCX, "jsonrpc_fast.adapters.aiorpcx jsonrpc_fast.adapters.aiorpcx\n"),
        ("mcp", MCP, "jsonrpc_fast.adapters.mcp\n"),
    ],
)
@pytest.mark.ci
def test_other_libraries(library: str, text: str, expected: str, tmp_path: Path) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    done = run("run", str(program(tmp_path, text)))
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)


@pytest.mark.ci
def test_a_program_runs_as_it_would_without(tmp_path: Path) -> None:
    path = program(tmp_path, PLAIN)
    done = run("run", str(path), "--help", "--", "x")
    assert done.returncode == 7
    assert done.stdout == f"{[str(path), '--help', '--', 'x']} {path} {tmp_path}\n"
    done = subprocess.run(
        [sys.executable, "-m", "jsonrpc_fast", "run", "-m", "program", "a"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout.startswith(f"['{path}', 'a'] {path} ")


@pytest.mark.ci
def test_a_script_on_the_path(tmp_path: Path) -> None:
    # The kernel ends the path of an interpreter at its first space: installers then write the form of "long".
    here = None if " " in sys.executable else sys.executable
    for name, shebang in (("here", here), ("any", "/usr/bin/env python3"), ("long", None)):
        script = tmp_path / name
        first = f"#!{shebang}" if shebang else f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''"
        script.write_text(f"{first}\nprint('ran')\n")
        script.chmod(0o755)
        done = run("run", name, env=environment(PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}"))
        assert (done.stdout, done.stderr, done.returncode) == ("ran\n", "", 0)


@rows(
    ("start", "status", "said"),
    [
        (
            b"#!/opt/other/bin/python3\n",
            126,
            "belongs to another Python: install jsonrpc_fast there, and run it with /opt/other/bin/jsonrpc-fast run",
        ),
        (b"#!/bin/sh\n", 126, "is not a program in Python"),
        (b"\x7fELF", 126, "is not a program in Python"),
        (None, 127, "is not found"),
    ],
)
@pytest.mark.ci
def test_what_cannot_run(start: bytes | None, status: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / ("program" if start is not None else "none")
    if start is not None:
        path.write_bytes(start)
    done = run("run", str(path))
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == f"jsonrpc-fast run: {path} {said}\n"


def test_a_folder_that_is_no_program(tmp_path: Path) -> None:
    done = run("run", str(tmp_path))
    assert (done.returncode, done.stdout) == (126, "")
    assert done.stderr == f"jsonrpc-fast run: {tmp_path} is a folder without a __main__.py\n"


@pytest.mark.ci
def test_modules_that_are_not_there(tmp_path: Path) -> None:
    done = run("run", "-m", "nothing.at.all")
    assert (done.returncode, done.stderr) == (127, "jsonrpc-fast run: there is no module nothing.at.all\n")
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "__init__.py").write_text("import missing_library")
    done = run("run", "-m", "outer.inner", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        127,
        "jsonrpc-fast run: there is no module outer.inner: No module named 'missing_library'\n",
    )
    assert run("run", "-m").returncode == 2
    assert run("run").returncode == 2


def test_a_library_in_a_zip_file(tmp_path: Path) -> None:
    """A program may look for a library before it imports it."""
    with zipfile.ZipFile(tmp_path / "library.zip", "w") as file:
        file.writestr("aiorpcx/__init__.py", "")
    text = f"""
        import importlib.util, sys
        sys.path.insert(0, {str(tmp_path / "library.zip")!r})
        assert importlib.util.find_spec("aiorpcx") and importlib.util.find_spec("aiorpcx")
        import aiorpcx
        print(type(aiorpcx.__loader__).__name__)
    """
    done = run("run", str(program(tmp_path, textwrap.dedent(text))))
    assert (done.returncode, done.stdout) == (0, "zipimporter\n"), done.stderr
    assert done.stderr.startswith("jsonrpc-fast run: the program runs without the adapter aiorpcx: ")


@pytest.mark.ci
def test_an_adapter_that_does_not_fit(tmp_path: Path) -> None:
    """A library of another version: the program runs without."""
    (tmp_path / "pylsp_jsonrpc").mkdir()
    (tmp_path / "pylsp_jsonrpc" / "__init__.py").write_text("")
    (tmp_path / "pylsp_jsonrpc" / "streams.py").write_text("raise ImportError('old')\n")
    path = program(tmp_path, "try:\n    import pylsp_jsonrpc.streams\nexcept ImportError as error:\n    print(error)\n")
    done = run("run", str(path))
    assert (done.stdout, done.stderr, done.returncode) == ("old\n", "", 0)
    (tmp_path / "pygls").mkdir()
    (tmp_path / "pygls" / "__init__.py").write_text("")
    (tmp_path / "pygls" / "server.py").write_text("class Server: pass\n")
    path = program(tmp_path, "from pygls.server import Server\nprint('ran')\n")
    done = run("run", str(path))
    assert (done.stdout, done.returncode) == ("ran\n", 0)
    assert done.stderr.startswith(
        "jsonrpc-fast run: the program runs without the adapter pygls: this adapter needs pygls 2"
    )
