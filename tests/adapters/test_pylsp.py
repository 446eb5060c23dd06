"""The stream classes of python-lsp-jsonrpc: real processes, and the same dicts as the library's own."""

from __future__ import annotations

import io
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
