"""The options of `jsonrpc-fast relay`; `tests/mcp/http/test_programs.py` runs it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from jsonrpc_fast.cli.main import main
from jsonrpc_fast.cli.relay import headers_of, place_of

from ..support.tables import rows


def test_headers() -> None:
    given = ["Authorization: Bearer ${TOKEN}", "X-A:b", "X-Empty:"]
    assert headers_of(given, {"TOKEN": "t"}) == {"Authorization": "Bearer t", "X-A": "b", "X-Empty": ""}


@rows(
    ("header", "variable"), [("no colon", "v"), ("a b: c", "v"), (": c", "v"), ("A: ${V}", "a\r\nB: c"), ("A: ü", "v")]
)
def test_headers_that_are_malformed(header: str, variable: str) -> None:
    with pytest.raises(ValueError, match=r"^a header must be NAME: VALUE$"):
        headers_of([header], {"V": variable})


def test_a_variable_that_is_missing() -> None:
    with pytest.raises(ValueError, match=r"^the environment has no variable TOKEN$"):
        headers_of(["A: ${TOKEN}"], {})


def test_places() -> None:
    assert [place_of(text) for text in ("127.0.0.1:80", "[::1]:0", "localhost:65535")] == [
        ("127.0.0.1", 80),
        ("::1", 0),
        ("localhost", 65535),
    ]


@rows("text", ["80", ":80", "localhost", "localhost:", "localhost:x", "localhost:65536", "a:-1"])
def test_places_that_are_malformed(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        place_of(text)


@rows(
    ("arguments", "said"),
    [
        ([], "expected a URL, or --http and a command after --"),
        (["http://a/mcp", "--", "server"], "expected a URL, or --http and a command after --"),
        (["--http", "127.0.0.1:0"], "--http needs a command after --, and no URL"),
        (["--http", "127.0.0.1:0", "http://a/mcp", "--", "server"], "--http needs a command after --, and no URL"),
        (["--http", "nowhere", "--", "server"], "nowhere is not HOST:PORT"),
        (["--header", "x", "http://a/mcp"], "a header must be NAME: VALUE"),
    ],
)
def test_a_command_line_that_is_wrong(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["relay", *arguments]) == 2
    assert said in capsys.readouterr().err


@rows(
    ("arguments", "missing"),
    [
        (["relay", "--http", "127.0.0.1:0", "--", "server"], "uvicorn"),
        (["relay", "http://127.0.0.1:1/mcp"], "httpx httpx2"),
        (["tap", "--http", "127.0.0.1:0", "http://127.0.0.1:1"], "uvicorn"),
        (["tap", "--http", "127.0.0.1:0", "http://127.0.0.1:1"], "httpx httpx2"),
        (["serve", "--http", "127.0.0.1:0", "--template-dir", "."], "uvicorn"),
        (["serve", "--http", "127.0.0.1:0", "--template-dir", "."], "msgspec"),
    ],
)
def test_a_missing_extra_is_named(arguments: list[str], missing: str) -> None:
    code = "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split())); "
    code += "from jsonrpc_fast.cli.main import main; sys.exit(main())"
    arguments = [missing, *arguments]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, timeout=50, check=False)
    assert done.returncode == 2
    assert re.search(rb"pip install .jsonrpc_fast\[(mcp-http|http,mcp)\]", done.stderr), done.stderr
    assert b"Traceback" not in done.stderr
