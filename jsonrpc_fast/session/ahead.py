"""Requests that never begin, because their cancellations were read together with them.

Rules:
  - The cancellation follows its request among the messages that a transport has read, or in the batch of the request.
  - Such a request gets the same response as one that is cancelled while it is served.
  - It is served like any other if a request with its id is in flight; then that request is cancelled.
  - A cancellation withdraws only one request, even if it is read ahead several times: the messages that a turn leaves
    undelivered are read ahead again, together with newer ones.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, NamedTuple

from ..codec import Notification, Request
from ..codec._backend import decoded
from ..errors import run_callback
from ..types import MessageId
from .conventions import Cancellation, Convention


class Withdrawn(NamedTuple):
    """Takes the place of a request that must not be served."""

    request: Request

    @property
    def id(self) -> MessageId:
        """The id of the request."""
        return self.request.id


def look_ahead(convention: Convention, items: MutableSequence[Any]) -> None:
    """Put a `Withdrawn` in place of each request in a list whose cancellation follows.

    The list contains what the codec returned.
    """
    kinds = set(map(type, items))  # runs in C: most chunks contain neither a notification nor a batch
    notice = convention.cancellation(0, None) if Notification in kinds or list in kinds else None
    if notice is not None:
        _withdraw(convention, notice[0], items, {})


def _withdraw(
    convention: Convention,
    method: str,
    items: MutableSequence[Any],
    places: dict[tuple[type, MessageId], tuple[MutableSequence[Any], int] | None],
) -> None:
    """Replace requests in a list.

    Args:
        places: For each earlier id, the list and the index of its request; None if the request is withdrawn already.
    """
    for index, item in enumerate(items):
        kind = type(item)
        if kind is Request:
            places[type(item.id), item.id] = items, index
        elif kind is Withdrawn:
            places[type(item.id), item.id] = None  # the next cancellation of this id has withdrawn it
        elif kind is list:
            _withdraw(convention, method, item, places)
        elif kind is Notification and item.method == method:
            # An exception raised here is reported when the notification is received.
            notice = run_callback(lambda _: None, convention.read, method, decoded(item.params))
            place = places.pop((type(notice.id), notice.id), None) if type(notice) is Cancellation else None
            if place is not None:
                found, at = place
                if found[at].method not in convention.never_cancelled:
                    found[at] = Withdrawn(found[at])
