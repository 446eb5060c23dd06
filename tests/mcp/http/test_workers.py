"""The files on docs/deploy/mcp.md: two workers behind nginx, with the events of streams in Redis."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ...isolated import mcp_resumption
from ...support import needs
from ...support.mcp_workers import Workers, mcp_workers
from ...support.redis_server import needs_server

pytestmark = [needs_server, pytest.mark.slow]


@pytest.fixture
def workers() -> Iterator[Workers]:
    with mcp_workers(needs.require("nginx"), mcp_resumption.READ_TIMEOUT) as running:
        yield running


async def test_streams_that_are_cut_are_resumed_at_either_worker(workers: Workers) -> None:
    counts = await mcp_resumption.check(workers, 60, seed=int(time.time()))
    assert counts["streams"] == 60
    assert counts["cut by nginx"] > 0
    assert counts["cut by the client"] > 0


async def test_streams_end_as_they_say_while_redis_is_killed(workers: Workers) -> None:
    """`python -m tests.isolated.mcp_resumption` has more, and longer, troubles."""
    counts = await mcp_resumption.check(workers, 150, seed=int(time.time()), trouble="killed")
    assert counts["streams"] + sum(counts[lost] for lost in mcp_resumption.LOST.values()) == 150
    assert counts["killed"] > 0


async def test_a_worker_that_dies(workers: Workers) -> None:
    """Another one continues the interrupted streams, and serves new sessions."""
    port = workers.port
    while True:
        headers = await mcp_resumption.begin_session(port)
        worker = workers.processes[headers["Mcp-Session-Id"].partition(".")[0]]
        params = {"name": "count", "arguments": {"to": 3, "seconds": 0.01}, "_meta": {"progressToken": "p"}}
        call = mcp_resumption.message_of(1, "tools/call", params)
        response = await mcp_resumption.exchange(port, "POST", headers, call, None)
        if response.status == 200:
            break
    worker.kill()
    worker.wait()
    first = response.events[0].id
    resumed = await mcp_resumption.exchange(port, "GET", {**headers, "Last-Event-ID": first}, b"", None)
    assert [event.id for event in resumed.events] == [event.id for event in response.events[1:]]
    assert [event.data for event in resumed.events] == [event.data for event in response.events[1:]]
    assert (await mcp_resumption.post(port, headers, call)).status == 404
    id = headers["Mcp-Session-Id"]
    forged = {**headers, "Mcp-Session-Id": id[:-1] + ("y" if id[-1] == "x" else "x"), "Last-Event-ID": first}
    assert (await mcp_resumption.exchange(port, "GET", forged, b"", None)).status == 404
    headers = await mcp_resumption.begin_session(port)
    assert workers.processes[headers["Mcp-Session-Id"].partition(".")[0]] is not worker
