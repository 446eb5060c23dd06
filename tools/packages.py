"""The sources of this repository, the packages that `nox -s build` leaves in `dist`, and the extras of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
BUILT: Final = ("build", "dist", "wheelhouse")
FOR_TESTS: Final = "test"
"""The extra that no user of the package installs."""


def built(kind: str) -> Path:
    """Return a file in `dist`: the "sources", the "wheel" with the core, or the "pure-wheel".

    Raises:
        LookupError: There is none, or more than one.
    """
    wheels = list((ROOT / "dist").glob("*.whl"))
    pure = [path for path in wheels if path.name.endswith("-py3-none-any.whl")]
    found = {
        "sources": list((ROOT / "dist").glob("*.tar.gz")),
        "wheel": [path for path in wheels if path not in pure],
        "pure-wheel": pure,
    }[kind]
    if len(found) != 1:
        raise LookupError(f"dist/ must contain one file of the kind {kind!r}: run `nox -s build` first")
    return found[0]


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source distribution into an empty folder, and return the folder of its sources."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.unpack_archive(archive, folder)
    return folder / archive.name.removesuffix(".tar.gz")


def extras() -> str:
    """Return the extras of the package, except that for its tests, as they are written in brackets."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return ",".join(sorted(set(project["optional-dependencies"]) - {FOR_TESTS}))


def commit_time() -> str:
    """Return SOURCE_DATE_EPOCH: the variable, or the time of the last commit if it is not set."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    command = ("git", "log", "-1", "--format=%ct")
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()


def copy_sources(folder: Path) -> None:
    """Copy the sources to a folder for a build of their own."""
    ignored = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "_build.txt")
    folder.mkdir(parents=True, exist_ok=True)
    for path in ROOT.iterdir():
        if path.name.startswith(".") or path.name in BUILT:
            continue
        if path.is_dir():
            shutil.rmtree(folder / path.name, ignore_errors=True)
            shutil.copytree(path, folder / path.name, ignore=ignored)
        else:
            shutil.copy(path, folder)
