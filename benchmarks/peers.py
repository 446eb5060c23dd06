"""The libraries that are compared, their names, and the code that their users would write around them."""

from __future__ import annotations

import importlib
import json
import warnings
from typing import Any, Final, Literal

import ajsonrpc.core  # type: ignore[import-untyped]
import jsonrpc.jsonrpc2  # type: ignore[import-untyped]
import mcp_types
import msgspec
import pjrpc

from .data import Kind

with warnings.catch_warnings():
    # The module reads its schema with a function that some Python versions deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    import jsonrpcserver.dispatcher
    import jsonrpcserver.main

CORE: Final = "jsonrpc_fast"
CORE_RAW: Final = "jsonrpc_fast, raw=True"
CORE_PARSE: Final = "jsonrpc_fast parse(dict), dict made before"
CORE_PARSE_TEXT: Final = "jsonrpc_fast parse(orjson.loads)"
CORE_LINES: Final = "jsonrpc_fast decode, line by line"
CORE_MESSAGE: Final = "jsonrpc_fast Response.to_bytes_delimited"
PURE: Final = "jsonrpc_fast, pure backend"
ORJSON: Final = "orjson"
ORJSON_READY: Final = "orjson, envelope dict made before"
MSGSPEC: Final = "msgspec Struct"
MSGSPEC_UNTRACKED: Final = "msgspec Struct, gc=False"
MSGSPEC_RAW: Final = "msgspec Struct with Raw"
YYJSON: Final = "yyjson"
PYDANTIC_CORE: Final = "pydantic_core (jiter)"
JITER: Final = "jiter"
SIMDJSON: Final = "pysimdjson, payload as bytes"
PYDANTIC: Final = "MCP SDK's pydantic adapter"
PJRPC: Final = "pjrpc"
JSON_RPC: Final = "json-rpc"
AJSONRPC: Final = "ajsonrpc"
JSONRPCSERVER: Final = "jsonrpcserver"
STDLIB: Final = "json"

PURE_PYTHON_PEERS: Final = (PJRPC, JSON_RPC, AJSONRPC, JSONRPCSERVER)


