"""The npm packages that some peers of the tests need: installed once for all tests, beside their package.json.

    subprocess.run(node_command("some_client.mjs", "its argument"))

A test is skipped, and says why, where Node or npm is missing, or where the packages cannot be had.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

PEERS: Final = Path(__file__).resolve().parent
INSTALL_SECONDS: Final = 240
_LEAST_NODE: Final = 20
_STAMP: Final = PEERS / "node_modules" / ".installed"


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """One installation at a time, of however many test runs. Where there are no file locks, of one run."""
    with (PEERS / ".lock").open("w") as lock:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install() -> str:
    """What runs the scripts of tests/peers, with their packages in place. Skips the test where it cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("Node or npm is not installed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").partition(".")[0]) < _LEAST_NODE:
        pytest.skip(f"Node {version} is older than {_LEAST_NODE}")
    wanted = hashlib.sha256((PEERS / "package-lock.json").read_bytes()).hexdigest()
    with _locked():
        if not _STAMP.is_file() or _STAMP.read_text() != wanted:
            command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            run = subprocess.run(command, cwd=PEERS, capture_output=True, text=True, timeout=INSTALL_SECONDS)
            if run.returncode:
                pytest.skip(f"npm ci failed: {(run.stderr.strip().splitlines() or ['no reason given'])[-1]}")
            _STAMP.write_text(wanted)
    return node


def node_command(script: str, *arguments: str | os.PathLike[str]) -> list[str]:
    """The command that runs a script of tests/peers."""
    return [install(), str(PEERS / script), *map(os.fspath, arguments)]
