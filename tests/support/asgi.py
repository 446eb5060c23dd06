"""Drive an ASGI application in this process: one request, its events given as a list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jsonrpc_fast.http.endpoint import Endpoint

JSON = (b"content-type", b"application/json")


@dataclass
class Answer:
    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""


class Client:
    """One request to an application.

    Args:
        body: The body; a list is received in so many parts.
        headers: Pairs of bytes. The host is example.org if they have none.
        is_open: Whether the client stays connected after the body. If not, it is gone at once.
        scope: Changes of the scope.
    """

    def __init__(
        self, body: bytes | list[bytes] = b"", headers: Iterable[tuple[bytes, bytes]] = (JSON,), **scope: Any
    ) -> None:
        found = list(headers)
        self.gone = asyncio.Event()
        self.received = 0
        self.answer: Answer | None = None
        self._parts = [body] if isinstance(body, bytes) else body
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
        if self.received < len(self._parts):
            self.received += 1
            more = self.received < len(self._parts)
            return {"type": "http.request", "body": self._parts[self.received - 1], "more_body": more}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert self.answer is None
            headers = list(message["headers"])
            assert len(dict(headers)) == len(headers)
            self.answer = Answer(message["status"], dict(headers))
        else:
            assert self.answer is not None
            self.answer.body += message["body"]

    async def run(self, endpoint: Endpoint) -> Answer:
        """Return the answer of the endpoint."""
        await endpoint(self.scope, self.receive, self.send)
        assert self.answer is not None
        return self.answer


async def post(endpoint: Endpoint, body: bytes | list[bytes], *headers: tuple[bytes, bytes], **scope: Any) -> Answer:
    """Return the answer to a POST of JSON."""
    return await Client(body, [JSON, *headers], **scope).run(endpoint)
