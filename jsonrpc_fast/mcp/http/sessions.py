"""The table of sessions of one endpoint.

Rules:
  - An id has the prefix of the worker, if there is one, 192 random bits, and a digest of the subject that began the
    session. Only that subject may use it, which any worker can check.
  - A session is idle while no HTTP request of it is in progress and no call is in flight. One timer for all sessions
    ends those that are idle for too long.
  - When the table is full, a new session ends the one that has been idle longest, if it has been idle for a while.
    Otherwise there is no room.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..server.serving import ClientConnection
from .transport import HttpTransport

ID_BYTES: Final = 24
MIN_IDLE_SECONDS: Final = 10.0
"""A session is ended to make room for another one only after it was idle for so long."""

_RANDOM_CHARACTERS: Final = ID_BYTES * 4 // 3
_DIGEST_CHARACTERS: Final = 32
_MAX_SWEPT: Final = 1000  # in one turn of the loop
_SWEEP_SECONDS: Final = 0.05


def new_id(subject: object, prefix: str) -> str:
    """Return the id of a new session of a subject."""
    random = prefix + secrets.token_urlsafe(ID_BYTES)
    return random + _digest(random, subject)


def _digest(random: str, subject: object) -> str:
    """A digest of a subject that only its session's id has; "" without authorization."""
    return "" if subject is None else hashlib.sha256(f"{random} {subject!r}".encode()).hexdigest()[:_DIGEST_CHARACTERS]


def belongs_to(id: str, subject: object) -> bool:
    """Return whether a session with this id was begun by this subject; None stands for an unknown subject."""
    random = id[: id.rfind(".") + 1 + _RANDOM_CHARACTERS]
    return secrets.compare_digest(id.encode(), (random + _digest(random, subject)).encode())


@dataclass(slots=True, eq=False)
class HttpSession:
    """A session of revision 2025-11-25 or earlier.

    Attributes:
        id: The value of `Mcp-Session-Id`.
        transport: Its transport.
        connection: Its connection.
        subject: Who began it.
        used: When it was last used, in seconds by the loop's clock.
        requests: The number of HTTP requests in progress.
        streams: The number of streams that it has had.
    """

    id: str
    subject: object
    transport: HttpTransport
    connection: ClientConnection
    used: float
    requests: int = 0
    streams: int = 0

    def stream_name(self, kind: str = "") -> str:
        """Return the name of a new stream for the event store."""
        self.streams += 1
        return f"{self.id}/{kind}{self.streams}"

    def replace_listener(self) -> None:
        """Let a GET in progress leave the stream of the session to another one."""
        if self.transport.listener.request is not None:
            self.transport.set_listening(None)
            self.transport.listener.wake()

    @property
    def is_idle(self) -> bool:
        """Whether no request of the session is in progress."""
        return not self.requests and not self.transport.streams


class SessionTable:
    """The sessions, the least recently used first.

    Args:
        max_sessions: Maximum number of sessions.
        idle_seconds: How long a session may be idle; None: no limit.
        on_end: Called with each session that the table ends.
    """

    def __init__(self, max_sessions: int, idle_seconds: float | None, on_end: Callable[[HttpSession], None]) -> None:
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        self._max_sessions = max_sessions
        self._idle_seconds = idle_seconds
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def has_room(self) -> bool:
        """Return whether a session may begin, after ending one that is idle if necessary."""
        if len(self._sessions) < self._max_sessions:
            return True
        now = asyncio.get_running_loop().time()
        for _ in range(_MAX_SWEPT):
            session = next(iter(self._sessions.values()))
            if session.used > now - MIN_IDLE_SECONDS:
                break
            if session.is_idle:
                self._end(session)
                return True
            self._use(session, now)  # the next call need not look at it again
        return False

    def add(self, session: HttpSession) -> None:
        """Add a session that has begun."""
        self._sessions[session.id] = session
        if self._timer is None and self._idle_seconds is not None:
            self._sweep_at(session.used + self._idle_seconds)

    def find(self, id: str, subject: object) -> HttpSession | None:
        """Return the session with this id and subject and count it as used now; None if no such session exists."""
        session = self._sessions.get(id)
        if session is None or (session.subject is not subject and not belongs_to(id, subject)):
            return None
        self._use(session, asyncio.get_running_loop().time())
        return session

    def _use(self, session: HttpSession, now: float) -> None:
        session.used = now
        self._sessions.move_to_end(session.id)

    def remove(self, session: HttpSession) -> bool:
        """Remove a session. Return False if it was removed already."""
        if self._sessions.pop(session.id, None) is None:
            return False
        if not self._sessions:
            self._stop_timer()
        return True

    def clear(self) -> list[HttpSession]:
        """Remove and return all sessions."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        self._stop_timer()
        return sessions

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, session: HttpSession) -> None:
        if self.remove(session):
            self._on_end(session)

    def _sweep_at(self, when: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(when, self._sweep)

    def _sweep(self) -> None:
        """End sessions that have been idle for too long."""
        self._timer = None
        assert self._idle_seconds is not None
        now = asyncio.get_running_loop().time()
        for _ in range(_MAX_SWEPT):
            session = next(iter(self._sessions.values()), None)
            if session is None:
                return
            if not session.is_idle:
                self._use(session, now)
            elif session.used + self._idle_seconds > now:
                self._sweep_at(session.used + self._idle_seconds)
                return
            else:
                self._end(session)
        if self._sessions:
            self._sweep_at(now + _SWEEP_SECONDS)
