"""The server's side of stdio: this process's stdin and stdout.

Rules:
  - When the client closes stdin, an unfinished message is reported as TRUNCATED, and what was accepted is written.
  - When stdout cannot be written (EPIPE), what has arrived on stdin is delivered, then `onerror` gets the OSError.
  - From `connect` until the close, file descriptors 0 and 1 lead away from the wire (see `takeover`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import State
from ..options import TransportOptions
from .descriptors import open_reader, open_writer
from .takeover import StandardStreams
from .transport import DescriptorTransport

if TYPE_CHECKING:
    from typing_extensions import Unpack


class StdioServer(DescriptorTransport):
    """A transport over this process's stdin and stdout, which it takes over from `connect` until it is closed.

    `connect` raises ConnectionLost if the process was started with a closed stdin or stdout, or with one that is open
    in the wrong direction, and StateError if another transport has taken them over.

    Args:
        options: Options of `ByteTransport`.
    """

    answers_after_end = True

    def __init__(self, **options: Unpack[TransportOptions]) -> None:
        super().__init__(**options)
        self._streams: StandardStreams | None = None
        self._restores_streams = True  # when it is closed; `run_stdio` turns it off

    async def open_channel(self) -> None:
        self._streams = streams = StandardStreams()
        self._reader = open_reader(self._loop, streams.input, self)
        self._writer = open_writer(self._loop, streams.output, self)

    def channel_name(self) -> str:
        return "stdio server"

    def finish_channel(self) -> None:
        self._reader.read(True)  # a client that writes before it reads must not block
        self._writer.finish(self.abort_channel)

    def abort_channel(self) -> None:
        if self._streams is not None:
            self._reader.close()
            self._writer.close()
            if self._restores_streams:
                self._streams.restore()
            else:
                self._streams.keep_away()
            self._streams = None
            self._loop.call_soon(self.channel_lost)

    def _write_failed(self, fault: OSError) -> None:
        self._break(fault)
        if self._state is State.RUNNING:
            self._reader.read_rest()
        self.abort_channel()
