"""JSON-RPC over NATS: handlers as a service, its client, and a session over two subjects. Needs the extra `nats`.

    connection = await nats.connect("nats://localhost:4222")
    async with Service(connection, "calculator", {"add": lambda a, b: a + b}):
        total = await ServiceClient(connection, "calculator").call("add", [1, 2])

Rules:
  - The members of a queue group share the requests of a subject; the broker sends each to one of them. nats-py
    reconnects, and subscribes again.
  - Core NATS delivers a message once or not at all. A call whose worker dies, or whose messages are lost with a
    connection, ends with `CallTimeout`; without any worker it ends with `ConnectionLost` at once. Nothing is sent
    twice.
  - With a JetStream context, a service takes its messages from a stream, and acknowledges them when the functions have
    ended. The broker sends the messages of a worker that died to another one, so functions may run more than once. Each
    queue and subject has its own consumer.
  - A service that has too many messages responds with `SessionErrorCode.SERVER_BUSY`; a response over the broker's
    `max_payload` becomes an error with the same id, or one without an id if the errors of a batch are too large, too.
  - A session needs every message, so its transport has its own connection, which does not reconnect. Any event
    that may lose a message closes it: the connection breaks, the peer is not subscribed, or this side reads too
    slowly.
"""

from __future__ import annotations

try:
    import nats.js as _nats  # noqa: F401
except ImportError as _missing:
    raise ImportError('NATS needs the extra `nats`: pip install "jsonrpc_fast[nats]"') from _missing

from .client import ServiceClient
from .service import Service
from .subjects import SubjectTransport

__all__ = ["Service", "ServiceClient", "SubjectTransport"]
