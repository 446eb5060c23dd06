"""Prompts and resources from a folder of text templates.

Each template is a prompt and a resource. The prompt's name is the file's name without the suffixes; files that would
share a name keep them. A template in a file or folder whose name begins with "_" is neither: it exists only to be
included. The arguments are the undeclared variables in the template and in those that it includes (see `sandbox`).
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from msgspec import UNSET

from ...codes import ErrorCode
from ...errors import RpcError
from ..protocol.definitions import Prompt, PromptArgument, Resource, text_content
from ..protocol.uris import text_contents
from . import rendering
from .rendering import Renderer, RenderTimeout, Sources

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
    """Read the templates in a folder, and never a file outside it. A missing folder is empty.

    A template is a file whose name ends in one of SUFFIXES and whose path has no part that begins with ".". Links are
    resolved first; then the target is opened folder by folder, following no link. An unchanged file of `known` is not
    read again.
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


MAX_ARGUMENT_CHARACTERS: Final = 1024 * 1024
"""Maximum length of all arguments of one prompt together."""

_ANALYSIS_SECONDS: Final = 60.0  # for all changed templates together
_NO_TIME: Final = {"error": "was left out because others took too long", "has_no_includes": False}  # tried again
_MAX_WARNINGS: Final = 20
_logger: Final = logging.getLogger("jsonrpc_fast")


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes that a `refresh` found.

    Attributes:
        updated: The URIs of the resources whose text has changed.
    """

    prompts: bool = False
    resources: bool = False
    updated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _TemplatePrompt:
    """A template that is a prompt.

    Attributes:
        is_dynamic: Its includes depend on the arguments, so it may accept more arguments.
    """

    prompt: Prompt
    template: str
    values: dict[str, list[str]]
    is_dynamic: bool


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The folder as it was read: analyses by template, prompts by name, resources by URI."""

    folder: Folder
    sources: Sources
    analyses: dict[str, dict[str, Any]]
    prompts: dict[str, _TemplatePrompt]
    resources: dict[str, tuple[Resource, TemplateFile]]


