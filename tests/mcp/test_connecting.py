"""`connect`: the handshake over a transport, and servers that are programs."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import ConnectionLost, HandshakeError, ProgramStartError, RpcError, StateError
from jsonrpc_fast.mcp import connect
from jsonrpc_fast.mcp.client.entries import SAFE_VARIABLES
from jsonrpc_fast.mcp.protocol.capabilities import ClientCapabilities, Implementation, Roots
from jsonrpc_fast.profile import MCP_2025_11_25
from jsonrpc_fast.transports.memory import memory_pair
from jsonrpc_fast.transports.stdio.client import StdioClient

from ..support.mcp_script import DISCOVERED, INITIALIZED, Script, scripted
from ..support.tables import rows, table
from ..support.waiting import settle


async def test_the_first_messages_of_each_mode() -> None:
    info = {"name": "t", "version": "9"}

    async def first(mode: str, answers: Mapping[str, Any]) -> tuple[list[tuple[str, Any]], list[str]]:
        options: dict[str, Any] = {"mode": mode, "info": Implementation(name="t", version="9")}
        async with scripted(answers, **options) as (_, script):
            await settle()
            requests = [(request["method"], request["params"]) for request in script.requests]
            return requests, [notification["method"] for notification in script.notifications]

    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": info,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    discover = ("server/discover", {"_meta": meta})
    initialize = ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
    older = ("initialize", {**initialize[1], "protocolVersion": "2025-06-18"})
    older_result = {**INITIALIZED, "protocolVersion": "2025-06-18"}
    refused = RpcError(-32601, "Method not found")
    assert await first("auto", {}) == ([discover], [])
    assert await first("modern", {}) == ([discover], [])
    assert await first("2026-07-28", {}) == ([discover], [])
    assert await first("legacy", {}) == ([initialize], ["notifications/initialized"])
    assert await first("2025-06-18", {"initialize": older_result}) == ([older], ["notifications/initialized"])
    fallen_back = ([discover, initialize], ["notifications/initialized"])
    assert await first("auto", {"server/discover": refused}) == fallen_back
    # A malformed response is treated as an error.
    assert await first("auto", {"server/discover": b'{"jsonrpc":"2.0","id":%s,"result":[]}'}) == fallen_back


@pytest.mark.parametrize(
    ("mode", "answers"),
    [
        ("legacy", {"initialize": {**INITIALIZED, "protocolVersion": "2026-07-28"}}),
        ("legacy", {"initialize": {**INITIALIZED, "protocolVersion": "1999-01-01"}}),
        ("2025-06-18", {}),
        ("legacy", {"initialize": {**INITIALIZED, "capabilities": {"tools": []}}}),
        ("legacy", {"initialize": RpcError(-32603, "no")}),
        ("legacy", {"initialize": b'{"jsonrpc":"2.0","id":%s,"result":1}'}),
        ("modern", {"server/discover": RpcError(-32601, "no")}),
        ("modern", {"server/discover": {**DISCOVERED, "supportedVersions": ["2031-01-01"]}}),
    ],
)
async def test_a_failed_handshake_disconnects(mode: str, answers: dict[str, Any]) -> None:
    ours, theirs = memory_pair(profile=MCP_2025_11_25)
    script = Script(theirs, answers)
    await theirs.start()
    client = connect(ours, mode=mode, timeout=5)
    with pytest.raises(HandshakeError):
        await client.__aenter__()
    assert not ours.is_connected
    assert script.notifications == []
    with pytest.raises(StateError):
        await client.ping()
    await theirs.disconnect()


@pytest.mark.virtual_time
async def test_a_silent_server_times_out() -> None:
    with pytest.raises(HandshakeError, match="did not respond to initialize"):
        async with scripted({"initialize": lambda params: None}, timeout=0.05):
            pass


async def test_capabilities_follow_from_the_handlers() -> None:
    def nothing(params: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def declared(**options: Any) -> Any:
        async with scripted({}, **options) as (_, script):
            return script.requests[0]["params"]["capabilities"]

    handlers = dict.fromkeys(["roots/list", "sampling/createMessage", "elicitation/create"], nothing)
    assert await declared(handlers=handlers) == {"roots": {}, "sampling": {}, "elicitation": {"form": {}}}
    assert await declared(handlers={"roots/list": nothing}) == {"roots": {}}
    capabilities = ClientCapabilities(roots=Roots(list_changed=True))
    assert await declared(capabilities=capabilities, handlers=handlers) == {"roots": {"listChanged": True}}


def test_arguments_of_connect() -> None:
    ours, _ = memory_pair()
    with pytest.raises(ValueError, match='mode must be "auto", "legacy", "modern" or one of 2024-11-05'):
        connect(ours, mode="2023-01-01")
    with pytest.raises(TypeError, match="apply to a program"):
        connect(ours, "argument")
    with pytest.raises(TypeError, match="apply to a program"):
        connect(ours, cwd="/")


async def test_connect_accepts_the_options_of_a_session() -> None:
    ids = iter("abc")
    async with scripted(id_factory=lambda: next(ids), max_calls=1) as (_, script):
        assert script.requests[0]["id"] == "a"
    ours, _ = memory_pair()
    for wrong in ({"max_handlers": 0}, {"timeout": -1}, {"close_seconds": None}, {"unknown": 1}):
        with pytest.raises((TypeError, ValueError)):
            connect(ours, **wrong)  # type: ignore[arg-type]


def test_connect_is_found_in_the_package() -> None:
    assert mcp.connect is connect
    with pytest.raises(AttributeError):
        mcp.nothing  # noqa: B018
    code = "import sys, jsonrpc_fast.mcp; print([name for name in sys.modules if name.startswith('jsonrpc_fast.mcp.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_arguments_environment_and_directory_of_the_program() -> None:
    lines: list[str] = []
    code = "import os, sys; print(sorted(os.environ), os.getcwd(), sys.argv[1:], file=sys.stderr)"
    with pytest.raises(ConnectionLost):
        async with connect(
            sys.executable, "-c", code, "one", Path("two"), env={"A": "b"}, cwd="/", stderr=lines.append
        ):
            pass
    assert "'A'" in lines[0]
    assert lines[0].endswith(" / ['one', 'two']")


async def test_the_program_inherits_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SOME_TOKEN", "secret"), ("HOME", "/home/of"), ("USER", "() { :; }"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    for name in ("LOGNAME", "SHELL"):
        monkeypatch.delenv(name, raising=False)
    code = "import json, os, sys; print(json.dumps(dict(os.environ)), file=sys.stderr)"

    async def given(**options: Any) -> dict[str, str]:
        lines: list[str] = []
        with pytest.raises(ConnectionLost):
            async with connect(sys.executable, "-c", code, mode="legacy", stderr=lines.append, **options):
                pass
        found: dict[str, str] = json.loads(lines[0])
        found.pop("LC_CTYPE", None)  # set by Python itself
        return found

    safe = {"PATH": os.environ["PATH"], "HOME": "/home/of", "TERM": "dumb"}
    assert await given() == safe
    assert await given(env={"A": "b", "TERM": "ansi"}) == {**safe, "A": "b", "TERM": "ansi"}
    assert (await given(env=os.environ))["SOME_TOKEN"] == "secret"


def test_the_inherited_variables_are_those_of_the_sdk() -> None:
    stdio = pytest.importorskip("mcp.client.stdio")
    assert list(SAFE_VARIABLES) == stdio.DEFAULT_INHERITED_ENV_VARS


async def test_every_error_of_a_start_names_the_command(tmp_path: Path) -> None:
    plain, folder, none = [str(tmp_path / name) for name in ("plain", "folder", "none")]
    Path(plain).touch(0o644)
    Path(folder).mkdir()
    both: Any = (HandshakeError, ConnectionLost)
    cases: list[tuple[list[str], Any, Any, str]] = [
        ([none, "a b"], {}, ProgramStartError, f"No such file or directory: {none}"),
        ([plain, "a b"], {}, ProgramStartError, f"Permission denied: {plain}"),
        ([folder, "a b"], {}, ProgramStartError, f"Permission denied: {folder}"),
        (
            ["cat", "-", "a b"],
            {"cwd": none},
            ProgramStartError,
            f"the working directory cannot be used: No such file or directory: {none}",
        ),
        (["cat", "-", "a b"], {}, both, ""),
        (["sh", "-c", "exec >&-; while read line; do :; done", "a b"], {}, both, ""),
        (["sh", "-c", "exit 3", "a b"], {}, ConnectionLost, "the server ended with exit code 3"),
    ]
    with table() as row:
        for command, options, kind, first in cases:
            with row(f"{shlex.join(command)} {options}"):
                with pytest.raises(kind) as raised:
                    async with connect(*command, timeout=5, stderr="discard", **options):
                        pass
                error: Any = raised.value
                heading, command_line = str(error).split("\n")[:2]
                assert error.program.command == tuple(command)
                assert first in heading
                assert command_line == f"command: {shlex.join(command)}"


SERVER_THAT_EXITS = """
import json, sys
how = sys.argv[1]
for line in sys.stdin:
    request = json.loads(line)
    print(request["method"], file=sys.stderr, flush=True)
    if request["method"] == "initialize":
        if how == "always":
            sys.exit(3)
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": %r}), flush=True)
    elif request["method"] == "server/discover":
        if how == "answers":
            error = {"code": -32600, "message": "no"}
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
        sys.exit(3)
    elif "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}), flush=True)
