"""What a message is, for logs and routers."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .errors import MessageId

Kind = Literal["request", "notification", "result", "error", "batch", "invalid"]


class Classification(NamedTuple):
    """A message's kind, and its method and id where it has them. Of an invalid message the id may be known."""

    kind: Kind
    method: str | None = None
    id: MessageId = None
