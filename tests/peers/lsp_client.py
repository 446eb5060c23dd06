"""A client of pygls: `lsp_client.py COMMAND`. It prints what the language server sends."""

from __future__ import annotations

import asyncio
import json
import sys

from lsprotocol import types
from pygls.lsp.client import LanguageClient

URI = "file:///peer.txt"
TEXT = "first line\nzw\u00f6lf \u2713 line\n" + 30_000 * "filler \u2028\n"


async def main(command: list[str]) -> None:
    client = LanguageClient("peer", "1")
    logged = asyncio.get_running_loop().create_future()

    @client.feature(types.WINDOW_LOG_MESSAGE)
    def _(params: types.LogMessageParams) -> None:
        logged.set_result(params.message)

    await client.start_io(*command)
    initialized = await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
    client.initialized(types.InitializedParams())
    item = types.TextDocumentItem(uri=URI, language_id="text", version=1, text=TEXT)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    message = await logged
    place = types.Position(line=1, character=0)
    hover = await client.text_document_hover_async(types.HoverParams(types.TextDocumentIdentifier(URI), place))
    try:
        await client.protocol.send_request_async("peer/none", {})
    except Exception as error:
        failure = type(error).__name__
    await client.shutdown_async(None)
    client.exit(None)
    await asyncio.wait_for(client._server.wait(), 20)
    seen = [initialized.server_info.name, message, hover.contents, failure, client._server.returncode]
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(sys.argv[1:]), 50))
