"""A server's end: stdin and stdout of this process.

How a server ends, and with which exit code when `run_stdio` runs it:
  - the client closes stdin: what was accepted is written, 0. A message that was begun is TRUNCATED in `onerror` first;
  - stdout cannot be written any more (EPIPE): what has come on stdin is delivered, `onerror` gets the OSError, 1;
  - the process was started with a closed stdin or stdout: a line on stderr, 1;
  - SIGTERM or SIGINT: no request is taken any more, what is being worked on has `grace_seconds`, what was accepted is
    written, and the process ends by that very signal (143 or 130 in a shell); a second signal does not wait;
  - requests that a session leaves without an answer, and bytes that the client does not take in time: a line on stderr,
    1 (or the signal);
  - after `run_stdio`, stdin and stdout of the process stay away from the wire: what is printed then goes to stderr.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Options, State
from .descriptors import open_reader, open_writer
from .takeover import StandardStreams
from .transport import DescriptorTransport

if TYPE_CHECKING:
    from typing_extensions import Unpack


class StdioServer(DescriptorTransport):
    """This process's stdin and stdout, which are taken over from `connect` until it is closed (takeover.py).

    options  those of `ByteTransport`

    `connect` raises ConnectionLost when the process was started without one of them, StateError when another transport
    has them.
    """

    answers_after_end = True

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__(**options)
        self._streams: StandardStreams | None = None
        self._restores_streams = True

    async def _open(self) -> None:
        self._streams = streams = StandardStreams()
        self._reader = open_reader(self._loop, streams.input, self)
        self._writer = open_writer(self._loop, streams.output, self)

    def _label(self) -> str:
        return "stdio server"

    def _finish(self) -> None:
        self._reader.read(True)  # a client that writes before it reads is not to wait
        self._writer.finish(self._abort)

    def _abort(self) -> None:
        if self._streams is not None:
            self._reader.close()
            self._writer.close()
            if self._restores_streams:
                self._streams.restore()
            else:
                self._streams.keep_away()
            self._streams = None
            self._loop.call_soon(self._lost, self._fault)

    def _write_failed(self, fault: OSError) -> None:
        self._break(fault)
        if self._state is State.RUNNING:
            self._reader.read_rest()
        self._abort()
