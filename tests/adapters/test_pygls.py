"""The servers and clients of pygls on this package's transports: real processes and sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from ..support.places import PEERS

pytest.importorskip("pygls", minversion=None, reason="pygls is not installed")

from typing import Self

import pygls.lsp.client
from lsprotocol import types
from pygls.exceptions import JsonRpcInternalError, JsonRpcInvalidParams, JsonRpcMethodNotFound
from pygls.protocol import LanguageServerProtocol

from jsonrpc_fast import LSP, Decoder, Notification, Request, encode
from jsonrpc_fast.adapters import pygls as adapter
from jsonrpc_fast.adapters import pygls_connections as connections
from jsonrpc_fast.errors import ConnectionLost
from jsonrpc_fast.framing import frame

from ..support import hostile_messages, loops
from ..support.tables import rows
from ..support.waiting import eventually, forever

pytestmark = [
    # pygls 2.1 on Python 3.14
    pytest.mark.filterwarnings("ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning")
]

SERVER = str(PEERS / "pygls_adapter_server.py")
HOVER = types.HoverParams(types.TextDocumentIdentifier("file:///a"), types.Position(3, 0))


def client_class(kind: str) -> Any:
    return pygls.lsp.client.LanguageClient if kind == "own" else adapter.LanguageClient


@asynccontextmanager
async def connected(client: str = "fast", server: str = "fast") -> AsyncIterator[Any]:
    """Yield an initialized client of a server process, with the log messages that it got as `logged`."""
    peer = client_class(client)("test", "1")
    peer.logged = []
    peer.feature(types.WINDOW_LOG_MESSAGE)(lambda params: peer.logged.append((time.time(), params.message)))
    peer.feature(types.WORKSPACE_CONFIGURATION)(lambda params: [{"section": params.items[0].section}])
    peer.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: None)
    arguments = [server, *(["uvloop"] if loops.current == "uvloop" else [])]
    await peer.start_io(sys.executable, SERVER, *arguments)
    await peer.initialize_async(types.InitializeParams(types.ClientCapabilities(), root_uri="file:///"))
    try:
        yield peer
        await peer.shutdown_async(None)
        peer.exit(None)
        await peer._server.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            peer._server.kill()
        await peer.stop()
    assert peer._server.returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize(("client", "server"), [("own", "fast"), ("fast", "own"), ("fast", "fast")])
async def test_a_client_and_a_server_process(client: str, server: str) -> None:
    async with connected(client, server) as peer:
        calls = [peer.text_document_hover_async(HOVER) for _ in range(100)]
        assert {result.contents for result in await asyncio.gather(*calls)} == {"file:///a:3"}
        position = types.CompletionParams(HOVER.text_document, types.Position(800, 0))
        completions = await peer.text_document_completion_async(position)
        assert [item.label for item in completions.items] == [f"name{number}" for number in range(800)]
        assert {item.kind for item in completions.items} == {types.CompletionItemKind.Function}
        asked = await peer.protocol.send_request_async("custom/ask", {})
        assert asked.section == "here"
        assert await peer.protocol.send_request_async("custom/work", {}) == "worker"
        while not peer.logged:  # the thread's notification may come after the result
            await asyncio.sleep(0.01)
        assert peer.logged[0][1] == "from a thread"
        with pytest.raises(JsonRpcMethodNotFound):
            await peer.protocol.send_request_async("custom/none", {})
        wide = await peer.protocol.send_request_async("custom/wide", {})
        assert wide.number == 2**70
        if client == "own":
            assert (await peer.protocol.send_request_async("custom/surrogate", {})).text == "\ud800"


CANCELLED = """
import sys
from jsonrpc_fast.adapters.pygls import LanguageServer
server, served = LanguageServer("test", "1"), []
server.feature("custom/work")(lambda params: served.append(params))
server.feature("custom/served")(lambda params: len(served))
server.start_io()
"""


@pytest.mark.ci
def test_a_request_does_not_begin_whose_cancellation_was_read_with_it() -> None:
    messages: list[Any] = [Request("first", "initialize", {"capabilities": {}, "processId": None, "rootUri": None})]
    messages += [Request(number, "custom/work", {}) for number in range(10)]
    messages += [Notification("$/cancelRequest", {"id": number}) for number in range(1, 10)]
    messages += [Request("last", "custom/served", {}), Request("end", "shutdown"), Notification("exit")]
    text = b"".join(frame(encode(message, delimited=False), "content-length") for message in messages)
    done = subprocess.run([sys.executable, "-c", CANCELLED], input=text, capture_output=True, timeout=50)
    responses: list[Any] = Decoder("content-length", LSP).feed(done.stdout)
    outcomes = {each.id: each.error.code if each.is_error else each.result for each in responses}
    assert [outcomes[number] for number in range(10)] == [None, *[-32800] * 9]
    assert outcomes["last"] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("stray", ["starting\n", "loading: ", "Content-\n" * 50_000])
async def test_what_a_server_prints_before_its_first_message_is_skipped(
    stray: str, caplog: pytest.LogCaptureFixture
) -> None:
    code = f"import os, runpy, sys; sys.stdout.write({stray[:9]!r} * {len(stray) // 9}); sys.stdout.flush();"
    code += "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    peer = adapter.LanguageClient("test", "1")
    await peer.start_io(sys.executable, "-c", code, SERVER, "own")
    try:
        parameters = types.InitializeParams(types.ClientCapabilities(), root_uri="file:///")
        await asyncio.wait_for(peer.initialize_async(parameters), 40)
        result: Any = await asyncio.wait_for(peer.text_document_hover_async(HOVER), 40)
        assert result.contents == "file:///a:3"
    finally:
        assert isinstance(peer._server, asyncio.subprocess.Process)
        peer._server.kill()
        await peer.stop()
    assert f"Skipped text between messages: b'{stray[:8]}" in caplog.text


@pytest.mark.slow
@pytest.mark.usefixtures("loop")
async def test_a_message_leaves_while_the_handler_goes_on() -> None:
    async with connected() as peer:
        ended = await peer.protocol.send_request_async("custom/steps", {"seconds": 0.5})
        [(begun, text)] = peer.logged
        assert text == "begun"
        assert ended - begun > 0.25


@pytest.mark.slow
@pytest.mark.usefixtures("loop")
async def test_messages_that_pygls_leaves_unanswered() -> None:
    async with connected() as peer:
        send = peer.protocol.send_request_async
        with pytest.raises(AttributeError):
            await send(types.TEXT_DOCUMENT_HOVER, {"position": 7})  # cannot be encoded
        with pytest.raises(JsonRpcInternalError):
            await send("custom/object", {})
        nested = await send("custom/describe", {"value": {"jsonrpc": "2.0", "id": 1, "method": "x"}})
        assert nested.value == ["2.0", 1, "x"]  # pygls reads an object as a namedtuple
    script = (
        b'{"jsonrpc":"2.0","id":1,"method":"custom/describe"}',
        b'{"jsonrpc":"2.0","id":2,"method":"custom/describe","params":7}',
        b'{"jsonrpc":"2.0","id":3,"id":3,"method":"custom/describe"}',
        b'{"jsonrpc":"2.0","id":4,"method":"textDocument/hover","params":{}}',
        b"{]",
        b'{"jsonrpc":"2.0","id":5,"method":"custom/describe","params":{"value":1}}',
    )
    frames = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(text), text) for text in script)
    process = await asyncio.to_thread(
        subprocess.run, [sys.executable, SERVER], input=frames, capture_output=True, timeout=30
    )
    answers = {}
    rest = process.stdout
    while rest:
        header, _, rest = rest.partition(b"\r\n\r\n")
        size = int(header.split(b"Content-Length: ")[1])
        answer, rest = json.loads(rest[:size]), rest[size:]
        if "id" in answer:
            answers[answer["id"]] = answer.get("result") or answer["error"]["code"]
    assert answers == {
        1: {"is_none": True, "value": None, "text": "None"},
        2: {"is_none": False, "value": None, "text": "7"},
        3: {"is_none": True, "value": None, "text": "None"},
        None: -32700,
        4: -32602,
        5: {"is_none": False, "value": 1, "text": "Object(value=1)"},
    }
    assert process.stderr.count(b"stray text") == 4


def framed(text: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(text), text)


SKIPPED = [
    b"",
    b"text\r\n",
    b"\x00\xff\n\n{}\r\n",
    b"Content-Length: -5\r\n\r\n",
    b"Content-Length: x\r\n\r\n",
    b"Content-Length: 0\r\n\r\n",
    b"Content-Length: 9999999999999999\r\n\r\n",
    b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"X: " + b"a" * 100_000 + b"\r\n",
    b"text without an end ",
    b"Content-Type: x\r\nX: 1\r\n",
    b"Content-" * 100 + b"\n",
]


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 1 << 20])
def test_text_between_messages_is_skipped_in_any_chunks(size: int) -> None:
    messages = [b"{%d}" % number for number in range(len(SKIPPED))]
    stream = b"".join(skipped + framed(text) for skipped, text in zip(SKIPPED, messages, strict=True))
    stream += b"content-length:2\n\n{}" + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n[]" + framed(b"x" * 3000)
    stream += b"Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-16\r\n\r\n{}"
    received = bytearray()
    frames = connections.Frames(received.extend, skips_text=True)
    for at in range(0, len(stream), size):
        frames.receive(memoryview(stream)[at : at + size])
    assert received == b"".join(map(framed, [*messages, b"{}", b"[]", b"x" * 3000, b"{}"]))


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 1 << 20])
def test_without_skipping_content_types_alone_are_left_out(size: int) -> None:
    stream = b"content-length:2\n\n{}" + framed(b"[]") + b"X: 1\r\nContent-Length: 2\r\nY: 2\r\n\r\n{}" + framed(b"{")
    stream += b"GET / HTTP/1.1\r\n\r\n" + framed(b"x" * 3000) + b"X" * 20_000 + b"\r\n\r\nContent-Len"
    types = b"Content-Type: a; charset=utf-16\r\n", b"content-type:" + b"x" * 500 + b"\n"
    given = stream
    for name in (b"content-length:", b"Content-Length:", b"X: 1", b"Y: 2", b"GET"):
        given = given.replace(name, types[len(name) % 2] + name)
    received = bytearray()
    frames = connections.Frames(received.extend, skips_text=False)
    for at in range(0, len(given), size):
        frames.receive(memoryview(given)[at : at + size])
    frames.receive(b"")
    assert received == stream


HOSTILE = [
    *SKIPPED,
    framed(b"[" * 100_000),
    framed(b"{]"),
    framed(b"\xff"),
    framed(b"[]"),
    framed(b'{"jsonrpc":"2.0","id":77,"result":1}'),
    framed(b'{"jsonrpc":"2.0","id":77,"error":{"code":1,"message":"x"}}'),
    framed(b'{"jsonrpc":"2.0","method":"custom/describe","params":{"v":%s}}' % (b"[" * 5000 + b"]" * 5000)),
    framed(b'{"jsonrpc":"2.0","method":"custom/describe","params":{"v":"\\ud800"}}'),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "end", [b"", b"Content-Len", b"Content-Length: 50\r\n\r\n{", b"Content-Length: 100000000\r\n\r\n{}"]
)
def test_messages_among_hostile_ones_are_answered(end: bytes) -> None:
    stream = b"".join(
        text + framed(b'{"jsonrpc":"2.0","id":%d,"method":"custom/describe","params":{}}' % number)
        for number, text in enumerate(HOSTILE)
    )
    process = subprocess.run([sys.executable, SERVER], input=stream + end, capture_output=True, timeout=50)
    answered = [int(id) for id in re.findall(rb'"id": ?([0-9]+)', process.stdout)]
    assert answered == list(range(len(HOSTILE)))
    assert process.returncode == 0


def port_of(listener: Any) -> int | None:
    """Return the port of a listener; None while it starts."""
    try:
        return int(next(iter(listener.sockets)).getsockname()[1])
    except (AttributeError, TypeError, StopIteration):  # the last two from websockets
        return None


@asynccontextmanager
async def serving(start: str, server: Any) -> AsyncIterator[int]:
    """Run a server in a thread, as pygls runs it in the main thread, and yield its port."""
    exits: list[BaseException] = []

    def run() -> None:
        try:
            getattr(server, start)("127.0.0.1", 0)
        except SystemExit as error:
            exits.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    port = await eventually(lambda: port_of(server._server))
    loop = server._server.get_loop()
    try:
        yield port
    finally:
        with suppress(RuntimeError):  # the loop is closed: the server ends with its client
            loop.call_soon_threadsafe(server.shutdown)  # called in this thread, it would not wake the loop
            if not isinstance(server, adapter.LanguageServer):
                # From Python 3.12 on, pygls waits for its connection, which it does not close.
                loop.call_soon_threadsafe(lambda: server.protocol.writer.close())
    await asyncio.to_thread(thread.join, 20)
    assert not thread.is_alive()


def new_server() -> Any:
    server = adapter.LanguageServer("peer", "1")

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover:
        return types.Hover(contents=params.text_document.uri)

    @server.feature("custom/wait")
    async def wait(params: Any) -> None:
        await forever()

    return server


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("kind", ["own", "fast"])
@pytest.mark.parametrize("start", ["start_tcp", "start_ws"])
async def test_sockets(start: str, kind: str) -> None:
    if start == "start_ws":
        pytest.importorskip("websockets", reason="the extra `websocket` is not installed")
    async with serving(start, new_server()) as port:
        client = client_class(kind)("test", "1")
        await getattr(client, start)("127.0.0.1", port)
        await client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
        calls = [client.text_document_hover_async(HOVER) for _ in range(100)]
        assert {result.contents for result in await asyncio.gather(*calls)} == {"file:///a"}
        if kind == "own":
            # pygls' own client waits for the end of the connection, and does not close its side.
            closing = client.protocol.writer.close()
            if closing is not None:
                await closing
        await client.stop()


@pytest.mark.usefixtures("loop")
async def test_a_listener_is_closed_by_the_thread_of_its_loop() -> None:
    class Listener:
        def close(self) -> None:
            raise AssertionError("closed by another thread")

    server = new_server()
    async with serving("start_tcp", server):
        server._server = Listener()


@pytest.mark.usefixtures("loop")
async def test_calls_end_with_the_connection() -> None:
    server = new_server()
    async with serving("start_tcp", server) as port:
        client = adapter.LanguageClient("test", "1")
        await client.start_tcp("127.0.0.1", port)
        waiting = client.protocol.send_request_async("custom/wait", {})
        await client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
        server.shutdown()
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(waiting, 20)
        await client.stop()


@rows(
    ("header", "charset"),
    [
        (b"", "utf-8"),
        (b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n", "utf-8"),
        (b"Content-Type: application/vscode-jsonrpc; charset=ascii\r\n", "ascii"),
        (b"Content-Type: application/vscode-jsonrpc; charset=iso-8859-1\r\n", "ascii"),
        (b'content-type:application/json;charset="UTF-16"\r\n', "utf-16"),
        (b"Content-Type: x\r\nX-Custom: 1\r\n", "utf-8"),
        (b"Content-Type: a\r\nContent-Type: b; charset=c\r\n", "utf-8"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
async def test_content_types_over_tcp_as_pygls_reads_them(is_first: bool, header: bytes, charset: str) -> None:
    request = '{"jsonrpc":"2.0","id":%d,"method":"custom/size","params":["é"]}'
    if charset == "ascii":
        request = request.replace("é", "\\u00e9")
    for make in (pygls.lsp.server.LanguageServer, adapter.LanguageServer):
        server = make("peer", "1")
        server.feature("custom/size")(lambda params: len(params[0]))
        async with serving("start_tcp", server) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for id in (1, 2):
                body = (request % id).encode(charset)
                length = b"Content-Length: %d\r\n" % len(body)
                writer.write((header + length if is_first else length + header) + b"\r\n" + body)
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                assert json.loads(await reader.readexactly(size)) == {"jsonrpc": "2.0", "id": id, "result": 1}
            writer.close()
            await writer.wait_closed()


async def test_a_response_of_another_type_ends_its_call() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int((await reader.readuntil(b"\r\n\r\n")).split(b"Content-Length: ")[1].split(b"\r\n")[0])
        id = json.loads(await reader.readexactly(size))["id"]
        text = json.dumps({"jsonrpc": "2.0", "id": id, "result": 7}).encode()
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        client = adapter.LanguageClient("test", "1")
        await client.start_tcp(*listening.sockets[0].getsockname())
        with pytest.raises(JsonRpcInvalidParams):
            await asyncio.wait_for(client.initialize_async(types.InitializeParams(types.ClientCapabilities())), 20)
        await client.stop()


def test_given_streams() -> None:
    """Pipes are served on the loop; a stream without a descriptor is left to pygls."""
    server = new_server()
    to_server, from_server = os.pipe(), os.pipe()
    streams = os.fdopen(to_server[0], "rb"), os.fdopen(from_server[1], "wb")
    thread = threading.Thread(target=server.start_io, args=streams)
    thread.start()
    os.write(to_server[1], b'Content-Length: 44\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"unknown"}\n')
    assert b"-32601" in os.read(from_server[0], 10_000)
    os.close(to_server[1])
    thread.join(20)
    assert not thread.is_alive()
    os.close(from_server[0])
    for stream in streams:
        stream.close()


def test_protocol_classes() -> None:
    class Protocol(LanguageServerProtocol):
        pass

    server = adapter.LanguageServer("peer", "1", protocol_cls=Protocol)
    assert isinstance(server.protocol, Protocol)
    assert isinstance(server, pygls.lsp.server.LanguageServer)
    with pytest.raises(TypeError):
        adapter.LanguageServer("peer", "1", protocol_cls=dict)


class Served:
    """A server in a thread, pygls' own or the adapter's, that is called over pipes."""

    def __init__(self, kind: str) -> None:
        own = pygls.lsp.server.LanguageServer
        self.server: Any = (own if kind == "own" else adapter.LanguageServer)("peer", "1")
        self.server.feature("echo")(lambda params: {"repr": repr(params)})
        self.server.feature("value")(lambda params: hostile_messages.VALUES[params.name])
        to_server, from_server = os.pipe(), os.pipe()
        self._streams = os.fdopen(to_server[0], "rb"), os.fdopen(from_server[1], "wb")
        self._input, self._output = to_server[1], os.fdopen(from_server[0], "rb")
        self._good = 0
        self._thread = threading.Thread(target=self.server.start_io, args=self._streams)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._input)
        self._thread.join(20)
        assert not self._thread.is_alive()
        for stream in (self._output, *self._streams):
            stream.close()

    def answers(self, text: bytes) -> list[Any]:
        """Return the responses to a text, each as its id and its result or the code of its error."""
        self._good += 1
        good = b'{"jsonrpc":"2.0","id":"good %d","method":"unknown","params":{}}' % self._good
        writing = threading.Thread(target=self._write, args=(framed(text) + framed(good),))
        writing.start()  # a long text does not fit into the pipe
        found: list[Any] = []
        while True:
            message = json.loads(self._read())
            if message.get("id") == f"good {self._good}":
                writing.join()
                return found
            if "method" not in message:
                error = message.get("error")
                found.append((message["id"], repr(message.get("result")) if error is None else error["code"]))

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._input, data) :]

    def _read(self) -> bytes:
        size = 0
        while (line := self._output.readline()).strip():
            if line.startswith(b"Content-Length"):
                size = int(line.split()[1])
        return self._output.read(size)


@pytest.mark.usefixtures("unlogged")
@pytest.mark.ci
def test_requests_are_answered_as_by_pygls() -> None:
    texts = hostile_messages.requests(b'"hostile"', b"echo", mutations=300)
    with Served("own") as own, Served("fast") as fast:
        found = {name: (own.answers(text), fast.answers(text)) for name, text in texts.items()}
    answered = {name: answers for name, answers in found.items() if answers[0]}
    assert len(answered) > 60
    assert {name: answers for name, answers in answered.items() if answers[0] != answers[1]} == {}
    # What gets no response from pygls gets an error or nothing, and a request without params gets a result.
    more = {name: answers[1] for name, answers in found.items() if not answers[0] and answers[1]}
    results = {name for name, answers in more.items() if not all(type(answer[1]) is int for answer in answers)}
    assert {name for name in results if not name.startswith("mutation")} == {"no params", "params: a message"}
    assert {name: more[name] for name in ("a batch", "a mixed batch", "an empty batch", "cut in the params")} == {
        "a batch": [(None, -32600)],
        "a mixed batch": [(None, -32600)],
        "an empty batch": [(None, -32600)],
        "cut in the params": [(None, -32700)],
    }


@pytest.mark.usefixtures("unlogged")
@pytest.mark.ci
def test_what_is_written_is_what_pygls_writes() -> None:
    found: dict[str, Any] = {}
    with Served("own") as own, Served("fast") as fast:
        for name in hostile_messages.VALUES:
            text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "value", "params": {"name": name}}).encode()
            found[name] = own.answers(text), fast.answers(text)
    assert len(found) == len(hostile_messages.VALUES)
    assert {name: answers for name, answers in found.items() if answers[0] and answers[0] != answers[1]} == {}
    unanswered = {name: answers[1] for name, answers in found.items() if not answers[0]}
    names = "a tuple as a key", "a set", "bytes", "a date", "an object", "a complex number", "itself", "deep: 600"
    assert unanswered == {name: [(1, -32603)] for name in names}


@pytest.mark.usefixtures("unlogged")
@pytest.mark.parametrize("name", ["NaN", "2**70 and NaN", "a lone surrogate", "a lone surrogate in a key"])
@pytest.mark.parametrize("peer", ["own", "fast"])
async def test_what_is_written_is_read(name: str, peer: str) -> None:
    server = new_server()
    server.feature("value")(lambda params: hostile_messages.VALUES[params.name])
    server.feature("echo")(lambda params: params.value)
    async with serving("start_tcp", server) as port:
        client = client_class(peer)("test", "1")
        await client.start_tcp("127.0.0.1", port)
        send = client.protocol.send_request_async
        value = hostile_messages.VALUES[name]
        echoed = await asyncio.wait_for(send("echo", {"value": value}), 10)
        made = await asyncio.wait_for(send("value", {"name": name}), 10)
        expected = value if isinstance(value, (str, float)) else list(value.values())
        assert repr(list(made) if isinstance(made, tuple) else made) == repr(expected)
        assert repr(list(echoed) if isinstance(echoed, tuple) else echoed) == repr(expected)
        server.shutdown()
        await stop(client)


async def stop(client: Any) -> None:
    # pygls' own client waits for the end of the connection, and does not close its side.
    closing = client.protocol.writer.close()
    if closing is not None:
        await closing
    await client.stop()


async def outcomes_of_calls(kind: str) -> dict[str, str]:
    """Return how a call ends for each of the hostile responses."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        id = b""
        while head := await reader.readline():
            if head.startswith(b"Content-Length"):
                size = int(head.split()[1])
            elif not head.strip():
                request = json.loads(await reader.readexactly(size))
                if request.get("method") == "hostile":  # the others are responses to the texts
                    id = json.dumps(request["id"]).encode()
                    texts = hostile_messages.responses(id, mutations=100)
                    writer.write(framed(texts[request["params"]["name"]]))
                    writer.write(framed(b'{"jsonrpc":"2.0","method":"done","params":{}}'))
                elif request.get("method") == "next":
                    writer.write(framed(b'{"jsonrpc":"2.0","id":%s,"result":"too late"}' % id))
        writer.close()

    outcomes: dict[str, str] = {}
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        client = client_class(kind)("test", "1")
        done: asyncio.Queue[None] = asyncio.Queue()
        client.feature("done")(lambda params: done.put_nowait(None))
        await client.start_tcp(*listening.sockets[0].getsockname())
        for name in hostile_messages.responses(b"1", mutations=100):
            call = client.protocol.send_request("hostile", {"name": name})
            await asyncio.wait_for(done.get(), 10)
            outcomes[name] = "open" if not call.done() else repr(call.exception() or call.result())
            client.protocol.notify("next", {})
            with contextlib.suppress(Exception):
                await asyncio.wait_for(asyncio.wrap_future(call), 10)
        await stop(client)
    return outcomes


@pytest.mark.usefixtures("unlogged")
@pytest.mark.ci
async def test_calls_end_as_with_pygls() -> None:
    own, fast = await outcomes_of_calls("own"), await outcomes_of_calls("fast")
    ended = {name: (outcome, fast[name]) for name, outcome in own.items() if outcome != "open"}
    assert len(ended) > 30
    differing = {name: outcomes for name, outcomes in ended.items() if outcomes[0] != outcomes[1]}
    assert differing == {"companion": ("None", "Object(a=1)")}  # pygls loses a result next to "error": null
    more = {name: fast[name] for name, outcome in own.items() if outcome == "open" and fast[name] != "open"}
    failed = ("Error(", "Exception(", "Invalid")
    results = {name: outcome for name, outcome in more.items() if not any(each in outcome for each in failed)}
    assert list(results) == ["result: a message"]
    assert more["an error with null as id"] == "JsonRpcParseError('x')"
