"""Sessions with peers that write JSON-RPC 1.0, no `jsonrpc`, or 2.0: each side adapts to the form of the other."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from jsonrpc_fast.codec import Notification
from jsonrpc_fast.errors import EncodeError, RpcError
from jsonrpc_fast.handlers import Handlers
from jsonrpc_fast.profile import JSONRPC, JSONRPC_1, LSP, Limits, Profile
from jsonrpc_fast.session import Session
from jsonrpc_fast.transports.memory import MemoryChannel, MemoryTransport

from ..support.tables import rows

CODEX = JSONRPC.replace(optional_jsonrpc=True, writes="unversioned")
HANDLERS = {"double": lambda number: number * 2}


class Peer:
    """The other end of a session: texts."""

    def __init__(self, channel: MemoryChannel) -> None:
        self.read: asyncio.Queue[str] = asyncio.Queue()
        self.transport = MemoryTransport(channel, decode=lambda text: bytes(text).decode())
        self.transport.onmessage = self.read.put_nowait

    async def exchange(self, text: str) -> str:
        self.transport.send(text.encode() + b"\n")
        return await asyncio.wait_for(self.read.get(), 10)


async def connected(profile: Profile, **options: Any) -> tuple[Session, Peer]:
    one, other = MemoryChannel.pair()
    peer = Peer(other)
    session = Session(MemoryTransport(one, profile=profile), Handlers(HANDLERS), **options)
    await session.start()
    await peer.transport.start()
    return session, peer


@rows(
    ("profile", "request_text", "response", "call"),
    [
        (
            JSONRPC_1,
            '{"id":7,"method":"double","params":[2]}',
            '{"id":7,"result":4,"error":null}',
            '{"id":1,"method":"m","params":[]}',
        ),
        (
            JSONRPC_1,
            '{"jsonrpc":"2.0","id":7,"method":"double","params":[2]}',
            '{"jsonrpc":"2.0","id":7,"result":4}',
            '{"jsonrpc":"2.0","id":1,"method":"m"}',
        ),
        (
            CODEX,
            '{"id":7,"method":"nope"}',
            '{"id":7,"error":{"code":-32601,"message":"Method not found"}}',
            '{"id":1,"method":"m"}',
        ),
        (
            JSONRPC_1.replace(floats="decimal"),
            '{"id":7,"method":"double","params":[0.10]}',
            '{"id":7,"result":0.20,"error":null}',
            '{"id":1,"method":"m","params":[]}',
        ),
        (
            CODEX,
            '[{"id":7,"method":"double","params":[2]},{"id":8}]',
            '[{"id":7,"result":4},{"id":8,"error":{"code":-32600,"message":"Invalid Request"}}]',
            '{"id":1,"method":"m"}',
        ),
    ],
)
async def test_a_server_answers_in_the_form_of_the_peer(
    profile: Profile, request_text: str, response: str, call: str
) -> None:
    session, peer = await connected(profile)
    assert await peer.exchange(request_text) == response
    calling = asyncio.ensure_future(session.call("m"))
    assert await asyncio.wait_for(peer.read.get(), 10) == call
    calling.cancel()
    await session.close()
    await peer.transport.close()


NEW = '{"jsonrpc":"2.0","id":8,"method":"double","params":[2]}'
OLD = '{"id":8,"method":"double","params":[2]}'
INVALID = '"error":{"code":-32600,"message":"Invalid Request"}'
NOT_JSON = '"error":{"code":-32700,"message":"Parse error"}'
OLD_INVALID = '{"id":null,' + INVALID + ',"result":null}'
OLD_NOT_JSON = '{"id":null,' + NOT_JSON + ',"result":null}'


@rows(
    ("first", "responses"),
    [
        ("[" + NEW + "]", '{"jsonrpc":"2.0","id":null,' + INVALID + '} {"jsonrpc":"2.0","id":8,"result":4}'),
        ('{"jsonrpc":"2.0","id":7}', '{"jsonrpc":"2.0","id":7,' + INVALID + '} {"jsonrpc":"2.0","id":8,"result":4}'),
        (NEW + ",", '{"jsonrpc":"2.0","id":null,' + NOT_JSON + '} {"jsonrpc":"2.0","id":8,"result":4}'),
        (
            '{"jsonrpc":"2.0","method":"m","p":"' + "x" * 300 + '"}',
            '{"jsonrpc":"2.0","id":null,' + INVALID + '} {"jsonrpc":"2.0","id":8,"result":4}',
        ),
        ("[" + OLD + "]", '{"id":null,' + INVALID + ',"result":null} {"id":8,"result":4,"error":null}'),
        ('{"id":9', '{"id":null,' + NOT_JSON + ',"result":null} {"id":8,"result":4,"error":null}'),
        ('{"id":null,"method":"m"}', '{"id":8,"result":4,"error":null}'),
        # A text that does not decide gets the form of the profile, even if the next text has arrived with it.
        ("ready\n[]\n" + NEW, f"{OLD_NOT_JSON} {OLD_INVALID} " + '{"jsonrpc":"2.0","id":8,"result":4}'),
        ("ready\n" + OLD, OLD_NOT_JSON + ' {"id":8,"result":4,"error":null}'),
    ],
)
@rows("second", [NEW, OLD])
@rows("size", [1, 7, 1000])
async def test_what_the_peer_writes_first_decides(first: str, responses: str, second: str, size: int) -> None:
    """Valid or not, and however it arrives."""
    session, peer = await connected(JSONRPC_1.replace(limits=Limits(message_bytes=200)))
    data = f"{first}\n{second}\n".encode()
    for at in range(0, len(data), size):
        peer.transport.channel.write(data[at : at + size])
        await asyncio.sleep(0)
    expected = responses.replace("} {", "}\n{").split("\n")
    assert [await asyncio.wait_for(peer.read.get(), 10) for _ in expected] == expected
    await session.close()
    await peer.transport.close()


async def test_a_line_of_a_log_decides_nothing() -> None:
    session, peer = await connected(JSONRPC_1)
    assert await peer.exchange("ready") == '{"id":null,' + NOT_JSON + ',"result":null}'
    assert await peer.exchange(NEW) == '{"jsonrpc":"2.0","id":8,"result":4}'
    await session.close()
    await peer.transport.close()


async def test_a_client_begins_in_the_form_of_its_profile() -> None:
    session, peer = await connected(JSONRPC_1.replace(floats="decimal", batches=True))
    calling = asyncio.ensure_future(session.call("send", [Decimal("0.10")]))
    assert await asyncio.wait_for(peer.read.get(), 10) == '{"id":1,"method":"send","params":[0.10]}'
    peer.transport.send(b'{"result":12345678.12345678,"error":null,"id":1}\n')
    assert repr(await calling) == "Decimal('12345678.12345678')"
    await session.notify("n")
    assert await asyncio.wait_for(peer.read.get(), 10) == '{"id":null,"method":"n","params":[]}'
    calling = asyncio.ensure_future(session.call("send"))
    await peer.read.get()
    peer.transport.send(b'{"result":null,"error":{"code":-5,"message":"e"},"id":2}\n')
    with pytest.raises(RpcError, match="e"):
        await calling
    with pytest.raises(EncodeError, match=r"^a Decimal that is not finite is not a JSON number: /0 of send$"):
        await session.call("send", [Decimal("NaN")])
    batch = asyncio.ensure_future(session.call_batch([("a", [1]), Notification("b")]))
    assert await asyncio.wait_for(peer.read.get(), 10) == (
        '[{"id":4,"method":"a","params":[1]},{"id":null,"method":"b","params":[]}]'
    )
    batch.cancel()
    await session.close()
    await peer.transport.close()


@rows("profile", [JSONRPC_1, LSP])
async def test_a_batch_whose_results_could_not_be_read_is_not_sent(profile: Profile) -> None:
    session, peer = await connected(profile)
    with pytest.raises(ValueError, match=r"^the profile does not allow batches, so their results could not be read$"):
        await session.call_batch([("a", [1]), Notification("b")])
    assert await session.call_batch([Notification("b", [1])]) == [None]
    assert '"method":"b"' in await asyncio.wait_for(peer.read.get(), 10)
    await session.close()
    await peer.transport.close()


async def test_a_peer_of_2_0_is_heard_by_its_response() -> None:
    session, peer = await connected(JSONRPC_1)
    calling = asyncio.ensure_future(session.call("m"))
    assert await asyncio.wait_for(peer.read.get(), 10) == '{"id":1,"method":"m","params":[]}'
    peer.transport.send(b'{"jsonrpc":"2.0","result":1,"id":1}\n')
    assert await calling == 1
    await session.notify("n")
    assert await asyncio.wait_for(peer.read.get(), 10) == '{"jsonrpc":"2.0","method":"n"}'
    await session.close()
    await peer.transport.close()
