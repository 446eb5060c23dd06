"""Where tokens are kept: in files that only the user can read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jsonrpc_fast.errors import SignInError
from jsonrpc_fast.mcp.client.token_stores import MAX_RECORD_BYTES, FileStore, MemoryStore, TokenStore

from ...support.tables import rows

URL = "https://example.org/mcp"


@rows("kind", ["memory", "file"])
async def test_a_store_keeps_the_last_text_of_each_server(kind: str, tmp_path: Path) -> None:
    store: TokenStore = MemoryStore() if kind == "memory" else FileStore(tmp_path / "new" / kind)
    assert await store.load(URL) is None
    await store.save(URL, "first")
    await store.save(URL, "second é")
    await store.save(f"{URL}/other", "other")
    assert await store.load(URL) == "second é"
    if isinstance(store, FileStore):
        assert len(list(store.folder.iterdir())) == 2
        assert await FileStore(store.folder).load(URL) == "second é"


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
async def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    await store.save(URL, "secret")
    [path] = tmp_path.iterdir()
    path.chmod(0o640)
    with pytest.raises(SignInError, match="other users can read the tokens in"):
        await store.load(URL)


def a_large_file(path: Path) -> None:
    path.write_bytes(b"x" * (MAX_RECORD_BYTES + 1))
    path.chmod(0o600)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "large": (a_large_file, "is too large"),
    "a pipe": (lambda path: os.mkfifo(path, 0o600), "is not a file"),
    "a folder": (lambda path: path.mkdir(0o700), "is not a file"),
    "a loop": (lambda path: path.symlink_to(path), r"cannot be read: Too many levels of symbolic links"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is not a file"),
    "a shared folder": (lambda path: path.parent.chmod(0o777), r"other users can write to .*: it must belong to you"),
    "a folder of a group": (
        lambda path: path.parent.chmod(0o770),
        r"other users can write to .*: it must belong to you",
    ),
    "a folder that is a file": (
        lambda path: (path.parent.rmdir(), path.parent.touch(0o600)),
        "cannot be .*: Not a dir",
    ),
}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no pipes and no modes")
@rows("name", BROKEN)
async def test_what_is_no_file_of_the_user_is_refused(name: str, tmp_path: Path) -> None:
    store = FileStore(tmp_path / name)
    await store.save(URL, "")
    [path] = store.folder.iterdir()
    path.unlink()
    make, text = BROKEN[name]
    make(path)
    with pytest.raises(SignInError, match=text):
        await store.load(URL)
    if name in ("a shared folder", "a folder of a group", "a file"):
        with pytest.raises(SignInError, match=text):
            await store.save(URL, "secret")


@pytest.mark.skipif(os.name != "posix", reason="Windows has no owners")
async def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path)
    await store.save(URL, "secret")
    [path] = tmp_path.iterdir()
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(SignInError, match="other users can"):
        await store.load(URL)


async def test_a_text_that_could_not_be_read_again_is_not_kept(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    await store.save(URL, "x" * MAX_RECORD_BYTES)
    for text in ("x" * (MAX_RECORD_BYTES + 1), "é" * (MAX_RECORD_BYTES // 2 + 1)):
        with pytest.raises(SignInError, match="is larger than 262144 bytes"):
            await store.save(URL, text)
    assert await store.load(URL) == "x" * MAX_RECORD_BYTES


async def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    with pytest.raises(UnicodeEncodeError):
        await store.save(URL, "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_the_user_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    assert FileStore().folder == tmp_path / "jsonrpc_fast" / "tokens"
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, "relative")
    assert FileStore().folder.is_relative_to(Path.home())
