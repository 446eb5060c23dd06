"""MCP over Streamable HTTP, revisions 2025-03-26 to 2026-07-28.

A client:

    client            `StreamableHttpClient`: the transport
    sending           the HTTP requests, the session that `initialize` agreed on, and streams of events

A server:

    endpoint          `McpEndpoint`: the ASGI application
    serving           serves it with uvicorn
    authorization     `Authorization`: bearer tokens
    verifiers         `JwtVerifier`, `IntrospectionVerifier`: checks of tokens
    proofs            `ProofVerifier`: tokens that are bound to a key
    exchange          one POST: its requests, the messages that belong to them, and the response
    sessions          the requests of sessions, up to 2025-11-25, and the table of sessions
    transport         the transport of one session, and streams of messages
    responses         responses that carry the messages of a stream, and the log of its events
    event_store       keeps the events of streams, so that a client whose connection broke resumes its stream

Both: `headers`, the headers of the protocol and their checks, without IO.

Needs the extra `mcp`; the client also needs `http`, and serving with uvicorn needs `mcp-http`, which has both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...support import loader
from .event_store import EventStore, MemoryEventStore, parse_event_id

if TYPE_CHECKING:
    from .endpoint import McpEndpoint
    from .options import HttpOptions
    from .serving import run_http
else:
    __getattr__ = loader(
        __name__, {"endpoint": ("McpEndpoint",), "options": ("HttpOptions",), "serving": ("run_http",)}
    )

__all__ = ["EventStore", "HttpOptions", "McpEndpoint", "MemoryEventStore", "parse_event_id", "run_http"]
