"""Connections over TCP and Unix sockets: how they open, carry messages and end, and who the peer is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response, encode_request, encode_result
from jsonrpc_fast.errors import ConnectionLost, ParseError
from jsonrpc_fast.framing.frames import FRAMINGS, Framing
from jsonrpc_fast.handlers import CallNext, Handlers, RequestContext
from jsonrpc_fast.session import Session, SessionContext
from jsonrpc_fast.transports import (
    PeerCredentials,
    StreamTransport,
    TcpClient,
    TcpServer,
    UnixClient,
    UnixServer,
    memory_pair,
)

from ...support.eth_app import BALANCE, FUNCTIONS
from ...support.processes import resident_bytes
from ...support.tables import rows
from ...support.transports import RecordedConnections, Recorder, connected, echo, flood, reset, serving
from ...support.waiting import eventually, settle

pytestmark = pytest.mark.usefixtures("each_loop", "no_descriptor_left")
needs_unix = pytest.mark.skipif(sys.platform == "win32", reason="asyncio has no Unix sockets on Windows")


@rows("framing", FRAMINGS)
async def test_echo_on_tcp(framing: Framing) -> None:
    async with serving(framing=framing) as server:
        client, recorder = await connected(server, framing=framing)
        assert client.peer == server.address
        assert client.waits_for_peer
        assert client.socket.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for number in range(500):
            client.send(Request(number, "echo", [number]))
        client.send(Request("large", "echo", ["x" * 3_000_000]))
        await recorder.wait_for(501)
        assert recorder.events[:500] == [Response(number, [number]) for number in range(500)]
        assert recorder.events[500] == Response("large", ["x" * 3_000_000])
        await client.close()
        assert recorder.events[501:] == ["closed"]
        await eventually(lambda: server.connections == 0)


@rows("spoken", ["newline", "content-length"])
async def test_auto_framing_replies_in_the_framing_of_the_peer(spoken: Framing) -> None:
    async with serving(framing="auto") as server:
        client, recorder = await connected(server, framing=spoken)
        client.send(Request(1, "echo"))
        await recorder.wait_for(1)
        client.send(Request(2, "echo"))
        await recorder.wait_for(2)
        assert recorder.events == [Response(1), Response(2)]
        await client.close()


def respond_and_close(transport: StreamTransport, told: list[Any]) -> None:
    told.append("end")
    transport.send(Response(1))
    transport.begin_closing()


@rows("onend", [None, respond_and_close])
async def test_a_framing_fault_ends_the_stream(onend: Any) -> None:
    """As its peer does: with `onend` set, the responses to what came before the fault may follow."""
    told: list[Any] = []

    async def serve(transport: StreamTransport) -> None:
        recorder = Recorder(transport)
        recorder.events = told
        transport.onmessage = lambda message: onend or transport.send(Response(1))
        transport.onerror = told.append
        transport.onclose = lambda: told.append("closed")
        transport.onend = onend and (lambda: onend(transport, told))
        await transport.start()

    async with serving(serve, framing="content-length") as server:
        reader, writer = await asyncio.open_connection(*server.address)
        body = encode_request(1, "m", delimited=False)
        writer.write(b"Content-Length: %d\r\n\r\n%bContent-Length: -5\r\n\r\n" % (len(body), body))
        assert await reader.read() == b'Content-Length: 38\r\n\r\n{"jsonrpc":"2.0","id":1,"result":null}'
        writer.close()
        await writer.wait_closed()
        await eventually(lambda: "closed" in told)
        fault, *ends, loss, closed = told
        assert isinstance(fault, ParseError)
        assert ends == (["end"] if onend else [])
        assert isinstance(loss, ConnectionLost)
        assert str(loss) == str(fault)
        assert loss.__cause__ is fault
        assert closed == "closed"


@needs_unix
async def test_echo_on_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    for _ in range(2):
        server = UnixServer(echo, path)
        await server.start()
        assert server.address == str(path)
        client = UnixClient(path)
        recorder = Recorder(client)
        await client.start()
        client.send(Request(1, "echo", ["x" * 1_000_000]))
        await recorder.wait_for(1)
        assert recorder.events == [Response(1, ["x" * 1_000_000])]
        await client.close()
        await server.close()
        assert not path.exists()
    with pytest.raises(FileNotFoundError):
        await UnixClient(path).connect()


@pytest.mark.usefixtures("loop")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell the memory in use")
async def test_a_connection_with_little_traffic_uses_little_memory() -> None:
    server = TcpServer(echo, "127.0.0.1", 0)
    await server.start()
    before = resident_bytes()
    clients = [TcpClient(*server.address[:2]) for _ in range(50)]  # a process may have 256 open files
    recorders = [Recorder(client) for client in clients]
    try:
        for client in clients:
            await client.start()
            client.send(Request(1, "m"))
        for recorder in recorders:
            await recorder.wait_for(1)
        assert resident_bytes() - before < 2 * len(clients) * 64 * 1024
    finally:
        for client in clients:
            await client.disconnect()
        await server.close()


async def test_writing_to_a_connection_that_was_reset_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    reset = asyncio.Event()

    async def serve(transport: StreamTransport) -> None:
        Recorder(transport)
        await transport.start()
        await reset.wait()
        with contextlib.suppress(ConnectionLost):
            for _ in range(20):
                transport.send(Notification("n", ["x" * 200_000]))
        await transport.wait_closed()

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    peer = socket.create_connection(server.address[:2])
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await eventually(lambda: server.connections == 1)
    peer.close()
    reset.set()
    await eventually(lambda: server.connections == 0)
    await server.close()
    assert caplog.records == []


@rows("cause", [asyncio.CancelledError, GeneratorExit])
async def test_a_base_exception_of_a_callback_does_not_break_the_connection(cause: type[BaseException]) -> None:
    contexts: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    methods: list[str] = []

    async def serve(transport: StreamTransport) -> None:
        def note(message: Any) -> None:
            methods.append(message.method)
            if message.method == "a":
                raise cause

        transport.onmessage = note
        transport.onerror = contexts.append  # type: ignore[assignment]
        await transport.start()

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    client = TcpClient(*server.address[:2])
    await client.start()
    for method in "abc":
        client.send(Notification(method))
    await client.close()
    await server.close()
    assert methods == ["a", "b", "c"]
    assert [type(context["exception"]) for context in contexts] == [cause]


async def test_a_reset_by_the_peer() -> None:
    seen = RecordedConnections()
    async with serving(seen) as server:
        peer = socket.create_connection(server.address)
        await eventually(lambda: len(seen) == 1)
        reset(peer)
        await eventually(lambda: server.connections == 0)
        assert isinstance(seen[0].events[0], ConnectionResetError)
        assert seen[0].events[1:] == ["closed"]


async def test_close_writes_what_was_accepted_while_the_peer_sends() -> None:
    """Closing a socket with unread bytes resets the connection, and the peer may lose what was sent."""

    received: list[Any] = []

    async def serve(transport: StreamTransport) -> None:
        transport.onmessage = received.append
        await transport.start()
        for _ in range(200):
            transport.send(Notification("n", ["x" * 1000]))

    async with serving(serve) as server:
        client, _ = await connected(server)
        client.pause_reading()
        for number in range(1000):
            client.send(Notification("n", [number, "x" * 2000]))
        await client.close()
        await eventually(lambda: len(received) == 1000)
        assert [message.params[0] for message in received] == list(range(1000))


async def test_a_cancelled_connect_may_be_tried_again() -> None:
    async with serving() as server:
        client = TcpClient(*server.address)
        recorder = Recorder(client)
        connecting = asyncio.ensure_future(client.start())
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await client.start()
        client.send(Request(1, "echo"))
        await recorder.wait_for(1)
        await client.close()


@rows("turns", [0, 50])
async def test_messages_and_the_end_before_start_are_kept(turns: int) -> None:
    """The client writes and ends its stream at once, and the server starts late."""

    async def serve(transport: StreamTransport) -> None:
        recorders.append(Recorder(transport))
        await settle(turns)
        await transport.connect()
        await settle(turns)
        assert recorders[0].events == []
        await transport.start()
        assert recorders[0].events == []

    recorders: list[Recorder] = []
    async with serving(serve) as server:
        with socket.create_connection(server.address, 5) as peer:
            peer.sendall(encode_request(1, "first") + encode_request(2, "second", ["x" * 500_000]))
            peer.shutdown(socket.SHUT_WR)
            await eventually(lambda: bool(recorders))
            await recorders[0].wait_for(3)
            assert recorders[0].events == [Request(1, "first"), Request(2, "second", ["x" * 500_000]), "closed"]


@rows("text", [b"x\n" * 5000, b"{}\n" * 5000, (b"[" + b",".join([b"1"] * 400) + b"]\n") * 10])
async def test_a_connection_with_too_many_faults_is_closed(text: bytes) -> None:
    seen = RecordedConnections()
    async with serving(seen) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(text)
        assert await reader.read() == b""
        writer.close()
        await eventually(lambda: seen[0].events[-1:] == ["closed"])
        faults = sum(len(told) if isinstance(told, list) else isinstance(told, ParseError) for told in seen[0].events)
        assert 1000 < faults <= 1200
        assert isinstance(seen[0].events[-2], ConnectionLost)
        assert str(seen[0].events[-2]) == "the peer sent more invalid messages than max_faults allows"


async def test_a_peer_that_goes_on_after_too_many_faults_is_cut_off() -> None:
    async with serving(max_faults=0) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"{}\n")
        assert await reader.read() == b""
        assert await flood(writer, b"{}\n" * 20_000)
        await eventually(lambda: server.connections == 0)


@rows("bound", [0, 5, None])
async def test_max_faults(bound: int | None) -> None:
    seen = RecordedConnections()
    async with serving(seen, max_faults=bound) as server:
        with socket.create_connection(server.address, 5) as peer:
            peer.sendall(b"x\n" * 3000)
            peer.shutdown(socket.SHUT_WR)
            await eventually(lambda: bool(seen) and seen[0].events[-1:] == ["closed"])
    assert sum(isinstance(told, ParseError) for told in seen[0].events) == (3000 if bound is None else bound + 1)


@rows("unwritten", [0, 20_000_000])
@rows("who", ["transport", "server", "session"])
async def test_closing_after_a_reset_raises_nothing(who: str, unwritten: int) -> None:
    """In the same turn of the loop, before the transport notices the reset."""

    transports: list[StreamTransport] = []
    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    async def serve(transport: StreamTransport) -> None:
        if who == "session":
            sessions.append(Session(transport))
            await sessions[-1].start()
        else:
            await transport.start()
        transports.append(transport)

    sessions: list[Session] = []
    async with serving(serve) as server:
        peers = [socket.create_connection(server.address) for _ in range(3)]
        await eventually(lambda: len(transports) == 3)
        for transport in transports:
            if unwritten:
                transport.send(Notification("n", ["x" * unwritten]))
                await asyncio.sleep(0)
        for peer in peers:
            reset(peer)
        if who == "server":
            await server.close()
        else:
            await (sessions or transports)[0].close()
        if who != "server":
            await server.close()
        assert server.connections == 0
    assert reports == []


@rows("size", [10, 300_000, 8_000_000])
async def test_a_half_closing_client_gets_a_large_response(size: int) -> None:
    """Like `nc -N`."""

    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    async def serve(transport: StreamTransport) -> None:
        transport.onmessage = lambda message: transport.send(Response(1, "x" * size))
        await transport.start()

    async with serving(serve) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(encode_request(1, "large"))
        writer.write_eof()
        await settle(50)
        assert len(await reader.read()) == size + len(encode_result(1, ""))
        writer.close()
        await writer.wait_closed()
        await eventually(lambda: server.connections == 0)
    assert reports == []


async def serve(transport: Any) -> None:
    async with Session(transport, {"add": lambda a, b: a + b, **FUNCTIONS}) as session:
        await session.wait_closed()


async def exchange(writer: asyncio.StreamWriter, reader: asyncio.StreamReader, text: bytes) -> bytes:
    writer.write(text)
    return await asyncio.wait_for(reader.readline(), 10)


@needs_unix
async def test_a_peer_without_delimiters(tmp_path: Path) -> None:
    path = str(tmp_path / "ipc")
    server = UnixServer(serve, path, framing="concatenated")
    await server.start()
    reader, writer = await asyncio.open_unix_connection(path)
    message = {"jsonrpc": "2.0", "id": 1, "method": "add", "params": ["{", "]"]}
    answer = b'{"jsonrpc":"2.0","id":1,"result":"{]"}\n'
    for text in (json.dumps(message), json.dumps(message, indent=2), json.dumps(message, indent=0)):
        assert await exchange(writer, reader, text.encode()) == answer
    two = json.dumps(message).encode() * 2
    assert await exchange(writer, reader, two[:70]) == answer
    assert await exchange(writer, reader, two[70:]) == answer
    malformed = b'{"jsonrpc":"2.0","id":2,"method":}' + json.dumps([message], indent=4).encode()
    parse_error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n'
    assert await exchange(writer, reader, malformed) == parse_error
    assert await asyncio.wait_for(reader.readline(), 10) == b"[%b]\n" % answer[:-1]
    writer.close()
    await server.close()


@needs_unix
@pytest.mark.slow
@pytest.mark.time_limit(120)
async def test_web3_over_ipc(tmp_path: Path) -> None:
    """web3.py's provider for the IPC of go-ethereum, in a process of its own: importing web3 warns."""
    pytest.importorskip("web3")
    path = str(tmp_path / "geth.ipc")
    server = UnixServer(serve, path, framing="concatenated")
    await server.start()
    script = f"""
import json
from web3 import Web3, IPCProvider
w3 = Web3(IPCProvider({path!r}))
address = "0x0000000000000000000000000000000000000001"
found = [w3.eth.chain_id, w3.eth.block_number, str(w3.eth.get_balance(address)), w3.client_version]
with w3.batch_requests() as batch:
    batch.add(w3.eth.get_balance(address))
    batch.add(w3.eth.get_balance(address))
    found.append(list(map(str, batch.execute())))
print(json.dumps(found))
"""
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(run.communicate(), 100)
    assert run.returncode == 0, err.decode()
    balance = str(BALANCE)
    assert json.loads(out.splitlines()[-1]) == [1337, 16_000_000, balance, "test/1", [balance, balance]]
    await server.close()