def _optional(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


# These libraries do not have wheels for every Python, so no extra requires them.
yyjson: Final = _optional("yyjson")
jiter: Final = _optional("jiter")
simdjson: Final = _optional("simdjson")
OPTIONAL: Final = {"yyjson": yyjson, "jiter": jiter, "pysimdjson": simdjson}
"""The libraries that are left out if they are not installed, by the name of their package."""


# msgspec decodes into a given type, so each kind of message has its own.

Id = int | str | float | None


class Request(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: Id
    method: str
    params: dict[str, Any] | list[Any] | msgspec.UnsetType = msgspec.UNSET


class Notification(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] | list[Any] | msgspec.UnsetType = msgspec.UNSET


class Result(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: Id
    result: Any


class Error(msgspec.Struct):
    code: int
    message: str
    data: Any = msgspec.UNSET


class Response(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: Id
    result: Any = msgspec.UNSET
    error: Error | msgspec.UnsetType = msgspec.UNSET


class RawRequest(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: Id
    method: str
    params: msgspec.Raw = msgspec.Raw()


class RawNotification(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    method: str
    params: msgspec.Raw = msgspec.Raw()


class RawResult(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: Id
    result: msgspec.Raw


class UntrackedRequest(Request, gc=False):
    pass


class UntrackedNotification(Notification, gc=False):
    pass


class UntrackedResult(Result, gc=False):
    pass


class UntrackedResponse(Response, gc=False):
    pass


class RawError(msgspec.Struct):
    code: int
    message: str
    data: msgspec.Raw = msgspec.Raw()


class RawResponse(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: Id
    result: msgspec.Raw = msgspec.Raw()
    error: RawError | msgspec.UnsetType = msgspec.UNSET


class AnyMessage(msgspec.Struct):
    """A message whose kind is not known in advance."""

    jsonrpc: Literal["2.0"]
    id: Id | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | list[Any] | msgspec.UnsetType = msgspec.UNSET
    result: Any = msgspec.UNSET
    error: Error | msgspec.UnsetType = msgspec.UNSET


class UntrackedMessage(AnyMessage, gc=False):
    pass


STRUCTS: Final[dict[Kind, dict[str, Any]]] = {
    "request": {MSGSPEC: Request, MSGSPEC_UNTRACKED: UntrackedRequest, MSGSPEC_RAW: RawRequest},
    "notification": {MSGSPEC: Notification, MSGSPEC_UNTRACKED: UntrackedNotification, MSGSPEC_RAW: RawNotification},
    "error": {MSGSPEC: Response, MSGSPEC_UNTRACKED: UntrackedResponse, MSGSPEC_RAW: RawResponse},
    "result": {MSGSPEC: Result, MSGSPEC_UNTRACKED: UntrackedResult, MSGSPEC_RAW: RawResult},
    "request batch": {MSGSPEC: list[Request], MSGSPEC_UNTRACKED: list[UntrackedRequest], MSGSPEC_RAW: list[RawRequest]},
    "response batch": {
        MSGSPEC: list[Response],
        MSGSPEC_UNTRACKED: list[UntrackedResponse],
        MSGSPEC_RAW: list[RawResponse],
    },
}


# The peers in plain Python run the first half of their dispatchers, up to the call of the method.


def pjrpc_request(data: bytes) -> object:
    content = json.loads(data.decode())
    if isinstance(content, list):
        return pjrpc.BatchRequest.from_json(content)
    return pjrpc.Request.from_json(content)


def pjrpc_response(data: bytes) -> object:
    content = json.loads(data.decode())
    if isinstance(content, list):
        return pjrpc.BatchResponse.from_json(content)
    return pjrpc.Response.from_json(content)


def json_rpc_request(data: bytes) -> object:
    return jsonrpc.jsonrpc2.JSONRPC20Request.from_data(json.loads(data.decode()))


def ajsonrpc_request(data: bytes) -> object:
    content = json.loads(data.decode())
    if isinstance(content, list):
        return [ajsonrpc.core.JSONRPC20Request.from_body(item) for item in content]
    return ajsonrpc.core.JSONRPC20Request.from_body(content)


def jsonrpcserver_request(data: bytes) -> object:
    content = json.loads(data.decode())
    jsonrpcserver.main.default_validator(content)
    if isinstance(content, list):
        return [jsonrpcserver.dispatcher.create_request(item) for item in content]
    return jsonrpcserver.dispatcher.create_request(content)


def pydantic_result(id: int | str, result: dict[str, Any]) -> bytes:
    message = mcp_types.JSONRPCResponse(jsonrpc="2.0", id=id, result=result)
    return (message.model_dump_json(by_alias=True, exclude_unset=True) + "\n").encode()


def pjrpc_result(id: int | str, result: object) -> bytes:
    return (json.dumps(pjrpc.Response(id=id, result=result).to_json()) + "\n").encode()


def json_rpc_result(id: int | str, result: object) -> bytes:
    text: str = jsonrpc.jsonrpc2.JSONRPC20Response(_id=id, result=result).json
    return (text + "\n").encode()


def ajsonrpc_result(id: int | str, result: object) -> bytes:
    return (json.dumps(ajsonrpc.core.JSONRPC20Response(id=id, result=result).body) + "\n").encode()


def jsonrpcserver_result(id: int | str, result: Any) -> bytes:
    response = jsonrpcserver.response.SuccessResponse(result, id)
    return (json.dumps(jsonrpcserver.response.serialize_success(response)) + "\n").encode()


class SimdjsonReader:
    """Reads the envelope and keeps the payload as JSON text. One parser reads all texts, as its authors recommend."""

    def __init__(self) -> None:
        self._parse = simdjson.Parser().parse

    def request(self, data: bytes) -> object:
        message = self._parse(data)
        return {
            "jsonrpc": message["jsonrpc"],
            "id": message.get("id"),
            "method": message["method"],
            "params": _text_of(message.get("params")),
        }

    def response(self, data: bytes) -> object:
        message = self._parse(data)
        return {
            "jsonrpc": message["jsonrpc"],
            "id": message["id"],
            "result": _text_of(message.get("result")),
            "error": _text_of(message.get("error")),
        }


def _text_of(value: Any) -> Any:
    return value.mini if isinstance(value, (simdjson.Object, simdjson.Array)) else value
