"""Calls of one turn of the event loop in one batch: `Batching`, in front of an `AsyncHttpClient`, on asyncio.

    batching = Batching(client, max_items=100)
    blocks = await asyncio.gather(*[batching.call("eth_getBlockByNumber", [hex(number), False]) for number in numbers])

Calls with the same options that begin in one turn of the loop are sent together. A single call is sent without a batch,
and so is a notification, at once.

Rules:
  - Each caller gets its own result or exception: params that cannot be encoded fail their own call, and the others are
    sent. An error for the whole batch is raised to each caller, and so is a lost connection.
  - Cancelling a caller cancels no other call. When no call of a batch is awaited any longer, its request is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..codec import Notification, Params
from ..errors import EncodeError
from ..handlers.caller import Caller, SendOptions
from ..support import check_count, check_type
from ..types import UNSET, Unset
from .client import AsyncHttpClient


class _Item(NamedTuple):
    """A call that waits for its batch, or for its result."""

    method: str
    params: Any
    result: asyncio.Future[Any]
    extra: Mapping[str, Any] | None


class Batching(Caller):
    """Gathers the calls of one turn of the loop into batches. A `timeout` is for the whole batch.

    It holds no resources itself: close the client.

    Args:
        client: The client that sends the batches.
        max_items: The maximum number of calls in a batch: the server's limit.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """

    def __init__(self, client: AsyncHttpClient, *, max_items: int = 100) -> None:
        check_type("client", client, AsyncHttpClient)
        check_count("max_items", max_items, 1, may_be_none=False)
        self._client = client
        self._max_items = max_items
        self._waiting: dict[Any, list[_Item]] = {}  # by their options
        self._tasks: set[asyncio.Task[None]] = set()

    async def _send(
        self,
        method: str,
        params: Params,
        is_call: bool,
        is_typed: bool,
        *,
        timeout: float | Unset | None = UNSET,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Any:
        if not is_call:
            return await self._client.notify(method, params, timeout=timeout, headers=headers, extra=extra)
        loop = asyncio.get_running_loop()
        item = _Item(method, params, loop.create_future(), extra)
        options = timeout, tuple(sorted((headers or {}).items())), _key_of(extra)
        waiting = self._waiting.setdefault(options, [])
        waiting.append(item)
        if len(waiting) == self._max_items:
            self._flush(options)
        elif len(waiting) == 1:
            # Calls that begin in the same turn of the loop run before this callback, and join the list.
            loop.call_soon(self._flush, options, waiting)
        return await item.result

    def _flush(self, options: Any, waiting: list[_Item] | None = None) -> None:
        """Send the waiting calls, unless `waiting` is a list that has already been sent."""
        # A full list is sent at once; its callback must not send the next list.
        if waiting is not None and self._waiting.get(options) is not waiting:
            return
        items = [item for item in self._waiting.pop(options) if not item.result.done()]
        if items:
            task = asyncio.get_running_loop().create_task(self._settle(items, *options))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            left = len(items)

            # Cancel the request when no call is awaited any longer: every future is done, by its result or by its
            # caller.
            def leave(_: object) -> None:
                nonlocal left
                left -= 1
                if not left:
                    task.cancel()

            for item in items:
                item.result.add_done_callback(leave)

    async def _settle(self, items: list[_Item], timeout: Any, headers: Any, _: object) -> None:
        try:
            options: SendOptions = {"timeout": timeout, "headers": dict(headers), "extra": items[0].extra}
            results = await self._results(items, options)
            for item, result in zip(items, results, strict=True):
                if item.result.done():
                    continue
                if isinstance(result, Exception):
                    item.result.set_exception(result)
                else:
                    item.result.set_result(result)
        finally:
            for item in items:
                item.result.cancel()  # the futures that are left when this task is cancelled

    async def _results(self, items: list[_Item], options: SendOptions) -> list[Any]:
        """Return the result of each call, or its exception."""
        calls = [(item.method, item.params) for item in items]
        try:
            if len(calls) == 1:
                return [await self._client.call(*calls[0], **options)]
            return await self._client.call_batch(calls, **options)
        except TypeError as error:  # params that cannot be encoded: nothing was sent
            if len(items) == 1:
                return [error]
        except Exception as error:
            return [error] * len(items)
        # Halving finds the faulty params in a logarithmic number of rounds, and sends the other calls in few requests.
        middle = len(items) // 2
        parts = [self._results(part, options) for part in (items[:middle], items[middle:])]
        first, second = await asyncio.gather(*parts)
        return first + second


def _key_of(extra: Mapping[str, Any] | None) -> object:
    """Return what is equal for further members that are written alike."""
    if not extra:
        return None
    try:
        return Notification("", extra=dict(extra)).to_bytes()
    except EncodeError:  # only the client's `default` can write them
        return id(extra)
