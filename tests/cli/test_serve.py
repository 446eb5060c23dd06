"""`serve` as a process: its command line, its end, notifications of changes, and hostile clients."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from jsonrpc_fast.cli.main import main
from jsonrpc_fast.mcp.protocol.meta import CLIENT_CAPABILITIES_KEY, PROTOCOL_VERSION_KEY, SUBSCRIPTION_ID_KEY

from ..support.command_line import posix
from ..support.mcp_conversation import modern_meta
from ..support.serve_process import LOOPING, SECONDS, Process
from ..support.waiting import blocking_eventually

# The command line.


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "none: No such file or directory"),
        ("file", "file: Not a directory"),
        ("a\nb", "a\\nb: No such file or directory"),
        ("file/", "file/: Not a directory"),
        ("x" * 300, f"{'x' * 300}: File name too long"),
        ("", "the name of the folder is empty"),
    ],
)
def test_a_folder_that_cannot_be_served(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["serve", "--template-dir", name]) == 2
    assert capsys.readouterr() == ("", f"jsonrpc-fast serve: {message}\n")


@posix
def test_a_folder_that_cannot_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.chmod(0)
    try:
        if os.access(folder, os.R_OK):
            pytest.skip("this user may read everything")
        assert main(["serve", "--template-dir", str(folder)]) == 2
    finally:
        folder.chmod(0o700)
    assert capsys.readouterr().err == f"jsonrpc-fast serve: {folder}: Permission denied\n"


def test_the_folder_is_templates_by_default(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jsonrpc_fast", "serve"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "jsonrpc-fast serve: templates: No such file or directory\n"


def test_a_missing_extra_is_reported(folder: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "msgspec.py").write_text("raise ModuleNotFoundError('No module named msgspec', name='msgspec')")
    command = [sys.executable, "-m", "jsonrpc_fast", "serve", "--template-dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(missing)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "jsonrpc-fast serve: msgspec is missing; install the extra: pip install 'jsonrpc_fast[mcp-templates]'\n"
    )


def test_the_command_line_loads_no_more_than_it_needs() -> None:
    modules = {"asyncio", "msgspec", "jinja2", "watchfiles"}
    code = f"import sys, jsonrpc_fast.cli.main; print({modules} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
    assert run.stdout == "set()\n"


# Its end.


UNREAD = "jsonrpc-fast serve: a message of the peer cannot be read, and gets no response: "
CUT_OFF = f"{UNREAD}the stream ended inside a message\n"


@pytest.mark.parametrize(("rest", "said"), [(b"", ""), (b'{"jsonrpc":"2.0","id":1,"met', CUT_OFF)])
def test_the_end_of_stdin_ends_it(server: Process, rest: bytes, said: str) -> None:
    server.initialize()
    assert server.popen.stdin is not None
    server.popen.stdin.write(rest)
    assert server.end() == (0, said)


def test_requests_before_the_end_are_answered(server: Process) -> None:
    server.initialize()
    id = server.request("prompts/get", {"name": "greeting", "arguments": {"name": "Ada"}})
    assert server.end() == (0, "")
    assert server.answer(id)["result"]["messages"][0]["content"]["text"] == "Hello Ada"


def children_of(pid: int) -> list[int]:
    while True:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        try:
            return [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass  # a thread has ended meanwhile, and its children belong to another one


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.slow
def test_a_signal_ends_the_server_and_its_children(server: Process, folder: Path, number: signal.Signals) -> None:
    (folder / "looping.txt").write_text(LOOPING)
    server.initialize()
    server.greet()
    while len(server.result("prompts/list")["prompts"]) < 2:
        time.sleep(0.05)
    server.request("prompts/get", {"name": "looping"})
    server.request("ping")
    children = children_of(server.popen.pid)
    assert children
    os.kill(server.popen.pid, number)
    code, errors = server.wait()
    assert code == -number
    if number == signal.SIGKILL:
        assert errors == ""
    else:
        assert errors.endswith("the server ended with requests without a response: 1\n")
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.ci
def test_a_signal_ends_subscriptions_with_a_response(server: Process, number: signal.Signals) -> None:
    wanted = {"notifications": {"promptsListChanged": True}, "_meta": modern_meta()}
    ids = [server.request("subscriptions/listen", wanted) for _ in range(3)]
    for _ in range(2):  # their responses may come before the acknowledgements
        server.result("prompts/list", {"_meta": modern_meta()})
    assert [message["method"] for message in server.notifications] == ["notifications/subscriptions/acknowledged"] * 3
    os.kill(server.popen.pid, number)
    for id in ids:
        result = server.answer(id)["result"]
        assert (result["resultType"], result["_meta"][SUBSCRIPTION_ID_KEY]) == ("complete", id)
    assert server.wait() == (-number, "")


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_a_signal_does_not_wait_for_renderings(server: Process, folder: Path, number: signal.Signals) -> None:
    """However many there are: they may take all worker threads."""
    (folder / "looping.txt").write_text(LOOPING)
    server.initialize()
    while len(server.result("prompts/list")["prompts"]) < 2:
        time.sleep(0.05)
    for _ in range(50):
        server.request("prompts/get", {"name": "looping"})
    server.result("ping")
    time.sleep(0.2)
    began = time.monotonic()
    os.kill(server.popen.pid, number)
    assert server.wait()[0] == -number
    assert time.monotonic() - began < 4  # less than one rendering takes


@posix
@pytest.mark.ci
def test_a_client_that_goes_away_ends_it(server: Process) -> None:
    """stdout can no longer be written, while stdin is still open."""
    read, write = os.pipe()
    os.close(read)
    command = server.popen.args
    assert isinstance(command, Sequence)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        assert process.stdin is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert process.wait(SECONDS) == 1


# Changes.


@pytest.mark.ci
def test_clients_are_notified_of_changes(server: Process, folder: Path) -> None:
    server.initialize()
    uri = "resource://templates/greeting.txt"
    server.result("resources/subscribe", {"uri": uri})
    server.result("prompts/list")  # files that exist at the first reading are not changes

    def notified(*methods: str) -> list[Any]:
        def are_heard() -> bool:
            server.result("ping")
            return {message["method"] for message in server.notifications} == set(methods)

        blocking_eventually(are_heard)
        heard, server.notifications = server.notifications, []
        return heard

    (folder / "more.txt").write_text("More")
    notified("notifications/prompts/list_changed", "notifications/resources/list_changed")
    assert [prompt["name"] for prompt in server.result("prompts/list")["prompts"]] == ["greeting", "more"]
    (folder / "greeting.txt").write_text("Hallo {{ name }}")
    [updated] = notified("notifications/resources/updated")
    assert updated["params"] == {"uri": uri}
    assert server.greet() == "Hallo Ada"
    (folder / "more.txt").unlink()
    notified("notifications/prompts/list_changed", "notifications/resources/list_changed")
    assert [prompt["name"] for prompt in server.result("prompts/list")["prompts"]] == ["greeting"]
    assert server.end() == (0, "")


def meta(version: Any) -> dict[str, Any]:
    return {PROTOCOL_VERSION_KEY: version, CLIENT_CAPABILITIES_KEY: {}}


UNANSWERED = [
    b"nonsense",
    b"\xff\xfe\x00",
    b'{"jsonrpc":"2.0","id":"x","method":"ping"',
    b'{"jsonrpc":"2.0","id":"x","method":"ping"}}',
    b'{"jsonrpc":"2.0","id":"x","id":"y","method":"ping"}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":[],"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"x","result":{}}',
    b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}',
    b'{"jsonrpc":"2.0","id":"x","method":"ping","result":{}}',
    b'{"jsonrpc":"2.0","method":"notifications/nobody/knows"}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    b"[]",
    b"[1,2]",
    b'[{"jsonrpc":"2.0","id":"x","method":"ping"}]',
    b"null",
    b"\x00",
    b"[" * 100_000,
    b"NaN",
]
REFUSED = [
    b'{"jsonrpc":"1.0","id":"r0","method":"ping"}',
    b'{"id":"r1","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"r2","method":""}',
    b'{"jsonrpc":"2.0","id":"r3","method":7}',
    b'{"jsonrpc":"2.0","id":"r4"}',
    b'{"jsonrpc":"2.0","id":"r5","method":"prompts/list","params":[]}',
    b'{"jsonrpc":"2.0","id":"r6","method":"prompts/list","params":null}',
    b'{"jsonrpc":"2.0","id":"r7","method":"' + b"x" * 2000 + b'"}',
    b'{"jsonrpc":"2.0","id":"r8","method":"ping","params":' + b'{"a":' * 2000 + b"1" + b"}" * 2001,
]


@pytest.mark.parametrize("arguments", [[], ["--debug"]])
@pytest.mark.ci
def test_malformed_lines(folder: Path, arguments: list[str]) -> None:
    server = Process(folder, *arguments)
    try:
        server.initialize()
        before = server.ids()
        server.send(*UNANSWERED, *REFUSED)
        for number in range(len(REFUSED)):
            assert server.answer(f"r{number}")["error"] == {"code": -32600, "message": "Invalid Request"}
        assert server.greet() == "Hello Ada"
        assert server.ids() - before == {*[f"r{number}" for number in range(len(REFUSED))], 2}
        code, said = server.end()
    finally:
        server.close()
    assert code == 0
    if not arguments:  # a warning each second
        assert said.startswith(UNREAD)
        assert all(line.startswith(UNREAD) for line in said.splitlines())
    else:
        # Each fault is logged, without its contents.
        for word in ("not JSON", "not UTF-8", "this type of id", "more than once", "not allow batches", "is empty"):
            assert word in said
        assert "nonsense" not in said
        assert "xxxx" * 50 not in said


@posix
@pytest.mark.ci
def test_nothing_outside_the_folder_is_read(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    (folder / "link.txt").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path)
    for name, template in {
        "include": "{% include '../secret.txt' %}",
        "link": "{% include 'link.txt' %}",
        "absolute": f"{{% include '{secret}' %}}",
        "argument": "{% include file %}",
        "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    }.items():
        (folder / f"{name}.j2").write_text(template)
    server = Process(folder)
    try:
        server.initialize()
        assert "link.txt" not in [item["name"] for item in server.result("resources/list")["resources"]]
        names = [
            "../secret",
            "../secret.txt",
            str(secret),
            "link.txt",
            "up/secret",
            "..%2fsecret.txt",
            "greeting.txt\0",
            "",
        ]
        for name in names:
            assert server.error("prompts/get", {"name": name}) == (-32602, "Unknown prompt")
        for uri in (
            "resource://templates/../secret.txt",
            "resource://templates/%2e%2e/secret.txt",
            "resource://templates/..%2fsecret.txt",
            "resource://templates/link.txt",
            "resource://templates/up/secret.txt",
            f"resource://templates/{quote(str(secret))}",
            "resource://other/greeting.txt",
            secret.as_uri(),
            "file:///etc/passwd",
        ):
            assert server.error("resources/read", {"uri": uri}) == (-32002, f"Resource not found: {uri}")
        for uri in (None, 1, "", "../secret.txt", "resource:///secret.txt", "resource://temp lates/x", "a:\0"):
            assert server.error("resources/read", {"uri": uri})[0] == -32602
        for name in ("include", "link", "absolute", "classes"):
            code, message = server.error("prompts/get", {"name": name})
            assert code in (-32602, -32603)
            assert "secret" not in message
        for file in ("../secret.txt", str(secret), "link.txt", "up/secret.txt"):
            code, message = server.error("prompts/get", {"name": "argument", "arguments": {"file": file}})
            assert code == -32603
            assert "secret" not in message
        assert server.greet() == "Hello Ada"
        assert server.end()[0] == 0
    finally:
        server.close()


@pytest.mark.ci
def test_a_template_that_compiles_slowly_does_not_delay_initialize(folder: Path) -> None:
    (folder / "constant.txt").write_text("{{ 9 ** (9 ** 9) }}")  # the compiler computes this
    started = time.monotonic()
    server = Process(folder)
    try:
        server.initialize()
        server.result("ping")
        assert server.end() == (0, "")
        assert time.monotonic() - started < 30
    finally:
        server.close()
