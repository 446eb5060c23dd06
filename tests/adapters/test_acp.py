"""The adapter of agent-client-protocol: its own agents and clients, and the examples, on either side."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

pytest.importorskip("acp", reason="agent-client-protocol is not installed")

import acp
from acp.schema import AllowedOutcome, RequestPermissionResponse

from jsonrpc_fast import LSP
from jsonrpc_fast.adapters.acp import MAX_READ_AHEAD, OPTIONS, MessageTransport, read, spawn_agent_process
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.session import AcpConvention, Session
from jsonrpc_fast.transports import StdioClient, memory_pair

from ..support import hostile_messages
from ..support.command_line import environment
from ..support.places import ROOT
from ..support.tables import rows
from ..support.waiting import eventually

EXAMPLE = [sys.executable, str(ROOT / "examples" / "acp_agent.py")]
AGENT = """
import acp, asyncio, sys
from MODULE import run_agent

class Echo(acp.Agent):
    def on_connect(self, client): self.client = client
    async def initialize(self, protocol_version, **more): return acp.InitializeResponse(protocol_version=1)
    async def new_session(self, cwd, mcp_servers=None, **more): return acp.NewSessionResponse(session_id="s")
    async def prompt(self, prompt, session_id, **more):
        print("a print that must not reach the wire", file=sys.stdout if "jsonrpc_fast" in "MODULE" else sys.stderr)
        for block in prompt:
            await self.client.session_update(session_id, acp.update_agent_message(block))
        return acp.PromptResponse(stop_reason="end_turn")

asyncio.run(run_agent(Echo()))
"""
ECHO = [sys.executable, "-c", AGENT.replace("MODULE", "jsonrpc_fast.adapters.acp")]
PLAIN_ECHO = [sys.executable, "-c", AGENT.replace("MODULE", "acp")]


class Client(acp.Client):  # type: ignore[misc, unused-ignore]
    """A client of the library that records updates and permits everything."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.texts.append(update.content.text)

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **more: Any) -> Any:
        outcome = AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return RequestPermissionResponse(outcome=outcome)


@pytest.mark.slow  # three programs that import the library
@rows("command", [ECHO, PLAIN_ECHO, EXAMPLE], ids=["adapter", "library", "example"])
async def test_a_client_of_the_library(command: list[str]) -> None:
    client = Client()
    is_example = command is EXAMPLE
    text = "a b" if is_example else "\u65e5\u672c \U0001f600" * 100_000  # more than asyncio's readers take at once
    async with spawn_agent_process(client, *command, env=environment(), stderr="discard") as (connection, process):
        await connection.initialize(protocol_version=1)
        session = await connection.new_session(cwd="/", mcp_servers=[])
        answer = await connection.prompt(prompt=[acp.text_block(text)], session_id=session.session_id)
        assert answer.stop_reason == "end_turn"
        await eventually(lambda: len(client.texts) == (2 if is_example else 1))
        assert "".join(client.texts) == ("A B " if is_example else text)
        if is_example:
            with pytest.raises(acp.RequestError, match="Method not found"):
                await connection.load_session(cwd="/", session_id="unknown", mcp_servers=[])
    assert process.returncode == 0


@pytest.mark.ci
async def test_a_session_of_this_package_and_an_agent_of_the_library() -> None:
    texts: list[str] = []
    transport = StdioClient(ECHO, profile=LSP.replace(null_request_ids=True), env=environment(), stderr="discard")
    handlers = {"session/update": lambda sessionId, update: texts.append(update["content"]["text"])}
    async with Session(transport, handlers, convention=AcpConvention()) as session:
        assert (await session.call("initialize", {"protocolVersion": 1}))["protocolVersion"] == 1
        await session.call("session/new", {"cwd": "/", "mcpServers": []})
        blocks = [{"type": "text", "text": str(number)} for number in range(100)]
        result = await session.call("session/prompt", {"sessionId": "s", "prompt": blocks})
        assert result["stopReason"] == "end_turn"
        await eventually(lambda: len(texts) == 100)
        assert texts == [str(number) for number in range(100)]


async def test_a_turn_and_a_request_of_the_example_are_cancelled() -> None:
    asked = asyncio.Event()

    async def permit(**params: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    transport = StdioClient(EXAMPLE, profile=LSP.replace(null_request_ids=True), env=environment())
    async with Session(transport, {"session/request_permission": permit}, convention=AcpConvention()) as session:
        await session.call("initialize", {"protocolVersion": 1})
        id = (await session.call("session/new", {"cwd": "/", "mcpServers": []}))["sessionId"]
        prompt = {"sessionId": id, "prompt": [{"type": "text", "text": "a"}]}
        turn = asyncio.create_task(session.call("session/prompt", prompt))
        await asked.wait()
        await session.notify("session/cancel", {"sessionId": id})
        assert (await turn)["stopReason"] == "cancelled"
        asked.clear()
        turn = asyncio.create_task(session.call("session/prompt", prompt))
        await asked.wait()
        turn.cancel()  # sends $/cancel_request
        await asyncio.wait([turn])
        with pytest.raises(RpcError, match="Method not found"):
            await session.call("unknown")


@rows(
    ("line", "message"),
    [
        (b'{"a": NaN}', "dict"),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}', "dict"),
        (b"[]", None),
        (b"3", None),
        (b"{", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
)
def test_what_is_read(line: bytes, message: str | None) -> None:
    assert (read(line) is None) == (message is None)


def plainly_read(text: bytes) -> Any:
    """The message in a line, as the json module reads it."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def test_hostile_messages_are_read_as_by_the_json_module() -> None:
    """Messages that are read go to the connection of the library, which serves requests and ends calls as before."""
    texts = hostile_messages.requests(b'"hostile"', b"echo", 300) | hostile_messages.responses(b"1", 300)
    found = {name: (repr(read(text)), repr(plainly_read(text))) for name, text in texts.items()}
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}
    assert sum(both[1] != "None" for both in found.values()) > 100


async def test_what_is_written_is_read() -> None:
    ours, theirs = memory_pair(**OPTIONS)
    sender, receiver = MessageTransport(ours), MessageTransport(theirs)
    found = {}
    for name, value in hostile_messages.VALUES.items():
        message = {"jsonrpc": "2.0", "id": 1, "result": value}
        try:
            expected = repr(json.loads(json.dumps(message)))
        except (TypeError, ValueError, RecursionError) as error:
            expected = type(error).__name__
        try:
            await sender.send(message)
            read_back = repr(await receiver.receive())
        except (TypeError, ValueError, RecursionError) as error:
            read_back = type(error).__name__
        found[name] = read_back, expected
    await asyncio.gather(sender.close(), receiver.close())
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}


async def test_reading_pauses_and_ends() -> None:
    ours, theirs = memory_pair(**OPTIONS)
    transport = MessageTransport(ours)
    await transport.start()
    await theirs.start()
    for number in range(3 * MAX_READ_AHEAD):
        theirs.send(b'{"n":%d}' % number)
    theirs.send(b"[]")
    await theirs.drain()
    await asyncio.sleep(0)
    closing = asyncio.create_task(theirs.close())
    received = []
    while (message := await transport.receive()) is not None:
        received.append(message["n"])
        assert transport._received.qsize() <= MAX_READ_AHEAD
    assert received == list(range(3 * MAX_READ_AHEAD))
    assert await transport.receive() is None
    await closing
    await transport.close()
    with pytest.raises(ConnectionError):
        await transport.send({})
