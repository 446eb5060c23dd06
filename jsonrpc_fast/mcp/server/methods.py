"""The methods of MCP, served from the registry of a server.

Rules:
  - A tool that fails, or whose arguments do not match its schema, gives a result with `isError`, for the model to read.
    Any other function that fails gives error -32603; the client does not see the cause, which is logged. A value that
    cannot be sent gives the same, but with the reason, which shows no value.
  - Null is treated as absent for `arguments`, `ref`, `argument` and `context`, because some clients send it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import msgspec
from msgspec import UNSET

from ...codec import Request as Message
from ...codec import Response, dumps
from ...codes import ErrorCode
from ...errors import RpcError
from ...handlers import is_awaitable, timed, to_json, with_middleware
from ...handlers.params import Misfit
from ...profile import Profile
from ...session import SessionContext
from ...support import check_type, logger_of, nearest_of
from ...types import MessageId
from ..protocol.definitions import Definition, Prompt, Resource, ResourceTemplate, Tool
from ..protocol.meta import (
    LIST_METHODS,
    LISTEN_METHOD,
    LOG_LEVELS,
    MAX_COMPLETIONS,
    TASKS_CAPABILITY,
    UNKNOWN_LEVEL,
    FeatureKind,
    method_not_found,
)
from ..protocol.schemas import SchemaFault
from ..protocol.uris import UnsafePart, check_uri, is_unsafe_uri, not_found
from ..protocol.versions import Revision
from .blocks import ToolError, WholeResult
from .contents import NotSendable, made_contents, made_prompt, sendable, shown_text
from .context import Context, open_inputs, opened_inputs
from .functions import RegisteredFunction
from .handshake import CAPABILITIES, RequestRules, ServerHandshake
from .inputs import Inputs, check_input_required
from .providers import Provider
from .registry import Mount, Registered, RegisteredTool, Registry
from .session import FrontSession, Request
from .subscriptions import TASK_IDS
from .task_store import TASK_METHODS
from .tools import error_result, tool_definition, whole_result

if TYPE_CHECKING:
    from ...validator import JsonRpcValidator, Report

Method = Callable[[dict[str, Any], Context], Any]
"""Serves a request: takes params and context, returns the result; a function or a coroutine function."""

MAX_ARGUMENTS: Final = 1000
"""Maximum number of arguments of a prompt or a completion."""
MAX_TYPED_CHARACTERS: Final = 64 * 1024
"""Maximum length of a value to complete."""

_WITHOUT_SLOT: Final = frozenset({*LIST_METHODS, LISTEN_METHOD})
"""Methods that may wait for providers (the lists), or for the end of a subscription."""
_TASK_EXITS: Final = (KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit)  # these end the task itself
_logger: Final = logger_of("mcp")

T = TypeVar("T")


async def run_within(invoke: Callable[[Any, Context], Any], params: dict[str, Any], context: Context) -> Any:
    """Return the result of a request whose method is inside middleware."""
    try:
        return await _awaited(invoke(params, context))
    # So a middleware that refuses a call can tell the model why.
    except ToolError as error:
        if context.method != "tools/call":
            raise
        return error_result(str(error))


class _Call(NamedTuple):
    """What a call without a context needs of its request."""

    request_id: MessageId
    revision: Revision


class UnknownName(RpcError):
    """There is no tool, prompt or resource with this name."""


def serve(server: Registry, handshake: ServerHandshake, rules: RequestRules, params: Any, request: Request) -> Any:
    """Serve a request. Return the result or an awaitable of it."""
    members = params if type(params) is dict else {}
    name = request.method
    context = Context(request, rules, members, server.shared)
    # Checked first: an altered state is refused before the function runs, even if the function asks for no input.
    if rules.revision.is_modern and ("inputResponses" in members or "requestState" in members):
        open_inputs(context)
    method, is_async = find(server, name, members, handshake.declared)
    # Inside middleware, which is async, a sync method needs no slot either.
    needs_slot = (is_async or name == "tools/call") and name not in _WITHOUT_SLOT
    if server.middleware:
        invoke = with_middleware(partial(_call_within, server, handshake), server.middleware)
        method, is_async = partial(run_within, invoke), True
    if is_async:
        work = _run(handshake, partial(method, members, context), context)
        # For the session this is a task that has already started, so it needs no slot.
        return work if needs_slot or type(request) is not SessionContext else asyncio.ensure_future(work)
    result = method(members, context)
    if type(result) is dict:
        return _completed(handshake, result, context)
    return _run(handshake, lambda: result, context)


def _call_within(server: Registry, handshake: ServerHandshake, params: dict[str, Any], context: Context) -> Any:
    """Serve a request inside the middleware, which may have changed the params."""
    check_type("the params that a middleware passes on", params, dict)
    # Looked up again, because a middleware may have passed on another name.
    method, _ = find(server, context.method, params, handshake.declared)
    return method(params, context)


async def _run(handshake: ServerHandshake, method: Callable[[], Any], context: Context) -> Any:
    try:
        # Called here, not earlier: if this is cancelled before it starts, no coroutine is left unawaited.
        result = method()
        if type(result) is CoroutineType or is_awaitable(result):
            result = await result
    # Any exception: a run that stopped for input may raise `InputRequired`, an exception group of a TaskGroup, or
    # another exception that the function raised because of it.
    except BaseException as error:
        inputs = opened_inputs(context)
        if inputs is None or not inputs.are_missing or isinstance(error, _TASK_EXITS):
            raise
        result = {}  # `_completed` replaces it
    return _completed(handshake, result, context)


def _completed(handshake: ServerHandshake, result: Any, context: Context) -> Any:
    """Complete a result for its revision. If it is invalid, raise the RpcError for the client."""
    if not isinstance(result, dict):
        message = {"jsonrpc": "2.0", "id": context.request_id, "result": result}
        raise_error(validator_of(context.revision.profile).validate_response(message))
        return result
    inputs, revision, method = opened_inputs(context), context.revision, context.method
    if inputs is not None and inputs.are_missing and revision.is_modern:
        result = inputs.result()
    elif result.get("resultType") == "input_required":
        check_input_required(method, result, revision, context.require)
        result = open_inputs(context).result(result)
    return handshake.complete(revision, method, result)


def find(server: Registry, method: str, params: dict[str, Any], declared: AbstractSet[str]) -> tuple[Method, bool]:
    """Return the function that serves a request, and whether it is async.

    Raises RpcError: the method is not found (-32601).
    """
    if method == "tools/call" and (tool := own_tool(server, params, declared)) is not None:
        return partial(_run_tool, tool), tool.function.is_async
    if method in server.methods:
        return partial(call_method, server.methods[method]), True
    if server.has_tasks and method in TASK_METHODS:
        return partial(server.tasks.serve, method), False
    capability, function = METHODS.get(method, ("", None))
    if function is None or (capability and capability not in declared):
        raise method_not_found()
    if method in LIST_METHODS:  # without providers, nothing has to be awaited
        return partial(_list if server.mounts else _list_own, server, method), bool(server.mounts)
    return partial(function, server), function not in _SYNC


def own_tool(server: Registry, params: dict[str, Any], declared: AbstractSet[str]) -> RegisteredTool | None:
    """Return the registered tool that a call names; None if it belongs to a provider, or may run as a task."""
    name = params.get("name")
    tool = server.tools.get(name) if type(name) is str and "tools" in declared else None
    # Tasks need the full path: whether a call becomes one depends on its params and on the client.
    return None if tool is None or tool.task_support != "forbidden" else tool


def call_plain(server: Registry, handshake: ServerHandshake, message: Message, subject: object) -> Any:
    """Call a tool that takes no context, by the shortest way. It gives what `serve` gives.

    Returns:
        The result or a coroutine of it; None if `serve` must serve the request. Then no function was called.
    """
    params, name = message.params, message.method
    if name != "tools/call" or type(params) is not dict or server.middleware:
        return None
    tool = own_tool(server, params, handshake.declared)
    if tool is None or tool.function.takes_context or "inputResponses" in params or "requestState" in params:
        return None
    try:
        rules = handshake.receive_request(name, params)
    except RpcError:
        return None  # raised again by `serve`
    assert isinstance(rules, RequestRules)
    call = _Call(message.id, rules.revision)

    def completed(result: dict[str, Any]) -> dict[str, Any]:
        if result.get("resultType") == "input_required":
            check_input_required(name, result, rules.revision, rules.require)
            result = Inputs(name, params, server.shared.seal, subject).result(result)
        return handshake.complete(rules.revision, name, result)

    result = _run_tool(tool, params, call, completed)
    return completed(result) if type(result) is dict else result


async def serve_mounted(server: Registry, params: dict[str, Any], context: Context) -> dict[str, Any]:
    """Serve a request of a server that this one is mounted at, inside the middleware of this one.

    Raises:
        UnknownName: There is no such name, URI or method.
        RpcError: The request is refused with another error.
    """
    result: dict[str, Any] = await run_within(
        with_middleware(partial(_serve_plainly, server), server.middleware), params, context
    )
    return result


def _serve_plainly(server: Registry, params: dict[str, Any], context: Context) -> Any:
    """Serve a request; a call of a tool does not become a task."""
    tool = server.tools.get(_text(params, "name")) if context.method == "tools/call" else None
    if tool is not None:
        return _run_tool(tool, params, context)
    method, _ = find(server, context.method, params, frozenset(CAPABILITIES))
    return method(params, context)


def _list_own(
    server: Registry,
    method: str,
    params: dict[str, Any],
    context: Context,
    others: Mapping[str, Definition] | None = None,
) -> dict[str, Any]:
    """Return the page of a list that `params` ask for."""
    items = {**server.own(method), **(others or {})}
    page, next_cursor = paginate(
        items.items(), params.get("cursor"), key=lambda named: named[0], page_size=server.page_size
    )
    result: dict[str, Any] = {LIST_METHODS[method].member: [_written(item, context.revision) for _, item in page]}
    return result if next_cursor is None else {**result, "nextCursor": next_cursor}


async def _list(server: Registry, method: str, params: dict[str, Any], context: Context) -> dict[str, Any]:
    kind, member, key, _ = LIST_METHODS[method]
    mounts = [mount for mount in server.mounts if kind in mount.provider.kinds]
    # Concurrently: a slow provider must not delay the others.
    found = await asyncio.gather(*[_provided(method, mount, context) for mount in mounts], return_exceptions=True)
    own = server.own(method)
    # The first item of a name is kept, because requests go to the first provider that knows the name.
    others: dict[str, Definition] = {}
    for items in found:
        # One provider that fails must not hide the tools of all others.
        if isinstance(items, BaseException):
            if not isinstance(items, Exception):
                raise items
            _logger.error("%s of a provider failed: it is left out", member, exc_info=items)
            continue
        for item in items:
            name = item.member(key)
            if name in own or name in others:
                _warn_of(server, member, name)
            else:
                others[name] = item
    return _list_own(server, method, params, context, others)


def _warn_of(server: Registry, member: str, name: str) -> None:
    """Log once that a provider has a name that is taken."""
    if name not in server.shadowed and len(server.shadowed) < 1000:
        server.shadowed.add(name)
        _logger.warning("two of the %s have the same name: the one from the provider mounted later is left out", member)


async def _call_tool(server: Registry, params: dict[str, Any], context: Context) -> dict[str, Any]:
    tool = server.tools.get(name := _text(params, "name"))
    if tool is None:
        return await _call_provided(server, name, _object(params, "arguments"), context)

    async def run() -> dict[str, Any]:
        result: dict[str, Any] = await _awaited(_run_tool(tool, params, context))
        return result

    if tool.task_support == "forbidden":
        return await run()
    return await server.tasks.serve_call(tool.task_support, tool.task_start, context, run)


async def _call_provided(server: Registry, name: str, arguments: dict[str, Any], context: Context) -> dict[str, Any]:
    """Call the tool of a provider."""
    for provider, inner in _providers(server, "tools", name):
        try:
            value = await provider.call_tool(inner, arguments, context)
            if value is not None:
                return whole_result(value, context.revision)
        except RpcError:
            raise
        except ToolError as error:
            return error_result(str(error))
        except Exception as error:
            _logger.error("a tool of a provider failed, request %s", _shown(context.request_id), exc_info=error)
            if isinstance(error, NotSendable):
                return error_result(f"The tool returned a value that cannot be sent: {error}")
            return error_result("The tool failed")
    raise _unknown("tool", name, server.tools)


def _providers(server: Registry, kind: FeatureKind, name: str) -> Iterator[tuple[Provider, str]]:
    """Yield the providers that may know a name, each with its own form of the name."""
    for mount in server.mounts:
        inner = name if kind == "resources" else mount.inner(name)
        if inner is not None and kind in mount.provider.kinds:
            yield mount.provider, inner


def _run_tool(
    tool: RegisteredTool,
    params: dict[str, Any],
    context: Context | _Call,
    completed: Callable[[dict[str, Any]], Any] | None = None,
) -> Any:
    """Call the function of a tool. Return the result; for an async function, a coroutine that returns it.

    Args:
        completed: Takes the result of an async function, and returns what the coroutine returns.
    """
    arguments = params.get("arguments")
    if type(arguments) is not dict:  # null or absent, or a fault
        arguments = _object(params, "arguments")
    function = tool.function
    # Most calls are plain: their classes show that neither the schema nor a conversion changes anything.
    if not function.are_plain(arguments):
        arguments, faults = tool.checked.read_arguments(arguments)
        if faults:
            return tool.checked.refusal(faults)
        # After the check, because the schema of such a tool allows unknown arguments.
        if tool.ignores_unknown:
            arguments = {name: value for name, value in arguments.items() if name in function.parameters}
        try:
            arguments = function.convert(arguments)
        except Misfit as misfit:
            return tool.checked.refusal([SchemaFault(path, "", reason) for path, reason in misfit.listed()])
        except Exception as error:  # of a class of the application
            return _failure(tool, context.request_id, error)
    try:
        value = function.invoke(arguments, context)  # type: ignore[arg-type]  # it takes none
    except Exception as error:
        return _failure(tool, context.request_id, error)
    if is_awaitable(value):
        if tool.timeout is not None:
            value = timed(value, tool.timeout, partial(_late, tool))
        return _finish_tool(tool, value, context, completed)
    return _tool_result(tool, value, context)


async def _listen(server: Registry, params: dict[str, Any], context: Context) -> dict[str, Any]:
    """Serve a subscription until it is cancelled or the server ends it."""
    filter = params.get("notifications")
    # Before the stream is opened: a refused request must not occupy one of the streams.
    if isinstance(filter, dict) and filter.get(TASK_IDS):
        context.require(TASKS_CAPABILITY)
    client = context.client
    subscriptions = client.subscriptions
    stream = subscriptions.open(context.request_id, filter, context.destination)
    try:
        if TASK_IDS in stream.filter:
            # Tasks of other clients are left out without an error, as if they did not exist.
            stream.filter[TASK_IDS] = server.tasks.owned(stream.filter[TASK_IDS], context)
        client.push([stream.acknowledgement()], stream.destination)
        await stream.ended.wait()
    finally:
        subscriptions.close(stream)
    return {"_meta": stream.meta()}


async def _get_prompt(server: Registry, params: dict[str, Any], context: Context) -> dict[str, Any]:
    name = _text(params, "name")
    arguments = _texts(params, "arguments")
    registered = server.prompts.get(name)
    if registered is None:
        for provider, inner in _providers(server, "prompts", name):
            if (found := await provider.get_prompt(inner, arguments, context)) is not None:
                return made_prompt(found, context.revision, None)
        raise _unknown("prompt", name, server.prompts)
    converted = _converted(registered.function, arguments, strict=False)
    value = await _awaited(registered.function.invoke(converted, context))
    description = registered.definition.description
    try:
        if isinstance(value, WholeResult) and "messages" not in (value := _whole(value)):
            return value
        return made_prompt(value, context.revision, None if description is UNSET else description)
    except TypeError as error:
        raise _invalid_value(f"prompt {name}", error) from error


async def read_resource(server: Registry, params: dict[str, Any], context: Context) -> dict[str, Any]:
    if "uri" not in params:
        raise RpcError.invalid_params("uri is missing")
    # Checked before any function sees the URI.
    uri = check_uri(params["uri"])
    value: Any = None
    misfits: list[str] = []
    registered: Registered[Resource] | Registered[ResourceTemplate] | None = server.resources.get(uri)
    if registered is not None:
        value = await _read_by(registered, {}, uri, context)
    else:
        # Providers come before templates: a template such as `{+path}` would match everything.
        for provider, _ in _providers(server, "resources", uri):
            if value is None and (provider.unsafe_uris or not is_unsafe_uri(uri)):
                value = await provider.read_resource(uri, context)
        for template in server.resource_templates.values():
            if value is not None:
                break
            try:
                parts = None if template.uris is None else template.uris.match(uri)
            except UnsafePart as error:  # no other template may serve a URI that this one refuses
                _logger.warning("a URI matches %s, but %s", template.definition.uri_template, error)
                raise not_found(uri, context.revision) from None
            if parts is not None:
                registered = template
                try:
                    converted = template.function.convert(parts, strict=False)
                except Misfit as misfit:  # another template may fit
                    misfits.append(f"{template.definition.uri_template}, but {misfit}")
                    continue
                value = await _read_by(template, converted, uri, context)
    if value is None:
        hints = [f"It matches {reason}" for reason in misfits]
        for reason in misfits:
            _logger.warning("a URI matches %s", reason)
        if not misfits and (nearest := nearest_of(uri, [*server.resource_templates, *server.resources], 0.4)):
            _logger.warning("a URI belongs to no resource; the nearest is %s", nearest)
            hints = [f"The nearest is {nearest}"]
        unknown = not_found(uri, context.revision, hints)
        raise UnknownName(unknown.code, unknown.message, unknown.data)
    shown = None if registered is None else registered.definition
    try:
        # For example `input_required`, which has no contents.
        if isinstance(value, WholeResult) and "contents" not in (value := _whole(value)):
            return value
        return made_contents(uri, value, shown)
    except TypeError as error:
        raise _invalid_value(f"resource {'of a provider' if shown is None else shown.name}", error) from error


async def _complete(server: Registry, params: dict[str, Any], context: Context) -> dict[str, Any]:
    reference, argument = _object(params, "ref"), _object(params, "argument")
    name, typed = _text(argument, "name", "argument/name"), _text(argument, "value", "argument/value")
    # The functions of users compare this text with many values.
    if len(typed) > MAX_TYPED_CHARACTERS:
        raise RpcError.invalid_params(f"argument/value has more than {MAX_TYPED_CHARACTERS} characters")
    others = _texts(_object(params, "context"), "arguments", "context/arguments")
    kind: FeatureKind
    registered: Registered[Prompt] | Registered[ResourceTemplate] | None
    if reference.get("type") == "ref/prompt":
        kind, key, named = "prompts", "name", _text(reference, "name", "ref/name")
        registered = server.prompts.get(named)
    elif reference.get("type") == "ref/resource":
        kind, key, named = "resources", "uri", _text(reference, "uri", "ref/uri")
        registered = server.resource_templates.get(named)
    else:
        raise RpcError.invalid_params('ref/type must be "ref/prompt" or "ref/resource"')
    if registered is None:
        for provider, inner in _providers(server, kind, named):
            asked = {**reference, key: inner}
            found = await provider.complete(asked, {"name": name, "value": typed}, others, context)
            if found is not None:
                return {"completion": _completion(found["values"], found.get("total"), found.get("hasMore"))}
        raise UnknownName(ErrorCode.INVALID_PARAMS, "ref is unknown")
    # Parts that `resources/read` would refuse must not reach the completer either. Typing begins with an empty one.
    given = [*others.values(), typed] if typed else [*others.values()]
    if (reason := registered.unsafe_reason(given)) is not None:
        raise RpcError.invalid_params(f"a part of the URI is unsafe: {reason}")
    if name not in registered.function.parameters:
        raise RpcError.invalid_params("argument/name is unknown")
    completer = registered.completers.get(name, ())
    if callable(completer):
        values = list(await _awaited(completer(typed, others)))
        try:
            return {"completion": _completion(sendable(values)[0])}
        except TypeError as error:
            raise _invalid_value(f"the completer of {name}", error) from error
    else:
        # People type these values, so case is ignored.
        prefix = typed.lower()
        values = [value for value in completer if value.lower().startswith(prefix)]
    return {"completion": _completion(values)}


async def _provided(method: str, mount: Mount, context: Context) -> list[Definition]:
    """Return the items of a provider, with the names that they have here. Raises Exception: the provider raised it."""
    kind, _, _, type_ = LIST_METHODS[method]
    items: list[Definition] = []
    for item in await mount.provider.list_items(method, context):
        shown = item
        # One item that no client can read must not hide the others.
        try:
            if mount.prefix and kind != "resources":
                shown = msgspec.structs.replace(item, name=mount.prefix + item.name)
            written = to_json(_written(shown, context.revision))
            type_.from_dict(written)
            dumps(written)
        except (AttributeError, TypeError, ValueError) as error:
            _logger.error("an item of a provider is left out of %s: %s", method, error)
            continue
        items.append(shown)
    return items


def _written(item: Definition, revision: Revision) -> dict[str, Any]:
    return tool_definition(item, revision) if isinstance(item, Tool) else item.to_dict(revision.version)


async def _finish_tool(
    tool: RegisteredTool,
    work: Awaitable[Any],
    context: Context | _Call,
    completed: Callable[[dict[str, Any]], Any] | None,
) -> Any:
    try:
        value = await work
    except Exception as error:
        result = _failure(tool, context.request_id, error)
    else:
        result = _tool_result(tool, value, context)
    return result if completed is None else completed(result)


def _tool_result(tool: RegisteredTool, value: Any, context: Context | _Call) -> dict[str, Any]:
    try:
        if type(value) is WholeResult:
            return whole_result(value.members, context.revision)
        return tool.checked.result(value, context.revision)
    except TypeError as error:  # NotSendable is one
        name, id = tool.checked.tool.name, _shown(context.request_id)
        _logger.error("tool %s returned a value that cannot be sent, request %s", name, id, exc_info=error)
        return error_result(f"Tool {name} returned a value that cannot be sent: {error}")


def _shown(id: MessageId) -> str:
    return ascii(id)[:64]


def _failure(tool: RegisteredTool, id: MessageId, error: Exception) -> dict[str, Any]:
    """Return the result for an exception of a tool: it shows the text of a `ToolError`. Others are logged.

    Raises RpcError: the tool raised it.
    """
    # The function chose this error for the client, so it is not a failure of the tool.
    if isinstance(error, RpcError):
        raise error
    if isinstance(error, (ToolError, UnsafePart)):
        return error_result(str(error))
    name = tool.checked.tool.name
    _logger.error("tool %s failed, request %s", name, _shown(id), exc_info=error)
    is_shown = isinstance(error, tool.shown_errors)
    return error_result(f"Tool {name} failed" + (f": {str(error) or type(error).__name__}" if is_shown else ""))


def _late(tool: RegisteredTool) -> ToolError:
    return ToolError(f"Tool {tool.checked.tool.name} did not finish within {tool.timeout:g} seconds")


async def call_method(function: RegisteredFunction, params: Mapping[str, Any], context: Context) -> Any:
    """Call the function of a method or a notification and return its result in JSON.

    Raises RpcError: the function raised it, or its result cannot be sent (-32603).
    """
    given = dict(params)
    # It belongs to the protocol and is not a parameter of the function: `Context.meta` has it.
    given.pop("_meta", None)
    value = await _awaited(function.invoke(_converted(function, given), context))
    try:
        return sendable(value)[0]
    except NotSendable as error:
        raise _invalid_value(f"method {context.method}", error) from error


def _unknown(what: str, name: str, known: Iterable[str]) -> UnknownName:
    """Return the error for an unknown tool or prompt, with the nearest of the names that every client sees."""
    nearest = nearest_of(name, known)
    return UnknownName(ErrorCode.INVALID_PARAMS, f"Unknown {what}" + ("" if nearest is None else f": try {nearest}"))


async def _read_by(
    registered: Registered[Resource] | Registered[ResourceTemplate], parts: dict[str, Any], uri: str, context: Context
) -> Any:
    """Call the function of a resource.

    Raises RpcError: there is no such resource, because its path would leave a folder: see `safe_join`.
    """
    try:
        return await _awaited(registered.function.invoke(parts, context))
    except UnsafePart as error:
        raise not_found(uri, context.revision) from error


async def _awaited(value: Any) -> Any:
    return await value if is_awaitable(value) else value


def _invalid_value(what: str, error: Exception) -> RpcError:
    """Return the error about the value that the function of a prompt, a resource or a method returned. Log it."""
    _logger.error("%s returned a value that cannot be sent", what, exc_info=error)
    return RpcError(ErrorCode.INTERNAL_ERROR, shown_text(f"{what} returned a value that cannot be sent: {error}"))


def _whole(result: WholeResult) -> dict[str, Any]:
    members: dict[str, Any]
    members, _ = sendable(dict(result.members))
    return members


def _completion(values: Sequence[Any], total: Any = None, has_more: Any = None) -> dict[str, Any]:
    """The `completion` member for these values."""
    # Checked before the list is cut: a wrong value is an error at any position.
    if not all(isinstance(value, str) for value in values):
        raise TypeError("the values of a completion must be strings")
    # More would make clients refuse the whole response.
    shown = [*values[:MAX_COMPLETIONS]]
    return {
        "values": shown,
        "total": total if type(total) is int else len(values),
        "hasMore": has_more if type(has_more) is bool else len(values) > len(shown),
    }


def _text(members: Mapping[str, Any], name: str, path: str | None = None) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise RpcError.invalid_params(f"{path or name} must be a string")
    return value


def _object(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A member that is an object; {} if it is absent or null."""
    value = members.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RpcError.invalid_params(f"{name} must be an object")
    return value


