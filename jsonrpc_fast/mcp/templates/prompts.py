"""Prompts: their records, and the prompts that a folder of text templates makes.

    {# Reviews a piece of code. #}
    Review this {{ language }} code{% if tone == "strict" %}, and spare nothing{% endif %}:
    {{ code }}

Rules:
  - Each template is a prompt, and a resource, too. Its name is the file's without the suffixes; where two files would
    have one name, each keeps its own. A template in a file or folder whose name begins with "_" is neither: it is there
    to be included.
  - The first comment, if the file begins with it, is the description.
  - The arguments are the variables that the template, and what it includes, looks up (`sandbox` finds them). A template
    that cannot be read or compiled is no prompt; the log says which.
  - A snapshot of the folder is taken by `refresh`; what is asked between two of them sees the same one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from msgspec import UNSET

from ...codes import ErrorCode
from ...errors import RpcError
from ..protocol.definitions import Prompt, PromptArgument, Resource
from ..protocol.uris import text_contents
from .folder import Folder, FolderLimits, TemplateFile, read_folder, stem_of
from .rendering import Renderer, RenderLimits, RenderTimeout, Sources

COMPLETION_VALUES: Final = 100
"""As many values a completion may have (schema, `CompleteResult`)."""

ARGUMENT_CHARACTERS: Final = 1024 * 1024
"""As long the arguments of one prompt may be, all together."""

_ANALYSIS_SECONDS: Final = 60.0  # for all templates that have changed
_NO_TIME: Final = {"error": "came after others that took too long", "is_alone": False}  # tried again
_WARNINGS: Final = 20
_URI_PREFIX: Final = "resource://templates/"
_log: Final = logging.getLogger("jsonrpc_fast")


@dataclass(frozen=True, slots=True)
class Changes:
    """What a `refresh` found.

    prompts    the list of prompts is another one
    resources  the list of resources is another one
    updated    the URIs of resources that were there before, and have another text now
    """

    prompts: bool = False
    resources: bool = False
    updated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _TemplatePrompt:
    """A template that is a prompt: what it accepts.

    required  the arguments that have to be given
    values    of every argument, the values that are known
    is_open   it may include what only its arguments tell, so it may take others, too
    """

    prompt: Prompt
    template: str
    required: tuple[str, ...]
    values: dict[str, list[str]]
    is_open: bool


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The folder as it was read: its files, what was found about each template, prompts by name, resources by URI."""

    folder: Folder
    sources: Sources
    analyses: dict[str, dict[str, Any]]
    prompts: dict[str, _TemplatePrompt]
    resources: dict[str, tuple[Resource, TemplateFile]]


