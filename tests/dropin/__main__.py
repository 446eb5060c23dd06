"""Port public projects to this codec, and run their tests before and after.

    python -m tests.dropin [NAME ...]

For each project, its released source distribution comes from PyPI into a new environment, with this package. Its tests
run before and after, where the distribution has them; what `drives` sees must be the same; and the hot path is
measured, both in one process, in turn. A line says the ratio: above 1 the port is faster.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ..support.places import ROOT
from . import drives
from .projects import PROJECTS, Edit, Project

ROUNDS_SECONDS = 0.8
SLOWER = 0.95
"""A port with a lower ratio is slower: a busy machine moves it by less."""


def fetched(project: Project, folder: Path, python: str) -> Path:
    """Download and unpack the sources of a project, and return their folder."""
    wanted = f"{project.name}=={project.version}"
    # Its build requirements may be wheels: pip builds its metadata.
    command = [python, "-m", "pip", "download", "-q", "--no-deps", f"--no-binary={project.name}", "-d", str(folder)]
    subprocess.run([*command, wanted], check=True, stderr=subprocess.PIPE)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    [sources] = [path for path in folder.iterdir() if path.is_dir()]
    return sources


def edited(text: str, edit: Edit) -> str:
    """Return the text of a file after an edit."""
    if edit.everywhere:
        return text.replace(edit.first, edit.new)
    begin = text.find(edit.first)
    if begin < 0 or text.find(edit.first, begin + 1) >= 0:
        raise ValueError(f"{edit.path}: {edit.first!r} must be there once")
    end = begin + len(edit.first)
    if edit.last:
        end = text.index(edit.last, begin) + len(edit.last)
    return text[:begin] + edit.new + text[end:]


def ported(project: Project, before: Path, after: Path) -> tuple[int, int]:
    """Copy the sources and edit the copy. Return the number of lines that are gone and that are new."""
    shutil.copytree(before, after)
    for edit in project.edits:
        path = after / edit.path
        data = path.read_bytes()
        end = b"\r\n" if b"\r\n" in data else b"\n"  # a file keeps its line ends
        text = edited(data.replace(end, b"\n").decode(), edit)
        path.write_bytes(text.encode().replace(b"\n", end))
    command = ["diff", "-r", "-U0", str(before), str(after)]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    changed = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return sum(line[0] == "-" for line in changed), sum(line[0] == "+" for line in changed)


def tested(project: Project, sources: Path, python: str) -> str:
    """Run the tests of a project. Return pytest's last line."""
    variables = {"PYTHONPATH": str(sources / project.folder), "PATH": f"{Path(python).parent}:/usr/bin:/bin"}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *project.tests]
    done = subprocess.run(command, cwd=sources, env=variables, capture_output=True, text=True, timeout=900, check=False)
    last = (done.stdout.strip().splitlines() or [done.stderr[-200:]])[-1]
    return last.partition(" in ")[0]


def measure(name: str, before: str, after: str) -> None:
    """Print what both forms show and how long they take. Runs in the environment of the project."""
    from jsonrpc_fast import BACKEND

    if BACKEND != "cython":
        print(f"the backend is {BACKEND}")
    forms = [loaded(name, folder) for folder in (before, after)]
    drive, hot = (getattr(drives, f"{kind}_{name.replace('-', '_')}") for kind in ("drive", "hot"))
    seen = [json.loads(json.dumps(drive(form), default=str, sort_keys=True)) for form in forms]
    if seen[0] != seen[1]:
        pairs = [pair for pair in zip_longest(*seen) if pair[0] != pair[1]]
        print(f"DIFFERENT before and after: {str(pairs)[:1000]}")
    works = [hot(form) for form in forms]
    for path in works[0]:
        best = [float("inf"), float("inf")]
        number = 1
        end = time.process_time() + 2 * ROUNDS_SECONDS
        while time.process_time() < end:
            for place, work in enumerate(works):
                begin = time.process_time()
                for _ in range(number):
                    work[path]()
                spent = (time.process_time() - begin) / number
                best[place] = min(best[place], spent)
            number = max(number, min(int(0.01 / max(best[0], 1e-7)), 10_000))
        print(json.dumps({"path": path, "before": best[0], "after": best[1]}))


def loaded(name: str, folder: str) -> Any:
    """Import the module of a project from a folder, as if it were the only one."""
    module = drives.MODULES[name]
    sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
    finally:
        sys.path.remove(folder)
    for other in [other for other in sys.modules if other.partition(".")[0] == module.partition(".")[0]]:
        del sys.modules[other]
    return found


def check(project: Project, folder: Path) -> bool:
    """Port a project, and print a line for each fact. Return whether all is well."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    # Its requirements, but not the project: the sources in the two folders are what is run.
    subprocess.run(
        [*install, "wheel", "setuptools", f"{project.name}=={project.version}", *project.requires], check=True
    )
    subprocess.run([*install, str(ROOT)], check=True)
    subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", project.name], check=True)
    before = fetched(project, folder / "sources", python)
    after = folder / "port"
    gone, new = ported(project, before, after)
    print(f"{project.name} {project.version}: -{gone} +{new} lines", flush=True)
    is_well = new <= gone
    if project.tests:
        results = [tested(project, sources, python) for sources in (before, after)]
        is_well &= results[0] == results[1] and " failed" not in results[1]
        print(f"  its tests: before {results[0]}; after {results[1]}", flush=True)
    else:
        print("  its tests are not in the source distribution", flush=True)
    folders = [str(each / project.folder) for each in (before, after)]
    # The installed package comes first, and this folder last.
    code = f"import sys; sys.path.append({str(ROOT)!r}); import tests.dropin.__main__ as main"
    code += f"; main.measure({project.name!r}, *{folders!r})"
    done = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        print(done.stderr[-1500:])
        return False
    for line in done.stdout.splitlines():
        if not line.startswith("{"):
            print(f"  {line}")
            is_well = False
            continue
        found = json.loads(line)
        ratio = found["before"] / found["after"]
        is_well &= ratio >= SLOWER
        note = "" if ratio >= SLOWER else "  SLOWER"
        print(f"  {found['path']}: {found['before'] * 1e6:.2f} us, {found['after'] * 1e6:.2f} us: {ratio:.2f}{note}")
    return is_well


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names
    failed = []
    for project in PROJECTS:
        if names and project.name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                if not check(project, Path(folder)):
                    failed.append(project.name)
            except subprocess.CalledProcessError as error:
                print(f"{project.name}: {error}")
                failed.append(project.name)
    print("not as before: " + ", ".join(failed) if failed else "all are as before, and none is slower")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
