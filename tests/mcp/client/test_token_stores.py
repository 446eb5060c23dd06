"""Where tokens are kept: in files that only the user can read."""

from __future__ import annotations

import os
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


async def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    await store.save(URL, "x" * (MAX_RECORD_BYTES + 1))
    with pytest.raises(SignInError, match="is too large"):
        await store.load(URL)


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
