"""What a server offers: tools, prompts and resources, from functions and from sources of many.

    @server.tool
    def add(a: int, b: int) -> int: ...

    @server.prompt(complete={"language": ["Python", "Prolog"]})
    def review(code: str, language: str = "Python") -> str: ...

    @server.resource("notes://{name}", mime_type="text/plain")
    async def note(name: str) -> str | None: ...

Rules:
  - what a function is called with is read from its signature (functions.py), and its docstring describes it, unless
    something else is given. The arguments of a prompt and the parts of a URI are texts, and become what the
    annotations say where they can: "3" an int;
  - what a function may return is said by its decorator. Values become what the protocol has where that is obvious; the
    rest is error -32603, and the log says why. What can be known beforehand is a TypeError of the decorator;
  - a name, or a URI, is registered once. What a source has of the same name stays hidden.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, overload
from urllib.parse import quote

from msgspec import UNSET

from ...session.conventions import McpConvention
from ..protocol.capabilities import ListChanged, Resources, ServerCapabilities
from ..protocol.definitions import Prompt, PromptArgument, Resource, ResourceTemplate, Tool, ToolAnnotations
from ..protocol.records import EmptyObject
from ..protocol.uris import UriTemplate, check_uri
from ..protocol.versions import REVISIONS
from .functions import ServingFunction, name_of
from .tools import CheckedTool

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
    """Tools, prompts, resources and sources, by their names.

    Args:
        provider: The host in the URIs of resources that are registered without one.
    """

    def __init__(self, provider: str = "server") -> None:
        self._provider = provider
        self.tools: dict[str, RegisteredTool] = {}
        self.prompts: dict[str, RegisteredPrompt] = {}
        self.resources: dict[str, RegisteredResource] = {}
        self.resource_templates: dict[str, RegisteredTemplate] = {}
        self.methods: dict[str, ServingFunction] = {}
        self.notifications: dict[str, ServingFunction] = {}
        self.sources: list[Source] = []
        self._unsafe_sources: list[Source] = []

    def capabilities(self) -> ServerCapabilities:
        """What there is to be offered now."""
        prompts = bool(self.prompts or self.sources)
        resources = bool(self.resources or self.resource_templates or self.sources)
        return ServerCapabilities(
            logging=EmptyObject(),
            prompts=ListChanged(list_changed=True) if prompts else UNSET,
            resources=Resources(subscribe=True, list_changed=True) if resources else UNSET,
            tools=ListChanged(list_changed=True) if self.tools else UNSET,
            completions=EmptyObject() if prompts or self.resource_templates else UNSET,
        )

    @overload
    def tool(self, name: Function, /) -> Function: ...

    @overload
    def tool(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        annotations: ToolAnnotations | None = None,
    ) -> Callable[[Function], Function]: ...

    def tool(
        self,
        name: Any = None,
        *,
        title: str | None = None,
        description: str | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        annotations: ToolAnnotations | None = None,
    ) -> Any:
        """Registers a function as a tool: `@server.tool` or `@server.tool(…)`.

        The function returns None for nothing, a str for a text, a `ToolResult` for content blocks, or any other value
        that JSON has, dataclasses, Structs, pydantic models, Decimals, sets, bytes (as base64) and the like included:
        the client gets that as structured content and as text. An awaitable of one will do. What cannot be written is
        answered with -32603 and logged; an exception is a result with `isError`, without its text, and is logged.

        Args:
            name: 1 to 128 letters and digits of ASCII, `_`, `-` and `.`; the function's own if None.
            title: The name for people.
            description: What the tool does; the function's docstring if None.
            input_schema: A JSON Schema of the arguments, which are then handed over as they come; if None, it is made
                of the signature.
            output_schema: A JSON Schema of what the function returns.
            annotations: Hints on what the tool does.

        Raises:
            TypeError: From the decorator, for a signature that has no schema, and a type of an argument or of the
                result that cannot be served.
            ValueError: From the decorator, for a name that breaks the rule or is taken, and for a schema that cannot
                be used.
        """

        def register(function: Function) -> Function:
            serving = ServingFunction(function, input_schema is None, "tool", given)
            tool = Tool(
                name=_name(given, function),
                title=_or_unset(title),
                description=_or_unset(description or serving.description),
                input_schema=serving.schema() if input_schema is None else input_schema,
                output_schema=_or_unset(output_schema),
                annotations=_or_unset(annotations),
            )
            self._add(self.tools, tool.name, RegisteredTool(CheckedTool(tool), serving), "tools")
            return function

        given = _given(name)
        return register if given is name else register(name)

    @overload
    def prompt(self, name: Function, /) -> Function: ...

    @overload
    def prompt(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        complete: Mapping[str, Completer] | None = None,
    ) -> Callable[[Function], Function]: ...

    def prompt(
        self,
        name: Any = None,
        *,
        title: str | None = None,
        description: str | None = None,
        complete: Mapping[str, Completer] | None = None,
    ) -> Any:
        """Registers a function as a prompt: `@server.prompt` or `@server.prompt(…)`.

        The function returns a str, which is a message of the user, a message (`{"role": "user", "content": …}`, whose
        content is a str or one content block), a list of both, or a whole result (`{"messages": […]}`). An awaitable of
        one will do, and so will objects that are written so. Anything else is answered with -32603 and logged.

        Args:
            name: The function's own if None.
            title: The name for people.
            description: What the prompt is for; the function's docstring if None.
            complete: The values of arguments, by their names.

        Raises:
            TypeError: From the decorator, as that of `tool`.
            ValueError: From the decorator, for a name that is taken.
        """

        def register(function: Function) -> Function:
            serving = ServingFunction(function, role="prompt", name=given)
            arguments = [_argument(serving, argument) for argument in serving.parameters]
            prompt = Prompt(
                name=_name(given, function),
                title=_or_unset(title),
                description=_or_unset(description or serving.description),
                arguments=arguments,
            )
            completers = _completers(complete, serving)
            self._add(self.prompts, prompt.name, RegisteredPrompt(prompt, serving, completers), "prompts")
            return function

        given = _given(name)
        return register if given is name else register(name)

    @overload
    def resource(self, uri: Function, /) -> Function: ...

    @overload
    def resource(
        self,
        uri: str | None = None,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        complete: Mapping[str, Completer] | None = None,
        unsafe_parts: bool = False,
    ) -> Callable[[Function], Function]: ...

    def resource(
        self,
        uri: Any = None,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        complete: Mapping[str, Completer] | None = None,
        unsafe_parts: bool = False,
    ) -> Any:
        """Registers a function as a resource, or as all resources of a URI template.

        `@server.resource("notes://{name}")`, or `@server.resource` for a URI made of the server's name, the function's
        name and its arguments: `resource://weather/note/{name}`.

        The function returns a str, bytes, None for "not found", contents (`{"uri": …, "text": …}` or with a `blob`), a
        list of these, a whole result (`{"contents": […]}`), or any other value that is an object in JSON, which is sent
        as JSON text. An awaitable of one will do. Anything else is answered with -32603 and logged.

        Args:
            uri: A URI, or a template with `{name}` in it (RFC 6570 level 1) for each argument of the function.
            name: The function's own if None.
            title: The name for people.
            description: What it is; the function's docstring if None.
            mime_type: Of what the function returns; for an object "application/json" if None.
            complete: For a template: the values of its parts, by their names.
            unsafe_parts: For a template: hand over parts that could lead a path astray: with `..` between slashes,
                a NUL, an absolute path, or bytes that are not UTF-8 (as surrogates, as of `os.fsdecode`). False: a URI
                with such a part is not found, whatever other templates there are.

        Raises:
            TypeError: From the decorator, as that of `tool`, and where the arguments are not those of the URI.
            ValueError: From the decorator, for a URI that is wrong or taken.
        """

        def register(function: Function) -> Function:
            serving = ServingFunction(function, role="resource", name=name or given)
            address = self._address(serving) if given is None else given
            uris = UriTemplate(address, unsafe_parts=unsafe_parts)
            if set(uris.names) != serving.parameters.keys():
                raise TypeError(f"{serving.name}: its arguments must be those of the URI")
            told: dict[str, Any] = {
                "name": _name(name, function),
                "title": _or_unset(title),
                "description": _or_unset(description or serving.description),
                "mime_type": _or_unset(mime_type),
            }
            completers = _completers(complete, serving)
            if uris.names:
                template = RegisteredTemplate(ResourceTemplate(uri_template=address, **told), uris, serving, completers)
                self._add(self.resource_templates, address, template, "resources")
            else:
                try:
                    check_uri(address)
                except Exception as error:
                    raise ValueError(f"{serving.name}: {error}") from None
                resource = RegisteredResource(Resource(uri=address, **told), serving)
                self._add(self.resources, address, resource, "resources")
            return function

        given = _given(uri)
        return register if given is uri else register(uri)

    @overload
    def method(self, name: Function, /) -> Function: ...

    @overload
    def method(self, name: str | None = None) -> Callable[[Function], Function]: ...

    def method(self, name: Any = None) -> Any:
        """Registers a function for a method that this package does not serve itself: of an extension, or of tasks.

        The function is called with the params by their names, `_meta` left out, and returns the result, which is an
        object in JSON: a dict, a dataclass, a Struct, a pydantic model. An awaitable of one will do. Anything else is
        answered with -32603 and logged. The method is found in every revision. What it belongs to is declared by
        `Server(capabilities=…)`.

        Args:
            name: The method; the function's own name if None.

        Raises:
            TypeError: From the decorator, as that of `tool`.
            ValueError: From the decorator, for a method of the protocol, those of tasks excepted, and one that is
                taken.
        """

        def register(function: Function) -> Function:
            method = _name(given, function)
            methods = frozenset().union(*[revision.client_requests for revision in REVISIONS.values()])
            if method in methods and not method.startswith("tasks/"):
                raise ValueError(f"{method} is a method of the protocol")
            self._add(self.methods, method, ServingFunction(function, role="method", name=given), None)
            return function

        given = _given(name)
        return register if given is name else register(name)

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

    def add_source(self, source: Source, *, unsafe_uris: bool = False) -> None:
        """Offers what a source has, too.

        Args:
            source: The source.
            unsafe_uris: Whether it is asked for URIs with `..` as a segment, a NUL, or bytes that are not UTF-8.
        """
        self.sources.append(source)
        if unsafe_uris:
            self._unsafe_sources.append(source)
        self._changed("prompts")
        self._changed("resources")

    def takes_unsafe_uris(self, source: Source) -> bool:
        """What `add_source` was told."""
        return any(known is source for known in self._unsafe_sources)

    def _address(self, function: ServingFunction) -> str:
        """The URI, or the template, of a resource that is registered without one."""
        parts = [f"{{{name}}}" for name in function.parameters]
        return "/".join([f"resource://{quote(self._provider, safe='')}", function.name, *parts])

    def _add(self, registered: dict[str, Any], name: str, item: Any, kind: Kind | None) -> None:
        if name in registered:
            raise ValueError(f"{name} is registered already")
        registered[name] = item
        if kind is not None:
            self._changed(kind)

    def _changed(self, kind: Kind) -> None:
        """Called when something was registered or taken back."""


def _given(first: object) -> str | None:
    """The first argument of a decorator, None where it is the function: the decorator has no parentheses."""
    if first is None or isinstance(first, str):
        return first
    if not callable(first):
        raise TypeError(f"expected a str, or the function itself, not {type(first).__name__}")
    return None


def _name(name: str | None, function: Callable[..., Any]) -> str:
    return name_of(function) if name is None else name


def _or_unset(value: Any) -> Any:
    return UNSET if value is None else value


def _argument(function: ServingFunction, name: str) -> PromptArgument:
    described = _or_unset(function.descriptions().get(name))
    return PromptArgument(name=name, description=described, required=name in function.required)


def _completers(complete: Mapping[str, Completer] | None, function: ServingFunction) -> Mapping[str, Completer]:
    if complete and not complete.keys() <= function.parameters.keys():
        raise TypeError(f"{function.name}: completions are given for what is no argument")
    return dict(complete or {})
