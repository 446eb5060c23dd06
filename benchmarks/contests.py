"""The contests: for each work and payload, the code that a user of each library would write, checked to be correct."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final

import mcp_types
import msgspec
import orjson
import pydantic_core

import jsonrpc_fast
from jsonrpc_fast import JSONRPC, PRESETS, Limits, codec
from jsonrpc_fast.codec import _messages, _pure

from . import peers
from .calls import CALLS, Call
from .data import Payload, Turn, payloads, stream_of, turns
from .peers import (
    AJSONRPC,
    CORE,
    CORE_PARSE,
    CORE_RAW,
    JSON_RPC,
    JSONRPCSERVER,
    MSGSPEC,
    MSGSPEC_UNTRACKED,
    ORJSON,
    PJRPC,
    PURE,
    PYDANTIC,
    PYDANTIC_CORE,
    STDLIB,
    STRUCTS,
)

WORKS: Final[tuple[str, ...]] = ("decode", "decode in turn", "stream", "encode", *[call.work for call in CALLS])
"""All works: the first compare libraries, the others are the public functions one by one."""


@dataclass(frozen=True)
class Contestant:
    """An expression of a library. It is not a function, because a call takes a third of the smallest message's time."""

    name: str
    expression: str
    names: dict[str, Any]

    def function(self) -> Callable[[], Any]:
        function: Callable[[], Any] = eval(f"lambda: {self.expression}", dict(self.names))
        return function


class Entries(list[Contestant]):
    """The contestants of one contest. All their expressions can use the names given here."""

    def __init__(self, **names: Any) -> None:
        super().__init__()
        self._names = names

    def enter(self, name: str, expression: str, **names: Any) -> None:
        self.append(Contestant(name, expression, {**self._names, **names}))


def entered(work: str, chosen: Collection[str] | None = None) -> dict[str, list[Contestant]]:
    """Return the contestants of a work by payload, of all payloads or of the chosen ones.

    Raises:
        RuntimeError: The compiled core is not in use.
    """
    if jsonrpc_fast.BACKEND != "cython":
        raise RuntimeError(f"the benchmarks measure the compiled core, which is not in use: {codec.CORE_FAULT}")
    if work == "decode in turn":
        return {name: readers_in_turn(turn) for name, turn in turns().items()}
    messages = payloads()
    enter, names = _CONTESTS[work] if work in _CONTESTS else (decoders, tuple(messages))
    return {name: enter(messages[name]) for name in names if chosen is None or name in chosen}


def decoders(payload: Payload) -> list[Contestant]:
    """Return the contestants that read this kind of message. Each is checked to accept it."""
    entries = Entries(data=payload.text)
    entries.enter(CORE, "decode(data)", decode=jsonrpc_fast.decode)
    entries.enter(CORE_RAW, "decode(data, raw=True)", decode=jsonrpc_fast.decode)
    entries.enter(CORE_PARSE, "parse(content)", parse=jsonrpc_fast.parse, content=payload.content)
    entries.enter(PURE, "decode(data)", decode=_pure.decode)
    for name, loads in JSON_READERS.items():
        entries.enter(name, "loads(data)", loads=loads)
    for name, struct in STRUCTS[payload.kind].items():
        entries.enter(name, "decode(data)", decode=msgspec.json.Decoder(struct).decode)
    is_call = payload.kind in ("request", "notification")
    if payload.carries_object:
        # The SDK's transports call it like this.
        validate = mcp_types.jsonrpc_message_adapter.validate_json
        entries.enter(PYDANTIC, "validate(data, by_name=False)", validate=validate)
    if is_call or payload.kind == "request batch":
        entries.enter(PJRPC, "decode(data)", decode=peers.pjrpc_request)
        entries.enter(JSON_RPC, "decode(data)", decode=peers.json_rpc_request)
        entries.enter(AJSONRPC, "decode(data)", decode=peers.ajsonrpc_request)
        entries.enter(JSONRPCSERVER, "decode(data)", decode=peers.jsonrpcserver_request)
    else:
        entries.enter(PJRPC, "decode(data)", decode=peers.pjrpc_response)
    refused = REFUSED.get(payload.name, ())
    accepted = [contestant for contestant in entries if contestant.name not in refused]
    for contestant in accepted:
        _check_messages(contestant, payload.name, payload.content)
    return accepted


REFUSED: Final = {
    "unknown_last": (JSON_RPC, AJSONRPC, JSONRPCSERVER),
    "id_float": (PJRPC, JSON_RPC, AJSONRPC),
    "id_null": (AJSONRPC,),
}
"""Valid payloads that a library refuses or warns about, because it refuses unknown members or other types of ids."""


JSON_READERS: Final[dict[str, Callable[[bytes], Any]]] = {
    ORJSON: orjson.loads,
    PYDANTIC_CORE: pydantic_core.from_json,
    STDLIB: json.loads,
}
"""The functions that read any JSON text, by contestant."""


