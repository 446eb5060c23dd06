"""A language server on pygls that does not use this package: `run` puts it on this codec.

jsonrpc-fast run examples/pygls_server.py
"""

from lsprotocol import types
from pygls.lsp.server import LanguageServer

server = LanguageServer("example", "1.0")


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(params: types.HoverParams) -> types.Hover:
    return types.Hover(f"line {params.position.line}")


server.start_io()
