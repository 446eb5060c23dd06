"""The life of a session: start, close, loss, and that nothing is left of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request, Response
from jsonrpc_fast.errors import ConnectionLost, RpcError, StateError
from jsonrpc_fast.session import RequestContext, Session
from jsonrpc_fast.transports import memory_pair

from .session_pairs import Faults, run, session_and_wire, sessions, settle

pytestmark = pytest.mark.usefixtures("each_loop")


async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def test_both_ends_call_each_other() -> None:
    async def main() -> None:
        async with sessions({"add": lambda a, b: a + b}, {"name": lambda: "client"}) as (client, server):
            assert await client.call("add", [1, 2]) == 3
            assert await client.call("add", {"a": 1, "b": 2}) == 3
            assert await server.call("name") == "client"

    run(main())


def test_a_handler_calls_back() -> None:
    async def outer(context: RequestContext, depth: int) -> int:
        return 0 if depth == 0 else 1 + await context.session.call("down", [depth - 1])

    async def main() -> None:
        async with sessions({"down": outer}, {"down": outer}) as (client, _):
            assert await client.call("down", [20]) == 20

    run(main())


def test_before_it_is_started() -> None:
    async def main() -> None:
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

    run(main())


def test_a_second_start_is_an_error() -> None:
    async def main() -> None:
        async with sessions() as (client, _):
            with pytest.raises(StateError):
                await client.start()

    run(main())


def test_a_transport_that_cannot_start() -> None:
    async def main() -> None:
        one, other = memory_pair()
        await other.disconnect()
        session = Session(one)
        with pytest.raises(ConnectionError):
            await session.start()
        assert not session.is_connected
        with pytest.raises(ConnectionLost):
            await session.call("m")
        await session.close()

    run(main())


def test_a_transport_that_is_at_work_for_another_session() -> None:
    async def main() -> None:
        one, other = memory_pair()
        async with Session(one, {"add": lambda a, b: a + b}), Session(other) as client:
            second = Session(one)
            with pytest.raises(StateError):
                await second.start()
            assert await client.call("add", [1, 2], timeout=5) == 3

    run(main())


def test_waiting_for_the_end_of_what_never_began() -> None:
    async def main() -> None:
        one, other = memory_pair()
        session = Session(one)
        await session.close()
        await session.wait_closed()
        await other.disconnect()

    run(main())


def test_after_close() -> None:
    async def main() -> None:
        async with sessions() as (client, server):
            await client.close()
            await client.close()
            assert not client.is_connected
            with pytest.raises(ConnectionLost):
                await client.call("m")
            with pytest.raises(ConnectionLost):
                await client.notify("m")
            with pytest.raises(ConnectionLost):
                await client.call_batch([("m", None)])
            await server.wait_closed()
            assert not server.is_connected

    run(main())


def test_close_settles_the_calls_in_flight() -> None:
    async def main() -> None:
        async with sessions({"forever": forever}, close_seconds=0.01) as (client, _):
            calls = [asyncio.create_task(client.call("forever")) for _ in range(3)]
            await settle()
            await client.close()
            for result in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(result, ConnectionLost)

    run(main())


def test_close_lets_handlers_finish() -> None:
    async def main() -> None:
        async with sessions({"slow": slow}) as (client, server):
            call = asyncio.create_task(client.call("slow", [0.05]))
            await settle()
            await server.close()
            assert await call == "done"

    run(main())


def test_close_lets_the_inbox_finish() -> None:
    async def main() -> None:
        async with sessions({"slow": slow}, max_handlers=1) as (client, server):
            calls = [asyncio.create_task(client.call("slow", [0.01])) for _ in range(4)]
            await settle()
            await server.close()
            assert await asyncio.gather(*calls) == ["done"] * 4

    run(main())


def test_a_handler_may_call_while_the_session_closes() -> None:
    async def work(context: RequestContext) -> Any:
        await asyncio.sleep(0.02)
        return await context.session.call("ask")

    async def main() -> None:
        async with sessions({"work": work}, {"ask": lambda: "answer"}) as (client, server):
            call = asyncio.create_task(client.call("work"))
            await settle()
            await server.close()
            assert await call == "answer"

    run(main())


def test_close_cancels_handlers_after_a_while() -> None:
    ended = []

    async def work() -> None:
        try:
            await forever()
        finally:
            ended.append(True)

    async def main() -> None:
        async with sessions({"work": work}, close_seconds=0.05) as (client, server):
            call = asyncio.create_task(client.call("work"))
            await settle()
            started = asyncio.get_running_loop().time()
            await server.close()
            assert 0.04 < asyncio.get_running_loop().time() - started < 1
            assert ended == [True]
            with pytest.raises(ConnectionLost):
                await call

    run(main())


def test_a_handler_that_does_not_end_is_told_and_left() -> None:
    release = asyncio.Event()
    faults = Faults()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        async with sessions({"stubborn": stubborn}, close_seconds=0.02, hooks=faults) as (client, server):
            call = asyncio.create_task(client.call("stubborn"))
            await settle()
            await asyncio.wait_for(server.close(), 2)
            assert isinstance(faults.seen[-1], StateError)
            release.set()
            await settle()
            with pytest.raises(ConnectionLost):
                await call

    run(main())


def test_requests_that_come_while_it_closes_are_refused() -> None:
    served: list[int] = []

    async def main() -> None:
        async with sessions({"slow": slow, "count": served.append}) as (client, server):
            first = asyncio.create_task(client.call("slow", [0.05]))
            await settle()
            closing = asyncio.create_task(server.close())
            await settle()
            late = asyncio.create_task(client.call("count", [1]))
            with pytest.raises(RpcError) as refused:
                await late
            assert refused.value.code == -32009
            assert not first.done()
            assert await first == "done"
            await closing
            assert served == []

    run(main())


def test_a_cancelled_close_does_not_wait() -> None:
    async def main() -> None:
        async with sessions({"forever": forever}) as (client, server):
            call = asyncio.create_task(client.call("forever"))
            await settle()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(server.close(), 0.05)
            assert not server.is_connected
            with pytest.raises(ConnectionLost):
                await call

    run(main())


def test_two_who_close_and_one_who_gives_up() -> None:
    async def main() -> None:
        async with sessions({"forever": forever}) as (client, server):
            call = asyncio.create_task(client.call("forever"))
            await settle()
            patient = asyncio.create_task(server.close())
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(server.close(), 0.05)
            await patient
            with pytest.raises(ConnectionLost):
                await call

    run(main())


def test_a_peer_that_does_not_read_cannot_hold_up_a_cancelled_close() -> None:
    async def main() -> None:
        one, other = memory_pair()
        await other.connect()
        session = Session(one)
        await session.start()
        for _ in range(20):
            session.notify_soon("m", ["x" * 100_000])
        started = asyncio.get_running_loop().time()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(session.close(), 0.05)
        assert not one.is_connected
        assert asyncio.get_running_loop().time() - started < 1
        await other.disconnect()

    run(main())


@pytest.mark.parametrize("pause", [0, 0.01])
def test_a_handler_may_close_the_session(pause: float) -> None:
    ended = []

    async def leave(context: RequestContext) -> None:
        if pause:
            await asyncio.sleep(pause)
        await context.session.close()
        ended.append(True)

    async def main() -> None:
        async with sessions({"leave": leave}) as (client, server):
            started = asyncio.get_running_loop().time()
            with pytest.raises(ConnectionLost):
                await client.call("leave")
            await server.wait_closed()
            await settle()
            assert ended == [True]
            assert asyncio.get_running_loop().time() - started < 1

    run(main())


def test_the_loss_of_the_connection_settles_calls_and_cancels_handlers() -> None:
    cancelled = []

    async def work() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main() -> None:
        async with session_and_wire({"work": work}, close_seconds=0.02) as (session, wire):
            call = asyncio.create_task(session.call("m"))
            results: list[Any] = []
            session.call_soon("m", on_result=results.append, on_error=results.append)
            wire.send(b'{"jsonrpc":"2.0","id":1,"method":"work"}')
            await settle()
            await wire.transport.disconnect()
            with pytest.raises(ConnectionLost):
                await call
            assert isinstance(results[0], ConnectionLost)
            await session.wait_closed()
            assert cancelled == [True]
            assert not session.is_connected

    run(main())


def test_what_broke_the_channel_is_the_cause() -> None:
    broken = OSError("the cable")

    async def main() -> None:
        async with sessions() as (client, _):
            call = asyncio.create_task(client.call("m", timeout=None))
            await asyncio.sleep(0)
            client._transport._lost(broken)  # type: ignore[attr-defined]
            with pytest.raises(ConnectionLost) as lost:
                await call
            assert lost.value.__cause__ is broken

    run(main())


def test_answers_still_leave_after_the_peer_has_ended_its_stream() -> None:
    """As a client does that writes its requests, closes its end and reads on."""

    async def main() -> None:
        async with session_and_wire({"slow": slow}) as (session, wire):
            call = asyncio.create_task(session.call("m"))
            wire.send(b'{"jsonrpc":"2.0","id":1,"method":"slow","params":[0.05]}')
            await settle()
            end = asyncio.create_task(wire.transport.close())
            with pytest.raises(ConnectionLost):
                await call
            await session.wait_closed()
            await end

    run(main())


def test_exceptions_of_the_body_pass_through() -> None:
    async def main() -> None:
        async with sessions({"forever": forever}, close_seconds=0.01) as (client, _):
            client.call_soon("forever")
            raise KeyError("x")

    with pytest.raises(KeyError):
        run(main())


# What is served.


def test_registering() -> None:
    async def main() -> None:
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

    run(main())


def test_unreadable_messages_are_answered_by_the_policy() -> None:
    faults = Faults()

    async def main(policy: Any) -> list[Any]:
        async with session_and_wire(reply_policy=policy, hooks=faults) as (_, wire):
            for text in (b"nonsense", b"{}", b'{"jsonrpc":"2.0","id":5,"method":7}', b'{"jsonrpc":"2.0","result":7}'):
                wire.send(text)
            await settle()
            return [(reply.id, reply.error.code) for reply in wire.received]

    assert run(main("always")) == [(None, -32700), (None, -32600), (5, -32600)]
    assert run(main("never")) == [(5, -32600)]
    assert len(faults.seen) == 8


def test_a_batch_is_answered_by_one_batch() -> None:
    async def main() -> None:
        async with session_and_wire({"slow": slow, "add": lambda a, b: a + b}) as (_, wire):
            wire.send(
                b'[{"jsonrpc":"2.0","id":1,"method":"slow","params":[0.01]},{"jsonrpc":"2.0","method":"add"},7,'
                b'{"jsonrpc":"2.0","id":2,"method":"add","params":[1,2]},{"jsonrpc":"2.0","id":3,"method":"none"}]'
            )
            replies = await wire.next()
            assert [reply.id for reply in replies] == [1, None, 2, 3]
            assert [reply.result for reply in replies] == ["done", None, 3, None]
            wire.send(b'[{"jsonrpc":"2.0","method":"add","params":[1,2]}]')
            await settle()
            assert wire.received == []

    run(main())


def test_a_duplicate_id_in_flight_is_refused() -> None:
    async def main() -> None:
        async with session_and_wire({"slow": slow}) as (_, wire):
            for _ in range(2):
                wire.send(b'{"jsonrpc":"2.0","id":1,"method":"slow","params":[0.02]}')
            refusal, answer = await wire.next(), await wire.next()
            assert (refusal.id, refusal.error.code) == (1, -32600)
            assert answer == Response(1, "done")

    run(main())


def test_messages_go_out_in_their_order() -> None:
    async def main() -> None:
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

    run(main())
