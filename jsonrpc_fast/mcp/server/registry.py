"""The tools, prompts and resources of a server, from functions and from sources.

    @server.tool
    def add(a: int, b: int) -> int: ...

    @server.prompt(complete={"language": ["Python", "Prolog"]})
    def review(code: str, language: str = "Python") -> str: ...

    @server.resource("notes://{name}", mime_type="text/plain")
    async def note(name: str) -> str | None: ...

Rules:
  - The signature of a function defines its arguments (functions.py), its docstring is the description. The arguments of
    a prompt and the parts of a URI are strings; they are converted to the annotated types: "3" becomes an int.
  - Each decorator says what its functions may return. An invalid return value is error -32603 and is logged. If the
    annotations show it beforehand, the decorator raises TypeError.
  - A name or URI is registered once. It hides items of sources with the same name.
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
from .functions import RegisteredFunction, name_of
from .tools import CheckedTool

Function = TypeVar("Function", bound=Callable[..., Any])
Kind = Literal["tools", "prompts", "resources"]

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

    Args:
        provider: The host in the URIs of resources that are registered without a URI.

    Attributes:
        tools: Tools by name.
        prompts: Prompts by name.
        resources: Resources by URI.
        resource_templates: Resource templates by URI template.
        methods: Functions by method, for methods of extensions and tasks.
        notifications: Functions by notification.
        sources: The sources, in the order they were added.
    """

    def __init__(self, provider: str = "server") -> None:
        self._provider = provider
        self.tools: dict[str, RegisteredTool] = {}
        self.prompts: dict[str, RegisteredPrompt] = {}
        self.resources: dict[str, RegisteredResource] = {}
        self.resource_templates: dict[str, RegisteredTemplate] = {}
        self.methods: dict[str, RegisteredFunction] = {}
        self.notifications: dict[str, RegisteredFunction] = {}
        self.sources: list[Source] = []
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
        """Register a function as a tool: `@server.tool` or `@server.tool(…)`.

        The function returns, directly or as an awaitable:

        - None for no content, a str for a text block, a `ToolResult` for other content blocks, a `WholeResult`;
        - any other value with a JSON form, such as a dataclass, Struct, pydantic model, Decimal, set or bytes (base64):
          the client gets it as structured content and as text.

        If the function raises an exception, the client gets a result with `isError` and without the exception's text. A
        value without a JSON form is error -32603. Both are logged. An `RpcError` is sent to the client.

        Args:
            name: 1 to 128 ASCII letters, digits, `_`, `-` and `.`; by default the name of the function.
            title: The name for people.
            description: What the tool does; by default the docstring.
            input_schema: A JSON Schema of the arguments, which are then passed unconverted. By default the schema comes
                from the signature.
            output_schema: A JSON Schema of what the function returns.
            annotations: Hints about what the tool does.

        Returns:
            The function, or a decorator.

        Raises:
            TypeError: From the decorator: the signature has no schema, or the type of a parameter or of the result is
                not supported.
            ValueError: From the decorator: the name is invalid or already registered, or a schema is invalid.
        """

        def register(function: Function) -> Function:
            serving = RegisteredFunction(function, input_schema is None, "tool", given)
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

        given = _explicit_name(name)
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
        """Register a function as a prompt: `@server.prompt` or `@server.prompt(…)`.

        The function returns, directly or as an awaitable:

        - a str, a message of the user;
        - a message `{"role": "user", "content": …}`, whose content is a str or a content block;
        - a list of these;
        - a result `{"messages": […]}` or a `WholeResult`.

        Objects with such a JSON form work, too. Anything else is error -32603 and is logged.

        Args:
            name: The name of the prompt; by default the name of the function.
            title: The name for people.
            description: What the prompt is for; by default the docstring.
            complete: By argument: its possible values, or a function that returns them. The function takes the typed
                text and the other arguments.

        Returns:
            The function, or a decorator.

        Raises:
            TypeError: From the decorator: the signature has no schema, or a type is not supported; or `complete` names
                an unknown argument.
            ValueError: From the decorator: the name is already registered.
        """

        def register(function: Function) -> Function:
            serving = RegisteredFunction(function, role="prompt", name=given)
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

        given = _explicit_name(name)
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
        """Register a function as a resource, or as the resources of a URI template.

        `@server.resource("notes://{name}")`, or `@server.resource` for a URI made of the server's name, the function's
        name and its parameters: `resource://weather/note/{name}`.

        The function returns, directly or as an awaitable:

        - a str, bytes, or None for "not found";
        - contents: `{"uri": …, "text": …}` or `{"uri": …, "blob": …}`;
        - a list of these;
        - a result `{"contents": […]}` or a `WholeResult`;
        - any other value that is an object in JSON: it is sent as a JSON text.

        Anything else is error -32603 and is logged.

        Args:
            uri: A URI, or a URI template (RFC 6570 level 1) with a `{name}` for each parameter of the function.
            name: The name of the resource; by default the name of the function.
            title: The name for people.
            description: What the resource is; by default the docstring.
            mime_type: The MIME type of what the function returns; by default none, for objects "application/json".
            complete: Only for a template; by part: its possible values, or a function that returns them. The function
                takes the typed text and the other parts.
            unsafe_parts: Only for a template: whether the function gets unsafe parts: `..` as a segment, NUL, an
                absolute path, bytes that are not UTF-8 (as surrogates, see `os.fsdecode`). If False, a URI with an
                unsafe part is not found, even if another template matches.

        Returns:
            The function, or a decorator.

        Raises:
            TypeError: From the decorator: the signature has no schema, or a type is not supported; the parameters do
                not match the URI; or `complete` names an unknown part.
            ValueError: From the decorator: the URI is invalid or already registered.
        """

        def register(function: Function) -> Function:
            serving = RegisteredFunction(function, role="resource", name=name or given)
            address = self._address(serving) if given is None else given
            uris = UriTemplate(address, unsafe_parts=unsafe_parts)
            if set(uris.names) != serving.parameters.keys():
                raise TypeError(f"{serving.name}: the parameters must match the names in the URI")
            members: dict[str, Any] = {
                "name": _name(name, function),
                "title": _or_unset(title),
                "description": _or_unset(description or serving.description),
                "mime_type": _or_unset(mime_type),
            }
            completers = _completers(complete, serving)
            if uris.names:
                template = RegisteredTemplate(
                    ResourceTemplate(uri_template=address, **members), uris, serving, completers
                )
                self._add(self.resource_templates, address, template, "resources")
            else:
                try:
                    check_uri(address)
                except Exception as error:
                    raise ValueError(f"{serving.name}: {error}") from None
                resource = RegisteredResource(Resource(uri=address, **members), serving)
                self._add(self.resources, address, resource, "resources")
            return function

        given = _explicit_name(uri)
        return register if given is uri else register(uri)

    @overload
    def method(self, name: Function, /) -> Function: ...

    @overload
    def method(self, name: str | None = None) -> Callable[[Function], Function]: ...

    def method(self, name: Any = None) -> Any:
        """Register a function for a method of an extension or of tasks: `@server.method("vendor/do")`.

        The function gets the params by name, without `_meta`. It returns an object in JSON, directly or as an
        awaitable: a dict, dataclass, Struct or pydantic model. Anything else is error -32603 and is logged.

        The method is found in every revision. Declare its capability with `Server(capabilities=…)`.

        Args:
            name: The method; by default the name of the function.

        Returns:
            The function, or a decorator.

        Raises:
            TypeError: From the decorator: the signature has no schema, or a type is not supported.
            ValueError: From the decorator: the method is already registered, or belongs to the protocol (methods of
                tasks are allowed).
        """

        def register(function: Function) -> Function:
            method = _name(given, function)
            methods = frozenset().union(*[revision.client_requests for revision in REVISIONS.values()])
            if method in methods and not method.startswith("tasks/"):
                raise ValueError(f"{method} is a method of the protocol")
            self._add(self.methods, method, RegisteredFunction(function, role="method", name=given), None)
            return function

        given = _explicit_name(name)
        return register if given is name else register(name)

    def notification(self, method: str) -> Callable[[Function], Function]:
        """Register a function for a notification of legacy clients (up to 2025-11-25).

            @server.notification("notifications/roots/list_changed")
            async def roots_changed(context: Context) -> None:
                roots = await context.call("roots/list")

        The function may be sync or async. It gets the params by name, without `_meta`. Its exceptions are logged.

        Args:
            method: The notification.

        Returns:
            A decorator.

        Raises:
            TypeError: From the decorator: the signature has no schema.
            ValueError: From the decorator: the notification is already registered, or is "notifications/cancelled" or
                "notifications/progress", which the session handles.
        """

        def register(function: Function) -> Function:
            if method in McpConvention.methods:
                raise ValueError(f"the session handles {method}")
            self._add(self.notifications, method, RegisteredFunction(function), None)
            return function

        return register

    def unregister(self, kind: Kind, name: str) -> None:
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

    def _address(self, function: RegisteredFunction) -> str:
        """The URI or template of a resource that is registered without one."""
        parts = [f"{{{name}}}" for name in function.parameters]
        return "/".join([f"resource://{quote(self._provider, safe='')}", function.name, *parts])

    def _add(self, registered: dict[str, Any], name: str, item: Any, kind: Kind | None) -> None:
        if name in registered:
            raise ValueError(f"{name} is already registered")
        registered[name] = item
        if kind is not None:
            self._changed(kind)

    def _changed(self, kind: Kind) -> None:
        """Called when something was registered or removed."""


def _explicit_name(first: object) -> str | None:
    """The name passed to a decorator; None if it was called with the function, that is, without parentheses."""
    if first is None or isinstance(first, str):
        return first
    if not callable(first):
        raise TypeError(f"expected a str, or the function itself, not {type(first).__name__}")
    return None


def _name(name: str | None, function: Callable[..., Any]) -> str:
    return name_of(function) if name is None else name


def _or_unset(value: Any) -> Any:
    return UNSET if value is None else value


def _argument(function: RegisteredFunction, name: str) -> PromptArgument:
    described = _or_unset(function.descriptions().get(name))
    return PromptArgument(name=name, description=described, required=name in function.required)


def _completers(complete: Mapping[str, Completer] | None, function: RegisteredFunction) -> Mapping[str, Completer]:
    if complete and not complete.keys() <= function.parameters.keys():
        raise TypeError(f"{function.name}: complete names an unknown argument")
    return dict(complete or {})
