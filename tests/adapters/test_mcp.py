"""The MCP SDK's stdio transports on this package's codec: streams, real servers, real clients."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pickle
import subprocess
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ..support import hostile_messages
from ..support.places import PACKAGE, PEERS, WIRE

pytest.importorskip("mcp", reason="the MCP SDK is not installed")

import anyio
import mcp.client.stdio
import mcp.server.stdio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.message import SessionMessage
from pydantic_core import PydanticSerializationError

from jsonrpc_fast import ParseError, ParseErrorCode, decode
from jsonrpc_fast.adapters import mcp as adapter
from jsonrpc_fast.transports import Connection, connection, memory_pair

from ..peers.node import node_command
from ..peers.venvs import python_of
from ..support.tables import rows
from ..support.waiting import settle

SERVER = str(PEERS / "adapter_server.py")


ECHO = """
import sys, time
time.sleep(float(sys.argv[1]))
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""
"""A peer that sends back each message, and begins to read after some seconds."""


@asynccontextmanager
async def over_memory() -> AsyncIterator[tuple[Any, Any, Connection]]:
    """Yield the streams over one end of a memory pair, and the other end, connected."""
    here, there = memory_pair(**adapter.OPTIONS)
    async with adapter.streams_over(here) as (read_stream, write_stream):
        await there.connect()
        try:
            yield read_stream, write_stream, there
        finally:
            await there.disconnect()


def mcp_lines() -> list[bytes]:
    lines = [line for path in sorted(WIRE.glob("mcp*")) for line in path.read_bytes().splitlines() if line.strip()]
    assert len(lines) > 20
    return lines


@rows(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"n":18446744073709551617}}}',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":0.5}}',
        b'{"jsonrpc":"2.0","id":0,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found"}}',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found","data":null}}',
        b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"","data":{"a":[1,2]}}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
    ],
)
def test_a_message_becomes_the_same_model_as_with_the_sdk(line: bytes) -> None:
    mine = adapter.to_session_message(decode(line, adapter.PROFILE)).message  # type: ignore[arg-type]
    theirs = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    assert type(mine) is type(theirs)
    assert mine == theirs
    assert mine.model_fields_set == theirs.model_fields_set
    assert adapter.to_line(mine).removesuffix(b"\n") == line


def test_a_model_is_independent_of_others() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    one, other = (adapter.to_session_message(decode(line, adapter.PROFILE)).message for _ in range(2))  # type: ignore[arg-type]
    one.params = {"a": 1}
    assert (one.model_fields_set, other.model_fields_set) == (
        {"jsonrpc", "id", "method", "params"},
        {"jsonrpc", "id", "method"},
    )
    assert (one.params, other.params) == ({"a": 1}, None)
    assert one.model_copy(update={"id": 2}).model_dump_json() == (
        '{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"a":1}}'
    )
    assert pickle.loads(pickle.dumps(one)) == one


def test_messages_of_real_peers_are_read_and_written_as_by_the_sdk() -> None:
    for line in mcp_lines():
        theirs = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        mine = adapter.to_session_message(decode(line, adapter.PROFILE)).message  # type: ignore[arg-type]
        assert mine == theirs
        assert json.loads(adapter.to_line(mine)) == json.loads(
            theirs.model_dump_json(by_alias=True, exclude_unset=True)
        )


def test_a_payload_may_hold_pydantic_models() -> None:
    implementation = types.Implementation(name="x", version="1")
    message = types.JSONRPCResponse(jsonrpc="2.0", id=1, result={"serverInfo": implementation})
    theirs = message.model_dump_json(by_alias=True, exclude_unset=True)
    assert json.loads(adapter.to_line(message)) == json.loads(theirs)
    assert json.loads(theirs)["result"] == {"serverInfo": {"name": "x", "version": "1"}}


def test_an_integer_of_any_width_is_written() -> None:
    message = types.JSONRPCResponse(jsonrpc="2.0", id=1, result={"n": 2**80})
    assert adapter.to_line(message) == b'{"jsonrpc":"2.0","id":1,"result":{"n":1208925819614629174706176}}\n'


