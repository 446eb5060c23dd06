"""A gateway that forwards each call to the server of its method, without decoding params or results.

python examples/gateway.py 4001 shop=127.0.0.1:4002 users=127.0.0.1:4003
jsonrpc-fast call tcp://127.0.0.1:4001 shop.price item=tea
"""

import asyncio
import itertools
import sys

from jsonrpc_fast import ErrorCode, MessageId, Notification, Request, Response, encode_error
from jsonrpc_fast.transports import Received, StreamTransport, TcpClient, TcpServer


class Upstream:
    """One server. Several clients may choose the same id, so each forwarded call gets a new one."""

    def __init__(self, host: str, port: int) -> None:
        self._transport = TcpClient(host, port, raw=True)
        self._ids = itertools.count(1)
        self._calls: dict[MessageId, tuple[StreamTransport, MessageId]] = {}
        self._transport.onmessage = self._received
        self._transport.onclose = self._lost

    async def start(self) -> None:
        await self._transport.start()

    def send(self, client: StreamTransport, item: Request | Notification) -> None:
        if not self._transport.is_connected:
            if isinstance(item, Request):
                client.send(encode_error(item.id, ErrorCode.INTERNAL_ERROR, "The server is not reachable"))
        elif isinstance(item, Request):
            id = next(self._ids)
            self._calls[id] = client, item.id
            self._transport.send(Request(id, item.method, item.params))
        else:
            self._transport.send(item)

    def _received(self, message: Received) -> None:
        for item in message if isinstance(message, list) else [message]:
            if isinstance(item, Response) and item.id in self._calls:
                client, id = self._calls.pop(item.id)
                if client.is_connected:
                    client.send(Response(id, item.result, item.error))

    def _lost(self) -> None:
        for client, id in self._calls.values():
            if client.is_connected:
                client.send(encode_error(id, ErrorCode.INTERNAL_ERROR, "The server was lost"))
        self._calls.clear()


async def main(port: int, routes: list[str]) -> None:
    upstreams = {}
    for route in routes:
        name, _, address = route.partition("=")
        host, _, number = address.rpartition(":")
        upstreams[name] = Upstream(host, int(number))
        await upstreams[name].start()

    async def serve(client: StreamTransport) -> None:
        closed = asyncio.Event()

        def received(message: Received) -> None:
            for item in message if isinstance(message, list) else [message]:
                if isinstance(item, (Request, Notification)):
                    upstream = upstreams.get(item.method.partition(".")[0])
                    if upstream is not None:
                        upstream.send(client, item)
                    elif isinstance(item, Request):
                        client.send(encode_error(item.id, ErrorCode.METHOD_NOT_FOUND, "Method not found"))

        client.onmessage = received
        client.onclose = closed.set
        await client.start()
        await closed.wait()

    server = TcpServer(serve, "127.0.0.1", port, raw=True)
    await server.start()
    print("listening on port", server.address[1], flush=True)
    await asyncio.Event().wait()


if len(sys.argv) < 3:
    sys.exit(__doc__)
asyncio.run(main(int(sys.argv[1]), sys.argv[2:]))
