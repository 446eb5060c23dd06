"""What clients refuse: responses of services that are not this package's, and options."""

from __future__ import annotations

from typing import Any

import nats
import pytest

from jsonrpc_fast.adapters.nats import ServiceClient
from jsonrpc_fast.errors import InvalidResponse, RpcError

from ...support.nats_server import NatsServer, connected, needs_server

pytestmark = [needs_server, pytest.mark.timeout(60), pytest.mark.time_limit(50)]


async def test_answers_that_are_not_responses_to_the_call(server: NatsServer) -> None:
    texts = [b"{", b"[]", b"1", b'{"jsonrpc":"2.0","id":"1","result":1}', b'{"jsonrpc":"2.0","id":1.0,"result":1}']
    texts += [b'{"stream":"s","seq":1', b'{"stream":1,"seq":1}', b'{"stream":"s","seq":1,"id":1}']
    texts += [b'{"jsonrpc":"2.0","id":99,"result":1}', b'{"jsonrpc":"2.0","id":null,"result":1}', b""]

    async def answer(message: Any) -> None:
        await message.respond(texts.pop())

    async with connected(server) as connection:
        await connection.subscribe("s", cb=answer)
        while texts:
            with pytest.raises(InvalidResponse):
                await ServiceClient(connection, "s", timeout=10).call("m")
        texts.append(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}')
        with pytest.raises(RpcError, match="Parse error"):
            await ServiceClient(connection, "s", timeout=10).call("m")


async def test_a_subject_that_is_not_one(server: NatsServer) -> None:
    async with connected(server) as connection:
        client = ServiceClient(connection, "a b", timeout=10)
        for begin in (client.call, client.notify):
            with pytest.raises(ValueError, match="the subject is invalid"):
                await begin("m")


async def test_options() -> None:
    with pytest.raises(ValueError, match="timeout"):
        ServiceClient(nats.aio.client.Client(), "s", timeout=-1)
