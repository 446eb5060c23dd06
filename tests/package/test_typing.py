"""The public names as type checkers see them, and the README's code, by mypy and pyright."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import jsonrpc_fast

from .test_readme import BLOCKS

pytestmark = pytest.mark.slow

PACKAGE = Path(jsonrpc_fast.__file__).resolve().parent
PUBLIC = Path(__file__).resolve().parent / "typed" / "public.py"


def is_plain(block: str) -> bool:
    try:
        compile(block, "README", "exec", ast.PyCF_ONLY_AST)
        ast.parse(block)
        compile(block, "README", "exec")
    except SyntaxError:
        return False
    return True


def write_readme(folder: Path) -> list[str]:
    """The README's blocks as modules: what goes on with a server after the block that makes it, and no bare await."""
    names = []
    previous = ""
    for index, block in enumerate(BLOCKS):
        text = previous + block if "@server." in block and "server = " not in block else block
        previous = text
        if not is_plain(text):
            text = "async def main() -> None:\n" + textwrap.indent(text, "    ")
        names.append(f"readme_{index}.py")
        (folder / names[-1]).write_text(text, encoding="utf-8")
    return names


def check(command: list[str], folder: Path) -> None:
    run = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture
def mypy() -> list[str]:
    pytest.importorskip("mypy", reason="mypy is not installed (extra `dev`)")
    return [sys.executable, "-m", "mypy", "--cache-dir", ".cache", "--python-executable", sys.executable]


@pytest.fixture
def pyright(tmp_path: Path) -> list[str]:
    if shutil.which("node") is None:
        pytest.skip("pyright needs node, which is not on the path")
    pytest.importorskip("pyright", reason="pyright is not installed (extra `dev`)")
    command = [sys.executable, "-m", "pyright"]
    try:
        subprocess.run([*command, "--version"], capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"pyright does not run here ({error})")
    settings = {
        "extraPaths": [str(PACKAGE.parent)],
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
        "pythonVersion": "3.10",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    return [*command, "--project", "pyrightconfig.json", "--pythonpath", sys.executable]


@pytest.mark.parametrize("version", ["3.10", "3.13"])
def test_the_public_names_by_mypy(mypy: list[str], tmp_path: Path, version: str) -> None:
    check([*mypy, "--strict", "--python-version", version, str(PUBLIC)], tmp_path)


def test_the_public_names_by_pyright(pyright: list[str], tmp_path: Path) -> None:
    shutil.copy(PUBLIC, tmp_path)
    check(pyright, tmp_path)


def test_the_readme_by_mypy(mypy: list[str], tmp_path: Path) -> None:
    check([*mypy, "--check-untyped-defs", *write_readme(tmp_path)], tmp_path)


def test_the_readme_by_pyright(pyright: list[str], tmp_path: Path) -> None:
    write_readme(tmp_path)
    check(pyright, tmp_path)
