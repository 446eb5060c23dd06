"""Fixtures for tests of `serve`: a folder of templates, and a server process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..support.serve_process import Process


@pytest.fixture(autouse=True)
def no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "greeting.txt").write_text("Hello {{ name }}")
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[Process]:
    process = Process(folder)
    yield process
    process.close()
