"""The WebSocket endpoint for ASGI: alone and in Starlette, under uvicorn, and with events of the test."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jsonrpc_fast import Notification, Request
from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.profile import JSONRPC_1
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.asgi import AsgiWebSocket, WebSocketEndpoint
from jsonrpc_fast.transports.protocol import MAX_FAULTS

from ..support.tables import rows
from ..support.transports import Recorder
from ..support.waiting import eventually

pytestmark = pytest.mark.usefixtures("loop")


async def serve(transport: AsgiWebSocket) -> None:
    session = Session(transport, {"add": lambda a, b: a + b, "echo": lambda value: value})
    await session.start()
    await session.wait_closed()


class Peer:
    """The ASGI server and the client behind it, played by the test."""

    def __init__(self, endpoint: WebSocketEndpoint, **scope: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.inbox.put_nowait({"type": "websocket.connect"})
        self.may_send = asyncio.Event()
        self.may_send.set()
        whole = {"type": "websocket", "headers": [], "subprotocols": [], "client": ("10.0.0.1", 5), **scope}
        self.task = asyncio.ensure_future(endpoint(whole, self.inbox.get, self._send))

    async def _send(self, event: Any) -> None:
        await self.may_send.wait()
        self.sent.append(event)

    def text(self, text: str) -> None:
        self.inbox.put_nowait({"type": "websocket.receive", "text": text})


async def test_texts_and_bytes_are_messages() -> None:
    peer = Peer(WebSocketEndpoint(serve, subprotocols=["v2", "v1"]), subprotocols=["v1", "v0"])
    peer.text('{"jsonrpc":"2.0",\n"id":1,"method":"add","params":[1,2]}')
    binary = b'{"jsonrpc":"2.0","id":2,"method":"echo","params":["\xc3\xa9"]}'
    peer.inbox.put_nowait({"type": "websocket.receive", "bytes": binary, "text": None})
    await eventually(lambda: len(peer.sent) == 3)
    assert peer.sent == [
        {"type": "websocket.accept", "subprotocol": "v1"},
        {"type": "websocket.send", "text": '{"jsonrpc":"2.0","id":1,"result":3}'},
        {"type": "websocket.send", "text": '{"jsonrpc":"2.0","id":2,"result":"é"}'},
    ]
    peer.inbox.put_nowait({"type": "websocket.disconnect", "code": 1001})
    await peer.task


@rows(
    ("first", "response"),
    [
        (
            '[{"jsonrpc":"2.0","id":1,"method":"add"}]',
            '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}',
        ),
        ('{"id":1', '{"id":null,"error":{"code":-32700,"message":"Parse error"},"result":null}'),
    ],
)
async def test_the_first_text_decides_what_form_the_peer_gets(first: str, response: str) -> None:
    peer = Peer(WebSocketEndpoint(serve, profile=JSONRPC_1))
    peer.text(first)
    peer.text('{"jsonrpc":"2.0","id":2,"method":"echo","params":[3]}')
    await eventually(lambda: len(peer.sent) == 3)
    result = '{"jsonrpc":"2.0","id":2,"result":3}' if "jsonrpc" in response else '{"id":2,"result":3,"error":null}'
    assert [event["text"] for event in peer.sent[1:]] == [response, result]
    peer.inbox.put_nowait({"type": "websocket.disconnect", "code": 1001})
    await peer.task


@rows(("code", "is_fault"), [(1000, False), (1001, False), (1005, False), (1006, True), (4000, True)])
async def test_close_codes_of_the_peer(code: int, is_fault: bool) -> None:
    recorders: list[Recorder] = []

    async def record(transport: AsgiWebSocket) -> None:
        recorders.append(Recorder(transport))
        await transport.start()
        assert transport.peer == ("10.0.0.1", 5)

    peer = Peer(WebSocketEndpoint(record))
    peer.text('{"jsonrpc":"2.0","method":"n"}')
    peer.inbox.put_nowait({"type": "websocket.disconnect", "code": code, "reason": "why"})
    await peer.task
    assert recorders[0].events[0] == Notification("n")
    assert [type(event) for event in recorders[0].events[1:]] == [ConnectionLost] * is_fault + [str]
    if is_fault:
        assert str(recorders[0].events[1]) == f"the peer closed the connection with {code}: 'why'"


async def test_close_codes_of_this_side() -> None:
    async def close(transport: AsgiWebSocket) -> None:
        await transport.start()
        transport.send(Notification("last"))
        await transport.close()

    peer = Peer(WebSocketEndpoint(close))
    await peer.task
    assert [event["type"] for event in peer.sent] == ["websocket.accept", "websocket.send", "websocket.close"]
    assert peer.sent[-1]["code"] == 1000
    peer = Peer(WebSocketEndpoint(serve, max_faults=1))
    peer.text("{")
    peer.text("{")
    await peer.task
    assert peer.sent[-1] == {"type": "websocket.close", "code": 1008}


async def test_origins() -> None:
    for origins, origin, is_accepted in (
        ((), None, True),
        ((), b"https://a.example", False),
        (["https://a.example"], b"https://a.example", True),
        ([re.compile(r"https://.*\.b\.example")], b"https://x.b.example", True),
        ([re.compile(r"https://.*\.b\.example")], b"https://x.b.example.evil", False),
        (None, b"null", True),
    ):
        headers = [] if origin is None else [(b"origin", origin)]
        peer = Peer(WebSocketEndpoint(serve, origins=origins), headers=headers)  # type: ignore[arg-type]
        await eventually(lambda: bool(peer.sent))  # noqa: B023
        assert (peer.sent[0]["type"] == "websocket.accept") is is_accepted
        peer.inbox.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await peer.task


@pytest.mark.virtual_time
async def test_back_pressure_in_both_directions() -> None:
    transports: list[AsgiWebSocket] = []

    async def keep(transport: AsgiWebSocket) -> None:
        transports.append(transport)
        Recorder(transport)
        await transport.start()

    peer = Peer(WebSocketEndpoint(keep))
    await eventually(lambda: bool(peer.sent))
    [transport] = transports
    peer.may_send.clear()
    for _ in range(40):
        transport.send(Notification("n", ["x" * 10_000]))
    await asyncio.sleep(0.01)
    assert transport.write_buffer_bytes > 400_000
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(transport.drain(), 0.05)
    for number in range(5):
        peer.text(f'{{"jsonrpc":"2.0","method":"{number}"}}')
    await asyncio.sleep(0.01)
    assert peer.inbox.qsize() >= 4  # it does not read either
    peer.may_send.set()
    await transport.drain()
    await eventually(lambda: peer.inbox.qsize() == 0)
    await eventually(lambda: len(peer.sent) == 41)
    peer.inbox.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await peer.task


async def test_a_peer_that_is_gone_and_a_server_that_stops() -> None:
    recorders: list[Recorder] = []

    async def record(transport: AsgiWebSocket) -> None:
        recorders.append(Recorder(transport))
        await transport.start()
        transport.send(Notification("n"))

    class Gone(Peer):
        async def _send(self, event: Any) -> None:
            if event["type"] == "websocket.send":
                raise RuntimeError("gone")
            await super()._send(event)

    peer = Gone(WebSocketEndpoint(record))
    await peer.task
    assert isinstance(recorders[0].events[0], ConnectionLost)
    assert isinstance(recorders[0].events[0].__cause__, RuntimeError)
    assert recorders[0].events[1:] == ["closed"]
    peer = Peer(WebSocketEndpoint(record))
    await eventually(lambda: len(peer.sent) == 2)
    peer.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await peer.task
    assert recorders[-1].events == ["closed"]


async def test_events_of_an_unknown_type_are_ignored() -> None:
    peer = Peer(WebSocketEndpoint(serve))
    peer.inbox.put_nowait({"type": "websocket.ping", "bytes": b""})
    peer.text('{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}')
    await eventually(lambda: len(peer.sent) == 2)
    assert peer.sent[1]["text"] == '{"jsonrpc":"2.0","id":1,"result":3}'
    peer.inbox.put_nowait({"type": "websocket.disconnect"})
    await peer.task


@rows("event", [None, {}, {"type": "websocket.receive"}, {"type": "websocket.receive", "bytes": 1}])
async def test_a_server_that_fails_ends_the_connection(event: Any) -> None:
    recorders: list[Recorder] = []

    async def record(transport: AsgiWebSocket) -> None:
        recorders.append(Recorder(transport))
        await transport.start()

    peer = Peer(WebSocketEndpoint(record))
    peer.inbox.put_nowait(event)
    await peer.task
    assert [type(found) for found in recorders[0].events] == [ConnectionLost, str]
    assert isinstance(recorders[0].events[0].__cause__, TypeError | KeyError)


async def test_a_connection_that_serve_does_not_start_is_refused() -> None:
    async def ignore(transport: AsgiWebSocket) -> None:
        pass

    async def disconnect(transport: AsgiWebSocket) -> None:
        await transport.disconnect()

    for dismiss in (ignore, disconnect):
        peer = Peer(WebSocketEndpoint(dismiss))
        await peer.task
        assert peer.sent == [{"type": "websocket.close", "code": 1008}]
        assert peer.inbox.empty()

    async def connect(transport: AsgiWebSocket) -> None:
        await transport.connect()

    peer = Peer(WebSocketEndpoint(connect))
    await peer.task
    assert [event["type"] for event in peer.sent] == ["websocket.accept", "websocket.close"]


async def test_a_peer_that_is_gone_before_the_handshake_is_not_answered() -> None:
    async def start(transport: AsgiWebSocket) -> None:
        with pytest.raises(ConnectionResetError):
            await transport.start()

    for begin in (serve, start):
        peer = Peer(WebSocketEndpoint(begin))
        peer.inbox.get_nowait()
        peer.inbox.put_nowait({"type": "websocket.disconnect", "code": 1006})
        await peer.task
        assert peer.sent == []


async def test_an_exception_of_serve_closes_the_connection_and_is_raised() -> None:
    async def fail(transport: AsgiWebSocket) -> None:
        await transport.start()
        raise KeyError("serve")

    peer = Peer(WebSocketEndpoint(fail))
    with pytest.raises(KeyError):
        await peer.task
    assert peer.sent[-1]["type"] == "websocket.close"


@rows("fault", [FileNotFoundError("mine"), ConnectionRefusedError("a database of the application")])
async def test_an_os_error_of_serve_is_raised_but_not_that_of_a_peer_that_is_gone(fault: Exception) -> None:
    async def fail(transport: AsgiWebSocket) -> None:
        raise fault

    peer = Peer(WebSocketEndpoint(fail))
    with pytest.raises(type(fault)):
        await peer.task
    peer.inbox.put_nowait({"type": "websocket.connect"})

    class ClientDisconnected(OSError):
        """What uvicorn raises."""

    async def send(event: Any) -> None:
        raise ClientDisconnected

    scope = {"type": "websocket", "headers": [], "subprotocols": [], "client": None}
    await WebSocketEndpoint(serve)(scope, peer.inbox.get, send)


async def test_http_requests_are_told_to_upgrade() -> None:
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)

    async def receive() -> Any:
        raise AssertionError

    await WebSocketEndpoint(serve)({"type": "http"}, receive, send)
    assert [event.get("status") for event in sent] == [426, None]


async def test_the_events_of_the_server_itself_are_answered() -> None:
    events = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": next(events)}

    async def send(event: Any) -> None:
        sent.append(event)

    await WebSocketEndpoint(serve)({"type": "lifespan"}, receive, send)
    assert sent == [{"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"}]


async def test_a_peer_that_sends_only_faults_is_left() -> None:
    peer = Peer(WebSocketEndpoint(serve))
    for _ in range(MAX_FAULTS + 2):
        peer.text("{")
    await peer.task
    assert peer.sent[-1]["type"] == "websocket.close"
    assert peer.sent[-1]["code"] != 1000


def test_options() -> None:
    with pytest.raises(ValueError, match="max_faults"):
        WebSocketEndpoint(serve, max_faults=-1)
    with pytest.raises(TypeError, match="origins"):
        WebSocketEndpoint(serve, origins="https://a.example")


APP = """
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.asgi import WebSocketEndpoint
from starlette.applications import Starlette
from starlette.routing import Mount, WebSocketRoute

