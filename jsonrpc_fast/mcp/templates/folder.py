"""A folder of text templates, read with care.

Rules:
  - A file counts if its name ends in one of SUFFIXES and no part of its path begins with ".". Its name here is its path
    inside the folder, with "/" between the parts.
  - Nothing outside the folder is read: links are resolved first, and what they lead to is opened part by part from
    the folder on, following no link, so that none can be put in between. Folders that are links are not entered.
  - What is no regular file, too large, no UTF-8 or has a NUL in it is skipped, and it is told why; neither are more
    files read, nor more bytes in all, than the limits allow.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SUFFIXES: Final = (".txt", ".md", ".prompt", ".j2", ".jinja", ".jinja2")

_ENTRIES: Final = 100_000  # of the folder, of any kind, that are looked at
_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_IN_FOLDERS: Final = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")


@dataclass(frozen=True, slots=True)
class FolderLimits:
    """How much of a folder is read.

    file_bytes    of one file
    files         in all
    folder_bytes  of all files together
    """

    file_bytes: int = 256 * 1024
    files: int = 1000
    folder_bytes: int = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """One file of the folder.

    name       its path inside the folder
    text       what is in it
    signature  what changes when the file does: its time, size and number
    """

    name: str
    text: str
    signature: tuple[int, int, int]

    @property
    def mime_type(self) -> str:
        stem = self.name
        while stem.endswith((".j2", ".jinja", ".jinja2")):
            stem = stem.rpartition(".")[0]
        return "text/markdown" if stem.endswith(".md") else "text/plain"

    @property
    def is_partial(self) -> bool:
        """Whether it is there to be included alone: a part of its path begins with "_"."""
        return any(part.startswith("_") for part in self.name.split("/"))


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder holds: the templates by name, sorted, and by name why a file is no template of it."""

    files: dict[str, TemplateFile]
    skipped: dict[str, str]


def stem_of(name: str) -> str:
    """A file's name without what tells that it is a template: "review" of "review.md.j2"."""
    stem = name
    while (suffix := next((suffix for suffix in SUFFIXES if stem.endswith(suffix)), None)) is not None:
        shorter = stem.removesuffix(suffix)
        if not shorter or shorter.endswith("/"):
            break
        stem = shorter
    return stem


def read_folder(directory: Path, limits: FolderLimits, known: Mapping[str, TemplateFile] | None = None) -> Folder:
    """The templates in a folder. A folder that is not there is empty.

    known  what was read before: a file that has not changed is not read again
    """
    root = os.path.realpath(directory)
    files: dict[str, TemplateFile] = {}
    skipped: dict[str, str] = {}
    size = 0
    for name, path in _candidates(root):
        if len(files) == limits.files:
            skipped[name] = f"there are more than {limits.files} files; this and the rest are left out"
            break
        file = _read(root, name, path, limits, (known or {}).get(name))
        if isinstance(file, str):
            skipped[name] = file
            continue
        size += file.signature[1]
        if size > limits.folder_bytes:
            skipped[name] = f"there are more than {limits.folder_bytes} bytes; this and the rest are left out"
            break
        files[name] = file
    return Folder(dict(sorted(files.items())), skipped)


def _candidates(root: str) -> Iterator[tuple[str, str]]:
    """The name and the path of each file that its name makes a template."""
    entries = 0
    for directory, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(names):
            entries += 1
            if entries > _ENTRIES:
                return
            if not file.startswith(".") and file.endswith(SUFFIXES):
                path = os.path.join(directory, file)
                yield os.path.relpath(path, root).replace(os.sep, "/"), path


def _read(root: str, name: str, path: str, limits: FolderLimits, known: TemplateFile | None) -> TemplateFile | str:
    """A file of the folder, or why it is no template."""
    if not name.isprintable():
        return "its name cannot be printed"
    target = os.path.realpath(path)
    if not Path(target).is_relative_to(root):
        return "it leads out of the folder"
    try:
        descriptor = _open(root, os.path.relpath(target, root).split(os.sep))
    except OSError as error:
        return f"it cannot be opened: {error.strerror}"
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return "it is no regular file"
        signature = (status.st_mtime_ns, status.st_size, status.st_ino)
        if known is not None and known.signature == signature:
            return known
        try:
            data = stream.read(limits.file_bytes + 1)
        except OSError as error:
            return f"it cannot be read: {error.strerror}"
    if len(data) > limits.file_bytes:
        return f"it has more than {limits.file_bytes} bytes"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "it is not UTF-8"
    return "it is no text" if "\0" in text else TemplateFile(name, text, signature)


def _open(root: str, parts: list[str]) -> int:
    """Opens a file of the folder for reading, following no link on the way. Raises OSError."""
    if not _IN_FOLDERS:
        return os.open(os.path.join(root, *parts), os.O_RDONLY | _FLAGS)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(parts[-1], os.O_RDONLY | _FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
