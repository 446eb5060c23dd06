"""python-lsp-jsonrpc, and the server that uses it, python-lsp-server."""

from __future__ import annotations

import io
import json
import os
import threading
from typing import Any

from .library import Library, Works
from .messages import LARGE, SMALL
from .timing import interleaved

INSTALL = "from jsonrpc_fast.adapters import pylsp; pylsp.install()"


def read(reader: Any, text: bytes) -> None:
    stream = io.BufferedReader(io.BytesIO(b"Content-Length: %d\r\n\r\n%s" % (len(text), text)))  # type: ignore[arg-type]
    reader(stream).listen(lambda message: None)


def call(reader: Any, writer: Any, message: Any, times: int) -> None:
    """Send messages through a pipe to a thread that sends each one back."""
    pipes = [os.pipe(), os.pipe()]
    files = [(os.fdopen(input, "rb"), os.fdopen(output, "wb")) for input, output in pipes]
    echo = writer(files[1][1])
    thread = threading.Thread(target=reader(files[0][0]).listen, args=(echo.write,))
    thread.start()
    client, back = writer(files[0][1]), reader(files[1][0])
    received = 0

    def on_message(_: Any) -> None:
        nonlocal received
        received += 1
        if received < times:
            client.write(message)
        else:
            client.close()
            echo.close()

    client.write(message)
    back.listen(on_message)
    thread.join()
    for file in (files[0][0], files[1][0]):
        file.close()


def measure() -> Works:
    from pylsp_jsonrpc import streams  # type: ignore[import-not-found, import-untyped, unused-ignore]

    from jsonrpc_fast.adapters import pylsp as adapter

    found: Works = {}
    own: Any = streams
    fast: Any = adapter
    for size, params, times in (("small", SMALL, 100), ("80 kB", LARGE, 5)):
        message = {"jsonrpc": "2.0", "id": 1, "method": "textDocument/hover", "params": params}
        text = json.dumps(message, separators=(",", ":")).encode()

        def run(work: str, module: Any, message: Any = message, text: bytes = text, times: int = times) -> None:
            if work == "decode":
                read(module.JsonRpcStreamReader, text)
            elif work == "encode":
                module.JsonRpcStreamWriter(io.BytesIO()).write(message)
            else:
                call(module.JsonRpcStreamReader, module.JsonRpcStreamWriter, message, times)

        for work in ("decode", "encode", "end to end"):
            found[f"{work} {size}"] = interleaved(
                lambda run=run, work=work: run(work, own), lambda run=run, work=work: run(work, fast)
            )
    return found


LIBRARY = Library(
    name="python-lsp-jsonrpc",
    adapter="pylsp",
    install=INSTALL,
    tests=["test"],
    package="pylsp_jsonrpc",
    measure=measure,
)
SERVER = Library(
    name="python-lsp-server",
    adapter="pylsp",
    install=INSTALL,
    # Its other tests call plugins, without messages.
    tests=[
        "test/test_language_server.py",
        "test/test_notebook_document.py",
        "test/test_configuration.py",
        "test/test_python_lsp.py",
    ],
    package="pylsp",
    needs=["python-lsp-server[all,websockets]", "flaky"],
)