async def serve(transport):
    session = Session(transport, {"add": lambda a, b: a + b, "echo": lambda value: value})
    await session.start()
    await session.wait_closed()

endpoint = WebSocketEndpoint(serve)
app = Starlette(routes=[WebSocketRoute("/rpc", endpoint), Mount("/mounted", endpoint)])
"""


@contextlib.asynccontextmanager
async def uvicorn_serving(folder: Any, target: str) -> AsyncIterator[str]:
    for name in ("uvicorn", "starlette", "websockets"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    (folder / "served_app.py").write_text(APP)
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(folder), "--port", "0", "--ws", "websockets", target]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        while True:
            line = (await asyncio.wait_for(process.stderr.readline(), 30)).decode()
            assert line, "uvicorn did not start"
            if found := re.search(r"running on http://([\d.:]+)", line):
                yield f"ws://{found[1]}"
                break
    finally:
        process.terminate()
        await process.communicate()


@pytest.mark.parametrize("target", ["app", "endpoint"])
@pytest.mark.ci
async def test_under_uvicorn(tmp_path: Any, target: str) -> None:
    paths = ["/rpc", "/mounted/"] if target == "app" else ["/"]
    async with uvicorn_serving(tmp_path, f"served_app:{target}") as uri:
        from jsonrpc_fast.transports.websocket import WebSocketClient

        for path in paths:
            client = WebSocketClient(uri + path)
            async with Session(client) as session:
                assert await asyncio.gather(*[session.call("add", [n, 1]) for n in range(200)]) == list(range(1, 201))
                assert await session.call("echo", ["é" * 300_000]) == "é" * 300_000
            assert client.close_code == 1000
            lost = WebSocketClient(uri + path)
            await lost.start()
            lost.send(Request(1, "add", [1, 2]))
            await lost.disconnect()
            async with Session(WebSocketClient(uri + path)) as session:  # others are served
                assert await session.call("add", [1, 2]) == 3
