"""Measure the processor time of a request on TCP: `python -m benchmarks.serving` writes docs/asyncio-protocol.md.

Each server is a process of its own; this process sends requests, one or many in flight, and reads the responses. The
figure is the processor time of the server, as the system measures it. The servers take turns, round by round, and the
least counts, because other work on the machine only adds to it. After some rounds all are started again, because the
memory layout of a process changes its speed.

`--sessions` compares sessions with a bare protocol, on asyncio and on uvloop, and writes docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from jsonrpc_fast import Decoder
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import serving
from jsonrpc_fast.transports import TcpServer

from .bench_mcp_price import processor_seconds
from .pages import DOCS, HERE, markdown, write

REQUESTS: Final = 4096
LARGE: Final = {
    "name": "search",
    "arguments": {"query": "three files", "path": "/srv/data/reports", "tags": ["a", "b"] * 20},
}
SMALL: Final = {"name": "add", "arguments": {"a": 1, "b": 2.5}}
LOADS: Final = {
    "41 bytes, 1 in flight": (None, 1),
    "41 bytes, 64 in flight": (None, 64),
    "330 bytes, 1 in flight": (LARGE, 1),
    "330 bytes, 64 in flight": (LARGE, 64),
}


def method(name: Any = None, arguments: Any = None) -> Any:
    return {"name": name, "arguments": arguments} if name == "add" else True


async def coroutine(name: Any = None, arguments: Any = None) -> Any:
    return method(name, arguments)


async def waiting(name: Any = None, arguments: Any = None) -> Any:
    await asyncio.sleep(0)
    return method(name, arguments)


class ByHand(asyncio.Protocol):
    """A service that parses each line. If it is bare, it calls nothing: it returns the params."""

    def __init__(self, loads: Callable[[bytes], Any], dumps: Callable[[Any], bytes], *, is_bare: bool = False) -> None:
        self._loads, self._dumps, self._is_bare = loads, dumps, is_bare
        self._rest = b""
        self._methods = {"m": method}

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        responses, loads, dumps = [], self._loads, self._dumps
        for message in map(loads, lines):
            params = message.get("params")
            result = params if self._is_bare else self._methods[message["method"]](**params or {})
            responses.append(dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + b"\n")
        self._transport.write(b"".join(responses))


class DroppedIn(ByHand):
    """The service of the page."""

    def __init__(self) -> None:
        self._start: Any = Handlers({"m": method}).prepare().start
        self._decoder = Decoder()

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"".join([self._start(item) for item in self._decoder.feed(data)]))


PROTOCOLS: Final[dict[str, Callable[[], asyncio.Protocol]]] = {
    "`json` and dicts": lambda: ByHand(json.loads, lambda value: json.dumps(value).encode()),
    "orjson and dicts": lambda: ByHand(orjson.loads, orjson.dumps),
    "this page": DroppedIn,
    "bare protocol with orjson": lambda: ByHand(orjson.loads, orjson.dumps, is_bare=True),
}
SESSIONS: Final[dict[str, Callable[..., Any]]] = {
    "a session": method,
    "session, function": method,
    "session, async function": coroutine,
    "session, async function that waits a turn": waiting,
}
OF_THE_PAGE: Final = (*list(PROTOCOLS)[:3], "a session")
COMPARED: Final = ("bare protocol with orjson", *list(SESSIONS)[1:])


async def serve(name: str) -> None:
    """Run one server, and print its port."""
    if name in PROTOCOLS:
        listening = await asyncio.get_running_loop().create_server(PROTOCOLS[name], "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
    else:
        server = TcpServer(serving({"m": SESSIONS[name]}), "127.0.0.1", 0)
        await server.start()
        port = server.address[1]
    print(port, flush=True)
    await asyncio.get_running_loop().create_future()


@contextlib.contextmanager
def running(name: str, loop: str) -> Iterator[Callable[[Any, int, int], float]]:
    """Run a server. Yield a function of (params, in_flight, requests) that returns its processor seconds for one."""
    command = [sys.executable, "-m", "benchmarks.serving", "--serve", name, "--loop", loop]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=HERE.parent) as process:
        try:
            assert process.stdout is not None
            with socket.create_connection(("127.0.0.1", int(process.stdout.readline())), timeout=60) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                lines = connection.makefile("rb")

                def run(params: Any, in_flight: int, requests: int) -> float:
                    message = {"jsonrpc": "2.0", "method": "m", **({"params": params} if params else {})}
                    texts = b"".join([orjson.dumps({**message, "id": number}) + b"\n" for number in range(in_flight)])
                    before = processor_seconds(process.pid)
                    for _ in range(requests // in_flight):
                        connection.sendall(texts)
                        answers = [lines.readline() for _ in range(in_flight)]
                        assert b'"result":' in answers[-1].replace(b" ", b""), (name, answers[-1])
                    return (processor_seconds(process.pid) - before) / requests

                with lines:
                    yield run
        finally:
            process.kill()


def measure(
    loop: str, names: tuple[str, ...], loads: dict[str, tuple[Any, int]], rounds: int, requests: int = REQUESTS
) -> dict[str, dict[str, float]]:
    """Return the least processor seconds of a request, by load and server."""
    best: dict[str, dict[str, float]] = {load: dict.fromkeys(names, 9.0) for load in loads}
    for _ in range(3):
        with contextlib.ExitStack() as stack:
            servers = {name: stack.enter_context(running(name, loop)) for name in names}
            for _ in range(rounds):
                for load, (params, in_flight) in loads.items():
                    for name, run in servers.items():
                        best[load][name] = min(best[load][name], run(params, in_flight, requests))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, help="rounds after each start (default: %(default)s)")
    parser.add_argument("--sessions", action="store_true", help="compare sessions with a bare protocol")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--loop", default="asyncio", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        if options.loop == "uvloop":
            import uvloop

            uvloop.run(serve(options.serve))
        asyncio.run(serve(options.serve))
    if options.sessions:
        loops = ("asyncio", "uvloop")
        found = [measure(loop, COMPARED, {"": (SMALL, 64)}, options.rounds)[""] for loop in loops]
        bare = [times[COMPARED[0]] for times in found]
        rows = [(name, *[f"{t[name] / b:.1f}" for t, b in zip(found, bare, strict=True)]) for name in COMPARED[1:]]
        print(compared := markdown([("server", *loops), *rows]))
        write({"sessions": compared}, DOCS / "performance.md")
        return
    found = measure("asyncio", OF_THE_PAGE, LOADS, options.rounds)  # type: ignore[assignment]
    rows = [("requests", *OF_THE_PAGE)]
    for load, times in found.items():  # type: ignore[attr-defined]
        rows.append((load, *[f"{times[OF_THE_PAGE[0]] / times[name]:.1f}" for name in OF_THE_PAGE]))
    print(markdown(rows))
    write({"service": markdown(rows)}, DOCS / "asyncio-protocol.md")


if __name__ == "__main__":
    main()
