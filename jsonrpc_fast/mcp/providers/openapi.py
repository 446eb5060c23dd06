"""Tools from a document of OpenAPI 3: each operation is a tool.

    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as client:
        server.mount(openapi_server(document, client, include=lambda name, operation: operation["method"] == "get"))

Rules:
  - The parameters in path, query and headers are arguments, and a body is the argument `body`. They are checked against
    their schemas here, and written in the usual styles: a list in a query is repeated, in a path and a header it is
    joined with commas.
  - A value in the path is one segment: it cannot lead to another path. Redirects are not followed.
  - A JSON response is structured content if it is an object, and text. A status other than 2xx gives a result with
    `isError`, the status and the beginning of the body.
  - The HTTP client has the credentials. The parameters `Accept`, `Content-Type` and `Authorization` are left out.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from ...codec import Raw, dumps
from ...errors import InvalidResponse, RpcError
from ...support import check_callable, check_count, check_type, pointer_parts, reference_target
from ...types import UNSET
from ..protocol.definitions import ToolAnnotations
from ..protocol.schemas import DATA_KEYWORDS, SCHEMA_MAPS
from ..server.blocks import ToolError
from ..server.server import Server

_LIMITS: Final = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def tool_name(name: str) -> str:
    """Return the name of a tool for a name in a document: characters that a tool name must not contain become `_`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:128]


def description_of(item: Mapping[str, Any]) -> str | None:
    """Return the description of a tool for a method or an operation: its summary and its longer description."""
    texts = [item.get("summary"), item.get("description")]
    return "\n\n".join(dict.fromkeys(text for text in texts if isinstance(text, str) and text)) or None


class Document:
    """A document whose parts refer to each other. Raises TypeError: `content` is not a mapping."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        if not isinstance(content, Mapping):
            raise TypeError(f"the document must be a mapping, not {type(content).__name__}")
        self._content = content

    def server(self, name: str) -> Server:
        """Return a server named after the service; without a title in the document, by `name`."""
        info = self._content.get("info")
        info = info if isinstance(info, dict) else {}
        return Server(str(info.get("title") or name), str(info.get("version") or "0"))

    def resolved(self, value: Any) -> dict[str, Any]:
        """Return the object that a value is or refers to.

        Raises ValueError: it is not an object, or a reference leads nowhere, out of the document or back to itself.
        """
        # Bounded, because references may form a cycle.
        for _ in range(64):
            if not isinstance(value, dict):
                raise ValueError("a part of the document must be an object")
            if not isinstance(reference := value.get("$ref"), str):
                return value
            value = self._found(reference)
        raise ValueError("the references form a cycle")

    def object_schema(self, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
        """Return the schema of an object with these properties and no others.

        Raises ValueError: a schema or a reference is invalid.
        """
        names: dict[str, str] = {}  # of the definitions, by reference
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: self._schema(each, names) for name, each in properties.items()},
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required
        definitions: dict[str, Any] = {}
        # A definition may refer to others, which this loop adds to `names`.
        while len(definitions) < len(names):
            for reference, name in list(names.items()):
                if name not in definitions:
                    definitions[name] = self._schema(self._found(reference), names)
        return {**schema, "$defs": definitions} if definitions else schema

    def _found(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise ValueError("a reference to another document is not supported")
        found = reference_target(self._content, reference)
        if found is UNSET:
            raise ValueError("the target of a reference does not exist")
        return found

    def _schema(self, schema: Any, names: dict[str, str]) -> Any:
        """Return a schema whose references lead to definitions, whose names are added to `names`."""
        if isinstance(schema, list):
            return [self._schema(each, names) for each in schema]
        if not isinstance(schema, dict):
            return schema
        made: dict[str, Any] = {}
        for name, value in schema.items():
            if name == "$ref" and isinstance(value, str):
                if value not in names:
                    names[value] = _definition_name(value, {*names.values()})
                made[name] = f"#/$defs/{names[value]}"
            elif name in SCHEMA_MAPS and isinstance(value, dict):
                made[name] = {key: self._schema(each, names) for key, each in value.items()}
            elif name in DATA_KEYWORDS:
                made[name] = value
            elif name in _LIMITS and isinstance(value, bool):
                # OpenAPI 3.0 has the limit in `minimum`, and a flag that it is exclusive.
                if value and _LIMITS[name] in schema:
                    made[name] = schema[_LIMITS[name]]
            elif name != "nullable":
                made[name] = self._schema(value, names)
        return _with_null(made) if schema.get("nullable") is True else made


def _definition_name(reference: str, taken: set[str]) -> str:
    base = tool_name(pointer_parts(unquote(reference))[-1]) or "schema"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def openrpc_server(
    document: Mapping[str, Any],
    call: Callable[[str, Any], Awaitable[Any]],
    *,
    include: Callable[[str, Mapping[str, Any]], bool] | None = None,
) -> Server:
    """Return a server whose tools are the methods of a service, to be mounted or served.

        async with AsyncHttpClient("https://example.org/rpc") as client:
            server.mount(openrpc_server(await client.call("rpc.discover"), client.call), prefix="shop")

    An error response becomes a result with `isError`, with its code and message; any other failure is logged. Params
    are checked against the document, results are not. References are followed only within the document.

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
    check_callable("call", call, may_be_none=False, may_be_async=True)
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


