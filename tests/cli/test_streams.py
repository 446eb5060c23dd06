"""`check` as a process: files, pipes, terminals and signals; and what is printed only on a terminal."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.cli import main as cli

from ..support.command_line import (
    MIXED,
    MIXED_FAULTS,
    MIXED_SUMMARY,
    REQUEST,
    SECONDS,
    Terminal,
    command,
    environment,
    posix,
    run,
    run_here,
)
from ..support.processes import wait_until_asleep, wait_until_read
from ..support.tables import rows
from ..support.waiting import blocking_eventually

# Files.


def test_unreadable_file_does_not_stop_the_others(mixed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "absent.ndjson", mixed]) == 2
    output = capsys.readouterr()
    assert output.out == (MIXED_FAULTS + MIXED_SUMMARY).format(name=mixed)
    assert output.err == "jsonrpc-fast: cannot read absent.ndjson: No such file or directory\n"


@posix
def test_directory(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = run_here("check", "folder", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "jsonrpc-fast: cannot read folder: Is a directory\n"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no file here that opens but cannot be read")
def test_file_that_opens_but_cannot_be_read() -> None:
    done = run_here("check", "/proc/self/mem")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "jsonrpc-fast: cannot read /proc/self/mem: Input/output error\n"


@posix
def test_closed_standard_input() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" <&-', "sh", *command("check")], env=environment(), capture_output=True, timeout=SECONDS
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"jsonrpc-fast: cannot read -: Bad file descriptor\n"


@posix
@pytest.mark.skipif(sys.platform == "darwin", reason="file names are text here")
def test_file_names_are_escaped(tmp_path: Path) -> None:
    name = b"caf\xc3\xa9 \x1b[31m\n\xff\xc2\x85"
    (tmp_path / os.fsdecode(name)).write_bytes(b"1")
    done = run_here("check", name, cwd=tmp_path)
    shown = "café \\x1b[31m\\n\\udcff\\x85"
    assert done.stdout == (
        f"{shown}:1: byte 0: NOT_AN_OBJECT: the message is not an object\n"
        f"{shown}: request 0, notification 0, result 0, error 0, batch 0, invalid 1\n"
        f"{shown}: NOT_AN_OBJECT 1\n"
    )
    done = run("check", name, cwd=tmp_path, env=environment(PYTHONIOENCODING="ascii"))
    assert done.stdout.startswith("caf\\xe9 \\x1b[31m\\n\\udcff\\x85:1: byte 0")
    done = run_here("check", "--json", name, cwd=tmp_path)
    assert '"file": "caf\\u00e9 \\u001b[31m\\n\\\\udcff\\u0085"' in done.stdout
    done = run_here("check", name + b"!", cwd=tmp_path)
    assert done.stderr == f"jsonrpc-fast: cannot read {shown}!: No such file or directory\n"


# Pipes.


@posix
def test_slow_input_is_reported_as_it_comes() -> None:
    with subprocess.Popen(
        command("check"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for part in (b'{"jsonrpc":', b'"2.0","id":1,"method":"a"}', b"\n[", b"]", b"\n", b'{"jsonrpc":"2.0","method"'):
            process.stdin.write(part)
            process.stdin.flush()
            wait_until_read(process.stdin.fileno())
        # The input is still open.
        assert process.stdout.readline().decode().rstrip() == "-:2: byte 38: EMPTY_BATCH: the batch is empty"
        process.stdin.write(b':"b"}\n')
        process.stdin.close()
        assert process.stdout.read().decode().splitlines() == [
            "-: request 1, notification 1, result 0, error 0, batch 0, invalid 1",
            "-: EMPTY_BATCH 1",
        ]
        assert process.wait(SECONDS) == 1
        assert process.stderr.read() == b""


@posix
def test_non_blocking_standard_input_loses_nothing() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    process = subprocess.Popen(command("check"), stdin=reader, stdout=subprocess.PIPE, env=environment())
    os.close(reader)
    with open(writer, "wb", buffering=0) as stream:
        for _ in range(5):
            for part in (REQUEST[:20], REQUEST[20:] + REQUEST):
                wait_until_asleep(process.pid)  # for the first time before there is any input
                stream.write(part)
                wait_until_read(writer)
    output, _ = process.communicate(timeout=SECONDS)
    assert output == b"-: request 10, notification 0, result 0, error 0, batch 0, invalid 0\n"
    assert process.returncode == 0


@posix
@rows("form", [[], ["--json"]])
def test_the_reader_of_the_output_goes_away(form: list[str]) -> None:
    process = subprocess.Popen(
        command("check", "--max-faults", "1000000", *form),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"1\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(b"1\n" * 100_000)
    assert process.wait(SECONDS) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@posix
@rows("arguments", [["info"], ["--help"], ["check"]])
def test_output_without_a_reader(arguments: list[str], mixed: str) -> None:
    arguments = [*arguments, mixed] if arguments == ["check"] else arguments
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        command(*arguments), stdout=writer, stderr=subprocess.PIPE, env=environment(), timeout=SECONDS
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (141, b"")


DESCRIBED = """input(); print('{"jsonrpc":"2.0","id":1,"result":{"methods":[{"name":"add"}]}}')"""


@posix
@pytest.mark.ci
def test_closed_outputs(mixed: str) -> None:
    for redirection in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$@" {redirection}', "sh", *command("check", mixed)],
            env=environment(),
            capture_output=True,
            timeout=SECONDS,
        )
        is_told = redirection == ">&-"
        assert done.returncode == (1 if redirection == "2>&-" else 2)
        assert done.stderr == (b"jsonrpc-fast: cannot write: Bad file descriptor\n" if is_told else b"")
        assert bool(done.stdout) == (redirection == "2>&-")


@posix
@rows(
    "words",
    [
        ["list", "--", sys.executable, "-S", "-c", DESCRIBED],
        ["info"],
        *[
            [name, *(["--seconds", "0.01"] if "--seconds" in row.options else []), *form, "FILE"]
            for name, row in cli._COMMANDS.items()
            if "files" in row.options
            for form in ([], ["--json"])
        ],
    ],
)
@pytest.mark.ci
def test_a_closed_stdout_does_not_lose_what_a_command_found(words: list[str], mixed: str) -> None:
    words = command(*[word.replace("FILE", mixed) for word in words])
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&-', "sh", *words], env=environment(), capture_output=True, timeout=SECONDS
    )
    assert (done.returncode, done.stderr) == (2, b"jsonrpc-fast: cannot write: Bad file descriptor\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_that_cannot_be_written() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command("info"), stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=SECONDS)
    assert done.stderr == b"jsonrpc-fast: cannot write: No space left on device\n"
    assert done.returncode == 2


def test_a_command_that_prints_nothing_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unbuffered stdout writes even an empty text. After a server on stdio it is the log, on a disk that is full."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, text)

    document = {"openrpc": "1.3.2", "info": {"title": "Sums", "version": "1"}, "methods": []}
    (tmp_path / "sums.json").write_text(json.dumps(document))
    monkeypatch.setattr(sys, "stdout", Full())
    assert cli.main(["stubs", str(tmp_path / "sums.json"), "--output", str(tmp_path / "sums.py")]) == 0


@posix
def test_interrupt() -> None:
    process = subprocess.Popen(
        command("check"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        # A test run in the background may ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"1\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"-:1: byte 0: NOT_AN_OBJECT: the message is not an object\n"
    process.send_signal(signal.SIGINT)
    # Not `communicate`, which would close stdin as well.
    assert process.wait(SECONDS) == 130
    output, errors = process.communicate(timeout=SECONDS)
    assert (output, errors) == (b"", b"")


# Progress.


def start(terminal: Terminal, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start `check` with its stderr on a terminal."""
    options = {"stdout": subprocess.PIPE, "env": environment(), **options}
    return subprocess.Popen(command("check", *arguments), stderr=terminal.writer, **options)


