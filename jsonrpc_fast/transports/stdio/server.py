"""The server's side of stdio: this process's stdin and stdout.

Rules:
  - When the client closes stdin, an unfinished message is reported as TRUNCATED, and all accepted messages are written.
  - When stdout cannot be written (EPIPE), the data that has arrived on stdin is delivered, then `onerror` gets the
    OSError.
  - From `connect` until the close, file descriptors 0 and 1 do not refer to the client's streams (see `takeover`).
"""

from __future__ import annotations

import asyncio
from typing import Unpack

from ..channel import Events
from ..connection import Connection
from ..protocol import TransportOptions
from .descriptors import DescriptorChannel, open_reader, open_writer
from .takeover import StandardStreams


class StandardChannel(DescriptorChannel):
    """A channel over this process's stdin and stdout.

    Attributes:
        restores_streams: Whether stdin and stdout are put back when the channel is closed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.restores_streams: bool = True
        self._streams: StandardStreams | None = None

    @property
    def name(self) -> str:
        return "stdio server"

    async def open(self, events: Events) -> None:
        self._streams = streams = StandardStreams()
        self._events = events
        self._reader = open_reader(streams.input, events.received, self._read_failed)
        self._writer = open_writer(streams.output, events.drained, self._write_failed)

    def abort(self) -> None:
        if self._streams is not None:
            self._reader.close()
            self._writer.close()
            # Not if the program ends with the transport, as under `run_stdio`: output printed at its exit would follow
            # the last message.
            if self.restores_streams:
                self._streams.restore()
            else:
                self._streams.keep_away()
            self._streams = None  # a second `abort` does nothing, and reports no second loss
            asyncio.get_running_loop().call_soon(self._events.lost, self._fault)


class StdioServer(Connection):
    """A transport over this process's stdin and stdout, which it takes over from `connect` until it is closed.

    `connect` raises ConnectionLost if the process was started with a closed stdin or stdout, or with one that is open
    in the wrong direction, and StateError if another transport has taken them over.

    Args:
        options: Options of `Connection`.
    """

    responds_after_end = True
    channel: StandardChannel

    def __init__(self, **options: Unpack[TransportOptions]) -> None:
        super().__init__(StandardChannel(), **options)
