"""The command line and `info`, through `main`, or as processes where the process matters."""

from __future__ import annotations

import importlib
import json
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jsonrpc_fast
from jsonrpc_fast import BACKEND, PRESETS
from jsonrpc_fast.cli import main as cli
from jsonrpc_fast.codec._json import ORJSON_FAULT, ORJSON_VERSION
from jsonrpc_fast.framing import FRAMINGS

from ..support.command_line import SECONDS, environment, posix, run
from ..support.places import ROOT
from ..support.tables import rows


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info"]) == 0
    output = capsys.readouterr().out
    head, table, rest = output.split("\n\n")
    facts = dict(line.split(None, 1) for line in head.splitlines())
    assert facts["version"] == jsonrpc_fast.__version__
    assert facts["backend"] == BACKEND
    assert ("core_fault" in facts) == (BACKEND == "python")
    assert ("tricks" in facts) == (BACKEND == "cython")
    assert facts["engine"] == f"orjson {ORJSON_VERSION}"
    assert "orjson_fault" not in facts
    assert facts["python"] == f"{platform.python_implementation()} {platform.python_version()}"
    assert table == (
        "                                                             mcp    mcp    mcp    mcp     mcp\n"
        "                                            jsonrpc          2024   2025   2025   2025    2026\n"
        "profile           jsonrpc  lenient  client  1        lsp     11-05  03-26  06-18  11-25   07-28\n"
        "null_request_ids  yes      yes      yes     yes      no      no     no     no     no      no\n"
        "null_result_ids   yes      yes      yes     yes      yes     no     no     no     no      no\n"
        "float_ids         yes      yes      yes     yes      no      no     no     no     no      no\n"
        "missing_ids       no       errors   errors  errors   no      no     no     no     errors  errors\n"
        "optional_jsonrpc  no       no       yes     yes      no      no     no     no     no      no\n"
        "empty_methods     yes      yes      yes     yes      yes     no     no     no     no      no\n"
        "array_params      yes      yes      yes     yes      yes     no     no     no     no      no\n"
        "null_members      no       yes      yes     yes      params  no     no     no     no      no\n"
        "any_errors        no       yes      yes     yes      no      no     no     no     no      no\n"
        "repeated_calls    no       no       yes     no       no      no     no     no     no      no\n"
        "object_results    no       no       no      no       no      yes    yes    yes    yes     yes\n"
        "batches           yes      yes      yes     no       no      no     yes    no     no      no\n"
        "extra_members     yes      yes      keep    yes      yes     yes    yes    yes    yes     yes\n"
        "writes            2.0      2.0      2.0     1.0      2.0     2.0    2.0    2.0    2.0     2.0"
    )
    assert rest == (
        "the same in all: big_ints exact, floats float, "
        f"message_bytes {67108864 if BACKEND == 'cython' else 16777216}, depth 1024, batch_items 10000, "
        "method_bytes 1024, id_bytes 512\n"
    )