BAR = re.compile(r"\d+%\|.*\| [0-9.]+M/[0-9.]+M ")
LONG = REQUEST * 300_000 + b"1\n"  # 12 MB


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("long") / "long.ndjson"
    file.write_bytes(LONG)
    return file


LONG_OUTPUT = (
    "long.ndjson:300001: byte 12000000: NOT_AN_OBJECT: the message is not an object\n"
    "long.ndjson: request 300000, notification 0, result 0, error 0, batch 0, invalid 1\n"
    "long.ndjson: NOT_AN_OBJECT 1\n"
)


@posix
@pytest.mark.slow
def test_bar_on_a_terminal(long_file: Path) -> None:
    pytest.importorskip("tqdm")
    terminal = Terminal()
    process = start(terminal, long_file.name, cwd=long_file.parent, stdin=subprocess.DEVNULL)
    output, _ = process.communicate(timeout=SECONDS)
    shown = terminal.text()
    assert BAR.search(shown)
    assert "byte 12000000" not in shown
    assert shown.endswith("\r")  # cleared at the end
    assert output.decode() == LONG_OUTPUT
    assert process.returncode == 1


@posix
@pytest.mark.slow
def test_bar_leaves_the_output_its_lines(long_file: Path) -> None:
    pytest.importorskip("tqdm")
    terminal = Terminal()
    process = start(
        terminal,
        long_file.name,
        cwd=long_file.parent,
        stdin=subprocess.DEVNULL,
        stdout=terminal.writer,
        env=environment(NO_COLOR="1"),
    )
    process.wait(SECONDS)
    shown = terminal.text()
    assert BAR.search(shown)
    for line in LONG_OUTPUT.splitlines():
        assert f"\r{line}\r\n" in shown or f"\n{line}\r\n" in shown


