"""The command `install`: what it writes, what it keeps, and what it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.cli.main import main

from ..support.tables import rows

pytestmark = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the paths are those of Linux")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, in which the project is the current folder."""
    project = tmp_path / "the project"
    project.mkdir()
    (project / "server.py").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(project)
    return tmp_path


def entry(*words: str, **more: Any) -> dict[str, Any]:
    return {**more, "command": sys.executable, "args": [os.path.abspath("server.py"), *words]}


@rows(
    ("client", "path", "key", "more"),
    [
        ("claude", ".config/Claude/claude_desktop_config.json", "mcpServers", {}),
        ("claude-code", "the project/.mcp.json", "mcpServers", {}),
        ("cursor", ".cursor/mcp.json", "mcpServers", {}),
        ("cursor --project", "the project/.cursor/mcp.json", "mcpServers", {}),
        ("vscode", ".config/Code/User/mcp.json", "servers", {"type": "stdio"}),
        ("vscode --project", "the project/.vscode/mcp.json", "servers", {"type": "stdio"}),
        ("gemini", ".gemini/settings.json", "mcpServers", {}),
        ("gemini --project", "the project/.gemini/settings.json", "mcpServers", {}),
    ],
)
def test_each_host_has_its_file(client: str, path: str, key: str, more: dict[str, Any], home: Path) -> None:
    assert main(["install", "--yes", "--client", *client.split(), "server.py", "a"]) == 0
    assert json.loads((home / path).read_text()) == {key: {"server": entry("a", **more)}}
    (home / path).unlink()


def test_what_is_there_keeps_its_value_and_its_order(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    before = (
        '{\n    "theme": "ü",\n    "mcpServers": {\n        "b": {"command": "x"}\n    },\n'
        '    "n": 12345678901234567890\n}\n'
    )
    path.write_text(before, encoding="utf-8")
    path.chmod(0o600)
    arguments = ["install", "--client", "gemini", "--name", "a", "--env", "KEY=v=1"]
    program = ["--", "sh", "-c", "exec server"]
    assert main([*arguments, *program]) == 1  # nobody agreed
    assert path.read_text(encoding="utf-8") == before
    assert main([*arguments, "--yes", *program]) == 0
    assert path.read_text(encoding="utf-8") == (
        '{\n    "theme": "ü",\n    "mcpServers": {\n        "b": {\n            "command": "x"\n        },\n'
        f'        "a": {{\n            "command": "{shutil.which("sh")}",\n            "args": [\n'
        '                "-c",\n                "exec server"\n            ],\n            "env": {\n'
        '                "KEY": "v=1"\n            }\n        }\n    },\n    "n": 12345678901234567890\n}\n'
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert (path.parent / "settings.json.1.bak").read_text(encoding="utf-8") == before
    capsys.readouterr()
    assert main([*arguments, "--yes", *program]) == 0
    assert "has this entry already" in capsys.readouterr().out
    assert len(os.listdir(path.parent)) == 2


@rows(
    ("text", "why"),
    [
        ('{"a": 1,\n /* why */ "b": 2}', "it is not plain JSON, at line 2, column 2"),
        ('{"a": 1, "a": 2}', "it has the member 'a' twice"),
        ("[" * 100_000, "it nests too deeply"),
        ("[]", "its mcpServers is not an object"),
        ('{"mcpServers": []}', "its mcpServers is not an object"),
        ("{\xff", "it is not plain JSON: invalid start byte at byte 1"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_alone(
    text: str, why: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="latin-1")
    assert main(["install", "--yes", "--client", "cursor", "server.py"]) == 2
    said = capsys.readouterr().err
    assert f"mcp.json cannot be changed: {why}. Add this to it:\n" in said
    assert '"server": {' in said  # for its owner
    assert path.read_text(encoding="latin-1") == text
    assert os.listdir(path.parent) == ["mcp.json"]


@rows(
    ("words", "said"),
    [
        (["--client", "emacs", "server.py"], "claude, claude-code, cursor, vscode, gemini"),
        (["--client", "claude", "--project", "server.py"], "leave out --project"),
        (["--client", "cursor", "missing.py"], "there is no file missing.py"),
        (["--client", "cursor"], "expected SERVER.py"),
        (["--client", "cursor", "--", "no-such-program"], "not found"),
        (["--client", "cursor", "--env", "x", "server.py"], "NAME=VALUE"),
        (["server.py"], "--client"),
        (["--client", "cursor", "server.py", "--port"], "unrecognized arguments: --port"),
    ],
)
def test_what_is_refused(words: list[str], said: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--yes", *words]) == 2
    assert said in capsys.readouterr().err
    assert os.listdir(home) == ["the project"]


def test_a_link_stays_a_link(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "mcp.json").write_text("{}")
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").symlink_to(home / "dotfiles" / "mcp.json")
    assert main(["install", "--yes", "--client", "cursor", "server.py"]) == 0
    assert (home / ".cursor" / "mcp.json").is_symlink()
    assert "server" in json.loads((home / "dotfiles" / "mcp.json").read_text())["mcpServers"]
