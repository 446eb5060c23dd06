"""The documentation site: each public name is in the API reference, and the first steps work as they are written.

`nox -s docs` builds the site. It fails if a name below has no entry, or if a link leads nowhere.
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any

import pytest

from ..support import needs
from ..support.pages import blocks, write_scripts
from ..support.places import PACKAGE, ROOT
from ..support.tables import table
from ..support.waiting import blocking_eventually, free_port

DOCS = ROOT / "docs"

DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)", re.MULTILINE)
REFERENCE = "".join([page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md"))])

PRIVATE = ("jsonrpc_fast.codec", "jsonrpc_fast.session.context")
"""Modules whose public names are imported from the package above them."""


def modules_with_public_names() -> list[str]:
    """Return the modules that have an `__all__`."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return [name for name in found if not name.startswith(PRIVATE)]


def load(name: str) -> ModuleType:
    """Import a module, or skip the test where its library is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(str(error))


@functools.cache
def values_in_reference() -> tuple[set[str], list[Any]]:
    """Return the names of the directives on the API pages, and the objects that they document."""
    names: set[str] = set()
    for kind, name in DIRECTIVE.findall(REFERENCE):
        if kind == "module":
            names |= {f"{name}.{member}" for member in getattr(load(name), "__all__", ())}
        else:
            names.add(name)
    values = []
    for name in names:
        module, _, member = name.rpartition(".")
        values.append(getattr(load(module), member))
    return names, values


def test_each_public_name_is_in_the_api_reference() -> None:
    names, values = values_in_reference()
    values = [value for value in values if callable(value) or isinstance(value, UnionType)]
    with table() as row:
        for module_name in modules_with_public_names():
            with row(module_name):
                module = load(module_name)
                missing = [
                    name
                    for name in module.__all__
                    if f"{module_name}.{name}" not in names
                    and not any(value is getattr(module, name) for value in values)
                ]
                assert missing == []


def shell(command: str, folder: Path) -> dict[str, Any]:
    """Return the arguments that run a command of a page as in an environment that has the package."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {
        "args": command,
        "cwd": folder,
        "env": {**own, "PATH": path, "PYTHONPATH": str(PACKAGE.parent)},
        "shell": True,
        "stdout": subprocess.PIPE,
    }


@pytest.mark.skipif(sys.platform == "win32", reason="the commands are those of a POSIX shell")
def test_the_first_server_on_the_index_page(tmp_path: Path) -> None:
    """The commands run as they are written, after the installation, and on another port."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed (extra `test`)")
    needs.require("curl")
    page = DOCS / "index.md"
    install, start, call = blocks(page, "sh")
    [answer] = blocks(page, "json")
    assert install.endswith("pip install . uvicorn\n")
    port = str(free_port())
    write_scripts(page, tmp_path)
    assert start.startswith("uvicorn ")
    server = subprocess.Popen(
        **{**shell(f"exec {start.replace('8000', port)}", tmp_path), "stdout": subprocess.DEVNULL},
        stderr=subprocess.DEVNULL,
    )
    try:

        def output() -> bytes:
            found: bytes = subprocess.run(**shell(call.replace("8000", port), tmp_path), timeout=60, check=False).stdout
            return found

        # A body has no line ending.
        assert blocking_eventually(output, 60).decode() == answer.removesuffix("\n")
    finally:
        server.terminate()
        server.wait(60)


@pytest.mark.skipif(sys.platform == "win32", reason="the commands are those of a POSIX shell")
def test_the_first_server_of_the_tutorial(tmp_path: Path) -> None:
    page = DOCS / "tutorial.md"
    write_scripts(page, tmp_path)
    command, *_ = blocks(page, "sh")
    answer, *_ = blocks(page, "json")
    run = subprocess.run(**shell(command, tmp_path), timeout=60, check=True)
    assert run.stdout.decode() == answer


def test_the_tests_of_the_tutorial(tmp_path: Path) -> None:
    write_scripts(DOCS / "tutorial.md", tmp_path)
    command = f'"{sys.executable}" -m pytest -q -p no:cacheprovider test_calculator.py'
    run = subprocess.run(**shell(command, tmp_path), timeout=60, check=True)
    assert b"2 passed" in run.stdout


def test_the_list_for_language_models_names_each_page() -> None:
    listed = set(re.findall(r"\]\(([\w/-]+)\.html\)", (DOCS / "llms.txt").read_text(encoding="utf-8")))
    included = {"benchmarks", "changelog", "index", "security"}  # pages that include a file, and the first page
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in [*DOCS.glob("*.md"), *DOCS.glob("deploy/*.md")]}
    assert listed == (pages - included) | {"api/index"}
