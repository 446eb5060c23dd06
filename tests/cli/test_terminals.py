"""What the commands print on a terminal only, and how they end after several signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ..support.command_line import MIXED, MIXED_FAULTS, MIXED_SUMMARY, SECONDS, Terminal, command, environment, posix
from ..support.tables import rows
from ..support.waiting import blocking_eventually

pytestmark = [posix, pytest.mark.timeout(90)]

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


def test_serve_says_what_it_waits_for(folder: Path) -> None:
    pytest.importorskip("jinja2")
    status, shown = on_terminal("serve", "--template-dir", str(folder))
    assert status == 0
    assert f"jsonrpc-fast serve: {CLIENT}\n" in shown


def test_relay_says_what_it_waits_for() -> None:
    pytest.importorskip("httpx")
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
            process.stdin.write(b"{]\n" if arguments[0] == "relay" else b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            process.stdin.flush()
            assert (process.stderr if arguments[0] == "relay" else process.stdout).readline()
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
    assert status in ([0] if arguments[:2] == ["tap", "--"] else [130, -signal.SIGINT])


@rows("arguments", [TAP_HTTP, RELAY_HTTP], ids=["tap", "relay"])
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
def test_head_ends_a_command_quietly(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"1\n" * 50_000)
    line = " ".join([f'"{part}"' for part in map(os.fsdecode, command(*arguments))])
    shell = ["/bin/sh", "-c", f"{line} < input | head -n 1"]
    done = subprocess.run(shell, cwd=tmp_path, env=environment(), capture_output=True, timeout=SECONDS)
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1