async def test_malformed_messages_are_exceptions_on_the_stream() -> None:
    async with over_memory() as (read_stream, _, there):
        there.send(b"[]")
        there.send(b'{"jsonrpc":"2.0","id":1,"method":5}')
        there.send(b"no JSON")
        there.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        faults = [await read_stream.receive() for _ in range(3)]
        assert [type(fault) for fault in faults] == [type(faults[0])] * 3
        assert all(isinstance(fault, ParseError) for fault in faults)
        assert [fault.code for fault in faults] == [
            ParseErrorCode.BATCH_NOT_ALLOWED,
            ParseErrorCode.INVALID_METHOD_TYPE,
            ParseErrorCode.MALFORMED_JSON,
        ]
        good = await read_stream.receive()
        assert good == SessionMessage(types.JSONRPCRequest(jsonrpc="2.0", id=1, method="ping"))


@pytest.mark.virtual_time
async def test_the_end_of_the_stream() -> None:
    async with over_memory() as (read_stream, write_stream, there):
        there.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        closing = asyncio.ensure_future(there.close())
        assert [item.message.id async for item in read_stream] == [1]
        with pytest.raises(anyio.EndOfStream):
            await read_stream.receive()
        await write_stream.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await write_stream.send(SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method="x")))
        await read_stream.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await read_stream.receive()
    await closing


@rows("ending", ["answer", "other cancel", "cancel", "silence", "loss"])
@pytest.mark.virtual_time
async def test_a_session_sees_the_end_once_it_has_answered(ending: str, written: list[bytes]) -> None:
    def answer(id: int) -> SessionMessage:
        return SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=id, result={}))

    async with over_memory() as (read_stream, write_stream, there):
        there.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        there.send(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')
        if "cancel" in ending:
            id = b"2" if ending == "cancel" else b"true"  # true is not 1
            there.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % id)
        closing = asyncio.ensure_future(there.close())
        for _ in range(2 + ("cancel" in ending)):
            await read_stream.receive()
        written.clear()
        last = asyncio.ensure_future(read_stream.receive())
        await settle(50)
        assert not last.done()
        await write_stream.send(answer(1))
        if ending in ("answer", "other cancel"):
            await settle(50)
            assert not last.done()
            await write_stream.send(answer(2))
        elif ending == "loss":
            await there.disconnect()
            assert isinstance(await asyncio.wait_for(last, 10), OSError)
            last = asyncio.ensure_future(read_stream.receive())
        with pytest.raises(anyio.EndOfStream):
            await asyncio.wait_for(last, 10)
    await closing
    if ending != "loss":
        answers = [json.loads(line)["id"] for line in b"".join(written).splitlines()]
        assert answers == ([1, 2] if ending in ("answer", "other cancel") else [1])


async def test_sending_to_a_lost_peer() -> None:
    async with over_memory() as (read_stream, write_stream, there):
        await there.disconnect()
        async for _ in read_stream:
            raise AssertionError("nothing was sent")
        await settle()
        message = SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method="x"))
        await write_stream.send(message)
        await settle()
        with pytest.raises(anyio.BrokenResourceError):
            await write_stream.send(message)


async def test_an_unencodable_message_does_not_affect_the_next() -> None:
    async with over_memory() as (_, write_stream, there):
        received: list[Any] = []
        there.onmessage = received.append
        await there.start()
        for result in ({"text": "\ud800"}, {"value": object()}):
            with pytest.raises(PydanticSerializationError):
                await write_stream.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=1, result=result)))
        await write_stream.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=2, result={})))
        for _ in range(50):
            await asyncio.sleep(0)
        assert [item.message for item in received] == [types.JSONRPCResponse(jsonrpc="2.0", id=2, result={})]


async def test_a_cancelled_receiver_loses_no_message() -> None:
    async with over_memory() as (read_stream, _, there):
        with anyio.move_on_after(0.01) as scope:
            await read_stream.receive()
        assert scope.cancelled_caught
        there.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert (await read_stream.receive()).message.id == 1


async def test_a_cancelled_sender_tears_no_message() -> None:
    large = SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method="large", params={"text": "x" * 4_000_000}))
    small = SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method="small"))
    parameters = adapter.StdioServerParameters(command=sys.executable, args=["-c", ECHO, "0.2"])
    async with adapter.stdio_client(parameters) as (read_stream, write_stream):
        with anyio.move_on_after(0.05) as scope:
            await write_stream.send(large)
        assert scope.cancelled_caught
        await write_stream.send(small)
        received = [(await read_stream.receive()).message for _ in range(2)]
        assert [message.method for message in received] == ["large", "small"]
        assert len(received[0].params["text"]) == 4_000_000