def readers_in_turn(turn: Turn) -> list[Contestant]:
    """Return the contestants that read messages of all kinds."""
    entries = Entries(texts=turn.texts)
    entries.enter(CORE, "[decode(text) for text in texts]", decode=jsonrpc_fast.decode)
    entries.enter(CORE_RAW, "[decode(text, raw=True) for text in texts]", decode=jsonrpc_fast.decode)
    entries.enter(PURE, "[decode(text) for text in texts]", decode=_pure.decode)
    for name, loads in JSON_READERS.items():
        entries.enter(name, "[loads(text) for text in texts]", loads=loads)
    for name, struct in peers.ANY_MESSAGE.items():
        entries.enter(name, "[decode(text) for text in texts]", decode=msgspec.json.Decoder(struct).decode)
    content = [orjson.loads(text) for text in turn.texts]
    for contestant in entries:
        _check_messages(contestant, turn.name, content)
    return entries


def streams(payload: Payload) -> list[Contestant]:
    """Return the contestants that read 64 KB of lines like `payload`. Each is checked to accept all of them."""
    chunk = stream_of(payload)
    # Without the last newline, because split() would return an empty last piece.
    entries = Entries(chunk=chunk, lines=chunk[:-1])
    entries.enter(CORE, "feed(chunk)", feed=jsonrpc_fast.Decoder().feed)
    entries.enter(CORE_RAW, "feed(chunk)", feed=jsonrpc_fast.Decoder(raw=True).feed)
    entries.enter(PURE, "feed(chunk)", feed=_pure.Decoder().feed)
    for name, loads in JSON_READERS.items():
        entries.enter(name, "[loads(line) for line in lines.split(b'\\n')]", loads=loads)
    for name, struct in STRUCTS[payload.kind].items():
        entries.enter(name, "decode_lines(chunk)", decode_lines=msgspec.json.Decoder(struct).decode_lines)
    if payload.carries_object:
        validate = mcp_types.jsonrpc_message_adapter.validate_json
        expression = "[validate(line, by_name=False) for line in lines.split(b'\\n')]"
        entries.enter(PYDANTIC, expression, validate=validate)
    content = [orjson.loads(line) for line in chunk.splitlines()]
    for contestant in entries:
        _check_messages(contestant, payload.name, content)
    return entries


def encoders(payload: Payload) -> list[Contestant]:
    """Return the contestants that write the result in `payload`. Each is checked to write the same message."""
    envelope = payload.content
    entries = Entries(id=envelope["id"], result=envelope["result"])
    literal = "{'jsonrpc': '2.0', 'id': id, 'result': result}"
    entries.enter(CORE, "encode_result(id, result)", encode_result=jsonrpc_fast.encode_result)
    entries.enter(PURE, "encode_result(id, result)", encode_result=_messages.encode_result)
    entries.enter(ORJSON, f"dumps({literal}, option=OPT_APPEND_NEWLINE)", dumps=orjson.dumps, **_OPTIONS)
    encode = msgspec.json.Encoder().encode
    for name in (MSGSPEC, MSGSPEC_UNTRACKED):
        struct = STRUCTS["result"][name]
        entries.enter(name, "encode(Result('2.0', id, result)) + b'\\n'", encode=encode, Result=struct)
    entries.enter(PYDANTIC_CORE, f"to_json({literal}) + b'\\n'", to_json=pydantic_core.to_json)
    entries.enter(STDLIB, f"(dumps({literal}) + '\\n').encode()", dumps=json.dumps)
    if payload.carries_object:
        entries.enter(PYDANTIC, "encode(id, result)", encode=peers.pydantic_result)
    for contestant in entries:
        line = contestant.function()()
        if not line.endswith(b"}\n") or orjson.loads(line) != envelope:
            raise AssertionError(f"{contestant.name} does not write {payload.name}")
    return entries


KEEP: Final = JSONRPC.replace(extra_members="keep")
UNVERSIONED: Final = JSONRPC.replace(writes="unversioned", optional_jsonrpc=True)
_PROFILES: Final = {
    **{preset.name.upper().replace("-", "_"): preset for preset in PRESETS.values()},
    "KEEP": KEEP,
    "UNVERSIONED": UNVERSIONED,
    "REJECT": JSONRPC.replace(big_ints="reject"),
    "DECIMAL": JSONRPC.replace(floats="decimal"),
    "TIGHT": JSONRPC.replace(limits=Limits(message_bytes=65536, depth=32, method_bytes=64, id_bytes=64)),
}
_OPTIONS: Final = {name: getattr(orjson, name) for name in ("OPT_APPEND_NEWLINE", "OPT_NON_STR_KEYS", "OPT_SORT_KEYS")}


