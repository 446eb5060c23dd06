"""A language server of pygls over stdio."""

from __future__ import annotations

from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("peer", "1")


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(params: types.HoverParams) -> types.Hover:
    """Show the first word of the line."""
    document = server.workspace.get_text_document(params.text_document.uri)
    return types.Hover(contents=document.lines[params.position.line].split()[0])


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
def opened(params: types.DidOpenTextDocumentParams) -> None:
    """Report that the document was read."""
    server.window_log_message(types.LogMessageParams(types.MessageType.Info, f"read {params.text_document.uri}"))


if __name__ == "__main__":
    server.start_io()
