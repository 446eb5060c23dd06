"""Calls of one turn of the loop in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("anyio", reason="the extra `http` is not installed")
pytest.importorskip("httpx2", reason="httpx2 is not installed")

import httpx2

from jsonrpc_fast import decode
from jsonrpc_fast.errors import CallTimeout, ConnectionLost, EncodeError, HttpStatusError, InvalidResponse, RpcError
from jsonrpc_fast.http import Endpoint
from jsonrpc_fast.http.batching import Batching
from jsonrpc_fast.http.client import AsyncHttpClient, HttpClient

from ..support.tables import rows
from ..support.waiting import eventually, forever, results_of, settle

Answer = Callable[[Any], Any]


def refuse() -> None:
    raise RpcError(5, "no")


FUNCTIONS: dict[str, Callable[..., Any]] = {"add": lambda a, b: a + b, "refuse": refuse, "wait": forever}


class Posts:
    """Keeps the bodies that are sent, and passes them to an endpoint, or returns a response."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.sizes: list[int] = []
        self.headers: list[Any] = []
        self.cancelled = 0
        self._answer = answer
        self._endpoint = httpx2.ASGITransport(Endpoint(FUNCTIONS))

    async def handle(self, request: Any) -> Any:
        found: Any = decode(request.content)
        self.sizes.append(len(found) if isinstance(found, list) else 0)
        self.headers.append(request.headers.get("x"))
        if self._answer is not None:
            return self._answer(request)
        try:
            return await self._endpoint.handle_async_request(request)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@asynccontextmanager
async def batching(posts: Posts, max_items: int = 100, **options: Any) -> AsyncIterator[Batching]:
    async with AsyncHttpClient("http://localhost/", transport=httpx2.MockTransport(posts.handle), **options) as client:
        yield Batching(client, max_items=max_items)


async def test_the_calls_of_a_turn() -> None:
    posts = Posts()
    async with batching(posts) as calls:
        found = await asyncio.gather(*[calls.call("add", [number, 1]) for number in range(250)])
        assert found == [number + 1 for number in range(250)]
        assert posts.sizes == [100, 100, 50]
        assert await calls.call("add", [1, 2]) == 3
    assert posts.sizes == [100, 100, 50, 0]


async def test_calls_with_equal_further_members_are_sent_together() -> None:
    posts = Posts()
    async with batching(posts, default=str) as calls:
        # Only the client's `default` can write the last two.
        members: list[Any] = [{"a": 1}, {"a": 2}, {"a": 1}, None, {}, {"a": object()}, {"a": object()}]
        assert await asyncio.gather(*[calls.call("add", [1, 2], extra=extra) for extra in members]) == [3] * 7
    assert sorted(posts.sizes) == [0, 0, 0, 2, 2]


async def test_each_caller_gets_its_own_outcome() -> None:
    posts = Posts()
    async with batching(posts) as calls:
        found = await results_of(
            calls.call("add", [1, 2]),
            calls.call("refuse"),
            calls.call("add", [2, 2], returns=str),
            calls.call("add", [3, 2], returns=int),
            calls.call("x"),
        )
    assert posts.sizes == [5]
    assert (found[0], found[3]) == (3, 5)
    assert isinstance(found[2], InvalidResponse)
    assert [error.code for error in (found[1], found[4]) if isinstance(error, RpcError)] == [5, -32601]


async def test_params_that_cannot_be_encoded_fail_their_own_call() -> None:
    posts = Posts()
    async with batching(posts) as calls:
        params: list[Any] = [[number, 1] for number in range(6)]
        params[3] = [object(), 1]
        found = await results_of(*[calls.call("add", each) for each in params])
    assert isinstance(found.pop(3), EncodeError)
    assert found == [1, 2, 3, 5, 6]
    assert sum(size or 1 for size in posts.sizes) == 5


@rows(
    "answer, error",
    [
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}', RpcError),
        (b'[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batch too large"}}]', RpcError),
        (b"<html>", InvalidResponse),
        (503, HttpStatusError),
        ("ReadError", ConnectionLost),
        ("ReadTimeout", CallTimeout),
    ],
)
async def test_one_answer_for_all(answer: Any, error: type[Exception]) -> None:
    def respond(_: Any) -> Any:
        if isinstance(answer, str):
            raise getattr(httpx2, answer)(answer)
        return httpx2.Response(answer) if isinstance(answer, int) else httpx2.Response(200, content=answer)

    async with batching(Posts(respond)) as calls:
        found = await results_of(*[calls.call("add", [1, 2]) for _ in range(3)])
    assert [type(each) for each in found] == [error] * 3