def test_info_shows_why_the_core_is_not_in_use() -> None:
    done = run("info", env=environment(JSONRPC_FAST_PURE="1"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nbackend       python\ncore_fault    JSONRPC_FAST_PURE is set\n" in done.stdout


def test_info_json() -> None:
    done = run("info", "--json", env=environment(JSONRPC_FAST_PURE="1"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    facts = json.loads(done.stdout)
    profiles = facts.pop("profiles")
    assert facts == {
        "version": jsonrpc_fast.__version__,
        "backend": "python",
        "core_fault": "JSONRPC_FAST_PURE is set",
        "tricks": None,
        "engine": f"orjson {ORJSON_VERSION}",
        "orjson_fault": ORJSON_FAULT,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    assert list(profiles) == [
        "jsonrpc",
        "lenient",
        "client",
        "jsonrpc-1",
        "lsp",
        "mcp-2024-11-05",
        "mcp-2025-03-26",
        "mcp-2025-06-18",
        "mcp-2025-11-25",
        "mcp-2026-07-28",
    ]
    assert profiles["lsp"] == {
        "null_request_ids": False,
        "null_result_ids": True,
        "float_ids": False,
        "missing_ids": False,
        "optional_jsonrpc": False,
        "empty_methods": True,
        "array_params": True,
        "null_members": "params",
        "any_errors": False,
        "repeated_calls": False,
        "object_results": False,
        "batches": False,
        "extra_members": True,
        "big_ints": "exact",
        "floats": "float",
        "writes": "2.0",
        "message_bytes": 16777216,
        "depth": 1024,
        "batch_items": 10000,
        "method_bytes": 1024,
        "id_bytes": 512,
    }


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"jsonrpc-fast {jsonrpc_fast.__version__}\n"


STATUS = """
exit status:
  the status of the command; `jsonrpc-fast COMMAND --help` shows it
  2    the command line is wrong
"""
CHECK_STATUS = """
exit status:
  0    all messages are valid
  1    a message is invalid
  2    the command line is wrong, a file cannot be read or checked as it is or
       has no message, or the output cannot be written
  130  interrupted
  141  the reader of the output closed it
"""
TAP_STATUS = """
exit status:
  that of the server; 128 + N if signal N ended it
  2    the command line is wrong, the log cannot be opened, standard output is
       closed, or an extra is not installed
  3    the address of --listen or --http is in use, or cannot be listened on
  126  the server's command cannot be run
  127  the server's command is not found
  130  interrupted, with --listen or --http
  143  terminated, with --listen or --http
"""
SERVED_STATUS = """
exit status:
  0    the client closed standard input, or the HTTP server ended
  1    standard output cannot be written, or the client did not read all of it
  2    the command line is wrong, a file or folder cannot be read or is wrong,
       or the extra `mcp`, `http` or `mcp-http` is not installed
  3    the address of --http is in use, or cannot be listened on
  129  hung up
  130  interrupted
  143  terminated
"""
INFO_STATUS = """
exit status:
  0    success
  2    the command line is wrong, or the output cannot be written
  130  interrupted
  141  the reader of the output closed it
"""
RULES = ["--profile NAME", *PRESETS, "--framing NAME", *FRAMINGS]


@rows(
    ("arguments", "words", "exit_status"),
    [
        (["--help"], ["check", "tap", "serve", "relay", "info", "--version", "NO_COLOR", "FORCE_COLOR"], STATUS),
        (
            ["check", "--help"],
            [
                "FILE",
                *RULES,
                "--json",
                "--max-faults N",
                "10",
                "-q, --quiet",
                "--suggest",
                "(default: newline)",
            ],
            CHECK_STATUS,
        ),
        (["tap", "--help"], ["tap [options] -- COMMAND ...", *RULES, "--log FILE", "(default: auto)"], TAP_STATUS),
        (
            ["serve", "--help"],
            ["--template-dir DIR", "(default: ./templates)", "--http HOST:PORT", "--debug"],
            SERVED_STATUS,
        ),
        (["relay", "--help"], ["relay [options] URL", "--max-processes N"], SERVED_STATUS),
        (["info", "--help"], ["--json", "profile"], INFO_STATUS),
    ],
)
def test_help(arguments: list[str], words: list[str], exit_status: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 0
    output = capsys.readouterr()
    assert output.out.startswith("usage: jsonrpc-fast ")
    assert output.out.endswith(exit_status)
    for word in words:
        assert word in output.out
    assert output.err == ""


def test_every_help_fits_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ([], *[[name] for name in cli._COMMANDS]):
        assert cli.main([*words, "--help"]) == 0
        assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == [], words


def test_an_option_of_two_commands_has_the_text_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    for command, text in (("stubs", "the name of the class"), ("install", "the name of the server")):
        assert cli.main([command, "--help"]) == 0
        assert text in capsys.readouterr().out


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("usage: jsonrpc-fast ")
    assert output.err.endswith(STATUS)


@rows(
    ("arguments", "error"),
    [
        (["check", "--profile", "corba"], "argument --profile: invalid choice: 'corba'"),
        (["check", "--framing", "morse"], "argument --framing: invalid choice: 'morse'"),
        (["check", "--max-faults", "-1"], "argument --max-faults: must be a whole number, 0 or more"),
        (["check", "--max-faults", "ten"], "argument --max-faults: must be a whole number, 0 or more"),
        (["gateway", "x", "--max-servers", "0"], "argument --max-servers: must be a whole number, 1 or more"),
        (["relay", "--max-processes", "0", "x"], "argument --max-processes: must be a whole number, 1 or more"),
        (["check", "--verbose"], "unrecognized arguments: --verbose"),
        (["encode"], "invalid choice: 'encode'"),
        (["chek"], "did you mean check?"),
        (["check", "--profile", "lenint"], "did you mean lenient?"),
        (["tap"], "jsonrpc-fast tap: error: missing command after --"),
        (["tap", "--"], "jsonrpc-fast tap: error: missing command after --"),
        (["call", "add", "--"], "jsonrpc-fast call: error: missing command after --"),
        (["call", "http://a", "add", "--"], "jsonrpc-fast call: error: missing command after --"),
        (["list", "--"], "jsonrpc-fast list: error: missing command after --"),
        (["replay", "f", "--"], "jsonrpc-fast replay: error: missing command after --"),
        (["relay", "--http", ":1", "--"], "jsonrpc-fast relay: error: missing command after --"),
        (["install", "--client", "cursor", "--"], "jsonrpc-fast install: error: missing command after --"),
        (["tap", "cat"], "tap: error: missing -- before the command: jsonrpc-fast tap -- cat ..."),
        (["tap", "--log", "f", "cat", "-n"], "tap: error: missing -- before the command: jsonrpc-fast tap -- cat ..."),
        (["tap", "cat", "--", "ls"], "tap: error: expected a command after --, and no URL"),
        (["tap", "--http", "1:1"], "tap: error: --http needs a URL, and no command"),
        (["tap", "--http", "1:1", "http://h", "--", "ls"], "tap: error: --http needs a URL, and no command"),
        (["tap", "-n", "--", "cat"], "jsonrpc-fast tap: error: unrecognized arguments: -n"),
        (["serve", "prompts"], "jsonrpc-fast serve: error: unrecognized arguments: prompts"),
        (["info", "x"], "jsonrpc-fast info: error: unrecognized arguments: x"),
        (["tap", "http://h/mcp"], "tap: error: missing --http HOST:PORT before http://h/mcp"),
        (["relay", "--http", "1:1", "https://h"], "relay: error: --http needs a command after --, and no URL"),
        (["relay"], "relay: error: expected a URL, or --http and a command after --"),
        (["relay", "--http", "1:1"], "relay: error: --http needs a command after --, and no URL"),
        (["relay", "--http", "1:1", "npx", "-y"], "-- before the command: jsonrpc-fast relay --http 1:1 -- npx ..."),
    ],
)
def test_usage_faults(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert error in output.err


def test_usage_fault_of_a_process() -> None:
    assert run("check", "--profile", "corba").returncode == 2


def test_script_is_the_same_main() -> None:
    code = "import sys; from jsonrpc_fast.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], env=environment(), capture_output=True, timeout=SECONDS
    )
    assert (done.returncode, done.stdout.split()) == (0, [b"jsonrpc-fast", jsonrpc_fast.__version__.encode()])


def test_package_does_not_load_the_command_line() -> None:
    code = "import sys, jsonrpc_fast; print(sorted({'jsonrpc_fast.cli', 'argparse', 'tqdm'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, timeout=SECONDS)
    assert done.stdout.split() == [b"[]"]


@posix
def test_completion(tmp_path: Path) -> None:
    """What the shell gets from argcomplete, which a line in its profile enables."""
    pytest.importorskip("argcomplete", reason="the extra `cli` is not installed")
    found = tmp_path / "found"
    for line, expected in (
        ("jsonrpc-fast re", {"relay", "replay"}),
        ("jsonrpc-fast call --no", {"--notify"}),
        ("jsonrpc-fast check --profile ls", {"lsp"}),
    ):
        settings = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(found)}
        done = run("info", env=environment(COMP_LINE=line, COMP_POINT=str(len(line)), **settings))
        assert (done.returncode, done.stdout) == (0, "")
        assert set(found.read_text().split()) == expected


def test_each_command_is_on_its_page_and_has_a_module() -> None:
    """The table of commands is the only list: this finds a row that the page, or a module, lacks."""
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for name, command in cli._COMMANDS.items():
        assert f"| `jsonrpc-fast {name}" in page, name
        assert importlib.import_module(f"jsonrpc_fast.cli.{command.module or name}").run, name
    assert len(re.findall(r"^\| `jsonrpc-fast (\w+)", page, re.MULTILINE)) == len(cli._COMMANDS)
    codes = page.partition("## Exit codes\n")[2]
    without = [name for name in cli._COMMANDS if f"`{name}`" not in codes]
    assert without == [], "docs/command-line.md, the end of its section on exit codes"
