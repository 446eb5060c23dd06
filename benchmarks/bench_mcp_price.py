"""Compare the processor time that a server needs for one `call_tool`, in four packages.

    python -m benchmarks.bench_mcp_price           # measures, and writes price.json, the picture and the table
    python -m benchmarks.bench_mcp_price --plot    # draws the picture and writes the table from price.json

Each server is a process with the same async tool: over stdio, and over HTTP with uvicorn, uvloop and httptools. One
load tool sends the same calls to all of them (revision 2025-11-25), with 1 or 32 in flight. A cold start is all that
the process of a server has used when the first call is answered. They take turns, round by round, and the best round
of each is reported. The processor time is read from /proc, so Linux is needed.

SDK 1 and fastmcp have environments of their own (tests/peers/venvs.py). If one cannot be made, its rows are left out,
and a line says so.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import platform
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import jsonrpc_fast
from jsonrpc_fast import codec
from tests.support.waiting import HOST, accepts, blocking_eventually, free_port

from .pages import DOCS, HERE, markdown, save, write

FIGURES: Final = HERE / "price.json"
PLOT: Final = HERE / "price.svg"
PAGE: Final = DOCS / "mcp-http.md"
CHANNELS: Final = ("stdio", "HTTP")
IN_FLIGHT: Final = (1, 32)


class Contestant(NamedTuple):
    """A server of `mcp_price_servers.py`."""

    function: str
    environment: str
    package: str
    channels: tuple[str, ...] = CHANNELS
    colour: str = "#6b7280"


FAST: Final = "jsonrpc_fast"
CONTESTANTS: Final = {
    FAST: Contestant("jsonrpc_fast", "sdk2", "jsonrpc_fast", colour="#1d5fd1"),
    "MCP SDK 2": Contestant("sdk", "sdk2", "mcp", colour="#c2571a"),
    "MCP SDK 2, JSON": Contestant("sdk_json", "sdk2", "mcp", ("HTTP",), "#e0a172"),
    "MCP SDK 1": Contestant("sdk1", "sdk1", "mcp", colour="#8a3ffc"),
    "fastmcp": Contestant("fastmcp", "fastmcp", "fastmcp", colour="#2a9d5c"),
    "uvicorn alone": Contestant("ceiling", "sdk2", "uvicorn", ("HTTP",), "#9aa3ad"),
}
CLIENT: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "price", "version": "1"}}
GREET: Final = {"name": "greet", "arguments": {"text": "hello", "count": 3}}
HEADERS: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}

Figures = dict[str, Any]
"""`microseconds` by contestant, channel and calls in flight; `start_milliseconds` by contestant over stdio; `versions`
by contestant; the `machine`."""


def pythons() -> dict[str, str]:
    """Return the Python of each environment that exists or can be made."""
    from tests.peers.venvs import python_for

    found = {}
    for name in dict.fromkeys(each.environment for each in CONTESTANTS.values()):
        try:
            found[name] = python_for(name)
        except pytest.skip.Exception as skipped:
            print(f"left out: {skipped}", file=sys.stderr)
    return found


@contextlib.contextmanager
def running(command: list[str], **pipes: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server."""
    with subprocess.Popen(command, cwd=HERE.parent, stderr=subprocess.DEVNULL, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def message(method: str, params: dict[str, Any] | None = None, id: int | None = 0) -> bytes:
    members = {"jsonrpc": "2.0", "method": method, "id": id, "params": params}
    return json.dumps({name: value for name, value in members.items() if value is not None}).encode() + b"\n"


def processor_seconds(pid: int) -> float:
    """Return the processor time that all threads of a process have used."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


@contextlib.contextmanager
def over_stdio(python: str, function: str) -> Iterator[Any]:
    """Run a server on pipes. Yield a function of (in_flight, calls) that returns the microseconds of a call.

    With `is_cold` they include all that the process has used.
    """
    command = [python, str(HERE / "mcp_price_servers.py"), function]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def exchange(*messages: bytes) -> list[bytes]:
            stdin.write(b"".join(messages))
            stdin.flush()
            return [stdout.readline() for each in messages if b'"id"' in each]

        exchange(message("initialize", CLIENT), message("notifications/initialized", id=None))

        def run(in_flight: int, calls: int, is_cold: bool = False) -> float:
            before = 0.0 if is_cold else processor_seconds(process.pid)
            for number in range(0, calls, in_flight):
                for line in exchange(*[message("tools/call", GREET, number + each) for each in range(in_flight)]):
                    assert b"hello 3" in line, line
            return (processor_seconds(process.pid) - before) / calls * 1e6

        yield run


def cold_start(python: str, function: str) -> float:
    """Return the milliseconds that a server on pipes uses until its first call is answered."""
    with over_stdio(python, function) as run:
        cost: float = run(1, 1, is_cold=True)
        return cost / 1000


class Client(http.client.HTTPConnection):
    """A connection with the session of MCP that it began."""

    def __init__(self, port: int) -> None:
        super().__init__(HOST, port, 60)
        self.session: dict[str, str] = {}
        self.post(message("initialize", CLIENT))
        self.post(message("notifications/initialized", id=None))

    def post(self, body: bytes) -> bytes:
        self.request("POST", "/mcp", body, HEADERS | self.session)
        response = self.getresponse()
        if session := response.getheader("mcp-session-id"):
            self.session = {"Mcp-Session-Id": session}
        return response.read()

    def call(self, times: int) -> None:
        for number in range(times):
            answer = self.post(message("tools/call", GREET, number + 1))
            assert b"hello 3" in answer, answer


@contextlib.contextmanager
def over_http(python: str, function: str) -> Iterator[Any]:
    """Run a server on a port. Yield a function like that of `over_stdio`."""
    port = free_port()
    command = [python, str(HERE / "mcp_price_servers.py"), function, str(port)]
    with running(command) as process, ThreadPoolExecutor(max(IN_FLIGHT)) as pool:
        blocking_eventually(lambda: accepts(port), 60)
        clients = [Client(port) for _ in range(max(IN_FLIGHT))]

        def run(in_flight: int, calls: int) -> float:
            before = processor_seconds(process.pid)
            list(pool.map(lambda client: client.call(calls // in_flight), clients[:in_flight]))
            return (processor_seconds(process.pid) - before) / (calls // in_flight * in_flight) * 1e6

        yield run
        for client in clients:
            client.close()


def measure(rounds: int, calls: int) -> Figures:
    """Return the best figures of all rounds."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    environments = pythons()
    starts = {
        name: min(cold_start(environments[each.environment], each.function) for _ in range(min(rounds, 3)))
        for name, each in CONTESTANTS.items()
        if "stdio" in each.channels and each.environment in environments
    }
    for channel, run_server in zip(CHANNELS, (over_stdio, over_http), strict=True):
        with contextlib.ExitStack() as stack:
            servers = {}
            for name, each in CONTESTANTS.items():
                if channel in each.channels and each.environment in environments:
                    servers[name] = stack.enter_context(run_server(environments[each.environment], each.function))
            for number in range(rounds + 1):
                print(f"\r{channel}, round {number} of {rounds} ", end="", file=sys.stderr, flush=True)
                for in_flight in IN_FLIGHT:
                    for name, run in servers.items():
                        cost = run(in_flight, calls)
                        if number:  # the first round warms up
                            costs = found.setdefault(name, {}).setdefault(channel, {})
                            costs[str(in_flight)] = min(costs.get(str(in_flight), cost), cost)
    print(file=sys.stderr)
    versions = {name: version_of(environments[CONTESTANTS[name].environment], name) for name in found}
    return {
        "microseconds": {
            name: {
                channel: {count: round(cost, 1) for count, cost in costs.items()} for channel, costs in channels.items()
            }
            for name, channels in found.items()
        },
        "start_milliseconds": {name: round(cost, 1) for name, cost in starts.items()},
        "versions": versions,
        "machine": f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}",
    }


