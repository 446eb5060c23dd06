"""Blocking sessions, against real servers that run in another thread or process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from jsonrpc_fast import CallTimeout, ConnectionLost, Notification, RpcError, StateError
from jsonrpc_fast.session import LspConvention, ReconnectingSession, Session, SessionContext, blocking
from jsonrpc_fast.session.proxies import proxy
from jsonrpc_fast.transports import StdioClient, TcpClient, TcpServer, Transport

from ..support.places import ROOT


async def ask_back(context: SessionContext, text: str) -> Any:
    return await context.session.call("echo", [text])


async def count(to: int) -> AsyncIterator[int]:
    for number in range(to):
        yield number


async def hang() -> None:
    await asyncio.Event().wait()


HANDLERS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "hang": hang,
    "ask_back": ask_back,
    "count": count,
}


class Served:
    """A server on TCP in a thread of its own."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self._sessions: list[Session] = []
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event

    async def run(self, ready: Future[int]) -> None:
        async def serve(transport: Transport) -> None:
            handlers = {**HANDLERS, "hear": self.heard.append}
            async with Session(transport, handlers, close_seconds=0.1, convention=LspConvention()) as session:
                self._sessions.append(session)
                await session.wait_closed()

        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        server = TcpServer(serve, "127.0.0.1", 0)
        await server.start()
        ready.set_result(server.address[1])
        await self._end.wait()
        await server.close(0)

    def drop(self) -> None:
        """Close the last connection."""
        asyncio.run_coroutine_threadsafe(self._sessions[-1].close(), self._loop).result(timeout=30)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)


@contextmanager
def server() -> Iterator[tuple[Served, int]]:
    served, ready = Served(), Future[int]()
    thread = threading.Thread(target=lambda: asyncio.run(served.run(ready)))
    thread.start()
    port = ready.result(timeout=30)
    try:
        yield served, port
    finally:
        served.end()
        thread.join(30)


def client_of(port: int) -> TcpClient:
    return TcpClient("127.0.0.1", port)


def test_calls_notifications_and_batches() -> None:
    with server() as (served, port), blocking(client_of(port), timeout=20) as client:
        assert client.call("add", {"a": 1, "b": 2}) == 3
        assert client.call("add", [1, 2], returns=int) == 3
        client.notify("hear", ["news"])
        first, none, error = client.call_batch([("add", [1, 1]), Notification("hear", ["more"]), ("none", None)])
        assert (first, none) == (2, None)
        assert isinstance(error, RpcError)
        with pytest.raises(RpcError, match="Method not found"):
            client.call("none")
        with pytest.raises(CallTimeout):
            client.call("hang", timeout=0.01)
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda number: client.call("add", [number, 1]), range(20))) == list(range(1, 21))
    assert served.heard == ["news", "more"]


def test_handlers_run_in_the_thread_of_the_loop_and_must_not_block_it() -> None:
    seen: list[Any] = []

    def echo(text: str) -> str:
        seen.append(threading.current_thread().name)
        for use in (lambda: client.call("add", [1, 2]), client.close):
            with pytest.raises(StateError, match=r"await context\.session"):
                use()
        return text

    with server() as (_, port), blocking(client_of(port), {"echo": echo}, timeout=20) as client:
        assert client.call("ask_back", ["x"]) == "x"
    assert seen == ["jsonrpc_fast"]


def test_a_stream_is_an_iterator() -> None:
    with server() as (_, port), blocking(client_of(port), convention=LspConvention(), timeout=20) as client:
        assert list(client.stream("count", {"to": 3}, timeout=20)) == [0, 1, 2]
        for part in client.stream("count", {"to": 1000}, timeout=20):
            if part == 2:
                break
        assert client.call("add", [1, 2]) == 3


def test_all_clients_share_one_thread_which_ends_with_the_last_one() -> None:
    def loops() -> int:
        return sum(thread.name == "jsonrpc_fast" for thread in threading.enumerate())

    before = loops()
    with server() as (_, port):
        with blocking(client_of(port)) as first, blocking(client_of(port)) as second:
            assert loops() == before + 1
            assert first.call("add", [1, 2]) == second.call("add", [1, 2]) == 3
        assert loops() == before


class Sums(Protocol):
    def add(self, a: int, b: int) -> int: ...


