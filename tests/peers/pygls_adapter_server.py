"""A language server of pygls over stdio, on the adapter or on plain pygls ("own"), and on uvloop ("uvloop")."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any

from lsprotocol import types

if "own" in sys.argv:
    from pygls.lsp.server import LanguageServer
else:
    from jsonrpc_fast.adapters.pygls import LanguageServer  # type: ignore[assignment]
if "uvloop" in sys.argv:
    import asyncio.events

    import uvloop

    asyncio.events.new_event_loop = uvloop.new_event_loop  # type: ignore[assignment]

server = LanguageServer("peer", "1")


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(params: types.HoverParams) -> types.Hover:
    return types.Hover(contents=f"{params.text_document.uri}:{params.position.line}")


@server.feature(types.TEXT_DOCUMENT_COMPLETION)
def complete(params: types.CompletionParams) -> types.CompletionList:
    items = [
        types.CompletionItem(
            label=f"name{number}", kind=types.CompletionItemKind.Function, detail="def name(self) -> int"
        )
        for number in range(params.position.line)
    ]
    return types.CompletionList(is_incomplete=False, items=items)


@server.feature("custom/describe")
def describe(params: Any) -> Any:
    print("stray text")
    return {"is_none": params is None, "value": getattr(params, "value", None), "text": repr(params)}


@server.feature("custom/wide")
def wide(params: Any) -> Any:
    return {"number": 2**70, "keys": {1: (1, 2)}}


@server.feature("custom/surrogate")
def surrogate(params: Any) -> Any:
    return {"text": "\ud800"}


@server.feature("custom/object")
def return_object(params: Any) -> Any:
    return {"value": object()}


@server.feature("custom/ask")
async def ask(params: Any) -> Any:
    """Ask the client, and return its response."""
    settings = await server.workspace_configuration_async(
        types.ConfigurationParams(items=[types.ConfigurationItem(section="here")])
    )
    return settings[0]


@server.feature("custom/work")
@server.thread()
def work(params: Any) -> str:
    """Send from another thread."""
    server.window_log_message(types.LogMessageParams(types.MessageType.Info, "from a thread"))
    return "main" if threading.current_thread() is threading.main_thread() else "worker"


@server.feature("custom/steps")
def steps(params: Any) -> float:
    """Report the start of a long computation while it blocks the loop."""
    server.window_log_message(types.LogMessageParams(types.MessageType.Info, "begun"))
    begun = time.monotonic()
    while time.monotonic() < begun + params.seconds:
        pass
    return time.time()


if __name__ == "__main__":
    server.start_io()
