"""pygls: its own tests, and a server process that a client of this package calls."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from jsonrpc_fast import Response, encode_notification, encode_request

from ...support.places import PEERS, ROOT
from .library import Library, Works
from .messages import ITEM, SMALL
from .timing import interleaved, interleaved_calls

INSTALL = """
import pygls.client, pygls.lsp.client, pygls.lsp.server, pygls.server
from jsonrpc_fast.adapters import pygls as adapter
class BaseLanguageClient(pygls.lsp.client.BaseLanguageClient, adapter.JsonRPCClient): pass
class LanguageClient(BaseLanguageClient, adapter.LanguageClient): pass
pygls.server.JsonRPCServer, pygls.client.JsonRPCClient = adapter.JsonRPCServer, adapter.JsonRPCClient
pygls.lsp.server.LanguageServer = adapter.LanguageServer
pygls.lsp.client.BaseLanguageClient, pygls.lsp.client.LanguageClient = BaseLanguageClient, LanguageClient
"""


class Null:
    """Takes the place of pygls' writers."""

    def write(self, text: bytes) -> None:
        pass


def measure() -> Works:
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

    from jsonrpc_fast import decode
    from jsonrpc_fast.adapters import pygls as adapter
    from jsonrpc_fast.adapters.pygls_connections import PROFILE

    own, fast = LanguageServer("a", "1"), adapter.LanguageServer("a", "1")
    for server in (own, fast):
        server.feature(types.TEXT_DOCUMENT_HOVER)(lambda params: None)
    own.protocol.set_writer(Null())  # type: ignore[arg-type]
    fast_protocol: Any = fast.protocol
    fast_protocol.adopt(Null())
    hover = {"jsonrpc": "2.0", "id": 1, "method": "textDocument/hover", "params": SMALL}
    change = {
        "jsonrpc": "2.0",
        "method": "textDocument/didChange",
        "params": {
            "textDocument": {"uri": "file:///a", "version": 1},
            "contentChanges": [{"text": "some text of a document\n" * 3400}],
        },
    }
    items = [
        types.CompletionItem(label=f"name{n}", kind=types.CompletionItemKind(3), detail=ITEM["detail"])
        for n in range(1000)
    ]
    method_types: dict[str, Any] = dict(types.METHOD_TO_TYPES)
    results = {
        "small": method_types["textDocument/hover"][1](id=1, result=types.Hover(contents="def calculate(value)")),
        "80 kB": method_types["textDocument/completion"][1](id=1, result=types.CompletionList(False, items)),
    }
    found: Works = {}
    for size, message in (("small", hover), ("80 kB", change)):
        text, response = json.dumps(message).encode(), results[size]
        found[f"decode {size}"] = interleaved(
            lambda text=text: json.loads(text, object_hook=own.protocol.structure_message),
            lambda text=text: fast_protocol.structure_message(decode(text, PROFILE).to_dict()),
        )
        found[f"encode {size}"] = interleaved(
            lambda response=response: own.protocol._send_data(response),
            lambda response=response: fast_protocol._send_data(response),
        )
    return {**found, **asyncio.run(measure_processes())}


async def measure_processes() -> Works:
    from lsprotocol import types

    from jsonrpc_fast.transports import StdioClient

    script = str(PEERS / "pygls_adapter_server.py")
    ends = []
    for kind in ("own", "fast"):
        client = StdioClient(
            [sys.executable, script, kind],
            framing="content-length",
            stderr="discard",
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        answers: asyncio.Queue[Any] = asyncio.Queue()
        client.onmessage = lambda message, answers=answers: answers.put_nowait(message)  # type: ignore[misc]
        await client.start()
        ends.append((client, answers))

    async def call(which: int, method: str, params: Any) -> None:
        client, answers = ends[which]
        client.send(encode_request(1, method, params))
        while not isinstance(await answers.get(), Response):
            pass

    for which, (client, _) in enumerate(ends):
        await call(which, "initialize", {"capabilities": {}, "processId": None, "rootUri": None})
        client.send(encode_notification("initialized", {}))
    found = {}
    for size, method, line in (
        ("small", types.TEXT_DOCUMENT_HOVER, 0),
        ("80 kB", types.TEXT_DOCUMENT_COMPLETION, 1000),
    ):
        params = {**SMALL, "position": {"line": line, "character": 0}}
        found[f"end to end {size}"] = await interleaved_calls(
            lambda method=method, params=params: call(0, method, params),
            lambda method=method, params=params: call(1, method, params),
        )
    for client, _ in ends:
        await client.close()
    return found


LIBRARY = Library(
    name="pygls",
    adapter="pygls",
    install=INSTALL,
    tests=["tests", "-o", "asyncio_mode=auto"],
    package="pygls",
    needs=["pytest-asyncio>=1.2"],
    measure=measure,
)
