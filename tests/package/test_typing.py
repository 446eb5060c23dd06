"""The public names and the code of the pages as mypy and pyright see them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.pages import PAGES, write_scripts
from ..support.places import PACKAGE, TESTS
from ..support.tables import rows

pytestmark = pytest.mark.slow

PUBLIC = TESTS / "package" / "typed" / "public.py"


def check(command: list[str], folder: Path) -> None:
    run = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture
def mypy() -> list[str]:
    pytest.importorskip("mypy", reason="mypy is not installed (group `dev`)")
    return [sys.executable, "-m", "mypy", "--cache-dir", ".cache", "--python-executable", sys.executable]


@pytest.fixture
def pyright(tmp_path: Path) -> list[str]:
    if shutil.which("node") is None:
        pytest.skip("pyright needs Node")
    pytest.importorskip("pyright", reason="pyright is not installed (group `dev`)")
    command = [sys.executable, "-m", "pyright"]
    try:
        subprocess.run([*command, "--version"], capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"pyright does not run here ({error})")
    settings = {
        "extraPaths": [str(PACKAGE.parent)],
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    return [*command, "--project", "pyrightconfig.json", "--pythonpath", sys.executable]


@rows("version", ["3.11", "3.13"])
def test_the_public_names_by_mypy(mypy: list[str], tmp_path: Path, version: str) -> None:
    check([*mypy, "--strict", "--python-version", version, str(PUBLIC)], tmp_path)


def test_the_public_names_by_pyright(pyright: list[str], tmp_path: Path) -> None:
    shutil.copy(PUBLIC, tmp_path)
    check(pyright, tmp_path)


def write_pages(folder: Path) -> list[list[str]]:
    """Write the code of each page into a folder of its own, and return the names of the scripts of each page."""
    pages = []
    for page in PAGES:
        if page.stem == "adapters":  # its libraries have no types, or types that do not match their documented use
            continue
        (folder / page.stem).mkdir()
        pages.append([str(script.relative_to(folder)) for script in write_scripts(page, folder / page.stem)])
    return [scripts for scripts in pages if scripts]


def test_the_code_of_the_pages_by_mypy(mypy: list[str], tmp_path: Path) -> None:
    for scripts in write_pages(tmp_path):
        check([*mypy, "--check-untyped-defs", *scripts], tmp_path)


def test_the_code_of_the_pages_by_pyright(pyright: list[str], tmp_path: Path) -> None:
    write_pages(tmp_path)
    check(pyright, tmp_path)