def version_of(python: str, name: str) -> str:
    """Return the version of a contestant's package."""
    package = CONTESTANTS[name].package
    script = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", script], check=True, capture_output=True, text=True).stdout.strip()


def table(figures: Figures) -> str:
    """Return the table of processor times, with their multiples of this package's."""
    columns = [(channel, str(count)) for channel in CHANNELS for count in IN_FLIGHT]
    rows = [("server", *[f"{channel}, {count} in flight" for channel, count in columns], "cold start")]
    prices, starts = figures["microseconds"], figures["start_milliseconds"]
    for name in CONTESTANTS:
        cells = []
        for channel, count in columns:
            cost = prices.get(name, {}).get(channel, {}).get(count)
            if cost is None:
                cells.append("")
            else:
                times = "" if name == FAST else f" ({cost / prices[FAST][channel][count]:.1f})"
                cells.append(f"{cost:.0f} µs{times}")
        start = starts.get(name)
        times = "" if name == FAST or start is None else f" ({start / starts[FAST]:.1f})"
        cells.append("" if start is None else f"{start:.0f} ms{times}")
        if any(cells):
            rows.append((name, *cells))
    versions = figures["versions"].items()
    facts = ", ".join(dict.fromkeys(f"{CONTESTANTS[name].package} {version}" for name, version in versions))
    return f"{markdown(rows)}\n\n" + textwrap.fill(f"Measured with {facts}; {figures['machine']}.", 120)


def plot(figures: Figures, output: Path) -> None:
    """Draw the processor time of a call in each package, over each channel."""
    from matplotlib.figure import Figure

    prices = figures["microseconds"]
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    for axes, channel in zip(figure.subplots(1, len(CHANNELS), sharex=True), CHANNELS, strict=True):
        names = [name for name in reversed(CONTESTANTS) if channel in prices.get(name, {})]
        for shift, count, alpha in ((0.2, "1", 1.0), (-0.2, "32", 0.5)):
            costs = [prices[name][channel][count] for name in names]
            places = [place + shift for place in range(len(names))]
            colours = [CONTESTANTS[name].colour for name in names]
            bars = axes.barh(places, costs, 0.38, color=colours, alpha=alpha)
            axes.bar_label(bars, [f"{cost:.0f}" for cost in costs], padding=3, fontsize=8)
        axes.set(xscale="log", title=f"over {channel}", yticks=range(len(names)), yticklabels=names)
        axes.grid(axis="x", color="#e3e6ea", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.12)
    figure.supxlabel("processor time of the server for one call, in µs; pale: 32 in flight")
    save(figure, output, figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15, help="rounds (default: 15)")
    parser.add_argument("--calls", type=int, default=384, help="calls in one round (default: %(default)s)")
    parser.add_argument("--plot", action="store_true", help="draw the picture and write the table from price.json")
    options = parser.parse_args()
    if not options.plot:
        if jsonrpc_fast.BACKEND != "cython":
            raise RuntimeError(f"the benchmarks measure the compiled core, which is not in use: {codec.CORE_FAULT}")
        FIGURES.write_text(json.dumps(measure(options.rounds, options.calls), indent=2) + "\n")
    figures = json.loads(FIGURES.read_text())
    plot(figures, PLOT)
    write({"price": table(figures)}, PAGE)
    print(table(figures))


if __name__ == "__main__":
    main()
