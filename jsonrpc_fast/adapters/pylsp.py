"""The stream reader and writer of python-lsp-jsonrpc, on this package's codec. Needs python-lsp-jsonrpc.

A program changes one import:

    from jsonrpc_fast.adapters.pylsp import JsonRpcStreamReader, JsonRpcStreamWriter    # was pylsp_jsonrpc.streams

python-lsp-server (pylsp) imports the classes itself: call `install` before it starts.

Messages stay dicts, without checks: the library's endpoint checks them, as before. A writer with arguments for
`json.dumps` writes as the library does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from . import replace
from .json import loads_or, to_bytes

try:
    from pylsp_jsonrpc import streams  # type: ignore[import-not-found, import-untyped, unused-ignore]
except ImportError as _missing:
    raise ImportError('this adapter needs python-lsp-jsonrpc: pip install "python-lsp-jsonrpc>=1.1"') from _missing

__all__ = ["JsonRpcStreamReader", "JsonRpcStreamWriter", "install"]

_log: Final = logging.getLogger(streams.__name__)


class JsonRpcStreamReader(streams.JsonRpcStreamReader):  # type: ignore[misc]
    """`pylsp_jsonrpc.streams.JsonRpcStreamReader` with a faster parser."""

    def listen(self, message_consumer: Callable[[Any], object]) -> None:
        """Pass each message to a function until the stream ends."""
        # Like the library's method, except for `_loads`: that method decodes and parses in one statement.
        while not self._rfile.closed:
            try:
                text = self._read_message()
            except ValueError:
                if self._rfile.closed:
                    return
                _log.exception("Failed to read from rfile")
                continue
            if text is None:
                return
            try:
                message_consumer(_loads(text))
            except ValueError:
                _log.exception("Failed to parse JSON message %s", text)


_loads: Final = loads_or(lambda text: streams.json.loads(text.decode()))


class JsonRpcStreamWriter(streams.JsonRpcStreamWriter):  # type: ignore[misc]
    """`pylsp_jsonrpc.streams.JsonRpcStreamWriter` with a faster encoder."""

    def write(self, message: Any) -> None:
        """Write a message. A message that cannot be written is logged."""
        text = None if self._json_dumps_args else to_bytes(message)
        if text is None:
            super().write(message)
            return
        try:
            # The header of the library, byte for byte: its charset has the spelling that LSP keeps for old clients.
            header = b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\n\r\n" % len(text)
            with self._wfile_lock:
                if not self._wfile.closed:
                    self._wfile.write(header + text)
                    self._wfile.flush()
        except Exception:
            _log.exception("Failed to write message to output file %s", message)


def install() -> None:
    """Replace the library's classes in this process, for python-lsp-server and others: call it before they start."""
    replace((streams.JsonRpcStreamReader, JsonRpcStreamReader), (streams.JsonRpcStreamWriter, JsonRpcStreamWriter))
