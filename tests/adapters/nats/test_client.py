"""What clients refuse: responses of services that are not this package's, and options."""

from __future__ import annotations

from typing import Any, Protocol

import nats
import pytest

from jsonrpc_fast.adapters.nats import Service, ServiceClient, SubjectTransport
from jsonrpc_fast.errors import InvalidResponse, RpcError
from jsonrpc_fast.session.proxies import proxy

from ...support.nats_server import NatsServer, connected, needs_server
from ...support.tables import rows

pytestmark = needs_server


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


class Numbers(Protocol):
    async def m(self) -> set[int]: ...


async def test_a_result_with_a_type(server: NatsServer) -> None:
    async def answer(message: Any) -> None:
        await message.respond(texts.pop())

    texts = [b'{"jsonrpc":"2.0","id":3,"error":{"code":5,"message":"no","data":[1]}}']
    texts += [b'{"jsonrpc":"2.0","id":%d,"result":[1,2]}' % id for id in (2, 1)]
    async with connected(server) as connection:
        await connection.subscribe("s", cb=answer)
        client = ServiceClient(connection, "s", timeout=10)
        assert await proxy(client, Numbers).m() == {1, 2}
        with pytest.raises(InvalidResponse, match=r'^the result of m has another type: /0: is not of type "string"'):
            await client.call("m", returns=list[str])
        with pytest.raises(RpcError) as caught:
            await client.call("m", returns=int)
        assert caught.value.data == [1]


def name_checks() -> list[tuple[str, str, Any]]:
    """The arguments that are subjects or names, each with its place, and a function that makes its object."""
    connection = nats.aio.client.Client()
    return [
        ("subject", "client", lambda subject: ServiceClient(connection, subject)),
        ("receives", "transport", lambda subject: SubjectTransport(subject, "b")),
        ("sends", "transport", lambda subject: SubjectTransport("a", subject)),
        ("subject", "service", lambda subject: Service(connection, subject, {})),
        ("queue", "service", lambda name: Service(connection, "s", {}, queue=name)),
    ]


@rows(
    ("subject", "refused_by"),
    [
        ("a", []),
        ("a.b-c._é", []),
        ("*", ["client", "transport"]),
        ("a.*.b.>", ["client", "transport"]),
        (">.a", ["client", "transport", "service"]),
        ("a*", ["client", "transport", "service"]),
        ("a.b>", ["client", "transport", "service"]),
        ("a*.b", ["client", "transport", "service"]),
        (".a", ["client", "transport", "service"]),
        ("a.", ["client", "transport", "service"]),
        ("a..b", ["client", "transport", "service"]),
        *(
            (text, ["client", "transport", "service", "queue"])
            for text in ("", "a b", "a\t", "a\r\nPUB b", "\0", "\x7f")
        ),
        ("\ud800", ["client", "transport", "service", "queue"]),
        ("a" * 1025, ["client", "transport", "service", "queue"]),
        (7, ["client", "transport", "service", "queue"]),
    ],
)
def test_a_wrong_subject_is_refused_where_it_is_given(subject: Any, refused_by: list[str]) -> None:
    for argument, owner, make in name_checks():
        if (argument if argument == "queue" else owner) in refused_by:
            with pytest.raises((TypeError, ValueError), match=f"^{argument} ") as caught:
                make(subject)
            assert len(str(caught.value)) < 120
        else:
            make(subject)


@pytest.mark.parametrize("name", ["Jsonrpc-Reply-To", "jsonrpc-reply-to"])
async def test_the_header_for_the_response_is_the_clients_own(server: NatsServer, name: str) -> None:
    """With it the response would go elsewhere, and the call would wait for nothing."""
    with pytest.raises(ValueError, match="Jsonrpc-Reply-To"):
        ServiceClient(nats.aio.client.Client(), "s", headers={name: "elsewhere"})
    async with connected(server) as connection:
        client = ServiceClient(connection, "s", timeout=10)
        for begin in (client.call, client.notify):
            with pytest.raises(ValueError, match="Jsonrpc-Reply-To"):
                await begin("m", headers={name: "elsewhere"})


@pytest.mark.parametrize("name", ["", "a b", "a:b", "é"])
async def test_a_name_that_no_header_can_have(name: str) -> None:
    client = ServiceClient(nats.aio.client.Client(), "s")
    for begin in (client.call, client.notify):
        with pytest.raises(ValueError, match="names of headers"):
            await begin("m", headers={name: "value"})


async def test_options() -> None:
    with pytest.raises(ValueError, match="timeout"):
        ServiceClient(nats.aio.client.Client(), "s", timeout=-1)
    options: dict[str, Any] = {"time_out": 5}
    with pytest.raises(TypeError, match="time_out"):
        await ServiceClient(nats.aio.client.Client(), "s").call("m", **options)