@pytest.mark.slow
async def test_a_line_beyond_the_limit_costs_one_message() -> None:
    limit = adapter.PROFILE.limits.message_bytes
    async with over_memory() as (read_stream, _, there):
        receiving = asyncio.ensure_future(read_stream.receive())
        piece = b"x" * (1 << 20)
        there.send(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"text":"' + piece * (limit // len(piece)) + b'"}}')
        there.send(PING.strip())
        fault = await receiving
        assert isinstance(fault, ParseError)
        assert fault.code is ParseErrorCode.MESSAGE_TOO_LARGE
        assert (await read_stream.receive()).message.method == "ping"


async def test_two_receivers_are_refused() -> None:
    async with over_memory() as (read_stream, _, there):
        waiting = asyncio.ensure_future(read_stream.receive())
        await asyncio.sleep(0)
        with pytest.raises(anyio.BusyResourceError):
            await read_stream.receive()
        there.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert (await waiting).message.id == 1


async def test_reading_pauses_while_the_session_does_not_receive() -> None:
    async with over_memory() as (read_stream, _, there):
        line = b'{"jsonrpc":"2.0","method":"x","params":{"text":"' + b"x" * 1000 + b'"}}'
        for _ in range(2000):
            there.send(line)
        for _ in range(200):
            await asyncio.sleep(0)
        assert adapter.MAX_READ_AHEAD <= len(read_stream._waiting) < adapter.MAX_READ_AHEAD + connection.STEP_ITEMS
        assert there.write_buffer_bytes > 1_000_000
        for _ in range(2000):
            assert (await read_stream.receive()).message.method == "x"


async def test_answers_are_written_together_while_requests_are_unanswered(written: list[bytes]) -> None:
    async with over_memory() as (read_stream, write_stream, there):
        for line in (
            b'{"jsonrpc":"2.0","id":1,"method":"a"}',
            b'{"jsonrpc":"2.0","id":2,"method":"a"}',
            b'{"jsonrpc":"2.0","id":3,"method":"a"}',
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}',
        ):
            there.send(line)
        for _ in range(4):
            await read_stream.receive()
        written.clear()
        for id in (1, 2):
            assert written == []
            await write_stream.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=id, result={})))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        # The third request was cancelled: no response is missing.
        assert written == [b'{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","id":2,"result":{}}\n']


async def use(session: ClientSession) -> None:
    await session.initialize()
    assert [tool.name for tool in (await session.list_tools()).tools] == ["echo"]
    calls = [session.call_tool("echo", {"n": number}) for number in range(100)]
    answers = [result.structured_content for result in await asyncio.gather(*calls)]
    assert answers == [{"n": number} for number in range(100)]
    large = await session.call_tool("echo", {"letters": 1_000_000})
    assert len(large.content[0].text) == 1_000_000  # type: ignore[union-attr]
    reported = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        reported.append((done, total))

    await session.call_tool("echo", {"progress": True}, progress_callback=progress)
    assert reported == [(0.5, 1.0)]
    with anyio.move_on_after(0.05) as scope:
        await session.call_tool("echo", {"hangs": True})
    assert scope.cancelled_caught
    assert (await session.call_tool("echo", {"n": 1})).structured_content == {"n": 1}


@pytest.mark.slow
@pytest.mark.parametrize(("client", "server"), [("sdk", "fast"), ("fast", "sdk"), ("fast", "fast")])
async def test_a_client_and_a_server_of_the_python_sdk(client: str, server: str) -> None:
    stdio_client = mcp.client.stdio.stdio_client if client == "sdk" else adapter.stdio_client

    parameters = adapter.StdioServerParameters(command=sys.executable, args=[SERVER, server])
    with open(os.devnull, "w") as errlog:
        async with (
            stdio_client(parameters, errlog) as (read_stream, write_stream),
            ClientSession(read_stream, write_stream) as session,
        ):
            await use(session)


