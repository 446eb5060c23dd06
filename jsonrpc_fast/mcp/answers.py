"""The answers to the requests of a client, from what a server offers.

Rules:
  - a request for a kind that was not declared to the client is "method not found";
  - params that are not as the protocol has them are -32602, and so are unknown names and cursors. The texts name
    members and arguments, and show no value;
  - a tool that fails, or that is called with arguments that break its schema, is a result with `isError`, for the model
    to read. Any other function that fails is -32603. What it failed with is logged without its text;
  - an RpcError out of a function is the answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from msgspec import UNSET

from ..codes import RPC_MESSAGES, ErrorCode
from ..errors import RpcError
from ..session.hooks import log_fault
from .capabilities import ServerCapabilities
from .context import Context, WholeResult
from .functions import ServingFunction
from .paging import paginate
from .prompts import Prompt
from .registry import Completer, Registry
from .resources import Resource, blob_contents, check_uri, not_found, text_contents
from .tools import error_result, text_content

Answering = Callable[[dict[str, Any], Context], Any]

MAX_COMPLETIONS: Final = 100
"""How many values one answer may have (specification, "Completion")."""


class Answers:
    """Answers by method. `page_size`: items on a page of a list, 1 or more."""

    def __init__(self, registry: Registry, page_size: int = 100) -> None:
        if page_size < 1:
            raise ValueError("page_size must be 1 or more")
        self._registry = registry
        self._page_size = page_size
        self._methods: dict[str, tuple[str, Answering]] = {
            "completion/complete": ("completions", self._complete),
            "prompts/get": ("prompts", self._get_prompt),
            "prompts/list": ("prompts", self._list_prompts),
            "resources/list": ("resources", self._list_resources),
            "resources/read": ("resources", self._read_resource),
            "resources/templates/list": ("resources", self._list_resource_templates),
            "tools/call": ("tools", self._call_tool),
            "tools/list": ("tools", self._list_tools),
        }

    def find(self, method: str, declared: ServerCapabilities) -> Answering:
        """What answers a method: a function of the params and the context, sync or a coroutine function.

        declared  what the client was told that the server offers

        Raises RpcError -32601. What the function raises as an RpcError is the answer, too.
        """
        if (function := self._registry.methods.get(method)) is not None:
            return partial(call_method, function)
        capability, answering = self._methods.get(method, ("", None))
        if answering is None or not declared.supports(capability):
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, RPC_MESSAGES[ErrorCode.METHOD_NOT_FOUND])
        return answering

    # Tools.

    def _list_tools(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        tools = {name: tool.checked.definition(context.revision) for name, tool in self._registry.tools.items()}
        return self._page("tools", tools, params)

    async def _call_tool(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        tool = self._registry.tools.get(_text(params, "name"))
        if tool is None:
            raise RpcError(ErrorCode.INVALID_PARAMS, "Unknown tool")
        arguments = _object(params, "arguments")
        if (faulty := tool.checked.check_arguments(arguments)) is not None:
            return faulty
        try:
            converted = tool.function.convert(arguments)
        except ValueError as error:
            return error_result(f"Invalid arguments for tool {tool.checked.tool.name}: {error}")
        try:
            value = await _value(tool.function.call(converted, context))
            if isinstance(value, WholeResult):
                return dict(value.members)
            return tool.checked.result(value, context.revision)
        except RpcError:
            raise
        except Exception as error:
            log_fault(error)
            return error_result(f"Tool {tool.checked.tool.name} failed")

    # Prompts.

    async def _list_prompts(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        prompts: dict[str, Prompt] = {}
        for source in reversed(self._registry.sources):
            prompts |= {prompt.name: prompt for prompt in await source.prompts()}
        prompts |= {name: registered.prompt for name, registered in self._registry.prompts.items()}
        version = context.revision.version
        return self._page("prompts", {name: prompt.to_dict(version) for name, prompt in prompts.items()}, params)

    async def _get_prompt(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        name = _text(params, "name")
        arguments = _texts(params, "arguments")
        registered = self._registry.prompts.get(name)
        if registered is None:
            for source in self._registry.sources:
                if (found := await source.get(name, arguments)) is not None:
                    return found
            raise RpcError(ErrorCode.INVALID_PARAMS, "Unknown prompt")
        converted = _converted(registered.function, arguments, strict=False)
        value = await _value(registered.function.call(converted, context))
        if isinstance(value, WholeResult):
            return dict(value.members)
        if isinstance(value, dict) and "messages" in value:
            return value
        result: dict[str, Any] = {"messages": _messages(value)}
        if registered.prompt.description is not UNSET:
            result["description"] = registered.prompt.description
        return result

    # Resources.

    async def _list_resources(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        resources: dict[str, Resource] = {}
        for source in reversed(self._registry.sources):
            resources |= {resource.uri: resource for resource in await source.resources()}
        resources |= {uri: registered.resource for uri, registered in self._registry.resources.items()}
        version = context.revision.version
        return self._page("resources", {uri: item.to_dict(version) for uri, item in resources.items()}, params)

    def _list_resource_templates(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        version = context.revision.version
        templates = self._registry.resource_templates
        shown = {uri: registered.template.to_dict(version) for uri, registered in templates.items()}
        return self._page("resourceTemplates", shown, params)

    async def _read_resource(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        if "uri" not in params:
            raise _invalid("uri is missing")
        uri = check_uri(params["uri"])
        value: Any = None
        mime_type: Any = UNSET
        if (fixed := self._registry.resources.get(uri)) is not None:
            mime_type = fixed.resource.mime_type
            value = await _value(fixed.function.call({}, context))
        else:
            for source in self._registry.sources:
                if value is None:
                    value = await source.read(uri)
            for template in self._registry.resource_templates.values():
                if value is None and (parts := template.uris.match(uri)) is not None:
                    mime_type = template.template.mime_type
                    try:
                        converted = template.function.convert(parts, strict=False)
                    except ValueError:
                        continue  # there is no such resource
                    value = await _value(template.function.call(converted, context))
        if value is None:
            raise not_found(uri, context.revision)
        if isinstance(value, WholeResult):
            return dict(value.members)
        return _contents(uri, value, None if mime_type is UNSET else mime_type)

    # Completion.

    async def _complete(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        reference, argument = _object(params, "ref"), _object(params, "argument")
        name, typed = _text(argument, "name", "argument/name"), _text(argument, "value", "argument/value")
        others = _texts(_object(params, "context"), "arguments", "context/arguments")
        completers: Mapping[str, Completer] | None = None
        names: Sequence[str] = ()
        if reference.get("type") == "ref/prompt":
            prompt = _text(reference, "name", "ref/name")
            if (registered := self._registry.prompts.get(prompt)) is not None:
                completers, names = registered.completers, tuple(registered.function.parameters)
            else:
                for source in self._registry.sources:
                    if (found := await source.complete(prompt, argument)) is not None:
                        return {"completion": found}
        elif reference.get("type") == "ref/resource":
            uri = _text(reference, "uri", "ref/uri")
            if (template := self._registry.resource_templates.get(uri)) is not None:
                completers, names = template.completers, template.uris.names
        else:
            raise _invalid('ref/type must be "ref/prompt" or "ref/resource"')
        if completers is None:
            raise _invalid("ref is unknown")
        if name not in names:
            raise _invalid("argument/name is unknown")
        completer = completers.get(name, ())
        if callable(completer):
            values = list(await _value(completer(typed, others)))
        else:
            values = [value for value in completer if value.lower().startswith(typed.lower())]
        shown = values[:MAX_COMPLETIONS]
        return {"completion": {"values": shown, "total": len(values), "hasMore": len(values) > len(shown)}}

    def _page(self, member: str, items: dict[str, dict[str, Any]], params: dict[str, Any]) -> dict[str, Any]:
        """A page of a list, `items` by what names them."""
        page, following = paginate(
            items.items(), params.get("cursor"), key=lambda named: named[0], page_size=self._page_size
        )
        result: dict[str, Any] = {member: [item for _, item in page]}
        return result if following is None else {**result, "nextCursor": following}


async def call_method(function: ServingFunction, params: Mapping[str, Any], context: Context) -> Any:
    """What a function for a method, or for a notification, returns."""
    given = {name: value for name, value in params.items() if name != "_meta"}
    return await _value(function.call(_converted(function, given), context))


async def _value(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _messages(value: Any) -> list[dict[str, Any]]:
    """The messages that a prompt's function returned. Raises TypeError for what is none."""
    messages = []
    for message in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(message, str):
            message = {"role": "user", "content": message}
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            raise TypeError("a prompt returned what is no message")
        content = message.get("content")
        messages.append({**message, "content": text_content(content) if isinstance(content, str) else content})
    return messages


