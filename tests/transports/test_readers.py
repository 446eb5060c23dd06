"""The debug log: its lines, how it is turned on, and that it contains no payload."""

from __future__ import annotations

import asyncio
import io
import itertools
import logging
import re
import sys
from collections.abc import Iterator

import pytest

from jsonrpc_fast import Error, Notification, Request, Response, encode_result
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StdioClient, TcpClient, TcpServer, memory_pair

from ..support.tables import rows
from ..support.waiting import settle

pytestmark = pytest.mark.usefixtures("loop")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Turn the log on for one test, as an application does."""
    logger = logging.getLogger("jsonrpc_fast")
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler.stream
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


async def talk(secret: str = "secret") -> None:
    one, other = memory_pair()
    other.onmessage = lambda message: None
    await one.start()
    await other.start()
    one.send(Request(1, "tools/call", {"key": secret}))
    one.send(Request("a\n12:00:00.000 jsonrpc_fast: forged\x1b[2J\u202e\u2028", "x\r\n\x00" + "y" * 500))
    one.send(Notification("n", [secret]))
    one.send([Notification("n", [secret]), Notification("n")])
    one.send(encode_result(7, secret))
    one.send(Response(8, error=Error(-1, secret, secret)))
    one.send(b'{"jsonrpc":"2.0","id":9,"method":7,"params":["' + secret.encode() + b'"]}')
    await settle()
    await one.close()
    await other.wait_closed()


async def test_lines(log: io.StringIO) -> None:
    await talk()
    assert "secret" not in log.getvalue()
    lines = log.getvalue().splitlines()
    assert all(re.match(r"jsonrpc_fast\.transports: memory ", line) for line in lines)
    assert all(line.isprintable() and len(line) < 300 for line in lines)
    logged = [line.partition("jsonrpc_fast.transports: memory ")[2] for line in lines]
    assert logged[:2] == ["connected, framing newline"] * 2
    assert logged[2] == "-> request 'tools/call' id 1, 73 bytes"
    assert logged[3].startswith("-> request 'x\\r\\n\\x00yyy")
    assert "id 'a\\n12:00:00.000 jsonrpc_fast: forged\\x1b[2J\\u202e\\u2028'" in logged[3]
    assert logged[4:9] == [
        "-> notification 'n', 51 bytes",
        "-> batch of 2, 84 bytes",
        "-> result id 7, 43 bytes",
        "-> error id 8, 80 bytes",
        "-> invalid, 56 bytes",
    ]
    assert logged[9] == "<- request 'tools/call' id 1, 72 bytes"
    assert logged[11:16] == [
        "<- notification 'n', 50 bytes",
        "<- batch of 2, 83 bytes",
        "<- result id 7, 42 bytes",
        "<- error id 8, 79 bytes",
        "<- invalid INVALID_METHOD_TYPE id 9, 55 bytes",
    ]
    assert sorted(re.sub(r"\d\.\d{3}", "0", line) for line in logged[16:]) == [
        "closed after 0 s, 0 received, 7 sent",
        "closed after 0 s, 7 received, 0 sent",
    ]


@pytest.mark.virtual_time
async def test_faults_are_logged_without_their_text(log: io.StringIO) -> None:
    def fail(message: object) -> None:
        raise KeyError("secret")

    one, other = memory_pair()
    other.onmessage = fail
    other.onerror = lambda error: None
    await one.start()
    await other.start()
    one.send(Notification("n"))
    await asyncio.sleep(0.01)
    await one.disconnect()
    await other.wait_closed()
    text = log.getvalue()
    assert "memory fault: KeyError\n" in text
    assert "secret" not in text


async def test_sizes_of_chunked_messages_and_addresses(log: io.StringIO) -> None:
    async def serve(transport: object) -> None:
        await transport.start()  # type: ignore[attr-defined]

    server = TcpServer(serve, "127.0.0.1", 0)
    await server.start()
    client = TcpClient(*server.address)
    await client.start()
    for size in (10, 300_000, 20):
        client.send(Notification("n", ["x" * size]))
    await client.close()
    await server.close()
    text = log.getvalue()
    assert re.findall(r"<- notification 'n', (\d+) bytes", text) == ["54", "300044", "64"]
    assert re.search(r"connection with 127\.0\.0\.1:\d+ connected", text)


@rows(("name", "level", "lines"), [("", 10, 18), ("jsonrpc_fast", 10, 18), ("", 20, 0)])
async def test_the_application_turns_it_on(name: str, level: int, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(level, name):
        await talk()
    assert len([record for record in caplog.records if record.name == "jsonrpc_fast.transports"]) == lines


SERVER_WITH_SECRETS = """
import asyncio
import logging
from jsonrpc_fast.errors import RpcError
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports import StdioServer

