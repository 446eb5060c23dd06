"""The options of `jsonrpc-fast relay`; `tests/mcp/http/test_programs.py` runs it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest

from jsonrpc_fast.cli.main import main

from ..support.command_line import run
from ..support.tables import rows


@rows(
    ("arguments", "said"),
    [
        ([], "expected a URL, or --http and a command after --"),
        (["http://a/mcp", "--", "server"], "expected a URL, or --http and a command after --"),
        (["--http", "127.0.0.1:0"], "--http needs a command after --, and no URL"),
        (["--http", "127.0.0.1:0", "http://a/mcp", "--", "server"], "--http needs a command after --, and no URL"),
        (["--http", "nowhere", "--", "server"], "the address nowhere must be HOST:PORT"),
        (["--header", "x", "http://a/mcp"], "a header must be NAME: VALUE"),
    ],
)
def test_a_command_line_that_is_wrong(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["relay", *arguments]) == 2
    assert said in capsys.readouterr().err


WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split()))
from jsonrpc_fast.cli.main import main
for words in sys.argv[1:]:
    print(main(words.split()))
"""


@rows(
    ("missing", "commands"),
    [
        (
            "uvicorn",
            [
                "relay --http 127.0.0.1:0 -- server",
                "tap --http 127.0.0.1:0 http://127.0.0.1:1",
                "serve --http 127.0.0.1:0 --template-dir .",
            ],
        ),
        ("httpx2", ["relay http://127.0.0.1:1/mcp", "tap --http 127.0.0.1:0 http://127.0.0.1:1"]),
        ("jinja2", ["serve --template-dir ."]),
        ("msgspec", ["serve --http 127.0.0.1:0 --template-dir ."]),
    ],
)
@pytest.mark.ci
def test_a_missing_extra_is_named(missing: str, commands: list[str]) -> None:
    words = [sys.executable, "-c", WITHOUT, missing, *commands]
    done = subprocess.run(words, capture_output=True, timeout=50, text=True, check=True)
    assert done.stdout.split() == ["2"] * len(commands)
    named = [
        re.search(r"pip install .jsonrpc_fast\[(mcp-http|mcp-http,mcp-templates|mcp-templates|http,mcp)\]", line)
        for line in done.stderr.splitlines()
    ]
    assert len(named) == len(commands), done.stderr
    assert None not in named


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


@pytest.mark.ci
def test_a_server_that_is_dead() -> None:
    """The client gets an error, and the exit status says that the server never spoke."""
    pytest.importorskip("httpx2", reason="the extra `http` is not installed")
    pytest.importorskip("msgspec", reason="the extra `mcp` is not installed")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # and nothing listens
        done = run("relay", f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", data=PING)
        assert '"error":{"code":-32000,' in done.stdout
        assert done.returncode == 3
        assert "the server cannot be reached" in done.stderr
        assert run("relay", f"http://127.0.0.1:{listener.getsockname()[1]}/mcp").returncode == 0  # nothing was asked
