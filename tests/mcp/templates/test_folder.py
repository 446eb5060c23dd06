"""What is read of a folder. The rest of it is in test_mcp_prompts.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from jsonrpc_fast.mcp.templates import folder as templates
from jsonrpc_fast.mcp.templates.folder import FolderLimits, TemplateFile, read_folder, stem_of


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("review.md.j2", "review"),
        ("sub/review.txt", "sub/review"),
        ("v1.2.txt", "v1.2"),
        ("a.py.jinja", "a.py"),
        ("sub/.txt.md", "sub/.txt"),
        ("plain", "plain"),
    ],
)
def test_stem(name: str, stem: str) -> None:
    assert stem_of(name) == stem


def test_mime_type_and_partials() -> None:
    assert TemplateFile("a.md.j2", "", (0, 0, 0)).mime_type == "text/markdown"
    assert TemplateFile("a.j2", "", (0, 0, 0)).mime_type == "text/plain"
    assert TemplateFile("_parts/a.md", "", (0, 0, 0)).is_partial
    assert not TemplateFile("a_b.md", "", (0, 0, 0)).is_partial


def test_what_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_bytes("\ufeffé\r\n".encode())
    (tmp_path / "large.txt").write_bytes(b"x" * 101)
    (tmp_path / "full.txt").write_bytes(b"x" * 100)
    (tmp_path / "nul.txt").write_bytes(b"a\0b")
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    (tmp_path / "new\nline.txt").write_bytes(b"")
    (tmp_path / "folder.txt").mkdir()
    folder = read_folder(tmp_path, FolderLimits(file_bytes=100))
    assert {name: file.text for name, file in folder.files.items()} == {"good.txt": "é\r\n", "full.txt": "x" * 100}
    assert folder.skipped == {
        "large.txt": "it has more than 100 bytes",
        "nul.txt": "it is no text",
        "latin.txt": "it is not UTF-8",
        "new\nline.txt": "its name cannot be printed",
    }


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a name")
def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.txt", "wb"):
        pass
    assert list(read_folder(tmp_path, FolderLimits()).skipped.values()) == ["its name cannot be printed"]


def test_limits_of_a_folder(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("x" * 10)
    folder = read_folder(tmp_path, FolderLimits(files=3))
    assert (list(folder.files), list(folder.skipped)) == (["0.txt", "1.txt", "2.txt"], ["3.txt"])
    folder = read_folder(tmp_path, FolderLimits(folder_bytes=25))
    assert (list(folder.files), list(folder.skipped)) == (["0.txt", "1.txt"], ["2.txt"])


def test_what_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a")
    before = read_folder(tmp_path, FolderLimits()).files
    assert read_folder(tmp_path, FolderLimits(), before).files["a.txt"] is before["a.txt"]
    os.utime(path, ns=(1, 1))
    assert read_folder(tmp_path, FolderLimits(), before).files["a.txt"] is not before["a.txt"]


def test_no_folder_is_empty(tmp_path: Path) -> None:
    folder = read_folder(tmp_path / "nothing", FolderLimits())
    assert (folder.files, folder.skipped) == ({}, {})


@pytest.mark.skipif(not templates._IN_FOLDERS, reason="this system opens by the whole path alone")
def test_a_link_put_in_between_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link is there when the file is opened, but not when it was looked at."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a.txt").write_text("SECRET")
    (root / "sub").symlink_to(outside)
    (root / "a.txt").symlink_to(outside / "a.txt")
    monkeypatch.setattr(os.path, "realpath", lambda path: str(path))
    limits = FolderLimits()
    for name in ("a.txt", "sub/a.txt"):
        found = templates._read(str(root), name, str(root / name), limits, None)
        assert isinstance(found, str)
        assert found.startswith("it cannot be opened")
