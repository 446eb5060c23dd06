"""The channel that `StdioServer` and `StdioClient` share: two file descriptors."""

from __future__ import annotations

from ..byte_transport import ByteTransport
from .descriptors import Reader, Writer


class DescriptorTransport(ByteTransport):
    """A transport over one descriptor to read from and one to write to, which `open_channel` of a subclass sets."""

    _reader: Reader
    _writer: Writer

    def set_reading(self, wanted: bool) -> None:
        self._reader.read(wanted)

    def write_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    def unwritten_bytes(self) -> int:
        return self._writer.unwritten_bytes
