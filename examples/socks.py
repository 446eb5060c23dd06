"""A TCP server behind a SOCKS5 proxy (RFC 1928), such as Tor: the proxy resolves the name.

python examples/socks.py HOST PORT [PROXY_PORT]
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys

from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import TcpClient


async def through_socks(proxy: tuple[str, int], host: str, port: int) -> socket.socket:
    """Return a socket that a proxy without authentication has connected to a server."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, proxy)

        async def read(size: int) -> bytes:
            data = b""
            while len(data) < size:
                more = await loop.sock_recv(sock, size - len(data))
                if not more:
                    raise ConnectionError("the proxy has closed the connection")
                data += more
            return data

        await loop.sock_sendall(sock, b"\x05\x01\x00")  # version 5, one method: no authentication
        if await read(2) != b"\x05\x00":
            raise ConnectionError("the proxy wants authentication, or is no SOCKS5 proxy")
        name = host.encode("idna")
        await loop.sock_sendall(sock, bytes([5, 1, 0, 3, len(name)]) + name + struct.pack(">H", port))
        _, reply, _, kind = await read(4)
        if reply != 0:
            raise ConnectionError(f"the proxy cannot connect: reply {reply}")
        # The address that the proxy is bound to: IPv4, a name or IPv6, and the port.
        await read({1: 4, 4: 16}.get(kind) or (await read(1))[0])
        await read(2)
    except BaseException:
        sock.close()
        raise
    return sock


async def main(host: str, port: int, proxy_port: int = 9050) -> None:
    sock = await through_socks(("127.0.0.1", proxy_port), host, port)
    # With TLS: `ssl=` and the host, whose name the certificate must have.
    async with Session(TcpClient(host, port, sock=sock)) as session:
        print(await session.call("server.version", ["example", "1.4"]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
