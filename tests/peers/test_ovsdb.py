"""The database server of Open vSwitch: JSON-RPC 1.0 without separators, errors that are strings or its own objects."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC_1, Error, Profile
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.profile import CLIENT
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import UnixClient

from ..support import needs
from ..support.command_line import run_here
from ..support.waiting import SECONDS, accepts_at, blocking_eventually

pytestmark = [needs.mark("ovsdb-server"), pytest.mark.ci, pytest.mark.time_limit(100)]
SCHEMA = {
    "name": "Small",
    "version": "1.0.0",
    "tables": {
        "Bridge": {"columns": {"name": {"type": "string"}, "n": {"type": "integer"}}, "indexes": [["name"]]},
    },
}
INSERT = {"op": "insert", "table": "Bridge", "row": {"name": 'br-ä}{"', "n": 2**53 + 1}}


@pytest.fixture(scope="module")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = Path(tmp_path_factory.mktemp("ovsdb"))
    (folder / "schema").write_text(json.dumps(SCHEMA))
    subprocess.run([needs.require("ovsdb-tool"), "create", folder / "db", folder / "schema"], check=True)
    options = ["--no-chdir", f"--unixctl={folder / 'ctl'}", "-vconsole:off", "-vfile:off"]
    server = subprocess.Popen(
        [needs.require("ovsdb-server"), folder / "db", f"--remote=punix:{folder / 'socket'}", *options]
    )
    try:
        blocking_eventually(lambda: accepts_at(folder / "socket"), SECONDS)
        yield str(folder / "socket")
    finally:
        server.kill()
        server.wait(SECONDS)


@pytest.mark.parametrize("profile", [JSONRPC_1, CLIENT.replace(writes="1.0", batches=False)])
async def test_the_whole_protocol(socket: str, profile: Profile) -> None:
    updates: asyncio.Queue[Any] = asyncio.Queue()
    handlers = {"update": lambda *params: updates.put_nowait(params), "echo": lambda *params: list(params)}
    transport = UnixClient(socket, framing="concatenated", profile=profile)
    async with Session(transport, handlers, timeout=SECONDS) as session:
        assert await session.call("list_dbs", []) == ["Small", "_Server"]
        assert await session.call("echo", ["x", 1, None]) == ["x", 1, None]
        await session.call("monitor", ["Small", None, {"Bridge": {"columns": ["name", "n"]}}])
        [inserted] = await session.call("transact", ["Small", INSERT])
        _, update = await asyncio.wait_for(updates.get(), SECONDS)
        [row] = update["Bridge"].values()
        assert row["new"] == {"name": 'br-ä}{"', "n": 2**53 + 1}
        # An error of an operation is inside the result.
        assert (await session.call("transact", ["Small", INSERT]))[-1]["error"] == "constraint violation"
        delete = {"op": "delete", "table": "Bridge", "where": [["_uuid", "==", inserted["uuid"]]]}
        assert await session.call("transact", ["Small", delete]) == [{"count": 1}]
        for method, params, expected in (
            ("no_such_method", [], Error(0, "unknown method", "unknown method")),
            ("monitor_cancel", ["x"], Error(0, "unknown monitor", "unknown monitor")),
        ):
            with pytest.raises(RpcError) as caught:
                await session.call(method, params)
            assert Error(caught.value.code, caught.value.message, caught.value.data) == expected
        with pytest.raises(RpcError, match=r'"unknown database"') as unknown:
            await session.call("get_schema", ["Nope"])
        assert unknown.value.code == 0
        assert unknown.value.data["error"] == "unknown database"
        assert unknown.value.data["details"] == "get_schema request specifies unknown database Nope"


def test_the_command_line(socket: str) -> None:
    words = ["--profile", "jsonrpc-1", "--framing", "concatenated"]
    done = run_here("call", f"unix:{socket}", "list_dbs", "[]", *words)
    assert (done.returncode, json.loads(done.stdout)) == (0, ["Small", "_Server"])
    done = run_here("call", f"unix:{socket}", "no_such_method", "[]", *words)
    assert done.returncode == 1
    assert "unknown method" in done.stderr
