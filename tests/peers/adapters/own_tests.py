"""The tests of a library, run in an environment of their own without and with the adapter."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...support.places import PACKAGE
from .library import Library

SECONDS: Final = 1200
TEST_SECONDS: Final = 120
"""How long one test may take, whatever its library says: the 5 s of fastmcp are for an idle machine."""
FAILED: Final = ("failure", "error")


@dataclass
class Outcomes:
    """What the tests of a library showed.

    Attributes:
        version: The version of the library.
        total: How many tests were run.
        without: How many passed without the adapter.
        with_it: How many passed with the adapter.
        failures: Each test that failed with the adapter, and why.
        unknown: The tests that failed for no known reason, and those that passed although there is one.
    """

    version: str
    total: int
    without: int
    with_it: int
    failures: dict[str, str]
    unknown: list[str]


def run_own_tests(library: Library, checkouts: Path | None, folder: Path) -> Outcomes | None:
    """Run the tests of a library twice. Return None if its sources have none.

    Args:
        library: The library.
        checkouts: A folder with checkouts named after their libraries; without one for this library, its sources come
            from the package index.
        folder: An empty folder to work in.
    """
    python = make_environment(library, folder)
    version = version_in(python, library.name)
    copy = folder / "copy"
    if checkouts is not None and (checkouts / library.name).is_dir():
        shutil.copytree(checkouts / library.name, copy, ignore=shutil.ignore_patterns(".git"))
    else:
        shutil.copytree(get_sources(f"{library.name}=={version}", folder), copy)
    if library.package is not None:
        shutil.rmtree(copy / library.package, ignore_errors=True)
        if not (copy / library.tests[0]).exists():
            return None
    without = run_tests(library, copy, python, folder, False)
    with_it = run_tests(library, copy, python, folder, True)
    failures, unknown = {}, []
    failed = {name_of(test) for test, outcome in with_it.items() if outcome in FAILED}
    for test, outcome in with_it.items():
        if outcome in FAILED:
            fails_anyway = without.get(test) in FAILED
            reason = library.failures.get(name_of(test))
            failures[test] = reason or ("fails without it, too" if fails_anyway else "UNEXPLAINED")
            if reason is None and not fails_anyway:
                unknown.append(test)
        elif outcome == "passed" and name_of(test) in library.failures.keys() - failed:
            unknown.append(test)
    total = sum(outcome != "skipped" for outcome in without.values())
    passed = [sum(outcome == "passed" for outcome in found.values()) for found in (without, with_it)]
    return Outcomes(version, total, *passed, failures, unknown)


def name_of(test: str) -> str:
    """Return the name of a test's function."""
    return test.split("::")[1].split("[")[0]


def make_environment(library: Library, folder: Path) -> str:
    """Make an environment with the packages of this one and those that the tests need; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "environment")], check=True, timeout=SECONDS)
    python = str(folder / "environment" / "bin" / "python")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    (Path(own) / "outer.pth").write_text(sysconfig.get_path("purelib"))
    # Not its folder: the package `tests` there would hide those of libraries, which may have no `__init__.py`.
    (Path(own) / PACKAGE.name).symlink_to(PACKAGE)
    if library.needs:
        subprocess.run([python, "-m", "pip", "install", "-q", *library.needs], check=True, timeout=SECONDS)
    return python


def version_in(python: str, name: str) -> str:
    """Return the version of a library in an environment."""
    command = [python, "-c", "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))", name]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def get_sources(wanted: str, folder: Path) -> Path:
    """Download and unpack the sources of a library."""
    # Not ":all:": what builds the library would be built from sources, too.
    options = ["-q", "--no-deps", "--no-binary", wanted.partition("==")[0], "-d", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, wanted], check=True, timeout=SECONDS)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder / "sources", filter="data")
    [sources] = (folder / "sources").iterdir()
    return sources


def run_tests(library: Library, sources: Path, python: str, folder: Path, uses_adapter: bool) -> dict[str, str]:
    """Run the tests of a library, and return the outcome of each."""
    site = folder / f"site-{uses_adapter}"
    site.mkdir()
    if uses_adapter:
        (site / "sitecustomize.py").write_text(library.install)
    report = folder / f"report-{uses_adapter}.xml"
    command = [python, "-m", "pytest", "-q", *library.tests, "-o", "addopts=", "-W", "ignore", f"--junitxml={report}"]
    command += ["-p", "no:xdist", "-p", "no:benchmark", "-p", "no:cacheprovider"]
    # Some libraries skip tests that hang occasionally if CI is set.
    path = os.pathsep.join([str(site), str(sources)])
    env = {**os.environ, "CI": "1", "PYTEST_TIMEOUT": str(TEST_SECONDS), "PYTHONPATH": path}
    with contextlib.suppress(
        subprocess.TimeoutExpired
    ):  # a thread that a test left may keep the process: see the report
        subprocess.run(command, cwd=sources, env=env, timeout=SECONDS, stdout=subprocess.DEVNULL, check=False)
    outcomes = {}
    for case in xml.parse(report).iter("testcase"):
        fault = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = fault
    return outcomes
