"""What a connection receives: what has arrived and is not delivered yet, the budget of a turn, and the count of faults.

Rules:
  - Messages are delivered while the connection runs. Nothing is delivered while reading is paused. Bytes, and the end
    of the stream, that arrive then or before `start` are kept.
  - One turn of the loop delivers for TURN_SECONDS. The rest is the backlog: it is decoded and delivered in the next
    turns, in order, before more is read.
  - An invalid message goes to `onerror`, and the stream goes on. A framing fault ends the stream, and more than
    `max_faults` invalid messages close the connection. A peer that goes on sending after a fault is cut off when
    DROPPED_BYTES have arrived.
  - After an exception that nobody expects of the decoder, the connection is closed: what it had read is not known.
  - When the channel is lost, the backlog is delivered first: a response in it settles a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ..codec import ParseError
from ..errors import LOOP_EXITS
from . import readers
from .readers import Reader

if TYPE_CHECKING:
    from .outbox import Outbox, Owner

TURN_SECONDS: Final = 0.005
"""After this time, delivering continues in the next turn of the loop."""
DROPPED_BYTES: Final = 1024 * 1024
"""How much may arrive after a fault, while the connection closes, before it is aborted."""


class Delivery:
    """What one connection receives.

    Args:
        connection: Has the callbacks.
        outbox: Is written at the end of each delivery.
        reader: Decodes what arrives.
        max_faults: The number of invalid messages after which one more closes the connection; None: without limit.

    Attributes:
        chunks: How often something has arrived on the channel.
        is_reading: Whether the channel is to be read. `update` alone changes it.
    """

    __slots__ = (
        "_connection",
        "_dropped_bytes",
        "_faults",
        "_has_backlog",  # something is undelivered: `_undelivered` or in the reader
        "_has_ended",  # the peer's side of the stream, by its end or by a framing fault
        "_is_delivery_due",  # `_deliver_backlog` is scheduled
        "_is_open",  # from `open` to `close`
        "_is_paused",  # by the user
        "_loop",
        "_loss",  # the channel is lost, and this is why: reported after the backlog
        "_max_faults",
        "_may_deliver",  # open, and neither paused nor blocked
        "_outbox",
        "_reader",
        "_undelivered",  # decoded items
        "chunks",
        "is_reading",
    )

    def __init__(self, connection: Owner, outbox: Outbox, reader: Reader, max_faults: int | None) -> None:
        self._connection = connection
        self._outbox = outbox
        self._reader = reader
        self._max_faults = max_faults
        self._loop: asyncio.AbstractEventLoop
        self._is_open = False
        self._is_paused = False
        self._may_deliver = False
        self._undelivered: list[Any] = []
        self._has_backlog = False
        self._has_ended = False
        self._is_delivery_due = False
        self._loss: tuple[Exception | None] | None = None
        self._faults = 0
        self._dropped_bytes = 0
        self.is_reading: bool = False
        self.chunks: int = 0

    # The state of the connection.

    def open(self) -> None:
        """Deliver from now on."""
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self.update()

    def close(self) -> None:
        """Deliver nothing more, and drop what is kept."""
        self._is_open = self._may_deliver = self._has_backlog = False
        self._undelivered.clear()
        self._reader.clear()

    def set_paused(self, is_paused: bool) -> None:
        """Pause or resume delivering, for the user."""
        self._is_paused = is_paused
        self.update()

    def update(self) -> None:
        """Start or stop reading and delivering, according to the state."""
        if not self._is_open:
            return
        if self._loss is None:
            is_blocked = self._outbox.is_blocked and self._connection.pauses_when_blocked
            self._may_deliver = not self._is_paused and not is_blocked
        if self._may_deliver and (self._has_backlog or self._has_ended) and not self._is_delivery_due:
            self._is_delivery_due = True
            self._loop.call_soon(self._deliver_backlog)
        if self._loss is None and not self._has_ended:
            reads = self._may_deliver and not self._has_backlog
            if self.is_reading is not reads:
                self.is_reading = reads
                self._connection.channel.set_reading(reads)

    def puts_off(self, fault: Exception | None) -> bool:
        """Deliver the backlog before the loss of the channel, if there is one. Return whether that is not done yet."""
        if self._is_open and self._has_backlog and self._loss is None:
            self._loss = (fault,)
            self._may_deliver = True
            self._deliver((), has_more=True)
        return self._loss is not None and self._has_backlog and self._may_deliver

    def drop_backlog(self) -> bool:
        """Give up the backlog if the channel is lost already. Return whether it is."""
        if self._loss is not None and self._may_deliver:
            self._may_deliver = False
            self._loop.call_soon(self._connection.channel_events.lost, self._loss[0])
        return self._loss is not None

    @property
    def held_bytes(self) -> int:
        """About how many bytes are received and not delivered."""
        return self._reader.held_bytes

    # What arrives.

    def received(self, data: Any) -> None:
        """Handle what arrived on the channel; see `Events`."""
        self.chunks += 1
        if not self._may_deliver or self._has_backlog or not data or type(data) is list:
            self._keep(data)
            return
        reader = self._reader
        is_small = len(data) <= readers.SMALL_BYTES
        try:
            items = reader.feed(data) if is_small else reader.feed(data, readers.TURN_ITEMS)
        except Exception as error:
            self._connection.fail(error)
            return
        if not items:
            reader.partial_bytes += len(data)
            return
        reader.partial_bytes = 0
        if len(items) > 1 or not is_small:
            self._deliver(items, has_more=not is_small and reader.has_more)
            return
        # One item is the whole chunk: as `_deliver`, without the budget.
        item = items[0]
        outbox, connection = self._outbox, self._connection
        outbox.begin_turn()
        try:
            if type(item) is ParseError or type(item) is list or connection.onmessage is None:
                self._deliver_item(item)
            else:
                # Inlined from `Connection.run_callback`: a call costs half as much as the decoding.
                try:
                    connection.onmessage(item)
                except LOOP_EXITS:
                    raise
                except BaseException as error:  # a CancelledError would break the channel
                    connection.report_callback_error(error)
        finally:
            outbox.end_turn()

    def add(self, items: list[Any]) -> None:
        """Handle messages and faults that are decoded already."""
        if self._connection.is_closing:
            return
        self.chunks += 1
        self._undelivered += items
        self._extend_backlog()

    def _extend_backlog(self) -> None:
        """Deliver what was added to the backlog, unless it has to wait."""
        had_backlog, self._has_backlog = self._has_backlog, True
        if self._may_deliver and not had_backlog:
            self._deliver((), has_more=True)

    def _keep(self, data: Any) -> None:
        """Handle what cannot be delivered now, several texts, and the end of the stream."""
        if self._connection.is_closing or self._has_ended:
            self._drop(sum(map(len, data)) if type(data) is list else len(data))
        elif data:
            self._reader.keep(data)
            self._extend_backlog()
        else:
            self._has_ended = True
            self._reader.end()
            if self._may_deliver and not self._has_backlog:
                self._deliver((), has_more=True)
            else:
                self._has_backlog = True
                self.update()

    def _drop(self, size: int) -> None:
        """Count bytes that arrived too late. If that is the peer's fault, and it does not stop, abort."""
        is_fault = self._connection.fault is not None or self._reader.has_ended
        if is_fault and self._dropped_bytes <= DROPPED_BYTES:
            self._dropped_bytes += size
            if self._dropped_bytes > DROPPED_BYTES:
                self._connection.channel.abort()

    # Delivering.

    def _deliver(self, items: Iterable[Any], has_more: bool = False) -> None:
        """Deliver items; if `has_more`, also the backlog. What takes too long is left to the next turn."""
        self._outbox.begin_turn()
        try:
            end = self._loop.time() + TURN_SECONDS
            self._deliver_items(items, end)
            may_step = not items or self._loop.time() < end
            may_follow = has_more
            while may_follow and may_step and self._may_deliver:
                items, self._undelivered = self._undelivered, []
                items = items or self._next_items()
                self._deliver_items(items, end)
                may_follow = bool(items) or self._reader.has_more
                may_step = self._loop.time() < end
        finally:
            self._has_backlog = bool(self._undelivered) or self._reader.has_more
            if self._has_backlog or has_more or self._has_ended:
                self.update()
            self._outbox.end_turn()

    def _next_items(self) -> list[Any]:
        try:
            return self._reader.next_items()
        except Exception as error:
            self._connection.fail(error)
            return []

    def _deliver_items(self, items: Iterable[Any], end: float) -> None:
        """Deliver items until the loop's time is `end`, at least one. The others are `_undelivered`."""
        connection, time = self._connection, self._loop.time
        pending = iter(items)
        try:
            for item in pending:
                if not self._may_deliver:
                    self._undelivered.append(item)
                    return
                kind = type(item)
                if kind is ParseError or kind is list or connection.onmessage is None:
                    self._deliver_item(item)
                else:
                    try:
                        connection.onmessage(item)
                    except LOOP_EXITS:
                        raise
                    except BaseException as error:  # as in `received`
                        connection.report_callback_error(error)
                if time() >= end:
                    return
        finally:
            self._undelivered += pending

    def _deliver_item(self, item: Any) -> None:
        connection = self._connection
        if type(item) is ParseError:
            connection.report_invalid(item)
            self._count_faults(1)
            if self._reader.has_ended:
                self._has_ended = True
                self.update()
            return
        if connection.onmessage is not None:
            connection.run_callback("onmessage", connection.onmessage, item)
        if type(item) is list:
            self._count_faults(sum(type(one) is ParseError for one in item))

    def _deliver_backlog(self) -> None:
        """Deliver the backlog for one turn, then handle the end of the stream or of the channel."""
        self._is_delivery_due = False
        if not self._may_deliver:
            return
        if self._has_backlog:
            self._deliver((), has_more=True)
        if not self._may_deliver or self._has_backlog:
            return
        if self._loss is not None:
            self._connection.channel_events.lost(self._loss[0])
        elif self._has_ended:
            self._connection.handle_end(is_fault=self._reader.has_ended)

    def _count_faults(self, count: int) -> None:
        self._faults += count
        if self._max_faults is not None and self._faults > self._max_faults:
            self._connection.end_because_of_faults(self._max_faults)
