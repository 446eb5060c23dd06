"""The development commands: what holds for every session of the noxfile."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ..support.places import ROOT

pytest.importorskip("nox")


class Session:
    """A session of nox with its default folder of environments, which is relative."""

    def create_tmp(self) -> str:
        return ".nox/build/tmp"


def test_temporary_folders_stay_valid_when_a_session_changes_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / "noxfile.py"
    specification = importlib.util.spec_from_file_location("noxfile_under_test", path)
    assert specification is not None
    assert specification.loader is not None
    noxfile = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(noxfile)
    monkeypatch.chdir(tmp_path)
    assert noxfile.temporary_folder(Session()) == tmp_path / ".nox" / "build" / "tmp"
    assert path.read_text().count(".create_tmp()") == 1  # no session takes the relative path