class TemplatePrompts:
    """The prompts and the resources that a folder of text templates makes.

    directory      the folder
    folder_limits  how much of it is read
    render_limits  what rendering one template may use
    read           False: it is taken for empty until the first `refresh`, and this call does not block

    Every method blocks, for up to `RenderLimits.seconds` a template, and may be called from any thread. `close` it when
    it is no longer needed. Raises NotADirectoryError for what is no folder.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        folder_limits: FolderLimits | None = None,
        render_limits: RenderLimits | None = None,
        read: bool = True,
    ) -> None:
        self._directory = Path(directory)
        if not self._directory.is_dir():
            raise NotADirectoryError(f"{self._directory} is not a folder")
        self._folder_limits = folder_limits or FolderLimits()
        self._renderer = Renderer(render_limits)
        self._refreshing = threading.Lock()
        self._is_closed = False
        self._snapshot = _Snapshot(Folder({}, {}), Sources(0, {}), {}, {}, {})
        if read:
            try:
                self.refresh()
            except BaseException:
                self.close()
                raise

    def refresh(self) -> Changes:
        """Reads the folder again, as far as it has changed, and tells what is different."""
        with self._refreshing:
            old = self._snapshot
            folder = read_folder(self._directory, self._folder_limits, old.folder.files)
            skipped = folder.skipped.items() - old.folder.skipped.items()
            _warn([f"template {name!a} is skipped: {why}" for name, why in sorted(skipped)])
            if folder == old.folder and _NO_TIME not in old.analyses.values():
                return Changes()
            new = self._read(folder, old)
            self._snapshot = new
        kept = new.resources.keys() & old.resources.keys()
        return Changes(
            prompts=[*new.prompts.values()] != [*old.prompts.values()],
            resources=[resource for resource, _ in new.resources.values()]
            != [resource for resource, _ in old.resources.values()],
            updated=frozenset(uri for uri in kept if new.resources[uri][1].text != old.resources[uri][1].text),
        )

    def prompts(self) -> list[Prompt]:
        """The prompts, by name."""
        return [prompt.prompt for prompt in self._snapshot.prompts.values()]

    def get(self, name: object, arguments: object = None) -> dict[str, Any]:
        """A prompt with its arguments filled in (`GetPromptResult`): one message of the user.

        name       the prompt's
        arguments  an object of strings, or None

        Raises RpcError -32602 for an unknown prompt and wrong arguments, naming those that are missing; -32603 where
        the template fails, or is over a limit.
        """
        snapshot = self._snapshot
        prompt = snapshot.prompts.get(name) if isinstance(name, str) else None
        if prompt is None:
            raise RpcError(ErrorCode.INVALID_PARAMS, "Unknown prompt")
        text = self._render(snapshot, prompt, _checked(prompt, arguments))
        result: dict[str, Any] = (
            {} if prompt.prompt.description is UNSET else {"description": prompt.prompt.description}
        )
        return {**result, "messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def complete(self, name: object, argument: object) -> dict[str, Any]:
        """Completions for an argument of a prompt (`completion` in `CompleteResult`).

        argument  `name` and `value`, as the request has them. For the name of an argument: the strings that the
                  template compares it with and that begin with the value. For another name: the names of arguments
                  that begin with it

        Raises RpcError -32602 for an unknown prompt, and for what is no argument.
        """
        prompt = self._snapshot.prompts.get(name) if isinstance(name, str) else None
        if prompt is None:
            raise RpcError(ErrorCode.INVALID_PARAMS, "Unknown prompt")
        argument_name = argument.get("name") if isinstance(argument, dict) else None
        value = argument.get("value") if isinstance(argument, dict) else None
        if not isinstance(argument_name, str) or not isinstance(value, str):
            raise RpcError(ErrorCode.INVALID_PARAMS, "argument must have a name and a value, both strings")
        options = prompt.values.get(argument_name)
        begun = argument_name if options is None else value
        found = [option for option in (prompt.values if options is None else options) if option.startswith(begun)]
        values = found[:COMPLETION_VALUES]
        return {"values": values, "total": len(found), "hasMore": len(found) > len(values)}

    def resources(self) -> list[Resource]:
        """The templates as resources, by URI."""
        return [resource for resource, _ in self._snapshot.resources.values()]

    def read(self, uri: str) -> dict[str, Any] | None:
        """A template as it is, as `resources/read` gives it (one of `contents`); None if there is none of this URI."""
        found = self._snapshot.resources.get(uri)
        return None if found is None else text_contents(uri, found[1].text, found[1].mime_type)

    def close(self) -> None:
        """Ends the rendering processes. A second call does nothing."""
        self._is_closed = True
        self._renderer.close()

    def _render(self, snapshot: _Snapshot, prompt: _TemplatePrompt, arguments: dict[str, str]) -> str:
        limits = self._renderer.limits
        try:
            answer = self._renderer.render(snapshot.sources, prompt.template, arguments)
        except RenderTimeout:
            answer = {"error": f"took longer than {limits.seconds:g} seconds"}
        except (RuntimeError, OSError) as error:  # the process died, or none could be started
            answer = {"error": f"could not be rendered: {type(error).__name__}"}
        match answer:
            case {"text": str(text)}:
                return text
            case {"error": "missing", "argument": str(missing)} if missing in prompt.values:
                raise RpcError(ErrorCode.INVALID_PARAMS, f"missing argument: {missing}")
            case {"error": "large"}:
                why = f"makes a text of more than {limits.characters} characters"
            case {"error": "failed"}:
                why = _failed(answer)
            case {"error": "missing"}:
                why = "looks up what is not there"
            case _:
                why = answer["error"]
        if not self._is_closed:
            _log.error("template %s %s", ascii(prompt.template), why)
        shown = "failed" if answer["error"] in ("failed", "missing") else why
        raise RpcError(ErrorCode.INTERNAL_ERROR, f"the template {shown}")

    def _read(self, folder: Folder, old: _Snapshot) -> _Snapshot:
        files = folder.files
        sources = Sources(old.sources.key + 1, {name: file.text for name, file in files.items()})
        shown = [name for name, file in files.items() if not file.is_partial]
        analyses = self._analyse(sources, shown, folder, old)
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
        """What each template asks for. What is known of one that has not changed, and refers to no other, holds."""
        analyses = {}
        warnings = []
        end = time.monotonic() + _ANALYSIS_SECONDS
        for name in templates:
            known = old.analyses.get(name)
            is_unchanged = folder.files[name] == old.folder.files.get(name)
            if known is not None and is_unchanged and known.get("is_alone", True):
                analyses[name] = known
                continue
            found = self._analyse_one(sources, name) if time.monotonic() < end else _NO_TIME
            if "error" in found and not self._is_closed:  # what `close` ended is no template's fault
                why = _failed(found) if found["error"] == "failed" else found["error"]
                warnings.append(f"template {name!a} is no prompt: it {why}")
            analyses[name] = found
        _warn(warnings)
        return analyses

    def _analyse_one(self, sources: Sources, name: str) -> dict[str, Any]:
        try:
            return self._renderer.analyse(sources, name)
        except RenderTimeout:
            return {"error": "took too long to compile"}
        except (RuntimeError, OSError) as error:  # the process died, or none could be started
            return {"error": f"could not be compiled: {type(error).__name__}", "is_alone": False}


def _warn(warnings: list[str]) -> None:
    """Logs the first few: whoever does not read the log is not to fill it, and then hold up who writes it."""
    for warning in warnings[:_WARNINGS]:
        _log.warning("%s", warning)
    if len(warnings) > _WARNINGS:
        _log.warning("%d more templates are skipped or no prompts", len(warnings) - _WARNINGS)


def _prompt(found: dict[str, Any], template: str, name: str) -> _TemplatePrompt:
    arguments = found["arguments"]
    prompt = Prompt(
        name=name,
        description=found["description"] or UNSET,
        arguments=[PromptArgument(name=item["name"], required=item["required"]) for item in arguments],
    )
    required = tuple(item["name"] for item in arguments if item["required"])
    values = {item["name"]: item["values"] for item in arguments}
    return _TemplatePrompt(prompt, template, required, values, found["is_open"])


def _checked(prompt: _TemplatePrompt, arguments: object) -> dict[str, str]:
    """The arguments, if the prompt takes them. Raises RpcError -32602, naming the prompt's own arguments alone."""
    given = {} if arguments is None else arguments
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise RpcError(ErrorCode.INVALID_PARAMS, "arguments must be an object of strings")
    if sum(map(len, given.values())) > ARGUMENT_CHARACTERS:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"the arguments have more than {ARGUMENT_CHARACTERS} characters")
    missing = [name for name in prompt.required if name not in given]
    if missing:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"missing argument: {', '.join(missing)}")
    if not prompt.is_open and not given.keys() <= prompt.values.keys():
        names = ", ".join(prompt.values) or "none"
        raise RpcError(ErrorCode.INVALID_PARAMS, f"there is an unknown argument; the prompt takes: {names}")
    return given


def _resource(file: TemplateFile) -> Resource:
    size = len(file.text.encode())
    return Resource(uri=_URI_PREFIX + quote(file.name), name=file.name, mime_type=file.mime_type, size=size)


def _failed(answer: dict[str, Any]) -> str:
    line = f" in line {answer['line']}" if answer.get("line") else ""
    return f"failed with {answer['class']}{line}"
