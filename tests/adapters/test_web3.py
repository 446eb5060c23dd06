"""The providers of web3.py on this package's codec: the same responses and exceptions as web3.py's own, from a node."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("web3", reason="web3 is not installed")
if sys.platform == "win32":
    pytest.skip("the node listens on a Unix socket", allow_module_level=True)

import web3
from web3.exceptions import BadResponseFormat, ContractLogicError, MethodUnavailable, Web3RPCError, Web3TypeError

from jsonrpc_fast import BACKEND
from jsonrpc_fast.adapters import web3 as adapter

from ..support import hostile_messages
from ..support.eth_app import BALANCE
from ..support.eth_node import HEADS, LOGS, Node, running_node
from ..support.processes import wait_until_received
from ..support.tables import rows

pytestmark = [pytest.mark.time_limit(100), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ADDRESS = "0x" + "00" * 19 + "01"
SYNC = ["HTTPProvider", "IPCProvider"]
if hasattr(web3, "LegacyWebSocketProvider"):
    SYNC.append("LegacyWebSocketProvider")
PERSISTENT = ["AsyncIPCProvider", "WebSocketProvider"]
ASYNC = ["AsyncHTTPProvider", *PERSISTENT]

REPLIES = [
    '{"jsonrpc":"2.0","id":ID,"result":{"b":1,"a":[1.5,true,null]}}',
    '{"result":{"a":{}},"id":ID,"more":[1],"jsonrpc":"2.0"}',
    '{"jsonrpc":"2.0","id":ID,"result":12345678901234567890123,"result":1}',
    '{"jsonrpc":"2.0","id":ID,"result":[12345678901234567890123,-9223372036854775809,18446744073709551615]}',
    '{"jsonrpc":"2.0","id":ID,"result":[NaN,1e400]}',
    '{"jsonrpc":"2.0","id":ID,"result":"\\ud800"}',
    '{"jsonrpc":"2.0","id":ID,"result":"\u00e9\U0001f600"}',
    '{"jsonrpc":"2.0","id":ID,"error":{"message":"m","code":-5,"data":[1],"more":1}}',
    '{"jsonrpc":"2.0","id":ID,"error":{"code":"5","message":"m"}}',
    '{"jsonrpc":"2.0","id":ID,"error":null,"result":1}',
    '{"jsonrpc":"2.0","id":ID,"error":"text"}',
    '{"jsonrpc":"1.0","id":ID,"result":1}',
    '{"id":ID,"result":1}',
    '{"jsonrpc":"2.0","id":ID}',
    ' {"jsonrpc":"2.0","id":ID,"result":1} ',
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(tmp_path_factory.mktemp("node")) as running:
        yield running


def make(module: Any, name: str, node: Node, **options: Any) -> Any:
    uri = node.http if "HTTP" in name else node.websocket if "WebSocket" in name else node.ipc
    if "Legacy" in name:
        options["websocket_timeout"] = 30
    return getattr(module, name)(uri, **options)


@contextlib.contextmanager
def connected(module: Any, name: str, node: Node) -> Iterator[Any]:
    """Yield a provider, and close the socket that web3.py leaves open."""
    provider = make(module, name, node)
    try:
        yield provider
    finally:
        if name == "IPCProvider":
            close(provider)


def close(provider: Any) -> None:
    if provider._socket.sock is not None:
        provider._socket.sock.close()


def outcome(function: Any, *args: Any) -> Any:
    """Return the result of a call, or its exception. repr shows the order of members, and NaN equals itself."""
    try:
        return repr(function(*args))
    except Exception as error:
        return type(error), str(error)


async def outcome_of(call: Any) -> Any:
    try:
        return repr(await call)
    except Exception as error:
        return type(error), str(error)


def check_outcomes(own: list[Any], fast: list[Any]) -> None:
    """Compare what `make_request` returned for REPLIES, followed by what a client made of them."""
    assert own == fast
    raw, judged = fast[: len(REPLIES)], fast[len(REPLIES) :]
    assert raw[0].endswith("'result': {'b': 1, 'a': [1.5, True, None]}}")
    assert raw[3].endswith("[12345678901234567890123, -9223372036854775809, 18446744073709551615]}")
    assert judged[6] == "'\u00e9\U0001f600'"
    assert judged[7] == (Web3RPCError, "{'message': 'm', 'code': -5, 'data': [1], 'more': 1}")
    assert judged[13][0] is BadResponseFormat


@pytest.mark.parametrize("name", SYNC)
def test_responses_and_exceptions_are_those_of_web3(node: Node, name: str) -> None:
    found: list[list[Any]] = []
    for module in (web3, adapter):
        with connected(module, name, node) as provider:
            request: Any = web3.Web3(provider).manager.request_blocking
            calls = (provider.make_request, request)
            found.append([outcome(call, "test_reply", [reply]) for call in calls for reply in REPLIES])
    check_outcomes(*found)


@pytest.mark.parametrize("name", ASYNC)
@pytest.mark.ci
async def test_asynchronous_responses_and_exceptions_are_those_of_web3(node: Node, name: str) -> None:
    found: list[list[Any]] = []
    for module in (web3, adapter):
        outcomes = []
        for is_judged in (False, True):
            for reply in REPLIES:
                provider = make(module, name, node)
                if name in PERSISTENT:
                    await provider.connect()
                request: Any = web3.AsyncWeb3(provider).manager.coro_request if is_judged else provider.make_request
                outcomes.append(await outcome_of(request("test_reply", [reply])))
                with contextlib.suppress(Exception):  # of the listener, which an error without a known request ends
                    await provider.disconnect()
                if name in PERSISTENT:
                    await provider._provider_specific_disconnect()
        found.append(outcomes)
    check_outcomes(*found)


@pytest.mark.parametrize("name", SYNC)
def test_calls(node: Node, name: str) -> None:
    with connected(adapter, name, node) as provider:
        check_calls(web3.Web3(provider))


def check_calls(client: web3.Web3) -> None:
    assert client.is_connected()
    assert client.eth.chain_id == 1337
    assert client.eth.get_balance(web3.Web3.to_checksum_address(ADDRESS)) == BALANCE
    logs = client.eth.get_logs({})
    assert len(logs) == len(LOGS)
    assert type(logs[7]) is web3.datastructures.AttributeDict
    assert (logs[7].blockNumber, bytes(logs[7].data)) == (7, (7).to_bytes(32, "big"))
    with pytest.raises(ContractLogicError, match="execution reverted"):
        client.eth.call({"to": web3.Web3.to_checksum_address(ADDRESS)})
    with pytest.raises(MethodUnavailable, match="Method not found"):
        client.manager.request_blocking("test_unknown", [])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SYNC)
def test_a_batch(node: Node, name: str) -> None:
    """The node responds in reverse order."""
    with connected(adapter, name, node) as provider:
        client = web3.Web3(provider)
        with client.batch_requests() as batch:
            batch.add(client.eth.get_block_number())  # type: ignore[attr-defined]
            batch.add(client.eth.get_logs({}))
            found: Any = batch.execute()
    assert found[0] == 16_000_000
    assert [log.logIndex for log in found[1]] == list(range(len(LOGS)))


@pytest.mark.parametrize("name", PERSISTENT)
async def test_calls_at_once_a_batch_and_a_subscription(node: Node, name: str) -> None:
    async with web3.AsyncWeb3(make(adapter, name, node)) as client:
        assert await client.is_connected()
        addresses = [web3.Web3.to_checksum_address(f"0x{number:040x}") for number in range(50)]
        balances = await asyncio.gather(*[client.eth.get_balance(address) for address in addresses])
        assert balances == [BALANCE] * 50
        async with client.batch_requests() as batch:
            batch.add(client.eth.get_logs({}))
            batch.add(client.eth.chain_id)
            found: Any = await batch.async_execute()
        assert (len(found[0]), found[1]) == (len(LOGS), 1337)
        subscription = await client.eth.subscribe("newHeads")
        assert subscription == "0xabc"
        numbers: list[int] = []
        async for message in client.socket.process_subscriptions():
            numbers.append(message["result"]["number"])  # type: ignore[index, typeddict-item]
            if len(numbers) == HEADS:
                break
        assert numbers == [0, 1, 2]
        assert await client.eth.unsubscribe(subscription)


@pytest.mark.parametrize("text_frames", [False, True])
async def test_frames_of_text_and_bytes(node: Node, text_frames: bool) -> None:
    async with web3.AsyncWeb3(make(adapter, "WebSocketProvider", node, use_text_frames=text_frames)) as client:
        assert await client.eth.chain_id == 1337


REQUESTS: list[Any] = [
    [],
    [{"to": "\u00e9", "data": web3.types.HexBytes("0x0102"), "raw": b"\xff"}],
    (1, 2.5, None),
    [web3.datastructures.AttributeDict({"a": web3.datastructures.AttributeDict({"b": b"\x01"})})],
    [{1: 2}, 2**70, float("nan"), "\ud800"],
]


@rows("params", REQUESTS)
def test_requests_mean_what_those_of_web3_mean(params: Any) -> None:
    found = []
    for module in (web3, adapter):
        provider: Any = module.IPCProvider("/nowhere")
        request = provider.encode_rpc_request("m", params)
        batch = provider.encode_batch_rpc_request([("a", params), ("b", params)])
        asynchronous: Any = module.AsyncIPCProvider("/nowhere")
        found.append(
            [repr(json.loads(text)) for text in (request, batch, asynchronous.encode_rpc_request("m", params))]
        )
    assert found[0] == found[1]


def test_requests_are_compact() -> None:
    assert adapter.IPCProvider("/nowhere").encode_rpc_request("m", ["é"]) == (
        '{"jsonrpc":"2.0","method":"m","params":["é"],"id":0}'.encode()
    )


@rows("name", ["IPCProvider", "AsyncIPCProvider"])
def test_a_request_that_cannot_be_encoded(name: str) -> None:
    for module in (web3, adapter):
        provider: Any = getattr(module, name)("/nowhere")
        with pytest.raises(Web3TypeError, match=r"Could not encode to JSON: .*'params'.*Object of type set"):
            provider.encode_rpc_request("m", [{1, 2}])
        assert json.loads(provider.encode_rpc_request("m", []))["id"] == 1


@rows("name", ["IPCProvider", "HTTPProvider", "AsyncIPCProvider", "AsyncHTTPProvider"])
def test_the_pure_backend_reads_as_web3_does(name: str) -> None:
    own, fast = (getattr(module, name).decode_rpc_response for module in (web3, adapter))
    assert (own is fast) == (BACKEND == "python")


TEXTS = [
    b"{",
    b"",
    b"[1]x",
    b'\xef\xbb\xbf{"a":1}',
    b"\xff",
    b'"a\nb"',
    b'{"a":1,"a":2}',
    b"7,8",
    b'1,"x":2',
    b"[" * 100_000,
    b"HTTP/1.1",
]


@rows("text", TEXTS)
@rows("name", ["IPCProvider", "AsyncIPCProvider"])
def test_texts_that_are_no_response(name: str, text: bytes) -> None:
    own, fast = (getattr(module, name).decode_rpc_response for module in (web3, adapter))
    assert outcome(own, text) == outcome(fast, text)


@contextlib.contextmanager
def peer(path: Path, *scripts: list[bytes]) -> Iterator[None]:
    """Respond to the first request of each connection with the given pieces, each in its own segment."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.settimeout(60)

    def serve() -> None:
        for pieces in scripts:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                for piece in pieces:
                    connection.sendall(piece)
                    wait_until_received(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
        listener.close()


def test_a_response_in_pieces_that_look_whole(tmp_path: Path) -> None:
    pieces = [b'{"jsonrpc":"2.0","id":0,"result":[{"a":1}', b",[2]", b"]}" + b" " * 100 + b"\n"]
    with peer(tmp_path / "ipc", pieces):
        provider: Any = adapter.IPCProvider(tmp_path / "ipc")
        response = provider.make_request("m", [])
        close(provider)
    assert response["result"] == [{"a": 1}, [2]]


def test_a_connection_that_was_closed_is_opened_again(tmp_path: Path) -> None:
    text = b'{"jsonrpc":"2.0","id":0,"result":1}'
    with peer(tmp_path / "ipc", [text], [text]):
        provider: Any = adapter.IPCProvider(tmp_path / "ipc")
        for _ in range(2):
            assert provider.make_request("m", [])["result"] == 1
            provider._socket.sock.settimeout(30)
            assert provider._socket.sock.recv(1) == b""
        close(provider)


@pytest.mark.parametrize("module", [web3, adapter])
def test_a_response_that_never_ends_is_a_timeout(tmp_path: Path, module: Any) -> None:
    from web3._utils.threads import Timeout

    with peer(tmp_path / "ipc", [b'{"jsonrpc":"2.0"}{']), pytest.raises(Timeout):
        module.IPCProvider(tmp_path / "ipc", timeout=0.2).make_request("m", [])


@pytest.mark.usefixtures("unlogged")
def test_hostile_responses_are_read_as_by_web3() -> None:
    texts = hostile_messages.responses(b"1", mutations=500) | hostile_messages.requests(b"1", b"eth_subscription", 100)
    differing = {}
    for name in ("HTTPProvider", "AsyncHTTPProvider"):
        own, fast = getattr(web3, name)(), getattr(adapter, name)()
        for text_name, text in texts.items():
            both = outcome(own.decode_rpc_response, text), outcome(fast.decode_rpc_response, text)
            if both[0] != both[1]:
                differing[f"{name}: {text_name}"] = both
    assert differing == {}


@pytest.mark.usefixtures("unlogged")
@pytest.mark.ci
def test_hostile_values_are_written_as_by_web3() -> None:
    differing = {}
    for name, value in hostile_messages.VALUES.items():
        found = []
        for module in (web3, adapter):
            provider = module.HTTPProvider()
            try:
                text = provider.encode_rpc_request("m", [value])
            except Exception as error:
                found.append((type(error).__name__, ""))
            else:
                found.append(("written", outcome(provider.decode_rpc_response, text)))
        if found[0] != found[1]:
            differing[name] = found
    assert differing == {}
