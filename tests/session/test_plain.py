"""An engine writes the same in each way of serving.

plain     by the fast path of serving; the driver starts the coroutines
at once   by the fast path, which starts the coroutines, too
ordinary  chosen by hooks
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

import pytest

from jsonrpc_fast import Decoder
from jsonrpc_fast.errors import ConnectionLost, RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import Driver, Engine, LspConvention, Rules
from jsonrpc_fast.session.requests import waits_for_peer

from ..support.tables import rows

Run = Any
current: ContextVar[int] = ContextVar("current", default=0)


class Served:
    """Hooks of requests: with them, nothing takes the fast path."""

    def __init__(self) -> None:
        self.count = 0

    def request_served(self, *_: Any) -> None:
        self.count += 1


class End(Driver):
    """A driver that keeps what is written, and runs handlers on request."""

    def __init__(self, way: str, **bounds: Any) -> None:
        self.written = b""
        self.unwritten = 0
        self.is_turn_due = self.is_lost = self.is_idle = False
        self.runs: list[Run] = []
        self.handlers = Handlers()
        hooks = Served() if way == "ordinary" else None
        rules = Rules(hooks=hooks, convention=LspConvention(), **bounds)
        self.engine = Engine(self, self.handlers, rules)
        if way == "at once":
            self.engine.make_task = self.make_task

    @property
    def unwritten_bytes(self) -> int:
        return self.unwritten

    def write(self, data: bytes) -> None:
        if self.is_lost:
            raise ConnectionLost("lost")
        self.written += data

    def turn_end(self) -> float:
        return self.time() + 1000.0  # a turn serves all that it may, on a busy machine, too

    def idle(self) -> None:
        self.is_idle = True

    def soon(self) -> None:
        self.is_turn_due = True

    def start(self, run: Run) -> None:
        try:
            run.work.send(None)
        except StopIteration as end:
            self.engine.succeeded(run, end.value)
        except Exception as error:
            self.engine.failed(run, error)
        else:
            run.task = self
            self.runs.append(run)

    def make_task(self, served: Any, **_: Any) -> End:
        """Imitate an eager task: the coroutine takes its first step."""
        if next(served, "has ended") != "has ended":
            self.runs.append(served.get_run())
        return self

    def cancel(self) -> None:
        self.engine.cancelled(self.runs.pop())

    def read(self, data: bytes) -> bytes:
        """Read lines together, and return what is written in response."""
        self.written = b""
        messages: list[Any] = Decoder().feed(data)
        self.engine.look_ahead(messages)
        for message in messages:
            self.engine.receive(message)
        while self.is_turn_due:
            self.is_turn_due = False
            self.engine.turn()
        return self.written


class Unwritable:
    pass


class Pause:
    def __await__(self) -> Any:
        yield


def add_functions(end: End) -> None:
    register = end.handlers.register

    @register("add")
    def add(a: int, b: int = 0) -> int:
        return a + b

    @register("refuse")
    def refuse() -> None:
        raise RpcError(5, "no", [1])

    @register("bad refusal")
    def bad_refusal() -> None:
        raise RpcError(5, "no", Unwritable())

    @register("fail")
    def fail() -> None:
        raise ValueError("a secret")

    @register("exit")
    def leave() -> None:
        raise SystemExit(1)

    @register("unwritable")
    def unwritable() -> Any:
        return [Unwritable()]

    @register("nested")
    def nested() -> Any:
        return {"a": object()}

    @register("notify")
    def notify() -> int:
        end.engine.notify("seen")
        return 1

    @register("register")
    def register_more() -> None:
        end.handlers.register("late", lambda: "late")

    @register("drain")
    def drain() -> None:
        end.engine.begin_draining()

    @register("lose")
    def lose() -> None:
        end.is_lost = True
        end.engine.lose()

    @register("count")
    def count() -> int:
        current.set(current.get() + 1)
        return current.get()

    @register("ends at once")
    async def ends_at_once(a: int = 1) -> int:
        return a

    @register("drains at once")
    async def drains_at_once() -> None:
        end.engine.begin_draining()

    @register("fails at once")
    async def fails_at_once() -> int:
        raise ValueError("a secret")

    @register("waits")
    async def waits() -> int:
        await Pause()
        return 1

    @register("waits for the peer")
    async def while_peer_is_awaited() -> None:
        with waits_for_peer():
            await Pause()

    @register("ordered", ordered=True)
    async def ordered() -> int:
        await Pause()
        return 1

    @register("typed", typed=True)
    def typed(a: int) -> int:
        return a


def request(id: str, method: str, params: str = "") -> str:
    params = params and f',"params":{params}'
    return f'{{"jsonrpc":"2.0","id":{id},"method":"{method}"{params}}}\n'


def result(id: str, value: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{id},"result":{value}}}\n'


def error(id: str, code: int, message: str, data: str = "") -> str:
    data = data and f',"data":{data}'
    return f'{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"{data}}}}}\n'


def cancel(id: str) -> str:
    return f'{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}\n'


INTERNAL = (-32603, "Internal error")
INVALID = (-32600, "Invalid Request")
PARAMS = (-32602, "Invalid params")
CANCELLED = (-32800, "Request cancelled")
BUSY = (-32009, "Server busy")

ROWS: list[tuple[str, str]] = [
    (request("1", "add", "[1,2]") + request("2", "add", '{"a":1}'), result("1", "3") + result("2", "1")),
    (request('"a"', "add", "[1]") * 2, result('"a"', "1") * 2),
    (request("1.5", "add", "[1]") + request("null", "add", "[1]"), result("1.5", "1") + result("null", "1")),
    (request("1", "add"), error("1", *PARAMS, '[{"path":"/a","reason":"is required"}]')),
    (request("1", "typed", '["1"]'), error("1", *PARAMS, '[{"path":"/a","reason":"is not of type \\"integer\\""}]')),
    (request("1", "typed", "[1]"), result("1", "1")),
    (request("1", "unknown"), error("1", -32601, "Method not found")),
    (request("1", "refuse") + request("2", "add", "[1]"), error("1", 5, "no", "[1]") + result("2", "1")),
    (request("1", "bad refusal"), error("1", *INTERNAL)),
    (request("1", "fail") + request("2", "add", "[1]"), error("1", *INTERNAL) + result("2", "1")),
    (request("1", "exit") + request("2", "add", "[1]"), error("1", *INTERNAL) + result("2", "1")),
    (request("1", "unwritable") + request("2", "nested"), error("1", *INTERNAL) + error("2", *INTERNAL)),
    (
        request("1", "add", "[1]") + request("2", "notify") + request("3", "add", "[1]"),
        result("1", "1") + '{"jsonrpc":"2.0","method":"seen"}\n' + result("2", "1") + result("3", "1"),
    ),
    (
        request("1", "late") + request("2", "register") + request("3", "late"),
        error("1", -32601, "Method not found") + result("2", "null") + result("3", '"late"'),
    ),
    (request("1", "drain") + request("2", "add", "[1]"), result("1", "null") + error("2", *BUSY)),
    (request("1", "lose") + request("2", "add", "[1]"), ""),
    (request("1", "count") + request("2", "count"), result("1", "1") + result("2", "1")),
    (request("1", "ends at once") + request("2", "ends at once", "[7]"), result("1", "1") + result("2", "7")),
    (request("1", "fails at once") + request("2", "add", "[1]"), error("1", *INTERNAL) + result("2", "1")),
    (request("1", "waits") + request("1", "add", "[1]"), error("1", *INVALID)),
    (request("1", "waits") + request("2", "add", "[1]") + cancel("1"), error("1", *CANCELLED) + result("2", "1")),
    (request("1", "add", "[1]") + cancel("1") + request("1", "add", "[2]"), error("1", *CANCELLED) + result("1", "2")),
    (request("1", "ordered") + request("2", "add", "[1]"), ""),
    (request("1", "ordered") + request("2", "add", "[1]") + cancel("1"), error("1", *CANCELLED) + result("2", "1")),
    (request("1", "add", "[1]").replace('"id":1,', ""), ""),
    (
        "[" + request("1", "add", "[1]").strip() + "," + request("1", "add", "[2]").strip() + "]\n",
        "[" + result("1", "1").strip() + "," + result("1", "2").strip() + "]\n",
    ),
]


@pytest.mark.parametrize("way", ["plain", "at once", "ordinary"])
class TestEngine:
    @rows("data, written", ROWS)
    def test_what_is_written(self, data: str, written: str, way: str) -> None:
        end = End(way)
        add_functions(end)
        assert end.read(data.encode()) == written.encode()
        current.set(0)

    def test_a_failure_is_logged_with_its_traceback(self, way: str, caplog: pytest.LogCaptureFixture) -> None:
        end = End(way)
        add_functions(end)
        with caplog.at_level(logging.ERROR):
            for method in ("fail", "unwritable", "fails at once"):
                end.read(request("1", method).encode())
        kinds = [record.exc_info and record.exc_info[0].__name__ for record in caplog.records]  # type: ignore[union-attr]
        assert kinds == ["ValueError", "EncodeError", "ValueError"]
        assert 'raise ValueError("a secret")' in caplog.text

    def test_a_peer_that_does_not_read_is_not_served(self, way: str) -> None:
        end = End(way, response_bytes=100)
        add_functions(end)
        end.unwritten = 80  # 20 bytes more: after the first response the driver is asked again
        one = end.read((request("1", "add", "[1]") + request("2", "add", "[2]")).encode())
        assert one == (result("1", "1") + result("2", "2")).encode()
        end.unwritten = 101
        assert end.read((request("3", "add", "[3]") + request("4", "add", "[4]")).encode()) == b""
        end.unwritten = 0
        end.engine.drained()
        assert end.written == (result("3", "3") + result("4", "4")).encode()

    def test_handlers_that_wait_for_the_peer_take_the_room_of_coroutines(self, way: str) -> None:
        end = End(way, max_inbox=1)
        add_functions(end)
        assert end.read(request("1", "waits for the peer").encode()) == b""
        read = request("2", "ends at once") + request("3", "add", "[1]")
        assert end.read(read.encode()) == (error("2", *BUSY) + result("3", "1")).encode()

    def test_the_goodbye_names_the_last_request(self, way: str) -> None:
        end = End(way)
        add_functions(end)
        assert not end.engine.has_read_a_request
        end.read((request("1", "add", "[1]") + request('"last"', "add", "[1]")).encode())
        assert end.engine.has_read_a_request
        end.engine.begin_draining()
        end.read(request('"late"', "add", "[1]").encode())
        assert end.engine.last_read == "last"


def test_a_plain_request_is_not_registered() -> None:
    end, seen = End("plain"), []
    end.handlers.register("look", lambda: seen.append(end.engine.is_idle))
    end.read((request("1", "look") * 2).encode())
    assert seen == [True, True]


@pytest.mark.parametrize("way", ["plain", "ordinary"])
def test_an_async_function_that_drains_is_the_last(way: str) -> None:
    end = End(way)
    add_functions(end)
    assert end.read(request("1", "drains at once").encode()) == result("1", "null").encode()
    assert end.is_idle


def test_a_coroutine_does_not_pass_one_that_waits_for_its_slot() -> None:
    end = End("at once", max_handlers=1)
    add_functions(end)
    assert end.read((request("1", "waits") + request("2", "ends at once")).encode()) == b""
    end.engine.succeeded(end.runs.pop(), 1)  # a slot is free, and the second begins in the next turn
    assert end.read(request("3", "ends at once").encode()) == (result("2", "1") + result("3", "1")).encode()


def test_a_coroutine_that_returns_in_its_first_step_is_not_registered() -> None:
    end, seen = End("at once"), []

    async def look() -> None:
        seen.append(end.engine.is_idle)

    end.handlers.register("look", look)
    end.read((request("1", "look") * 2).encode())
    assert seen == [True, True]


def test_a_handler_that_calls_back_in_its_first_step_has_its_slot() -> None:
    end, seen = End("at once"), []

    async def wait_for_peer() -> None:
        with waits_for_peer() as is_only:
            seen.append((is_only, end.engine.find_request(1) is not None, len(end.engine.queue)))
            await Pause()

    end.handlers.register("wait", wait_for_peer)
    end.read(request("1", "wait").encode())
    assert seen == [(True, True, 0)]
    assert len(end.engine.runs) == 1
