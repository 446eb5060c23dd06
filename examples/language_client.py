"""A client of a language server: it opens a file, and prints what the server says about it and about one place.

python examples/language_client.py source.py python 1 4 -- pylsp
python examples/language_client.py source.c c 3 5 -- clangd --log=error
"""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonrpc_fast import LSP
from jsonrpc_fast.session import LspConvention, Session
from jsonrpc_fast.transports import StdioClient


async def main(path: Path, language: str, line: int, character: int, command: list[str]) -> None:
    published: asyncio.Queue[list[Any]] = asyncio.Queue()

    def log(**params: Any) -> None:
        print(params["message"], file=sys.stderr)

    handlers: dict[str, Callable[..., Any]] = {
        "textDocument/publishDiagnostics": lambda uri, diagnostics, **more: published.put_nowait(diagnostics),
        "workspace/configuration": lambda items: [None] * len(items),
        "client/registerCapability": lambda registrations: None,
        "window/workDoneProgress/create": lambda token: None,
        "window/logMessage": log,
    }
    document = {"uri": path.as_uri()}
    capabilities = {"textDocument": {"publishDiagnostics": {}, "hover": {"contentFormat": ["plaintext"]}}}
    transport = StdioClient(command, framing="content-length", profile=LSP)
    async with Session(transport, handlers, convention=LspConvention(), timeout=60) as session:
        # Without a root, a server looks at the open files alone.
        started = {"processId": os.getpid(), "rootUri": path.parent.as_uri(), "capabilities": capabilities}
        await session.call("initialize", started)
        await session.notify("initialized", {})
        opened = {**document, "languageId": language, "version": 1, "text": path.read_text()}
        await session.notify("textDocument/didOpen", {"textDocument": opened})
        for each in await asyncio.wait_for(published.get(), 30):
            print(f"{each['range']['start']['line'] + 1}: {each['message']}")
        place = {"line": line - 1, "character": character}  # characters are UTF-16 code units, from 0
        hover = await session.call("textDocument/hover", {"textDocument": document, "position": place})
        print("" if hover is None else hover["contents"])
        await session.call("shutdown")
        await session.notify("exit")
        await session.wait_closed()


if "--" not in sys.argv[5:6]:
    sys.exit(__doc__)
asyncio.run(main(Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[6:]))
