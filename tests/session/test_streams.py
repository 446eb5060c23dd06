"""Results in parts: what handlers send, and what `Session.stream` reads."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jsonrpc_fast import Notification, Raw, Request, Response, encode
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, EncodeError, RpcError, StateError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.session import (
    Convention,
    JsonRpcConvention,
    LspConvention,
    McpConvention,
    Session,
    SessionContext,
    Stream,
    streams,
)
from jsonrpc_fast.transports import StreamTransport, TcpClient, TcpServer

from ..support.clock import virtual_sleep
from ..support.session_pairs import Faults, session_and_wire, sessions
from ..support.tables import rows
from ..support.waiting import eventually, settle

pytestmark = pytest.mark.usefixtures("each_loop")
LSP: Any = {"convention": LspConvention()}


class Source:
    """Handlers whose items are counted."""

    def __init__(self, kind: str = "number") -> None:
        self.sent = 0
        self.ended: list[str] = []
        self.pause = 0.0

    async def count(self, upto: int, **rest: Any) -> AsyncIterator[Any]:
        try:
            for number in range(upto):
                await (virtual_sleep(self.pause) if self.pause else asyncio.sleep(0))
                self.sent += 1
                yield number
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        finally:
            self.ended.append("closed")

    async def chunks(self, upto: int, **rest: Any) -> AsyncIterator[Any]:
        for number in range(upto):
            yield [number, -number]

    async def progress(self, upto: int, **rest: Any) -> AsyncIterator[Any]:
        for number in range(upto):
            yield {"progress": number, "message": "on its way"}

    async def fail(self, **rest: Any) -> AsyncIterator[Any]:
        yield 1
        raise RpcError(5, "no")

    async def unwritable(self, **rest: Any) -> AsyncIterator[Any]:
        yield object()

    async def parts(self, context: SessionContext, **rest: Any) -> str:
        return "sent" if all([await context.send_item(part) for part in "abc"]) else "abc"

    def whole(self, **rest: Any) -> list[int]:
        return [1, 2]

    def handlers(self) -> dict[str, Any]:
        names = ("count", "chunks", "progress", "fail", "unwritable", "parts", "whole")
        return {name: getattr(self, name) for name in names}


@rows(
    ("convention", "method", "params", "items", "result", "whole"),
    [
        (LspConvention(), "count", {"upto": 3}, [0, 1, 2], None, [0, 1, 2]),
        (LspConvention(), "count", {"upto": 0}, [], [], []),
        (LspConvention(), "chunks", {"upto": 2}, [[0, 0], [1, -1]], None, [0, 0, 1, -1]),
        (LspConvention(), "parts", None, ["a", "b", "c"], "sent", "abc"),
        (LspConvention(), "whole", None, [], [1, 2], [1, 2]),
        (
            McpConvention(),
            "progress",
            {"upto": 2},
            [{"progress": 0, "message": "on its way"}, {"progress": 1, "message": "on its way"}],
            {},
            {},
        ),
    ],
)
async def test_items_and_results(
    convention: Convention, method: str, params: Any, items: list[Any], result: Any, whole: Any
) -> None:
    options: Any = {"convention": convention}
    async with sessions(Source().handlers(), client_options=options, **options) as (client, _):
        stream = client.stream(method, params)
        assert [item async for item in stream] == items
        assert stream.result == result
        assert await client.call(method, params) == whole
        assert client.is_idle


async def test_the_wire_of_lsp() -> None:
    async with session_and_wire(Source().handlers(), **LSP) as (session, wire):
        wire.send(encode(Request(1, "chunks", {"upto": 1, "partialResultToken": "p", "workDoneToken": "w"})))
        assert await wire.next() == Notification("$/progress", {"token": "p", "value": [0, 0]})
        assert await wire.next() == Response(1, None)
        reading = asyncio.ensure_future(anext(session.stream("search", {"text": "tea"})))
        request = await wire.next()
        assert request == Request(request.id, "search", {"text": "tea", "partialResultToken": request.id})
        wire.send(encode(Notification("$/progress", {"token": request.id, "value": "item"})))
        assert await reading == "item"
        assert await wire.next() == Notification("$/cancelRequest", {"id": request.id})


async def numbers(upto: int) -> AsyncIterator[int]:
    for number in range(upto):
        yield number


async def seen(upto: int, partialResultToken: Any = None, _meta: Any = None) -> AsyncIterator[Any]:
    yield {"progress": upto, "message": f"{type(partialResultToken).__name__} {type(_meta).__name__}"}


@rows(
    ("convention", "options", "raw"),
    [
        (LspConvention(), {}, False),
        (LspConvention(), {}, True),
        (LspConvention(), {"typed": True}, False),
        (LspConvention(), {"typed": True}, True),
    ],
)
async def test_a_generator_is_called_without_tokens_that_it_does_not_take(
    convention: Convention, options: Any, raw: bool
) -> None:
    if options:
        pytest.importorskip("msgspec", reason="the extra `typed` is not installed")
    handlers = Handlers()
    handlers.register("numbers", numbers, **options)
    common: Any = {"convention": convention}
    async with sessions(handlers, client_options=common, **common) as (client, _):
        params = {"upto": 2, "workDoneToken": "w"}
        stream = client.stream("numbers", Raw(json.dumps(params)) if raw else params)
        assert [item async for item in stream] == [0, 1]
        with pytest.raises(RpcError, match="Invalid params"):
            await client.call("numbers", {"upto": 2, "other": 1})


@rows(("convention", "message"), [(LspConvention(), "int NoneType"), (McpConvention(), "NoneType dict")])
async def test_a_generator_may_take_the_token(convention: Convention, message: str) -> None:
    options: Any = {"convention": convention}
    async with sessions({"seen": seen}, client_options=options, **options) as (client, _):
        assert [item async for item in client.stream("seen", {"upto": 1})] == [{"progress": 1, "message": message}]


@rows("convention", [Convention(), JsonRpcConvention()])
async def test_a_convention_without_progress(convention: Convention) -> None:
    async with sessions(Source().handlers(), client_options={"convention": convention}) as (client, _):
        with pytest.raises(StateError, match="no progress"):
            client.stream("count", {"upto": 1})
        assert await client.call("count", {"upto": 2}) == [0, 1]


@rows("how", ["break", "raise", "close", "with", "cancel", "delete"])
@pytest.mark.ci
async def test_a_stream_that_is_left_cancels_its_request(how: str) -> None:
    source = Source()
    async with sessions(source.handlers(), client_options=LSP, **LSP) as (client, _):
        await leave(client, how)
        gc.collect()
        await eventually(lambda: source.ended == ["cancelled", "closed"])
        await eventually(lambda: client.is_idle)


async def leave(client: Session, how: str) -> None:
    if how == "break":
        async for item in client.stream("count", {"upto": 10**6}):
            if item == 3:
                break
    elif how == "raise":
        with pytest.raises(ZeroDivisionError):
            await divide(client.stream("count", {"upto": 10**6}))
    elif how == "with":
        async with client.stream("count", {"upto": 10**6}) as stream:
            await anext(stream)
    elif how == "cancel":
        task = asyncio.ensure_future(read_all(client.stream("count", {"upto": 10**6})))
        await settle(20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        stream = client.stream("count", {"upto": 10**6})
        await anext(stream)
        if how == "close":
            stream.close()
            stream.close()
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            with pytest.raises(StateError, match="no result"):
                _ = stream.result


async def divide(stream: Stream) -> None:
    async for item in stream:
        1 / (3 - item)


async def read_all(stream: Stream) -> list[Any]:
    return [item async for item in stream]


async def test_errors_come_after_the_items() -> None:
    async with sessions(Source().handlers(), client_options=LSP, hooks=Faults(), **LSP) as (client, _):
        stream = client.stream("fail")
        assert await anext(stream) == 1
        for _ in range(2):
            with pytest.raises(RpcError, match="no"):
                await anext(stream)
        with pytest.raises(RpcError) as caught:
            await anext(client.stream("unwritable"))
        assert caught.value.code == -32603
        with pytest.raises(RpcError, match="Method not found"):
            await anext(client.stream("unknown"))
        for _ in range(2):
            with pytest.raises((EncodeError, StopAsyncIteration)):
                await anext(stream := client.stream("count", {"upto": object()}))
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


@pytest.mark.virtual_time
async def test_timeouts() -> None:
    source = Source()
    source.pause = 2.0
    options = {**LSP, "timeout": 3}
    async with sessions(source.handlers(), client_options=options, **LSP) as (client, _):
        assert await read_all(client.stream("count", {"upto": 5})) == [0, 1, 2, 3, 4]
        for timeouts in ({"timeout": 5}, {"idle_timeout": 1}):
            with pytest.raises(CallTimeout):
                await read_all(client.stream("count", {"upto": 5}, **timeouts))  # type: ignore[arg-type]


async def test_a_loss_ends_a_stream() -> None:
    source = Source()
    async with sessions(source.handlers(), client_options=LSP, **LSP) as (client, server):
        stream = client.stream("count", {"upto": 10**6})
        assert await anext(stream) == 0
        await server.close(0)
        with pytest.raises(ConnectionLost):
            await read_all(stream)
        assert source.ended == ["cancelled", "closed"]


async def test_one_task_reads_at_a_time() -> None:
    async with session_and_wire(**LSP) as (session, _):
        stream = session.stream("m")
        reading = asyncio.ensure_future(anext(stream))
        await settle()
        with pytest.raises(StateError, match="another task"):
            await anext(stream)
        reading.cancel()


@rows("max_items", [0, -1, True, 1.5, "1"])
async def test_wrong_options(max_items: Any) -> None:
    async with session_and_wire(**LSP) as (session, _):
        with pytest.raises((TypeError, ValueError)):
            session.stream("m", max_items=max_items)


class ArrayConvention(LspConvention):
    """Its token is the last item of an array."""

    def item_token(self, params: Any) -> int | str | None:
        return next(reversed(params), None) if isinstance(params, list) else super().item_token(params)

    def with_item_token(self, params: Any, token: int | str) -> Any:
        return [*params, token] if isinstance(params, list) else super().with_item_token(params, token)


@rows(
    ("convention", "params"),
    [
        (LspConvention(), [1]),
        (LspConvention(), []),
        (LspConvention(), Raw(b"[1]")),
        (McpConvention(), [1]),
        (McpConvention(), {"_meta": 1}),
    ],
)
async def test_params_that_cannot_carry_a_token(convention: Convention, params: Any) -> None:
    async with session_and_wire(convention=convention) as (session, _):
        with pytest.raises(TypeError, match="params must be an object or None"):
            session.stream("m", params)


@rows(
    ("convention", "params", "sent"),
    [
        (LspConvention(), None, {"partialResultToken": 1}),
        (LspConvention(), Raw(b'{"a":1}'), {"a": 1, "partialResultToken": 1}),
        (LspConvention(), {"partialResultToken": "own"}, {"partialResultToken": "own"}),
        (ArrayConvention(), [], [1]),
    ],
)
async def test_params_that_can_carry_a_token(convention: Convention, params: Any, sent: Any) -> None:
    async with session_and_wire(convention=convention) as (session, wire):
        reading = asyncio.ensure_future(anext(session.stream("m", params)))
        request = await wire.next()
        assert request == Request(request.id, "m", sent)
        reading.cancel()


class Tcp:
    """A client and a server over TCP."""

    def __init__(self, source: Source, **handlers: Any) -> None:
        self.handlers = {**source.handlers(), **handlers}

    async def __aenter__(self) -> Session:
        async def serve(transport: StreamTransport) -> None:
            async with Session(transport, self.handlers, **LSP) as session:
                await session.wait_closed()

        self.server = TcpServer(serve, "127.0.0.1", 0)
        await self.server.start()
        self.client = Session(TcpClient(*self.server.address), {"ask": lambda: "answer"}, **LSP)
        await self.client.start()
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.close(0)
        await self.server.close(0)


async def test_a_generator_waits_for_the_reader() -> None:
    """1 GB would be sent; the system keeps some MB for a socket."""
    sent = 0

    async def endless(**rest: Any) -> AsyncIterator[str]:
        nonlocal sent
        while True:
            sent += 1
            yield "x" * 10_000

    async with Tcp(Source(), endless=endless) as client:
        stream = client.stream("endless", max_items=10)
        assert len(await anext(stream)) == 10_000
        before = -1
        while sent != before:
            before = sent
            await settle(200)
        assert sent < 5000
        for _ in range(sent + 100):
            await anext(stream)
        assert sent > before
        stream.close()
        assert await client.call("whole") == [1, 2]


async def test_a_full_stream_is_read_on_while_this_side_waits_for_something_else() -> None:
    source = Source()
    async with Tcp(source) as client:
        stream = client.stream("count", {"upto": 3000}, max_items=2000)
        assert await anext(stream) == 0
        await settle(2000)
        assert await asyncio.wait_for(client.call("whole"), 10) == [1, 2]  # its response is behind the items
        assert await read_all(stream) == list(range(1, 3000))


async def test_a_stream_that_nobody_reads_ends() -> None:
    source = Source()
    async with Tcp(source) as client:
        stream = client.stream("count", {"upto": 3000}, max_items=10)
        assert await anext(stream) == 0
        await settle(2000)
        assert await asyncio.wait_for(client.call("whole"), 10) == [1, 2]
        with pytest.raises(StateError, match="20 items"):
            await read_all(stream)
        await eventually(lambda: source.ended == ["cancelled", "closed"] or source.sent == 3000)


async def test_full_streams_wait_for_their_readers_together() -> None:
    async with Tcp(Source()) as client:
        several = [client.stream("count", {"upto": 500}, max_items=400) for _ in range(3)]
        for stream in several:
            assert await anext(stream) == 0
        for stream in several:
            assert await asyncio.wait_for(read_all(stream), 10) == list(range(1, 500))


async def test_the_size_of_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_BYTES", 100_000)
    async with session_and_wire(**LSP) as (session, wire):
        stream = session.stream("m")
        reading = asyncio.ensure_future(anext(stream))
        request = await wire.next()
        for _ in range(12):
            wire.send(encode(Notification("$/progress", {"token": request.id, "value": "x" * 10_000})))
            await settle()
        assert len(await reading) == 10_000
        assert not wire.other.is_reading
        for _ in range(6):
            await anext(stream)
        await settle()
        assert wire.other.is_reading
        assert [len(await anext(stream)) for _ in range(5)] == [10_000] * 5


@rows("max_items", [1, 2, 10, 1000])
@rows("upto", [0, 1, 5, 700])
@pytest.mark.ci
async def test_what_arrives_is_what_was_sent(max_items: int, upto: int) -> None:
    """Whatever the sizes and the speeds are, each item arrives once, in order."""
    async with Tcp(Source()) as client:
        stream = client.stream("count", {"upto": upto}, max_items=max(max_items, upto // 2 + 1))
        found = []
        async for item in stream:
            found.append(item)
            if item % 7 == 0:
                await asyncio.sleep(0)
        assert found == list(range(upto))
        assert stream.result == (None if upto else [])


async def test_a_handler_reads_a_stream_of_the_peer_and_holds_no_slot() -> None:
    async def total(context: SessionContext) -> int:
        return sum([item async for item in context.session.stream("count", {"upto": 5})])

    client_options = {**LSP, "max_handlers": 1}
    async with sessions({"total": total}, Source().handlers(), client_options, max_handlers=1, **LSP) as (client, _):
        assert await asyncio.gather(client.call("total"), client.call("total")) == [10, 10]