@posix
@pytest.mark.slow
def test_no_bar_without_a_terminal(long_file: Path) -> None:
    done = run("check", long_file.name, cwd=long_file.parent)
    assert done.stdout == LONG_OUTPUT
    assert done.stderr == ""


@posix
def test_no_bar_for_short_input(tmp_path: Path) -> None:
    (tmp_path / "short.ndjson").write_bytes(REQUEST * 1000)
    terminal = Terminal()
    process = start(terminal, "short.ndjson", cwd=tmp_path, stdin=subprocess.DEVNULL)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert terminal.text() == ""


@posix
@pytest.mark.slow
def test_bar_for_slow_input_of_unknown_size() -> None:
    pytest.importorskip("tqdm")
    terminal = Terminal()
    process = start(terminal, stdin=subprocess.PIPE)
    assert process.stdin is not None
    written = 0
    deadline = time.monotonic() + SECONDS
    while not terminal.written and time.monotonic() < deadline:
        process.stdin.write(REQUEST)
        process.stdin.flush()
        written += 1
        time.sleep(0.1)
    output, _ = process.communicate(timeout=SECONDS)
    assert output.decode() == f"-: request {written}, notification 0, result 0, error 0, batch 0, invalid 0\n"
    assert re.search(r"[0-9.]+k?B \[", terminal.text())


@posix
@pytest.mark.slow
def test_no_bar_without_tqdm(long_file: Path, tmp_path: Path) -> None:
    (tmp_path / "tqdm.py").write_text("raise ModuleNotFoundError(\"No module named 'tqdm'\")\n")
    terminal = Terminal()
    process = start(
        terminal,
        long_file.name,
        long_file.name,
        cwd=long_file.parent,
        stdin=subprocess.DEVNULL,
        env=environment(PYTHONPATH=str(tmp_path)),
    )
    output, _ = process.communicate(timeout=SECONDS)
    assert terminal.text() == "jsonrpc-fast: no progress bar; install the extra: pip install 'jsonrpc_fast[cli]'\r\n"
    assert output.decode() == LONG_OUTPUT * 2
    assert process.returncode == 1


