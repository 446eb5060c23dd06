"""The messages by name: the files in ../shared/corpora/bench, or generated messages like them if it is missing."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import orjson

CORPORA: Final = Path(__file__).resolve().parents[2] / "shared" / "corpora" / "bench"

CAPTURED: Final = Path(__file__).resolve().parents[1] / "tests" / "vectors" / "wire"
MAX_TURN_BYTES: Final = 4096
"""The maximum size of a message in a turn. Without it a few large messages would dominate the time."""

Kind = Literal["request", "notification", "result", "error", "request batch", "response batch"]


@dataclass(frozen=True)
class Payload:
    name: str
    text: bytes

    @property
    def content(self) -> Any:
        return orjson.loads(self.text)

    @property
    def kind(self) -> Kind:
        content = self.content
        if isinstance(content, list):
            return "request batch" if "method" in content[0] else "response batch"
        if "method" in content:
            return "request" if "id" in content else "notification"
        return "error" if "error" in content else "result"

    @property
    def carries_object(self) -> bool:
        """Return whether it is a single message whose params or result is an object or absent, as MCP requires."""
        content = self.content
        return isinstance(content, dict) and isinstance(content.get("params", content.get("result", {})), dict)

    @property
    def size(self) -> str:
        return _shown_size(len(self.text))


@dataclass(frozen=True)
class Turn:
    """Real messages of many sizes, to be read one after another."""

    name: str
    texts: tuple[bytes, ...]

    @property
    def size(self) -> str:
        return f"{len(self.texts)} messages, {_shown_size(sum(map(len, self.texts)))}"


def payloads(corpora: Path = CORPORA) -> dict[str, Payload]:
    """Return every message to decode, by size, batches last."""
    texts = {
        "tiny_request": b'{"jsonrpc":"2.0","id":1,"method":"hello"}',
        "small_request": b'{"jsonrpc":"2.0","id":117,"method":"subtract","params":[42,23]}',
        # As jsonrpcclient 4.0.3 writes it.
        "small_request_spaced": b'{"jsonrpc": "2.0", "method": "ping", "params": [1, 2], "id": 2}',
        # As the MCP SDKs for Python 2.3.0 and for TypeScript 1.32.2 write it.
        "tools_call_126": b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":'
        b'{"name":"add","arguments":{"a":1,"b":2.5},"_meta":{"progressToken":4}}}',
        "tools_call_126_typescript": b'{"method":"tools/call","params":'
        b'{"name":"add","arguments":{"a":1,"b":2.5},"_meta":{"progressToken":3}},"jsonrpc":"2.0","id":3}',
        "tools_call_217": b'{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"search_issues",'
        b'"arguments":{"repository":"example/new-project","query":"timeout in the stream","state":"open","limit":20},'
        b'"_meta":{"progressToken":12}}}',
        "tools_call_325": _stored(corpora, "mcp_tools_call_request") or _tools_call(),
        "did_change": b'{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":'
        b'{"uri":"file:///home/user/projects/styles/test.less","version":2},"contentChanges":[{"text":"."}]}}',
        "completion": b'{"jsonrpc":"2.0","id":15,"method":"textDocument/completion","params":{"textDocument":'
        b'{"uri":"file:///home/user/projects/styles/test.less"},"position":{"line":0,"character":1},'
        b'"context":{"triggerKind":1}}}',
        "hover": b'{"jsonrpc":"2.0","id":13,"method":"textDocument/hover","params":{"textDocument":'
        b'{"uri":"file:///home/user/projects/styles/source/scss/global.scss"},"position":{"line":4,"character":20}}}',
        "eth_call": b'{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"from":'
        b'"0x0000000000000000000000000000000000000000","to":"0x%b"},"latest"]}' % _hexadecimal("to", 40)[2:].encode(),
        "electrum_header": b'{"jsonrpc": "2.0", "method": "blockchain.headers.subscribe", "params": [{"hex": "%b", '
        b'"height": 520481}]}' % _hexadecimal("header", 160)[2:].encode(),
        "progress": b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"abcdefgh",'
        b'"progress":50,"total":100,"message":"Reading the index..."}}',
        "error_77": b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}',
        "error_163": _stored(corpora, "mcp_error_response")
        or b'{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"Unsupported protocol version","data":'
        b'{"supported":["2026-07-28","2025-11-25"],"requested":"1900-01-01"}}}',
        "tiny_response": _stored(corpora, "tiny_response") or _result(1, "0x36"),
        "tools_call_response": _stored(corpora, "mcp_tools_call_response") or _tools_call_response(),
        "result_1k": _result(5, {"logs": _filled(_log, 900)}),
        "result_4k": _result(6, {"logs": _filled(_log, 3_900)}),
        "result_10k": _result(7, _filled(_log, 9_960)),
        "text_10k": _result(8, {"text": "A line of plain text without any escape in it. " * 213}),
        "hex_32k": _result(9, _hexadecimal("code", 32_000)),
        "emoji": _result(10, {"text": "Well done \N{PARTY POPPER}\N{FACE WITH TEARS OF JOY} and thanks. " * 60}),
        "escapes": _escapes(),
        "floats": _result(12, {"values": [random.Random(n).uniform(-1000, 1000) for n in range(150)]}),
        "integers": _result(13, {"values": [random.Random(n).randrange(10**9) for n in range(250)]}),
        "chinese": _result(14, {"text": "\u4e2d\u6587\u5b57\u7b26\u4e32\u7684\u5185\u5bb9\uff0c" * 110}),
        **_unusual(),
        "tools_list_14k": _stored(corpora, "mcp_tools_list_response") or _result(2, {"tools": _filled(_tool, 13_800)}),
        "resource_text_14k": _stored(corpora, "mcp_resource_text_escapes") or _resource_text(),
        "completion_80k": _stored(corpora, "lsp_completion_response_80k")
        or _result(37, {"isIncomplete": False, "items": _filled(_completion, 82_000)}),
        "simulation_200k": _stored(corpora, "eth_simulateV1_response_190k") or _result(1, _filled(_block, 208_000)),
        "logs_1m": _stored(corpora, "eth_getLogs_1m") or _result(1, _filled(_log, 1_000_000)),
        "blob_1m": _stored(corpora, "mcp_resource_blob_1m") or _resource_blob(),
        "batch_100_requests": _stored(corpora, "batch_100_requests") or _batch_of_requests(),
        "batch_100_responses": _stored(corpora, "batch_100_responses") or _batch_of_responses(),
    }
    for name in ("tools_call_217", "tools_call_325", "tools_list_14k", "logs_1m"):
        texts[f"{name}_typescript"] = typescript_order(texts[name])
    both = [
        {**item, "id": number * 100 + item["id"]}
        for number in (0, 1)
        for item in orjson.loads(texts["batch_100_requests"])
    ]
    texts["batch_200_requests"] = orjson.dumps(both)
    for name in ("requests", "responses"):
        texts[f"batch_10_{name}"] = orjson.dumps(orjson.loads(texts[f"batch_100_{name}"])[:10])
    texts["params_first"] = _in_order(texts["tools_call_217"], ("jsonrpc", "id", "params", "method"))
    texts["unknown_last"] = texts["tools_call_217"][:-1] + b',"traceparent":"00-0af7651916cd43dd8448eb211c80319c-01"}'
    for name in ("tiny_request", "small_request", "tools_call_217"):
        content = orjson.loads(texts[name])
        texts[f"{name}_indented"] = json.dumps(content, indent=4).encode()
        texts[f"{name}_padded"] = json.dumps(content, separators=(" ,  ", " :  ")).encode()
    return {name: Payload(name, text) for name, text in sorted(texts.items(), key=_by_size)}


def turns(corpora: Path = CORPORA) -> dict[str, Turn]:
    """Return real messages: those captured, and those of Ethereum and of language servers if the corpora are there."""
    files = {
        "wire": sorted(CAPTURED.glob("*.ndjson")),
        "eth": [corpora.parent / "eth" / "messages.ndjson"],
        "lsp": [corpora.parent / "lsp" / "inspector_messages.ndjson"],
    }
    found = {}
    for name, paths in files.items():
        lines = [line for path in paths if path.exists() for line in path.read_bytes().splitlines()]
        # Some contestants must know the kind of each message in advance, and cannot read batches.
        texts = [line for line in lines if line.startswith(b"{") and len(line) <= MAX_TURN_BYTES]
        if texts:
            found[name] = Turn(name, tuple(texts))
    return found


def sizes(corpora: Path = CORPORA) -> dict[str, str]:
    """Return the sizes to show, by the name of the payload or turn."""
    found = {name: payload.size for name, payload in payloads(corpora).items()}
    return found | {name: turn.size for name, turn in turns(corpora).items()}


def stream_of(payload: Payload, size: int = 64 * 1024) -> bytes:
    """Return complete lines, at most `size` bytes in total: the message repeated with increasing ids."""
    lines: list[bytes] = []
    length = 0
    content = payload.content
    while length < size:
        content["id"] = len(lines) + 1
        lines.append(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
        length += len(lines[-1])
    return b"".join(lines[:-1])


def typescript_order(text: bytes) -> bytes:
    """Return the message in the key order of the MCP SDK for TypeScript: `jsonrpc` and `id` last."""
    names = [name for name in orjson.loads(text) if name not in ("jsonrpc", "id")]
    return _in_order(text, (*names, "jsonrpc", "id"))


def _in_order(text: bytes, names: tuple[str, ...]) -> bytes:
    content = orjson.loads(text)
    return orjson.dumps({name: content[name] for name in names})


def _shown_size(length: int) -> str:
    if length < 1000:
        return f"{length} B"
    return f"{length / 1000:.1f} KB" if length < 1_000_000 else f"{length / 1_000_000:.2f} MB"


def _by_size(item: tuple[str, bytes]) -> tuple[bool, int]:
    name, text = item
    return name.startswith("batch"), len(text)


def _stored(corpora: Path, name: str) -> bytes | None:
    path = corpora / f"{name}.json"
    return path.read_bytes() if path.exists() else None


def _result(id: int | str, result: object) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "result": result})


def _filled(make: Callable[[int], object], size: int) -> list[object]:
    """Return items that make about `size` bytes of JSON."""
    items: list[object] = []
    length = 0
    while length < size:
        items.append(make(len(items)))
        length += len(orjson.dumps(items[-1])) + 1
    return items


def _hexadecimal(seed: object, digits: int) -> str:
    return f"0x{random.Random(str(seed)).getrandbits(4 * digits):0{digits}x}"


def _tools_call() -> bytes:
    return orjson.dumps(
        {
            "jsonrpc": "2.0",
            "id": "call-4f1c",
            "method": "tools/call",
            "params": {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1.0.0"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
                "name": "forecast",
                "arguments": {"city": "Oslo", "days": 3, "units": "metric"},
            },
        }
    )


def _tools_call_response() -> bytes:
    text = "Forecast for Oslo:\nMonday: 4°C, rain\nTuesday: 2°C, sleet\nWednesday: 1°C, clear"
    content = [{"type": "text", "text": text}]
    return _result("call-4f1c", {"resultType": "complete", "content": content, "isError": False})


def _tool(number: int) -> object:
    properties = {
        name: {"type": "string", "description": f"The {name} to look for"} for name in ("owner", "name", "branch")
    }
    return {
        "name": f"find_files_{number}",
        "title": "Find files",
        "description": "Lists the files of a repository whose names match a pattern",
        "inputSchema": {"type": "object", "properties": properties, "required": ["owner", "name"]},
    }


def _resource_text() -> bytes:
    text = "".join([f'## Part {n}\n\n\tSay "hello" and then:\n   - one\\two\n   - three\n\n' for n in range(200)])
    return _result(4, {"contents": [{"uri": "file:///guide.md", "mimeType": "text/markdown", "text": text}]})


def _escapes() -> bytes:
    """Text in another alphabet, as Python's `json.dumps` writes it."""
    text = "\u041f\u0440\u0438\u043c\u0435\u0440 \u0442\u0435\u043a\u0441\u0442\u0430. " * 30
    return json.dumps({"jsonrpc": "2.0", "id": 11, "result": {"text": text}}, separators=(",", ":")).encode()


