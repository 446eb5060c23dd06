"""A POST of a client, and the responses that it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeAlias

from ...types import MessageId
from .client_session import NegotiatedSession
from .sending import Body

Key: TypeAlias = "tuple[type, MessageId]"


def key_of(id: MessageId) -> Key:
    """Return a key that differs for the ids 1 and 1.0."""
    return type(id), id


class Post:
    """A request, or a batch with requests, and the responses that it waits for.

    Attributes:
        body: The JSON text.
        method: The method; "" for a batch.
        ids: The ids of the requests that have no response yet.
        headers: The headers that depend on the message.
        is_modern: The message belongs to a revision without sessions.
        session: The session that the message was sent in; None before it is sent, and without one.
        is_accepted: The server answered the POST with a status of 2xx.
    """

    __slots__ = ("body", "headers", "ids", "is_accepted", "is_modern", "method", "session", "task")

    def __init__(self, body: Body, method: str, ids: Iterable[MessageId], headers: dict[str, str], *, is_modern: bool):
        self.body: Body = body
        self.method: str = method
        self.ids: dict[Key, MessageId] = {key_of(id): id for id in ids}
        self.headers: dict[str, str] = headers
        self.is_modern: bool = is_modern
        self.session: NegotiatedSession | None = None
        self.is_accepted: bool = False
        self.task: asyncio.Task[None]