@pytest.mark.slow
@rows("version", ["1", "2"])
def test_a_client_of_the_typescript_sdk(version: str) -> None:
    command = node_command("tool_client.mjs", version, sys.executable, SERVER, "fast")
    found = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {"tools": ["echo"], "answers": list(range(100)), "letters": 1_000_000}


@pytest.mark.slow
def test_a_server_ends_when_its_client_closes_stdin() -> None:
    process = subprocess.run(
        [sys.executable, SERVER, "fast"],
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert process.returncode == 0
    assert process.stdout == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


@pytest.mark.slow
async def test_a_server_that_prints_and_does_not_exit(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "print('Listening on nothing', flush=True)\n"
        'print(\'{"jsonrpc":"2.0","method":"x"}\', flush=True)\n'
        "print('to stderr', file=sys.stderr, flush=True)\n"
        "time.sleep(60)\n"
    )

    log = tmp_path / "log"
    parameters = adapter.StdioServerParameters(command=sys.executable, args=["-c", script])
    with log.open("w") as errlog:
        async with adapter.stdio_client(parameters, errlog) as (read_stream, _):
            fault = await read_stream.receive()
            assert isinstance(fault, ParseError)
            assert "Listening" not in str(fault)
            assert (await read_stream.receive()).message.method == "x"
    assert log.read_text() == "to stderr\n"


@pytest.mark.slow
def test_a_client_and_a_server_on_uvloop() -> None:
    pytest.importorskip("uvloop", reason="uvloop is not installed")
    client = (
        "import sys, anyio, asyncio\n"
        "from mcp.client.session import ClientSession\n"
        "from jsonrpc_fast.adapters.mcp import StdioServerParameters, stdio_client\n"
        "async def main():\n"
        "    assert type(asyncio.get_running_loop()).__module__.startswith('uvloop')\n"
        "    parameters = StdioServerParameters(command=sys.executable, args=[*sys.argv[1:], 'fast', 'uvloop'])\n"
        "    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:\n"
        "        await session.initialize()\n"
        "        calls = [session.call_tool('echo', {'n': number}) for number in range(50)]\n"
        "        for number, result in enumerate(await asyncio.gather(*calls)):\n"
        "            assert result.structured_content == {'n': number}\n"
        "        large = await session.call_tool('echo', {'letters': 1_000_000})\n"
        "        assert len(large.content[0].text) == 1_000_000\n"
        "anyio.run(main, backend_options={'use_uvloop': True})\n"
    )
    process = subprocess.run([sys.executable, "-c", client, SERVER], capture_output=True, text=True, timeout=50)
    assert process.returncode == 0, process.stderr


async def test_a_missing_program() -> None:
    parameters = adapter.StdioServerParameters(command="/nonexistent/program")
    with pytest.raises(FileNotFoundError):
        async with adapter.stdio_client(parameters):
            raise AssertionError("the program does not exist")


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


async def test_streams_of_the_caller_are_left_to_the_sdk() -> None:
    read, written = io.StringIO(PING.decode()), io.StringIO()
    async with adapter.stdio_server(anyio.wrap_file(read), anyio.wrap_file(written)) as (read_stream, write_stream):
        assert (await read_stream.receive()).message.id == 1
        await write_stream.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=1, result={})))
        await write_stream.aclose()
        await read_stream.aclose()
    assert written.getvalue().encode() == PONG


@pytest.mark.slow  # the tests of the command `run` install it, too
@rows("order", ["installed first", "imported first"])
def test_install_replaces_the_functions_of_the_sdk(order: str) -> None:
    install = "from jsonrpc_fast.adapters import mcp as adapter\nadapter.install()\n"
    load = "import mcp, mcp.client.client, mcp.server.mcpserver.server\n"
    script = (install + load if order == "installed first" else load + install) + (
        "assert mcp.stdio_server is mcp.server.stdio.stdio_server is adapter.stdio_server\n"
        "assert mcp.stdio_client is mcp.client.stdio.stdio_client is adapter.stdio_client\n"
        "assert mcp.server.mcpserver.server.stdio_server is adapter.stdio_server\n"
        "assert mcp.client.client.stdio_client is adapter.stdio_client\n"
        "adapter.install()\n"
        "server = mcp.server.MCPServer('installed')\n"
        "server.run()\n"
    )
    process = subprocess.run([sys.executable, "-c", script], input=PING, capture_output=True, timeout=50)
    assert (process.returncode, process.stdout) == (0, PONG), process.stderr


