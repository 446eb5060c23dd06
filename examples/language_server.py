"""A language server that marks each TODO of a document.

jsonrpc-fast call --lsp textDocument/hover '{"textDocument": {"uri": "file:///a"}, "position": {"line": 0}}' \\
    -- python examples/language_server.py
"""

from collections.abc import Callable
from typing import Any

from jsonrpc_fast import LSP
from jsonrpc_fast.session import LspConvention, SessionContext, serving
from jsonrpc_fast.transports import run_stdio

documents: dict[str, list[str]] = {}


def initialize(**params: Any) -> dict[str, Any]:
    return {"capabilities": {"textDocumentSync": 1, "hoverProvider": True}}


async def did_open(context: SessionContext, textDocument: dict[str, Any]) -> None:
    uri, lines = textDocument["uri"], textDocument["text"].splitlines()
    documents[uri] = lines
    found = []
    for number, line in enumerate(lines):
        if (column := line.find("TODO")) >= 0:
            start, end = {"line": number, "character": column}, {"line": number, "character": column + 4}
            found.append({"range": {"start": start, "end": end}, "message": "to do"})
    await context.session.notify("textDocument/publishDiagnostics", {"uri": uri, "diagnostics": found})


def hover(textDocument: dict[str, Any], position: dict[str, Any]) -> dict[str, Any]:
    return {"contents": f"{len(documents.get(textDocument['uri'], []))} lines"}


async def leave(context: SessionContext) -> None:
    await context.session.close(0)


handlers: dict[str, Callable[..., Any]] = {
    "initialize": initialize,
    "initialized": lambda: None,
    "textDocument/didOpen": did_open,
    "textDocument/hover": hover,
    "shutdown": lambda: None,
    "exit": leave,
}


raise SystemExit(run_stdio(serving(handlers, convention=LspConvention()), framing="content-length", profile=LSP))
