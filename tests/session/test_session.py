"""How a session starts, and what it passes to its peer. `test_closing.py` has how it ends."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from jsonrpc_fast import CLIENT, JSONRPC, LENIENT, Limits, Notification, Raw, Request, Response
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, InvalidResponse, RpcError, StateError
from jsonrpc_fast.session import Handlers, Session, SessionContext, serving
from jsonrpc_fast.session.inbound import memory_of
from jsonrpc_fast.transports import memory_pair

from ..support.session_pairs import Faults, Wire, session_and_wire, sessions, slow
from ..support.tables import rows
from ..support.waiting import forever, settle

pytestmark = pytest.mark.usefixtures("each_loop")


async def test_both_ends_call_each_other() -> None:
    async with sessions({"add": lambda a, b: a + b}, {"name": lambda: "client"}) as (client, server):
        assert await client.call("add", [1, 2]) == 3
        assert await client.call("add", {"a": 1, "b": 2}) == 3
        assert await server.call("name") == "client"


async def test_serving_gives_each_client_a_session_with_the_same_handlers() -> None:
    sessions_served: set[Any] = set()

    def who(context: SessionContext) -> None:
        sessions_served.add(context.session)

    serve = serving({"who": who}, context="shared")
    for _ in range(2):
        here, there = memory_pair()
        served = asyncio.ensure_future(serve(there))
        async with Session(here) as client:
            await client.call("who")
        await served
    assert len(sessions_served) == 2
    assert {session.context for session in sessions_served} == {"shared"}
    for wrong in ({"max_call": 1}, {"max_calls": "1"}):
        with pytest.raises(TypeError):  # when the server is made, and not for each client
            serving({}, **wrong)  # type: ignore[arg-type]


async def test_a_handler_calls_back() -> None:
    async def outer(context: SessionContext, depth: int) -> int:
        return 0 if depth == 0 else 1 + await context.session.call("down", [depth - 1])

    async with sessions({"down": outer}, {"down": outer}) as (client, _):
        assert await client.call("down", [20]) == 20


async def test_reprs_show_the_state_and_no_payload() -> None:
    shown: list[str] = []

    async def add(context: SessionContext, a: int) -> int:
        shown.extend((repr(context), repr(context.session)))
        return a

    transport, other = memory_pair()
    server = Session(transport, {"add": add}, context="secret")
    assert repr(server) == "<Session not started transport=MemoryTransport calls=0 requests=0>"
    async with server, Session(other) as client:
        calling = asyncio.ensure_future(client.call("add", ["secret"]))
        if asyncio.get_running_loop().get_task_factory() is None:  # an eager task has sent its call already
            await asyncio.sleep(0)
        assert repr(client) == "<Session running transport=MemoryTransport calls=1 requests=0>"
        await calling
    assert shown == [
        "<SessionContext method='add' id=1>",
        "<Session running transport=MemoryTransport calls=0 requests=1>",
    ]
    assert repr(server) == "<Session closed transport=MemoryTransport calls=0 requests=0>"


async def test_before_start() -> None:
    one, other = memory_pair()
    session = Session(one)
    assert not session.is_connected
    with pytest.raises(StateError):
        await session.call("m")
    with pytest.raises(StateError):
        session.call_soon("m")
    with pytest.raises(StateError):
        await session.notify("m")
    with pytest.raises(StateError):
        session.call_threadsafe("m")
    with pytest.raises(StateError):
        await session.wait_closed()
    assert not session.cancel(1)
    await session.close()
    with pytest.raises(StateError):
        await session.start()
    await other.disconnect()


async def test_a_second_start_is_an_error() -> None:
    async with sessions() as (client, _):
        with pytest.raises(StateError):
            await client.start()


async def test_a_transport_that_cannot_start() -> None:
    one, other = memory_pair()
    await other.disconnect()
    session = Session(one)
    with pytest.raises(ConnectionError):
        await session.start()
    assert not session.is_connected
    with pytest.raises(ConnectionLost):
        await session.call("m")
    await session.close()


async def test_a_transport_that_another_session_uses() -> None:
    one, other = memory_pair()
    async with Session(one, {"add": lambda a, b: a + b}), Session(other) as client:
        second = Session(one)
        with pytest.raises(StateError):
            await second.start()
        assert await client.call("add", [1, 2], timeout=5) == 3


async def test_wait_closed_before_start() -> None:
    one, other = memory_pair()
    session = Session(one)
    await session.close()
    await session.wait_closed()
    await other.disconnect()


@pytest.mark.virtual_time
async def test_exceptions_in_the_with_block_are_raised() -> None:
    async def fail() -> None:
        async with sessions({"forever": forever}, close_seconds=0.01) as (client, _):
            client.call_soon("forever")
            raise KeyError("x")

    with pytest.raises(KeyError):
        await fail()


# What is served.


async def test_registering() -> None:
    async with sessions() as (client, server):
        with pytest.raises(RpcError, match="Method not found") as missing:
            await client.call("double", [4])
        assert missing.value.code == -32601

        @server.register("double")
        def double(value: int) -> int:
            return value * 2

        server.register("half", lambda value: value // 2)
        assert double(1) == 2
        assert await client.call("double", [4]) == 8
        assert await client.call("half", [4]) == 2


async def test_what_a_session_registers_is_its_own() -> None:
    def around(_: Any, params: Any, call_next: Any) -> Any:
        return ["around", call_next(params)]

    shared = Handlers({"who": lambda: "shared"}, middleware=[around])
    async with sessions(shared) as (client, server), sessions(shared) as (other, second):
        server.register("mine", lambda: 1)
        second.register("mine", lambda: 2)
        assert await client.call("mine") == ["around", 1]
        assert await other.call("mine") == ["around", 2]
        assert shared.find("mine") is None
        with pytest.raises(ValueError, match="already"):
            server.register("who", lambda: 3)
        with pytest.raises(ValueError, match="already"):
            server.register("mine", lambda: 3)
        shared.register("later", lambda: "for all")
        for session in (client, other):
            assert await session.call("who") == ["around", "shared"]
            assert await session.call("later") == ["around", "for all"]


async def test_malformed_messages_are_answered_by_the_policy() -> None:
    faults = Faults()

    async def replies(policy: Any) -> list[Any]:
        async with session_and_wire(response_policy=policy, hooks=faults) as (_, wire):
            for text in (b"nonsense", b"{}", b'{"jsonrpc":"2.0","id":5,"method":7}', b'{"jsonrpc":"2.0","result":7}'):
                wire.send(text)
            await settle()
            return [(reply.id, reply.error.code) for reply in wire.received]

    assert await replies("always") == [(None, -32700), (None, -32600), (5, -32600)]
    assert await replies("never") == [(5, -32600)]
    assert len(faults.seen) == 8


@pytest.mark.virtual_time
async def test_an_id_that_is_used_twice_in_a_batch() -> None:
    """The second request is refused only while the first one is in flight."""
    batch = b"[%s]" % b",".join([b'{"jsonrpc":"2.0","id":1,"method":"%s","params":[0.01]}'] * 2)

    async with session_and_wire({"slow": slow, "now": lambda value: value}) as (session, wire):
        wire.send(batch % (b"now", b"now"))
        assert await wire.next() == [Response(1, 0.01), Response(1, 0.01)]
        wire.send(batch % (b"now", b"unknown"))
        first, second = await wire.next()
        assert (first.result, second.error.code) == (0.01, -32601)
        wire.send(batch % (b"slow", b"slow"))
        first, second = await wire.next()
        assert (first.result, second.error.code) == ("done", -32600)
        assert session.is_idle


@rows(
    "answer",
    [
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"result":"\\ud800"}',
        b'{"jsonrpc":"2.0","id":1,"result":"%s"}' % (b"x" * 20_000),
        b'[{"jsonrpc":"2.0","id":1}]',
        b'{"jsonrpc":"2.0","id":1,"result":NaN}',
        b'{"jsonrpc":"2.0","id":1,"result":{"x":[1,Infinity]}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"title":"caf\xe9"}}',
        b'{"jsonrpc":"2.0","id":1,"result":"a\x1fb"}',
        b'{"jsonrpc":"2.0","id":1,"result":[1,2,]}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":',
        b'[{"jsonrpc":"2.0","id":1,"result":NaN}]',
    ],
    ids=[
        "only an id",
        "a lone surrogate",
        "too large",
        "in a batch",
        "NaN",
        "Infinity, nested",
        "Latin-1",
        "a control character",
        "a trailing comma",
        "cut off",
        "NaN in a batch",
    ],
)
@rows("is_late", [False, True])
@pytest.mark.virtual_time
async def test_a_malformed_answer_settles_its_call(answer: bytes, is_late: bool) -> None:
    """Nothing is sent, because the id may belong to a call of the peer."""
    faults = Faults()

    one, other = memory_pair(limits=Limits(message_bytes=10_000))
    wire = Wire(other)
    await other.start()
    async with Session(one, hooks=faults) as session:
        call = asyncio.create_task(session.call("m", timeout=0.01 if is_late else 5))
        assert await wire.next() == Request(1, "m")
        if is_late:
            with pytest.raises(CallTimeout):
                await call
        wire.send(answer)
        if not is_late:
            with pytest.raises(InvalidResponse, match=r"^the response is malformed: "):
                await call
        await settle()
        assert (wire.received, faults.seen) == ([], [])
    await other.disconnect()


@pytest.mark.virtual_time
async def test_an_error_without_an_id_settles_the_only_call_in_flight() -> None:
    error = b'{"jsonrpc":"2.0","error":{"code":5,"message":"no"}}'
    for profile, expected in ((JSONRPC, InvalidResponse), (LENIENT, RpcError)):
        one, other = memory_pair(profile=profile)
        wire = Wire(other)
        await other.start()
        async with Session(one, timeout=5) as session:
            calls = [asyncio.create_task(session.call("m")) for _ in range(2)]
            await settle()
            wire.send(error)
            await settle()
            assert not any(call.done() for call in calls)  # it may be about either
            wire.send(b'{"jsonrpc":"2.0","id":1,"result":1}')
            wire.send(error)
            assert await calls[0] == 1
            with pytest.raises(expected) as raised:
                await calls[1]
        assert str(raised.value) in ("the response is malformed: the response has no id", "no (5)")
        await other.disconnect()


@pytest.mark.virtual_time
async def test_a_result_without_an_id_settles_the_only_call_in_flight() -> None:
    """Where the profile says so: the exchange pairs them."""
    one, other = memory_pair(profile=CLIENT.replace(missing_ids=True))
    wire = Wire(other)
    await other.start()
    async with Session(one, timeout=5) as session:
        calls = [asyncio.create_task(session.call("m")) for _ in range(2)]
        await settle()
        wire.send(b'{"result":19}')
        await settle()
        assert not any(call.done() for call in calls)  # it may be that of either
        wire.send(b'{"id":1,"result":1}')
        wire.send(b'{"result":19}')
        assert [await call for call in calls] == [1, 19]
        batch = asyncio.create_task(session.call_batch([("m", None), ("m", None)]))
        await settle()
        wire.send(b'{"result":19}')
        await settle()
        assert not batch.done()
        wire.send(b'[{"id":4,"result":4},{"id":3,"result":3}]')
        assert await batch == [3, 4]
    await other.disconnect()


@rows(
    ("request_", "code"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":["%s"]}' % (b"x" * 20_000), -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":["\\ud800"]}', -32700),
        (b'{"jsonrpc":"2.0","id":7}', -32600),
    ],
    ids=["too large", "a lone surrogate", "only an id"],
)
async def test_a_malformed_request_is_answered_with_its_id(request_: bytes, code: int) -> None:
    one, other = memory_pair(limits=Limits(message_bytes=10_000))
    wire = Wire(other)
    await other.start()
    async with Session(one, hooks=Faults(), response_policy="never"):
        wire.send(request_)
        answer = await wire.next()
        assert (answer.id, answer.error.code) == (7, code)
    await other.disconnect()


async def test_messages_are_sent_in_order() -> None:
    async with session_and_wire() as (session, wire):
        session.call_soon("a")
        await session.notify("b", [1])
        session.notify_soon("c", {"x": 1})
        session.call_soon("d")
        assert [await wire.next() for _ in range(4)] == [
            Request(1, "a"),
            Notification("b", [1]),
            Notification("c", {"x": 1}),
            Request(2, "d"),
        ]


def test_the_memory_of_params_is_counted_up_to_a_bound() -> None:
    """A container over the bound is recognised by its length, without visiting its items."""
    assert memory_of(None, 1000) == 0
    assert 1000 < memory_of({"a": ["x" * 1000]}, 10_000) < 2000
    assert 10_000 < memory_of([[1] * 10] * 100, 100_000) < 100_000
    assert memory_of(Raw(b'["' + b"x" * 1000 + b'"]'), 100) > 1000
    params = [0] * 1_000_000
    assert memory_of({"a": params, "b": "x"}, 1000) > 1000
    began = time.thread_time()
    for _ in range(1000):
        memory_of(params, 1_000_000)
    assert time.thread_time() - began < 5
