"""Reads the text templates in a folder, and never a file outside it.

Rules:
  - A template is a file whose name ends in one of SUFFIXES and whose path has no part that begins with ".". Its name is
    its path inside the folder, with "/" between the parts.
  - Links are resolved first. The target is then opened folder by folder, following no link, so that a link inserted in
    between cannot lead outside. Linked folders are not entered.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SUFFIXES: Final = (".txt", ".md", ".prompt", ".j2", ".jinja", ".jinja2")

MAX_FILE_BYTES: Final = 256 * 1024
"""Maximum size of one file."""
MAX_FILES: Final = 1000
"""Maximum number of templates."""
MAX_FOLDER_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of all templates together."""

_OPEN_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_CAN_OPEN_BY_PARTS: Final = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """One template of the folder.

    Attributes:
        name: The path of the file inside the folder.
        text: The contents of the file.
        signature: The file's modification time, size and inode number: it differs when the file has changed.
    """

    name: str
    text: str
    signature: tuple[int, int, int]

    @property
    def mime_type(self) -> str:
        """The type of the rendered text: Markdown for `.md`, otherwise plain text."""
        stem = self.name
        while stem.endswith((".j2", ".jinja", ".jinja2")):
            stem = stem.rpartition(".")[0]
        return "text/markdown" if stem.endswith(".md") else "text/plain"

    @property
    def is_partial(self) -> bool:
        """Whether it only exists to be included by other templates: a part of its path begins with "_"."""
        return any(part.startswith("_") for part in self.name.split("/"))


@dataclass(frozen=True, slots=True)
class Folder:
    """The contents of a folder.

    Attributes:
        files: The templates by name, sorted.
        skipped: The reasons why files are not templates, by name.
    """

    files: dict[str, TemplateFile]
    skipped: dict[str, str]


def stem_of(name: str) -> str:
    """Return the name of a file without its template suffixes: "review" for "review.md.j2"."""
    stem = name
    while (suffix := next((suffix for suffix in SUFFIXES if stem.endswith(suffix)), None)) is not None:
        shorter = stem.removesuffix(suffix)
        if not shorter or shorter.endswith("/"):
            break
        stem = shorter
    return stem


def read_folder(directory: Path, known: Mapping[str, TemplateFile] | None = None) -> Folder:
    """Read the templates in a folder. A missing folder is empty.

    Args:
        directory: The folder.
        known: The templates that were read before: an unchanged file is not read again.
    """
    # Resolved once: the folder itself may be a link.
    root = os.path.realpath(directory)
    files: dict[str, TemplateFile] = {}
    skipped: dict[str, str] = {}
    size = 0
    for name, path in _candidates(root):
        if len(files) == MAX_FILES:
            skipped[name] = f"the folder has more than {MAX_FILES} templates; no more are read"
            break
        file = _read(root, name, path, (known or {}).get(name))
        if isinstance(file, str):
            skipped[name] = file
            continue
        size += file.signature[1]
        # Bounded, because all texts are kept in memory, here and in each rendering process.
        if size > MAX_FOLDER_BYTES:
            skipped[name] = f"the templates have more than {MAX_FOLDER_BYTES} bytes in total; no more are read"
            break
        files[name] = file
    return Folder(dict(sorted(files.items())), skipped)


def _candidates(root: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the path of each file with the name of a template."""
    entries = 0
    for directory, folders, names in os.walk(root):
        # Sorted, so that a limit always leaves out the same files. Hidden folders contain no templates: `.git` may
        # contain thousands of files.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for file in sorted(names):
            entries += 1
            # Entries of any kind.
            if entries > 100_000:
                return
            if not file.startswith(".") and file.endswith(SUFFIXES):
                path = os.path.join(directory, file)
                yield os.path.relpath(path, root).replace(os.sep, "/"), path


def _read(root: str, name: str, path: str, known: TemplateFile | None) -> TemplateFile | str:
    """Return the template in a file, or why the file is not one."""
    # The name becomes a part of a URI, and of lines in a log.
    if not name.isprintable():
        return "its name is not printable"
    target = os.path.realpath(path)
    if not Path(target).is_relative_to(root):
        return "it is a link to a file outside the folder"
    try:
        # A folder in the path may have become a link since the path was resolved.
        descriptor = _open(root, os.path.relpath(target, root).split(os.sep))
    except OSError as error:
        return f"it cannot be opened: {error.strerror}"
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return "it is not a regular file"
        signature = (status.st_mtime_ns, status.st_size, status.st_ino)
        if known is not None and known.signature == signature:
            return known
        try:
            # One byte more than the limit shows that the file is too large.
            data = stream.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            return f"it cannot be read: {error.strerror}"
    if len(data) > MAX_FILE_BYTES:
        return f"it has more than {MAX_FILE_BYTES} bytes"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "it is not UTF-8"
    return "it contains NUL" if "\0" in text else TemplateFile(name, text, signature)


def _open(root: str, parts: list[str]) -> int:
    """Open a file of the folder for reading, following no link. Raises OSError."""
    if not _CAN_OPEN_BY_PARTS:
        return os.open(os.path.join(root, *parts), os.O_RDONLY | _OPEN_FLAGS)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(parts[-1], os.O_RDONLY | _OPEN_FLAGS, dir_fd=folder)
    finally:
        os.close(folder)