def _unusual() -> dict[str, bytes]:
    """Return unusual messages, which show whether a reader is only fast for common ones."""
    call = b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":{"a":[1,2,3]}}'
    deep_array: object = 1
    deep_object: object = 1
    for _ in range(100):
        deep_array, deep_object = [deep_array], {"a": deep_object}
    rows = [{"a": number, "b": [1, 2, 3]} for number in range(200)]
    results: dict[str, object] = {
        "names_escaped": [{'a"b': 1, "c\n": 2}] * 200,
        "names_chinese": [{"\u540d\u524d": 1, "\u503c": 2}] * 200,
        "escaped_text": 'line\n\t"quoted" ' * 700,
        "latin_text": "\u00e9 \u00fc \u00df stra\u00dfe " * 500,
        "latin_short": ["gr\u00f6\u00dfe"] * 500,
        "chinese_short": ["\u6807\u9898\u5185\u5bb9"] * 500,
        "emoji_short": ["ok \N{THUMBS UP SIGN}"] * 500,
        "floats_short": [2.5] * 500,
        "floats_17_digits": [random.Random(number).random() for number in range(500)],
        "deep_arrays": deep_array,
        "deep_objects": deep_object,
    }
    return {
        "id_19_digits": call % (b"1234567890123456789", b"add"),
        "id_float": call % (b"1.5", b"add"),
        "id_null": call % (b"null", b"add"),
        "method_escaped": call % (b"1", b"a\\u0064d"),
        **{name: _result(20, {"value": value}) for name, value in results.items()},
        "rows_indented": orjson.dumps(orjson.loads(_result(20, {"value": rows})), option=orjson.OPT_INDENT_2),
    }