pytestmark = posix

CLIENT = "waiting for messages of an MCP client on the terminal; usually the client starts this command; Ctrl-D ends it"
ESCAPE = re.compile(r"\033\[\d+m")


def on_terminal(*arguments: str, typed: bytes = b"\x04", **options: Any) -> tuple[int, str]:
    """Run a command on a terminal. Return the exit status, and what the terminal showed.

    Args:
        arguments: The arguments of `jsonrpc-fast`.
        typed: What the user types once the terminal shows something; Ctrl-D by default.
        options: Options of `Popen`.
    """
    terminal = Terminal()
    streams = {"stdin": terminal.writer, "stdout": terminal.writer, "stderr": terminal.writer}
    process = subprocess.Popen(command(*arguments), **{"env": environment(TERM="xterm"), **streams, **options})
    blocking_eventually(lambda: terminal.written or process.poll() is not None, SECONDS)
    terminal.type(typed)
    try:
        return process.wait(SECONDS), terminal.text().replace("\r\n", "\n")
    finally:
        process.kill()


def test_check_says_that_it_reads_the_terminal() -> None:
    status, shown = on_terminal("check", typed=b'{"jsonrpc":"2.0","method":"a"}\n\x04')
    assert status == 0
    assert "jsonrpc-fast: reading messages from the terminal; end the input with Ctrl-D (see --help)\n" in shown
    assert "-: request 0, notification 1, result 0, error 0, batch 0, invalid 0\n" in shown


@pytest.mark.ci
def test_serve_says_what_it_waits_for(folder: Path) -> None:
    pytest.importorskip("jinja2")
    status, shown = on_terminal("serve", "--template-dir", str(folder))
    assert status == 0
    assert f"jsonrpc-fast serve: {CLIENT}\n" in shown


def test_relay_says_what_it_waits_for() -> None:
    pytest.importorskip("httpx2")
    status, shown = on_terminal("relay", "http://127.0.0.1:9/mcp")
    assert status == 0
    assert f"jsonrpc-fast relay: {CLIENT}\n" in shown


# Colours

COLOURED_FAULT = "\033[1mmixed.ndjson:7:\033[0m byte 321: \033[31mMALFORMED_JSON\033[0m: the text is not JSON\n"


def test_check_is_coloured_on_a_terminal(mixed: str, tmp_path: Path) -> None:
    status, shown = on_terminal("check", mixed, cwd=tmp_path)
    assert status == 1
    assert COLOURED_FAULT in shown
    assert "batch 1, \033[31minvalid 5\033[0m\n" in shown
    assert ESCAPE.sub("", shown).replace("^D\b\b", "") == (MIXED_FAULTS + MIXED_SUMMARY).format(name=mixed)


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ({"NO_COLOR": "", "TERM": "xterm"}, True),
    ],
)
def test_variables_for_colours(variables: dict[str, str], is_coloured: bool, mixed: str, tmp_path: Path) -> None:
    _, shown = on_terminal("check", mixed, cwd=tmp_path, env=environment(**variables))
    assert (COLOURED_FAULT in shown) is is_coloured
    assert ("\033" in shown) is is_coloured


@pytest.mark.parametrize(("variables", "is_coloured"), [({}, False), ({"FORCE_COLOR": "1"}, True)])
def test_pipes_have_colours_only_if_forced(
    variables: dict[str, str], is_coloured: bool, mixed: str, tmp_path: Path
) -> None:
    env = environment(**variables)
    done = subprocess.run(command("check", mixed), cwd=tmp_path, env=env, capture_output=True, timeout=SECONDS)
    assert (b"\033[31mMALFORMED_JSON" in done.stdout) is is_coloured
    done = subprocess.run(
        command("check", "--json", mixed), cwd=tmp_path, env=env, capture_output=True, timeout=SECONDS
    )
    assert b"\033" not in done.stdout
    done = subprocess.run(command("tap", "--", "cat"), input=MIXED, env=env, capture_output=True, timeout=SECONDS)
    assert done.stdout == MIXED
    assert (b"-> \033[31minvalid from the client 34 B MALFORMED_JSON" in done.stderr) is is_coloured
    assert (b"-> \033[33merror -32601 id=1 63 B to no request of the server\033[0m\n" in done.stderr) is is_coloured


