"""The libraries that are compared, their names, and the code that their users would write around them."""

from __future__ import annotations

import json
import warnings
from typing import Any, Final, Literal, get_args

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
PURE: Final = "jsonrpc_fast, pure backend"
ORJSON: Final = "orjson"
MSGSPEC: Final = "msgspec Struct"
MSGSPEC_UNTRACKED: Final = "msgspec Struct, gc=False"
MSGSPEC_RAW: Final = "msgspec Struct with Raw"
PYDANTIC_CORE: Final = "pydantic_core (jiter)"
PYDANTIC: Final = "MCP SDK's pydantic adapter"
PJRPC: Final = "pjrpc"
JSON_RPC: Final = "json-rpc"
AJSONRPC: Final = "ajsonrpc"
JSONRPCSERVER: Final = "jsonrpcserver"
STDLIB: Final = "json"

PURE_PYTHON_PEERS: Final = (PJRPC, JSON_RPC, AJSONRPC, JSONRPCSERVER)


Id = int | str | float | None
_ANY: Final = dict[str, Any] | list[Any] | msgspec.UnsetType


def _error(data: Any) -> Any:
    error: Any = msgspec.defstruct("Error", [("code", int), ("message", str), ("data", *data)])
    return error | msgspec.UnsetType


def _structs(gc: bool, payload: Any, required: Any) -> dict[Kind, Any]:
    """Return the Struct of each kind of message. msgspec decodes into a given type.

    Args:
        gc: Whether the collector tracks them.
        payload: The field of a payload that may be absent, but for its name.
        required: The type of a result that must be there.
    """

    def struct(name: str, *fields: Any) -> Any:
        return msgspec.defstruct(name, [("jsonrpc", Literal["2.0"]), *fields], gc=gc)

    data = payload if payload[0] is msgspec.Raw else (Any, msgspec.UNSET)
    request = struct("Request", ("id", Id), ("method", str), ("params", *payload))
    response = struct("Response", ("id", Id), ("result", *data), ("error", _error(data), msgspec.UNSET))
    return {
        "request": request,
        "notification": struct("Notification", ("method", str), ("params", *payload)),
        "error": response,
        "result": struct("Result", ("id", Id), ("result", required)),
        "request batch": list[request],  # type: ignore[valid-type]
        "response batch": list[response],  # type: ignore[valid-type]
    }


_VARIANTS: Final = {
    MSGSPEC: _structs(True, (_ANY, msgspec.UNSET), Any),
    MSGSPEC_UNTRACKED: _structs(False, (_ANY, msgspec.UNSET), Any),
    MSGSPEC_RAW: _structs(True, (msgspec.Raw, msgspec.Raw()), msgspec.Raw),
}
STRUCTS: Final[dict[Kind, dict[str, Any]]] = {
    kind: {name: structs[kind] for name, structs in _VARIANTS.items()} for kind in get_args(Kind)
}
ANY_MESSAGE: Final = {
    name: msgspec.defstruct(
        "Message",
        [
            ("jsonrpc", Literal["2.0"]),
            ("id", Id | msgspec.UnsetType, msgspec.UNSET),
            ("method", str | msgspec.UnsetType, msgspec.UNSET),
            ("params", _ANY, msgspec.UNSET),
            ("result", Any, msgspec.UNSET),
            ("error", _error((Any, msgspec.UNSET)), msgspec.UNSET),
        ],
        gc=name == MSGSPEC,
    )
    for name in (MSGSPEC, MSGSPEC_UNTRACKED)
}
"""A message whose kind is not known in advance."""


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
