"""The options of `McpEndpoint`: their types, their defaults and the checks of their values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypedDict

import msgspec

from ...support import check_count, check_seconds, check_type
from ...types import UNSET, Unset
from .event_store import EventStore


class HttpOptions(TypedDict, total=False):
    """The keyword options of `McpEndpoint`.

    Attributes:
        path: The path of the endpoint relative to where the application is mounted; "/mcp" by default. The endpoint is
            also at "/", so that it can be mounted with its path.
        allowed_hosts: The accepted values of `Host`; see `jsonrpc_fast.http.Access`.
        allowed_origins: The accepted values of `Origin`; see `jsonrpc_fast.http.Access`.
        max_body_bytes: Maximum size of the body of a POST in bytes; by default that of the profile's limits.
        body_seconds: How long a body may take to arrive; None: no limit. 30 by default.
        max_sessions: Maximum number of sessions. 10,000 by default. When there are more, the one that has been idle
            longest is ended.
        idle_seconds: How long a session may be idle; None: no limit. 1800 by default.
        max_requests: Maximum number of HTTP requests in progress, including streams; further ones are refused with 503.
            10,000 by default.
        max_session_requests: The same for one session. 256 by default.
        max_stream_bytes: Maximum size of the messages that wait in one stream. 4 MiB by default.
        keep_alive_seconds: After this time without a message, a stream carries a comment, and a POST becomes a stream.
            15 by default.
        write_seconds: How long a client may take to read the data that is written; None: no limit. 60 by default.
        event_store: Keeps the events of streams, so that a client whose connection breaks resumes its stream; None: no
            stream can be resumed. By default in memory.
        session_prefix: Names the worker: the ids of its sessions begin with it and a dot, so that a proxy can send the
            requests of a session to the worker that began it.
        retry_ms: Milliseconds until a client whose connection was closed reconnects. 1000 by default.
        authorization: An `Authorization`, which checks bearer tokens; None: anyone may use the server.
        lifespan_seconds: How long the lifespan of the server may take to begin, and to end; None: no limit. 60 by
            default. If it does not begin in time, the waiting requests get 503, and the next request tries again.
    """

    path: str
    allowed_hosts: Iterable[str] | None
    allowed_origins: Iterable[str] | None
    max_body_bytes: int | None
    body_seconds: float | None
    max_sessions: int
    idle_seconds: float | None
    max_requests: int
    max_session_requests: int
    max_stream_bytes: int
    keep_alive_seconds: float
    write_seconds: float | None
    event_store: EventStore | Unset | None
    session_prefix: str | None
    retry_ms: int
    authorization: Any
    lifespan_seconds: float | None


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an endpoint with their defaults and checks. `HttpOptions` says what they mean.

    Raises TypeError or ValueError: an option has the wrong type or value.
    """

    path: str = "/mcp"
    allowed_hosts: Iterable[str] | None = None
    allowed_origins: Iterable[str] | None = None
    max_body_bytes: int | None = None
    body_seconds: float | None = 30.0
    max_sessions: int = 10_000
    idle_seconds: float | None = 1800.0
    max_requests: int = 10_000
    max_session_requests: int = 256
    max_stream_bytes: int = 4 * 1024 * 1024
    keep_alive_seconds: float = 15.0
    write_seconds: float | None = 60.0
    event_store: EventStore | Unset | None = UNSET
    session_prefix: str | None = None
    retry_ms: int = 1000
    authorization: Any = None
    lifespan_seconds: float | None = 60.0

    def __post_init__(self) -> None:
        for name in ("max_sessions", "max_requests", "max_session_requests", "max_stream_bytes"):
            check_count(name, getattr(self, name), 1, may_be_none=False)
        check_count("max_body_bytes", self.max_body_bytes, 1)
        check_count("retry_ms", self.retry_ms, 0, may_be_none=False)
        for name in ("body_seconds", "idle_seconds", "write_seconds", "lifespan_seconds"):
            check_seconds(name, getattr(self, name))
        check_seconds("keep_alive_seconds", self.keep_alive_seconds, may_be_none=False)
        check_type("path", self.path, str)
        check_type("session_prefix", self.session_prefix, str, may_be_none=True)
        if not self.path.startswith("/"):
            raise ValueError('path must begin with "/"')
        if self.session_prefix is not None and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", self.session_prefix):
            raise ValueError("session_prefix must have only letters, digits, - and _")