@pytest.mark.slow
def test_fastmcp() -> None:
    """A server and a client of fastmcp, which need an environment of their own."""
    command = [
        python_of("fastmcp"),
        str(PEERS / "fastmcp_adapter.py"),
        str(PACKAGE.parent),
        sysconfig.get_path("purelib"),
    ]
    process = subprocess.run([*command, "client"], capture_output=True, text=True, timeout=100)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == {
        "sum": 3,
        "letters": 1_000_000,
        "many": list(range(100)),
        "error": "Error calling tool 'fail': no",
        "progress": [0.5, 1.0],
        "on adapter": [True, True],
    }


REPLACED = r"""
import os, sys, threading
import anyio
from mcp.server.lowlevel import Server
from jsonrpc_fast.adapters.mcp import stdio_server

async def main():
    server = Server("replaced")
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())

def ping():
    return b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
"""


@rows(
    "replace",
    [
        # Both, with pipes of the process itself: descriptors 0 and 1 carry no messages.
        (
            "to_server, from_server = os.pipe(), os.pipe()\n"
            "os.write(to_server[1], ping()); os.close(to_server[1])\n"
            "sys.stdin, real = os.fdopen(to_server[0]), sys.stdout\n"
            "sys.stdout = os.fdopen(from_server[1], 'w')\n"
            "anyio.run(main)\n"
            "real.write(os.read(from_server[0], 1000).decode())\n"
        ),
        # Only stdin.
        "import io\nsys.stdin = io.TextIOWrapper(io.BytesIO(ping()))\nanyio.run(main)\n",
    ],
)
@pytest.mark.slow
def test_replaced_standard_streams_are_used(replace: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", REPLACED + replace], input=b"not for the server\n", capture_output=True, timeout=30
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, PONG, b"")


@pytest.mark.ci
def test_two_servers_do_not_share_a_standard_stream_and_a_wrapper_is_no_replacement() -> None:
    script = REPLACED + (
        "from io import StringIO, TextIOWrapper\n"
        "from anyio import wrap_file\n"
        "async def two(*own):\n"
        "    async with stdio_server(*own) as (read_stream, write_stream):\n"
        "        await read_stream.aclose()\n"
        "        try:\n"
        "            async with stdio_server():\n"
        "                print('both run', file=sys.stderr)\n"
        "        except RuntimeError as error:\n"
        "            print('refused', file=sys.stderr)\n"
        "        await write_stream.aclose()\n"
        "anyio.run(two, wrap_file(StringIO()))\n"
        "anyio.run(two)\n"
        "anyio.run(main)\n"  # the streams are free again
        # Around the same descriptor, it is not a replacement.
        "sys.stdout = TextIOWrapper(sys.stdout.buffer, encoding='utf-8', line_buffering=True)\n"
        "async def wrapped():\n"
        "    async with stdio_server() as (read_stream, write_stream):\n"
        "        assert type(read_stream).__module__ == 'jsonrpc_fast.adapters.mcp'\n"
        "        print('to stderr')\n"
        "anyio.run(wrapped)\n"
    )
    process = subprocess.run([sys.executable, "-c", script], input=PING, capture_output=True, timeout=30)
    assert (process.returncode, process.stderr) == (0, 2 * b"refused\n" + b"to stderr\n")
    assert process.stdout in (b"", PONG)  # the first of the two may have taken the request


@pytest.mark.slow
@rows(
    ("line", "answer"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}', PONG),
        (
            b'{"jsonrpc":"2.0","id":1,"method":""}',
            b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found","data":""}}\n',
        ),
    ],
)
def test_messages_that_the_sdk_tolerates_get_the_same_answer(line: bytes, answer: bytes) -> None:
    for transport in ("sdk", "fast"):
        process = subprocess.run(
            [sys.executable, SERVER, transport], input=line + b"\n", capture_output=True, timeout=30
        )
        assert (process.returncode, process.stdout) == (0, answer)


