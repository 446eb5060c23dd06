"""The progress of a call, passed to `on_progress`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jsonrpc_fast.errors import CallTimeout, RpcError

from ...support.mcp_script import scripted
from ...support.session_pairs import Faults
from ...support.tables import rows
from ...support.waiting import settle


def progress_of(token: object, **members: Any) -> dict[str, Any]:
    return {"method": "notifications/progress", "params": {"progressToken": token, **members}}


@rows("factory", [None, getattr(asyncio, "eager_task_factory", None)])
async def test_an_async_on_progress_is_awaited(factory: Any) -> None:
    received: list[Any] = []
    hooks = Faults()

    async def on_progress(progress: dict[str, Any]) -> None:
        received.append(progress["progress"])
        for _ in range(3):
            await asyncio.sleep(0)
        received.append(-progress["progress"])
        if progress["progress"] == 2:
            raise KeyError("two")

    if factory is not None:
        asyncio.get_running_loop().set_task_factory(factory)

    def call(params: dict[str, Any]) -> dict[str, Any]:
        for step in (1, 2, 3):
            script.write(progress_of(params["_meta"]["progressToken"], progress=step))
        return {"content": []}

    async with scripted({"tools/call": call}, hooks=hooks) as (client, script):
        await client.call_tool("t", on_progress=on_progress)
        assert received == [1, -1, 2, -2, 3, -3]
        assert [repr(fault) for fault in hooks.seen] == ["KeyError('two')"]


@pytest.mark.virtual_time
async def test_an_async_on_progress_ends_with_its_call() -> None:
    ended: list[str] = []
    begun: list[int] = []

    async def on_progress(progress: dict[str, Any]) -> None:
        begun.append(progress["progress"])
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with scripted() as (client, script):
        for answer in (None, {"content": []}, RpcError(-32000, "no")):

            def call(params: dict[str, Any], answer: Any = answer) -> Any:
                for step in range(3):
                    script.write(progress_of(params["_meta"]["progressToken"], progress=step))
                return answer

            script.answers["tools/call"] = call
            calling = client.call_tool("t", on_progress=on_progress, timeout=0.3)
            if isinstance(answer, dict):
                assert await calling == answer  # it arrived in time
            else:
                with pytest.raises((CallTimeout, RpcError)):
                    await calling
            await settle()
        assert ended == ["cancelled"] * 3
        assert begun == [0, 0, 0]


async def test_excess_progress_is_dropped() -> None:
    received: list[int] = []

    async def on_progress(progress: dict[str, Any]) -> None:
        received.append(progress["progress"])

    def call(params: dict[str, Any]) -> dict[str, Any]:
        for step in range(1000):
            script.write(progress_of(params["_meta"]["progressToken"], progress=step))
        return {"content": []}

    async with scripted({"tools/call": call}) as (client, script):
        await client.call_tool("t", on_progress=on_progress)
        assert received[0] == 0
        assert received[-1] == 999
        assert received == sorted(received)


@rows(
    "wrong",
    [
        {},
        {"progress": "1"},
        {"progress": True},
        {"progress": None},
        {"progress": [1]},
        {"progress": 1, "total": "2"},
        {"progress": 1, "total": False},
        {"progress": 1, "message": 3},
    ],
)
async def test_malformed_progress_does_not_reach_on_progress(wrong: dict[str, Any]) -> None:
    received: list[Any] = []

    def call(params: dict[str, Any]) -> dict[str, Any]:
        token = params["_meta"]["progressToken"]
        script.write(progress_of(token, **wrong))
        script.write(progress_of(token, progress=0.5, total=None, message=None))
        script.write(progress_of(token, progress=1, total=2, message="m"))
        return {"content": []}

    async with scripted({"tools/call": call}) as (client, script):
        await client.call_tool("t", on_progress=received.append)
        assert received == [{"progress": 0.5}, {"progress": 1, "total": 2, "message": "m"}]