@needs_unix
async def test_a_session_with_a_server_that_writes_no_delimiters(tmp_path: Path) -> None:
    """Its responses arrive in one piece, pretty-printed and cut anywhere."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = [json.loads(await reader.readline()) for _ in range(3)]
        replies = [{"jsonrpc": "2.0", "id": request["id"], "result": request["params"]} for request in requests]
        text = "".join([json.dumps(reply, indent=3) for reply in reversed(replies)]).encode()
        for at in range(0, len(text), 50):
            writer.write(text[at : at + 50])
            await asyncio.sleep(0)
        await reader.read()
        writer.close()

    path = str(tmp_path / "ipc")
    server = await asyncio.start_unix_server(answer, path)
    async with Session(UnixClient(path, framing="concatenated")) as session:
        assert await asyncio.gather(*[session.call("m", [number]) for number in range(3)]) == [[0], [1], [2]]
        call = asyncio.create_task(session.call("m", [4]))
        await asyncio.sleep(0)
    with pytest.raises(ConnectionLost):
        await call
    server.close()


needs_credentials = pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system has no SO_PEERCRED")

CLIENT = """
import asyncio, sys
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import UnixClient
async def main():
    async with Session(UnixClient(sys.argv[1])) as session:
        print(await session.call("who"))
asyncio.run(main())
"""


def who(context: SessionContext) -> Any:
    return None if context.peer is None else list(context.peer)


who.__annotations__["context"] = SessionContext


async def serve_who(transport: Any) -> None:
    async with Session(transport, {"who": who}) as session:
        await session.wait_closed()


async def test_the_address_of_a_tcp_client() -> None:
    server = TcpServer(serve_who, "127.0.0.1", 0)
    await server.start()
    transport = TcpClient(*server.address)
    assert transport.peer is None
    async with Session(transport) as session:
        address = transport.socket.transport.get_extra_info("sockname")
        assert await session.call("who") == list(address)
        assert session.peer == transport.peer == server.address
        assert transport.peer_certificate is None
    assert session.peer == server.address
    await server.close()


@needs_credentials
async def test_the_credentials_of_another_process(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    server = UnixServer(serve_who, path)
    await server.start()
    client = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, str(path), stdout=subprocess.PIPE)
    printed, _ = await asyncio.wait_for(client.communicate(), 20)
    assert printed.decode().strip() == str([client.pid, os.getuid(), os.getgid()])
    async with Session(UnixClient(path)) as session:
        assert session.peer == PeerCredentials(os.getpid(), os.getuid(), os.getgid())
    await server.close()


@needs_unix
async def test_without_the_option_of_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED", raising=False)  # as on PyPy
    server = UnixServer(serve_who, tmp_path / "socket")
    await server.start()
    async with Session(UnixClient(tmp_path / "socket")) as session:
        assert session.peer is None
        assert await session.call("who", timeout=20) is None
    await server.close()


async def test_a_transport_without_a_peer() -> None:
    one, other = memory_pair()
    async with Session(one, {"who": who}), Session(other) as client:
        assert await client.call("who") is None
        assert client.peer is None


async def test_the_context_of_a_session() -> None:
    def login(context: SessionContext, name: str) -> None:
        context.session.context = name

    def show(context: SessionContext) -> Any:
        return [context.context, context.session.context]

    async def check(context: RequestContext, params: Any, call_next: CallNext) -> Any:
        if context.context is None and context.method != "login":
            return "log in first"
        return await call_next(params)

    for function in (login, show):
        function.__annotations__["context"] = SessionContext
    handlers = Handlers({"login": login, "show": show}, middleware=[check])
    one, other = memory_pair()
    async with Session(one, handlers) as server, Session(other) as client:
        assert await client.call("show") == "log in first"
        await client.call("login", ["Ann"])
        assert await client.call("show") == ["Ann", "Ann"]
        assert server.context == "Ann"
    one, other = memory_pair()
    async with Session(one, handlers, context={"a": 1}), Session(other) as client:
        assert await client.call("show") == [{"a": 1}, {"a": 1}]


async def test_the_peer_of_a_text_that_is_dispatched() -> None:
    def show(context: RequestContext) -> Any:
        return context.peer

    show.__annotations__["context"] = RequestContext
    handlers = Handlers({"show": show})
    text = '{"jsonrpc":"2.0","id":1,"method":"show"}'
    expected = b'{"jsonrpc":"2.0","id":1,"result":["127.0.0.1",5000]}\n'
    assert handlers.dispatch(text, peer=("127.0.0.1", 5000)) == expected
    assert await handlers.dispatch_async(f"[{text}]", peer=("127.0.0.1", 5000)) == b"[" + expected[:-1] + b"]\n"
    assert handlers.dispatch(text) == b'{"jsonrpc":"2.0","id":1,"result":null}\n'


async def test_the_certificate_of_a_tls_client() -> None:
    trustme = pytest.importorskip("trustme", reason="trustme is not installed")
    authority = trustme.CA()
    settings = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    settings.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(settings)
    authority.issue_cert("127.0.0.1").configure_cert(settings)
    client_settings = ssl.create_default_context()
    authority.configure_trust(client_settings)
    authority.issue_cert("ann@example.org").configure_cert(client_settings)

    def show(context: SessionContext) -> Any:
        return [context.context["subjectAltName"], context.peer]

    show.__annotations__["context"] = SessionContext

    async def serve_with_certificate(transport: Any) -> None:
        async with Session(transport, {"show": show}, context=transport.peer_certificate) as session:
            await session.wait_closed()

    server = TcpServer(serve_with_certificate, "127.0.0.1", 0, ssl=settings)
    await server.start()
    transport = TcpClient(*server.address, ssl=client_settings)
    assert transport.peer_certificate is None
    async with Session(transport) as session:
        own = transport.socket.transport.get_extra_info("sockname")
        assert await session.call("show") == [[["email", "ann@example.org"]], list(own)]
        certificate = transport.peer_certificate
        assert certificate is not None
        assert certificate["subjectAltName"] == (("IP Address", "127.0.0.1"),)
    await server.close()


WITHOUT_SSL = """
import sys
sys.modules["ssl"] = sys.modules["_ssl"] = None  # as in a Python that was built without OpenSSL
import asyncio
from jsonrpc_fast.session import ReconnectingSession, Session
from jsonrpc_fast.session.reconnecting import is_temporary
from jsonrpc_fast.transports import TcpClient, TcpServer

async def serve(transport):
    async with Session(transport, {"add": lambda a, b: a + b}) as session:
        await session.wait_closed()

async def main():
    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    async with ReconnectingSession(lambda: TcpClient(*server.address)) as session:
        print(await session.call("add", [1, 2]), is_temporary(OSError()))
    await server.close()

asyncio.run(main())
"""


def test_a_python_without_ssl_has_sockets() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_SSL], capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("3 True\n", "")
