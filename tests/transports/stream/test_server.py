"""Servers on TCP ports and Unix sockets: addresses, limits, HTTP, `serve` functions and their end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response
from jsonrpc_fast import session as sessions
from jsonrpc_fast.errors import ConnectionLost, ParseError, StateError
from jsonrpc_fast.framing.frames import FRAMINGS, Framing
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StreamTransport, TcpClient, TcpServer, UnixClient, UnixServer
from jsonrpc_fast.transports.stream import server as server_module

from ...support.clock import moving_clock
from ...support.stdio_process import script
from ...support.tables import rows
from ...support.transports import RecordedConnections, Recorder, connected, echo, reset, serving
from ...support.waiting import eventually, forever, results_of, settle

pytestmark = pytest.mark.usefixtures("each_loop", "no_descriptor_left")
needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="asyncio has no Unix sockets on Windows")


@needs_unix
async def test_a_unix_server_does_not_remove_the_socket_of_another(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    one, other = UnixServer(echo, path), UnixServer(echo, path)
    await one.start()
    path.unlink()
    await other.start()  # in its place
    await one.close()
    assert path.exists()
    client = UnixClient(path)
    await client.start()
    await client.close()
    await other.close()
    assert not path.exists()


async def test_states_of_a_server() -> None:
    server = TcpServer(echo, "127.0.0.1", 0)
    with pytest.raises(StateError):
        _ = server.address
    await server.start()
    with pytest.raises(StateError):
        await server.start()
    other = TcpServer(echo, "127.0.0.1", server.address[1])
    with pytest.raises(OSError, match="in use"):
        await other.start()
    address = server.address
    await asyncio.gather(server.close(), server.close())
    await server.close()
    with pytest.raises(StateError):
        _ = server.address
    with pytest.raises(StateError):
        await server.start()
    await TcpServer(echo, "127.0.0.1", 0).close()
    client = TcpClient(*address)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            await client.start()
    await client.close()


async def test_a_request_that_has_arrived_when_the_server_closes_is_served() -> None:
    serve: Any = sessions.serving({"m": lambda: "served"})
    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    clients = [await asyncio.open_connection(*server.address[:2]) for _ in range(20)]
    await eventually(lambda: server.connections == 20)
    for _, writer in clients:
        writer.write(b'{"jsonrpc":"2.0","id":1,"method":"m"}\n')
    await server.close()
    for reader, writer in clients:
        assert await reader.read() == b'{"jsonrpc":"2.0","id":1,"result":"served"}\n'
        writer.close()


async def test_a_server_that_is_started_twice_or_closed_while_it_starts_listens_once_or_not_at_all() -> None:
    server = TcpServer(echo, "127.0.0.1", 0)
    results = await results_of(server.start(), server.start())
    assert [type(result) for result in results] == [type(None), StateError]
    port = server.address[1]
    await server.close()
    with pytest.raises(StateError):
        await server.start()

    taken = socket.create_server(("127.0.0.1", 0))
    server = TcpServer(echo, *taken.getsockname())
    with pytest.raises(OSError, match="address already in use"):
        await server.start()
    taken.close()
    await server.start()
    await server.close()

    server = TcpServer(echo, "127.0.0.1", port)
    starting = asyncio.Task(server.start())  # an eager task has started it already
    await asyncio.sleep(0)
    await server.close()
    with pytest.raises(StateError):
        await starting
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_peer_that_leaves_before_it_is_served() -> None:
    contexts: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))

    arrived, has_left, served = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def serve(transport: StreamTransport) -> None:
        arrived.set()
        await has_left.wait()
        await transport.start()
        served.set()

    async with serving(serve) as server:
        peer = socket.create_connection(server.address)
        await arrived.wait()
        reset(peer)
        await settle()
        has_left.set()
        await served.wait()
        await eventually(lambda: server.connections == 0)
    assert contexts == []


@rows("starts", [False, True])
@rows("fault", [KeyError("mine"), ConnectionRefusedError("the database"), ConnectionLost("mine"), StateError("a bug")])
async def test_an_exception_of_serve_is_reported(fault: Exception, starts: bool) -> None:
    contexts: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))

    async def serve(transport: StreamTransport) -> None:
        if starts:
            await transport.start()
        raise fault

    async with serving(serve) as server:
        client, recorder = await connected(server)
        await client.wait_closed()
        assert recorder.events[-1] == "closed"
        await eventually(lambda: server.connections == 0)
    assert [context["exception"] for context in contexts] == [fault]


@rows("connects", [False, True])
async def test_a_connection_that_serve_does_not_start_is_closed(connects: bool) -> None:
    connections: list[StreamTransport] = []

    async def serve(transport: StreamTransport) -> None:
        connections.append(transport)
        if connects:
            await transport.connect()
            transport.send(Notification("bye"))

    async with serving(serve) as server:
        client, recorder = await connected(server)
        client.send(Notification("n"))
        await client.wait_closed()
        assert recorder.events == [Notification("bye")] * connects + ["closed"]
        await eventually(lambda: server.connections == 0)
        with pytest.raises(StateError):
            await connections[0].start()


@pytest.mark.time_limit(3600)  # of the clock that it moves
async def test_a_server_that_closes_writes_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SERVE_SECONDS", 0.01)
    move = moving_clock()
    closed = asyncio.Event()

    async def serve(transport: StreamTransport) -> None:
        transport.onclose = closed.set
        await transport.start()
        transport.send(Notification("n", ["x" * 20_000_000]))
        await forever()

    async with serving(serve) as server:
        with socket.create_connection(server.address):  # reads nothing
            await eventually(lambda: server.connections == 1)
            closing = asyncio.ensure_future(server.close(drain_seconds=60))
            for seconds in (0, 59):
                move(seconds)
                await settle()
                assert not closed.is_set()
            move(1)
            await asyncio.wait_for(closed.wait(), 10)
            await closing  # `serve` is cancelled


async def test_a_connection_may_close_the_server() -> None:
    closing: list[str] = []

    async def serve(transport: StreamTransport) -> None:
        await transport.start()
        await server.close()
        closing.append("done")

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    client, recorder = await connected(server)
    await client.wait_closed()
    assert recorder.events == ["closed"]
    await eventually(lambda: closing == ["done"])


def test_a_wrong_option_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="framing"):
        TcpServer(echo, "127.0.0.1", 0, framing="morse")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        TcpClient("127.0.0.1", 1, framming="newline")  # type: ignore[call-arg]


HTTP = b"POST /rpc HTTP/1.1\r\nHost: localhost:4000\r\nContent-Type: text/plain\r\nContent-Length: 60\r\n\r\n"
"""The start of a form or a `no-cors` request that a web page makes a browser send."""


MINE = b'{"jsonrpc":"2.0","id":1,"method":"first"}'


HTTP_STARTS = {
    "post": HTTP,
    "get": b"GET / HTTP/1.1\r\n",
    "options": b"OPTIONS * HTTP/1.1\r\n",
    "absolute": b"GET http://localhost:4000/x?a=b:c HTTP/1.0\r\n",
    "long target": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n",
    "own method": b"M-SEARCH * HTTP/1.1\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "blank lines": b"\r\n\r\n" + HTTP,
}


@pytest.mark.usefixtures("loop")
@rows("framing", FRAMINGS)
@rows("start", HTTP_STARTS)
@pytest.mark.ci
async def test_http_requests_are_dropped_unread(start: str, framing: Framing) -> None:
    body = MINE + b"\n" + b"Content-Length: %d\r\n\r\n" % len(MINE) + MINE + b"\n"
    request = HTTP_STARTS[start] + body

    seen = RecordedConnections()

    async def ask(pieces: list[bytes]) -> None:
        seen.clear()
        reader, writer = await asyncio.open_connection(*server.address)
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await settle(3)
            assert await reader.read() == b""
        await eventually(lambda: server.connections == 0)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        if seen:
            assert [str(told) for told in seen[0].events] == ["the peer speaks HTTP", "closed"]

    async with serving(seen, framing=framing) as server:
        await ask([request])
        assert seen
        for cut in range(1, 30) if start in ("post", "blank lines") else ():
            await ask([request[:cut], request[cut:]])


@pytest.mark.usefixtures("loop")
@rows(
    ("first", "faults"),
    [
        (b"", 0),
        (b" \t\r\n", 0),
        (b"\xef\xbb\xbf", 0),
        (b"GET\n", 1),
        (b"GET / HTTQ/1.1\n", 1),
        (b"GET / HTTP\n", 1),
        (b"GET /\n", 1),
        (b"get  HTTP1\n", 1),
        (b"Content-Length: HTTP/1.1\n", 1),
        (b'"a" / HTTP/1.1\n', 1),
        (b"A" * 33 + b" / HTTP/1.1\n", 1),
    ],
)
async def test_text_that_resembles_http_is_read(first: bytes, faults: int) -> None:
    seen = RecordedConnections()
    async with serving(seen) as server:
        for size in (1, 1000):
            seen.clear()
            _, writer = await asyncio.open_connection(*server.address)
            text = first + MINE + b"\n"
            for at in range(0, len(text), size):
                writer.write(text[at : at + size])
                await settle(2)
            writer.close()
            await eventually(lambda: bool(seen) and seen[0].events[-1:] == ["closed"])
            assert [isinstance(told, ParseError) for told in seen[0].events[:-2]] == [True] * faults
            assert seen[0].events[-2:] == [Request(1, "first"), "closed"]


async def test_the_durations_of_closing_are_checked() -> None:
    async with serving() as server:
        for times in ({"drain_seconds": -1}, {"grace_seconds": float("nan")}):
            with pytest.raises(ValueError, match="seconds"):
                await server.close(**times)
        client, _ = await connected(server)  # it still serves
        await client.close()


async def test_all_addresses_of_a_host_have_one_port() -> None:
    server = TcpServer(echo, None, 0)  # type: ignore[arg-type]
    await server.start()
    assert server._server is not None
    assert {listener.getsockname()[1] for listener in server._server.sockets} == {server.address[1]}
    client = TcpClient("127.0.0.1", server.address[1])
    recorder = Recorder(client)
    await client.start()
    client.send(Request(1, "echo", [1]))
    await recorder.wait_for(1)
    await client.close()
    await server.close()


@needs_unix
@pytest.mark.skipif(sys.platform != "linux", reason="abstract names are Linux's")
async def test_an_abstract_unix_name() -> None:
    name = f"\0jsonrpc_fast test {os.getpid()}"
    for _ in range(2):
        server = UnixServer(echo, name)
        await server.start()
        client = UnixClient(name)
        recorder = Recorder(client)
        await client.start()
        client.send(Request(1, "echo", [1]))
        await recorder.wait_for(1)
        assert recorder.events == [Response(1, [1])]
        await client.close()
        await server.close()


@needs_unix
async def test_a_path_that_cannot_be_bound_is_named(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    for path in (tmp_path, precious):
        with pytest.raises(OSError, match="the path exists and is no socket") as caught:
            await UnixServer(echo, path).start()
        assert (caught.value.errno, caught.value.filename) == (errno.EADDRINUSE, str(path))
    assert precious.read_text() == "kept"
    with pytest.raises(FileNotFoundError, match="missing"):
        await UnixServer(echo, tmp_path / "missing" / "socket").start()


@needs_unix
async def test_a_socket_in_use_is_refused_and_a_stale_one_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    server, second = UnixServer(echo, path), UnixServer(echo, path)
    await server.start()
    with pytest.raises(OSError, match="another server listens on this path") as caught:
        await second.start()
    assert caught.value.errno == errno.EADDRINUSE
    client = UnixClient(path)
    recorder = Recorder(client)
    await client.start()
    client.send(Request(1, "echo", [1]))
    await recorder.wait_for(1)
    server.stop_accepting()
    assert not path.exists()
    await second.start()  # now it is free, although the first server still serves
    client.send(Request(2, "echo", [2]))
    await recorder.wait_for(2)
    await client.close()
    await server.close()
    assert path.exists()
    await second.close()
    assert not path.exists()
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    third = UnixServer(echo, path)
    await third.start()
    await third.close()
    path.write_text("no socket")
    with pytest.raises(OSError, match="no socket"):
        await UnixServer(echo, path).start()
    assert path.read_text() == "no socket"


class Worker:
    """A server of sessions whose handler runs until it is released."""

    def __init__(self) -> None:
        self.begun = 0
        self.release = asyncio.Event()
        self.server = TcpServer(self.serve, "127.0.0.1", 0)

    async def serve(self, transport: StreamTransport) -> None:
        async with Session(transport, {"work": self.work, "stop": self.stop}) as session:
            await session.wait_closed()

    async def work(self) -> str:
        self.begun += 1
        await self.release.wait()
        return "done"

    async def stop(self) -> str:
        await self.server.close(grace_seconds=None)
        return "stopped"


async def test_a_server_that_closes_lets_handlers_finish() -> None:
    worker = Worker()
    await worker.server.start()
    address = worker.server.address
    async with Session(TcpClient(*address)) as client, Session(TcpClient(*address)):
        call = asyncio.ensure_future(client.call("work"))
        await eventually(lambda: worker.begun == 1)
        closing = asyncio.ensure_future(worker.server.close(grace_seconds=None))
        await eventually(lambda: worker.server.connections == 1)  # idle connections are closed at once
        with pytest.raises(ConnectionRefusedError):
            await TcpClient(*address).connect()
        assert not closing.done()
        worker.release.set()
        assert await call == "done"
        await closing


async def test_a_server_that_closes_cancels_handlers_after_the_grace_period(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker()
    await worker.server.start()
    async with Session(TcpClient(*worker.server.address)) as client:
        call = asyncio.ensure_future(client.call("work"))
        await eventually(lambda: worker.begun == 1)
        await worker.server.close(grace_seconds=0.05)
        with pytest.raises(ConnectionLost):
            await call
    assert caplog.messages == ["the server ended with requests without a response: 1"]


async def test_a_server_that_closes_does_not_wait_long_for_a_serve_that_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_module, "SERVE_SECONDS", 0.01)
    monkeypatch.setattr(server_module, "CANCEL_SECONDS", 0.01)
    gate, ended = asyncio.Event(), asyncio.Event()

    async def serve(transport: StreamTransport) -> None:
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        ended.set()

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    client = TcpClient(*server.address)
    await client.connect()
    await eventually(lambda: server.connections)
    await asyncio.wait_for(server.close(0, 0), 20)
    assert not ended.is_set()
    assert caplog.messages == ["functions that serve connections continue although they were cancelled: 1"]
    gate.set()
    await ended.wait()
    await client.disconnect()


async def test_a_server_that_stops_accepting_keeps_its_connections() -> None:
    worker = Worker()
    worker.release.set()
    await worker.server.start()
    address = worker.server.address
    async with Session(TcpClient(*address)) as client:
        assert await client.call("work") == "done"
        worker.server.stop_accepting()
        worker.server.stop_accepting()
        with pytest.raises(StateError):
            _ = worker.server.address
        with pytest.raises(ConnectionRefusedError):
            await TcpClient(*address).connect()
        assert await client.call("work") == "done"
        await worker.server.close()


async def test_a_handler_may_close_its_server() -> None:
    before = asyncio.all_tasks()
    worker = Worker()
    await worker.server.start()
    async with Session(TcpClient(*worker.server.address)) as client:
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(client.call("stop"), 4)
    await eventually(lambda: asyncio.all_tasks() == before)


# Clients that do not speak.


@rows(
    "chunks, is_dropped",
    [
        ([], True),
        ([b'{"jsonrpc"'], True),
        ([b"\n", b"   \n"], True),
        ([b'{"jsonrpc":"2.0","id":1,"met', b'hod":"m"}\n'], False),
        ([b'{"jsonrpc":"2.0","id":1,"method":"m"}\n{"jsonrpc"'], False),
        ([b"{}\n"], False),
    ],
)
async def test_a_client_whose_first_message_is_not_complete_in_time_is_dropped(
    chunks: list[bytes], is_dropped: bool
) -> None:
    faults: list[Any] = []

    async def serve(transport: Any) -> None:
        transport.onerror = faults.append
        await transport.start()
        await transport.wait_closed()

    async with serving(serve, first_message_seconds=0.04) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        for chunk in chunks:
            writer.write(chunk)
            await settle()
        ended = asyncio.ensure_future(reader.read())
        await asyncio.wait([ended], timeout=10 if is_dropped else 0.08)
        assert ended.done() is is_dropped
        assert server.connections == (not is_dropped)
        lost = [str(fault) for fault in faults if isinstance(fault, ConnectionLost)]
        assert lost == ["the first message was not complete in 0.04 s"] * is_dropped
        ended.cancel()
        writer.close()


async def test_clients_that_only_listen_need_no_first_message() -> None:
    async with serving(echo, first_message_seconds=None) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        await eventually(lambda: server.connections == 1)
        assert (server.connections, server._silent_timer) == (1, None)
        writer.close()
        assert await reader.read() == b""


@needs_unix
@rows("kind", ["tcp", "path", "ipv6"])
def test_run_ends_when_its_server_is_closed_and_says_where_it_listened(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    closing = []

    async def serve(transport: StreamTransport) -> None:
        closing.append(asyncio.create_task(server.close(drain_seconds=0)))  # the client does not read

    family = {"tcp": socket.AF_INET, "path": socket.AF_UNIX, "ipv6": socket.AF_INET6}[kind]
    sock = socket.socket(family)
    sock.bind(str(tmp_path / "socket") if kind == "path" else ("::1" if kind == "ipv6" else "127.0.0.1", 0))
    address = sock.getsockname()
    server = (UnixServer if kind == "path" else TcpServer)(serve, sock=sock)
    with socket.socket(family) as client:
        sock.listen()
        client.connect(address)
        assert server.run() == 0
    text = address if kind == "path" else f"{f'[{address[0]}]' if kind == 'ipv6' else address[0]}:{address[1]}"
    assert capfd.readouterr().err == f"listening on {text}\n"
    assert closing[0].done()


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_under_stderr_does_not_keep_a_server_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    served = []

    async def serve(transport: StreamTransport) -> None:
        served.append(asyncio.create_task(server.close(drain_seconds=0)))

    sock = socket.create_server(("127.0.0.1", 0))
    server = TcpServer(serve, sock=sock)
    monkeypatch.setattr(sys, "stderr", FullDisk())
    with socket.create_connection(sock.getsockname()):
        assert server.run() == 0
    assert len(served) == 1


def test_run_says_that_its_address_is_in_use(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert TcpServer(echo, *taken.getsockname()).run() == 1
    assert capfd.readouterr().err.startswith("cannot listen: [Errno ")
    with pytest.raises(ValueError, match="grace_seconds"):
        TcpServer(echo, "127.0.0.1", 0).run(grace_seconds=-1)


async def test_run_in_a_running_loop_says_what_to_do() -> None:
    with pytest.raises(StateError, match="awaits `start` and `close`"):
        TcpServer(echo, "127.0.0.1", 0).run()


RUN = """
    import asyncio, os, sys
    from jsonrpc_fast import Response
    from jsonrpc_fast.transports import TcpServer

    async def serve(transport):
        async def work(number):
            os.kill(os.getpid(), number)
            await asyncio.sleep({seconds})
            transport.send(Response(1, number))
            await transport.close()

        def begin(message):
            tasks.append(asyncio.create_task(work(message.params[0])))

        transport.onmessage, transport.onstop = begin, stopped
        await transport.start()

    def stopped(grace_seconds):
        print("stopped", grace_seconds, file=sys.stderr, flush=True)

    tasks = []
    sys.exit(TcpServer(serve, "127.0.0.1", 0).run(grace_seconds=30))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("waits", [True, False])
