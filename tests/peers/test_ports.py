"""The ports in examples/ give the same responses to the same calls as the original servers of other packages.

These are compared: the names of the tools and of their arguments, which arguments are required, whether a result is an
error, its structured content, and its text (its value, if it is JSON) without the library's prefix to the text of an
exception. Descriptions differ, and so do the errors for arguments that do not match the schema.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="the extra `mcp` is not installed")

from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.mcp import connect

from ..support.places import ROOT
from .adapters.mcp import FOLDERS
from .venvs import python_of, sources_of

pytestmark = pytest.mark.slow

IN_FRONT = re.compile(r"\A(?:Error executing|Error calling)? ?[Tt]ool '?\w+'?(?: failed)?: ")
EXAMPLES = ROOT / "examples"
Call = tuple[str, dict[str, Any]]

TIMES: list[Call] = [
    ("convert_time", {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "Europe/Lisbon"}),
    ("convert_time", {"source_timezone": "UTC", "time": "00:00", "target_timezone": "Asia/Kathmandu"}),
    ("convert_time", {"source_timezone": "Asia/Kolkata", "time": "23:59", "target_timezone": "Australia/Eucla"}),
    ("convert_time", {"source_timezone": "UTC", "time": "9.30", "target_timezone": "UTC"}),
    ("convert_time", {"source_timezone": "UTC", "time": "24:00", "target_timezone": "UTC"}),
    ("convert_time", {"source_timezone": "Mars/Olympus", "time": "09:30", "target_timezone": "UTC"}),
    ("convert_time", {"source_timezone": "UTC", "time": "09:30", "target_timezone": ""}),
    ("convert_time", {"source_timezone": "UTC", "time": "09:30", "target_timezone": "../../etc/passwd"}),
    ("convert_time", {"source_timezone": "", "time": "09:30", "target_timezone": "UTC"}),
    ("get_current_time", {"timezone": ""}),
    ("get_current_time", {"timezone": "nowhere"}),
    ("get_current_time", {"timezone": "utc "}),
    ("tell_time", {}),
]

GIT: list[Call] = [
    ("git_status", {}),
    ("git_log", {}),
    ("git_log", {"max_count": 1, "start_timestamp": "2000-01-01"}),
    ("git_log", {"start_timestamp": "--all"}),
    ("git_log", {"end_timestamp": "2001-01-01"}),
    ("git_show", {"revision": "HEAD"}),
    ("git_show", {"revision": "HEAD~1"}),
    ("git_show", {"revision": "HEAD:a.txt"}),
    ("git_show", {"revision": "HEAD:"}),
    ("git_show", {"revision": "nothing"}),
    ("git_show", {"revision": "--help"}),
    ("git_diff_unstaged", {}),
    ("git_diff_unstaged", {"context_lines": 0}),
    ("git_diff_staged", {}),
    ("git_commit", {"message": "nothing staged"}),
    ("git_add", {"files": ["../outside.txt"]}),
    ("git_add", {"files": ["/etc/passwd"]}),
    ("git_add", {"files": ["missing.txt"]}),
    ("git_add", {"files": ["a.txt"]}),
    ("git_add", {"files": ["a.txt"]}),
    ("git_diff_staged", {"context_lines": 1}),
    ("git_reset", {}),
    ("git_add", {"files": ["."]}),
    ("git_status", {}),
    ("git_commit", {"message": "third"}),
    ("git_diff", {"target": "HEAD~1"}),
    ("git_diff", {"target": "none"}),
    ("git_diff", {"target": "-x"}),
    ("git_create_branch", {"branch_name": "new"}),
    ("git_create_branch", {"branch_name": "new"}),
    ("git_create_branch", {"branch_name": "other", "base_branch": "none"}),
    ("git_create_branch", {"branch_name": "-f"}),
    ("git_create_branch", {"branch_name": "a b"}),
    ("git_checkout", {"branch_name": "new"}),
    ("git_checkout", {"branch_name": "none"}),
    ("git_branch", {"branch_type": "local"}),
    ("git_branch", {"branch_type": "all", "contains": "HEAD"}),
    ("git_branch", {"branch_type": "local", "not_contains": "HEAD"}),
    ("git_branch", {"branch_type": "mine"}),
    ("git_checkout", {"branch_name": "HEAD~1"}),
    ("git_create_branch", {"branch_name": "late"}),
    ("git_status", {"repo_path": "/"}),
    ("git_status", {"repo_path": "/nowhere"}),
]

SURVEY: list[Call] = [("greet", {}), ("survey", {}), ("greet", {}), ("survey", {}), ("greet", {})]
ANSWERS: list[dict[str, Any]] = [
    {"action": "accept", "content": {"value": "Ada"}},
    {"action": "accept", "content": {"favorite_color": "red", "lucky_number": 7}},
    {"action": "decline"},
    {"action": "cancel"},
    {"action": "accept", "content": {"value": ""}},
]


def repository(folder: Path) -> Path:
    """Make a repository with two commits, a change that is not staged, and a file that is not tracked."""
    repo = folder / "repo"
    repo.mkdir(parents=True)

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=repo, check=True, capture_output=True, env={**os.environ, **DATES})

    git("init", "-q", "-b", "main")
    (repo / "a.txt").write_text("one\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    (repo / "folder").mkdir()
    (repo / "folder" / "b.txt").write_bytes(b"caf\xe9\n")
    (repo / "a.txt").write_text("one\ntwo\n")
    git("add", ".")
    git("commit", "-q", "-m", "second\n\nwith a body")
    (repo / "a.txt").write_text("one\ntwo\nthree\n")
    (repo / "new.txt").write_text("new\n")
    return repo


DATES = {
    **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "ada@example.org" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_DATE": "2024-05-06T07:08:09+0200" for who in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


async def outcomes(
    command: Sequence[str], calls: Sequence[Call], path: str = "", answers: Sequence[dict[str, Any]] = ()
) -> tuple[dict[str, Any], list[Any]]:
    """Return what a server lists, and its responses, without the path of its repository."""
    left, questions = list(answers), []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        questions.append((params["message"], sorted(params["requestedSchema"]["properties"])))
        return left.pop(0)

    env = {**DATES, "PYTHONPATH": os.pathsep.join(FOLDERS)} if command[-1].endswith(".py") else DATES
    handlers = {"elicitation/create": answer} if answers else {}
    # fastmcp asks its client only up to 2025-11-25.
    mode = "legacy" if answers else "auto"
    async with connect(*command, mode=mode, timeout=120, env=env, handlers=handlers) as client:
        tools = {
            tool["name"]: (
                sorted(tool["inputSchema"].get("properties", {})),
                sorted(tool["inputSchema"].get("required", [])),
            )
            for tool in await client.list_tools()
        }
        found: list[Any] = []
        for name, arguments in calls:
            try:
                result = await client.call_tool(name, arguments)
            except RpcError as error:
                found.append(error.code)
                continue
            texts = [IN_FRONT.sub("", part["text"]).replace(path or "REPO", "REPO") for part in result["content"]]
            with contextlib.suppress(ValueError):
                texts = [json.loads(text) for text in texts]
            found.append((name, bool(result.get("isError")), texts, result.get("structuredContent")))
    return tools, [*found, *questions]


def check(original: tuple[Any, list[Any]], port: tuple[Any, list[Any]]) -> None:
    assert original[0] == port[0]
    assert [(was, found) for was, found in zip(original[1], port[1], strict=False) if was != found] == []
    assert len(original[1]) == len(port[1])


async def test_the_time_server() -> None:
    python = python_of("servers")
    original = await outcomes([python, "-m", "mcp_server_time"], TIMES)
    check(original, await outcomes([sys.executable, str(EXAMPLES / "port_time.py")], TIMES))


async def test_the_git_server(tmp_path: Path) -> None:
    python = python_of("servers")
    found = []
    for name, command in (
        ("original", [python, "-m", "mcp_server_git"]),
        ("port", [python, str(EXAMPLES / "port_git.py")]),
    ):
        repo = repository(tmp_path / name)
        calls = [(tool, {"repo_path": str(repo), **arguments}) for tool, arguments in GIT]
        found.append(await outcomes(command, calls, str(repo)))
    check(*found)


async def test_an_example_of_fastmcp() -> None:
    python = python_of("fastmcp")
    example = sources_of("fastmcp") / "examples" / "elicitation.py"
    code = "import runpy, sys; runpy.run_path(sys.argv[1])['mcp'].run(show_banner=False)"
    original = await outcomes([python, "-c", code, str(example)], SURVEY, answers=ANSWERS)
    port = [sys.executable, str(EXAMPLES / "port_survey.py")]
    check(original, await outcomes(port, SURVEY, answers=ANSWERS))