def _texts(members: Mapping[str, Any], name: str, path: str | None = None) -> dict[str, str]:
    value = members.get(name)
    if value is None:
        return {}
    # Counted before each member is checked, so that refusing stays cheap.
    if isinstance(value, dict) and len(value) > MAX_ARGUMENTS:
        raise RpcError.invalid_params(f"{path or name} has more than {MAX_ARGUMENTS} members")
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise RpcError.invalid_params(f"{path or name} must be an object of strings")
    return value


def _converted(function: RegisteredFunction, arguments: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
    try:
        return function.convert(arguments, strict=strict)
    except Misfit as misfit:
        raise RpcError.invalid_params(f"arguments: {misfit}") from None


def _set_level(_: Registry, params: dict[str, Any], context: Context) -> dict[str, Any]:
    level: Any = params.get("level")
    if level not in LOG_LEVELS:
        raise RpcError.invalid_params(UNKNOWN_LEVEL)
    cast("FrontSession", context.client).log_level = level
    return {}


def _subscribe(_: Registry, params: dict[str, Any], context: Context) -> dict[str, Any]:
    context.client.subscriptions.subscribe(check_uri(params.get("uri")))
    return {}


def _unsubscribe(_: Registry, params: dict[str, Any], context: Context) -> dict[str, Any]:
    context.client.subscriptions.unsubscribe(check_uri(params.get("uri")))
    return {}


_SYNC: Final = (_set_level, _subscribe, _unsubscribe)
METHODS: Final[dict[str, tuple[str, Any]]] = {
    sys.intern(name): served
    for name, served in {
        "completion/complete": ("completions", _complete),
        "prompts/get": ("prompts", _get_prompt),
        "resources/read": ("resources", read_resource),
        "tools/call": ("tools", _call_tool),
        **{method: (each.kind, _list) for method, each in LIST_METHODS.items()},
        LISTEN_METHOD: ("", _listen),
        "logging/setLevel": ("logging", _set_level),
        "resources/subscribe": ("resources.subscribe", _subscribe),
        "resources/unsubscribe": ("resources.subscribe", _unsubscribe),
    }.items()
}
"""The capability, "" for none, and the function of each method: it takes the server, params and context."""


def raise_error(report: Report) -> None:
    """Raise the error response for an invalid message, if the message is invalid. An invalid result is logged, too."""
    response = report.error_response()
    if isinstance(response, Response) and response.error is not None:
        raise RpcError(response.error.code, response.error.message)


@lru_cache(maxsize=8)
def validator_of(profile: Profile) -> JsonRpcValidator:
    """Return the validator of a profile."""
    from ...validator import JsonRpcValidator  # loaded for the first message that may break a rule

    return JsonRpcValidator(profile)


def paginate(
    items: Iterable[T], cursor: object, *, key: Callable[[T], str], page_size: int | None = None
) -> tuple[list[T], str | None]:
    """Return one page of a list (specification, "Pagination").

    A list without pages is in the order of registration, by which authors steer models. Pages are in the order of the
    names: a cursor names the last item of the previous page instead of a position, so items that are added or removed
    between two pages neither hide nor repeat others. Cursors are opaque to clients.

    Args:
        cursor: `cursor` of the request; None for the first page.
        page_size: Number of items on a page, at least 1; None: all of them.

    Returns:
        The items of the page, and the cursor of the next page or None.

    Raises RpcError: the cursor is invalid (-32602).
    """
    if page_size is None and cursor is None:
        return [*items], None
    # The order of registration changes when a tool is registered again, and cursors would skip items.
    ordered = sorted(items, key=key)
    if cursor is not None:
        last = _last_of(cursor)
        ordered = [item for item in ordered if key(item) > last]
    page = ordered[:page_size]
    if len(page) == len(ordered):
        return page, None
    return page, base64.urlsafe_b64encode(b"after:" + key(page[-1]).encode()).decode()


def _last_of(cursor: object) -> str:
    if isinstance(cursor, str):
        try:
            # Strict decoding: an altered cursor must not become another valid one.
            text = base64.b64decode(cursor.encode(), b"-_", validate=True)
            if text.startswith(b"after:"):
                return text.removeprefix(b"after:").decode()
        except (binascii.Error, UnicodeError):
            pass
    raise RpcError.invalid_params("Invalid cursor")