"""


@rows("how", ["silent", "answers"])
@pytest.mark.ci
async def test_a_program_that_exits_when_it_is_probed_is_started_again(how: str) -> None:
    lines: list[str] = []
    command = [sys.executable, "-c", SERVER_THAT_EXITS % (INITIALIZED,), how]
    async with connect(*command, stderr=lines.append) as client:
        assert client.server.revision.version == "2025-11-25"
        await client.ping()
    assert lines == ["server/discover", "initialize", "notifications/initialized", "ping"]
    # The modern modes have no other handshake to try.
    for mode in ("modern", "2026-07-28"):
        lines.clear()
        with pytest.raises((ConnectionLost, HandshakeError)):
            async with connect(*command, mode=mode, stderr=lines.append):
                pass
        assert lines == ["server/discover"]


@pytest.mark.ci
async def test_a_program_that_always_exits_is_started_at_most_twice() -> None:
    lines: list[str] = []
    command = [sys.executable, "-c", SERVER_THAT_EXITS % (INITIALIZED,), "always"]
    with pytest.raises(ConnectionLost):
        async with connect(*command, stderr=lines.append):
            pass
    assert lines == ["server/discover", "initialize"]
    lines.clear()
    with pytest.raises(ConnectionLost):
        async with connect(*command, mode="legacy", stderr=lines.append):
            pass
    assert lines == ["initialize"]
    # A transport that the caller made cannot be started again.
    transport = StdioClient(command, stderr=lines.append, profile=MCP_2025_11_25)
    with pytest.raises(ConnectionLost):
        async with connect(transport):
            pass
    assert lines == ["initialize", "server/discover"]


IGNORES_THE_END = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.mark.slow
@rows("code", ["", IGNORES_THE_END])
async def test_the_timeout_bounds_the_handshake_and_the_end_of_the_program(code: str) -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(HandshakeError, match=r"^the server did not respond to initialize with a result"):
        async with connect(sys.executable, "-c", f"{code}\nimport time; time.sleep(60)", timeout=3):
            pass
    assert asyncio.get_running_loop().time() - began < 4.5  # the machine may be busy; without the bound it takes 4.9


async def test_a_program_that_prints_something_else_is_named() -> None:
    code = "print('hello', flush=True); import time; time.sleep(60)"
    client = connect(sys.executable, "-c", code, timeout=0.5, stderr="discard")
    with pytest.raises(HandshakeError) as raised:
        await client.__aenter__()
    said = "the server did not respond to initialize with a result: no response to 'initialize' came in 0."
    assert str(raised.value).startswith(said)
    assert "\ncommand: " in str(raised.value)
    assert raised.value.program is not None
    if raised.value.program.noise:  # a busy machine may not have started it yet
        assert (raised.value.program.noise, raised.value.program.exit_status) == ("hello", None)
        assert str(raised.value).endswith("\nstdout: hello")
    with pytest.raises(StateError):
        await client.ping()


STARTED = "import sys; print('started', file=sys.stderr)"


async def test_a_program_that_ends_at_once_is_named_and_not_started_again() -> None:
    lines: list[str] = []
    code = f"{STARTED}; print('Listening…'); sys.stdout.flush(); import no_such_module"
    with pytest.raises(ConnectionLost) as raised:
        async with connect(sys.executable, "-c", code, "--port", "1 2", stderr=lines.append):
            pass
    assert lines.count("started") == 1
    report = raised.value.program
    assert report is not None
    assert report.command == (sys.executable, "-c", code, "--port", "1 2")
    assert (report.exit_status, report.noise) == (1, "Listening…")
    assert report.stderr.endswith("ModuleNotFoundError: No module named 'no_such_module'")
    first, command, *others = str(raised.value).split("\n")
    assert first == "the server ended with exit code 1"
    assert command.startswith("command: ")
    assert others[0] == "stdout: Listening…"
    assert others[1] == "stderr: started"
    assert others[-1] == "stderr: ModuleNotFoundError: No module named 'no_such_module'"


async def test_what_an_error_shows_of_a_program_is_bounded() -> None:
    code = "import sys\nfor _ in range(1000): print('n' * 5000); print('e' * 5000, file=sys.stderr)\nsys.exit(7)"
    with pytest.raises(ConnectionLost) as raised:
        async with connect(sys.executable, "-c", code, "x" * 5000, stderr="discard"):
            pass
    assert str(raised.value).startswith("the server ended with exit code 7")
    assert len(str(raised.value)) < 6000
    assert raised.value.program is not None
    assert len(raised.value.program.stderr) < 4200


async def test_the_stderr_of_a_program_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConnectionLost, match="stderr: started"):
        async with connect(sys.executable, "-c", STARTED):
            pass
    assert capsys.readouterr().err == "started\n"
    with pytest.raises(ConnectionLost, match="stderr: started"):
        async with connect(sys.executable, "-c", STARTED, stderr="discard"):
            pass
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="stderr must be"):
        connect(sys.executable, stderr="nowhere")  # type: ignore[arg-type]


SERVER_THAT_CRASHES = f"""
import json, os, sys
print("started", file=sys.stderr, flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "tools/call":
        print("about to crash", file=sys.stderr, flush=True)
        os._exit(3)
    if "id" in request:
        result = {INITIALIZED} if request["method"] == "initialize" else {{}}
        print(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": result}}), flush=True)
"""


async def test_a_program_that_crashes_is_started_again_by_the_next_call() -> None:
    lines: list[str] = []
    command = [sys.executable, "-c", SERVER_THAT_CRASHES]
    async with connect(*command, mode="legacy", stderr=lines.append, max_restarts=2) as client:
        for count in (1, 2, 3):
            await asyncio.gather(client.ping(), client.ping())
            assert lines.count("started") == count
            calls = [asyncio.ensure_future(client.call_tool("crash")) for _ in range(2)]
            for call in calls:
                with pytest.raises(ConnectionLost, match=r"^the server ended with exit code 3\n") as raised:
                    await call
                assert str(raised.value).count("command: ") == 1
                assert str(raised.value).endswith("stderr: about to crash")
        # It was started again twice in a minute.
        said = (
            r"^the server ended with exit code 3, and is started again at most 2 times in a minute \(max_restarts\)\n"
        )
        for _ in range(2):
            with pytest.raises(ConnectionLost, match=said) as raised:
                await client.ping()
            assert raised.value.was_sent is False
    assert lines.count("started") == 3
    for late in (client.ping(), client.list_tools()):
        with pytest.raises(ConnectionLost, match=r"^this client was closed: make a new one$") as raised:
            await late
        assert raised.value.was_sent is False
    assert lines.count("started") == 3


async def test_a_program_is_not_started_again_without_permission() -> None:
    lines: list[str] = []
    command = [sys.executable, "-c", SERVER_THAT_CRASHES]
    async with connect(*command, mode="legacy", stderr=lines.append, max_restarts=0) as client:
        with pytest.raises(ConnectionLost, match=r"^the server ended with exit code 3\n"):
            await client.call_tool("crash")
        said = (
            r"^the server ended with exit code 3, and is started again at most 0 times in a minute \(max_restarts\)\n"
        )
        with pytest.raises(ConnectionLost, match=said):
            await client.ping()
    assert lines.count("started") == 1
    with pytest.raises(ValueError, match="max_restarts"):
        connect(*command, max_restarts=-1)


async def test_a_restart_that_fails_can_be_tried_again(tmp_path: Path) -> None:
    flag = tmp_path / "broken"
    code = f"import os, sys\nif os.path.exists({str(flag)!r}): sys.exit('broken')\n{SERVER_THAT_CRASHES}"
    async with connect(sys.executable, "-c", code, mode="legacy", stderr="discard") as client:
        with pytest.raises(ConnectionLost):
            await client.call_tool("crash")
        flag.touch()
        with pytest.raises(ConnectionLost, match=r"exit code 1\n.*\nstderr: broken"):
            await client.ping()
        flag.unlink()
        await client.ping()


@rows("value", ["Bearer {}\n", "{}\r\nx: y", " {}", "{} ", "{}\0", "{}\u00fc", "{}\ud800", "{}\u20ac"], ids=ascii)
def test_a_header_that_http_does_not_allow_is_refused_where_it_is_given_and_not_shown(value: str) -> None:
    text = r"^the header Authorization must be one line of ASCII characters, without blanks around it$"
    with pytest.raises(ValueError, match=text):
        connect("http://localhost/mcp", headers={"Authorization": value.format("s3cr3t")})


@rows("name", ["", "a b", "a:", "a\n", "\u00fc"], ids=ascii)
def test_the_name_of_a_header_that_http_does_not_allow(name: str) -> None:
    with pytest.raises(ValueError, match=r"^the names of headers must consist of letters, digits"):
        connect("http://localhost/mcp", headers={name: "s3cr3t"})


@rows(
    "command, said",
    [
        (
            "python server.py",
            "No such file or directory; pass the program and its arguments separately: python server.py",
        ),
        ("127.0.0.1:1/mcp", "No such file or directory: 127.0.0.1:1/mcp; a URL begins with http:// or https://"),
        ("localhost:8000", "No such file or directory: localhost:8000; a URL begins with http:// or https://"),
        ("no-such-program", "No such file or directory: no-such-program"),
    ],
)
async def test_a_command_that_looks_like_something_else_is_refused_with_the_cure(command: str, said: str) -> None:
    with pytest.raises(ProgramStartError) as raised:
        async with connect(command):
            pass
    first, _, _ = str(raised.value).partition("\n")
    assert first == f"[Errno 2] cannot start the server: {said}"


async def test_a_script_that_is_given_as_the_program_is_refused_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "server.py").touch()
    for path, reason in ((tmp_path / "server.py", "Permission denied"), (Path("no.py"), "No such file or directory")):
        with pytest.raises(ProgramStartError) as raised:
            async with connect(str(path)):
                pass
        cure = f'{reason}; pass the program that runs it, as in "python", "server.py": {path}'
        assert str(raised.value).partition("\n")[0].partition(": ")[2] == cure