async def test_the_error_of_one_response_alone() -> None:
    """Respond like geth if the responses become too large: an error for the first call, and nothing for the others."""

    def respond(request: Any) -> Any:
        batch: Any = decode(request.content)
        text = b'[{"jsonrpc":"2.0","id":%d,"error":{"code":-32003,"message":"response too large"}}]' % batch[0].id
        return httpx2.Response(200, content=text)

    async with batching(Posts(respond)) as calls:
        found = await results_of(*[calls.call("add", [1, 2]) for _ in range(2)])
    assert [type(each) for each in found] == [RpcError, InvalidResponse]


async def test_a_caller_that_is_cancelled() -> None:
    """Before its batch is sent it is removed from it; later it cancels no other call."""
    posts = Posts()
    async with batching(posts) as calls:
        tasks = [asyncio.ensure_future(calls.call("add", [number, 1])) for number in range(3)]
        asyncio.get_running_loop().call_soon(tasks[0].cancel)
        found = await results_of(*tasks)
        assert isinstance(found[0], asyncio.CancelledError)
        assert found[1:] == [2, 3]
        tasks = [asyncio.ensure_future(calls.call(method)) for method in ("wait", "wait")]
        await eventually(lambda: len(posts.sizes) == 2)
        tasks[0].cancel()
        await settle()
        assert (tasks[0].cancelled(), tasks[1].done(), posts.cancelled) == (True, False, 0)
        tasks[1].cancel()
        await eventually(lambda: posts.cancelled == 1)
        await results_of(*tasks)


async def test_calls_whose_request_is_cancelled_are_cancelled() -> None:
    """As by a library that cancels its own requests: no caller waits forever."""

    def answer(request: Any) -> Any:
        raise asyncio.CancelledError

    async with batching(Posts(answer)) as calls:
        found = await results_of(*[asyncio.ensure_future(calls.call("add", [number, 1])) for number in range(3)])
    assert [type(each) for each in found] == [asyncio.CancelledError] * 3


async def test_no_request_is_sent_if_all_callers_have_left() -> None:
    posts = Posts()
    async with batching(posts) as calls:
        tasks = [asyncio.ensure_future(calls.call("add", [number, 1])) for number in range(3)]
        for task in tasks:
            asyncio.get_running_loop().call_soon(task.cancel)
        found = await results_of(*tasks)
        await settle()
    assert [type(each) for each in found] == [asyncio.CancelledError] * 3
    assert posts.sizes == []


async def test_the_error_of_one_call_is_raised() -> None:
    async with batching(Posts()) as calls:
        with pytest.raises(RpcError) as caught:
            await calls.call("refuse")
    assert caught.value.code == 5


async def test_calls_with_other_options_are_sent_apart() -> None:
    posts = Posts()
    async with batching(posts) as calls:
        options: list[dict[str, Any]] = [{}, {"headers": {"x": "1"}}, {}, {"headers": {"x": "1"}}, {"timeout": 5}]
        found = await asyncio.gather(*[calls.call("add", [1, 2], **each) for each in options])
    assert found == [3] * 5
    assert posts.sizes == [2, 2, 0]
    assert posts.headers == [None, "1", None]


async def test_a_deadline() -> None:
    async with batching(Posts(), timeout=0.01) as calls:
        found = await results_of(calls.call("wait"), calls.call("add", [1, 2]))
    assert [type(each) for each in found] == [CallTimeout] * 2


async def test_wrong_arguments() -> None:
    with HttpClient("http://localhost/") as client, pytest.raises(TypeError):
        Batching(client)  # type: ignore[arg-type]
    async with AsyncHttpClient("http://localhost/") as other:
        with pytest.raises(ValueError, match="max_items"):
            Batching(other, max_items=0)


async def test_a_real_server() -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from ..support.asgi_servers import serving

    async with serving(Endpoint(FUNCTIONS)) as url, AsyncHttpClient(url) as client:
        calls = Batching(client, max_items=7)
        found = await asyncio.gather(*[calls.call("add", [number, 1]) for number in range(50)])
    assert found == [number + 1 for number in range(50)]
