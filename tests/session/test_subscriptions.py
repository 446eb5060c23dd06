"""Subscriptions: results are routed by their ids, none is lost silently, and slow readers get an error."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jsonrpc_fast import (
    Notification,
    Request,
    Response,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, RpcError, StateError
from jsonrpc_fast.session import Gap, JsonRpcConvention, ReconnectingSession, Session, SessionContext, Subscriptions
from jsonrpc_fast.transports import memory_pair
from jsonrpc_fast.types import UNSET

from ..support.session_pairs import Faults, Wire, session_and_wire, sessions
from ..support.tables import rows
from ..support.waiting import eventually, forever, settle

pytestmark = pytest.mark.usefixtures("each_loop")


def result(id: Any, value: Any) -> bytes:
    return encode_notification("eth_subscription", {"subscription": id, "result": value})


async def subscribed(session: Session, wire: Wire, id: Any, *early: bytes, **options: Any) -> Any:
    """Subscribe; the peer sends `early` in the same chunk as its response, some before and some after it."""
    subscriptions = Subscriptions(session, **options)
    subscribing = asyncio.ensure_future(subscriptions.subscribe("newHeads"))
    request = await wire.next()
    assert request == Request(request.id, "eth_subscribe", ["newHeads"])
    half = len(early) // 2
    for text in (*early[:half], encode_result(request.id, id), *early[half:]):
        wire.send(text)
    return subscriptions, await subscribing


async def test_results_around_the_answer_arrive_in_order() -> None:
    async with session_and_wire() as (session, wire):
        early = [result("0x1", 1), result("0x2", "other"), result("0x1", 2), result("0x1", 3)]
        _, subscription = await subscribed(session, wire, "0x1", *early)
        wire.send(result("0x1", 4))
        assert subscription.id == "0x1"
        assert [await anext(subscription) for _ in range(4)] == [1, 2, 3, 4]


async def test_each_subscription_gets_its_own() -> None:
    numbers = iter(range(100))

    async def subscribe(context: SessionContext, kind: str) -> int:
        id = next(numbers)

        async def publish() -> None:
            for value in range(20):
                await context.session.notify("news", {"subscription": id, "result": [kind, value]})

        tasks.append(asyncio.ensure_future(publish()))
        return id

    tasks: list[Any] = []
    closed: list[int] = []
    handlers = {"sub": subscribe, "unsub": closed.append}
    async with sessions(handlers) as (client, _):
        subscriptions = Subscriptions(client, methods=("sub", "unsub", "news"))

        async def read(kind: str) -> list[Any]:
            async with await subscriptions.subscribe(kind) as subscription:
                return [await anext(subscription) for _ in range(20)]

        kinds = [f"kind {number}" for number in range(10)]
        found = await asyncio.gather(*map(read, kinds))
        assert found == [[[kind, value] for value in range(20)] for kind in kinds]
        await settle()
        assert sorted(closed) == list(range(10))
        await asyncio.gather(*tasks)


async def test_closing_ends_the_iteration_and_unsubscribes_once() -> None:
    async with session_and_wire() as (session, wire):
        _, subscription = await subscribed(session, wire, 7, result(7, 1))
        wire.send(result(7, 2))
        read: list[Any] = []

        async def read_all() -> None:
            async for value in subscription:
                read.append(value)  # noqa: PERF401

        reading = asyncio.ensure_future(read_all())
        await settle()
        closing = asyncio.ensure_future(subscription.close())
        request = await wire.next()
        assert request == Request(request.id, "eth_unsubscribe", [7])
        wire.send(result(7, "late"))
        wire.send(encode_result(request.id, True))
        await closing
        await reading
        await subscription.close()
        assert read == [1, 2]
        assert wire.received == []


async def test_a_slow_reader_gets_what_was_kept_then_an_error() -> None:
    async with session_and_wire() as (session, wire):
        _, subscription = await subscribed(session, wire, 1, max_items=3)
        for value in range(5):
            wire.send(result(1, value))
        await settle()
        assert [await anext(subscription) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(StateError, match="more than 3"):
            await anext(subscription)
        request = await wire.next()  # although the reader has not closed it
        assert request == Request(request.id, "eth_unsubscribe", [1])
        wire.send(encode_result(request.id, True))
        await subscription.close()
        assert wire.received == []


async def test_a_slow_reader_gets_what_was_kept_in_memory_then_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsonrpc_fast.session.subscriptions.MAX_BYTES", 10_000)
    async with session_and_wire() as (session, wire):
        _, subscription = await subscribed(session, wire, 1)
        for size in (20_000, 1, 4_000, 6_000, 6_000):
            wire.send(result(1, "x" * size))
            if size == 20_000:  # one result may be larger
                assert len(await anext(subscription)) == size
        assert (await wire.next()).method == "eth_unsubscribe"
        assert [len(await anext(subscription)) for _ in range(2)] == [1, 4_000]
        with pytest.raises(StateError, match=r"^more than 10000 bytes of results of the subscription are not read$"):
            await anext(subscription)


@rows(
    ("error", "code", "message", "data"),
    [
        ({"code": -32000, "message": "gone", "data": [1]}, -32000, "gone", [1]),
        ({"code": -32000, "message": "gone"}, -32000, "gone", UNSET),
        ("gone", 0, "gone", "gone"),
        (False, 0, "the peer has ended the subscription with an error", False),
    ],
)
@pytest.mark.parametrize("is_early", [True, False])
async def test_an_error_of_the_peer_ends_the_subscription(
    error: Any, code: int, message: str, data: Any, is_early: bool
) -> None:
    async with session_and_wire() as (session, wire):
        ended = encode_notification("eth_subscription", {"subscription": "1", "error": error})
        early = [result("1", None), ended, b""] if is_early else []
        _, subscription = await subscribed(session, wire, "1", *early)
        for text in [] if is_early else [result("1", None), ended, result("1", "late")]:
            wire.send(text)
        assert await anext(subscription) is None
        with pytest.raises(RpcError) as raised:
            await anext(subscription)
        found = raised.value
        assert (found.code, found.message, found.data) == (code, message, data)
        assert (await wire.next()).method == "eth_unsubscribe"


@rows("params", [[1], None, {"Subscription": 1, "result": 2}, {"subscription": True, "result": 2}, {"subscription": 1}])
async def test_a_notification_that_names_no_subscription_or_has_no_result_is_a_fault(params: Any) -> None:
    faults = Faults()
    async with session_and_wire(hooks=faults) as (session, wire):
        _, subscription = await subscribed(session, wire, 1)
        wire.send(encode_notification("eth_subscription", params))
        wire.send(result(1, "next"))
        assert await anext(subscription) == "next"
        said = "a notification of a subscription has no id, or neither a result nor an error"
        assert [str(fault) for fault in faults.seen] == [said]


@rows("is_late", [True, False])
async def test_a_cancelled_subscribe_is_unsubscribed(is_late: bool) -> None:
    async with session_and_wire() as (session, wire):
        subscriptions = Subscriptions(session)
        subscribing = asyncio.ensure_future(subscriptions.subscribe("newHeads"))
        request = await wire.next()
        if is_late:
            subscribing.cancel()
            await settle()
            assert subscribing.cancelled()
            wire.send(encode_result(request.id, "0x1"))
        else:  # the response has arrived, and the task has not continued
            wire.send(encode_result(request.id, "0x1"))
            while not session.is_idle:
                await asyncio.sleep(0)
            subscribing.cancel()
        wire.send(result("0x1", 1))
        ended = await wire.next()
        assert ended == Request(ended.id, "eth_unsubscribe", ["0x1"])
        wire.send(encode_result(ended.id, True))
        await settle()
        assert subscribing.cancelled()
        assert session.is_idle


@pytest.mark.virtual_time
async def test_a_subscribe_that_timed_out_is_unsubscribed() -> None:
    async with session_and_wire() as (session, wire):
        subscriptions = Subscriptions(session)
        first = (await subscribed(session, wire, 0, methods=("eth_subscribe", "eth_unsubscribe", "other")))[1]
        with pytest.raises(CallTimeout):
            await subscriptions.subscribe("newHeads", timeout=0.01)
        request = await wire.next()
        wire.send(encode_result(request.id, 1))
        ended = await wire.next()
        assert ended == Request(ended.id, "eth_unsubscribe", [1])
        wire.send(encode_result(ended.id, False))
        for answer in (encode_error, encode_result):  # nothing to unsubscribe
            with pytest.raises(CallTimeout):
                await subscriptions.subscribe("newHeads", timeout=0.01)
            late = await wire.next()
            wire.send(answer(late.id, -1, "no") if answer is encode_error else answer(late.id, None))
        await settle()
        assert wire.received == []
        assert not first._is_closed


@pytest.mark.virtual_time
async def test_a_handler_whose_subscribe_timed_out_has_its_slot_back() -> None:
    subscriptions: list[Subscriptions] = []
    begun: list[int] = []
    timed_out, continues = asyncio.Event(), asyncio.Event()

    async def work(value: int) -> int:
        begun.append(value)
        if value == 1:
            with pytest.raises(CallTimeout):
                await subscriptions[0].subscribe("newHeads", timeout=0.01)
            timed_out.set()
        if value:
            await continues.wait()
        return value

    async with session_and_wire({"work": work}, max_handlers=1) as (session, wire):
        subscriptions.append(Subscriptions(session))
        wire.send(encode_request(1, "work", [1]))
        subscribing = await wire.next()
        wire.send(encode_request(3, "work", [0]))
        assert await wire.next() == Response(3, 0)  # the first one waits for the peer, and holds no slot
        await timed_out.wait()
        wire.send(encode_request(2, "work", [2]))
        await settle()
        assert begun == [1, 0]
        wire.send(encode_result(subscribing.id, 5))  # too late
        assert (await wire.next()).method == "eth_unsubscribe"
        await settle()
        assert begun == [1, 0]
        continues.set()
        assert [(await wire.next()).result for _ in range(2)] == [1, 2]


@rows("timeout", [-1, float("nan")])
async def test_a_wrong_timeout_is_refused_before_anything_is_sent(timeout: float) -> None:
    async with session_and_wire() as (session, wire):
        with pytest.raises(ValueError, match="0 seconds or more"):
            await Subscriptions(session).subscribe("newHeads", timeout=timeout)
        await settle()
        assert wire.received == []


async def test_true_is_not_the_id_1() -> None:
    async with session_and_wire() as (session, wire):
        _, subscription = await subscribed(session, wire, 1, result(True, "foreign"), result(1, "own"))
        wire.send(result(True, "foreign"))
        wire.send(result(1, "second"))
        assert [await anext(subscription) for _ in range(2)] == ["own", "second"]


@pytest.mark.virtual_time
async def test_a_subscribe_waits_for_room() -> None:
    async with session_and_wire(max_calls=1) as (session, wire):
        subscriptions = Subscriptions(session)
        calling = asyncio.ensure_future(session.call("m"))
        request = await wire.next()
        with pytest.raises(CallTimeout):
            await subscriptions.subscribe("newHeads", timeout=0.01)
        subscribing = asyncio.ensure_future(subscriptions.subscribe("newHeads"))
        await settle()
        assert wire.received == []
        wire.send(encode_result(request.id, None))
        request = await wire.next()
        wire.send(encode_result(request.id, 5))
        await calling
        assert (await subscribing).id == 5


async def test_results_that_arrive_too_early_are_not_lost_silently() -> None:
    async with session_and_wire() as (session, wire):
        early = [result("0x1", value) for value in range(10)]
        _, subscription = await subscribed(session, wire, "0x1", *early, max_items=3)
        assert [await anext(subscription) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(StateError, match="more than 3"):
            await anext(subscription)
        request = await wire.next()
        assert request == Request(request.id, "eth_unsubscribe", ["0x1"])


async def test_an_id_that_is_in_use_is_refused() -> None:
    async with session_and_wire() as (session, wire):
        subscriptions, first = await subscribed(session, wire, "0x1")
        subscribing = asyncio.ensure_future(subscriptions.subscribe("logs"))
        request = await wire.next()
        wire.send(encode_result(request.id, "0x1"))
        with pytest.raises(StateError, match="another subscription"):
            await subscribing
        wire.send(result("0x1", 1))
        assert await anext(first) == 1


async def test_a_loss_ends_every_reader_after_what_has_arrived() -> None:
    async with session_and_wire() as (session, wire):
        subscriptions, subscription = await subscribed(session, wire, 1, result(1, "last"))
        wire.send(result(1, "of all"))
        await settle()
        await wire.transport.disconnect()
        assert [await anext(subscription), await anext(subscription)] == ["last", "of all"]
        with pytest.raises(ConnectionLost):
            await anext(subscription)
        await subscription.close()
        with pytest.raises(ConnectionLost):
            await subscriptions.subscribe("x")
    assert wire.received == []


async def test_a_loss_says_why_to_every_reader() -> None:
    async with session_and_wire() as (session, wire):
        subscriptions, subscription = await subscribed(session, wire, 1)
        wire.transport.channel.write(b'{"jsonrpc":')
        await wire.transport.disconnect()
        for work in (anext(subscription), subscriptions.subscribe("x")):
            with pytest.raises(ConnectionLost, match="the stream ended inside a message") as caught:
                await work
            assert caught.value.__cause__ is session.fault


async def test_one_that_waits_is_woken_by_the_loss() -> None:
    async with session_and_wire() as (session, wire):
        _, subscription = await subscribed(session, wire, 1)
        reading = asyncio.ensure_future(anext(subscription))
        await settle()
        with pytest.raises(StateError, match="another task"):
            await anext(subscription)
        await session.close()
        with pytest.raises(ConnectionLost):
            await reading


async def test_a_cancelled_reader_loses_nothing() -> None:
    async with session_and_wire() as (session, wire):
        _, subscription = await subscribed(session, wire, 1)
        reading = asyncio.ensure_future(anext(subscription))
        await settle()
        reading.cancel()
        wire.send(result(1, "kept"))
        await settle()
        assert await anext(subscription) == "kept"


async def test_malformed_and_unknown_notifications_are_dropped() -> None:
    async with session_and_wire() as (session, wire):
        _, subscription = await subscribed(session, wire, 1)
        for params in (None, [], {}, {"subscription": None}, {"subscription": [1]}, {"subscription": 2, "result": 1}):
            wire.send(Notification("eth_subscription", params).to_bytes_delimited())
        wire.send(result(1, "good"))
        assert await anext(subscription) == "good"


async def test_what_is_not_an_id_and_errors_of_the_peer() -> None:
    async with sessions({"eth_subscribe": lambda *params: params[0]}) as (client, _):
        subscriptions = Subscriptions(client)
        for wrong in (True, None, 1.5, [1]):
            with pytest.raises(StateError, match="not the id"):
                await subscriptions.subscribe(wrong)
        async with await subscriptions.subscribe(5) as subscription:
            assert subscription.id == 5
            with pytest.raises(RpcError):
                await subscription.close()  # the peer has no eth_unsubscribe
        with pytest.raises(ValueError, match="max_items"):
            Subscriptions(client, max_items=0)
    with pytest.raises(StateError):
        Subscriptions(client)


# Over a session that connects again.


class Node:
    """Peers over memory, one for each connection; each numbers its subscriptions from 1."""

    def __init__(self) -> None:
        self.peers: list[Session] = []
        self.transports: list[Any] = []
        self.subscribed: list[Any] = []
        self.unsubscribed: list[Any] = []
        self.refusal: Exception | None = None
        self.is_down = False
        self.is_silent = False

    async def make(self) -> Any:
        if self.is_down:
            raise ConnectionRefusedError("nobody listens")
        one, other = memory_pair()
        ids = iter(range(1, 100))

        async def subscribe(*params: Any) -> int:
            if self.is_silent:
                await forever()
            if self.refusal is not None:
                raise self.refusal
            self.subscribed.append(list(params))
            return next(ids)

        def unsubscribe(id: Any) -> bool:
            self.unsubscribed.append(id)
            return True

        peer = Session(
            other,
            {"eth_subscribe": subscribe, "eth_unsubscribe": unsubscribe},
            convention=JsonRpcConvention(says_goodbye=True),
        )
        await peer.start()
        self.peers.append(peer)
        self.transports.append(other)
        return one

    async def publish(self, *pairs: tuple[int, Any], peer: int = -1) -> None:
        for id, value in pairs:
            await self.peers[peer].notify("eth_subscription", {"subscription": id, "result": value})
        await settle()

    async def lose(self) -> None:
        """Break the connection, and wait for the next one."""
        count = len(self.peers)
        await self.transports[-1].disconnect()
        await eventually(lambda: len(self.peers) > count)
        await settle()


@asynccontextmanager
async def node_and_client(**options: Any) -> AsyncIterator[tuple[Node, ReconnectingSession]]:
    node = Node()
    delays = {"min_delay_seconds": 1.0, "max_delay_seconds": 1.0, **options}
    try:
        async with ReconnectingSession(node.make, **delays) as client:
            yield node, client
    finally:
        for peer in node.peers:
            await peer.close(0)


@pytest.mark.virtual_time
async def test_a_subscription_goes_on_in_the_next_session_after_a_gap() -> None:
    async with node_and_client() as (node, client):
        subscriptions = Subscriptions(client)
        logs = await subscriptions.subscribe("logs", {"address": "0x5"})
        heads = await subscriptions.subscribe("newHeads")
        assert (logs.id, heads.id) == (1, 2)
        await node.publish((1, "log 1"), (2, "head 1"))
        await logs.close()
        assert node.unsubscribed == [1]
        began = asyncio.get_running_loop().time()
        await node.lose()
        lost = asyncio.get_running_loop().time() - began
        assert node.subscribed[2:] == [["newHeads"]]
        assert heads.id == 1  # like the other one
        more = await subscriptions.subscribe("more")
        await node.publish((1, "head 2"), (2, "more 1"))
        assert await anext(heads) == "head 1"
        gap = await anext(heads)
        assert isinstance(gap, Gap)
        assert 0 <= gap.seconds <= lost
        assert await anext(heads) == "head 2"
        assert await anext(more) == "more 1"
        with pytest.raises(StopAsyncIteration):
            await anext(await logs_after_its_item(logs))
        await heads.close()
        assert node.unsubscribed == [1, 1]


async def logs_after_its_item(logs: Any) -> Any:
    assert await anext(logs) == "log 1"
    return logs


@pytest.mark.virtual_time
@pytest.mark.ci
async def test_gaps_that_follow_one_another_are_one() -> None:
    async with node_and_client() as (node, client):
        heads = await Subscriptions(client, max_items=3).subscribe("newHeads")
        await node.publish((1, "first"))
        began = asyncio.get_running_loop().time()
        for _ in range(20):
            await node.lose()
        await node.publish((1, "last"))
        assert await anext(heads) == "first"
        gap = await anext(heads)
        assert isinstance(gap, Gap)
        assert 1 < gap.seconds <= asyncio.get_running_loop().time() - began
        assert await anext(heads) == "last"


@pytest.mark.virtual_time
async def test_a_reader_that_waits_gets_the_gap_when_there_is_a_subscription_again() -> None:
    async with node_and_client() as (node, client):
        heads = await Subscriptions(client).subscribe("newHeads")
        waiting = asyncio.ensure_future(anext(heads))
        await node.lose()
        assert isinstance(await waiting, Gap)
        waiting = asyncio.ensure_future(anext(heads))
        await node.publish((heads.id, "new"))
        assert await waiting == "new"


@pytest.mark.virtual_time
async def test_one_that_is_closed_without_a_connection_is_not_made_again() -> None:
    async with node_and_client() as (node, client):
        heads = await Subscriptions(client).subscribe("newHeads")
        await node.transports[-1].disconnect()
        await settle()
        assert client.session is None
        await heads.close()
        await client.connected()
        await settle()
        assert node.subscribed == [["newHeads"]]
        assert node.unsubscribed == []


@pytest.mark.virtual_time
async def test_a_peer_that_does_not_respond_in_the_next_session_is_asked_again_after_the_timeout() -> None:
    async with node_and_client() as (node, client):
        heads = await Subscriptions(client).subscribe("newHeads", timeout=5)
        node.is_silent = True
        await node.lose()
        node.is_silent = False
        began = asyncio.get_running_loop().time()
        assert isinstance(await anext(heads), Gap)
        assert 4 < asyncio.get_running_loop().time() - began < 7


@pytest.mark.virtual_time
async def test_a_peer_that_refuses_in_the_next_session_ends_the_subscription() -> None:
    async with node_and_client() as (node, client):
        subscriptions = Subscriptions(client)
        heads = await subscriptions.subscribe("newHeads")
        node.refusal = RpcError(-32000, "no more")
        await node.lose()
        with pytest.raises(RpcError, match="no more"):
            await anext(heads)
        node.refusal = None
        await node.lose()
        assert node.subscribed == [["newHeads"]]
        assert (await subscriptions.subscribe("newHeads")).id == 1


@pytest.mark.virtual_time
async def test_a_subscribe_waits_for_a_connection() -> None:
    async with node_and_client() as (node, client):
        subscriptions = Subscriptions(client)
        await node.transports[-1].disconnect()
        await settle()
        with pytest.raises(CallTimeout):
            await subscriptions.subscribe("newHeads", timeout=0.0001)
        heads = await subscriptions.subscribe("newHeads", timeout=60)
        assert heads.id == 1
        await node.publish((1, "first"))
        assert await anext(heads) == "first"  # it has missed nothing


@pytest.mark.virtual_time
async def test_they_end_with_the_session_that_connects_again() -> None:
    async with node_and_client(max_attempts=1) as (node, client):
        subscriptions = Subscriptions(client)
        heads = await subscriptions.subscribe("newHeads")
        await node.publish((1, "first"))

        node.is_down = True
        await node.transports[-1].disconnect()
        assert await anext(heads) == "first"
        with pytest.raises(ConnectionLost) as caught:
            await anext(heads)
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)
        with pytest.raises(StateError):
            Subscriptions(client)
    async with node_and_client() as (_, client):
        heads = await Subscriptions(client).subscribe("newHeads")
    with pytest.raises(ConnectionLost):
        await anext(heads)


@pytest.mark.virtual_time
async def test_two_of_them_need_two_notifications() -> None:
    async with node_and_client() as (node, client):
        Subscriptions(client)
        with pytest.raises(ValueError, match="already"):
            Subscriptions(client)
        Subscriptions(client, methods=("eth_subscribe", "eth_unsubscribe", "other"))
        await node.lose()
        assert client.session is not None


@pytest.mark.virtual_time
async def test_after_a_goodbye_the_next_session_takes_over() -> None:
    async with node_and_client() as (node, client):
        heads = await Subscriptions(client).subscribe("newHeads")
        release = asyncio.Event()
        node.peers[0].register("wait", release.wait)
        call = asyncio.ensure_future(client.call("wait"))
        await settle()
        node.transports[0].onstop(None)
        while len(node.peers) == 1:
            await asyncio.sleep(0.1)
        await settle()
        await node.publish((1, "of the old one"), peer=0)
        await node.publish((1, "of the new one"))
        assert isinstance(await anext(heads), Gap)
        assert await anext(heads) == "of the new one"
        release.set()
        assert await call is True


# A node whose responses the test gives, and which gives the same id on each connection.


class Wires:
    """Wires, one for each connection."""

    def __init__(self) -> None:
        self.made: list[Wire] = []

    async def make(self) -> Any:
        one, other = memory_pair()
        self.made.append(Wire(other))
        await other.start()
        return one

    async def nth(self, number: int) -> Wire:
        """Return the wire of a connection, when it is made."""
        await eventually(lambda: len(self.made) > number, 3600)
        return self.made[number]

    async def subscribing(self, number: int) -> tuple[Wire, int]:
        """Wait for a call that subscribes. Return the wire and the id of the call."""
        wire = await self.nth(number)
        request = await wire.next()
        assert request == Request(request.id, "eth_subscribe", ["newHeads"])
        return wire, request.id


@asynccontextmanager
async def wires_and_heads(**options: Any) -> AsyncIterator[tuple[Wires, ReconnectingSession, Any]]:
    """Subscribe over a session that connects again, and lose the first connection."""
    wires = Wires()
    async with ReconnectingSession(
        wires.make, **{"min_delay_seconds": 1.0, "max_delay_seconds": 8.0, **options}
    ) as client:
        subscribing = asyncio.ensure_future(Subscriptions(client, max_items=5).subscribe("newHeads"))
        wire, id = await wires.subscribing(0)
        wire.send(encode_result(id, "0x1"))
        heads = await subscribing
        await wire.transport.disconnect()
        yield wires, client, heads
    for wire in wires.made:
        await wire.transport.disconnect()


BUSY = (-32009, "Server busy")


@rows("answers", ["old, new", "new, old", "new", "new, refused", "refused, new", "busy, new", "new, busy"])
@pytest.mark.virtual_time
@pytest.mark.ci
async def test_a_goodbye_while_it_is_made_again(answers: str) -> None:
    async with wires_and_heads() as (wires, _, heads):
        old, id = await wires.subscribing(1)
        old.send(encode_notification("rpc.goodbye", {"last": id}))
        new, again = await wires.subscribing(2)
        for answer in answers.split(", "):
            if answer == "new":
                new.send(encode_result(again, "0x1"))
            elif answer == "old":
                old.send(encode_result(id, "0x1"))
            else:
                old.send(encode_error(id, *(BUSY if answer == "busy" else (-32000, "no"))))
            await settle()
        for number in range(20):  # to subscriptions of others
            new.send(result(f"other {number}", 1))
        old.send(result("0x1", "of the old one"))
        new.send(result("0x1", "of the new one"))
        assert isinstance(await anext(heads), Gap)
        assert await anext(heads) == "of the new one"
        assert heads.id == "0x1"
        assert new.received == []
        await old.transport.disconnect()
        new.send(result("0x1", "last"))
        assert await anext(heads) == "last"


@pytest.mark.virtual_time
async def test_a_busy_peer_is_asked_again_after_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda least, bound: bound)
    async with wires_and_heads() as (wires, _, heads):
        times: list[float] = []
        for _ in range(6):
            wire, id = await wires.subscribing(1)
            times.append(asyncio.get_running_loop().time())
            wire.send(encode_error(id, *BUSY))
        wire, id = await wires.subscribing(1)
        wire.send(encode_result(id, "0x1"))
        assert [round(time - times[0]) for time in times] == [0, 1, 3, 7, 15, 23]
        gap = await anext(heads)
        assert gap.seconds == pytest.approx(32, abs=1)
        wire.send(result("0x1", "new"))
        assert await anext(heads) == "new"


@rows("attempts, error", [(3, BUSY), (1, (-32000, "no"))])
@pytest.mark.virtual_time
async def test_it_is_asked_as_often_as_the_session_tries(attempts: int, error: tuple[int, str]) -> None:
    async with wires_and_heads(max_attempts=3) as (wires, client, heads):
        for _ in range(attempts):
            wire, id = await wires.subscribing(1)
            wire.send(encode_error(id, *error))
        with pytest.raises(RpcError, match=error[1]):
            await anext(heads)
        await asyncio.sleep(100)
        assert wire.received == []
        assert client.session is not None


@rows("end", ["the reader", "the connection", "the session"])
@pytest.mark.virtual_time
async def test_what_ends_while_it_waits_to_be_asked_again(end: str) -> None:
    async with wires_and_heads(min_delay_seconds=5.0) as (wires, client, heads):
        wire, id = await wires.subscribing(1)
        wire.send(encode_error(id, *BUSY))
        await settle()
        if end == "the reader":
            await heads.close()
            with pytest.raises(StopAsyncIteration):
                await anext(heads)
        elif end == "the connection":
            await wire.transport.disconnect()
            wire, id = await wires.subscribing(2)
            wire.send(encode_result(id, "0x1"))
            assert isinstance(await anext(heads), Gap)
        else:
            await client.close()
            with pytest.raises(ConnectionLost):
                await anext(heads)
        await asyncio.sleep(100)
        assert wire.received == []


@pytest.mark.virtual_time
async def test_a_late_answer_does_not_unsubscribe_what_is_being_made_again() -> None:
    async with wires_and_heads(timeout=10) as (wires, _, heads):
        wire, id = await wires.subscribing(1)
        _, again = await wires.subscribing(1)
        wire.send(encode_result(id, "0x1"))  # too late
        await settle()
        assert wire.received == []
        wire.send(encode_result(again, "0x1"))
        assert isinstance(await anext(heads), Gap)
        wire.send(result("0x1", "new"))
        assert await anext(heads) == "new"
        assert wire.received == []


@rows("retry", [lambda error: 1 // 0, lambda error: False])
@pytest.mark.virtual_time
async def test_the_rule_of_the_session_says_whether_it_is_asked_again(retry: Any) -> None:
    async with wires_and_heads(retry=retry) as (wires, _, heads):
        wire, id = await wires.subscribing(1)
        wire.send(encode_error(id, *BUSY))
        with pytest.raises((RpcError, ZeroDivisionError)):
            await anext(heads)


@pytest.mark.virtual_time
async def test_a_session_with_another_handler_for_the_notification_ends_it() -> None:
    node = Node()

    async def take(session: Session) -> None:
        if len(node.peers) > 1:
            session.register("eth_subscription", print)

    async with ReconnectingSession(node.make, min_delay_seconds=1.0, on_connect=take) as client:
        subscriptions = Subscriptions(client)
        heads = await subscriptions.subscribe("newHeads")
        await node.lose()
        with pytest.raises(ValueError, match="already"):
            await anext(heads)
        with pytest.raises(StateError, match="another handler"):
            await subscriptions.subscribe("newHeads", timeout=5)
    for peer in node.peers:
        await peer.close(0)


@rows("turns", range(1, 12))
@rows("end", ["close", "goodbye", "loss"])
@pytest.mark.virtual_time
@pytest.mark.ci
async def test_an_end_close_to_the_answer_leaves_no_reader_waiting(end: str, turns: int) -> None:
    wires = Wires()
    async with ReconnectingSession(wires.make, min_delay_seconds=1.0) as client:
        subscribing = asyncio.ensure_future(Subscriptions(client).subscribe("newHeads"))
        wire, id = await wires.subscribing(0)
        wire.send(encode_result(id, "0x1"))
        for _ in range(turns):
            await asyncio.sleep(0)
        if end == "close":
            await client.close(0)
            with pytest.raises(ConnectionLost):
                await anext(await subscribing)
        elif end == "goodbye":
            wire.send(encode_notification("rpc.goodbye", {"last": id}))
        else:
            await wire.transport.disconnect()
        if end != "close":
            wire, id = await wires.subscribing(1)
            wire.send(encode_result(id, "0x1"))
            wire.send(result("0x1", "new"))
            heads = await subscribing
            assert isinstance(await anext(heads), Gap)
            assert await anext(heads) == "new"
            assert wire.received == []
    for made in wires.made:
        await made.transport.disconnect()
