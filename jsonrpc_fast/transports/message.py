"""The base of transports over a channel of whole messages, such as WebSocket, datagrams or a broker's subject.

Rules:
  - Each text that arrives is one message or batch, in any spacing. A text that is not one is an invalid message.
  - Sent messages are written together, once in each turn of the loop, in order, without a line break at the end.
  - The other rules are those of `BaseTransport`; there is no framing that could break.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ..codec import ParseError, decode
from . import debug
from .base import NEWLINE, TURN_ITEMS, BaseTransport, State
from .options import MessageOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

Text = bytes | bytearray | memoryview | str

STEP_BYTES: Final = 4096
"""A longer text is decoded in a step of its own."""


class MessageTransport(BaseTransport):
    """A `Transport` over a channel of whole messages.

    Subclasses implement the channel: `open_channel`, `write_messages`, `finish_channel` and `abort_channel`, and
    `set_reading` and `unwritten_bytes` where the channel can wait. They call `receive`, `end_received`, `set_blocked`
    and `channel_lost`.

    Args:
        options: Options of `BaseTransport`.
    """

    def __init__(self, **options: Unpack[MessageOptions]) -> None:
        super().__init__(**options)
        self._texts: deque[Text] = deque()

    def write_messages(self, texts: list[bytes]) -> None:
        """Write messages, each one JSON text in UTF-8 without a line break.

        Keep what the system does not take yet, and call `set_blocked` if that is too much. A write that fails is
        reported by `channel_lost`, later.
        """
        raise NotImplementedError

    def receive(self, text: Text) -> None:
        """Handle a message that arrived on the channel. The text must not change afterwards."""
        self._chunks += 1
        if not self._may_deliver or self._has_backlog:
            self.receive_many((text,))
        else:
            self._deliver_one(self._decode(text))

    def receive_many(self, texts: Iterable[Text]) -> None:
        """Handle messages that arrived together: the replies to them are written together."""
        self._chunks += 1
        if self._state is State.CLOSING or self._state is State.CLOSED:
            self._drop_received(sum(map(len, texts)), self._fault is not None)
            return
        self._texts += texts
        had_backlog, self._has_backlog = self._has_backlog, bool(self._texts)
        if self._may_deliver and not had_backlog:
            self._deliver([], has_more=True)

    def held_bytes(self) -> int:
        return sum(map(len, self._texts)) + super().held_bytes()

    def _decode(self, text: Text) -> Any:
        read = self._decode_text
        item = decode(text, self.profile, raw=self._raw) if read is None else read(text)
        if self._log is not None:
            self._log.received(item, f"{len(text)} {'characters' if isinstance(text, str) else 'bytes'}")
        return item

    def _next_items(self) -> list[Any]:
        if self._undelivered:
            items, self._undelivered = self._undelivered, []
            return items
        texts = self._texts
        items = []
        while texts and len(items) < TURN_ITEMS:
            text = texts.popleft()
            item = self._decode(text)
            items.append(item)
            if len(text) > STEP_BYTES or type(item) is ParseError:
                break
        return items

    def _update_backlog(self) -> None:
        self._has_backlog = bool(self._undelivered or self._texts)

    def _clear_backlog(self) -> None:
        super()._clear_backlog()
        self._texts.clear()

    def _open_log(self) -> None:
        self._log = debug.log_for(self.channel_name(), "none", self.profile.limits)
        self._may_send_lines = self._log is None

    def _framed(self, text: bytes) -> bytes:
        return text

    def _write_queue(self) -> None:
        texts = [text[:-1] if text[-1] == NEWLINE else text for text in self._queue]
        self._clear_queue()
        self._turns_lingered = 0
        self.write_messages(texts)
