"""Call an ASGI application in this process: with one request, whose client does what the test says, or a lifespan."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

JSON = (b"content-type", b"application/json")
LEFT: Final = b"the client disconnects"
"""Instead of a part of the body: the client disconnects here."""


@dataclass
class Answer:
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""


class Client:
    """One request to an application. It collects the events that the application sends, and checks their order.

    Args:
        body: The body; a list is received in its parts. At `LEFT` the client disconnects, and after None it sends
            nothing more.
        headers: Pairs of bytes. If they contain no host, it is example.org.
        scope: Members of the scope that differ from the usual ones.

    Attributes:
        scope: The scope.
        sent: The events that the application has sent.
        received: How many parts of the body the application has received.
        gone: An event. When it is set, the client disconnects after its body.
        is_stuck: Whether the client reads nothing, so that `send` does not return.
    """

    def __init__(
        self, body: bytes | Iterable[bytes | None] = b"", headers: Iterable[tuple[bytes, bytes]] = (JSON,), **scope: Any
    ) -> None:
        found = list(headers)
        self.gone = asyncio.Event()
        self.sent: list[Any] = []
        self.received = 0
        self.is_stuck = False
        self._parts: list[bytes | None] = [body] if isinstance(body, bytes) else list(body)
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/",
            "root_path": "",
            "headers": found if b"host" in dict(found) else [(b"host", b"example.org"), *found],
            "server": ("192.0.2.1", 80),
            "client": ("192.0.2.2", 50000),
            **scope,
        }

    async def receive(self) -> dict[str, Any]:
        if self.received == len(self._parts):
            await self.gone.wait()
            return {"type": "http.disconnect"}
        part = self._parts[self.received]
        if part is None:
            await asyncio.Event().wait()
        if part is LEFT:
            return {"type": "http.disconnect"}
        self.received += 1
        return {"type": "http.request", "body": part, "more_body": self.received < len(self._parts)}

    async def send(self, event: MutableMapping[str, Any]) -> None:
        if self.is_stuck:
            await asyncio.Event().wait()
        assert not self.is_complete, "an event after the end"
        if event["type"] == "http.response.start":
            assert not self.sent, "a second start"
            names = [name for name, _ in event["headers"]]
            assert len(set(names)) == len(names), f"a header twice: {names}"
        else:
            assert event["type"] == "http.response.body"
            assert self.sent, "a body without a start"
        self.sent.append(event)

    @property
    def is_complete(self) -> bool:
        return len(self.sent) > 1 and not self.sent[-1].get("more_body")

    @property
    def answer(self) -> Answer | None:
        """The response as far as it has been sent, or None."""
        if not self.sent:
            return None
        start, *parts = self.sent
        body = b"".join([part.get("body", b"") for part in parts])
        return Answer(start["status"], dict(start["headers"]), body)

    async def run(self, endpoint: Any) -> Answer:
        """Return the response of the endpoint."""
        await endpoint(self.scope, self.receive, self.send)
        answer = self.answer
        assert answer is not None
        return answer


async def post(endpoint: Any, body: bytes | list[bytes], *headers: tuple[bytes, bytes], **scope: Any) -> Answer:
    """Return the response to a POST of JSON."""
    return await Client(body, [JSON, *headers], **scope).run(endpoint)


async def events_of(endpoint: Any, kind: str, *received: str) -> list[str]:
    """Return the types of the events that an application sends in a scope other than HTTP, when it receives these."""
    sent: list[str] = []
    left = iter(received)

    async def receive() -> dict[str, Any]:
        return {"type": next(left)}

    async def send(event: Any) -> None:
        sent.append(event["type"])

    await asyncio.wait_for(endpoint({"type": kind}, receive, send), 20)
    return sent


async def events_of_a_lifespan(endpoint: Any) -> list[str]:
    """Return the types of the events that an application sends when it starts and ends."""
    return await events_of(endpoint, "lifespan", "lifespan.startup", "lifespan.shutdown")
