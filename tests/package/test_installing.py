"""What a build leaves, and which backend is chosen after it: in copies of the sources, by real builds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import orjson
import pytest

import jsonrpc_fast

from ..conftest import is_pure_only

PACKAGE = Path(jsonrpc_fast.__file__).resolve().parent
ROOT = PACKAGE.parent
CORE = f"_core{EXTENSION_SUFFIXES[0]}"
REPORT = "import json, jsonrpc_fast.codec as c; print(json.dumps([c.BACKEND, c.CORE_FAULT]))"
NO_CYTHON = "raise ImportError('there is no Cython here')\n"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="the package is not in its source folder"),
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The sources alone."""
    root = tmp_path / "clone"
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", "*.c", "_build.txt")
    shutil.copytree(PACKAGE, root / "jsonrpc_fast", ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root)
    return root


@pytest.fixture
def built(clone: Path, pytestconfig: pytest.Config) -> Path:
    """The sources with the core that is under test."""
    if is_pure_only(pytestconfig):
        pytest.skip("the core is not to be there")
    shutil.copy(PACKAGE / CORE, clone / "jsonrpc_fast")
    return clone


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JSONRPC_FAST")}
    return {**kept, "PYTHONPATH": "", **changes}


# Without `site`, whose .pth files lead from any copy to the core of a package that is installed as editable.
def python(folder: Path, *arguments: str) -> str:
    """What Python prints in a folder."""
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=folder,
        env=environment(PYTHONPATH=str(Path(orjson.__file__).parents[1])),
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    ).stdout


def chosen(folder: Path) -> list[str | None]:
    """The backend and the fault, as Python in a folder sees them."""
    return json.loads(python(folder, "-c", REPORT))  # type: ignore[no-any-return]


def build(clone: Path, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("setuptools", minversion="77", reason="a setuptools that reads pyproject.toml is needed")
    return subprocess.run(
        [sys.executable, "setup.py", "-q", *command],
        cwd=clone,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


# The core and its sources.


def test_a_core_of_these_sources_is_used(built: Path) -> None:
    assert chosen(built) == ["cython", None]


@pytest.mark.parametrize("name", ["_core.pyx", "_core_text.pxi", "_scanner.pxd"])
def test_a_core_of_other_sources_is_not_used(built: Path, name: str) -> None:
    source = built / "jsonrpc_fast" / name
    text = source.read_bytes()
    source.write_bytes(text + b"\n")
    stale = ["python", "the core was built from other sources than those beside it: build it again"]
    assert chosen(built) == stale
    source.write_bytes(text)
    assert chosen(built) == ["cython", None]
    source.rename(source.with_name(f"_other{source.suffix}"))
    assert chosen(built) == stale


def test_a_core_without_its_sources_is_used(built: Path) -> None:
    for kind in ("*.pyx", "*.pxi", "*.pxd"):
        for source in (built / "jsonrpc_fast").glob(kind):
            source.unlink()
    assert chosen(built) == ["cython", None]


# Why there is no core.


def test_a_clone_without_a_core_hides_the_installed_package(clone: Path) -> None:
    backend, fault = chosen(clone)
    assert backend == "python"
    assert fault is not None
    assert fault.startswith("this is the source folder, in which no core is built, and it hides an installed package: ")
    assert f"\ncore_fault  {fault}\n" in python(clone, "-m", "jsonrpc_fast", "info")


def test_a_core_that_was_not_asked_for(clone: Path) -> None:
    old = clone / "build" / "lib" / "jsonrpc_fast" / CORE
    old.parent.mkdir(parents=True)
    old.write_bytes(b"an older core")
    assert build(clone, "build", "--build-lib", "build/lib", JSONRPC_FAST_EXTENSION="no").returncode == 0
    assert not old.exists()
    assert chosen(clone / "build" / "lib") == ["python", "the core was not built: JSONRPC_FAST_EXTENSION=no"]


def test_a_build_without_cython(clone: Path) -> None:
    (clone / "Cython").mkdir()
    (clone / "Cython" / "__init__.py").write_text(NO_CYTHON)
    run = build(clone, "build", "--build-lib", "build/lib", PYTHONPATH=str(clone))
    assert run.returncode == 0, run.stderr
    assert "the compiled core was NOT built (there is no Cython here)" in run.stderr
    reason = "the core was not built: ImportError: there is no Cython here"
    assert chosen(clone / "build" / "lib") == ["python", reason]
    run = build(clone, "build", PYTHONPATH=str(clone), JSONRPC_FAST_EXTENSION="yes")
    assert run.returncode != 0
    assert "there is no Cython here" in run.stderr


def test_a_build_that_fails_leaves_no_older_core(built: Path) -> None:
    pytest.importorskip("Cython")
    core = built / "jsonrpc_fast" / CORE
    run = build(built, "build_ext", "--inplace", CC="/nonexistent/cc")
    assert run.returncode == 0, run.stderr
    assert "the compiled core was NOT built" in run.stderr
    assert not core.exists()
    backend, fault = chosen(built)
    assert backend == "python"
    assert fault is not None
    assert fault.startswith("the core was not built: ")
    assert "/nonexistent/cc" in fault
