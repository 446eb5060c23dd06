"""Every channel of the package keeps the contract of a channel, and the checks find channels that do not."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import transports
from jsonrpc_fast.transports import (
    Channel,
    Events,
    PipeChannel,
    StdioClient,
    StdioServer,
    TcpClient,
    TcpServer,
    UnixClient,
    UnixServer,
)
from jsonrpc_fast.transports.asgi import AsgiChannel
from jsonrpc_fast.transports.channel import HIGH_WATER_BYTES
from jsonrpc_fast.transports.contract import Pair, check_channel
from jsonrpc_fast.transports.memory import MemoryChannel
from jsonrpc_fast.transports.stdio import main as stdio_server

from ..support import certificates
from ..support.places import ROOT
from ..support.tables import rows
from ..support.waiting import eventually, settle

pytestmark = pytest.mark.usefixtures("each_loop")

Making = Callable[[Path], AbstractAsyncContextManager[Pair]]


@contextlib.asynccontextmanager
async def memory(_: Path) -> AsyncIterator[Pair]:
    yield memory_pair_of(MemoryChannel)


def memory_pair_of(kind: type[MemoryChannel]) -> Pair:
    async def pair(one: Events, other: Events) -> tuple[Channel, Channel]:
        ends = kind(), kind()
        ends[0].other, ends[1].other = ends[1], ends[0]
        await ends[0].open(one)
        await ends[1].open(other)
        return ends

    return pair


@contextlib.asynccontextmanager
async def stdio(_: Path) -> AsyncIterator[Pair]:
    """Two servers on pipes that represent stdin and stdout."""

    class Streams:
        def __init__(self, input: int, output: int) -> None:
            self.input, self.output = input, output

        def restore(self) -> None:
            pass

    async def pair(one: Events, other: Events) -> tuple[Channel, Channel]:
        (read, write), (read_back, write_back) = os.pipe(), os.pipe()
        ends: list[Channel] = []
        for events, streams in ((one, Streams(read_back, write)), (other, Streams(read, write_back))):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(stdio_server, "StandardStreams", lambda streams=streams: streams)
                ends.append(stdio_server.StandardChannel())
                await ends[-1].open(events)
        return ends[0], ends[1]

    yield pair


@contextlib.asynccontextmanager
async def pipes(_: Path) -> AsyncIterator[Pair]:
    async def pair(one: Events, other: Events) -> tuple[Channel, Channel]:
        (read, write), (read_back, write_back) = os.pipe(), os.pipe()
        ends = channel_of(read_back, write), channel_of(read, write_back)
        await ends[0].open(one)
        await ends[1].open(other)
        return ends

    yield pair


def channel_of(input: int, output: int) -> PipeChannel:
    """Return a channel that takes these descriptors over."""
    channel = PipeChannel(input, output)
    os.close(input)
    os.close(output)
    return channel


@contextlib.asynccontextmanager
async def child(folder: Path) -> AsyncIterator[Pair]:
    """A child whose stdin and stdout are connected to named pipes."""
    if sys.platform == "win32":
        pytest.skip("there are no named pipes of this kind here")
    numbers = itertools.count()

    async def pair(one: Events, other: Events) -> tuple[Channel, Channel]:
        paths = [str(folder / f"{name}{next(numbers)}") for name in ("in", "out")]
        for path in paths:
            os.mkfifo(path)
        client = StdioClient(["/bin/sh", "-c", 'cat "$0" & cat > "$1"; wait', *paths]).channel
        await client.open(one)
        output, input = [
            await asyncio.to_thread(os.open, path, flag)  # waits for the child
            for path, flag in zip(paths, (os.O_WRONLY, os.O_RDONLY), strict=True)
        ]
        there = channel_of(input, output)
        await there.open(other)
        return client, there

    yield pair


@contextlib.asynccontextmanager
async def served(server_of: Callable[[Any], Any], client_of: Callable[[Any], Any]) -> AsyncIterator[Pair]:
    """Pairs of a client's channel and the one that a server accepts."""
    accepted: asyncio.Queue[Any] = asyncio.Queue()
    is_over = asyncio.Event()

    async def serve(transport: Any) -> None:
        await accepted.put(transport.channel)
        await is_over.wait()

    async def pair(one: Events, other: Events) -> tuple[Channel, Channel]:
        client = client_of(server).channel
        await client.open(one)
        there = await accepted.get()
        await there.open(other)
        return client, there

    server = server_of(serve)
    await server.start()
    try:
        yield pair
    finally:
        closing = asyncio.ensure_future(server.close(0, 0))
        await settle()  # `serve` ends after its connection: the events of the channel are those of the test
        is_over.set()
        await closing


def tcp(_: Path) -> AbstractAsyncContextManager[Pair]:
    return served(lambda serve: TcpServer(serve, "127.0.0.1", 0), lambda server: TcpClient(*server.address))


def tls(_: Path) -> AbstractAsyncContextManager[Pair]:
    for_server, for_client = certificates.contexts()
    return served(
        lambda serve: TcpServer(serve, "127.0.0.1", 0, ssl=for_server),
        lambda server: TcpClient(*server.address, ssl=for_client, server_hostname="localhost"),
    )


