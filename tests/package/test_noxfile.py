"""The development commands: what is true of every session in the noxfile."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from ..support.places import ROOT

pytestmark = pytest.mark.lint

nox = pytest.importorskip("nox", reason="nox is not installed (extra `dev`)")


class Session:
    """A session of nox with its default folder of environments, which is relative."""

    def __init__(self) -> None:
        self.env: dict[str, str] = {}

    def create_tmp(self) -> str:
        self.env["TMPDIR"] = str(Path(".nox/build/tmp").absolute())
        return ".nox/build/tmp"


@pytest.fixture(scope="module")
def noxfile() -> Any:
    specification = importlib.util.spec_from_file_location("noxfile_under_test", ROOT / "noxfile.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_temporary_folders_stay_valid_when_a_session_changes_directory(
    noxfile: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session()
    assert noxfile.temporary_folder(session) == tmp_path / ".nox" / "build" / "tmp"
    assert session.env == {}
    assert (ROOT / "noxfile.py").read_text().count(".create_tmp()") == 1  # no session takes the relative path


RELEASED = {
    "jsonrpc_fast-1.2.tar.gz": "1.2 sources",
    "jsonrpc_fast-1.2-py3-none-any.whl": "1.2 py3-any",
    "jsonrpc_fast-1.2-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl": "1.2 cp311-manylinux_x86_64",
    "jsonrpc_fast-1.2-cp314-cp314t-manylinux_2_28_aarch64.whl": "1.2 cp314t-manylinux_aarch64",
    "jsonrpc_fast-1.2-cp311-cp311-musllinux_1_2_x86_64.whl": "1.2 cp311-musllinux_x86_64",
    "jsonrpc_fast-1.2-cp312-cp312-macosx_10_13_x86_64.whl": "1.2 cp312-macosx_x86_64",
    "jsonrpc_fast-1.2-cp313-cp313-macosx_11_0_arm64.whl": "1.2 cp313-macosx_arm64",
    "jsonrpc_fast-1.2-cp314-cp314-win_amd64.whl": "1.2 cp314-win_amd64",
    "jsonrpc_fast-1.2-cp314-cp314-win_arm64.whl": "1.2 cp314-win_arm64",
}


def test_a_release_is_checked_by_what_its_files_are(noxfile: Any) -> None:
    for file, part in RELEASED.items():
        assert noxfile.release_part(file) == part
        assert part in noxfile.release_parts("1.2")
    assert noxfile.release_part("jsonrpc_fast-1.2-cp311-cp311-linux_x86_64.whl") not in noxfile.release_parts("1.2")
    for file in ("other-1.2.tar.gz", "jsonrpc_fast-1.2-cp311-abi3-win_amd64.whl", "jsonrpc_fast-1.2.tar.gz.asc"):
        assert noxfile.release_part(file) == file


def test_a_night_runs_sessions_that_there_are_and_the_workflow_runs_all_of_them(noxfile: Any) -> None:
    names = [name for name, *_ in noxfile.NIGHTLY]
    assert len(set(names)) == len(names)
    assert {name.partition("-")[0] for name in names} <= set(nox.registry.get())
    workflow = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    [block] = re.findall(r"sessions:\n((?: {10}- .*\n)+)", workflow)
    assert set(block.replace("-", " ").split()) == {name.partition("-")[0] for name in names}


def test_nothing_runs_a_failed_test_again() -> None:
    """A rerun would hide a test that fails sometimes."""
    places = [ROOT / "noxfile.py", ROOT / "pyproject.toml", ROOT / ".ci" / "run", *(ROOT / ".github").rglob("*.yml")]
    for place in filter(Path.exists, places):  # the sources of a release lack some
        assert re.findall(r"rerun|flaky|--lf\b|--last-failed", place.read_text()) == [], place


def test_every_bound_of_the_package_is_installed_by_the_session_for_the_lowest_versions(noxfile: Any) -> None:
    found = noxfile.lowest_versions()
    assert "orjson==3.11.7" in found
    project = nox.project.load_toml(ROOT / "pyproject.toml")["project"]
    extras = project["optional-dependencies"]
    needed = {
        re.split(r"[^\w.-]", text)[0]
        for name, texts in {**extras, "": ["orjson"]}.items()
        if name not in noxfile.FOR_DEVELOPMENT
        for text in texts
    }
    assert {line.partition("==")[0] for line in found} == needed - {"jsonrpc_fast"}
