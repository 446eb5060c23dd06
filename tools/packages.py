"""The packages that `nox -s build` leaves in `dist`, and the extras of the package."""

from __future__ import annotations

import shutil
import tarfile
import tomllib
from pathlib import Path
from typing import Final

from .sources import ROOT as ROOT

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
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def extras() -> str:
    """Return the extras of the package, except that for its tests, as they are written in brackets."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return ",".join(sorted(set(project["optional-dependencies"]) - {FOR_TESTS}))
