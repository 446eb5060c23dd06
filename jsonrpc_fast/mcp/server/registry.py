"""The features of a server: tools, prompts and resources with their functions, methods, notifications, providers."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import UNSET

from ...handlers import CallNext
from ...handlers.params import UndefinedName
from ..protocol.capabilities import ListChanged, Resources, ServerCapabilities
from ..protocol.definitions import Definition, Prompt, Resource, ResourceTemplate, Tool
from ..protocol.meta import LIST_METHODS, TASKS_EXTENSION, FeatureKind, Prefixes
from ..protocol.records import EmptyObject
from ..protocol.uris import UriTemplate, unsafe_reason
from .context import Context, ContextServer
from .functions import RegisteredFunction
from .providers import Provider
from .task_store import TaskStore
from .tasks import TaskStart, TaskSupport
from .tools import CheckedTool

SCOPE: Final = r"[!#-\[\]-~]+"
"""A scope (RFC 6749, section 3.3). Others fit neither into a header nor into a claim."""


def as_scopes(scopes: object, name: str = "scopes") -> frozenset[str]:
    """Return scopes as a set. Raises TypeError: they are not an iterable of strings."""
    found: list[Any] = [None]
    if isinstance(scopes, Iterable) and not isinstance(scopes, (str, Mapping)):
        found = list(scopes)
    if not all(isinstance(scope, str) for scope in found):
        raise TypeError(f"{name} must be several strings")
    return frozenset(found)


def declared_scopes(scopes: object, name: str = "scopes") -> frozenset[str]:
    """Return the scopes that a program declares. The arguments are those of `as_scopes`.

    Raises:
        TypeError: They are not several strings.
        ValueError: One of them is not a scope: no token could have it.
    """
    found = as_scopes(scopes, name)
    for scope in found:
        if not re.fullmatch(SCOPE, scope):
            raise ValueError(f'{name}: {scope[:64]!a} must consist of visible ASCII characters without " and \\')
    return found


def scopes_of(claims: Any) -> frozenset[str]:
    """Return the scopes in claims: `scope` (a string, or several), `scp` or `scopes`, as a member or an attribute.

    Raises TypeError: they are of another type.
    """
    # `scope` is that of RFC 9068; some issuers write `scp`.
    for name in ("scope", "scp", "scopes"):
        value = claims.get(name) if isinstance(claims, Mapping) else getattr(claims, name, None)
        if isinstance(value, str):
            return frozenset(scope for scope in value.split(" ") if scope)
        if value is not None:
            return as_scopes(value, f"{name} of the claims")
    return frozenset()


D = TypeVar("D", bound=Definition)

ShownErrors = bool | tuple[type[Exception], ...]
"""The exceptions whose texts a tool shows to the client: none, all, or these classes."""

Completer = Sequence[str] | Callable[[str, Mapping[str, str]], "Sequence[str] | Awaitable[Sequence[str]]"]
"""The possible values of an argument, or a function that returns them: takes the typed text and the other arguments."""

Middleware: TypeAlias = Callable[[Context, dict[str, Any], CallNext], Any]
"""A sync or async function of the context, the params and `call_next`; returns the result.

    async def measure(context: Context, params: dict[str, Any], call_next: CallNext) -> Any:
        began = time.perf_counter()
        try:
            return await call_next(params)
        finally:
            seconds[context.method] = time.perf_counter() - began

    server = Server("sums", "1.0", middleware=[measure])

Rules, in addition to those of `jsonrpc_fast.handlers.middleware`:
  - The params are those of the request, a dict. `call_next` takes a dict, which may be a different one: a middleware
    may alter arguments, or have another tool called. `Context.params` keeps what the client sent.
  - The result is the one of the protocol, a dict, before the members that a revision adds to all results. A tool that
    failed has returned a result with `isError`. A call that runs as a task has returned the task.
  - An RpcError that a middleware raises is sent to the client. A ToolError becomes the result of a `tools/call`. Any
    other exception is error -32603 and is logged.
  - It is called for notifications with a function, too, whose results are dropped. It is not called for `initialize`,
    `server/discover` and `ping`, which belong to the handshake, for methods that are not found, and for resources that
    a function of the server reads with `Context.read_resource`.
  - In 2026-07-28 a function that asks the client for input runs again from its start, and so does the middleware around
    it.
