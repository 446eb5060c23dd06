"""The development commands: what is true of every session in the noxfile, of the workflows, and of a release."""

from __future__ import annotations

import importlib.util
import io
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tools import release, sanitized
from tools.nightly import NIGHTLY, scaled, unseeded
from tools.packages import FOR_TESTS, extras
from tools.programs import PROGRAMS

from ..support.places import ROOT
from ..support.tables import rows

pytestmark = pytest.mark.lint
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def sessions() -> Any:
    """The sessions of the noxfile, by name."""
    nox = pytest.importorskip("nox", reason="nox is not installed (group `dev`)")
    specification = importlib.util.spec_from_file_location("noxfile_under_test", ROOT / "noxfile.py")
    assert specification is not None
    assert specification.loader is not None
    specification.loader.exec_module(importlib.util.module_from_spec(specification))
    return nox.registry.get()


def names_of(nightly: list[tuple[str, ...]]) -> set[str]:
    return {name.partition("-")[0] for name, *_ in nightly}


def test_the_noxfile_stays_small(sessions: Any) -> None:
    assert len(sessions) <= 20
    assert len((ROOT / "noxfile.py").read_text().splitlines()) <= 300
    assert (ROOT / "noxfile.py").read_text().count(".create_tmp()") == 1  # its path is relative: see temporary_folder


def test_a_night_runs_what_there_is_and_the_workflow_runs_all_of_it(sessions: Any) -> None:
    assert len(set(NIGHTLY)) == len(NIGHTLY)
    assert names_of(NIGHTLY) <= {*sessions, *PROGRAMS}
    workflow = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    [block] = re.findall(r"sessions:\n((?: {10}- .*\n)+)", workflow)
    assert set(block.replace("-", " ").split()) == names_of(NIGHTLY)


def test_a_shorter_night_runs_the_same_rows_for_less_time() -> None:
    assert scaled(["fuzz", "--seconds", "3600", "--seed", "7"], 0.1) == ["fuzz", "--seconds", "360", "--seed", "7"]
    assert scaled(["build"], 0.1) == ["build"]


def test_a_row_is_the_same_with_the_seed_of_another_day() -> None:
    assert unseeded(["fuzz", "--seconds", "60", "--seed", "7"]) == unseeded(["fuzz --seconds 60 --seed 20261130"])
    assert unseeded(["fuzz", "--seconds", "60", "--seed", "7"]) != unseeded(["fuzz", "--seconds", "61", "--seed", "7"])
    assert len({*map(unseeded, NIGHTLY)}) == len(NIGHTLY)


def test_each_program_is_there() -> None:
    for command in PROGRAMS.values():
        modules = [word for word in command if "." in word and "=" not in word and not word.endswith(".py")]
        for module in modules:
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module


def test_each_target_of_the_sanitizers_is_a_fuzz_target() -> None:
    pytest.importorskip("jsonrpc_fast.codec._core", exc_type=ImportError)
    from ..fuzz.__main__ import load_targets

    assert {*sanitized.TARGETS} - {"differential"} <= {*load_targets()}


def test_nothing_runs_a_failed_test_again() -> None:
    """A rerun would hide a test that fails sometimes."""
    places = [ROOT / "noxfile.py", ROOT / "pyproject.toml", ROOT / ".ci" / "run", *(ROOT / ".github").rglob("*.yml")]
    for place in filter(Path.exists, places):  # the sources of a release lack some
        assert re.findall(r"rerun|flaky|--lf\b|--last-failed", place.read_text()) == [], place


def test_nothing_without_a_version_is_installed_beside_the_token_and_tools_have_hashes() -> None:
    publish = (ROOT / ".github" / "workflows" / "release.yml").read_text().partition("\n  publish:")[2]
    assert "id-token: write" in publish
    assert "run:" not in publish
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for command in re.findall(r"pip install (.*)", path.read_text()):
            assert command in ("--require-hashes -r tools/requirements.txt", '--system -e ".[test]" --group dev'), path
    wanted = re.findall(r"^[\w-]+", (ROOT / "tools" / "requirements.in").read_text(), re.MULTILINE)
    locked = (ROOT / "tools" / "requirements.txt").read_text()
    assert len(wanted) > 8
    for name in wanted:
        assert re.search(rf"^{name.lower()}==\S+ .*\\\n    --hash=sha256:", locked, re.MULTILINE), name


def test_only_a_pushed_tag_is_published_and_the_list_of_its_contents_has_no_tools_of_tests() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    check, _, publish = text.partition("\n  check:")[2].partition("\n  publish:")
    assert "if: github.event_name == 'push'" in check  # a run by hand may be on a tag, too
    assert "needs: check" in publish
    assert f"--all-extras --no-extra {FOR_TESTS} --no-dev" in check


def test_the_extras_and_groups_agree() -> None:
    """The test extra has what the adapters adapt, and the extras that users install."""
    optional, groups = PROJECT["project"]["optional-dependencies"], PROJECT["dependency-groups"]
    assert len(optional) <= 14
    assert set(groups["adapters"]) <= set(optional["test"])
    [own] = [text for text in optional["test"] if text.startswith("jsonrpc_fast[")]
    reached = set(own.removeprefix("jsonrpc_fast[").removesuffix("]").split(","))
    reached |= {name for text in optional["mcp-http"] for name in re.findall(r"\w+", text.partition("[")[2])}
    assert reached == set(extras().split(","))


