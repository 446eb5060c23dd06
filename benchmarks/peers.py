"""The contestants: each library doing one piece of work, written as its user would write it."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import ajsonrpc.core  # type: ignore[import-untyped]
import jsonrpc.jsonrpc2  # type: ignore[import-untyped]
import mcp_types
import msgspec
import orjson
import pjrpc

import jsonrpc_fast
from jsonrpc_fast import codec
from jsonrpc_fast.codec import _pure

from .data import Kind, Payload, payloads, stream_of

with warnings.catch_warnings():
    # It reads its schema with a function that some Python versions deprecate.
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
PYDANTIC: Final = "MCP SDK's pydantic adapter"
PJRPC: Final = "pjrpc"
JSON_RPC: Final = "json-rpc"
AJSONRPC: Final = "ajsonrpc"
JSONRPCSERVER: Final = "jsonrpcserver"
STDLIB: Final = "json"

Work = Literal["decode", "encode", "stream"]
PURE_PYTHON_PEERS: Final = (PJRPC, JSON_RPC, AJSONRPC, JSONRPCSERVER)


@dataclass(frozen=True)
class Contestant:
    """An expression, not a function: a call would cost a third of the time that reading the smallest message takes."""

    name: str
    expression: str
    names: dict[str, Any]

    def function(self) -> Callable[[], Any]:
        function: Callable[[], Any] = eval(f"lambda: {self.expression}", dict(self.names))
        return function


# msgspec decodes into one type: each kind of message has the type that fits only that kind.

Id = int | str | float | None


class Request(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: Id
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


class RawResult(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: Id
    result: msgspec.Raw


class UntrackedRequest(Request, gc=False):
    pass


class UntrackedResult(Result, gc=False):
    pass


class UntrackedResponse(Response, gc=False):
    pass


class RawResponse(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: Id
    result: msgspec.Raw = msgspec.Raw()
    error: Error | msgspec.UnsetType = msgspec.UNSET


STRUCTS: Final[dict[Kind, dict[str, Any]]] = {
    "request": {MSGSPEC: Request, MSGSPEC_UNTRACKED: UntrackedRequest, MSGSPEC_RAW: RawRequest},
    "result": {MSGSPEC: Result, MSGSPEC_UNTRACKED: UntrackedResult, MSGSPEC_RAW: RawResult},
    "request batch": {
        MSGSPEC: list[Request],
        MSGSPEC_UNTRACKED: list[UntrackedRequest],
        MSGSPEC_RAW: list[RawRequest],
    },
    "response batch": {
        MSGSPEC: list[Response],
        MSGSPEC_UNTRACKED: list[UntrackedResponse],
        MSGSPEC_RAW: list[RawResponse],
    },
}


# The peers in plain Python run the first half of their dispatchers, without calling a method.


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


def entered(work: Work) -> dict[str, list[Contestant]]:
    """Return the contestants of a work by payload. Raises RuntimeError if the compiled core is not in use."""
    if jsonrpc_fast.BACKEND != "cython":
        raise RuntimeError(f"the benchmarks measure the compiled core, which is not in use: {codec.CORE_FAULT}")
    messages = payloads()
    if work == "decode":
        return {name: decoders(payload) for name, payload in messages.items()}
    if work == "encode":
        names = ("tiny_response", "tools_call_response", "tools_list_14k", "logs_1m", "blob_1m")
        return {name: encoders(messages[name]) for name in names}
    return {name: streams(messages[name]) for name in ("tiny_request", "tools_call_325")}


def decoders(payload: Payload) -> list[Contestant]:
    """Return the contestants that read this kind of message. Each is checked to accept it."""
    data = payload.text

    def entry(name: str, expression: str, **names: Any) -> Contestant:
        return Contestant(name, expression, {"data": data, **names})

    entries = [
        entry(CORE, "decode(data)", decode=jsonrpc_fast.decode),
        entry(CORE_PARSE_TEXT, "parse(loads(data))", parse=jsonrpc_fast.parse, loads=orjson.loads),
        entry(CORE_PARSE, "parse(content)", parse=jsonrpc_fast.parse, content=payload.content),
        entry(PURE, "decode(data)", decode=_pure.decode),
        entry(ORJSON, "loads(data)", loads=orjson.loads),
        *[
            entry(name, "decode(data)", decode=msgspec.json.Decoder(struct).decode)
            for name, struct in STRUCTS[payload.kind].items()
        ],
        entry(STDLIB, "loads(data)", loads=json.loads),
    ]
    if "raw" in inspect.signature(_pure.decode).parameters:
        entries.append(entry(CORE_RAW, "decode(data, raw=True)", decode=jsonrpc_fast.decode))
    if payload.carries_object:
        # The SDK's transports call it like this.
        validate = mcp_types.jsonrpc_message_adapter.validate_json
        entries.append(entry(PYDANTIC, "validate(data, by_name=False)", validate=validate))
    if payload.kind in ("request", "request batch"):
        entries += [
            entry(PJRPC, "decode(data)", decode=pjrpc_request),
            entry(JSON_RPC, "decode(data)", decode=json_rpc_request),
            entry(AJSONRPC, "decode(data)", decode=ajsonrpc_request),
            entry(JSONRPCSERVER, "decode(data)", decode=jsonrpcserver_request),
        ]
    else:
        entries.append(entry(PJRPC, "decode(data)", decode=pjrpc_response))
    for contestant in entries:
        _check_messages(contestant, payload.name, payload.content)
    return entries


def encoders(payload: Payload) -> list[Contestant]:
    """Return the contestants that write the result in `payload`. Each is checked to write the same message."""
    envelope = payload.content

    def entry(name: str, expression: str, **names: Any) -> Contestant:
        return Contestant(name, expression, {"id": envelope["id"], "result": envelope["result"], **names})

    orjson_names = {"dumps": orjson.dumps, "OPT_APPEND_NEWLINE": orjson.OPT_APPEND_NEWLINE}
    entries = [
        entry(CORE, "encode_result(id, result)", encode_result=jsonrpc_fast.encode_result),
        entry(CORE_MESSAGE, "Response(id, result).to_bytes_delimited()", Response=jsonrpc_fast.Response),
        entry(PURE, "encode_result(id, result)", encode_result=_pure.encode_result),
        entry(
            ORJSON,
            "dumps({'jsonrpc': '2.0', 'id': id, 'result': result}, option=OPT_APPEND_NEWLINE)",
            **orjson_names,
        ),
        entry(ORJSON_READY, "dumps(envelope, option=OPT_APPEND_NEWLINE)", envelope=envelope, **orjson_names),
        entry(
            MSGSPEC,
            "encode(Result('2.0', id, result)) + b'\\n'",
            encode=msgspec.json.Encoder().encode,
            Result=Result,
        ),
        entry(PJRPC, "encode(id, result)", encode=pjrpc_result),
        entry(JSON_RPC, "encode(id, result)", encode=json_rpc_result),
        entry(AJSONRPC, "encode(id, result)", encode=ajsonrpc_result),
        entry(JSONRPCSERVER, "encode(id, result)", encode=jsonrpcserver_result),
        entry(
            STDLIB,
            "(dumps({'jsonrpc': '2.0', 'id': id, 'result': result}) + '\\n').encode()",
            dumps=json.dumps,
        ),
    ]
    if payload.carries_object:
        entries.append(entry(PYDANTIC, "encode(id, result)", encode=pydantic_result))
    for contestant in entries:
        line = contestant.function()()
        if not line.endswith(b"}\n") or orjson.loads(line) != envelope:
            raise AssertionError(f"{contestant.name} does not write {payload.name}")
    return entries


def streams(payload: Payload) -> list[Contestant]:
    """Return the contestants that read 64 KB of lines like `payload`. Each is checked to accept all of them."""
    chunk = stream_of(payload)

    def entry(name: str, expression: str, **names: Any) -> Contestant:
        # Without the last newline, or split() would return an empty last piece.
        return Contestant(name, expression, {"chunk": chunk, "lines": chunk[:-1], **names})

    entries = [
        entry(CORE, "feed(chunk)", feed=jsonrpc_fast.Decoder().feed),
        entry(CORE_LINES, "[decode(line) for line in lines.split(b'\\n')]", decode=jsonrpc_fast.decode),
        entry(PURE, "feed(chunk)", feed=_pure.Decoder().feed),
        entry(ORJSON, "[loads(line) for line in lines.split(b'\\n')]", loads=orjson.loads),
        *[
            entry(name, "decode_lines(chunk)", decode_lines=msgspec.json.Decoder(struct).decode_lines)
            for name, struct in STRUCTS[payload.kind].items()
        ],
        entry(STDLIB, "[loads(line) for line in lines.split(b'\\n')]", loads=json.loads),
    ]
    if payload.carries_object:
        validate = mcp_types.jsonrpc_message_adapter.validate_json
        entries.append(
            entry(PYDANTIC, "[validate(line, by_name=False) for line in lines.split(b'\\n')]", validate=validate)
        )
    for contestant in entries:
        _check_messages(contestant, payload.name, [orjson.loads(line) for line in chunk.splitlines()])
    return entries


def _check_messages(contestant: Contestant, payload: str, content: Any) -> None:
    """Raise AssertionError unless the contestant returns the messages in `content`: a refusal is never timed."""
    value = contestant.function()()
    found = list(value) if isinstance(content, list) else [value]
    expected = content if isinstance(content, list) else [content]
    member = "method" if "method" in expected[0] else "id"
    refused = any(isinstance(message, (jsonrpc_fast.ParseError, _pure.ParseError)) for message in found)
    values = [message[member] if isinstance(message, dict) else getattr(message, member, None) for message in found]
    if refused or values != [message[member] for message in expected]:
        raise AssertionError(f"{contestant.name} does not read {payload}")
