"""The stream classes of python-lsp-jsonrpc: real processes, and the same dicts as the library's own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

pytest.importorskip("pylsp_jsonrpc", reason="python-lsp-jsonrpc is not installed")

from pylsp_jsonrpc import streams
from pylsp_jsonrpc.endpoint import Endpoint

from jsonrpc_fast.adapters import pylsp as adapter

from ..support import hostile_messages

SERVER = """
import sys
from jsonrpc_fast.adapters.pylsp import JsonRpcStreamReader, JsonRpcStreamWriter
from pylsp_jsonrpc.endpoint import Endpoint

reader, writer = JsonRpcStreamReader(sys.stdin.buffer), JsonRpcStreamWriter(sys.stdout.buffer)
endpoint = Endpoint({"echo": lambda params: params, "late": lambda params: lambda: params}, writer.write)
reader.listen(endpoint.consume)
endpoint.shutdown()
"""


def framed(text: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(text), text)


def read(reader: Any, stream: bytes) -> list[Any]:
    received: list[Any] = []
    reader(io.BufferedReader(io.BytesIO(stream))).listen(received.append)  # type: ignore[arg-type]
    return received


@pytest.mark.parametrize("own", ["client", "server", "neither"])
def test_a_server_process(own: str) -> None:
    script = SERVER.replace("jsonrpc_fast.adapters.pylsp", "pylsp_jsonrpc.streams") if own == "server" else SERVER
    module: Any = streams if own == "client" else adapter
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        reader, writer = module.JsonRpcStreamReader(process.stdout), module.JsonRpcStreamWriter(process.stdin)
        endpoint = Endpoint({}, writer.write)
        thread = threading.Thread(target=reader.listen, args=(endpoint.consume,))
        thread.start()
        text = {"text": "\u65e5\u672c \U0001f600" * 20_000}
        try:
            assert endpoint.request("echo", text).result(30) == text
            assert [endpoint.request("late", {"n": n}) for n in range(50)][-1].result(30) == {"n": 49}
        finally:
            writer.close()
            thread.join(30)
            endpoint.shutdown()
    assert process.returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":1}',
        b"[1]",
        b'{"id":123456789012345678901234567890}',
        b'{"h":"000000000000000000000000000000ff"}',
        b'{"text":"\\ud83d"}',
        b"{]",
        b'"\xff"',
        b"",
    ],
)
def test_the_messages_are_those_of_the_library(text: bytes) -> None:
    stream = framed(text) + framed(b'{"last":true}')
    assert repr(read(adapter.JsonRpcStreamReader, stream)) == repr(read(streams.JsonRpcStreamReader, stream))


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"Content-Length: 5\r\n",
        b"Content-Length: 9\r\n\r\n{",
        b'X: 1\r\n\r\n{"a":1}',
        b"Content-Length: 100000000\r\n\r\n{}",
        b"Content-Length: 100000000\r\n\r\n{",
        b"\x00\xff text without a header",
        b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000 + b"Content-Length: 3\r\n\r\n[1]",
    ],
)
def test_streams_that_end_early(stream: bytes) -> None:
    assert read(adapter.JsonRpcStreamReader, stream) == read(streams.JsonRpcStreamReader, stream)


def test_a_header_without_a_number_is_skipped() -> None:
    assert read(adapter.JsonRpcStreamReader, b"Content-Length: x\r\n" + framed(b"[1]")) == [[1]]


@pytest.mark.usefixtures("unlogged")
@pytest.mark.parametrize("options", [{}, {"sort_keys": True}])
def test_what_is_written_is_read(options: dict[str, Any]) -> None:
    messages = [{"b": 1, "a": "\u65e5"}, {"n": 2**70}, {"k": {1: 2}}, [None, True, 1.5], "\U0001f600"]
    output = io.BytesIO()
    writer = adapter.JsonRpcStreamWriter(output, **options)
    for message in messages:
        writer.write(message)
    assert read(streams.JsonRpcStreamReader, output.getvalue()) == [*messages[:2], {"k": {"1": 2}}, *messages[3:]]


def test_a_message_that_cannot_be_written_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    output = io.BytesIO()
    writer = adapter.JsonRpcStreamWriter(output)
    writer.write({"a": {1j: 2}, "b": lambda: 1})
    assert output.getvalue() == b""
    assert "Failed to write message" in caplog.text
    writer.close()
    writer.write({"a": 1})  # nothing happens, as in the library


def test_writers_of_several_threads() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as output, os.fdopen(reading, "rb") as input:
        writer = adapter.JsonRpcStreamWriter(output)
        threads = [
            threading.Thread(target=lambda n=n: [writer.write({"n": n, "x": "x" * 2000}) for _ in range(50)])  # type: ignore[misc]
            for n in range(4)
        ]
        received: list[Any] = []
        listening = threading.Thread(target=adapter.JsonRpcStreamReader(input).listen, args=(received.append,))
        for thread in (listening, *threads):
            thread.start()
        for thread in threads:
            thread.join(30)
        writer.close()
        listening.join(30)
    assert sorted(message["n"] for message in received) == [n for n in range(4) for _ in range(50)]


def test_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JsonRpcStreamReader", "JsonRpcStreamWriter"):
        monkeypatch.setattr(streams, name, getattr(streams, name))
    adapter.install()
    assert streams.JsonRpcStreamReader is adapter.JsonRpcStreamReader
    assert streams.JsonRpcStreamWriter is adapter.JsonRpcStreamWriter


def answers(module: Any, text: bytes) -> list[Any]:
    """Return the responses of an endpoint to a hostile text and a good one after it."""
    output = io.BytesIO()
    good = b'{"jsonrpc":"2.0","id":"good","method":"echo","params":{}}'
    handlers = {"echo": lambda params: repr(params), "value": lambda params: hostile_messages.VALUES[params["name"]]}
    endpoint = Endpoint(handlers, module.JsonRpcStreamWriter(output).write)
    try:
        module.JsonRpcStreamReader(io.BufferedReader(io.BytesIO(framed(text) + framed(good)))).listen(endpoint.consume)  # type: ignore[arg-type]
    except Exception as error:
        return [type(error).__name__]
    finally:
        endpoint.shutdown()
    found: list[Any] = []
    reader = streams.JsonRpcStreamReader(io.BufferedReader(io.BytesIO(output.getvalue())))  # type: ignore[arg-type]
    reader.listen(found.append)
    assert [answer.get("id") for answer in found][-1:] == ["good"]
    for answer in found:
        answer.get("error", {}).pop("data", None)  # a traceback
    return [repr(answer) for answer in found[:-1]]


@pytest.mark.usefixtures("unlogged")
def test_hostile_requests_are_answered_as_by_the_library() -> None:
    texts = hostile_messages.requests(b'"hostile"', b"echo", mutations=300)
    found = {name: (answers(streams, text), answers(adapter, text)) for name, text in texts.items()}
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}
    assert sum(bool(both[0]) for both in found.values()) > 60


@pytest.mark.usefixtures("unlogged")
def test_hostile_values_are_written_as_by_the_library() -> None:
    found = {}
    for name in hostile_messages.VALUES:
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "value", "params": {"name": name}}).encode()
        found[name] = answers(streams, text), answers(adapter, text)
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}


@pytest.mark.usefixtures("unlogged")
def test_calls_end_as_with_the_library() -> None:
    def outcome(module: Any, text: bytes) -> str:
        endpoint = Endpoint({}, lambda message: None, id_generator=lambda: "call")
        call = endpoint.request("x", {})
        with contextlib.suppress(Exception):
            reader = module.JsonRpcStreamReader(io.BufferedReader(io.BytesIO(framed(text))))
            reader.listen(endpoint.consume)
        endpoint.shutdown()
        return repr(call.exception() or call.result()) if call.done() else "open"

    texts = hostile_messages.responses(b'"call"', mutations=300)
    found = {name: (outcome(streams, text), outcome(adapter, text)) for name, text in texts.items()}
    assert {name: both for name, both in found.items() if both[0] != both[1]} == {}
    assert sum(both[0] != "open" for both in found.values()) > 30
