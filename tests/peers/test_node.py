"""The installation of npm packages for the tests: once per run, with a time limit, and not if it is switched off."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..support.places import ROOT
from . import venvs
from .node import install

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the fake npm is a shell script")

FAILS = "echo 'npm error one' >&2; echo 'npm error the registry refused' >&2; exit 1"
WORKS = "mkdir node_modules"
# A child that npm leaves running holds the FIFO open.
HANGS = "exec 3>alive; echo started >&3; sleep 600 & sleep 600"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with packages to install, and a fake Node on the path."""
    folder, programs = tmp_path / "peers", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    (folder / "package-lock.json").write_text("{}")
    write_script(programs / "node", "echo v22.1.0")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("JSONRPC_FAST_NPM", raising=False)
    return folder


def write_script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def fake_npm(folder: Path, text: str) -> None:
    write_script(folder.parent / "bin" / "npm", f'echo "$@" >> {folder}/calls\n{text}')


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def skipped(folder: Path, seconds: float = 30) -> str:
    with pytest.raises(pytest.skip.Exception) as caught:
        install(folder, seconds)
    return str(caught.value)


def test_packages_are_installed_once(folder: Path) -> None:
    fake_npm(folder, WORKS)
    node = str(folder.parent / "bin" / "node")
    assert install(folder) == install(folder) == node
    assert len(calls(folder)) == 1
    assert calls(folder)[0].startswith("ci ")
    (folder / "package-lock.json").write_text('{"other": 1}')
    fake_npm(folder, "true")
    assert install(folder) == node
    assert len(calls(folder)) == 2


def test_a_tree_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(folder, WORKS)
    may = os.access
    with monkeypatch.context() as patched:  # the mode of a folder does not stop root
        patched.setattr(os, "access", lambda path, mode: mode != os.W_OK and may(path, mode))
        assert "cannot be written" in skipped(folder)
        patched.setattr(venvs, "FOLDER", folder / ".venvs")
        with pytest.raises(pytest.skip.Exception, match="cannot be written"):
            venvs.python_of("fastmcp")
    assert calls(folder) == []
    node = install(folder)
    (folder / ".lock").unlink()
    (folder / ".lock").mkdir()  # what is installed needs no lock
    assert install(folder) == node


def test_a_failure_is_remembered(folder: Path) -> None:
    fake_npm(folder, FAILS)
    assert skipped(folder) == "npm ci failed: npm error the registry refused"
    assert skipped(folder) == "npm ci failed: npm error the registry refused"
    assert len(calls(folder)) == 1


@pytest.mark.slow
def test_a_failure_is_remembered_by_all_workers_and_by_no_other_run(folder: Path) -> None:
    fake_npm(folder, f"sleep 0.3; {FAILS}")
    script = (
        "import sys, pytest, pathlib\n"
        "from tests.peers.node import install\n"
        "try:\n"
        "    install(pathlib.Path(sys.argv[1]))\n"
        "except pytest.skip.Exception as skipped:\n"
        "    print(skipped)\n"
    )

    def worker(run: str) -> subprocess.Popen[str]:
        env = {**os.environ, "PYTEST_XDIST_TESTRUNUID": run}
        command = [sys.executable, "-c", script, str(folder)]
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)

    for run, expected in (("one", 1), ("other", 2)):
        workers = [worker(run) for _ in range(3)]
        outputs = [each.communicate(timeout=60)[0] for each in workers]
        assert outputs == 3 * ["npm ci failed: npm error the registry refused\n"]
        assert len(calls(folder)) == expected


@pytest.mark.slow
def test_a_hanging_npm_is_killed_with_its_children(folder: Path) -> None:
    os.mkfifo(folder / "alive")
    reader = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        fake_npm(folder, HANGS)
        began = time.monotonic()
        assert skipped(folder, 3) == "npm ci failed: it took more than 3 s"
        assert skipped(folder, 3) == "npm ci failed: it took more than 3 s"
        assert time.monotonic() - began < 30
        assert len(calls(folder)) == 1
        seen = b""
        while select.select([reader], [], [], 20)[0]:
            # The stream ends when no process can write: after `select` there is no BlockingIOError.
            part = os.read(reader, 100)
            seen += part
            if not part:
                break
        else:
            pytest.fail("a child of npm is alive")
        assert seen == b"started\n"
    finally:
        os.close(reader)


@pytest.mark.parametrize("value", ["no", "0", "False"])
def test_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    fake_npm(folder, WORKS)
    monkeypatch.setenv("JSONRPC_FAST_NPM", value)
    assert skipped(folder) == "JSONRPC_FAST_NPM prevents npm"
    assert calls(folder) == []
    monkeypatch.delenv("JSONRPC_FAST_NPM")
    install(folder)
    monkeypatch.setenv("JSONRPC_FAST_NPM", value)
    assert install(folder) == str(folder.parent / "bin" / "node")  # installed packages are used


def test_an_old_node(folder: Path) -> None:
    fake_npm(folder, WORKS)
    write_script(folder.parent / "bin" / "node", "echo v18.0.0")
    assert skipped(folder) == "Node v18.0.0 is older than 20"
    assert calls(folder) == []
