"""The decorators that register functions.

An annotation may name a class that is defined below the function. It is looked up again with the next decorator, and at
the first use of the server, which raises TypeError if the name is still not defined.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, get_args, overload
from urllib.parse import quote

from msgspec import UNSET

from ...codec import dumps
from ...handlers.params import UndefinedName, name_of
from ...handlers.schemas import inlined
from ...session import McpConvention
from ...support import check_seconds, check_type
from ..protocol.capabilities import Icon
from ..protocol.definitions import (
    Annotations,
    Definition,
    Prompt,
    PromptArgument,
    Resource,
    ResourceTemplate,
    Tool,
    ToolAnnotations,
)
from ..protocol.uris import UriTemplate, uri_faults
from ..protocol.versions import REVISIONS
from .functions import RegisteredFunction
from .registry import Completer, Registered, RegisteredTool, Registry, ShownErrors, declared_scopes
from .tasks import TaskStart, TaskSupport
from .tools import CheckedTool, output_type

Function = TypeVar("Function", bound=Callable[..., Any])
P = ParamSpec("P")


class Registering(Protocol[P]):
    """A decorator of functions that may be used without parentheses."""

    @overload
    def __call__(self, function: Function, /) -> Function: ...

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Callable[[Function], Function]: ...


class bare_or_called(Generic[P]):  # named like a function, as is `property`
    """A method that returns a decorator. The decorator may be used without parentheses, too."""

    def __init__(self, method: Callable[Concatenate[Any, P], Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Registering[P]:
        method: Any = self._method.__get__(instance, owner)

        @functools.wraps(method)
        def register(*arguments: Any, **options: Any) -> Any:
            first = arguments[0] if arguments else None
            # `@server.tool` passes the function itself, `@server.tool("name")` the name.
            if first is None or isinstance(first, str):
                return method(*arguments, **options)
            if not callable(first):
                raise TypeError(f"expected a str, or the function itself, not {type(first).__name__}")
            return method(**options)(first)

        return method if instance is None else register


class Decorators(Registry):
    """A registry with a decorator for each kind of function.

    Args:
        provider: The host in the URIs of resources that are registered without a URI.
        strict: The default of `tool`.
        ignore_unknown: The default of `tool`.
        show_errors: The default of `tool`.
        inline_schemas: Whether the schemas of annotated types have no references.
    """

    def __init__(
        self,
        provider: str,
        strict: bool,
        ignore_unknown: bool,
        show_errors: ShownErrors,
        inline_schemas: bool,
    ) -> None:
        super().__init__()
        check_type("inline_schemas", inline_schemas, bool)
        self._shown_schema: Callable[[dict[str, Any]], dict[str, Any]] = inlined if inline_schemas else dict
        self._shown_errors = _shown(show_errors)
        self._provider = provider
        self._strict = strict
        self._ignore_unknown = ignore_unknown

    def _registering(self, register: Callable[[Function], Function]) -> Callable[[Function], Function]:
        """Return a decorator that does what `register` does, or later: when a name is defined that it lacks."""

        def decorate(function: Function) -> Function:
            self._register_waiting()
            try:
                return register(function)
            except UndefinedName:
                self._waiting.append(lambda: register(function))
                self.may_need_scopes = True  # perhaps: `tool_scopes` registers the function first
                return function

        return decorate

    @bare_or_called
    def tool(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        structured_output: bool | None = None,
        strict: bool | None = None,
        ignore_unknown: bool | None = None,
        annotations: ToolAnnotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        thread: bool = False,
        timeout: float | None = None,
        show_errors: ShownErrors | None = None,
        scopes: Collection[str] = (),
        task_support: TaskSupport = "forbidden",
        task_start: TaskStart = "call",
    ) -> Callable[[Function], Function]:
        """Register a function as a tool: `@server.tool` or `@server.tool(…)`.

        The function returns, directly or as an awaitable:

        - None for no content, a str for a text block.
        - A content block, such as an `Image`, or a list with content blocks, strings and other values.
        - Any other value with a JSON form, such as a dataclass, Struct, pydantic model, Decimal, set or bytes (base64):
          the client gets it as structured content and as text.
        - A `ToolResult` or a `WholeResult`.

        If the function raises an exception, the client gets a result with `isError` and without the exception's text,
        unless it is a `ToolError` or `show_errors` says otherwise. A value that cannot be sent (without a JSON form,
        circular, too deep, with NaN or a lone surrogate) gives such a result with the reason and the place. Both are
        logged. An `RpcError` is sent to the client.

        Args:
            name: 1 to 128 ASCII letters, digits, `_`, `-` and `.`; by default the name of the function.
            title: The name for people.
            description: What the tool does; by default the docstring. Its part about parameters goes into the schema.
            input_schema: A JSON Schema of the arguments, which are then passed unconverted. By default the schema comes
                from the signature.
            output_schema: A JSON Schema of the function's result. By default the schema comes from the annotation,
                if it describes data. A result that is not an object in JSON is then wrapped: `{"result": [1, 2]}`. Each
                result is checked against the schema.
            structured_output: False: results have only content, and there is no output schema. True: the decorator
                raises TypeError if the annotation gives no schema.
            strict: Whether an argument must have its type as sent. If False, a string that does not match is read as
                JSON: "3" for an int, "true" for a bool, "[1]" for a list. The default is that of the server.
            ignore_unknown: Whether arguments that the function does not have are dropped. If False, such a call is
                refused. The default is that of the server. A tool with `input_schema` gets what its schema allows.
            annotations: Hints about what the tool does.
            icons: Icons for user interfaces (2025-11-25 and later).
            meta: `_meta` of the tool (2025-06-18 and later).
            thread: Whether to call the function, which must be sync, in a thread.
            timeout: How long a call may take, in seconds, including its requests to the client; None: no limit. Then
                the function is cancelled, and the client gets a result with `isError`. A thread keeps running.
            show_errors: Which exceptions show their text to the client, and so to its model: True for all, or a tuple
                of classes. They are always logged. The default is that of the server.
            scopes: The scopes that the bearer token of a call needs, in addition to those of `Authorization`. Over HTTP
                a call without them is refused with 403; without `Authorization`, all calls are. The tool is listed
                nevertheless, so that clients can request the scopes. Other transports have no tokens, so anyone may
                call it there.
            task_support: Whether calls run as tasks of 2026-07-28, whose results the client fetches later: "forbidden";
                "optional": if the client knows tasks; "required": a client that does not gets an error.
            task_start: When a task starts: "call": at once; "function": when the function calls `Context.start_task`.

        Returns:
            The function, or a decorator.

        Raises:
            TypeError: From the decorator: the signature has no schema, the type of a parameter or of the result is not
                supported, an argument of the decorator has the wrong type, or `timeout` is given for a sync function
                that runs on the event loop.
            ValueError: From the decorator: the name is invalid or already registered, a schema is invalid, `timeout` is
                not positive, `task_support` or `task_start` is unknown, or a scope has characters that scopes must not
                have.
        """

        def register(function: Function) -> Function:
            check_type("input_schema", input_schema, dict, may_be_none=True)
            check_type("output_schema", output_schema, dict, may_be_none=True)
            # Everything is checked before anything is registered: a decorator that raises leaves nothing behind.
            serving = RegisteredFunction(function, input_schema is None, "tool", name, thread=thread)
            if task_support not in get_args(TaskSupport) or task_start not in get_args(TaskStart):
                raise ValueError(f"tool {name or serving.name}: task_support or task_start is unknown")
            check_seconds("timeout", timeout, may_be_zero=False)
            # A sync function on the loop cannot be interrupted: the timer would fire after it has returned.
            if timeout is not None and not serving.is_async:
                raise TypeError(f"tool {name or serving.name}: timeout needs an async function, or thread=True")
            ignores_unknown = self._ignore_unknown if ignore_unknown is None else ignore_unknown
            output = None
            if output_schema is None and structured_output is not False:
                output = output_type(serving.returns, is_required=structured_output is True)
            tool = Tool(
                input_schema=(
                    self._shown_schema(serving.schema(ignores_unknown=ignores_unknown))
                    if input_schema is None
                    else input_schema
                ),
                output_schema=_or_unset(output_schema) if output is None else self._shown_schema(output.schema),
                annotations=_or_unset(annotations),
                **_common_members(serving, name, title, description, icons, meta),
            )
            is_strict = self._strict if strict is None else strict
            checked = CheckedTool(tool, output, structured_output is not False, is_strict)
            _checked(tool, f"tool {tool.name}")
            drops = ignores_unknown and input_schema is None
            shown_errors = self._shown_errors if show_errors is None else _shown(show_errors)
            registered = RegisteredTool(
                checked, serving, task_support, task_start, drops, timeout, shown_errors, declared_scopes(scopes)
            )
            self._add(self.tools, tool.name, registered, "tools")
            self.has_tasks |= task_support != "forbidden"
            self.may_need_scopes |= bool(registered.scopes)
            return function

        return self._registering(register)

    @bare_or_called
    def prompt(
        self,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        complete: Mapping[str, Completer] | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        thread: bool = False,
    ) -> Callable[[Function], Function]:
        """Register a function as a prompt: `@server.prompt` or `@server.prompt(…)`.

        The function returns, directly or as an awaitable:

        - A str, a message of the user.
        - A message `{"role": "user", "content": …}`, whose content is a str or a content block.
        - A list of these.
        - A result `{"messages": […]}` or a `WholeResult`.

        Objects with such a JSON form work, too. Anything else is error -32603 and is logged.

        Args:
            name: The name of the prompt; by default the name of the function.
            title: The name for people.
            description: What the prompt is for; by default the docstring.
            complete: By argument: its possible values, or a function that returns them. The function takes the typed
                text and the other arguments.
            icons, meta, thread: As in `tool`.

        Returns:
            The function, or a decorator.

        Raises:
            TypeError: From the decorator: the signature has no schema, or a type is not supported; `complete` names an
                unknown argument, or has a function that does not take two arguments; or an argument of the decorator
                has the wrong type.
            ValueError: From the decorator: the name is already registered.
        """

        def register(function: Function) -> Function:
            serving = RegisteredFunction(function, role="prompt", name=name, thread=thread)
            described = serving.descriptions()
            arguments = [
                PromptArgument(name=each, description=_or_unset(described.get(each)), required=each in serving.required)
                for each in serving.parameters
            ]
            prompt = Prompt(arguments=arguments, **_common_members(serving, name, title, description, icons, meta))
            _checked(prompt, f"prompt {prompt.name}")
            registered = Registered(prompt, serving, _completers(complete, serving))
            self._add(self.prompts, prompt.name, registered, "prompts")
            return function

        return self._registering(register)

    @bare_or_called
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
        size: int | None = None,
        annotations: Annotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        thread: bool = False,
    ) -> Callable[[Function], Function]:
        """Register a function as a resource, or as the resources of a URI template.

        `@server.resource("notes://{name}")`, or `@server.resource` for a URI made of the server's name, the function's
        name and its parameters: `resource://weather/note/{name}`.

        The function returns, directly or as an awaitable:

        - A str, bytes, or None for "not found".
        - Contents: `{"uri": …, "text": …}` or `{"uri": …, "blob": …}`.
        - A list of these.
        - A result `{"contents": […]}` or a `WholeResult`.
        - Any other value that is an object in JSON: it is sent as JSON in a string.

        Anything else is error -32603 and is logged.

        Args:
            uri: A URI, or a URI template (RFC 6570) with a variable for each parameter of the function, such as
                "repo://{owner}{/path*}{?ref}". A value is a str, with `*` a list or a dict. A parameter whose variable
                the URI leaves out has its default.
            name: The name of the resource; by default the name of the function.
            title: The name for people.
            description: What the resource is; by default the docstring.
            mime_type: The MIME type of what the function returns; by default none, for objects "application/json".
            complete: Only for a template; by part: its possible values, or a function that returns them. The function
                takes the typed text and the other parts.
            unsafe_parts: Only for a template: whether the function gets unsafe parts: `..` as a segment, NUL, an
                absolute path, bytes that are not UTF-8 (as surrogates, see `os.fsdecode`), and beside another part one
                that is empty or has `.` as a segment. If False, a URI with an unsafe part is not found, even if another
                template matches. `safe_join` makes a path of any parts.
            size: Only for a single resource: its size in bytes.
            annotations: The intended audience and the importance.
            icons, thread: As in `tool`.
            meta: `_meta` of the resource (2025-06-18 and later), and of contents that the function returns without it.

        Returns:
            The function, or a decorator.

        Raises:
            TypeError: From the decorator: the signature has no schema, or a type is not supported; the parameters do
                not match the URI; `complete` names an unknown part, or has a function that does not take two arguments;
                or an argument of the decorator has the wrong type.
            ValueError: From the decorator: the URI is invalid or already registered.
        """

        def register(function: Function) -> Function:
            serving = RegisteredFunction(function, role="resource", name=name or uri, thread=thread)
            address = self._address(serving) if uri is None else uri
            uris = UriTemplate(address, unsafe_parts=unsafe_parts)
            # A part without a parameter would be lost, and a parameter without a part could never be set.
            if set(uris.names) != serving.parameters.keys():
                raise TypeError(f"{serving.name}: the parameters must match the names in the URI")
            members = {
                "mime_type": _or_unset(mime_type),
                "annotations": _or_unset(annotations),
                **_common_members(serving, name, title, description, icons, meta),
            }
            completers = _completers(complete, serving)
            resource: Resource | ResourceTemplate
            if uris.names:
                resource = ResourceTemplate(uri_template=address, **members)
            elif faults := uri_faults(address):
                raise ValueError(f"{serving.name}: {'; '.join(faults)}")
            else:
                resource = Resource(uri=address, size=_or_unset(size), **members)
            _checked(resource, f"resource {address}")
            registered: dict[str, Any] = self.resource_templates if uris.names else self.resources
            self._add(registered, address, Registered(resource, serving, completers, uris), "resources")
            return function

        return self._registering(register)

    @bare_or_called
    def method(self, name: str | None = None) -> Callable[[Function], Function]:
        """Register a function for a method of an extension or of tasks: `@server.method("vendor/do")`.

        The function gets the params by name, without `_meta`. It returns an object in JSON, directly or as an
        awaitable: a dict, dataclass, Struct or pydantic model. Anything else is error -32603 and is logged.

        The method is available in every revision. Declare its capability with `Server(capabilities=…)`.

        Args:
            name: The method; by default the name of the function.

        Returns:
            The function, or a decorator.

        Raises:
            TypeError: From the decorator: the signature has no schema, or a type is not supported.
            ValueError: From the decorator: the method is already registered, belongs to the protocol (methods of tasks
                are allowed), is empty, or begins with `rpc.`.
        """

        def register(function: Function) -> Function:
            method = _method_name(name_of(function) if name is None else name)
            methods = frozenset().union(*[revision.client_requests for revision in REVISIONS.values()])
            # A program may serve the methods of tasks itself, with its own store.
            if method in methods and not method.startswith("tasks/"):
                raise ValueError(f"{method} is a method of the protocol")
            self._add(self.methods, method, RegisteredFunction(function, role="method", name=name), None)
            return function

        return register

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
            TypeError: From the decorator: the signature has no schema, or `method` is not a str.
            ValueError: From the decorator: the notification is already registered, is empty, begins with `rpc.`, or is
                "notifications/cancelled" or "notifications/progress", which the session handles.
        """

        def register(function: Function) -> Function:
            # The session reads these before any function could.
            if _method_name(method) in McpConvention.methods:
                raise ValueError(f"the session handles {method}")
            self._add(self.notifications, method, RegisteredFunction(function), None)
            return function

        return register

    def _address(self, function: RegisteredFunction) -> str:
        """The URI or template of a resource that is registered without one."""
        # Simple expressions: a value is a single segment, and cannot change the rest of the path.
        parts = [f"{{{name}}}" for name in function.parameters]
        return "/".join([f"resource://{quote(self._provider, safe='')}", function.name, *parts])


