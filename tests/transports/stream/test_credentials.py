"""Who is at the other end: addresses and credentials, for transports, sessions, handlers and middleware."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast.handlers import CallNext, Handlers, RequestContext
from jsonrpc_fast.session import Session, SessionContext
from jsonrpc_fast.transports import PeerCredentials, TcpClient, TcpServer, UnixClient, UnixServer, memory_pair

pytestmark = [pytest.mark.timeout(40), pytest.mark.usefixtures("each_loop")]
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


async def serve(transport: Any) -> None:
    async with Session(transport, {"who": who}) as session:
        await session.wait_closed()


async def test_the_address_of_a_tcp_client() -> None:
    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    transport = TcpClient(*server.address)
    assert transport.peer is None
    async with Session(transport) as session:
        address = transport.socket.transport.get_extra_info("sockname")
        assert await session.call("who") == list(address)
        assert session.peer == transport.peer == server.address
    assert session.peer == server.address
    await server.close()


@needs_credentials
async def test_the_credentials_of_another_process(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    server = UnixServer(serve, path)
    await server.start()
    client = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, str(path), stdout=subprocess.PIPE)
    printed, _ = await asyncio.wait_for(client.communicate(), 20)
    assert printed.decode().strip() == str([client.pid, os.getuid(), os.getgid()])
    async with Session(UnixClient(path)) as session:
        assert session.peer == PeerCredentials(os.getpid(), os.getuid(), os.getgid())
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


async def test_without_tls_there_is_no_certificate() -> None:
    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    transport = TcpClient(*server.address)
    async with Session(transport):
        assert transport.peer_certificate is None
    await server.close()
