"""Measure what a whole service gains: `python -m benchmarks.bench_service` writes the table of asyncio-protocol.md.

Each contestant is a server process on TCP; this process sends requests, one or many in flight, and reads the responses.
The figure is the processor time of the server process for a request, over that of the server with `json` and dicts. The
servers take turns, and the least time of several rounds counts, because other work on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .tables import markdown

PAGE: Final = Path(__file__).parent.parent / "docs" / "asyncio-protocol.md"
MARKED: Final = re.compile(r"(<!-- service: .*? -->\n).*?(<!-- end -->)", re.DOTALL)
REQUESTS: Final = 4096
LARGE: Final = {
    "name": "search",
    "arguments": {"query": "three files", "path": "/srv/data/reports", "tags": ["a", "b"] * 20},
}
LOADS: Final = {
    "41 bytes, 1 in flight": ("m", None, 1),
    "41 bytes, 64 in flight": ("m", None, 64),
    "330 bytes, 1 in flight": ("m", LARGE, 1),
    "330 bytes, 64 in flight": ("m", LARGE, 64),
}


def method(**_: Any) -> bool:
    return True


class ByHand(asyncio.Protocol):
    """A service that parses each line, and looks the method up in a dict."""

    def __init__(self, loads: Callable[[bytes], Any], dumps: Callable[[Any], bytes]) -> None:
        self._loads, self._dumps = loads, dumps
        self._rest = b""
        self._methods = {"m": method, "cpu": processor_seconds}

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        responses = []
        for line in lines:
            message = self._loads(line)
            result = self._methods[message["method"]](**message.get("params") or {})
            responses.append(self._dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + b"\n")
        self._transport.write(b"".join(responses))


class DroppedIn(asyncio.Protocol):
    """The service of the page."""

    def __init__(self, start: Callable[[Any], Any], decoder: Any) -> None:
        self._start, self._decoder = start, decoder

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"".join([self._start(item) for item in self._decoder.feed(data)]))


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def serve(name: str) -> None:
    """Run one contestant, and print its port."""
    handlers: Any = {"m": method, "cpu": processor_seconds}
    loop = asyncio.get_running_loop()
    if name == "Session":
        from jsonrpc_fast.session import serving
        from jsonrpc_fast.transports import TcpServer

        server = TcpServer(serving(handlers), "127.0.0.1", 0)
        await server.start()
        print(server.address[1], flush=True)
    else:
        make = maker(name, handlers)
        listening = await loop.create_server(make, "127.0.0.1", 0)
        print(listening.sockets[0].getsockname()[1], flush=True)
    await loop.create_future()


def maker(name: str, handlers: Any) -> Callable[[], asyncio.Protocol]:
    """Return the factory of protocols of a contestant."""
    if name == "json":
        return lambda: ByHand(json.loads, lambda value: json.dumps(value).encode())
    if name == "orjson":
        import orjson

        return lambda: ByHand(orjson.loads, orjson.dumps)
    from jsonrpc_fast import Decoder
    from jsonrpc_fast.handlers import Handlers

    start = Handlers(handlers).prepare().start
    return lambda: DroppedIn(start, Decoder())


NAMES: Final = {
    "json": "`json` and dicts",
    "orjson": "orjson and dicts",
    "codec": "this page",
    "Session": "a session",
}


def ask(connection: socket.socket, reader: Any, texts: list[bytes]) -> Any:
    """Send some requests at once, and return the last response when all have arrived."""
    connection.sendall(b"".join(texts))
    return [reader.readline() for _ in texts][-1]


def seconds_of(connection: socket.socket, reader: Any, load: tuple[str, Any, int]) -> float:
    """Return the processor seconds of the server for one request of a load."""
    name, params, in_flight = load
    cpu = [b'{"jsonrpc":"2.0","id":0,"method":"cpu"}\n']
    texts = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": name} | ({"params": params} if params else {})).encode()
        + b"\n"
        for number in range(1, in_flight + 1)
    ]
    begun = json.loads(ask(connection, reader, cpu))["result"]
    for _ in range(REQUESTS // in_flight):
        ask(connection, reader, texts)
    ended = json.loads(ask(connection, reader, cpu))["result"]
    return float(ended - begun) / REQUESTS


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Return the least processor seconds of a request, by load and contestant."""
    processes, opened = [], {}
    for name in NAMES:
        command = [sys.executable, "-m", "benchmarks.bench_service", "--serve", name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        connection = socket.create_connection(("127.0.0.1", int(process.stdout.readline())))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened[name] = connection, connection.makefile("rb")
    try:
        best: dict[str, dict[str, float]] = {load: dict.fromkeys(NAMES, 9.0) for load in LOADS}
        for _ in range(rounds):
            for load, what in LOADS.items():
                for name, (connection, reader) in opened.items():
                    best[load][name] = min(best[load][name], seconds_of(connection, reader, what))
        return best
    finally:
        for process in processes:
            process.kill()
            process.wait()


def table(best: dict[str, dict[str, float]]) -> str:
    """Return the table: how many times as many requests a second of the processor serves as with `json`."""
    rows = [("requests", *NAMES.values())]
    for load, times in best.items():
        rows.append((load, *[f"{times['json'] / times[name]:.1f}" for name in NAMES]))
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=8, help="rounds of each contestant (default: 8)")
    parser.add_argument("--serve", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve))
        return
    found = table(measure(options.rounds))
    print(found)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARKED.sub(lambda match: f"{match[1]}{found}\n{match[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
