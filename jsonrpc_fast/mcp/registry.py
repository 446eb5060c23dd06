"""What a server offers: tools, prompts and resources, from functions and from sources of many.

    @server.tool()
    def add(a: int, b: int) -> int: ...

    @server.prompt(complete={"language": ["Python", "Prolog"]})
    def review(code: str, language: str = "Python") -> str: ...

    @server.resource("notes://{name}", mime_type="text/plain")
    async def note(name: str) -> str | None: ...

Rules:
  - what a function is called with is read from its signature (functions.py), and its docstring describes it, unless
    something else is given. The arguments of a prompt and the parts of a URI are texts, and become what the
    annotations say where they can: "3" an int;
  - a tool returns what `CheckedTool.result` takes. A prompt returns a str, a message (`{"role": …, "content": …}`,
    where the content may be a str), a list of both, or a whole result. A resource returns a str, bytes, None for "not
    found", a list of contents, or a whole result. All may return an awaitable of it;
  - a name, or a URI, is registered once. What a source has of the same name stays hidden.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from msgspec import UNSET

from ..session.conventions import McpConvention
from .capabilities import ListChanged, Resources, ServerCapabilities
from .functions import ServingFunction
from .prompts import Prompt, PromptArgument
from .records import Settings
from .resources import Resource, ResourceTemplate, UriTemplate, check_uri
from .tools import CheckedTool, Tool, ToolAnnotations
from .versions import REVISIONS

Function = TypeVar("Function", bound=Callable[..., Any])
Kind = Literal["tools", "prompts", "resources"]

Completer = Sequence[str] | Callable[[str, Mapping[str, str]], "Sequence[str] | Awaitable[Sequence[str]]"]
"""The values of an argument: all of them, or a function of what was typed and of the other arguments."""


class Source(Protocol):
    """Many prompts and resources, that may come and go. Whoever owns it calls `Server.list_changed` when they do."""

    async def prompts(self) -> Sequence[Prompt]:
        """All prompts there are."""

    async def resources(self) -> Sequence[Resource]:
        """All resources there are."""

    async def get(self, name: str, arguments: dict[str, str]) -> dict[str, Any] | None:
        """A `GetPromptResult`; None for an unknown prompt. Raises RpcError."""

    async def read(self, uri: str) -> dict[str, Any] | None:
        """Contents, as `text_contents` gives them; None for an unknown resource. Raises RpcError."""

    async def complete(self, name: str, argument: dict[str, str]) -> dict[str, Any] | None:
        """The completion of an argument of a prompt; None for an unknown prompt."""


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    checked: CheckedTool
    function: ServingFunction


@dataclass(frozen=True, slots=True)
class RegisteredPrompt:
    prompt: Prompt
    function: ServingFunction
    completers: Mapping[str, Completer]


@dataclass(frozen=True, slots=True)
class RegisteredResource:
    resource: Resource
    function: ServingFunction


@dataclass(frozen=True, slots=True)
class RegisteredTemplate:
    template: ResourceTemplate
    uris: UriTemplate
    function: ServingFunction
    completers: Mapping[str, Completer] = field(default_factory=dict)


class Registry:
    """Tools, prompts, resources and sources, by their names."""

    def __init__(self) -> None:
        self.tools: dict[str, RegisteredTool] = {}
        self.prompts: dict[str, RegisteredPrompt] = {}
        self.resources: dict[str, RegisteredResource] = {}
        self.resource_templates: dict[str, RegisteredTemplate] = {}
        self.methods: dict[str, ServingFunction] = {}
        self.notifications: dict[str, ServingFunction] = {}
        self.sources: list[Source] = []

    def capabilities(self) -> ServerCapabilities:
        """What there is to be offered now."""
        prompts = bool(self.prompts or self.sources)
        resources = bool(self.resources or self.resource_templates or self.sources)
        return ServerCapabilities(
            logging=Settings(),
            prompts=ListChanged(list_changed=True) if prompts else UNSET,
            resources=Resources(subscribe=True, list_changed=True) if resources else UNSET,
            tools=ListChanged(list_changed=True) if self.tools else UNSET,
            completions=Settings() if prompts or self.resource_templates else UNSET,
        )

    def tool(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        annotations: ToolAnnotations | None = None,
    ) -> Callable[[Function], Function]:
        """Registers a function as a tool.

        name           the function's own, if None
        input_schema   a JSON Schema of the arguments, which are then handed over as they come; if None, it is made of
                       the signature
        output_schema  a JSON Schema of what the function returns

        The decorator raises TypeError for a signature that has no schema, ValueError for a name that is taken and for a
        schema that cannot be used.
        """

        def register(function: Function) -> Function:
            serving = ServingFunction(function, fits=input_schema is None)
            tool = Tool(
                name=_name(name, serving),
                title=_or_unset(title),
                description=_or_unset(description or serving.description),
                input_schema=serving.schema() if input_schema is None else input_schema,
                output_schema=_or_unset(output_schema),
                annotations=_or_unset(annotations),
            )
            self._add(self.tools, tool.name, RegisteredTool(CheckedTool(tool), serving), "tools")
            return function

        return register

    def prompt(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        complete: Mapping[str, Completer] | None = None,
    ) -> Callable[[Function], Function]:
        """Registers a function as a prompt.

        name      the function's own, if None
        complete  the values of arguments, by their names

        The decorator raises as that of `tool`.
        """

        def register(function: Function) -> Function:
            serving = ServingFunction(function)
            arguments = [_argument(serving, argument) for argument in serving.parameters]
            prompt = Prompt(
                name=_name(name, serving),
                title=_or_unset(title),
                description=_or_unset(description or serving.description),
                arguments=arguments,
            )
            completers = _completers(complete, serving)
            self._add(self.prompts, prompt.name, RegisteredPrompt(prompt, serving, completers), "prompts")
            return function

        return register

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        complete: Mapping[str, Completer] | None = None,
    ) -> Callable[[Function], Function]:
        """Registers a function as a resource, or as all resources of a URI template.

        uri        a URI, or a template with `{name}` in it (RFC 6570 level 1) for each argument of the function
        name       the function's own, if None
        mime_type  of what it returns
        complete   for a template: the values of its parts, by their names

        The decorator raises as that of `tool`.
        """

        def register(function: Function) -> Function:
            serving = ServingFunction(function)
            uris = UriTemplate(uri)
            if set(uris.names) != serving.parameters.keys():
                raise TypeError(f"{serving.name}: its arguments must be those of the URI")
            told: dict[str, Any] = {
                "name": _name(name, serving),
                "title": _or_unset(title),
                "description": _or_unset(description or serving.description),
                "mime_type": _or_unset(mime_type),
            }
            completers = _completers(complete, serving)
            if uris.names:
                template = RegisteredTemplate(ResourceTemplate(uri_template=uri, **told), uris, serving, completers)
                self._add(self.resource_templates, uri, template, "resources")
            else:
                try:
                    check_uri(uri)
                except Exception as error:
                    raise ValueError(f"{serving.name}: {error}") from None
                self._add(self.resources, uri, RegisteredResource(Resource(uri=uri, **told), serving), "resources")
            return function

        return register

    def method(self, name: str) -> Callable[[Function], Function]:
        """Registers a function for a method that this package does not serve itself: of an extension, or of tasks.

        The function is called with the params by their names, `_meta` left out, and returns the result: a dict. It is
        found in every revision. What it belongs to is declared by `Server(capabilities=…)`. The decorator raises
        ValueError for a method of the protocol, those of tasks excepted.
        """

        def register(function: Function) -> Function:
            methods = frozenset().union(*[revision.client_requests for revision in REVISIONS.values()])
            if name in methods and not name.startswith("tasks/"):
                raise ValueError(f"{name} is a method of the protocol")
            self._add(self.methods, name, ServingFunction(function), None)
            return function

        return register

    def notification(self, method: str) -> Callable[[Function], Function]:
        """Registers a function that is called when a client tells something, up to 2025-11-25.

            @server.notification("notifications/roots/list_changed")
            async def roots_changed(context: Context) -> None:
                roots = await context.call("roots/list")

        The function is called with the params by their names, `_meta` left out, and may be sync or async. What it
        raises is logged. The decorator raises ValueError for "notifications/cancelled" and "notifications/progress",
        which the session takes.
        """

        def register(function: Function) -> Function:
            if method in McpConvention.methods:
                raise ValueError(f"{method} is taken by the session")
            self._add(self.notifications, method, ServingFunction(function), None)
            return function

        return register

    def unregister(self, kind: Kind, name: str) -> None:
        """Takes a tool, a prompt or a resource (by its URI, or its template) back. Raises KeyError if there is none."""
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

    def add_source(self, source: Source) -> None:
        """Offers what a source has, too."""
        self.sources.append(source)
        self._changed("prompts")
        self._changed("resources")

    def _add(self, registered: dict[str, Any], name: str, item: Any, kind: Kind | None) -> None:
        if name in registered:
            raise ValueError(f"{name} is registered already")
        registered[name] = item
        if kind is not None:
            self._changed(kind)

    def _changed(self, kind: Kind) -> None:
        """Called when something was registered or taken back."""


def _name(name: object, function: ServingFunction) -> str:
    if name is None:
        return function.name
    if not isinstance(name, str):
        raise TypeError("the name must be a str: write the decorator with parentheses")
    return name


def _or_unset(value: Any) -> Any:
    return UNSET if value is None else value


def _argument(function: ServingFunction, name: str) -> PromptArgument:
    described = _or_unset(function.descriptions().get(name))
    return PromptArgument(name=name, description=described, required=name in function.required)


def _completers(complete: Mapping[str, Completer] | None, function: ServingFunction) -> Mapping[str, Completer]:
    if complete and not complete.keys() <= function.parameters.keys():
        raise TypeError(f"{function.name}: completions are given for what is no argument")
    return dict(complete or {})
