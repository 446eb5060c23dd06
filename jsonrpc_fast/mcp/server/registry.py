"""What a server has registered: tools, prompts and resources with their functions, methods, notifications and sources.

Rules:
  - A name or URI is registered once. It hides items of sources with the same name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from msgspec import UNSET

from ..protocol.capabilities import (
    ListChanged,
    Resources,
    ServerCapabilities,
    ServerTaskRequests,
    ServerTasks,
    ToolTasks,
)
from ..protocol.definitions import Prompt, Resource, ResourceTemplate
from ..protocol.meta import TASKS_EXTENSION
from ..protocol.records import EmptyObject
from ..protocol.uris import UriTemplate
from .functions import RegisteredFunction
from .tools import CheckedTool

FeatureKind = Literal["tools", "prompts", "resources"]
TaskSupport = Literal["forbidden", "optional", "required"]
"""Whether a tool runs as a task: never, if the client wishes and can, or always."""
ShownErrors = bool | tuple[type[Exception], ...]
"""Whose texts a tool shows to the client: none, all exceptions, or these."""
TaskStart = Literal["call", "function"]
"""When a task starts: at once, or when the function calls `Context.start_task`."""

_TASKS: Final = ServerTasks(
    list=EmptyObject(), cancel=EmptyObject(), requests=ServerTaskRequests(tools=ToolTasks(call=EmptyObject()))
)

Completer = Sequence[str] | Callable[[str, Mapping[str, str]], "Sequence[str] | Awaitable[Sequence[str]]"]
"""The possible values of an argument, or a function that returns them: takes the typed text and the other arguments."""


class Source(Protocol):
    """A changing set of prompts and resources. Its owner calls `Server.list_changed` when the set changes."""

    async def prompts(self) -> Sequence[Prompt]:
        """Return all prompts."""

    async def resources(self) -> Sequence[Resource]:
        """Return all resources."""

    async def get(self, name: str, arguments: dict[str, str]) -> dict[str, Any] | None:
        """Return the `GetPromptResult` of a prompt; None if the prompt is unknown.

        Raises:
            RpcError: An error for the client.
        """

    async def read(self, uri: str) -> dict[str, Any] | None:
        """Return the contents of a resource, as from `text_contents`; None if the resource is unknown.

        Raises:
            RpcError: An error for the client.
        """

    async def complete(self, name: str, argument: dict[str, str]) -> dict[str, Any] | None:
        """Return the `completion` for an argument of a prompt, a dict with `values`; None if the prompt is unknown."""


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool and its function."""

    checked: CheckedTool
    function: RegisteredFunction
    task_support: TaskSupport = "forbidden"
    task_start: TaskStart = "call"
    ignores_unknown: bool = False
    timeout: float | None = None
    shown_errors: tuple[type[Exception], ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredPrompt:
    """A prompt, its function, and completers by argument."""

    prompt: Prompt
    function: RegisteredFunction
    completers: Mapping[str, Completer]


@dataclass(frozen=True, slots=True)
class RegisteredResource:
    """A resource and its function."""

    resource: Resource
    function: RegisteredFunction


@dataclass(frozen=True, slots=True)
class RegisteredTemplate:
    """A resource template, its function, and completers by part."""

    template: ResourceTemplate
    uris: UriTemplate
    function: RegisteredFunction
    completers: Mapping[str, Completer] = field(default_factory=dict)


class Registry:
    """Tools, prompts and resources by name or URI, methods and notifications, and sources.

    Attributes:
        tools: Tools by name.
        prompts: Prompts by name.
        resources: Resources by URI.
        resource_templates: Resource templates by URI template.
        methods: Functions by method, for methods of extensions and tasks.
        notifications: Functions by notification.
        sources: The sources, in the order they were added.
        has_tasks: Whether a tool was registered that may run as a task.
    """

    def __init__(self) -> None:
        self.tools: dict[str, RegisteredTool] = {}
        self.prompts: dict[str, RegisteredPrompt] = {}
        self.resources: dict[str, RegisteredResource] = {}
        self.resource_templates: dict[str, RegisteredTemplate] = {}
        self.methods: dict[str, RegisteredFunction] = {}
        self.notifications: dict[str, RegisteredFunction] = {}
        self.sources: list[Source] = []
        self.has_tasks: bool = False
        self._unsafe_sources: list[Source] = []

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of what is registered now."""
        prompts = bool(self.prompts or self.sources)
        resources = bool(self.resources or self.resource_templates or self.sources)
        return ServerCapabilities(
            logging=EmptyObject(),
            prompts=ListChanged(list_changed=True) if prompts else UNSET,
            resources=Resources(subscribe=True, list_changed=True) if resources else UNSET,
            tools=ListChanged(list_changed=True) if self.tools else UNSET,
            completions=EmptyObject() if prompts or self.resource_templates else UNSET,
            tasks=_TASKS if self.has_tasks else UNSET,
            extensions={TASKS_EXTENSION: {}} if self.has_tasks else UNSET,
        )

    def unregister(self, kind: FeatureKind, name: str) -> None:
        """Remove a tool, a prompt or a resource. Clients are notified.

        Args:
            kind: "tools", "prompts" or "resources".
            name: The name; for a resource its URI or URI template.

        Raises:
            KeyError: Nothing is registered by this name.
        """
        if kind == "resources" and name in self.resource_templates:
            del self.resource_templates[name]
        else:
            registered: dict[str, dict[str, Any]] = {
                "tools": self.tools,
                "prompts": self.prompts,
                "resources": self.resources,
            }
            del registered[kind][name]
        self._changed(kind)

    def add_source(self, source: Source, *, unsafe_uris: bool = False) -> None:
        """Add the prompts and resources of a source.

        Args:
            source: The source.
            unsafe_uris: Whether the source may be asked for URIs with `..` as a segment, NUL, or bytes that are not
                UTF-8.
        """
        self.sources.append(source)
        if unsafe_uris:
            self._unsafe_sources.append(source)
        self._changed("prompts")
        self._changed("resources")

    def allows_unsafe_uris(self, source: Source) -> bool:
        """Return whether a source was added with `unsafe_uris=True`."""
        return any(known is source for known in self._unsafe_sources)

    def _add(self, registered: dict[str, Any], name: str, item: Any, kind: FeatureKind | None) -> None:
        if name in registered:
            raise ValueError(f"{name} is already registered")
        registered[name] = item
        if kind is not None:
            self._changed(kind)

    def _changed(self, kind: FeatureKind) -> None:
        """Called when something was registered or removed."""