# A release.

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


def test_a_release_is_checked_by_what_its_files_are() -> None:
    for file, part in RELEASED.items():
        assert release.part(file) == part
        assert part in release.parts("1.2")
    assert release.part("jsonrpc_fast-1.2-cp311-cp311-linux_x86_64.whl") not in release.parts("1.2")
    for file in ("other-1.2.tar.gz", "jsonrpc_fast-1.2-cp311-abi3-win_amd64.whl", "jsonrpc_fast-1.2.tar.gz.asc"):
        assert release.part(file) == file


def test_cibuildwheel_builds_the_wheels_of_a_release() -> None:
    settings = PROJECT["tool"]["cibuildwheel"]
    assert settings["build"].split() == [f"{python}-*" for python in release.PYTHONS]
    frontend = {"name": "build", "args": ["--dependency-constraints-txt", "tools/requirements.txt"]}
    assert settings["build-frontend"] == frontend  # without it, with the newest tools of the day, and without hashes
    architectures = {system: settings[system]["archs"] for system in ("linux", "macos", "windows")}
    assert architectures == {
        "linux": ["x86_64", "aarch64"],
        "macos": ["x86_64", "arm64"],
        "windows": ["AMD64", "ARM64"],
    }
    classified = [text for text in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", text)]
    assert [f"cp{text.rpartition(' ')[2].replace('.', '')}" for text in classified] == list(release.PYTHONS[:-1])


def write_release(folder: Path, date: str = "2026-11-29") -> list[Path]:
    """Write a whole release of version 1.2, whose wheels have nothing but metadata, and whose sources only changes."""
    systems = {"manylinux": "manylinux_2_28", "musllinux": "musllinux_1_2", "macosx": "macosx_11_0", "win": "win"}
    names = ["jsonrpc_fast-1.2.tar.gz", "jsonrpc_fast-1.2-py3-none-any.whl"]
    for python in release.PYTHONS:
        for platform in release.PLATFORMS:
            system, _, architecture = platform.partition("_")
            names.append(f"jsonrpc_fast-1.2-{python[:5]}-{python}-{systems[system]}_{architecture}.whl")
    for name in names:
        if name.endswith(".whl"):
            write_wheel(folder / name, "" if "cp314t" in name else "Requires-Dist: orjson>=3\nDynamic: requires-dist\n")
        else:
            text = f"# Changelog\n\n## 1.2 ({date})\n".encode()
            member = tarfile.TarInfo("jsonrpc_fast-1.2/CHANGELOG.md")
            member.size = len(text)
            with tarfile.open(folder / name, "w:gz") as archive:
                archive.addfile(member, io.BytesIO(text))
    return [folder / name for name in names]


def write_wheel(path: Path, more: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("jsonrpc_fast-1.2.dist-info/METADATA", f"Name: jsonrpc_fast\n{more}Requires-Python: >=3.11\n")


def test_a_whole_release_and_ones_with_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write_release(tmp_path)
    assert release.main("v1.2", str(tmp_path)) == 0
    assert capsys.readouterr().out == "all 42 parts of v1.2 are there, and say the same\n"
    write_wheel(files[-1], "")
    assert release.faults("v1.2", [*files, Path("notes.txt")])[0] == "not a part of the release: notes.txt"
    files.remove(tmp_path / "jsonrpc_fast-1.2-py3-none-any.whl")
    write_wheel(files[2], "")
    write_wheel(files[-1], "Requires-Dist: orjson>=3\n")
    write_wheel(files[3], "Requires-Dist: orjson>=3\nRequires-Dist: other\n")
    assert release.faults("v1.2", files) == [
        "missing: 1.2 py3-any",
        f"its metadata differ: {files[3].name}",
        f"it does not require orjson: {files[2].name}",
        f"it requires orjson: {files[-1].name}",
    ]


@rows(
    ("more", "said"),
    [
        (
            "Project-URL: Homepage, https://example.org/jsonrpc_fast\n",
            "the address of the project is the placeholder of setup.py",
        ),
        (
            "Description: An MCP server (`pip install '.[mcp]'`)\n",
            "the README installs from a clone: '.[...]' becomes 'jsonrpc_fast[...]', in the docs, too",
        ),
    ],
)
def test_a_release_that_is_still_that_of_a_clone_is_refused(more: str, said: str, tmp_path: Path) -> None:
    for file in (files := write_release(tmp_path)):
        if file.suffix == ".whl":
            write_wheel(file, f"{'' if 'cp314t' in file.name else 'Requires-Dist: orjson>=3' + chr(10)}{more}")
    assert release.faults("v1.2", files) == [said]


def test_a_release_whose_changes_have_no_date_is_refused(tmp_path: Path) -> None:
    files = write_release(tmp_path, date="unreleased")
    assert release.faults("v1.2", files) == ["CHANGELOG.md has no `## 1.2 (YYYY-MM-DD)`"]