def _contents(uri: str, value: Any, mime_type: str | None) -> dict[str, Any]:
    """The result of reading a resource. Raises TypeError for what is none."""
    if isinstance(value, dict) and "contents" in value:
        return value
    contents = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            item = text_contents(uri, item, mime_type)
        elif isinstance(item, (bytes, bytearray)):
            item = blob_contents(uri, bytes(item), mime_type)
        elif not isinstance(item, dict):
            raise TypeError("a resource returned what is no contents")
        contents.append(item)
    return {"contents": contents}


def _text(members: Mapping[str, Any], name: str, path: str | None = None) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise _invalid(f"{path or name} must be a string")
    return value


def _object(members: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A member that is an object, and empty where it is absent."""
    value = members.get(name, {})
    if not isinstance(value, dict):
        raise _invalid(f"{name} must be an object")
    return value


def _texts(members: Mapping[str, Any], name: str, path: str | None = None) -> dict[str, str]:
    value = members.get(name, {})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _invalid(f"{path or name} must be an object of strings")
    return value


def _converted(function: ServingFunction, arguments: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
    try:
        return function.convert(arguments, strict=strict)
    except ValueError as error:
        raise _invalid(f"arguments: {error}") from None


def _invalid(message: str) -> RpcError:
    return RpcError(ErrorCode.INVALID_PARAMS, message)
