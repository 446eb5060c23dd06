"""Agents and clients of agent-client-protocol (ACP), on this package's codec and transports.

A program changes one import:

    from jsonrpc_fast.adapters.acp import run_agent, spawn_agent_process    # instead of acp

Rules:
  - Messages stay dicts, and the package's own classes handle them: this is a transport for its `Connection`.
  - Messages are read and written as in acp: by the json module where the core or orjson would differ from it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import IO, Any, Final, Literal

from .. import LSP
from ..errors import ConnectionLost
from ..support import logger_of
from ..transports import Connection, StdioClient, StdioServer
from .json import loads_or, to_bytes

try:
    import acp as _acp  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from acp.client.connection import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        ClientSideConnection,
    )
    from acp.transports import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        default_environment,
    )
except ImportError as _missing:
    raise ImportError(
        'this adapter needs agent-client-protocol: pip install "agent-client-protocol>=0.12"'
    ) from _missing

__all__ = ["MessageTransport", "run_agent", "spawn_agent_process"]

MAX_READ_AHEAD: Final = 256
"""Maximum number of messages that wait for the connection; reading pauses at it."""

_loads: Final = loads_or(lambda text: json.loads(text))
_logger: Final = logger_of("adapters.acp")


def read(text: bytes | bytearray) -> dict[str, Any] | None:
    """Return the message in a line; None if it is not a JSON object."""
    try:
        message = _loads(bytes(text))
    except (ValueError, RecursionError):
        message = None
    return message if isinstance(message, dict) else None


OPTIONS: Final[dict[str, Any]] = {"profile": LSP.replace(name="acp", null_request_ids=True), "decode": read}
"""The options of a transport for `MessageTransport`."""


class MessageTransport:
    """A transport for acp's connections, over one of this package.

        transport = MessageTransport(TcpClient("localhost", 9000, **OPTIONS))
        connection = acp.connect_to_agent(client, transport)

    Args:
        transport: A transport that is not started, made with `OPTIONS`.
    """

    def __init__(self, transport: Connection) -> None:
        self._transport = transport
        self._received: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()  # None: the end
        self._starting: asyncio.Task[None] | None = None
        transport.onmessage = self._on_message
        transport.onclose = partial(self._received.put_nowait, None)
        transport.onerror = _log_fault

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message. Waits while the peer does not read.

        Raises:
            ConnectionError: The connection is closed.
            OSError: The program cannot be started.
        """
        text = to_bytes(message)
        await self.start()
        self._transport.send(text if text is not None else json.dumps(message, separators=(",", ":")).encode())
        await self._transport.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end."""
        await self.start()
        message = await self._received.get()
        if message is None:
            self._received.put_nowait(None)  # so that the next call ends, too
        # The message that made the queue full has paused the reading.
        elif self._received.qsize() == MAX_READ_AHEAD - 1:
            self._transport.resume_reading()
        return message

    async def start(self) -> None:
        """Start the transport, once. Sending and receiving do it, too.

        Raises:
            OSError: The program cannot be started.
        """
        # A separate task, because acp sends and receives in its own tasks: the first of them starts the transport, and
        # its cancellation must not stop the start for the others.
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._transport.start())
        await asyncio.shield(self._starting)

    async def close(self) -> None:
        """Write what was sent, and close."""
        await self._transport.close()

    def _on_message(self, message: Any) -> None:
        if not isinstance(message, dict):
            _logger.error("a line that is not a JSON object was skipped")
            return
        self._received.put_nowait(message)
        if self._received.qsize() == MAX_READ_AHEAD:
            self._transport.pause_reading()


def _log_fault(fault: Exception) -> None:
    if not isinstance(fault, ConnectionLost):
        _logger.error("a fault of the stream: %s", type(fault).__name__)


async def run_agent(agent: Any, input_stream: Any = None, output_stream: Any = None, **options: Any) -> None:
    """Serve one client on stdin and stdout until it closes the stream, like `acp.run_agent`.

    Args:
        agent: The agent.
        input_stream: As in acp; by default stdin and stdout.
        output_stream: As in acp.
        options: Options of acp's `AgentSideConnection`.

    Raises:
        ConnectionLost: The process was started without stdin or stdout.
    """
    # An option of acp's line reader, which is not used.
    options.pop("stdio_buffer_limit_bytes", None)
    if input_stream is None and output_stream is None:
        input_stream = MessageTransport(StdioServer(**OPTIONS))
    await _acp.run_agent(agent, input_stream, output_stream, **options)


@asynccontextmanager
async def spawn_agent_process(
    to_client: Any,
    command: str,
    *args: str,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Literal["inherit", "discard"] | IO[Any] | Callable[[str], None] = "inherit",
    **options: Any,
) -> AsyncGenerator[tuple[Any, StdioClient], None]:
    """Start an agent and connect to it, like `acp.spawn_agent_process`.

    Args:
        to_client: The client, or a function that takes the connection and returns it.
        command: The program.
        args: Its arguments.
        env: Variables for it, in addition to those that acp passes.
        cwd: Its working directory; None: the current one.
        stderr: Where its stderr goes, as in `StdioClient`.
        options: Options of acp's `ClientSideConnection`.

    Yields:
        acp's connection, and the transport, which has the `pid` and the `returncode` of the program.

    Raises:
        OSError: The program cannot be started.
    """
    transport = StdioClient(
        [command, *args], env={**default_environment(), **(env or {})}, cwd=cwd, stderr=stderr, **OPTIONS
    )
    messages = MessageTransport(transport)
    # Started here, so that the caller gets the error of a missing program: acp would start it in a task.
    await messages.start()
    connection = ClientSideConnection(to_client, messages, **options)
    try:
        yield connection, transport
    finally:
        await connection.close()
