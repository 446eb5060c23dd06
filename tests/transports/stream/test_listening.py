"""The sockets that servers listen on: given, shared, inherited; and the options of those that they bind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StreamServer, TcpClient, TcpServer, UnixClient, UnixServer, inherited_sockets

from ...support.clock import moving_clock
from ...support.tables import rows
from ...support.transports import inheriting
from ...support.waiting import eventually

pytestmark = [
    pytest.mark.usefixtures("each_loop", "no_descriptor_left"),
    pytest.mark.skipif(sys.platform == "win32", reason="the tests use Unix sockets"),
]


async def serve(transport: Any) -> None:
    async with Session(transport, {"add": lambda a, b: a + b}) as session:
        await session.wait_closed()


async def add_over(transport: Any) -> int:
    async with Session(transport) as session:
        return int(await session.call("add", [40, 2]))


def bound_port() -> socket.socket:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound


def bound_path(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    return bound


async def test_a_given_socket(tmp_path: Path) -> None:
    at_port, at_path = bound_port(), bound_path(tmp_path / "socket")
    server: StreamServer
    for server in (TcpServer(serve, sock=at_port), UnixServer(serve, sock=at_path)):
        await server.start()
        address = server.address
        for _ in range(2):
            assert await add_over(TcpClient(*address) if server.__class__ is TcpServer else UnixClient(address)) == 42
        await server.close()
    assert at_port.fileno() == at_path.fileno() == -1
    assert (tmp_path / "socket").exists()  # it belongs to whoever has bound it


async def test_websocket_on_a_given_socket(tmp_path: Path) -> None:
    websocket = pytest.importorskip("jsonrpc_fast.transports.websocket")
    from websockets.asyncio.client import unix_connect

    server = websocket.WebSocketServer(serve, sock=bound_port())
    await server.start()
    assert await add_over(websocket.WebSocketClient(f"ws://127.0.0.1:{server.address[1]}")) == 42
    await server.close()
    server = websocket.WebSocketServer(serve, sock=bound_path(tmp_path / "socket"))  # behind a proxy on this machine
    await server.start()
    async with unix_connect(str(tmp_path / "socket")) as client:
        await client.send('{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}')
        assert await client.recv() == '{"jsonrpc":"2.0","id":1,"result":3}'
    await server.close()


async def test_a_socket_of_a_server_that_was_not_started_is_closed() -> None:
    bound = bound_port()
    await TcpServer(serve, sock=bound).close()
    assert bound.fileno() == -1


async def test_a_server_that_shares_its_socket_loses_no_connection_when_it_closes() -> None:
    bound = bound_port()
    one, other = TcpServer(serve, sock=bound.dup()), TcpServer(serve, sock=bound)
    await one.start()
    address = one.address
    waiting = [socket.create_connection(address) for _ in range(20)]  # in the system's queue
    await one.close()
    await other.start()
    loop = asyncio.get_running_loop()
    for client in waiting:
        client.setblocking(False)
        await loop.sock_sendall(client, b'{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}\n')
        assert await loop.sock_recv(client, 100) == b'{"jsonrpc":"2.0","id":1,"result":3}\n'
        client.close()
    await other.close()


@pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="this system has no SO_REUSEPORT")
async def test_servers_on_the_same_port() -> None:
    one = TcpServer(serve, sock=socket.create_server(("127.0.0.1", 0), reuse_port=True))
    await one.start()
    other = TcpServer(serve, sock=socket.create_server(one.address, reuse_port=True))
    await other.start()
    third = TcpServer(serve, *one.address)
    with pytest.raises(OSError, match="in use"):
        await third.start()
    assert [await add_over(TcpClient(*one.address)) for _ in range(5)] == [42] * 5
    address = one.address
    await one.close()
    assert [await add_over(TcpClient(*address)) for _ in range(5)] == [42] * 5
    await other.close()


def listening_on(port: int) -> socket.socket:
    """Return a second socket for the one of this process that listens on a port."""
    for path in Path("/proc/self/fd").iterdir():
        if path.is_socket():
            sock = socket.socket(fileno=os.dup(int(path.name)))
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and sock.getsockname()[1] == port:
                return sock
            sock.close()
    raise AssertionError("nothing listens there")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@rows("is_given", [True, False])
async def test_a_process_without_descriptors_reports_that_once_a_second(is_given: bool) -> None:
    import resource

    if not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
        pytest.skip("libuv has a descriptor in reserve, with which it may accept and close the connections")
    reports: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report["message"]))
    where: dict[str, Any] = {"sock": bound_port()} if is_given else {"host": "127.0.0.1", "port": 0}
    server = TcpServer(serve, **where)
    await server.start()
    with contextlib.ExitStack() as clients, contextlib.ExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(20):  # they wait in the backlog
            clients.enter_context(socket.create_connection(server.address))
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 1, hard))
        with contextlib.suppress(OSError):
            while True:
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        for _ in range(50):
            await asyncio.sleep(0)
        stack.close()
        times = 2 if sys.version_info >= (3, 14) else 1  # it tries one accept more in a turn
        assert set(reports) == {"socket.accept() out of system resource"}
        assert len(reports) <= times
        moving_clock()(1)
        await eventually(lambda: server.connections == 20)
    await server.close(0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="the backlog of a socket is read as on Linux")
@rows("is_given", [True, False])
async def test_the_kernel_queues_what_the_system_allows(is_given: bool) -> None:
    where: dict[str, Any] = {"sock": bound_port()} if is_given else {"host": "127.0.0.1", "port": 0}
    server = TcpServer(serve, **where)
    await server.start()
    with listening_on(server.address[1]) as sock:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    allowed = int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert struct.unpack_from("I", info, 28) == (min(socket.SOMAXCONN, allowed),)  # tcpi_sacked
    await server.close()


@rows("mode", [0o600, 0o660, 0o666])
async def test_the_mode_of_a_path(mode: int, tmp_path: Path) -> None:
    path = tmp_path / f"{mode:o}"
    server = UnixServer(serve, path, mode=mode)
    await server.start()
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert await add_over(UnixClient(path)) == 42
    await server.close()
    assert not path.exists()


@rows(
    "make, error",
    [
        (lambda sock: TcpServer(serve), ValueError),
        (lambda sock: TcpServer(serve, "127.0.0.1", 0, sock=sock), ValueError),
        (lambda sock: TcpServer(serve, "127.0.0.1", sock=sock), ValueError),
        (lambda sock: TcpServer(serve, sock=3), TypeError),
        (lambda sock: UnixServer(serve), ValueError),
        (lambda sock: UnixServer(serve, "path", sock=sock), ValueError),
        (lambda sock: UnixServer(serve, sock=sock), ValueError),
        (lambda sock: UnixServer(serve, "path", mode="660"), TypeError),
    ],
)
def test_wrong_arguments(make: Callable[[socket.socket], object], error: type[Exception]) -> None:
    with socket.socket() as sock, pytest.raises(error):
        make(sock)


def test_a_socket_that_is_no_stream() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as datagrams, pytest.raises(ValueError, match="stream socket"):
        TcpServer(serve, sock=datagrams)


def test_a_socket_that_is_closed_or_connected() -> None:
    left, right = socket.socketpair()
    with left, right, pytest.raises(ValueError, match="it is connected"):
        UnixServer(serve, sock=left)
    with pytest.raises(ValueError, match="is closed"):
        TcpServer(serve, sock=left)


async def test_a_path_that_is_too_long_is_not_in_use() -> None:
    with pytest.raises(OSError, match="too long"):
        await UnixServer(serve, f"/tmp/{'x' * 200}").start()


INHERIT = """
import os, socket
from jsonrpc_fast.transports import inherited_sockets
found = inherited_sockets()
print([one.getsockname()[1] for one in found], [one.get_inheritable() for one in found])
print(inherited_sockets(), [name for name in os.environ if name.startswith("LISTEN_")])
"""


@pytest.mark.parametrize("pid", ["$$", "1"])
def test_inherited_sockets(pid: str) -> None:
    with bound_port() as bound:
        port = bound.getsockname()[1]
        command = inheriting([sys.executable, "-c", INHERIT], pid)
        run = subprocess.run(command, stdin=bound, capture_output=True, text=True, timeout=30)
    expected = f"[{port}] [False]" if pid == "$$" else "[] []"
    assert run.stdout.splitlines() == [expected, "[] []"], run.stderr


def test_no_inherited_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert inherited_sockets() == []
    for count in ("x", "-1", "", "1.5", "\u0663"):
        monkeypatch.setenv("LISTEN_FDS", count)
        monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
        with pytest.raises(ValueError, match=r"^LISTEN_FDS must be a number of descriptors, 0 or more$"):
            inherited_sockets()
