"""The options of an endpoint, with their defaults and checks. `HttpOptions` says what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ..._checks import check_count, check_seconds, check_type
from ...types import UNSET, Unset
from ..applications import EventStore

# Part of a header, and of the names of streams: "." ends the prefix, "/" the id.
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The options of an endpoint.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
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
        if self.session_prefix is not None and not _PREFIX.fullmatch(self.session_prefix):
            raise ValueError("session_prefix must have letters, digits, - and _ only")
