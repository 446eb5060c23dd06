"""Tools from documents of OpenRPC and OpenAPI: schemas, calls, and documents that are refused."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from jsonrpc_fast import mcp
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.handlers.openrpc import openrpc
from jsonrpc_fast.mcp.protocol.schemas import Schema
from jsonrpc_fast.mcp.providers import openapi_server, openrpc_server
from jsonrpc_fast.mcp.providers.openapi import Document, tool_name
from jsonrpc_fast.mcp.server import Server

from ...support.tables import rows


async def text_of(server: Server, name: str, /, **arguments: Any) -> str:
    async with mcp.connect(server) as client:
        result = await client.call_tool(name, arguments)
        return ("failed: " if result.get("isError") else "") + "".join(block["text"] for block in result["content"])


# Schemas.


def test_references_become_definitions() -> None:
    content = {
        "components": {
            "schemas": {
                "Tree": {
                    "type": "object",
                    "properties": {"$ref": {"type": "string"}, "left": {"$ref": "#/components/schemas/Tree"}},
                },
                "a/b": {"type": "string", "nullable": True},
                "Size": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "default": {"$ref": "none"}},
            },
            "other": {"Tree": {"enum": ["a"], "nullable": True}},
        }
    }
    properties = {
        "tree": {"$ref": "#/components/schemas/Tree"},
        "text": {"$ref": "#/components/schemas/a~1b"},
        "size": {"$ref": "#/components/schemas/Size"},
        "other": {"$ref": "#/components/other/Tree"},
    }
    schema = Document(content).object_schema(properties, ["tree"])
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"] == {"$ref": {"type": "string"}, "left": {"$ref": "#/$defs/Tree"}}
    assert schema["$defs"]["a_b"] == {"type": ["string", "null"]}
    assert schema["$defs"]["Size"] == {
        "type": "integer",
        "minimum": 0,
        "exclusiveMinimum": 0,
        "default": {"$ref": "none"},
    }
    compiled = Schema(schema)
    assert compiled.faults({"tree": {"left": {}}, "text": None, "size": 1, "other": None}) == []
    for wrong in ({}, {"tree": {"left": 1}}, {"tree": {}, "size": 0}, {"tree": {}, "other": "b"}, {"tree": {}, "x": 1}):
        assert compiled.faults(wrong)


@rows(
    ("reference", "text"),
    [
        ("#/components/none", "the target of a reference does not exist"),
        ("#/list/9", "the target of a reference does not exist"),
        ("https://example.org/a.json", "another document"),
        ("other.json#/a", "another document"),
        ("#/loop", "form a cycle"),
        ("#/list", "must be an object"),
    ],
)
def test_references_that_lead_nowhere(reference: str, text: str) -> None:
    document = Document({"loop": {"$ref": "#/loop"}, "list": []})
    with pytest.raises(ValueError, match=text):
        document.resolved({"$ref": reference})


def test_names_of_tools() -> None:
    assert [tool_name(name) for name in ("shop.find", "get /a/{b}", "\u65e5", "x" * 200)] == [
        "shop.find",
        "get_a_b",
        "",
        "x" * 128,
    ]


# OpenRPC.


async def test_the_methods_of_a_service_are_tools() -> None:
    def find(name: str, limit: int = 3) -> list[str]:
        """Find items.

        Args:
            name: What they are called.
        """
        if name == "none":
            raise RpcError(-32000, "there are none")
        return [name] * limit

    handlers = Handlers({"shop.find": find, "shop.pair": lambda a, b, /: {"a": a, "b": b}})
    seen: list[Any] = []

    async def call(method: str, params: Any) -> Any:
        seen.append(params)
        answer = json.loads(
            handlers.dispatch(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})) or b""
        )
        if "error" in answer:
            raise RpcError(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    server = openrpc_server(openrpc(handlers, title="Shop", version="1"), call)
    async with mcp.connect(server) as client:
        info = client.server.info
        assert info is not None
        assert (info.name, info.version) == ("Shop", "1")
        tools = {tool["name"]: tool for tool in await client.list_tools()}
        assert tools["shop.find"]["description"] == "Find items."
        properties = tools["shop.find"]["inputSchema"]["properties"]
        assert properties["name"] == {"description": "What they are called.", "type": "string"}
        assert tools["shop.find"]["inputSchema"]["required"] == ["name"]
        result = await client.call_tool("shop.pair", {"a": 1, "b": [2]})
        assert result["structuredContent"] == {"a": 1, "b": [2]}
    assert await text_of(server, "shop.find", name="a", limit="2") == '["a","a"]'
    assert seen == [[1, [2]], {"name": "a", "limit": 2}]
    assert await text_of(server, "shop.find", name="none") == "failed: error -32000: there are none"
    assert (await text_of(server, "shop.find", limit=1)).startswith("failed: Invalid arguments")
    only = openrpc_server(openrpc(handlers, title="Shop", version="1"), call, include=lambda name, _: "pair" in name)
    assert list(only.tools) == ["shop.pair"]


async def unused(method: str, params: Any) -> Any:
    raise AssertionError


@rows(
    ("methods", "text"),
    [
        (None, "no methods"),
        ([3], "must be an object"),
        ([{}], "no name"),
        ([{"name": "a"}, {"name": "a"}], "method 'a': a is already registered"),
        ([{"name": "a b"}, {"name": "a_b"}], "already registered"),
        ([{"name": "a", "params": [{"name": "x"}, {"name": "x"}]}], "a unique name"),
        ([{"name": "a", "params": [{"name": "x", "schema": {"type": "strin"}}]}], "'a': .*cannot be used"),
        ([{"name": "a", "params": [{"$ref": "#/none"}]}], "the target of a reference does not exist"),
    ],
)
def test_documents_of_openrpc_that_are_refused(methods: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        openrpc_server({"openrpc": "1.3.2", "methods": methods}, unused)


# OpenAPI.

PETS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "2"},
    "servers": [{"url": "https://{place}.example.org/v1", "variables": {"place": {"default": "pets"}}}],
    "paths": {
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "operationId": "getPet",
                "summary": "One pet.",
                "parameters": [
                    {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                ],
            },
            "delete": {},
        },
        "/pets": {
            "post": {
                "operationId": "addPet",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
            }
        },
    },
    "components": {
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "age": {"type": "integer", "nullable": True}},
            }
        }
    },
}


class Service:
    """A service that returns the request that it received."""

    def __init__(self, **answer: Any) -> None:
        self.requests: list[httpx2.Request] = []
        self.answer = answer

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(**{"status_code": 200, "json": {"path": request.url.raw_path.decode()}, **self.answer})

    def server(self, document: Any = PETS, **options: Any) -> Server:
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
        return openapi_server(document, client, **options)


async def test_the_operations_of_a_service_are_tools() -> None:
    service = Service()
    server = service.server()
    async with mcp.connect(server) as client:
        tools = {tool["name"]: tool for tool in await client.list_tools()}
        assert list(tools) == ["getPet", "delete_pets_id", "addPet"]
        assert tools["getPet"]["description"] == "One pet."
        assert [tools[name]["annotations"]["readOnlyHint"] for name in tools] == [True, False, False]
        assert list(tools["getPet"]["inputSchema"]["properties"]) == ["id", "fields", "filter", "X-Trace"]
        arguments = {"id": "a/b?#", "fields": ["x", "y"], "filter": {"k": 1}, "X-Trace": "t"}
        result = await client.call_tool("getPet", arguments)
        path = "/v1/pets/a%2Fb%3F%23?fields=x&fields=y&filter%5Bk%5D=1"
        assert result["structuredContent"] == {"path": path}
        await client.call_tool("addPet", {"body": {"name": "Rex", "age": None}})
        assert (await client.call_tool("addPet", {"body": {"age": 1}}))["isError"]
    get, post = service.requests
    assert (get.method, get.url.host, get.headers["x-trace"]) == ("GET", "pets.example.org", "t")
    assert (post.method, post.headers["content-type"], json.loads(post.content)) == (
        "POST",
        "application/json",
        {"name": "Rex", "age": None},
    )


@rows("id", ["", ".", ".."])
async def test_a_value_cannot_lead_to_another_path(id: str) -> None:
    service = Service()
    assert (await text_of(service.server(), "getPet", id=id)).startswith("failed: id must be a name")
    assert service.requests == []


async def test_a_header_has_no_line_breaks() -> None:
    service = Service()
    text = await text_of(service.server(), "getPet", **{"id": "a", "X-Trace": "a\r\nb: c"})
    assert text.startswith("failed: X-Trace must have only printable")
    assert service.requests == []


@rows(
    ("answer", "expected"),
    [
        ({"json": [1, "a"]}, '[1,"a"]'),
        ({"text": "plain"}, "plain"),
        ({"status_code": 204, "content": b""}, ""),
        ({"status_code": 404, "text": "no such pet"}, "failed: HTTP status 404: no such pet"),
        ({"status_code": 500, "content": b"\x00", "headers": {"content-type": "image/png"}}, "failed: HTTP status 500"),
        ({"status_code": 302, "headers": {"location": "https://example.com"}}, "failed: HTTP status 302"),
        ({"text": "x" * 2000}, "failed: The response is larger than 1000 bytes."),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, "failed: The response is not valid JSON."),
        ({"content": b"x", "headers": {"content-type": "image/png"}}, "failed: The response is neither text nor JSON."),
    ],
)
async def test_responses(answer: dict[str, Any], expected: str) -> None:
    service = Service(**{**({} if "json" in answer else {"json": None}), **answer})
    assert await text_of(service.server(max_response_bytes=1000), "getPet", id="a") == expected
    assert len(service.requests) == 1


async def test_only_what_is_included() -> None:
    server = Service().server(include=lambda name, operation: operation["method"] == "get", url="http://127.0.0.1/")
    assert list(server.tools) == ["getPet"]
    assert await text_of(server, "getPet", id="a") == '{"path":"/pets/a"}'


def changed(**members: Any) -> dict[str, Any]:
    return {**PETS, **members}


@rows(
    ("document", "text"),
    [
        ({}, "must be an OpenAPI 3 document"),
        ({"swagger": "2.0"}, "must be an OpenAPI 3 document"),
        (changed(servers=[]), "pass url="),
        (changed(servers=[{"url": "/v1"}]), "pass url="),
        (changed(paths={"/a/{b}": {"get": {}}}), r"GET /a/\{b\}.*not a parameter"),
        (changed(paths={"/a": {"get": {"operationId": "x"}, "put": {"operationId": "x"}}}), "x is already registered"),
        (changed(paths={"/a": {"post": {"requestBody": {"content": {"text/xml": {}}}}}}), "must be JSON"),
        (changed(paths={"/a": {"get": {"parameters": [{"name": "c", "in": "cookie", "required": True}]}}}), "cookies"),
        (changed(paths={"/a": {"get": {"parameters": [{"name": "c"}]}}}), "a parameter is invalid"),
        (changed(paths={"/a": {"$ref": "other.yaml"}}), "another document"),
    ],
)
def test_documents_of_openapi_that_are_refused(document: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Service().server(document)


async def test_an_object_in_a_query_has_only_the_members_that_the_service_declares() -> None:
    service = Service()
    found = {"a": {"type": "integer"}, "b": {"type": "string"}}
    parameters = [
        {"name": "filter", "in": "query", "schema": {"$ref": "#/components/schemas/Filter"}},
        {"name": "free", "in": "query", "schema": {"type": "object", "additionalProperties": {"type": "string"}}},
    ]
    operation = {"operationId": "find", "parameters": parameters, "responses": {}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "paths": {"/find": {"get": operation}},
        "components": {"schemas": {"Filter": {"type": "object", "properties": found}}},
    }
    server = service.server(document, url="https://example.org")
    async with mcp.connect(server) as client:
        result = await client.call_tool("find", {"filter": {"a": 1, "api_key": "x"}})
        assert result["isError"]
        assert result["content"][0]["text"] == "filter has members that the service does not declare."
        assert not (await client.call_tool("find", {"filter": {"a": 1}, "free": {"z": "y"}})).get("isError")