def unix(folder: Path) -> AbstractAsyncContextManager[Pair]:
    return served(lambda serve: UnixServer(serve, folder / "socket"), lambda _: UnixClient(folder / "socket"))


def websocket(_: Path, compression: bool = False) -> AbstractAsyncContextManager[Pair]:
    pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
    from jsonrpc_fast.transports.websocket import WebSocketClient, WebSocketServer

    return served(
        lambda serve: WebSocketServer(serve, "127.0.0.1", 0, compression=compression),
        lambda server: WebSocketClient(f"ws://127.0.0.1:{server.address[1]}", compression=compression),
    )


def compressed_websocket(folder: Path) -> AbstractAsyncContextManager[Pair]:
    return websocket(folder, compression=True)


@contextlib.asynccontextmanager
async def asgi(_: Path) -> AsyncIterator[Pair]:
    """Two applications whose servers pass on each other's messages."""

    async def pair(one: Events, other: Events) -> tuple[Channel, Channel]:
        queues: list[asyncio.Queue[Any]] = [asyncio.Queue(), asyncio.Queue()]
        rooms = {id(queue): asyncio.Semaphore(4) for queue in queues}  # an end is queued when there is none, too

        def end_of(mine: asyncio.Queue[Any], theirs: asyncio.Queue[Any]) -> AsgiChannel:
            async def receive() -> Any:
                event = await mine.get()
                rooms[id(mine)].release()
                return event

            async def send(event: Any) -> None:
                await rooms[id(theirs)].acquire()
                if event["type"] == "websocket.send":
                    theirs.put_nowait({"type": "websocket.receive", "text": event["text"]})
                elif event["type"] == "websocket.close":
                    theirs.put_nowait({"type": "websocket.disconnect", "code": event["code"]})

            mine.put_nowait({"type": "websocket.connect"})
            return AsgiChannel({}, receive, send, None)

        def and_the_server_ends(events: Events, theirs: asyncio.Queue[Any]) -> Events:
            def lost(error: Exception | None) -> None:
                theirs.put_nowait({"type": "websocket.disconnect", "code": 1006})
                events.lost(error)

            return Events(events.received, events.drained, lost)

        ends = end_of(*queues), end_of(*reversed(queues))
        await ends[0].open(and_the_server_ends(one, queues[1]))
        await ends[1].open(and_the_server_ends(other, queues[0]))
        return ends

    yield pair


CHANNELS: dict[str, Making] = {
    "memory": memory,
    "stdio": stdio,
    "pipes": pipes,
    "child": child,
    "tcp": tcp,
    "tls": tls,
    "unix": unix,
    "websocket": websocket,
    "websocket, compressed": compressed_websocket,
    "asgi": asgi,
}


def classes_under(kind: type[Channel]) -> set[type[Channel]]:
    """Return the subclasses of a channel in the package's transports that are not the base of another one there."""
    below = [each for each in kind.__subclasses__() if each.__module__.startswith("jsonrpc_fast.transports.")]
    return set().union(*map(classes_under, below)) if below else {kind}


@pytest.mark.ci
async def test_each_channel_has_a_row(tmp_path: Path) -> None:
    """Every class of the package's transports, and all public ones but the bases of channels of one's own."""
    nothing = Events(lambda data: None, lambda: None, lambda fault: None)
    opened: set[type] = set()
    for making in CHANNELS.values():
        async with making(tmp_path) as pair:
            for end in await pair(nothing, nothing):
                opened |= {*type(end).__mro__}
                end.abort()
            await settle()
    public = {value for name in transports.__all__ if isinstance(value := getattr(transports, name), type)}
    without = {each for each in classes_under(Channel) | public if issubclass(each, Channel)} - opened
    assert without == set(), "each needs a row in CHANNELS of this file"


def unopened_pipes() -> Channel:
    return channel_of(*os.pipe())


def unopened_asgi() -> Channel:
    queue: asyncio.Queue[Any] = asyncio.Queue()
    return AsgiChannel({}, queue.get, queue.put, None)


def unopened_websocket() -> Channel:
    pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
    from jsonrpc_fast.transports.websocket import WebSocketClient

    return WebSocketClient("ws://127.0.0.1:1").channel


@rows(
    "make",
    [
        lambda: MemoryChannel.pair()[0],
        unopened_pipes,
        lambda: StdioClient(["true"]).channel,
        lambda: StdioServer().channel,
        lambda: TcpClient("127.0.0.1", 1).channel,
        lambda: TcpClient("127.0.0.1", 1, ssl=certificates.contexts()[1]).channel,
        lambda: UnixClient("nowhere").channel,
        unopened_websocket,
        unopened_asgi,
    ],
)
@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="there is no /dev/fd here")
async def test_a_channel_that_is_not_open_can_be_aborted(make: Callable[[], Channel]) -> None:
    channel = make()
    before = len(os.listdir("/dev/fd"))
    channel.abort()
    channel.abort()
    await settle()
    assert len(os.listdir("/dev/fd")) == before - (2 if type(channel) is PipeChannel else 0)


