"""Environments of packages that some peers need in another release than the tests, made once.

A test is skipped with the reason if an environment cannot be made. `JSONRPC_FAST_PIP=no` prevents it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).resolve().parent / ".venvs"
_FAST_UVICORN: Final = ("httptools", "uvloop; os_name != 'nt'")  # benchmarks compare servers under the same uvicorn
REQUIREMENTS: Final = {
    "sdk1": ["mcp>=1.27,<2", *_FAST_UVICORN],
    "fastmcp": ["fastmcp>=4", *_FAST_UVICORN],
    "languages": ["debugpy", "jedi-language-server", "pyright", "python-lsp-server", "ruff"],
    "langchain": ["langchain-mcp-adapters>=0.3"],
    "openai-agents": ["openai-agents>=0.20"],
    "mcp-use": ["mcp-use>=1.7"],
    "pydantic-ai": ["pydantic-ai-slim[mcp]>=2"],
    "servers": ["mcp-server-fetch>=2026.6", "mcp-server-git>=2026.6", "mcp-server-time>=2026.6"],
}
INSTALL_SECONDS: Final = 600


def python_of(name: str) -> str:
    """Return the Python of an environment, and make the environment if necessary.

    Args:
        name: A name in REQUIREMENTS.

    Raises:
        pytest.skip.Exception: The environment cannot be made.
    """
    wanted = " ".join(REQUIREMENTS[name])
    folder = FOLDER / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp, failure = folder / ".installed", FOLDER / f".{name}-failed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return str(python)
    if not os.access(FOLDER if FOLDER.exists() else FOLDER.parent, os.W_OK):
        pytest.skip(f"there is no environment with {wanted}, and the source tree cannot be written")
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_text() == wanted:
            return str(python)
        if os.environ.get("JSONRPC_FAST_PIP", "").lower() in ("no", "0", "false"):
            pytest.skip("JSONRPC_FAST_PIP prevents pip")
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
        if failure.is_file() and failure.read_text() == run:
            pytest.skip(f"{wanted} could not be installed")
        install = ("-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check", *REQUIREMENTS[name])
        try:
            venv.create(folder, clear=True, with_pip=True)
            subprocess.run(
                [str(python), *install], check=True, capture_output=True, timeout=INSTALL_SECONDS, cwd=FOLDER
            )
        except (OSError, subprocess.SubprocessError):
            failure.write_text(run)
            pytest.skip(f"{wanted} could not be installed")
        stamp.write_text(wanted)
    return str(python)


def sources_of(name: str) -> Path:
    """Return the folder with the sources, from its release, of the package that an environment is named after.

    Raises:
        pytest.skip.Exception: The environment cannot be made, or the sources cannot be downloaded.
    """
    code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    done = subprocess.run([python_of(name), "-c", code, name], capture_output=True, text=True, check=True, timeout=60)
    release = f"{name}=={done.stdout.strip()}"
    folder = FOLDER / f"{name}-sources" / release
    if not folder.is_dir():
        options = ["-q", "--no-deps", "--no-binary", ":all:", "-d", str(folder.parent)]
        download = [sys.executable, "-m", "pip", "download", *options, release]
        try:
            subprocess.run(download, check=True, capture_output=True, timeout=INSTALL_SECONDS)
        except subprocess.SubprocessError:
            pytest.skip(f"the sources of {release} could not be downloaded")
        with tarfile.open(next(folder.parent.glob("*.tar.gz"))) as files:
            files.extractall(folder, filter="data")
    [sources] = folder.iterdir()
    return sources


def python_for(package: str) -> str:
    """Return the Python that has a package: that of the tests for "sdk2", otherwise that of an environment."""
    return sys.executable if package == "sdk2" else python_of(package)
