"""The installation of npm packages for the tests: once per run, with a time limit, and not if it is turned off."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .node import install

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the fake npm is a shell script")

FAILS = "echo 'npm error one' >&2; echo 'npm error the registry refused' >&2; exit 1"
WORKS = "mkdir node_modules"


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
    write_script(folder.parent / "bin" / "npm", f'echo "$@" >> "{folder}/calls"\n{text}')


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


def test_a_failure_is_remembered(folder: Path) -> None:
    fake_npm(folder, FAILS)
    assert skipped(folder) == "npm ci failed: npm error the registry refused"
    assert skipped(folder) == "npm ci failed: npm error the registry refused"
    assert len(calls(folder)) == 1


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
