"""Stores for the OAuth tokens of a client between connections.

    connect(url, auth=oauth.browser(store=MemoryStore()))

A store may be any object with the methods of `TokenStore`, such as one that uses the system's keyring.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from ...errors import SignInError
from ...handlers.failures import on_failure

MAX_RECORD_BYTES: Final = 256 * 1024
"""Maximum size of the string for a server."""


class TokenStore(Protocol):
    """Keeps a string for each server. The string contains secrets: tokens, and the registration of the client."""

    async def load(self, server: str) -> str | None:
        """Return the string for a server, or None.

        Args:
            server: The URL of the server.
        """
        ...

    async def save(self, server: str, text: str) -> None:
        """Keep the string for a server, and replace the previous one."""
        ...


class MemoryStore:
    """A store that ends with the process."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def load(self, server: str) -> str | None:
        return self._texts.get(server)

    async def save(self, server: str, text: str) -> None:
        self._texts[server] = text


class FileStore:
    """A store with a file for each server, which only the user can read.

    Args:
        folder: The folder of the files, made if necessary; None: `jsonrpc_fast/tokens` in the user's folder for state
            ($XDG_STATE_HOME, or ~/.local/state; on Windows %LOCALAPPDATA%).

    Attributes:
        folder: The folder of the files.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder: Path = _default_folder() if folder is None else Path(folder)

    async def load(self, server: str) -> str | None:
        """Return the string for a server, or None.

        Raises:
            SignInError: Other users can read the file or write to the folder, or it is not a file, is too large, or
                cannot be read.
        """
        return await asyncio.to_thread(self._load, self._path(server))

    async def save(self, server: str, text: str) -> None:
        """Keep the string for a server, and replace the previous one.

        Raises:
            SignInError: It is too large, other users can write to the folder, or it cannot be written.
        """
        await asyncio.to_thread(self._save, self._path(server), text.encode())

    def _path(self, server: str) -> Path:
        # Hashed: a URL has characters that are not allowed in file names, and may contain data that a listing must not
        # show.
        return self.folder / f"{hashlib.sha256(server.encode()).hexdigest()[:32]}.json"

    def _load(self, path: Path) -> str | None:
        with _explained(f"{path} cannot be read"):
            try:
                self._check_folder()
                status = path.stat()
            except FileNotFoundError:
                return None
            if not stat.S_ISREG(status.st_mode):
                raise SignInError(f"{path} is not a file: remove it, and sign in again")
            if _is_shared(status, 0o077):
                raise SignInError(f"other users can read the tokens in {path}: delete the file, and sign in again")
            with path.open("rb") as file:
                # One byte more than the limit shows that there is more, without reading all of it.
                data = file.read(MAX_RECORD_BYTES + 1)
            if len(data) > MAX_RECORD_BYTES:
                raise SignInError(f"{path} is too large: delete it, and sign in again")
            return data.decode(errors="replace")

    def _save(self, path: Path, data: bytes) -> None:
        if len(data) > MAX_RECORD_BYTES:
            raise SignInError(f"the record for the server is larger than {MAX_RECORD_BYTES} bytes")
        with _explained(f"{path} cannot be written"):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            # A new file replaces the old one, so that a reader never finds half a record, even after a crash.
            number, name = tempfile.mkstemp(dir=self.folder)  # with the mode 0600
            with on_failure(lambda: os.unlink(name)):
                with open(number, "wb") as file:
                    file.write(data)
                os.replace(name, path)

    def _check_folder(self) -> None:
        """Check that other users cannot put files into the folder."""
        if _is_shared(self.folder.stat(), 0o022):
            raise SignInError(f"other users can write to {self.folder}: it must belong to you and have the mode 700")


@contextlib.contextmanager
def _explained(text: str) -> Iterator[None]:
    """Raise SignInError in place of an OSError, with an explanation for the user."""
    try:
        yield
    except OSError as error:
        raise SignInError(f"{text}: {error.strerror}") from error


def _is_shared(status: os.stat_result, rights: int) -> bool:
    """Return whether other users have rights to a file, or own it. Windows has no such rights."""
    return os.name == "posix" and (bool(status.st_mode & rights) or status.st_uid not in (0, os.geteuid()))


def _default_folder() -> Path:
    name, other = ("LOCALAPPDATA", "AppData/Local") if sys.platform == "win32" else ("XDG_STATE_HOME", ".local/state")
    given = os.environ.get(name, "")
    base = Path(given) if os.path.isabs(given) else Path.home() / other
    return base / "jsonrpc_fast" / "tokens"
