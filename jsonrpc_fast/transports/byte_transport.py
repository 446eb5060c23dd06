"""The base of transports over a channel of bytes: frames are decoded as they arrive. The rules are those of `base`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ..codec import Decoder, ParseError
from ..codec._backend import too_large_fault
from ..codec._stream import StreamDecoder
from ..framing.frames import Framing, frame
from ..profile import JSONRPC, Limits, Profile
from . import debug
from .base import TURN_ITEMS, BaseTransport, State

SMALL_BYTES: Final = 256
"""Chunks up to this size are decoded at once, since they hold few items."""


class _TextDecoder(StreamDecoder[Any]):
    """Splits a stream like `Decoder`, and leaves each text to a function."""

    __slots__ = ("_decode_text",)
    _fault_class = ParseError

    def __init__(self, framing: Framing, profile: Profile, decode: Callable[[bytes], Any]) -> None:
        super().__init__(framing, profile)
        self._decode_text = decode

    def _decode(self, text: bytes) -> Any:
        return self._decode_text(text)

    def _too_large(self, head: bytes) -> ParseError:
        return too_large_fault(head, self._profile)


class ByteTransport(BaseTransport):
    """A `Transport` over a channel of bytes.

    Subclasses implement the channel: `open_channel`, `set_reading`, `write_bytes`, `unwritten_bytes`, `finish_channel`
    and `abort_channel`. They call `receive`, `end_received`, `set_blocked` and `channel_lost`.

    Args:
        framing: As in `Decoder`. Sent messages have the same framing; with "auto" they follow the peer's, and are
            lines until that is known.
        profile: As in `BaseTransport`, like the other options.
    """

    def __init__(
        self,
        *,
        framing: Framing = "newline",
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
        drain_seconds: float | None = 5.0,
        max_faults: int | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(
            profile=profile,
            limits=limits,
            raw=raw,
            drain_seconds=drain_seconds,
            max_faults=max_faults,
            decode=decode,
        )
        self._decoder: StreamDecoder[Any] = (
            Decoder(framing, profile, limits, raw) if decode is None else _TextDecoder(framing, self.profile, decode)
        )
        self._feed: Callable[..., list[Any]] = self._decoder.feed
        self._undecoded = bytearray()
        self._partial_bytes = 0  # of a message that has not arrived completely, about
        self._is_decoder_closed = False

    def write_bytes(self, data: bytes) -> None:
        """Write whole frames. Keep what the system does not take yet, and call `set_blocked` if that is too much.

        A write that fails is reported by `channel_lost`, later.
        """
        raise NotImplementedError

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Handle bytes that arrived on the channel. They are copied if they have to be kept."""
        self._chunks += 1
        if not self._may_deliver or self._has_backlog:
            if self._state is State.CLOSING or self._state is State.CLOSED:
                self._drop_received(len(data), self._fault is not None)
            else:
                self._undecoded += data
                self._has_backlog = True
        elif len(data) <= SMALL_BYTES:
            items = self._feed(data)
            if items:
                self._partial_bytes = 0
                if len(items) == 1:
                    self._deliver_one(items[0])
                else:
                    self._deliver(items)
            else:
                self._partial_bytes += len(data)
            if self._decoder.ended:
                self._on_framing_broken()
        else:
            items = self._feed(data, TURN_ITEMS)
            if items:
                self._partial_bytes = 0
                self._deliver(items, has_more=self._decoder.has_more)
            else:
                self._partial_bytes += len(data)
            if self._decoder.ended:
                self._on_framing_broken()

    def _on_framing_broken(self) -> None:
        if not self._has_ended:
            self._has_ended = self._is_framing_broken = True
            self._update_reading()

    def _close_decoder(self) -> list[Any]:
        self._is_decoder_closed = True
        return self._decoder.close()

    def held_bytes(self) -> int:
        return self._partial_bytes + len(self._undecoded) + super().held_bytes()

    def _open_log(self) -> None:
        self._log = debug.log_for(self.channel_name(), self._decoder.framing, self.profile.limits)
        if self._log is not None:
            self._feed = partial(self._log.feed, self._decoder)
        self._may_send_lines = self._decoder.framing in ("newline", "concatenated") and self._log is None

    def _framed(self, text: bytes) -> bytes:
        framing = self._decoder.framing
        return frame(text, "newline" if framing == "auto" else framing)  # the peer's framing is not known yet

    def _write_queue(self) -> None:
        queue = self._queue
        data = queue[0] if len(queue) == 1 else b"".join(queue)
        queue.clear()
        self._queue_bytes = 0
        self._turns_lingered = 0
        self.write_bytes(data)

    def _next_items(self) -> list[Any]:
        while True:
            if self._undelivered:
                items, self._undelivered = self._undelivered, []
            elif self._decoder.has_more:
                items = self._feed(b"", TURN_ITEMS)
            elif self._undecoded:
                data, self._undecoded = self._undecoded, bytearray()
                items = self._feed(data, TURN_ITEMS)
            elif self._has_ended and not self._is_decoder_closed:
                items = self._close_decoder()
            else:
                return []
            if items:
                return items

    def _update_backlog(self) -> None:
        if self._decoder.ended and not self._has_ended:
            self._has_ended = self._is_framing_broken = True
        is_last_left = self._has_ended and not self._is_decoder_closed and not self._is_framing_broken
        self._has_backlog = bool(self._undelivered or self._undecoded or self._decoder.has_more or is_last_left)

    def _clear_backlog(self) -> None:
        super()._clear_backlog()
        self._undecoded.clear()
