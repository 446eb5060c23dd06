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
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final, Protocol

from ...errors import SignInError
from ...support import on_failure

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_SECONDS: Final = 60.0
"""How long a client waits for another one that refreshes the tokens of the same file."""
_LOOK_SECONDS: Final = 0.05
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

    def lock(self, server: str) -> contextlib.AbstractAsyncContextManager[object]:
        """Return a context in which no other client of the store refreshes the tokens for a server.

        A store that only one client uses may return `contextlib.nullcontext()`.
        """
        ...


class MemoryStore:
    """A store that ends with the process."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def lock(self, server: str) -> asyncio.Lock:
        return self._locks.setdefault(server, asyncio.Lock())

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

    @contextlib.asynccontextmanager
    async def lock(self, server: str) -> AsyncIterator[None]:
        """Hold the lock of a server's file, which is one of the system: it ends with the process.

        Raises:
            SignInError: Another program holds it for more than LOCK_SECONDS, or the folder cannot be used.
        """
        path = self._path(server).with_suffix(".lock")
        with _explained(f"{path} cannot be written"):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            number = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            for _ in range(round(LOCK_SECONDS / _LOOK_SECONDS)):
                if _is_locked(number):
                    break
                # Not in a thread: a thread that waits for a lock cannot be interrupted.
                await asyncio.sleep(_LOOK_SECONDS)
            else:
                raise SignInError(f"another program has been refreshing the tokens for {LOCK_SECONDS:g} s: {path}")
            yield
        finally:
            os.close(number)

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


def _is_locked(number: int) -> bool:
    """Lock an open file if no other process, nor another open file of this one, has locked it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


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
