"""Entries of the `mcpServers` file of hosts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.mcp.client.entries import MAX_FILE_BYTES, ServerEntry, entry_of, read_servers

from ...support.tables import rows


@rows(
    ("entry", "expected"),
    [
        ({"command": "a"}, ServerEntry(("a",))),
        ({"type": "stdio", "command": "a", "args": ["b", ""]}, ServerEntry(("a", "b", ""))),
        (
            {"command": "a", "env": {"K": "v"}, "cwd": "/d", "autoApprove": ["x"], "disabled": False},
            ServerEntry(("a",), env={"K": "v"}, cwd="/d"),
        ),
        ({"url": "https://a/mcp"}, ServerEntry(url="https://a/mcp")),
        (
            {"type": "http", "url": "HTTP://a/mcp", "headers": {"X-A": "b"}},
            ServerEntry(url="HTTP://a/mcp", headers={"X-A": "b"}),
        ),
        ({"type": "streamable-http", "url": "http://a"}, ServerEntry(url="http://a")),
        ({"command": "${HOME}/x", "args": ["${NONE:-y z}", "${env:HOME}", "$HOME", "${EMPTY}"]},
         ServerEntry(("/home/x", "y z", "/home", "$HOME", ""))),
        ({"url": "https://${HOST:-b}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
         ServerEntry(url="https://b/mcp", headers={"Authorization": "Bearer secret"})),
        ({"url": "https://b/mcp", "headers": {"X-A": "b"}, "auth": "${TOKEN}"},
         ServerEntry(url="https://b/mcp", headers={"X-A": "b", "Authorization": "Bearer secret"})),
        ({"url": "https://b/mcp", "auth": ("a", "b")}, ServerEntry(url="https://b/mcp", auth=("a", "b"))),
    ],
)  # fmt: skip
def test_an_entry(entry: dict[str, Any], expected: ServerEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"HOME": "/home", "TOKEN": "secret", "EMPTY": ""}.items():
        monkeypatch.setenv(name, value)
    for name in ("NONE", "HOST"):
        monkeypatch.delenv(name, raising=False)
    assert read_servers({"mcpServers": {"s": entry}}) == {"s": expected}


@rows(
    ("entry", "said"),
    [
        ({}, "must have either a command, or a url"),
        ({"command": "a", "url": "http://a"}, "either"),
        ({"type": "http", "command": "secret"}, "either"),
        ({"type": "stdio", "url": "http://a"}, "either"),
        ({"type": "sse", "url": "http://a"}, "HTTP\\+SSE"),
        ({"type": "secret", "command": "a"}, "not known"),
        ({"url": "ftp://secret"}, "does not begin"),
        ({"command": 1}, "/command must be a string"),
        ({"command": "a", "args": "secret"}, "/args must be an array of strings"),
        ({"command": "a", "args": [1]}, "/args must be an array of strings"),
        ({"command": "a", "env": {"A": 1}}, "/env must be an object of strings"),
        ({"url": "http://a", "headers": ["secret"]}, "/headers must be an object of strings"),
        ({"command": "a", "auth": "secret"}, "has an auth, but no url"),
        ({"url": "http://a", "auth": {"CLIENT_SECRET": "secret"}}, "auth that is not a string"),
        ({"url": "http://a", "auth": "secret secret"}, 'must be "oauth", a bearer token, or an Auth'),
        ({"command": "a", "env": {"A": "${NONE}"}}, "needs the variable NONE"),
        ({"command": "a", "args": ["${input:secret}"]}, "not an environment variable"),
        ({"command": "a", "args": ["${workspaceFolder}"]}, "workspaceFolder"),
        ("secret", "must be an object"),
    ],
)
def test_an_entry_that_is_wrong(entry: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NONE", "workspaceFolder"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=said) as caught:
        read_servers({"mcpServers": {"s": entry}})
    assert "secret" not in str(caught.value)
    assert "'s'" in str(caught.value)


def test_a_server_that_is_disabled_by_something_else_is_an_error() -> None:
    text = "^the server 's' must have true or false as its member disabled$"
    for value in ("yes", 1, None):
        with pytest.raises(ValueError, match=text):
            read_servers({"mcpServers": {"s": {"command": "a", "disabled": value}}})


def test_a_server_that_is_disabled_is_left_out() -> None:
    assert read_servers({"mcpServers": {"s": {"disabled": True, "args": ["${NONE}"]}}}) == {}


@rows("content", [b"{", b"[]", b"{}", b'{"mcpServers":[]}', b"\xff", b"[" * 100_000, b" " * (MAX_FILE_BYTES + 1)])
def test_a_file_that_is_wrong(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"the (file of )?servers"):
        read_servers(path)


@rows(
    ("content", "name"),
    [
        (b'{"mcpServers":{"a":{"command":"x"},"a":{"command":"y"}}}', "a"),
        (b'{"mcpServers":{"a":{"command":"x","env":{"K":"secret","K":"other"}}}}', "K"),
        (b'{"mcpServers":{},"other":[{"b":1,"b":1}],"mcpServers":{}}', "b"),
    ],
)
def test_a_member_that_a_file_has_twice(content: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"^the file of servers cannot be read: it has the member '{name}' twice$"):
        read_servers(path)


@rows(
    ("entry", "said"),
    [
        ({"arg": ["secret"]}, ["the server 's': 'arg' is unknown; did you mean 'args'?"]),
        (
            {"envs": {}, "disable": True, "include_tools": ["secret"]},
            [
                "the server 's': 'envs' is unknown; did you mean 'env'?",
                "the server 's': 'disable' is unknown; did you mean 'disabled'?",
                "the server 's': 'include_tools' is unknown; did you mean 'includeTools'?",
            ],
        ),
        # Of hosts.
        (
            {"disabled": False, "autoApprove": [], "alwaysAllow": [], "timeout": 60, "envFile": "f"}
            | {"description": "d", "trust": True, "transportType": "stdio", "watchPaths": [], "dev": {}},
            [],
        ),
    ],
)
def test_a_member_that_is_misspelled(entry: dict[str, Any], said: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """It is not refused, because hosts have members of their own."""
    caplog.clear()
    given = {"command": "a", **entry}
    assert read_servers({"mcpServers": {"s": given}}) == {"s": ServerEntry(("a",))}
    assert [(each.name, each.levelname, each.getMessage()) for each in caplog.records] == [
        ("jsonrpc_fast.mcp", "WARNING", text) for text in said
    ]
    caplog.clear()
    assert entry_of("s", given) == ServerEntry(("a",))
    assert [each.getMessage() for each in caplog.records] == said


def test_a_file_and_its_names() -> None:
    entries = {"a": {"command": "x"}}
    assert read_servers({"servers": entries}) == read_servers({"mcpServers": entries, "servers": 1})


def test_a_file_with_a_mark_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"ü": {"command": "x"}}}), encoding="utf-8-sig")
    assert read_servers(str(path)) == {"ü": ServerEntry(("x",))}


@rows(
    ("given", "expected"),
    [
        ("https://a", ServerEntry(url="https://a")),
        ("program", ServerEntry(("program",))),
        (Path("p"), ServerEntry((Path("p"),))),
        (["p", "x"], ServerEntry(("p", "x"))),
        ({"command": "p", "args": ["${X}"]}, ServerEntry(("p", "${X}"))),
        (ServerEntry(("p",)), ServerEntry(("p",))),
    ],
)
def test_a_server_as_an_argument(given: Any, expected: ServerEntry) -> None:
    assert entry_of("s", given) == expected


@rows("given", [1, None, [], [1], b"p"])
def test_an_argument_that_is_none(given: Any) -> None:
    with pytest.raises(TypeError, match="must be a URL, a command"):
        entry_of("s", given)


def test_the_values_are_not_shown() -> None:
    entry = ServerEntry((sys.executable,), env={"A": "secret"}, headers={"B": "secret"})
    assert "secret" not in repr(entry)