def test_a_log_file_has_no_colours(tmp_path: Path) -> None:
    log = tmp_path / "log"
    subprocess.run(
        command("tap", "--log", log, "--", "cat"),
        input=MIXED,
        env=environment(FORCE_COLOR="1"),
        stdout=subprocess.DEVNULL,
        timeout=SECONDS,
    )
    assert b"MALFORMED_JSON" in log.read_bytes()
    assert b"\033" not in log.read_bytes()


# Signals

SLEEPER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(1, file=sys.stderr, flush=True)
time.sleep(1)
"""
TAP_HTTP = ["tap", "--http", "127.0.0.1:0", "http://127.0.0.1:9"]
RELAY_HTTP = ["relay", "--http", "127.0.0.1:0", "--", "cat"]


@pytest.mark.parametrize("gap_seconds", [0.0, 0.002, 0.05])
@pytest.mark.parametrize(
    ("arguments", "ready"),
    [
        (["check"], b""),
        (["serve", "--template-dir", "."], b""),
        (["serve", "--template-dir", ".", "--http", "127.0.0.1:0"], b"running on"),
        (["relay", "http://127.0.0.1:9/mcp"], b""),
        (RELAY_HTTP, b"running on"),
        (["tap", "--", sys.executable, "-c", SLEEPER], b"1"),
        (TAP_HTTP, b"running on"),
    ],
    ids=["check", "serve", "serve_http", "relay", "relay_http", "tap", "tap_http"],
)
@pytest.mark.slow
def test_several_interrupts_show_no_traceback(
    arguments: list[str], ready: bytes, gap_seconds: float, folder: Path
) -> None:
    process = subprocess.Popen(
        command(*arguments),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        # A test run in the background may ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        if arguments == ["check"]:
            process.stdin.write(b"1\n")
            process.stdin.flush()
            assert process.stdout.readline()
        elif not ready:
            process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            process.stdin.flush()
            assert process.stdout.readline()
        while ready and ready not in (line := process.stderr.readline()):
            assert line
        for _ in range(3):
            process.send_signal(signal.SIGINT)  # does nothing once the process has ended
            time.sleep(gap_seconds)
        status = process.wait(SECONDS)
        errors = process.stderr.read()
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)
    assert b"Traceback" not in errors
    assert b"Exception" not in errors
    expected = [130, -signal.SIGINT]
    if arguments[:2] == ["tap", "--"]:
        # The second signal kills this server, which ignores the first. Two signals without a gap may arrive as one.
        expected += [0, 128 + signal.SIGKILL]
    assert status in expected


@rows("arguments", [TAP_HTTP, RELAY_HTTP], ids=["tap", "relay"])
@pytest.mark.ci
def test_one_interrupt_of_a_server_on_http(arguments: list[str]) -> None:
    pytest.importorskip("uvicorn")
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(command(*arguments), stdin=null, stderr=pipe, env=environment()) as process:
        assert process.stderr is not None
        while b"running on" not in (line := process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130
        shown = process.stderr.read()
    assert b"Application shutdown complete" in shown
    assert b"Traceback" not in shown


@pytest.mark.parametrize(
    "arguments", [["info"], ["info", "--json"], ["--help"], ["check", "--json", "--max-faults", "99999"]]
)
@pytest.mark.ci
def test_head_ends_a_command_quietly(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"1\n" * 50_000)
    line = " ".join([f'"{part}"' for part in map(os.fsdecode, command(*arguments))])
    shell = ["/bin/sh", "-c", f"{line} < input | head -n 1"]
    done = subprocess.run(shell, cwd=tmp_path, env=environment(), capture_output=True, timeout=SECONDS)
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1
