"""The command `tap` between sockets: a listener that connects each of its clients to a server, and logs the messages.

An end of one direction ends that direction alone; a connection that breaks ends both.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import threading
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

from ..framing import Framing
from ..profile import PRESETS, Profile
from .arguments import parse_address
from .output import Status, escape, print_error
from .tap import CHUNK_BYTES, Logs, Side, Watcher, sides, with_logs


def run(options: argparse.Namespace) -> int:
    """Run the command `tap` with the address of a server. Return the exit status."""
    return with_logs(options, partial(_tap, options))


def _tap(options: argparse.Namespace, logs: Logs) -> int:
    watcher = Watcher(logs, options.framing, PRESETS[options.profile])
    watching = threading.Thread(target=watcher.run, daemon=True)
    watching.start()
    try:
        return asyncio.run(_serve(options, watcher))
    except ValueError as error:  # an address
        print_error(str(error))
        return Status.WRONG
    except KeyboardInterrupt:
        return Status.INTERRUPTED
    finally:
        watcher.finish("the tap ended")
        watching.join(2.0)


async def _serve(options: argparse.Namespace, watcher: Watcher) -> int:
    """Listen until a signal. Return the exit status."""
    connect = _opener(options.url)
    tap = partial(_pass_on, connect, watcher, options.framing, PRESETS[options.profile], count(1))
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await tap(reader, writer)

    try:
        if options.listen.startswith("unix:"):
            server = await asyncio.start_unix_server(serve, options.listen[5:], limit=CHUNK_BYTES)
        else:
            server = await asyncio.start_server(
                serve, *parse_address(options.listen.removeprefix("tcp://")), limit=CHUNK_BYTES
            )
    except OSError as error:
        print_error(f"cannot listen on {escape(options.listen)}: {error.strerror}")
        return Status.LOST
    ended = asyncio.Event()
    with suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with server:
        await ended.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return Status.SUCCESS


def _opener(target: str) -> Any:
    """Return a function that connects to a server.

    Raises:
        ValueError: It is not an address.
    """
    if target.startswith("unix:"):
        return partial(asyncio.open_unix_connection, target[5:], limit=CHUNK_BYTES)
    if target.startswith("tcp://"):
        return partial(asyncio.open_connection, *parse_address(target[6:]), limit=CHUNK_BYTES)
    raise ValueError(f"{escape(target)} is not tcp://HOST:PORT or unix:PATH")


async def _pass_on(
    connect: Any,
    watcher: Watcher,
    framing: Framing,
    profile: Profile,
    numbers: Any,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Connect a client to the server, and pass on everything until both directions have ended."""
    channel = sides(framing, profile, number=next(numbers))
    writers = [writer]
    try:
        try:
            async with asyncio.timeout(30.0):
                server_reader, server_writer = await connect()
        except OSError as error:  # also a TimeoutError
            watcher.add("<-", b"", f"the server cannot be reached: {error.strerror or type(error).__name__}")
            return
        writers.append(server_writer)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, server_writer, watcher, channel["->"]))
            group.create_task(_pump(server_reader, writer, watcher, channel["<-"]))
    except* OSError as errors:
        reason = errors.exceptions[0]
        watcher.add("<-", b"", f"the connection broke: {getattr(reason, 'strerror', None) or type(reason).__name__}")
    finally:
        for each in writers:
            each.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watcher: Watcher, side: Side) -> None:
    """Pass one direction on until it ends."""
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            watcher.add(side, chunk)
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    finally:
        watcher.add(side, b"")
