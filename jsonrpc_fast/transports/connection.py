"""A transport over a channel: the one state machine of a connection.

It is made of four parts: a `Channel` moves bytes or texts, a `Reader` decodes them, the `Delivery` passes messages on
and the `Outbox` queues frames. Here are the states, the ends and the user's callbacks.

Rules:
  - A connection is idle, connecting, connected, running, closing, closed, in this order. It may skip states and never
    goes back, except that a `connect` that fails leaves it idle.
  - Messages may be sent while it is connected or running, and are delivered while it is running.
  - When the peer ends its stream, the connection writes what was accepted and closes, unless `onend` is set.
  - No callback runs inside `send`, `connect`, `start`, `pause_reading` or `resume_reading`. `onclose` is called once,
    and no callback after it.
  - A fault of the channel stops sending at once; `onerror` gets it when the channel is lost.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from .._checks import check_callable, check_count, check_seconds, check_type
from ..codec import ParseError
from ..errors import ConnectionLost, StateError, run_callback
from ..framing.frames import Framing
from ..profile import JSONRPC, Limits, Profile
from ..types import UNSET, Unset
from . import debug
from .channel import Channel, Events
from .delivery import Delivery
from .outbox import Outbox
from .protocol import Sendable, Transport
from .readers import Reader, StreamReader, TextReader
from .waiters import Waiters

SERVE_SECONDS: Final = 0.5
"""How long a `serve` function may go on after its channel is closed, before it is cancelled."""
OVERDUE_SECONDS: Final = 1.0
"""How long after the grace period a transport that does not close is closed."""


class State(enum.Enum):
    """The states of a connection, in their order."""

    IDLE = "not connected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class Connection(Transport):
    """A `Transport` over a channel.

    Args:
        channel: Moves the bytes or texts. It belongs to this connection alone.
        framing: The framing of a stream of bytes, as in `Decoder`; "newline" by default. Sent messages have the same;
            with "auto" they follow the peer's, and are lines until that is known. None for a channel of texts.
        profile: The rules for decoding.
        limits: Replace the limits of `profile` if given.
        raw: Whether payloads are left undecoded, as in `Decoder`.
        drain_seconds: How long `close` waits for the peer to take what was accepted; None: without limit.
        max_faults: The number of invalid messages after which one more closes the connection; None: without limit.
        decode: Reads each text in place of the codec. What it returns goes to `onmessage`, or to `onerror` if it is a
            `ParseError`. It must not raise. None: the codec reads.

    Attributes:
        channel: The same.
        channel_events: What the channel calls.
        fault: What broke the connection; None while nothing has.
        undrained_bytes: How many bytes the peer had not taken after `drain_seconds`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    profile: Profile

    def __init__(
        self,
        channel: Channel,
        *,
        framing: Framing | None = None,
        profile: Profile = JSONRPC,
        limits: Limits | None = None,
        raw: bool = False,
        drain_seconds: float | None = 5.0,
        max_faults: int | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> None:
        check_type("channel", channel, Channel)
        check_type("profile", profile, Profile)
        check_type("limits", limits, Limits, may_be_none=True)
        check_callable("decode", decode)
        check_seconds("drain_seconds", drain_seconds)
        check_count("max_faults", max_faults, 0)
        self.profile = profile = profile if limits is None else profile.replace(limits=limits)
        reader: Reader
        if channel.carries_texts:
            if framing is not None:
                raise TypeError("a channel of texts has no framing")
            reader = TextReader(profile, raw, decode)
        else:
            reader = StreamReader("newline" if framing is None else framing, profile, raw, decode)
        self.channel: Channel = channel
        self._drain_seconds = drain_seconds
        self._reader = reader
        self._outbox = Outbox(self, channel, reader)
        if type(self).send is Connection.send:
            self.send = self._outbox.send  # type: ignore[method-assign]  # saves a call for each message
        self._delivery = Delivery(self, self._outbox, reader, max_faults)
        self.channel_events: Events = Events(self._delivery.received, self._outbox.drained, self._lost)
        self._loop: asyncio.AbstractEventLoop
        self._log: debug.WireLog | None = None
        self._state = State.IDLE
        self._has_reported_end = False  # of the peer's stream, to `onend`
        self._closing_timer: asyncio.TimerHandle | None = None
        self._close_waiters = Waiters()
        self.fault: Exception | None = None
        self.undrained_bytes: int = 0

    # Properties.

    @property
    def state(self) -> State:
        """The state. The methods of this class alone change it."""
        return self._state

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closing or closed."""
        return self._state is State.CLOSING or self._state is State.CLOSED

    @property
    def is_connected(self) -> bool:
        return self._outbox.is_open

    @property
    def write_buffer_bytes(self) -> int:
        return self._outbox.unwritten

    @property
    def received_chunks(self) -> int:
        return self._delivery.chunks

    @property
    def is_reading(self) -> bool:
        return self._delivery.is_reading

    def held_bytes(self) -> int:
        """About how many bytes are received but not delivered, kept by the user, or sent but not written."""
        kept = 0 if self.kept_bytes is None else self.kept_bytes()
        return self._delivery.held_bytes + self._outbox.unwritten + kept

    @property
    def linger_turns(self) -> int:
        """How many more turns of the loop frames wait, so that more of them leave in one write. Initially 0."""
        return self._outbox.linger_turns

    @linger_turns.setter
    def linger_turns(self, turns: int) -> None:
        self._outbox.linger_turns = turns

    # Opening.

    async def connect(self) -> None:
        if self._state is not State.IDLE:
            raise self._state_error()
        self._state = State.CONNECTING
        self._loop = asyncio.get_running_loop()
        try:
            await self.channel.open(self.channel_events)
        finally:
            if self._state is State.CONNECTING:
                self._state = State.IDLE
        if self._state is not State.IDLE:
            self.channel.abort()
            raise ConnectionLost("the transport was closed while it was connecting")
        self._state = State.CONNECTED
        self._log = debug.log_for(self.channel.name, self._reader.framing or "none", self.profile.limits)
        if self._log is not None:
            self._reader.set_log(self._log)
        self._outbox.open(self._log)

    async def start(self) -> None:
        if self._state is State.IDLE:
            await self.connect()
        if self._state is not State.CONNECTED:
            raise self._state_error()
        self._state = State.RUNNING
        self._delivery.open()

    def _state_error(self) -> StateError:
        return StateError(f"the transport is {self._state.value}")

    # Sending and receiving.

    def send(self, message: Sendable) -> None:
        self._outbox.send(message)

    def flush(self) -> None:
        """Write what is queued now, instead of at the end of the turn of the loop."""
        self._outbox.flush()

    async def drain(self) -> None:
        await self._outbox.drain()

    def pause_reading(self) -> None:
        self._delivery.set_paused(True)

    def resume_reading(self) -> None:
        self._delivery.set_paused(False)

    # Closing.

    async def close(self) -> None:
        self.begin_closing()
        await self.wait_closed()

    async def disconnect(self) -> None:
        self.abort()
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Wait until the transport is closed and `onclose` has been called."""
        if self._state is not State.CLOSED:
            await self._close_waiters.wait()

    def begin_closing(self, drain_seconds: float | Unset | None = UNSET) -> None:
        """Begin what `close` does, without waiting.

        Args:
            drain_seconds: Replaces the option of the same name.
        """
        if self._state is State.IDLE or self._state is State.CONNECTING:
            self.abort()
        elif not self.is_closing and not self._delivery.drop_backlog():
            self._outbox.linger_turns = 0
            self._outbox.flush()
            self._stop(State.CLOSING)
            seconds = self._drain_seconds if isinstance(drain_seconds, Unset) else drain_seconds
            if seconds is not None:
                self._closing_timer = self._loop.call_later(seconds, self._on_drain_timeout)
            self.finish_channel()

    def finish_channel(self) -> None:
        """Let the channel end, after everything is written; for subclasses that have to tell it how."""
        self.channel.finish()

    def abort(self, fault: Exception | None = None) -> None:
        """Begin what `disconnect` does, without waiting.

        Args:
            fault: The reason, for `onerror`.
        """
        if fault is not None:
            self.break_off(fault)
        if self._state is State.IDLE:
            self._lost(None)
            self.channel.abort()
        elif self._state is State.CONNECTING:
            self._lost(None)  # `connect` aborts the channel when it is open
        elif self._state is not State.CLOSED and not self._delivery.drop_backlog():
            self._stop(State.CLOSING)
            self.channel.abort()

    def request_stop(self, grace_seconds: float | None, drain_seconds: float | Unset | None = UNSET) -> None:
        """Ask the user of the connection to finish and close it; see `onstop`.

        If that is not set, `onend` is called and reading stops; if that is not set either, the connection closes.
        """
        if self._state is not State.RUNNING or (self.onstop is None and self.onend is None):
            self.begin_closing(drain_seconds)
        elif self.onstop is not None:
            self.run_callback("onstop", self.onstop, grace_seconds)
        else:
            self.pause_reading()
            self._report_end()

    def keep_closing(self) -> None:
        """Cancel `drain_seconds`, because the channel bounds the rest of its end itself."""
        if self._closing_timer is not None:
            self._closing_timer.cancel()

    def _on_drain_timeout(self) -> None:
        self.undrained_bytes = self.channel.unwritten
        self.channel.abort()

    def _stop(self, state: State) -> None:
        self._state = state
        self._outbox.close()
        self._delivery.close()

    # Events of the channel and of the parts.

    def deliver(self, items: list[Any]) -> None:
        """Deliver messages and faults in place of a text; for subclasses whose channel has to decode them."""
        self._delivery.add(items)

    def update_reading(self) -> None:
        """Read, or let the peer wait, because the outbox is blocked or no longer so."""
        self._delivery.update()

    def handle_end(self, is_fault: bool) -> None:
        """Handle the end of what the peer sends, by a fault of the framing or by the peer."""
        if self.onend is None or is_fault:
            self.begin_closing()
        else:
            self._report_end()

    def _report_end(self) -> None:
        if self.onend is not None and not self._has_reported_end:
            self._has_reported_end = True
            self.run_callback("onend", self.onend)

    def break_off(self, fault: Exception) -> None:
        """Stop sending because of a fault. The state does not change: `lost` follows."""
        if self._state is not State.CLOSED and self.fault is None:
            self.fault = fault
        self._outbox.close()
        self._delivery.update()

    def _lost(self, fault: Exception | None) -> None:
        """Handle the end of the channel. Further calls do nothing."""
        if self._state is State.CLOSED:
            return
        fault = fault or self.fault
        self.fault = self.fault or fault
        self._outbox.close()
        if self._delivery.puts_off(fault):
            return  # the inbox reports the loss again after the last item
        self._stop(State.CLOSED)
        self.keep_closing()
        if fault is not None:
            self._report(fault)
        if self._log is not None:
            self._log.closed(self.fault)
        if self.onclose is not None:
            self.run_callback("onclose", self.onclose)
        self.closed()
        self._close_waiters.wake()

    def closed(self) -> None:
        """Called once, after `onclose`; for subclasses."""

    # Faults and callbacks.

    def fail(self, error: Exception) -> None:
        """Close because of an exception that nobody expects, such as a MemoryError: the state is not known then."""
        if self.onerror is None:
            self.report_unhandled(error, "decode")
        self.abort(error)

    def closed_error(self) -> Exception:
        """Return the exception for what is sent while nothing can be sent."""
        if self._state is State.IDLE or self._state is State.CONNECTING:
            return self._state_error()
        error = ConnectionLost("the transport is closed" if self.fault is None else "the channel broke")
        error.__cause__ = self.fault
        return error

    def end_because_of_faults(self, maximum: int) -> None:
        """Close because the peer sent too many invalid messages."""
        if self.fault is None:
            self.fault = ConnectionLost(f"the peer sent more than {maximum} invalid messages")
            self.begin_closing()

    def report_invalid(self, fault: ParseError) -> None:
        """Report an invalid message; for subclasses whose channel closes because of some."""
        self._report(fault)

    def _report(self, fault: Exception) -> None:
        if self._log is not None:
            self._log.fault(fault)
        if self.onerror is not None:
            self.run_callback("onerror", self.onerror, fault)

    def run_callback(self, name: str, callback: Callable[..., object], *arguments: Any) -> None:
        """Call a function of the user. What it raises is reported, and changes nothing here."""
        run_callback(partial(self.report_callback_error, name=name), callback, *arguments)

    def report_callback_error(self, fault: BaseException, name: str = "onmessage") -> None:
        """Report what a callback raised: to `onerror` if it was called for something received, or to the loop."""
        if name not in ("onmessage", "stderr") or self.onerror is None or not isinstance(fault, Exception):
            self.report_unhandled(fault, name)
        else:
            self._report(fault)

    def report_unhandled(self, fault: BaseException, callback: str) -> None:
        """Report what a function of the user raised to the loop's exception handler."""
        context = {"message": f"exception in {callback} of a transport", "exception": fault, "transport": self}
        asyncio.get_running_loop().call_exception_handler(context)
