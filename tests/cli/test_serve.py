"""`serve` as a process: its command line, its end, and notifications of changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.cli.main import main
from jsonrpc_fast.mcp.protocol.meta import SUBSCRIPTION_ID_KEY

from ..support.command_line import posix
from ..support.mcp_conversation import modern_meta
from ..support.serve_process import LOOPING, SECONDS, Process
from ..support.waiting import blocking_eventually

pytestmark = pytest.mark.timeout(60)


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
        "jsonrpc-fast serve: msgspec is missing; install the extra: pip install 'jsonrpc_fast[mcp]'\n"
    )


def test_the_command_line_loads_no_more_than_it_needs() -> None:
    modules = {"asyncio", "msgspec", "jinja2", "watchfiles"}
    code = f"import sys, jsonrpc_fast.cli.main; print({modules} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
    assert run.stdout == "set()\n"


# Its end.


@pytest.mark.parametrize("rest", [b"", b'{"jsonrpc":"2.0","id":1,"met'])
def test_the_end_of_stdin_ends_it(server: Process, rest: bytes) -> None:
    server.initialize()
    assert server.popen.stdin is not None
    server.popen.stdin.write(rest)
    assert server.end() == (0, "")


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
def test_a_client_that_goes_away_ends_it(server: Process) -> None:
    """stdout cannot be written any more, while stdin is still open."""
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