if TYPE_CHECKING:
    import httpx2

_PART: Final = re.compile(r"\{([^{}]+)\}")
_JSON: Final = re.compile(r"application/(?:[\w.+-]+\+)?json")


def openapi_server(
    document: Mapping[str, Any],
    http_client: httpx2.AsyncClient,
    *,
    url: str | None = None,
    include: Callable[[str, Mapping[str, Any]], bool] | None = None,
    max_response_bytes: int = 4 * 1024 * 1024,
) -> Server:
    """Return a server whose tools are the operations of a service, to be mounted or served.

    Args:
        document: The document of OpenAPI 3.0 or 3.1, decoded.
        http_client: The client of httpx2 to call the service with: its headers, `auth`, timeouts. It is not
            closed.
        url: The URL that the paths belong to; by default the first one of `servers` in the document.
        include: Takes the name of a tool and the operation of the document, with its `method` ("get") and `path` added;
            returns whether to offer it. By default all are offered, including those that change data.
        max_response_bytes: The maximum size of a response.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The document is invalid, two operations have one name, there is no URL, or an operation cannot be
            called: a schema, a body or a parameter is not supported. The text names the operation.
    """
    check_type("url", url, str, may_be_none=True)
    check_callable("include", include)
    check_count("max_response_bytes", max_response_bytes, 1, may_be_none=False)
    parts = Document(document)
    if not str(document.get("openapi", "")).startswith("3."):
        raise ValueError("the document must be an OpenAPI 3 document")
    base = _base_url(document) if url is None else url
    if not base.startswith(("http://", "https://")):
        raise ValueError("the URL of the service must begin with http:// or https://: pass url=")
    server = parts.server("OpenAPI")
    for operation in _operations(parts, document):
        place = f"{operation['method'].upper()} {operation['path']}"[:128]
        name = tool_name(str(operation.get("operationId") or f"{operation['method']}{operation['path']}"))
        if include is not None and not include(name, operation):
            continue
        try:
            found = _Operation(parts, operation, base.rstrip("/"), http_client, max_response_bytes)
            server.tool(
                name,
                description=description_of(operation),
                input_schema=found.schema,
                annotations=_annotations(operation["method"]),
            )(found.run)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{place!a}: {error}") from error
    return server


class _Operation:
    """One operation: the places of its arguments, and how it is called."""

    def __init__(
        self, parts: Document, operation: Mapping[str, Any], base: str, http_client: Any, max_bytes: int
    ) -> None:
        self._method = str(operation["method"]).upper()
        self._path = str(operation["path"])
        self._base = base
        self._http = http_client
        self._max_bytes = max_bytes
        self._parameters: dict[str, dict[str, Any]] = {}
        properties: dict[str, Any] = {}
        required: list[str] = []
        for parameter in operation["parameters"]:
            name, place = parameter.get("name"), parameter.get("in")
            if not isinstance(name, str) or place not in ("path", "query", "header", "cookie"):
                raise ValueError("a parameter is invalid")
            # Always required: a path without one of its parts would be another path.
            is_required = parameter.get("required") is True or place == "path"
            # OpenAPI 3.1: these three header parameters are ignored, because other parts of the document describe them.
            if (place == "header" and name.lower() in ("accept", "content-type", "authorization")) or (
                place == "cookie" and not is_required
            ):
                continue
            # The HTTP client keeps its own cookies, and arguments cannot distinguish two parameters with one name.
            if place == "cookie" or name in self._parameters:
                raise ValueError("cookies, and two parameters of the same name, are not supported")
            schema = parameter.get("schema")
            if not isinstance(schema, dict):
                schema = next(iter((parameter.get("content") or {"": {}}).values())).get("schema", {})
            if isinstance(description := parameter.get("description"), str):
                schema = {"description": description, **schema} if "$ref" not in schema else schema
            is_plain = "schema" in parameter and isinstance(schema, dict)
            self._parameters[name] = {**parameter, "schema": parts.resolved(schema)} if is_plain else parameter
            properties[name] = schema
            if is_required:
                required.append(name)
        missing = {*_PART.findall(self._path)} - {
            name for name, each in self._parameters.items() if each["in"] == "path"
        }
        if missing:
            raise ValueError("a part of the path is not a parameter")
        self._body = ""  # the name of its argument
        self._media = ""
        if "requestBody" in operation:
            body = parts.resolved(operation["requestBody"])
            content: Any = body.get("content")
            content = content if isinstance(content, dict) else {}
            self._media = next((kind for kind in content if _JSON.fullmatch(kind.partition(";")[0])), "")
            if not self._media:
                raise ValueError("the body of a request must be JSON")
            # A parameter may have the same name.
            self._body = "body" if "body" not in properties else "request_body"
            properties[self._body] = (content[self._media] or {}).get("schema", {})
            if body.get("required") is True:
                required.append(self._body)
        self.schema: dict[str, Any] = parts.object_schema(properties, required)

    async def run(self, **arguments: Any) -> Any:
        """Call the operation, and return its response."""
        from ..http.sending import read  # needs another extra, which whoever has an HTTP client has

        query: list[tuple[str, str]] = []
        headers = {"Accept-Encoding": "gzip"}
        segments: dict[str, str] = {}
        for name, parameter in self._parameters.items():
            if name not in arguments:
                continue
            value = arguments[name]
            if parameter["in"] == "query":
                query += _query(name, value, parameter)
            elif parameter["in"] == "header":
                headers[name] = _header(name, value)
            else:
                segments[name] = _segment(name, value)
        path = _PART.sub(lambda part: segments[part[1]], self._path)
        content = None
        if self._body and self._body in arguments:
            content = dumps(arguments[self._body])
            headers["Content-Type"] = self._media
        # Built and sent in two steps, so that the body of the response can be read up to a limit.
        request = self._http.build_request(
            self._method, self._base + path, params=query or None, headers=headers, content=content
        )
        # Redirects are not followed, because they could send the HTTP client's credentials to another server.
        response = await self._http.send(request, stream=True, follow_redirects=False)
        try:
            received = await read(response, self._max_bytes)
        except InvalidResponse as error:
            raise ToolError(f"{str(error).capitalize()}.") from None
        finally:
            await response.aclose()
        return _read(response.status_code, str(response.headers.get("content-type", "")), received)