logging.basicConfig(level=logging.DEBUG, format="%(name)s: %(message)s")
logging.getLogger("asyncio").setLevel(logging.WARNING)

def refuse(secret):
    raise RpcError(-32001, secret, {"data": secret})

def fail(secret):
    raise ValueError("the server's own words")

async def fail_later(secret):
    await asyncio.sleep(0)
    raise KeyError("the server's own words")

async def main():
    handlers = {"echo": lambda secret: secret, "refuse": refuse, "fail": fail, "fail later": fail_later}
    async with Session(StdioServer(), handlers) as session:
        await session.wait_closed()

asyncio.run(main())
"""


@pytest.mark.ci
async def test_the_logs_of_both_ends_hold_no_payload_and_no_forged_line(log: io.StringIO) -> None:
    """Secrets are in params, results, errors and faults; control characters in a method, an id and a fault's id."""
    theirs: list[str] = []
    secret = "open sesame"

    client = StdioClient([sys.executable, "-c", SERVER_WITH_SECRETS], stderr=theirs.append)
    ids = itertools.count()
    session = Session(client, id_factory=lambda: f"{next(ids)}\n12:00:00.000 forged\x1b[2J\u202e")
    async with session:
        assert await session.call("echo", [secret]) == secret
        for method in ("refuse", "fail", "fail later", "echo\r\nforged\x00"):
            with pytest.raises(RpcError):
                await session.call(method, {"secret": secret})
        assert await session.call_batch([("echo", [secret]), Notification("echo", [secret])]) == [secret, None]
        await session.notify("fail", [secret])
        client.channel.write(b'{"jsonrpc":"2.0","id":"\\nforged","method":7,"params":["open sesame"]}\n')
        client.channel.write(b'{"open sesame"\n\xffopen sesame\n["open sesame"]\n')
        client.channel.write(b'{"jsonrpc":"2.0","id":"unknown\\nforged","result":"open sesame"}\n')
        # Two calls: an error without an id would settle a single one.
        both = await asyncio.gather(session.call("echo", [secret]), session.call("echo", [secret]))
        assert both == [secret, secret]
    ours = log.getvalue().splitlines()
    assert len(ours) > 20
    assert len(theirs) > 20
    beginning = re.compile(r"jsonrpc_fast(\.[a-z]+)?: ")
    faults = ["ValueError: the server's own words"] * 2 + ['KeyError: "the server\'s own words"']
    assert sorted(line for line in theirs if line.endswith(("words", 'words"'))) == sorted(faults)
    for line in ours + theirs:
        assert "sesame" not in line
        assert line.isprintable()
        # The rest are tracebacks of handlers' exceptions, with the server's code and texts.
        is_of_traceback = line == "Traceback (most recent call last):" or line.startswith(("  File ", "    "))
        assert beginning.match(line) or (line in theirs and (is_of_traceback or line in faults))
    for found in (
        "request 'refuse' id '1\\n12:00",
        "notification 'fail'",
        "invalid INVALID_METHOD_TYPE id '\\nforged'",
    ):
        assert any(found in line for line in theirs), found