async def test_pipes_are_opened_once() -> None:
    """The numbers of their closed descriptors may belong to other files."""
    events = Events(lambda data: None, lambda: None, lambda fault: None)
    channel = unopened_pipes()
    channel.abort()
    with pytest.raises(OSError, match=r"^the channel was opened or closed before$"):
        await channel.open(events)


@rows("kind", CHANNELS)
@pytest.mark.ci
async def test_channels_keep_the_contract(kind: str, tmp_path: Path) -> None:
    async with CHANNELS[kind](tmp_path) as pair:
        await check_channel(pair)


@rows("turned", [False, True])
@rows("kind", ["tls", "websocket"])
async def test_a_peer_that_pauses_again_is_waited_for(kind: str, turned: bool, tmp_path: Path) -> None:
    events = Events(lambda data: arrived.append(data), lambda: None, lambda fault: None)
    arrived: list[Any] = []
    async with CHANNELS[kind](tmp_path) as pair:
        ends = await pair(events, events)
        one, other = reversed(ends) if turned else ends
        other.set_reading(True)
        one.write(b"[1]")
        await eventually(lambda: arrived)
        other.set_reading(False)
        for _ in range(2000):
            one.write(b"x" * 60_000)
            await asyncio.sleep(0)
            if one.unwritten > HIGH_WATER_BYTES:
                break
        assert one.unwritten > HIGH_WATER_BYTES
        for end in ends:
            end.abort()
        await settle()


@pytest.mark.usefixtures("loop")
async def test_the_channel_of_the_page_keeps_the_contract() -> None:
    aiohttp = pytest.importorskip("aiohttp")
    from aiohttp import web

    page = (ROOT / "docs" / "channels.md").read_text()
    names: dict[str, Any] = {}
    exec(page.partition("```python\n# aiohttp_channel.py")[2].partition("```")[0], names)
    channel_of = names["AiohttpChannel"]
    accepted: asyncio.Queue[Any] = asyncio.Queue()

    async def serve(request: Any) -> Any:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await accepted.put(socket)
        await is_done.wait()
        return socket

    is_done = asyncio.Event()
    application = web.Application()
    application.router.add_get("/", serve)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession() as client:

        async def pair(one: Events, other: Events) -> tuple[Channel, Channel]:
            ends = channel_of(await client.ws_connect(site.name)), channel_of(await accepted.get())
            await ends[0].open(one)
            await ends[1].open(other)
            return ends

        await check_channel(pair)
        is_done.set()
        await settle(20)
    await runner.cleanup()


# What breaks the contract.


class ReportsInside(MemoryChannel):
    def write(self, data: bytes) -> None:
        super().write(data)
        self._events.drained()


class LosesTwice(MemoryChannel):
    def _lose(self, fault: Exception | None = None) -> None:
        super()._lose(fault)
        self._events.lost(fault)


class NeverLost(MemoryChannel):
    def _lose(self, fault: Exception | None = None) -> None:
        self._end()


class DropsBytes(MemoryChannel):
    def write(self, data: bytes) -> None:
        super().write(data[:-1])


class Reorders(MemoryChannel):
    def write(self, data: bytes) -> None:
        super().write(data)
        self._wire.reverse()


class NeverDrained(MemoryChannel):
    async def open(self, events: Events) -> None:
        await super().open(Events(events.received, lambda: None, events.lost))


class CountsNothing(MemoryChannel):
    @property
    def unwritten(self) -> int:
        return 0


class LosesAtTheEnd(MemoryChannel):
    def _receive_now(self, data: bytes) -> bool:
        return False

    def finish(self) -> None:
        self._wire.clear()
        super().finish()


@rows(
    ("kind", "fault"),
    [
        (ReportsInside, "`drained` was called inside `write`"),
        (LosesTwice, "`lost` was called after `lost`"),
        (NeverLost, "`abort` is not followed by `lost`"),
        (DropsBytes, "data is lost"),
        (Reorders, "what arrives is not what was written"),
        (NeverDrained, "`drained` is not called when `unwritten` falls"),
        (CountsNothing, "`unwritten` does not rise while the peer does not read"),
        (LosesAtTheEnd, "what was written before `finish` is lost"),
    ],
)
@pytest.mark.usefixtures("loop")
@pytest.mark.ci
async def test_a_channel_that_breaks_the_contract_is_found(
    kind: type[MemoryChannel], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jsonrpc_fast.transports.contract.WAIT_SECONDS", 0.3)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    with pytest.raises(AssertionError) as caught:
        await check_channel(memory_pair_of(kind))
    assert fault in str(caught.value)


@pytest.mark.usefixtures("loop")
@pytest.mark.virtual_time
async def test_what_a_channel_cannot_do_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsonrpc_fast.transports.contract.WAIT_SECONDS", 0.3)
    for kind, lack in ((LosesAtTheEnd, "delivers"), (CountsNothing, "waits"), (NeverDrained, "waits")):
        await check_channel(memory_pair_of(kind), without={lack})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^without must be some of waits, delivers, not flies$"):
        await check_channel(memory_pair_of(MemoryChannel), without={"flies"})  # type: ignore[arg-type]
