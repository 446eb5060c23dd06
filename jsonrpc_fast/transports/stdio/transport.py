"""The channel that `StdioServer` and `StdioClient` share: two file descriptors."""

from __future__ import annotations

from ..base import ByteTransport
from .descriptors import Reader, Writer


class DescriptorTransport(ByteTransport):
    """A transport over one descriptor to read from and one to write to, which `_open` of a subclass sets."""

    _reader: Reader
    _writer: Writer

    def _read_channel(self, wanted: bool) -> None:
        self._reader.read(wanted)

    def _write(self, data: bytes) -> None:
        self._writer.write(data)

    def _unwritten_bytes(self) -> int:
        return self._writer.unwritten_bytes