class TemplatePrompts:
    """The prompts and resources of a folder of text templates, which is empty until the first `refresh`.

    Every method blocks, for up to RENDER_SECONDS per template, and may be called from any thread. Call `close`
    at the end.

    Raises NotADirectoryError: `directory` is not a folder.
    """

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)
        if not self._directory.is_dir():
            raise NotADirectoryError(f"{self._directory} is not a folder")
        self._renderer = Renderer()
        self._refreshing = threading.Lock()
        self._is_closed = False
        self._snapshot = _Snapshot(Folder({}, {}), {}, {}, {}, {})

    def refresh(self) -> Changes:
        """Read the files that have changed, and return the differences."""
        # Locked, because the file watcher and a first request may both read the folder.
        with self._refreshing:
            old = self._snapshot
            folder = read_folder(self._directory, old.folder.files)
            # Only new warnings, because polling would repeat them every ten seconds.
            skipped = folder.skipped.items() - old.folder.skipped.items()
            _warn([f"template {name!a} is skipped: {why}" for name, why in sorted(skipped)])
            if folder == old.folder and _NO_TIME not in old.analyses.values():
                return Changes()
            new = self._read(folder, old)
            self._snapshot = new
        # A new or removed resource is a change of the list.
        kept = new.resources.keys() & old.resources.keys()
        return Changes(
            prompts=[*new.prompts.values()] != [*old.prompts.values()],
            resources=[resource for resource, _ in new.resources.values()]
            != [resource for resource, _ in old.resources.values()],
            updated=frozenset(uri for uri in kept if new.resources[uri][1].text != old.resources[uri][1].text),
        )

    def prompts(self) -> list[Prompt]:
        """Return the prompts, sorted by name."""
        return [prompt.prompt for prompt in self._snapshot.prompts.values()]

    def get(self, name: str, arguments: dict[str, str]) -> dict[str, Any] | None:
        """Return a rendered prompt (`GetPromptResult`), one message of the user; None for an unknown prompt.

        Raises RpcError: -32602 for invalid arguments, with the names of missing ones; -32603 if the template fails or
        exceeds a limit.
        """
        # One snapshot for the whole call: `refresh` may replace it in another thread.
        snapshot = self._snapshot
        prompt = snapshot.prompts.get(name)
        if prompt is None:
            return None
        _check(prompt, arguments)
        text = self._render(snapshot, prompt, arguments)
        result: dict[str, Any] = (
            {} if prompt.prompt.description is UNSET else {"description": prompt.prompt.description}
        )
        return {**result, "messages": [{"role": "user", "content": text_content(text)}]}

    def complete(self, name: str, argument: Mapping[str, str]) -> dict[str, Any] | None:
        """Return completions of an argument (`values`); None for an unknown prompt.

        Returns:
            The strings that the template compares the argument with, if they begin with the value. For an unknown
            argument: the names of arguments that begin with its name.
        """
        prompt = self._snapshot.prompts.get(name)
        if prompt is None:
            return None
        # The known values are the strings with which the template compares the argument.
        options = prompt.values.get(argument["name"])
        # A person may still be typing the name of the argument.
        begun = argument["name"] if options is None else argument["value"]
        found = prompt.values if options is None else options
        return {"values": [option for option in found if option.startswith(begun)]}

    def resources(self) -> list[Resource]:
        """Return the templates as resources, sorted by URI."""
        return [resource for resource, _ in self._snapshot.resources.values()]

    def read(self, uri: str) -> dict[str, Any] | None:
        """Return the text of a template as one of the `contents` of `resources/read`; None for an unknown URI."""
        found = self._snapshot.resources.get(uri)
        return None if found is None else text_contents(uri, found[1].text, found[1].mime_type)

    def close(self) -> None:
        """Kill the rendering processes. A second call does nothing."""
        self._is_closed = True
        self._renderer.close()

    def _render(self, snapshot: _Snapshot, prompt: _TemplatePrompt, arguments: dict[str, str]) -> str:
        try:
            response = self._renderer.render(snapshot.sources, prompt.template, arguments)
        except RenderTimeout:
            response = {"error": f"took longer than {rendering.RENDER_SECONDS:g} seconds"}
        except (RuntimeError, OSError) as error:  # the process died, or none could be started
            response = {"error": f"could not be rendered: {type(error).__name__}"}
        match response:
            case {"text": str(text)}:
                return text
            case {"error": "missing", "argument": str(missing)} if missing in prompt.values:
                raise RpcError.invalid_params(f"missing argument: {missing}")
            case {"error": "large"}:
                why = f"rendered more than {rendering.MAX_TEXT_CHARACTERS} characters"
            case {"error": "failed"}:
                why = _failure(response)
            case {"error": "missing"}:
                why = "uses an undefined value"
            case _:
                why = response["error"]
        # `close` kills the processes, which is not a fault of the template.
        if not self._is_closed:
            _logger.error("template %s %s", ascii(prompt.template), why)
        # The class of an exception, or a line, may reveal hidden parts of the template to the client.
        shown = "failed" if response["error"] in ("failed", "missing") else why
        raise RpcError(ErrorCode.INTERNAL_ERROR, f"the template {shown}")

    def _read(self, folder: Folder, old: _Snapshot) -> _Snapshot:
        files = folder.files
        sources = {name: file.text for name, file in files.items()}
        shown = [name for name, file in files.items() if not file.is_partial]
        analyses = self._analyse(sources, shown, folder, old)
        # Includes files that do not compile: names must not change when such a file is fixed.
        stems = Counter(map(stem_of, shown))
        prompts = {}
        for name, found in analyses.items():
            if "error" not in found:
                stem = stem_of(name)
                prompt = _prompt(found, name, stem if stems[stem] == 1 else name)
                prompts[prompt.prompt.name] = prompt
        resources = {resource.uri: (resource, files[name]) for name in shown for resource in [_resource(files[name])]}
        return _Snapshot(folder, sources, analyses, dict(sorted(prompts.items())), dict(sorted(resources.items())))

    def _analyse(
        self, sources: Sources, templates: list[str], folder: Folder, old: _Snapshot
    ) -> dict[str, dict[str, Any]]:
        """Return the analysis of each template. An unchanged template without includes keeps the one it has."""
        analyses = {}
        warnings = []
        end = time.monotonic() + _ANALYSIS_SECONDS
        for name in templates:
            known = old.analyses.get(name)
            is_unchanged = folder.files[name] == old.folder.files.get(name)
            if known is not None and is_unchanged and known.get("has_no_includes", True):
                analyses[name] = known
                continue
            found = self._analyse_one(sources, name) if time.monotonic() < end else _NO_TIME
            if "error" in found and not self._is_closed:  # `close` kills the processes
                why = _failure(found) if found["error"] == "failed" else found["error"]
                warnings.append(f"template {name!a} is not a prompt: it {why}")
            analyses[name] = found
        _warn(warnings)
        return analyses

    def _analyse_one(self, sources: Sources, name: str) -> dict[str, Any]:
        try:
            return self._renderer.analyse(sources, name)
        except RenderTimeout:
            return {"error": "took too long to compile"}
        except (RuntimeError, OSError) as error:  # the process died, or none could be started
            return {"error": f"could not be compiled: {type(error).__name__}", "has_no_includes": False}


def _warn(warnings: list[str]) -> None:
    """Log only the first few, so that this process does not block if stderr is not read."""
    for warning in warnings[:_MAX_WARNINGS]:
        _logger.warning("%s", warning)
    if len(warnings) > _MAX_WARNINGS:
        _logger.warning("%d more templates are skipped or are not prompts", len(warnings) - _MAX_WARNINGS)


def _prompt(found: dict[str, Any], template: str, name: str) -> _TemplatePrompt:
    arguments = found["arguments"]
    prompt = Prompt(
        name=name,
        description=found["description"] or UNSET,
        arguments=[PromptArgument(name=item["name"], required=item["required"]) for item in arguments],
    )
    values = {item["name"]: item["values"] for item in arguments}
    return _TemplatePrompt(prompt, template, values, found["is_dynamic"])


def _check(prompt: _TemplatePrompt, given: dict[str, str]) -> None:
    """Check arguments. Raises RpcError -32602, whose text names only arguments of the prompt."""
    if sum(map(len, given.values())) > MAX_ARGUMENT_CHARACTERS:
        raise RpcError.invalid_params(f"the arguments have more than {MAX_ARGUMENT_CHARACTERS} characters")
    missing = [each.name for each in prompt.prompt.arguments or () if each.required and each.name not in given]
    if missing:
        raise RpcError.invalid_params(f"missing argument: {', '.join(missing)}")
    if not prompt.is_dynamic and not given.keys() <= prompt.values.keys():
        names = ", ".join(prompt.values) or "none"
        raise RpcError.invalid_params(f"unknown argument; the prompt accepts: {names}")


def _resource(file: TemplateFile) -> Resource:
    # The size in bytes, without the byte order mark, as clients get the text.
    size = len(file.text.encode())
    return Resource(uri="resource://templates/" + quote(file.name), name=file.name, mime_type=file.mime_type, size=size)


def _failure(response: dict[str, Any]) -> str:
    line = f" in line {response['line']}" if response.get("line") else ""
    return f"failed with {response['class']}{line}"
