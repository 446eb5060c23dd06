"""The command `install`: writes the entry of an MCP server into the configuration of a host.

Rules:
  - The change is shown before anything is written, and the file that was there is kept beside the new one.
  - All other settings keep their values and their order. A file that cannot be read as JSON, such as one with comments,
    is left alone, and the entry is printed for its owner.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..support import read_settings
from .output import Status, escape, is_coloured, print_error, styled


class _Host(NamedTuple):
    """Where a host keeps its servers."""

    key: str  # the member of the file that holds them
    of_user: Callable[[], Path] | None  # None: the user's file is not for other programs to write
    of_project: str | None
    typed: bool = False  # whether an entry names its transport


def _settings(*parts: str) -> Path:
    """Return a path in the folder in which desktop programs keep their settings."""
    if sys.platform == "darwin":
        return Path.home().joinpath("Library", "Application Support", *parts)
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming", *parts)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", *parts)


_HOSTS: Final[dict[str, _Host]] = {
    "claude": _Host("mcpServers", lambda: _settings("Claude", "claude_desktop_config.json"), None),
    # The user's file of Claude Code holds its state, too; `claude mcp add --scope user` writes it.
    "claude-code": _Host("mcpServers", None, ".mcp.json"),
    "cursor": _Host("mcpServers", lambda: Path.home() / ".cursor" / "mcp.json", ".cursor/mcp.json"),
    "vscode": _Host("servers", lambda: _settings("Code", "User", "mcp.json"), ".vscode/mcp.json", typed=True),
    "gemini": _Host("mcpServers", lambda: Path.home() / ".gemini" / "settings.json", ".gemini/settings.json"),
}


def run(options: argparse.Namespace) -> int:
    """Run the command. Return the exit status."""
    if options.client not in _HOSTS:
        print_error(f"--client must be one of: {', '.join(_HOSTS)}")
        return Status.WRONG
    try:
        entry, name = _entry_of(options)
        path = _path_of(options)
        before, settings, fault = _read(path)
    except (OSError, ValueError) as error:
        print_error(str(error) if isinstance(error, ValueError) else f"{error.filename}: {error.strerror}")
        return Status.WRONG
    host = _HOSTS[options.client]
    servers = settings.setdefault(host.key, {}) if isinstance(settings, dict) else None
    if not isinstance(servers, dict):
        text = json.dumps({host.key: {name: entry}}, indent=2, ensure_ascii=False)
        why = fault or f"its {host.key} is not an object"
        print_error(f"{escape(str(path))} cannot be changed: {why}. Add this to it:\n{text}")
        return Status.WRONG
    if servers.get(name) == entry:
        print(f"{escape(str(path))} has this entry already")
        return Status.SUCCESS
    servers[name] = entry
    indent = found[1] if (found := re.search(r'\n([ \t]+)"', before)) else "  "
    after = json.dumps(settings, indent=indent, ensure_ascii=False) + "\n"
    _show(path, before, after)
    if not options.yes and not _is_agreed():
        print("nothing was written")
        return Status.FAILED
    try:
        kept = _write(path, after)
    except OSError as error:
        print_error(f"cannot write {escape(str(path))}: {error.strerror}")
        return Status.WRONG
    print(f"written: {escape(str(path))}")
    if kept is not None:
        print(f"the file that was there: {escape(str(kept))}")
    print("start the program anew, or reload its servers, to see it")
    return Status.SUCCESS


def _entry_of(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the entry of the server, and its name."""
    if options.program:
        program, *arguments = options.program
        # A host does not start with the user's PATH.
        command = shutil.which(program)
        if command is None:
            raise ValueError(f"the program {escape(program)} is not found")
        words, first = [os.path.abspath(command), *arguments], program
    elif options.words:
        script, *arguments = options.words
        if not os.path.isfile(script):
            raise ValueError(f"there is no file {escape(script)}; for another command write -- before it")
        words, first = [sys.executable, os.path.abspath(script), *arguments], script
    else:
        raise ValueError("expected SERVER.py, or a command after --")
    variables = {}
    for pair in options.env:
        variable, separator, value = pair.partition("=")
        if not variable or not separator:
            raise ValueError("--env must be NAME=VALUE")
        variables[variable] = value
    typed = {"type": "stdio"} if _HOSTS[options.client].typed else {}
    entry = {**typed, "command": words[0], "args": words[1:], **({"env": variables} if variables else {})}
    return entry, options.name or Path(first).stem


def _path_of(options: argparse.Namespace) -> Path:
    host = _HOSTS[options.client]
    if options.project or host.of_user is None:
        if host.of_project is None:
            raise ValueError(f"{options.client} has no file for a project: leave out --project")
        return Path(host.of_project).absolute()
    return host.of_user()


def _read(path: Path) -> tuple[str, Any, str]:
    """Return the text of a file, "" without one; its value; and why it has none, "" if it has."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return "", {}, ""
    text = data.decode("utf-8-sig", "replace")  # what cannot be read is not shown
    if not text.strip():
        return text, {}, ""
    try:
        return text, read_settings(data), ""
    except ValueError as error:
        return text, None, str(error)


def _show(path: Path, before: str, after: str) -> None:
    coloured = is_coloured(sys.stdout)
    name = str(path)
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm=""):
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else None
        shown = escape(line)
        print(styled(shown, style, coloured) if style else shown)


def _is_agreed() -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        print_error("--yes writes it")
        return False
    try:
        return input("Write this? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _write(path: Path, text: str) -> Path | None:
    """Write a file at once; return where its forerunner is kept, None without one."""
    target = path.resolve()  # a link stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    kept: Path | None = None
    if target.exists():
        number = 1
        while (copy := target.with_name(f"{target.name}.{number}.bak")).exists():
            number += 1
        shutil.copy2(target, copy)
        kept = copy
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if kept is not None:
            shutil.copymode(kept, name)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
    return kept
