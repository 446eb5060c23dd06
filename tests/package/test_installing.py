"""Real builds in copies of the sources: the core that a build leaves behind, and the backend that is then chosen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import orjson
import pytest

from ..conftest import is_pure_only
from ..support.places import PACKAGE, ROOT

CODEC = Path("jsonrpc_fast", "codec")
CORE = f"_core{EXTENSION_SUFFIXES[0]}"
REPORT = "import json, jsonrpc_fast.codec as c; print(json.dumps([c.BACKEND, c.CORE_FAULT]))"
NO_CYTHON = "raise ImportError('Cython is not installed')\n"
STALE = [
    "python",
    "the core was built from other sources than those next to it: run python setup.py build_ext --inplace",
]

pytestmark = pytest.mark.slow


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the sources, without a core."""
    root = tmp_path / "clone"
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", "*.c", "_build.txt")
    shutil.copytree(PACKAGE, root / PACKAGE.name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root)
    return root


@pytest.fixture
def built(clone: Path, pytestconfig: pytest.Config) -> Path:
    """A copy of the sources with the core under test."""
    if is_pure_only(pytestconfig):
        pytest.skip("the core is not under test")
    shutil.copy(PACKAGE / "codec" / CORE, clone / CODEC)
    return clone


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JSONRPC_FAST")}
    return {**kept, "PYTHONPATH": "", **changes}


def python(folder: Path, *arguments: str) -> str:
    """Return what Python prints in a folder.

    It runs without `site`: its .pth files lead to the core of an editable installation, from any copy.
    """
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=folder,
        env=environment(PYTHONPATH=str(Path(orjson.__file__).parents[1])),
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    ).stdout


def backend_in(folder: Path) -> list[str | None]:
    """Return BACKEND and CORE_FAULT of the package in a folder."""
    return json.loads(python(folder, "-c", REPORT))  # type: ignore[no-any-return]


def build(clone: Path, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 reads all of pyproject.toml")
    return subprocess.run(
        [sys.executable, "setup.py", "-q", *command],
        cwd=clone,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_core_of_these_sources_is_used(built: Path) -> None:
    assert backend_in(built) == ["cython", None]


@pytest.mark.parametrize("name", ["_core.pyx", "_scanner.pxd", "_core_parts/decoding.pxi"])
def test_a_core_of_other_sources_is_not_used(built: Path, name: str) -> None:
    source = built / CODEC / name
    text = source.read_bytes()
    source.write_bytes(text + b"\n")
    assert backend_in(built) == STALE
    source.write_bytes(text)
    assert backend_in(built) == ["cython", None]
    source.rename(source.with_name(f"other{source.suffix}"))
    assert backend_in(built) == STALE


def test_a_core_without_its_sources_is_used(built: Path) -> None:
    for kind in ("*.pyx", "*.pxi", "*.pxd"):
        for source in (built / CODEC).rglob(kind):
            source.unlink()
    assert backend_in(built) == ["cython", None]
    (built / CODEC / "_core_parts").rmdir()
    assert backend_in(built) == ["cython", None]


def test_a_clone_without_a_core_hides_the_installed_package(clone: Path) -> None:
    backend, fault = backend_in(clone)
    assert backend == "python"
    assert fault is not None
    assert fault.startswith("this is the source folder, in which no core is built, and it hides an installed package: ")
    assert f"\ncore_fault    {fault}\n" in python(clone, "-m", "jsonrpc_fast", "info")


def test_a_build_without_the_core_removes_an_older_one(clone: Path) -> None:
    older = clone / "build" / "lib" / CODEC / CORE
    older.parent.mkdir(parents=True)
    older.write_bytes(b"an older core")
    assert build(clone, "build", "--build-lib", "build/lib", JSONRPC_FAST_EXTENSION="no").returncode == 0
    assert not older.exists()
    assert backend_in(clone / "build" / "lib") == [
        "python",
        (
            "the core was not built: JSONRPC_FAST_EXTENSION=no, as for the pure wheel. Installers take that wheel if "
            "the release has no other for this Python and system. With a C compiler, `pip install --no-binary "
            "jsonrpc_fast jsonrpc_fast` builds the core"
        ),
    ]


def test_a_build_without_cython(clone: Path) -> None:
    (clone / "Cython").mkdir()
    (clone / "Cython" / "__init__.py").write_text(NO_CYTHON)
    run = build(clone, "build", "--build-lib", "build/lib", PYTHONPATH=str(clone))
    assert run.returncode == 0, run.stderr
    assert "the compiled core was NOT built (Cython is not installed)" in run.stderr
    reason = "the core was not built: ImportError: Cython is not installed"
    assert backend_in(clone / "build" / "lib") == ["python", reason]
    run = build(clone, "build", PYTHONPATH=str(clone), JSONRPC_FAST_EXTENSION="yes")
    assert run.returncode != 0
    assert "Cython is not installed" in run.stderr


def test_a_failed_build_removes_an_older_core(built: Path) -> None:
    pytest.importorskip("Cython")
    run = build(built, "build_ext", "--inplace", CC="/nonexistent/cc")
    assert run.returncode == 0, run.stderr
    assert "the compiled core was NOT built" in run.stderr
    assert not (built / CODEC / CORE).exists()
    backend, fault = backend_in(built)
    assert backend == "python"
    assert fault is not None
    assert fault.startswith("the core was not built: ")
    assert "/nonexistent/cc" in fault


def test_the_same_sources_are_not_built_again(clone: Path) -> None:
    pytest.importorskip("Cython")
    before = {path for path in clone.rglob("*") if "build" not in path.relative_to(clone).parts[:1]}
    unoptimized = {"CFLAGS": "-O0", "JSONRPC_FAST_EXTENSION": "yes"}

    def kept() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in (clone / "build" / "core").rglob("*.*")}

    assert build(clone, "build", "--build-lib", "build/lib", **unoptimized).returncode == 0
    first = kept()
    assert set(first) == {CORE, "_core.c"}
    core = clone / "build" / "lib" / CODEC / CORE
    core.unlink()
    assert build(clone, "build", "--build-lib", "build/lib", **unoptimized).returncode == 0
    assert core.is_file()
    assert kept() == first
    assert {path for path in clone.rglob("*") if "build" not in path.relative_to(clone).parts[:1]} == before
    source = clone / CODEC / "_core_parts" / "decoding.pxi"
    source.write_bytes(source.read_bytes() + b"\n")
    assert build(clone, "build", "--build-lib", "build/lib", CC="/nonexistent/cc").returncode == 0
    assert not core.is_file()
    assert len([*(clone / "build" / "core").rglob("_core.c")]) == 2, "a branch that was built once is not built again"


def test_the_source_distribution_holds_all_sources_and_nothing_generated(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("the sources are not in a Git repository")
    command = ("git", "ls-files")
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True, timeout=60).stdout
    sources = {name for name in listed.splitlines() if (ROOT / name).is_file()}
    clone = tmp_path / "clone"
    for name in sources:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    (clone / CODEC / "_core.c").write_text("generated")
    assert build(clone, "sdist", JSONRPC_FAST_EXTENSION="no").returncode == 0
    [archive] = (clone / "dist").iterdir()
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames() if file.getmember(name).isfile()}
    generated = {"PKG-INFO", "setup.cfg"} | {name for name in names if ".egg-info/" in name}
    assert names - generated == sources - {".gitignore"}