def _read(status: int, content_type: str, body: bytes) -> Any:
    kind = content_type.partition(";")[0].strip().lower()
    is_text = kind.startswith("text/") or _JSON.fullmatch(kind) is not None
    if not 200 <= status < 300:
        # The model gets the reason, which often helps it to correct its call.
        shown = body.decode("utf-8", "replace")[:1000] if is_text else ""
        raise ToolError(f"HTTP status {status}" + (f": {shown}" if shown else ""))
    if not body:
        return None
    if _JSON.fullmatch(kind):
        try:
            return Raw(body).decode()
        except ValueError:
            raise ToolError("The response is not valid JSON.") from None
    if not is_text:
        raise ToolError("The response is neither text nor JSON.")
    return body.decode("utf-8", "replace")


def _operations(parts: Document, document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the operations, with `method`, `path` and all `parameters`."""
    paths = document.get("paths")
    for path, item in paths.items() if isinstance(paths, dict) else ():
        shared = parts.resolved(item)
        for method in ("get", "put", "post", "delete", "options", "head", "patch", "trace"):
            if method not in shared:
                continue
            operation = parts.resolved(shared[method])
            parameters = {}
            for each in [*(shared.get("parameters") or ()), *(operation.get("parameters") or ())]:
                parameter = parts.resolved(each)
                parameters[(parameter.get("name"), parameter.get("in"))] = parameter
            yield {**operation, "method": method, "path": path, "parameters": [*parameters.values()]}


def _base_url(document: Mapping[str, Any]) -> str:
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else {}
    url = first.get("url") if isinstance(first, dict) else None
    if not isinstance(url, str):
        return ""
    variables = first.get("variables") or {}
    return _PART.sub(lambda part: str(variables.get(part[1], {}).get("default", "")), url)


def _annotations(method: str) -> ToolAnnotations:
    is_read = method in ("get", "head", "options", "trace")
    return ToolAnnotations(
        read_only_hint=is_read,
        destructive_hint=method in ("delete", "put", "patch"),
        idempotent_hint=is_read or method in ("put", "delete"),
        open_world_hint=True,
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return dumps(value).decode()


def _query(name: str, value: Any, parameter: Mapping[str, Any]) -> list[tuple[str, str]]:
    if isinstance(value, list):
        if parameter.get("explode", True):
            return [(name, _text(each)) for each in value]
        separator = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(str(parameter.get("style")), ",")
        return [(name, separator.join(map(_text, value)))]
    # With `content`, the value is one JSON text in the query.
    if isinstance(value, dict) and "content" not in parameter:
        is_deep = parameter.get("style") == "deepObject"
        # In the style `form` the members become parameters of their own: a model could add any, such as a key.
        schema = parameter.get("schema")
        declared = schema.get("properties", {}) if isinstance(schema, dict) else {}
        is_open = isinstance(schema, dict) and schema.get("additionalProperties") not in (None, False)
        if not is_deep and not is_open and any(key not in declared for key in value):
            raise ToolError(f"{name} has members that the service does not declare.")
        return [(f"{name}[{key}]" if is_deep else key, _text(each)) for key, each in value.items()]
    return [(name, _text(value))]


def _header(name: str, value: Any) -> str:
    text = _text(value)
    if not text.isprintable() or not text.isascii():
        raise ToolError(f"{name} must have only printable ASCII characters.")
    return text


def _segment(name: str, value: Any) -> str:
    text = _text(value)
    # `quote` leaves dots unchanged, and a server may resolve them.
    if text in ("", ".", ".."):
        raise ToolError(f"{name} must be a name, not empty, . or ..")
    return quote(text, safe="")
