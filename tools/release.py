"""Check the files of a release: `python -m tools.release v1.2.3 dist`. It needs nothing but Python.

Rules:
- There is a source distribution, a pure wheel, and a wheel for each of PYTHONS on each of PLATFORMS, all of the version
  in the tag, and nothing else.
- The metadata of all wheels are the same, because installers that lock (uv, Poetry, pdm) read one wheel for all. Those
  of a free-threaded Python lack orjson, which has no wheel there, and which no environment marker can leave out.
- The metadata have the address of the project, not its placeholder, and the README in them installs from the index.
  `CHANGELOG.md` has the date of the version.
"""

from __future__ import annotations

import re
import sys
import tarfile
from pathlib import Path
from typing import Final
from zipfile import ZipFile

PYTHONS: Final = ("cp311", "cp312", "cp313", "cp314", "cp314t")
PLATFORMS: Final = (
    *("manylinux_x86_64", "manylinux_aarch64", "musllinux_x86_64", "musllinux_aarch64"),
    *("macosx_x86_64", "macosx_arm64", "win_amd64", "win_arm64"),
)
"""A release has a wheel for each of the Pythons on each of these, besides the pure one."""
SOURCE: Final = re.compile(r"jsonrpc_fast-([^-]+)\.tar\.gz")
PURE: Final = re.compile(r"jsonrpc_fast-([^-]+)-py3-none-any\.whl")
# A wheel may be for several versions of a platform: manylinux_2_17_x86_64.manylinux2014_x86_64.
WHEEL: Final = re.compile(
    r"jsonrpc_fast-([^-]+)-cp\d+-(cp\d+t?)-([a-z]+)[\d_]*?_(x86_64|aarch64|amd64|arm64)(\.\w+)*\.whl"
)


def parts(version: str) -> list[str]:
    """Return the parts that a release has, each with its version."""
    wheels = [f"{python}-{platform}" for python in PYTHONS for platform in PLATFORMS]
    return sorted(f"{version} {part}" for part in ["sources", "py3-any", *wheels])


def part(file: str) -> str:
    """Return the part of a release that a file is, by its name; for other files the name."""
    if source := SOURCE.fullmatch(file):
        return f"{source[1]} sources"
    if pure := PURE.fullmatch(file):
        return f"{pure[1]} py3-any"
    wheel = WHEEL.fullmatch(file)
    return f"{wheel[1]} {wheel[2]}-{wheel[3]}_{wheel[4]}" if wheel else file


def metadata(wheel: Path) -> str:
    """Return the metadata of a wheel without orjson, and without the line that says that `setup.py` requires it."""
    with ZipFile(wheel) as file:
        [name] = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        text = file.read(name).decode()
    own = ("Requires-Dist: orjson", "Dynamic: requires-dist")
    return "".join([line for line in text.splitlines(keepends=True) if not line.startswith(own)])


def changes(archive: Path) -> str:
    """Return the changes that a source distribution has."""
    with tarfile.open(archive) as file:
        packed = file.extractfile(f"{archive.name.removesuffix('.tar.gz')}/CHANGELOG.md")
        return packed.read().decode() if packed else ""


def faults(tag: str, files: list[Path]) -> list[str]:
    """Return what is wrong with the files of a release."""
    version = tag.removeprefix("v")
    found, expected = sorted(part(file.name) for file in files), parts(version)
    missing, strange = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    texts = [f"missing: {name}" for name in missing] + [f"not a part of the release: {name}" for name in strange]
    wheels = sorted(file for file in files if file.suffix == ".whl")
    texts += [f"its metadata differ: {file.name}" for file in wheels if metadata(file) != metadata(wheels[0])]
    for file in wheels:
        with ZipFile(file) as packed:
            requires = any(
                b"\nRequires-Dist: orjson" in packed.read(name)
                for name in packed.namelist()
                if name.endswith("METADATA")
            )
        if requires is ("cp314t" in file.name):
            texts.append(f"it {'requires' if requires else 'does not require'} orjson: {file.name}")
    if wheels and "https://example.org" in metadata(wheels[0]):
        texts.append("the address of the project is the placeholder of setup.py")
    if wheels and "pip install '.[" in metadata(wheels[0]):
        pages = "'.[...]' becomes 'jsonrpc_fast[...]', in the docs, too"
        texts.append(f"the README installs from a clone: {pages}")
    dated = re.compile(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", re.MULTILINE)
    if any(SOURCE.fullmatch(file.name) and not dated.search(changes(file)) for file in files):
        texts.append(f"CHANGELOG.md has no `## {version} (YYYY-MM-DD)`")
    return texts


def main(tag: str, folder: str) -> int:
    found = faults(tag, sorted(Path(folder).iterdir()))
    print("\n".join(found) or f"all {len(parts(tag))} parts of {tag} are there, and say the same")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
