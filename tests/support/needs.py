"""Programs and extras that tests need.

If one is missing, its tests are skipped, and the summary says how to install it.

nats = needs.program("nats-server")      # its path, or None
needs_nats = needs.mark("nats-server")   # for `pytestmark`
needs.require("nginx")                   # in a test: its path, or a skip
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import sysconfig
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

DEBIAN: Final = {
    "aria2c": "aria2",
    "chromium": "chromium",
    "clangd": "clangd",
    "curl": "curl",
    "fortls": "fortran-language-server",
    "nats-server": "nats-server",
    "nginx": "nginx",
    "node": "nodejs",
    "npm": "npm",
    "ovsdb-client": "openvswitch-switch",
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-switch",
    "redis-server": "redis-server",
    "snapserver": "snapserver",
    "systemd-analyze": "systemd",
    "systemd-socket-activate": "systemd",
}
"""The programs that tests start, and Debian's package of each."""
TEST: Final = "test"
"""The extra that contains everything that tests import, unless a test names `dev`."""
CPYTHON: Final = pytest.mark.skipif(
    sys.implementation.name != "cpython", reason="it is about CPython: its collector, its stack, its strings"
)
THREADS: Final = pytest.mark.skipif(sys.platform == "emscripten", reason="it starts threads")
FAILING_ALLOCATIONS: Final = pytest.mark.skipif(
    importlib.util.find_spec("_testcapi") is None or bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="it needs _testcapi, and the GIL: without it a list without memory corrupts the heap (CPython, gh-152125)",
)
_FOLDERS: Final = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin")
_NOT_THERE: Final = re.compile(r"(?P<name>\S+) is not installed: apt-get install (?P<package>\S+)")
_NO_MODULE: Final = re.compile(
    r"could not import '(?P<module>[\w.]+)'.*|the extra `(?P<extra>[\w-]+)` is not installed"
    r"|(?P<name>[\w .-]+) is not installed(?: \(extra `(?P<of>\w+)`\))?.*"
)


_OF_MODELS: Final = re.compile(
    r"^(?:import|from) (?P<module>annotated_types|attrs|jsonrpc_fast\.mcp|msgspec|pydantic)\b", re.MULTILINE
)
"""Imports that a file of tests may have although the library is missing on some Pythons: the file is skipped there."""
_OF_MCP: Final = ("msgspec", "jsonschema_rs")


def missing_in(path: Path) -> str | None:
    """Return the first library that a file of tests needs for such an import and that is not installed; or None."""
    for found in _OF_MODELS.finditer(path.read_text(encoding="utf-8")):
        for library in _OF_MCP if found["module"] == "jsonrpc_fast.mcp" else (found["module"],):
            if importlib.util.find_spec(library) is None:
                return library
    return None


def program(name: str) -> str | None:
    """Return the path of a program, or None."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_FOLDERS]))


def reason(name: str) -> str:
    """Return why a test without that program is skipped."""
    return f"{name} is not installed: apt-get install {DEBIAN[name]}"


def mark(name: str) -> pytest.MarkDecorator:
    """Return a mark that skips tests where a program is missing."""
    return pytest.mark.skipif(program(name) is None, reason=reason(name))


def require(name: str) -> str:
    """Return the path of a program, or skip the test."""
    path = program(name)
    if path is None:
        pytest.skip(reason(name))
    return path


def require_processes() -> None:
    """Skip the test if this platform cannot start processes."""
    if sys.platform == "emscripten":
        pytest.skip("it starts a process")


def unmeasured(**variables: str) -> dict[str, str]:
    """Return the environment of a child without the settings of coverage, which imports modules of its own there."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")} | variables


def summary(reasons: Counter[str]) -> list[str]:
    """Return the lines that say why tests were skipped. Tests that lack the same program or extra share a line."""
    programs: Counter[str] = Counter()
    extras: dict[str, Counter[str]] = {}
    lines = []
    for text, count in sorted(reasons.items()):
        if found := _NOT_THERE.fullmatch(text):
            programs[found["package"]] += count
        elif found := _NO_MODULE.fullmatch(text):
            of = found["of"] or found["extra"]
            modules = extras.setdefault("dev" if of == "dev" else TEST, Counter())
            modules[found["module"] or found["name"] or found["extra"]] += count
        else:
            lines.append(f"{count} skipped: {text}")
    for extra, modules in sorted(extras.items()):
        command = f"pip install -e '.[{extra}]'"
        lines.append(f"{modules.total()} skipped without {', '.join(sorted(modules))}: {command} brings them")
    if programs:
        lines.append(f"{programs.total()} skipped without a program: apt-get install {' '.join(sorted(programs))}")
    return lines