def _resource_blob() -> bytes:
    blob = base64.b64encode(random.Random(0).randbytes(786_000)).decode()
    return _result(3, {"contents": [{"uri": "file:///image.png", "mimeType": "image/png", "blob": blob}]})


def _completion(number: int) -> object:
    place = {"line": 5, "character": number % 40}
    return {
        "label": f"property-{number}",
        "documentation": "What the property sets",
        "textEdit": {"range": {"start": place, "end": place}, "newText": f"property-{number}: "},
        "kind": 10,
        "sortText": "d",
    }


def _log(number: int) -> object:
    return {
        "address": _hexadecimal("address", 40),
        "topics": [_hexadecimal("topic", 64)],
        "data": _hexadecimal(number, 64),
        "blockNumber": hex(number // 10),
        "transactionHash": _hexadecimal(number // 3, 64),
        "transactionIndex": hex(number % 10),
        "blockHash": _hexadecimal(number // 10, 64),
        "logIndex": hex(number),
        "removed": False,
    }


def _block(number: int) -> object:
    hashes = ("hash", "parentHash", "stateRoot", "receiptsRoot", "transactionsRoot", "sha3Uncles", "mixHash")
    return {
        **{name: _hexadecimal((name, number), 64) for name in hashes},
        "number": hex(number),
        "logsBloom": "0x" + "0" * 512,
        "gasLimit": "0xbebc200",
        "gasUsed": "0x0",
        "calls": [],
    }


def _batch_of_requests() -> bytes:
    return orjson.dumps(
        [
            {
                "jsonrpc": "2.0",
                "id": id,
                "method": "eth_getStorageAt",
                "params": [_hexadecimal(id, 40), _hexadecimal(-id, 64), "latest"],
            }
            for id in range(1, 101)
        ]
    )


def _batch_of_responses() -> bytes:
    error = {"code": -32602, "message": "invalid argument 0: the hexadecimal text has an odd length"}
    answers = [{"error": error} if id % 3 == 0 else {"result": _hexadecimal(id, 320)} for id in range(1, 101)]
    return orjson.dumps([{"jsonrpc": "2.0", "id": id, **answer} for id, answer in enumerate(answers, 1)])
