"""The protocols of aiorpcX on this package's codec: the same items and errors, and real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest

pytest.importorskip("aiorpcx", reason="aiorpcX is not installed")

import aiorpcx
from aiorpcx import jsonrpc

from jsonrpc_fast import BACKEND
from jsonrpc_fast.adapters import aiorpcx as adapter

from ..support import hostile_messages
from ..support.tables import rows

MESSAGES = [
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}',
    b'{"jsonrpc":"2.0","id":"x","method":"a","params":{"b":1}}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"a"}',
    b'{"jsonrpc":"2.0","id":null,"method":"a"}',
    b'{"jsonrpc":"2.0","id":true,"method":"a"}',
    b'{"jsonrpc":"2.0","id":[],"method":"a"}',
    b'{"jsonrpc":"2.0","id":12345678901234567890123,"method":"a","params":[12345678901234567890123]}',
    b'{"jsonrpc":"2.0","method":"a"}',
    b'{"jsonrpc":"2.0","method":"a","params":null}',
    b'{"jsonrpc":"2.0","method":5}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","result":1}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":[1,2]}}',
    b'{"jsonrpc":"2.0","id":null,"result":null}',
    b'{"jsonrpc":"2.0","result":1}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"m","data":1}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":"5","message":"m"}}',
    b'{"jsonrpc":"2.0","id":1,"result":1,"error":null}',
    b'{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}',
    b'{"id":1,"method":"a","params":[1]}',
    b'{"id":null,"method":"a","params":[]}',
    b'{"id":{"a":1},"method":"a","params":[]}',
    b'{"method":"a","params":[]}',
    b'{"id":1,"result":5,"error":null}',
    b'{"id":1,"result":null,"error":"text"}',
    b'{"id":1,"result":null,"error":7}',
    b'{"id":1,"result":1}',
    b'{"jsonrpc":"1.0","id":1,"method":"a","params":[]}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":["\\ud800"]}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":[NaN]}',
    b'[{"jsonrpc":"2.0","id":1,"method":"a"},5]',
    b"[]",
    b"5",
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":%s}' % (b"[" * 500 + b"]" * 500),
    b"{]",
    b"\xff",
    b"GET / HTTP/1.1",
    b"",
]
NAMES = ["JSONRPCv1", "JSONRPCv2", "JSONRPCLoose", "JSONRPCAutoDetect"]


def outcome(function: Any, *args: Any) -> Any:
    try:
        item, id = function(*args)
    except aiorpcx.ProtocolError as error:
        return error.code, error.message, error.error_message, error.response_msg_id
    result = item.result if isinstance(item, jsonrpc.Response) else item
    return type(item), repr(result), type(result), repr(id)


@rows("message", MESSAGES)
@rows("name", NAMES)
def test_items_and_errors_are_those_of_aiorpcx(name: str, message: bytes) -> None:
    own, fast = getattr(aiorpcx, name), getattr(adapter, name)
    mine, theirs = outcome(fast.message_to_item, message), outcome(own.message_to_item, message)
    if type(theirs[0]) is int:  # the text of an error: the spelling may differ
        mine, theirs = [
            (*found[:2], found[2] and own._message_to_payload(found[2]), found[3]) for found in (mine, theirs)
        ]
    assert mine == theirs


def test_the_pure_backend_changes_nothing_that_would_be_slower() -> None:
    for name in NAMES:
        own, fast = getattr(aiorpcx, name), getattr(adapter, name)
        for method in ("message_to_item", "_message_to_payload"):
            is_own = getattr(fast, method).__func__ is getattr(own, method).__func__
            assert is_own == (BACKEND == "python" or (name, method) == ("JSONRPCv1", "message_to_item"))


@rows("message", [b"[" * 100_000, b'{"a":' * 100_000])
@rows("name", NAMES)
def test_what_nests_too_deep_raises_what_aiorpcx_raises(name: str, message: bytes) -> None:
    for module in (aiorpcx, adapter):
        with pytest.raises((RecursionError, aiorpcx.ProtocolError)):
            getattr(module, name).message_to_item(message)


@rows("message", MESSAGES)
def test_the_detected_protocol(message: bytes) -> None:
    try:
        theirs = aiorpcx.JSONRPCAutoDetect.detect_protocol(message)
    except aiorpcx.ProtocolError:
        with pytest.raises(aiorpcx.ProtocolError):
            adapter.JSONRPCAutoDetect.detect_protocol(message)
    else:
        assert adapter.JSONRPCAutoDetect.detect_protocol(message) is getattr(adapter, theirs.__name__)


@rows("result", [1, None, {"a": "\u65e5"}, [2**70], {1: 2}, float("nan"), "\ud800", {2}, object()])
@rows("name", NAMES)
def test_responses(name: str, result: Any) -> None:
    own, fast = getattr(aiorpcx, name), getattr(adapter, name)

    def payload(protocol: Any) -> str:
        return repr(own._message_to_payload(protocol.response_message(result, 1)))

    def described(protocol: Any) -> str:
        try:
            return payload(protocol)
        except aiorpcx.ProtocolError as error:
            return repr(error)

    assert described(fast) == described(own)


def received(module: Any, protocol: str, text: bytes) -> list[str]:
    """Return what a connection makes of a message: its requests with the responses to them, or its error."""
    connection = module.JSONRPCConnection(getattr(module, protocol))
    try:
        items = connection.receive_message(text)
    except Exception as error:
        if not isinstance(error, aiorpcx.ProtocolError):
            return [type(error).__name__]
        return [str(error.code), error.message, error.error_message and repr(json.loads(error.error_message))]
    found = []
    for item in items:
        answer = item.send_result(["done"]) if isinstance(item, jsonrpc.Request) else None
        found.append(repr((type(item).__name__, item.method, item.args, answer and repr(json.loads(answer)))))
    return found


async def ended(module: Any, protocol: str, text: bytes) -> str:
    """Return how a call ends whose response is a message; "open" if it does not end."""
    connection = module.JSONRPCConnection(getattr(module, protocol))
    _, call = connection.send_request(jsonrpc.Request("x", []))
    with contextlib.suppress(Exception):
        connection.receive_message(text)
    return repr(call.exception() or call.result()) if call.done() else "open"


@pytest.mark.usefixtures("unlogged")
@pytest.mark.parametrize("protocol", NAMES)
async def test_hostile_requests_are_answered_as_by_aiorpcx(protocol: str) -> None:
    texts = hostile_messages.requests(b"7", b"a", mutations=500)
    found = {name: [received(module, protocol, text) for module in (jsonrpc, adapter)] for name, text in texts.items()}
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}


@pytest.mark.usefixtures("unlogged")
@pytest.mark.parametrize("protocol", NAMES)
async def test_calls_end_as_with_aiorpcx(protocol: str) -> None:
    texts = hostile_messages.responses(b"0", mutations=500)
    found = {
        name: [await ended(jsonrpc, protocol, text), await ended(adapter, protocol, text)]
        for name, text in texts.items()
    }
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}
    assert sum(both[0] != "open" for both in found.values()) > 30


@pytest.mark.usefixtures("unlogged")
@pytest.mark.parametrize("protocol", NAMES)
def test_hostile_values_are_written_as_by_aiorpcx(protocol: str) -> None:
    differing = {}
    for name, value in hostile_messages.VALUES.items():
        found = []
        for module in (jsonrpc, adapter):
            try:
                found.append(repr(json.loads(getattr(module, protocol).response_message(value, 1))))
            except Exception as error:
                found.append(type(error).__name__)
        if found[0] != found[1]:
            differing[name] = found
    assert differing == {}


class ServerSession(aiorpcx.RPCSession):  # type: ignore[misc]
    async def handle_request(self, request: Any) -> Any:
        if request.method == "refuse":
            raise aiorpcx.RPCError(5, "refused")
        return request.args


class FastSession(ServerSession):
    protocol = "JSONRPCv2"

    def default_connection(self) -> Any:
        return adapter.JSONRPCConnection(getattr(aiorpcx, self.protocol))


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("protocol", NAMES)
@rows("fast", ["client", "server", "both"])
async def test_a_client_and_a_server(fast: str, protocol: str) -> None:
    class Own(ServerSession):
        def default_connection(self) -> Any:
            return aiorpcx.JSONRPCConnection(getattr(aiorpcx, protocol))

    class Fast(FastSession):
        pass

    Fast.protocol = protocol
    before = asyncio.all_tasks()
    server = await aiorpcx.serve_rs(Fast if fast != "client" else Own, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with aiorpcx.connect_rs("127.0.0.1", port, session_factory=Fast if fast != "server" else Own) as session:
        calls = [session.send_request("echo", [number, "x" * 1000]) for number in range(20)]
        assert [found[0] for found in await asyncio.gather(*calls)] == list(range(20))
        with pytest.raises(aiorpcx.RPCError) as raised:
            await session.send_request("refuse", ["now"])
        assert (raised.value.code, raised.value.message) == (5, "refused")
        if protocol != "JSONRPCv1":
            async with session.send_batch() as batch:
                batch.add_request("echo", [1])
                batch.add_request("echo", [2])
            assert batch.results == ([1], [2])
    server.close()
    await server.wait_closed()
    left = asyncio.all_tasks() - before
    if left:  # Python 3.12 and later: those of the server's session
        await asyncio.wait(left, timeout=10)
