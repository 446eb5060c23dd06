"""Which files of a folder are templates, and which are skipped."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from jsonrpc_fast.mcp.templates import prompts as templates
from jsonrpc_fast.mcp.templates.prompts import TemplateFile, read_folder, stem_of

from ...support.tables import rows


@rows(
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
def test_a_name_without_its_suffixes(name: str, stem: str) -> None:
    assert stem_of(name) == stem


def test_mime_type_and_partials() -> None:
    assert TemplateFile("a.md.j2", "", (0, 0, 0)).mime_type == "text/markdown"
    assert TemplateFile("a.j2", "", (0, 0, 0)).mime_type == "text/plain"
    assert TemplateFile("_parts/a.md", "", (0, 0, 0)).is_partial
    assert not TemplateFile("a_b.md", "", (0, 0, 0)).is_partial


def test_skipped_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.txt").write_bytes("\ufeffé\r\n".encode())
    (tmp_path / "large.txt").write_bytes(b"x" * 101)
    (tmp_path / "full.txt").write_bytes(b"x" * 100)
    (tmp_path / "nul.txt").write_bytes(b"a\0b")
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    (tmp_path / "new\nline.txt").write_bytes(b"")
    (tmp_path / "folder.txt").mkdir()
    monkeypatch.setattr(templates, "MAX_FILE_BYTES", 100)
    folder = read_folder(tmp_path)
    assert {name: file.text for name, file in folder.files.items()} == {"good.txt": "é\r\n", "full.txt": "x" * 100}
    assert folder.skipped == {
        "large.txt": "it has more than 100 bytes",
        "nul.txt": "it contains NUL",
        "latin.txt": "it is not UTF-8",
        "new\nline.txt": "its name is not printable",
    }


@pytest.mark.skipif(sys.platform != "linux", reason="other systems reject such a name")
def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.txt", "wb"):
        pass
    assert list(read_folder(tmp_path).skipped.values()) == ["its name is not printable"]


def test_limits_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("x" * 10)
    with monkeypatch.context() as patch:
        patch.setattr(templates, "MAX_FILES", 3)
        folder = read_folder(tmp_path)
    assert list(folder.files) == ["0.txt", "1.txt", "2.txt"]
    assert folder.skipped == {"3.txt": "the folder has more than 3 templates; no more are read"}
    monkeypatch.setattr(templates, "MAX_FOLDER_BYTES", 25)
    folder = read_folder(tmp_path)
    assert list(folder.files) == ["0.txt", "1.txt"]
    assert folder.skipped == {"2.txt": "the templates have more than 25 bytes in total; no more are read"}


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a")
    before = read_folder(tmp_path).files
    assert read_folder(tmp_path, before).files["a.txt"] is before["a.txt"]
    os.utime(path, ns=(1, 1))
    assert read_folder(tmp_path, before).files["a.txt"] is not before["a.txt"]


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    folder = read_folder(tmp_path / "nothing")
    assert (folder.files, folder.skipped) == ({}, {})


@pytest.mark.skipif(not templates._CAN_OPEN_BY_PARTS, reason="this system opens files by whole paths only")
def test_a_link_inserted_after_the_check_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link exists when the file is opened, but not yet when its path is resolved."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a.txt").write_text("SECRET")
    (root / "sub").symlink_to(outside)
    (root / "a.txt").symlink_to(outside / "a.txt")
    monkeypatch.setattr(os.path, "realpath", lambda path: str(path))
    for name in ("a.txt", "sub/a.txt"):
        found = templates._read(str(root), name, str(root / name), None)
        assert isinstance(found, str)
        assert found.startswith("it cannot be opened")
