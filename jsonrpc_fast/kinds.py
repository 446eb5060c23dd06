"""What a message is, for logs and routers, and the names of its parts."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from .errors import MessageId

Kind = Literal["request", "notification", "result", "error", "batch", "invalid"]

ERROR_MEMBERS: Final = frozenset({"code", "message", "data"})
"""The members of an error object (section 5.1)."""


class Classification(NamedTuple):
    """A message's kind, and its method and id where it has them. Of an invalid message the id may be known."""

    kind: Kind
    method: str | None = None
    id: MessageId = None