def test_a_typed_proxy() -> None:
    pytest.importorskip("msgspec")
    with server() as (_, port), blocking(client_of(port), timeout=20) as client:
        assert proxy(client, Sums).add(1, 2) == 3


def test_what_fails_at_the_start_is_raised_and_leaves_nothing() -> None:
    with server() as (_, port):
        pass
    client = blocking(client_of(port))
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        client.start()
    client.close()
    with pytest.raises(StateError, match="use it in `with`"):
        client.call("add", [1, 2])


def test_the_end_of_the_connection_is_raised() -> None:
    with server() as (served, port), blocking(client_of(port), timeout=20) as client:
        assert client.call("add", [1, 2]) == 3
        served.drop()
        with pytest.raises(ConnectionLost):
            client.call("add", [1, 2])


def test_closing_settles_the_calls_of_other_threads() -> None:
    with server() as (_, port), ThreadPoolExecutor(1) as pool:
        with blocking(client_of(port), close_seconds=0.1) as client:
            waiting = pool.submit(client.call, "hang")
            assert client.call("add", [1, 2]) == 3
        with pytest.raises((ConnectionLost, StateError)):
            waiting.result(timeout=30)


def test_a_reconnecting_session() -> None:
    with server() as (served, port):
        session = ReconnectingSession(lambda: client_of(port), min_delay_seconds=0.01, timeout=20)
        with blocking(session) as client:
            assert client.call("add", [1, 2]) == 3
            served.drop()
            assert client.call("add", [1, 3]) == 4
        with pytest.raises(TypeError, match="already"):
            blocking(session, {"add": max})


def test_a_call_that_cannot_begin_is_raised_and_does_not_hang() -> None:
    with server() as (_, port), blocking(client_of(port), timeout=20) as client:
        with pytest.raises(TypeError, match="method"):
            client.call()  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="a coroutine was expected"):
            client.wait_for(lambda: None)  # type: ignore[arg-type,return-value]
        with pytest.raises(StateError, match="never ends"):
            client.wait_for(lambda: client.call("add", [1, 2]))
        session: Any = client.session
        with pytest.raises(TypeError, match="method"):
            client.wait_for(lambda: asyncio.to_thread(session.call_threadsafe().result))
        assert client.call("add", [1, 2]) == 3


def test_an_asynchronous_client_in_a_script_names_the_blocking_one() -> None:
    session = Session(client_of(1))
    cure = r"^use Session in `async with`; without an event loop, use session\.blocking, "
    with pytest.raises(TypeError, match=cure), session:  # type: ignore[attr-defined]
        pass
    with pytest.raises(TypeError, match=r"^transport must be a Transport, not Session: give blocking "):
        blocking(session)  # type: ignore[arg-type]


INTERRUPTED = """
import asyncio, os, signal, sys, threading
from jsonrpc_fast.session import blocking
from jsonrpc_fast.transports import StdioClient
with blocking(StdioClient([sys.executable, "examples/server.py"]), timeout=60) as client:
    assert client.call("add", [1, 2]) == 3
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        client.wait_for(lambda: asyncio.sleep(60))
    except KeyboardInterrupt:
        print("interrupted", client.call("add", [2, 2]))
"""


@pytest.mark.slow
def test_an_interrupt_ends_the_wait_and_not_the_session() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "interrupted 4\n"


def test_a_forked_child_gets_an_error_and_may_start_its_own() -> None:
    with server() as (_, port), blocking(client_of(port), timeout=20) as client:
        child = os.fork()
        if not child:
            try:
                client.call("add", [1, 2])
            except StateError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert client.call("add", [1, 2]) == 3


def test_a_client_that_is_closed_says_so() -> None:
    client = blocking(StdioClient(["cat"]))
    with pytest.raises(StateError, match=r"^it is not connected: use it in `with`, or call its `start`$"):
        client.call("add")
    with client, pytest.raises(StateError, match=r"^it was started already$"):
        client.start()
    with pytest.raises(StateError, match=r"^it is closed, and connects only once: make a new one$"):
        client.start()
    with pytest.raises(ConnectionLost, match=r"^it is closed, and connects only once: make a new one$") as raised:
        client.call("add")
    assert raised.value.was_sent is False
    client.close()