def callers(call: Call, payload: Payload) -> list[Contestant]:
    """Return the four contestants of a call, for a message."""
    content = _prepared(payload.content, call.prepare)
    text = orjson.dumps(content)
    entries = Entries(text=text, cut=text[:-1], line=text + b"\n", event=b"data: %b\n\n" % text)
    for name, backend in ((CORE, jsonrpc_fast), (PURE, _pure)):
        entries.enter(name, call.expression, **_names(backend, content))
    priced = _priced(content)
    prepared = {"content": content, "dated_content": priced, "priced_content": priced, "default": str, **_OPTIONS}
    entries.enter(ORJSON, call.opponent, loads=orjson.loads, dumps=orjson.dumps, **prepared)
    in_json = call.opponent
    if in_json.startswith("dumps"):
        in_json = f"({in_json.replace('option=OPT_SORT_KEYS', 'sort_keys=True')} + '\\n').encode()"
        in_json = in_json.replace(", option=OPT_APPEND_NEWLINE", "")
    entries.enter(STDLIB, in_json, loads=json.loads, dumps=json.dumps, **prepared)
    for contestant in entries:
        found = contestant.function()()
        read = orjson.loads(found) if isinstance(found, bytes) else found
        for item in read if isinstance(read, list) else [read]:
            is_refused = isinstance(item, (str, jsonrpc_fast.ParseError, _messages.ParseError))
            if is_refused is not ("(cut)" in contestant.expression):
                raise AssertionError(f"{contestant.name} refuses {payload.name} in {call.work}, or accepts a cut one")
    return entries


def _names(backend: Any, content: Any) -> dict[str, Any]:
    """What the expressions of a backend use."""
    functions = {name: value for name, value in vars(backend).items() if callable(value)}
    names = {**functions, **_PROFILES, **_OPTIONS, "default": str, "feed": backend.Decoder().feed}
    names["feed_event"] = backend.Decoder("sse").feed
    text = orjson.dumps(content)
    message = backend.decode(text, UNVERSIONED)
    priced = _priced(content)
    names |= {"content": content, "dated_content": priced, "message": message}
    names["extended"] = backend.decode(text, KEEP)
    names["dated"] = names["priced"] = backend.parse(priced, UNVERSIONED)
    names["handler"] = lambda request: backend.Response(request.id, request.params)
    if isinstance(content, dict):
        names |= {name: content.get(name) for name in ("id", "method", "params", "result")}
        error = content.get("error", {})
        names |= {"code": error.get("code"), "reason": error.get("message"), "data": error.get("data")}
    return names


def _prepared(content: Any, form: str) -> Any:
    """A message or a batch with another member, or without `jsonrpc`."""
    if isinstance(content, list):
        return [_prepared(item, form) for item in content]
    if form == "with_extra":
        return {**content, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-01"}
    return {name: value for name, value in content.items() if form != "unversioned" or name != "jsonrpc"}


def _priced(content: Any) -> Any:
    """A message or a batch with a Decimal at the end of each payload."""
    if isinstance(content, list):
        return [_priced(item) for item in content]
    name = next((name for name in ("params", "result") if name in content), None)
    if name is None:
        return content
    payload, price = content[name], Decimal("12.50")
    if isinstance(payload, dict):
        return {**content, name: {**payload, "price": price}}
    return {**content, name: [*payload, price] if isinstance(payload, list) else [payload, price]}


_WRITTEN: Final = (
    "tiny_response tools_call_response result_1k result_4k result_10k tools_list_14k completion_80k logs_1m blob_1m "
    "emoji_short floats_17_digits"
)
_CONTESTS: Final[dict[str, tuple[Callable[[Payload], list[Contestant]], tuple[str, ...]]]] = {
    "stream": (streams, ("tiny_request", "tools_call_325")),
    "encode": (encoders, tuple(_WRITTEN.split())),
    **{call.work: (partial(callers, call), tuple(call.limits)) for call in CALLS},
}


def _check_messages(contestant: Contestant, payload: str, content: Any) -> None:
    """Raise AssertionError unless the contestant returns the messages in `content`, so that no refusal is timed."""
    value = contestant.function()()
    found = list(value) if isinstance(content, list) else [value]
    expected = content if isinstance(content, list) else [content]
    if len(found) != len(expected) or not all(map(_is_same, found, expected)):
        raise AssertionError(f"{contestant.name} does not read {payload}")


def _is_same(message: object, expected: dict[str, Any]) -> bool:
    """Return whether a message has the expected method, or the expected id if it is a response."""
    if isinstance(message, (jsonrpc_fast.ParseError, _messages.ParseError)):
        return False
    member = "method" if "method" in expected else "id"
    found = message[member] if isinstance(message, dict) else getattr(message, member, None)
    return bool(found == expected[member])
