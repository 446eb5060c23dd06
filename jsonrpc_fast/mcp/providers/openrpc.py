"""Tools from an OpenRPC document: each method is a tool.

    async with AsyncHttpClient("https://example.org/rpc") as client:
        server.mount(openrpc_server(await client.call("rpc.discover"), client.call), prefix="shop")

Rules:
  - An error response becomes a result with `isError`, with its code and message. Any other failure is logged; the
    client gets no details.
  - A result that is not an object has no structured content, and none is checked against the document; params are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ...errors import RpcError
from ...support import check_callable
from ..server.blocks import ToolError
from ..server.server import Server
from .documents import Document, description_of, tool_name


def openrpc_server(
    document: Mapping[str, Any],
    call: Callable[[str, Any], Awaitable[Any]],
    *,
    include: Callable[[str, Mapping[str, Any]], bool] | None = None,
) -> Server:
    """Return a server whose tools are the methods of a service, to be mounted or served.

    Args:
        document: The document of OpenRPC 1, decoded.
        call: Calls the service, such as the method `call` of a `Session` or an `AsyncHttpClient`.
        include: Takes the name of a tool and the method of the document; returns whether to offer it. By default all
            are offered.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The document is invalid, two methods have one name, or a schema cannot be used. The text names the
            method.
    """
    check_callable("call", call, may_be_none=False)
    check_callable("include", include)
    parts = Document(document)
    server = parts.server("OpenRPC")
    methods = document.get("methods")
    if not isinstance(methods, list):
        raise ValueError("the document has no methods")
    for item in methods:
        method = parts.resolved(item)
        if not isinstance(name := method.get("name"), str):
            raise ValueError("a method of the document has no name")
        # For example `rpc.discover`, which describes the service.
        if name.startswith("rpc.") or (include is not None and not include(tool_name(name), method)):
            continue
        try:
            _add(server, parts, method, call)
        except (TypeError, ValueError) as error:
            raise ValueError(f"method {name[:128]!a}: {error}") from error
    return server


def _add(
    server: Server, parts: Document, method: Mapping[str, Any], call: Callable[[str, Any], Awaitable[Any]]
) -> None:
    name = str(method["name"])
    params = [parts.resolved(each) for each in method.get("params") or ()]
    names = [str(each["name"]) for each in params if isinstance(each.get("name"), str)]
    if len(names) != len(params) or len({*names}) != len(names):
        raise ValueError("each param must have a unique name")
    properties: dict[str, Any] = {}
    for each in params:
        schema = each.get("schema", {})
        description = each.get("description") or each.get("summary")
        if isinstance(schema, dict) and isinstance(description, str):
            schema = {"description": description, **schema}
        properties[each["name"]] = schema
    required = [each["name"] for each in params if each.get("required") is True]
    is_by_position = method.get("paramStructure") == "by-position"

    async def run(**arguments: Any) -> Any:
        given: Any = arguments
        if is_by_position:
            # Up to the last given param; missing ones before it are null.
            count = max((index + 1 for index, each in enumerate(names) if each in arguments), default=0)
            given = [arguments.get(each) for each in names[:count]]
        try:
            return await call(name, given)
        except RpcError as error:
            # The model gets the reason, which often helps it to correct its call.
            raise ToolError(f"error {error.code}: {error.message}") from error

    schema = parts.object_schema(properties, required)
    server.tool(tool_name(name), description=description_of(method), input_schema=schema)(run)