@rows(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"x","params":null}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}',
        b'{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}',
    ],
)
def test_null_members_count_as_absent(line: bytes) -> None:
    mine = adapter.to_session_message(decode(line, adapter.PROFILE)).message  # type: ignore[arg-type]
    theirs = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    assert (type(mine), mine) == (type(theirs), theirs)


def as_the_sdk_reads(text: bytes) -> Any:
    try:
        return types.jsonrpc_message_adapter.validate_json(text.decode(errors="replace"), by_name=False)
    except ValueError as error:
        return error


def described(message: Any) -> str:
    """Return a message as text, in which NaN equals NaN."""
    return f"{type(message).__name__} {message.model_dump()!r}"


@pytest.mark.usefixtures("unlogged")
def test_hostile_messages_are_read_as_by_the_sdk() -> None:
    texts = hostile_messages.requests(b'"hostile"', b"ping", mutations=1000)
    texts.update({f"response: {name}": text for name, text in hostile_messages.responses(b"7", mutations=1000).items()})
    read = 0
    differing = {}
    for name, text in texts.items():
        theirs, mine = as_the_sdk_reads(text), adapter.read(text, "replace")
        if not isinstance(theirs, Exception):
            read += 1
            found = described(mine.message) if isinstance(mine, SessionMessage) else repr(mine)
            if found != described(theirs):
                differing[name] = text[:200], described(theirs), found
        elif isinstance(mine, SessionMessage) and "deep" not in name and b'"id"' in text:
            differing[name] = text[:200], repr(theirs), described(mine.message)
    assert differing == {}
    assert read > 150


@pytest.mark.usefixtures("unlogged")
def test_hostile_values_are_written_as_by_the_sdk() -> None:
    differing = {}
    writers = adapter.to_line, lambda one: one.model_dump_json(by_alias=True, exclude_unset=True).encode()
    for name, value in hostile_messages.VALUES.items():
        for message in (
            types.JSONRPCResponse.model_construct(jsonrpc="2.0", id=1, result={"a": value}),
            types.JSONRPCRequest.model_construct(jsonrpc="2.0", id=1, method="x", params={"a": value}),
            types.JSONRPCError(jsonrpc="2.0", id=1, error=types.ErrorData(code=1, message="x", data=value)),
        ):
            found: list[str] = []
            for write in writers:
                try:
                    written = write(message)
                except Exception as error:
                    found.append(type(error).__name__)
                else:
                    found.append(repr(json.loads(written)))
                    assert isinstance(adapter.read(written), SessionMessage)
            if found[0] != found[1]:
                differing[f"{name} in {type(message).__name__}"] = found
    assert differing == {}


@pytest.mark.usefixtures("unlogged")
@pytest.mark.slow
def test_hostile_requests_are_answered_as_by_the_sdk() -> None:
    texts = hostile_messages.requests(b"@NUMBER@", b"ping", mutations=100)
    lines = [
        line + b'\n{"jsonrpc":"2.0","id":"good %d","method":"ping"}\n' % number
        for number, text in enumerate(texts.values())
        # The SDK also ends a line at a carriage return.
        if b"\r" not in (line := text.replace(b"@NUMBER@", b'"%d"' % number)) and b"\n" not in line
    ]
    theirs, mine = (answers_of(transport, lines) for transport in ("sdk", "fast"))
    assert sum("good" in answer for answer in theirs) == len(lines) > 150
    assert theirs.total() > len(lines) + 30
    assert theirs - mine == Counter()
    assert (mine - theirs).total() <= 2  # the SDK refuses deep params


def answers_of(transport: str, lines: list[bytes]) -> Counter[str]:
    """Return the responses of a server to lines that each have a good request after a hostile one."""
    answers: Counter[str] = Counter()
    command = [sys.executable, SERVER, transport]
    with subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        output = io.BufferedReader(process.stdout)  # type: ignore[type-var]
        writing = threading.Thread(target=process.stdin.writelines, args=(lines,))
        writing.start()
        missing = len(lines)
        while missing:
            answer = json.loads(output.readline())
            answers[repr(answer)] += 1
            missing -= "good" in str(answer.get("id"))
        writing.join()
        process.stdin.close()
        answers.update(map(repr, map(json.loads, output)))
    assert process.returncode == 0
    return answers