def _common_members(
    function: RegisteredFunction,
    name: str | None,
    title: str | None,
    description: str | None,
    icons: Sequence[Icon] | None,
    meta: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the members that the definitions of all kinds have."""
    return {
        "name": function.name if name is None else name,
        "title": _or_unset(title),
        "description": _or_unset(description or function.description),
        "icons": _or_unset(icons, list),
        "meta": _or_unset(meta, dict),
    }


def _method_name(method: str) -> str:
    """Return the name of a method or notification if a client may send it."""
    if not isinstance(method, str):
        raise TypeError(f"method must be a str, not {type(method).__name__}")
    if not method or method.startswith("rpc."):
        raise ValueError("a method must have a name, which must not begin with rpc. (reserved by JSON-RPC)")
    return method


def _shown(show_errors: ShownErrors) -> tuple[type[Exception], ...]:
    """Return the classes of the exceptions whose texts a tool shows."""
    if isinstance(show_errors, bool):
        return (Exception,) if show_errors else ()
    check_type("show_errors", show_errors, bool, tuple)
    for each in show_errors:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise TypeError("show_errors must be a bool, or a tuple of exception classes")
    return show_errors


def _or_unset(value: Any, copy: Callable[[Any], Any] | None = None) -> Any:
    if value is None:
        return UNSET
    return value if copy is None else copy(value)


def _checked(definition: Definition, label: str) -> None:
    """Raise TypeError if a definition cannot be sent. It would make the whole list an error."""
    try:
        written = definition.to_dict()
        dumps(written)
        # Clients read it by these rules.
        type(definition).from_dict(written)
    except (AttributeError, TypeError, ValueError) as error:
        raise TypeError(f"{label}: {error}") from None


def _completers(complete: Mapping[str, Completer] | None, function: RegisteredFunction) -> Mapping[str, Completer]:
    if complete and not complete.keys() <= function.parameters.keys():
        raise TypeError(f"{function.name}: complete names an unknown argument")
    for name, completer in (complete or {}).items():
        if callable(completer) and not _accepts_two(completer):
            raise TypeError(f"{function.name}: the function that completes {name} must take two arguments")
    return dict(complete or {})


def _accepts_two(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with two positional arguments."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some builtins have no signature
        return True
    return True
