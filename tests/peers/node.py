"""The npm packages that some peers need, installed once for all tests next to their package.json.

    subprocess.run(node_command("some_client.mjs", "its argument"))

A test is skipped with the reason if Node, npm or the packages are not available. A failed installation is not repeated
by any worker of the same run. `JSONRPC_FAST_NPM=no` prevents it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ..support import needs

PEERS: Final = Path(__file__).resolve().parent
INSTALL_SECONDS: Final = 120
_MIN_NODE: Final = 20
_NPM_CI: Final = ("ci", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=30000")
# The workers of pytest-xdist share this name.
_RUN: Final = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Allow one installation at a time, across all test runs; without file locks, within one run."""
    with (folder / ".lock").open("w") as lock:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@functools.cache
def _node_fault(node: str) -> str | None:
    """Return why this Node cannot be used, or None."""
    run = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60)
    version = run.stdout.strip()
    if run.returncode or int(version.lstrip("v").partition(".")[0]) < _MIN_NODE:
        return f"Node {version} is older than {_MIN_NODE}"
    return None


def install(folder: Path = PEERS, seconds: float = INSTALL_SECONDS) -> str:
    """Install the packages of a folder if necessary, and return the Node that runs its scripts.

    Args:
        folder: The folder of package.json and package-lock.json.
        seconds: The time limit of npm. After that it is killed, with its child processes.

    Raises:
        pytest.skip.Exception: Node, npm or the packages are not available.
    """
    node, npm = needs.require("node"), needs.require("npm")
    fault = _node_fault(node)
    if fault is not None:
        pytest.skip(fault)
    wanted = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    stamp, failure = folder / "node_modules" / ".installed", folder / ".npm-failed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return node
    if not os.access(folder, os.W_OK):
        pytest.skip("the npm packages are not installed, and the source tree cannot be written")
    with _locked(folder):
        if stamp.is_file() and stamp.read_text() == wanted:
            return node
        if os.environ.get("JSONRPC_FAST_NPM", "").lower() in ("no", "0", "false"):
            pytest.skip("JSONRPC_FAST_NPM prevents npm")
        run, _, fault = failure.read_text().partition(" ") if failure.is_file() else ("", "", "")
        if run != _RUN:
            fault = _run_npm([npm, *_NPM_CI], folder, seconds) or ""
            failure.write_text(f"{_RUN} {fault}")
        if fault:
            pytest.skip(f"npm ci failed: {fault}")
        failure.unlink()
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(wanted)
    return node


def _run_npm(command: list[str], folder: Path, seconds: float) -> str | None:
    """Run npm, and return why it failed, in a line, or None."""
    with tempfile.TemporaryFile() as log:
        # npm has a session of its own, to kill its children too, and no pipe, which a child could hold open.
        npm = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            npm.wait(seconds)
        except BaseException as error:
            os.killpg(npm.pid, signal.SIGKILL) if hasattr(os, "killpg") else npm.kill()
            npm.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                return f"it took more than {seconds:g} s"
            raise
        if npm.returncode == 0:
            return None
        log.seek(0)
        lines = log.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {npm.returncode}")


def node_command(script: str, *arguments: str | os.PathLike[str]) -> list[str]:
    """Return the command that runs a script of tests/peers."""
    return [install(), str(PEERS / script), *map(os.fspath, arguments)]