"""


class Mount(NamedTuple):
    """A provider, and the prefix of its names here."""

    provider: Provider
    prefix: str

    def inner(self, name: str) -> str | None:
        """Return the name at the provider; None if the name lacks the prefix."""
        return name[len(self.prefix) :] if name.startswith(self.prefix) else None

    def names(self, kind: FeatureKind) -> set[str]:
        """Return the names here that are known: see `Provider.names`."""
        prefix = "" if kind == "resources" else self.prefix
        return {prefix + name for name in self.provider.names(kind)}


class RegisteredTool(msgspec.Struct, frozen=True):
    """A tool and its function."""

    checked: CheckedTool
    function: RegisteredFunction
    task_support: TaskSupport = "forbidden"
    task_start: TaskStart = "call"
    ignores_unknown: bool = False
    timeout: float | None = None
    shown_errors: tuple[type[Exception], ...] = ()
    scopes: frozenset[str] = frozenset()

    @property
    def definition(self) -> Tool:
        return self.checked.tool


class Registered(msgspec.Struct, Generic[D], frozen=True):
    """A prompt, a resource or a resource template, its function, and completers by argument."""

    definition: D
    function: RegisteredFunction
    completers: Mapping[str, Completer]
    uris: UriTemplate | None = None
    """The URIs of a resource template."""

    def unsafe_reason(self, parts: Sequence[str]) -> str | None:
        """Return why the function may not get these values; None if it may: see `UriTemplate.unsafe_parts`."""
        return None if self.uris is None or self.uris.unsafe_parts else unsafe_reason(parts)


class Registry:
    """Tools, prompts and resources by name or URI, methods and notifications, and providers.

    Attributes:
        methods: Functions by method, for methods of extensions and tasks.
        mounts: The providers, in the order they were mounted.
        has_tasks: Whether a registered tool may run as a task.
        may_need_scopes: Whether a tool was registered that needs a scope, or a provider, which may have one.
        shared: The part that functions reach through their context.
        middleware: The functions around every method, the outermost first.
        page_size: Number of items on one page of a list; None: all of them.
    """

    tasks: TaskStore
    shared: ContextServer
    middleware: Sequence[Middleware] = ()
    page_size: int | None = None

    def __init__(self) -> None:
        self.tools: dict[str, RegisteredTool] = {}
        self.prompts: dict[str, Registered[Prompt]] = {}
        self.resources: dict[str, Registered[Resource]] = {}
        self.resource_templates: dict[str, Registered[ResourceTemplate]] = {}
        self._lists: dict[str, dict[str, Any]] = {
            "prompts/list": self.prompts,
            "resources/list": self.resources,
            "resources/templates/list": self.resource_templates,
            "tools/list": self.tools,
        }
        self.methods: dict[str, RegisteredFunction] = {}
        self.notifications: dict[str, RegisteredFunction] = {}
        self.mounts: list[Mount] = []
        self.has_tasks: bool = False
        self.may_need_scopes: bool = False
        self._prefixes = Prefixes("")
        self.shadowed: set[str] = set()
        self._waiting: list[Callable[[], object]] = []  # register functions whose annotations lacked a name

    def complete(self) -> None:
        """Register the functions whose annotations name what was not defined when they were decorated.

        Raises TypeError: a name is still not defined.
        """
        self._register_waiting()
        if self._waiting:
            self._waiting[0]()

    def _register_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for register in waiting:
            try:
                register()
            except UndefinedName:
                self._waiting.append(register)

    def capabilities(self) -> ServerCapabilities:
        """Return the capabilities of the features that are registered now."""
        self.complete()
        # The names of a provider are not known yet, so all kinds that it may have are declared.
        provided = {kind for mount in self.mounts for kind in mount.provider.kinds}
        prompts = bool(self.prompts) or "prompts" in provided
        resources = bool(self.resources or self.resource_templates) or "resources" in provided
        return ServerCapabilities(
            logging=EmptyObject(),
            prompts=ListChanged(list_changed=True) if prompts else UNSET,
            resources=Resources(subscribe=True, list_changed=True) if resources else UNSET,
            tools=ListChanged(list_changed=True) if self.tools or "tools" in provided else UNSET,
            completions=EmptyObject() if prompts or self.resource_templates or "resources" in provided else UNSET,
            extensions={TASKS_EXTENSION: {}} if self.has_tasks else UNSET,
        )

    def unregister(self, kind: FeatureKind, name: str) -> None:
        """Remove a tool, a prompt or a resource. Clients are notified.

        Args:
            name: The name; for a resource its URI or URI template.

        Raises KeyError: nothing is registered by this name.
        """
        self.complete()
        del next((found for found in self._of(kind) if name in found), {})[name]
        self._changed(kind)

    def own(self, method: str) -> dict[str, Definition]:
        """Return the registered items of a list, by name, URI or URI template."""
        self.complete()
        return {name: registered.definition for name, registered in self._lists[method].items()}

    def names(self, kind: FeatureKind) -> set[str]:
        """Return the names, or URIs and templates, that are registered here or known from the providers."""
        self._register_waiting()
        return set().union(*self._of(kind), *[mount.names(kind) for mount in self.mounts])

    def tool_scopes(self, name: str) -> frozenset[str]:
        """Return the scopes that a call of a tool needs over HTTP; none for an unknown tool."""
        self.complete()
        # A tool that is registered here hides a provider's tool of the same name.
        if (tool := self.tools.get(name)) is not None:
            return tool.scopes
        inside = [(mount.provider, mount.inner(name)) for mount in self.mounts]
        return frozenset().union(*[provider.tool_scopes(inner) for provider, inner in inside if inner is not None])

    def tool_schema(self, name: str) -> Any:
        """Return the input schema of a tool of this server, which may require headers over HTTP; None for any other."""
        if self._waiting:
            self.complete()
        tool = self.tools.get(name)
        return None if tool is None else tool.checked.tool.input_schema

    def _of(self, kind: FeatureKind) -> list[dict[str, Any]]:
        return [self._lists[method] for method, each in LIST_METHODS.items() if each.kind == kind]

    def _mount(self, provider: Provider, prefix: str) -> None:
        mount = Mount(provider, prefix)
        for kind in get_args(FeatureKind):
            if both := sorted(self.names(kind) & mount.names(kind)):
                raise ValueError(f"{', '.join(both[:3])}: already registered; mount the provider with a prefix")
        # Two providers without a prefix are distinguished only by their names, which are compared above and in each
        # list.
        if prefix:
            self._prefixes.add(prefix)
        self.mounts.append(mount)
        # A provider may add a tool with scopes at any time.
        self.may_need_scopes = True
        for kind in get_args(FeatureKind):
            if kind in provider.kinds:
                self._changed(kind)

    def _add(self, registered: dict[str, Any], name: str, item: Any, kind: FeatureKind | None) -> None:
        # The names of providers are requested only if there are providers: `names` goes through all of them.
        if name in registered or (kind is not None and self.mounts and name in self.names(kind)):
            raise ValueError(f"{name} is already registered")
        # Without the GIL, a look-up by a name from the wire is cheaper if the table has the interned one.
        registered[sys.intern(name)] = item
        if kind is not None:
            self._changed(kind)

    def _changed(self, kind: FeatureKind) -> None:
        """Called when something was registered or removed."""
