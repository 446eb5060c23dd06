"""The sources of this repository: copies of them, and their time."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
BUILT: Final = ("build", "dist", "wheelhouse")


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