def test_a_signal_ends_run_after_the_work_and_a_second_one_at_once(number: signal.Signals, waits: bool) -> None:
    command = script(RUN.replace("{seconds}", "0.05" if waits else "1000"))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        port = int(process.stderr.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"m","params":[%d]}\n' % number)
            assert process.stderr.readline() == "stopped 30\n"
            if not waits:
                process.send_signal(number)
            with contextlib.suppress(ConnectionResetError):
                received = client.recv(1000)
                assert received == (b'{"jsonrpc":"2.0","id":1,"result":%d}\n' % number if waits else b"")
        assert (process.wait(20), process.stderr.read()) == (-number, "")


async def test_a_server_shows_where_it_listens(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    servers = {TcpServer(echo, "127.0.0.1", 0): "127.0.0.1:{}", UnixServer(echo, path): path}
    for server, place in servers.items():
        name = type(server).__name__
        assert repr(server) == f"<{name} not started>"
        await server.start()
        place = place.format(server.address[1])
        assert repr(server) == f"<{name} listening on {place}, connections=0>"
        client = TcpClient(*server.address) if name == "TcpServer" else UnixClient(path)
        await client.start()
        await eventually(lambda server=server: server.connections == 1)
        assert repr(server) == f"<{name} listening on {place}, connections=1>"
        assert repr(client) == f"<{type(client).__name__} running peer={client.peer!r}>"
        await client.close()
        assert repr(client) == f"<{type(client).__name__} closed>"
        await server.close()
        assert repr(server) == f"<{name} closed>"
