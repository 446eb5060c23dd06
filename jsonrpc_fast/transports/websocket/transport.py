"""A WebSocket connection, the same for clients and servers.

Rules:
  - A client closes with 1000, a server that stops with 1001, and both with 1008 after more than `max_faults` invalid
    messages. A message that is not UTF-8 ends the connection with 1007.
"""

from __future__ import annotations

from typing import Final, Unpack

from ...codec import ParseError
from ...codes import ParseErrorCode
from ...profile import JSONRPC, Limits, Profile
from ...support import check_seconds
from ..channel import CloseCode
from ..connection import State
from ..heartbeat import Heartbeat
from ..protocol import MessageOptions
from ..stream.transport import SocketTransport
from .channel import WebSocketChannel

UNFOLDED_BYTES: Final = 1024 * 1024
"""The default of `Limits.message_bytes` with compression: a frame a thousand times smaller may expand to this size."""


class WebSocketOptions(MessageOptions, total=False):
    """Keyword options of every WebSocket; `WebSocketTransport` describes them."""

    ping_seconds: float | None


def limits_of(compression: bool, limits: Limits | None, profile: Profile = JSONRPC) -> Limits | None:
    """Return the limits of a connection that may be compressed; None: those of the profile."""
    if limits is not None or not compression:
        return limits
    return profile.limits.replace(message_bytes=min(profile.limits.message_bytes, UNFOLDED_BYTES))


class WebSocketTransport(SocketTransport):
    """A WebSocket connection: a `WebSocketClient`, or a connection that a `WebSocketServer` accepted.

    Args:
        channel: The channel.
        ping_seconds: How long nothing may arrive before the peer is pinged. After twice this time the connection is
            lost. None: no pings and no limit.
        options: Options of `Connection`.

    Raises:
        TypeError, ValueError: An option has the wrong type or value.
    """

    channel: WebSocketChannel

    def __init__(
        self,
        channel: WebSocketChannel,
        *,
        ping_seconds: float | None = 20.0,
        **options: Unpack[MessageOptions],
    ) -> None:
        super().__init__(channel, **options)
        check_seconds("ping_seconds", ping_seconds)
        if ping_seconds is not None:
            self._heartbeat = Heartbeat(ping_seconds, self, lambda _: channel.ping(), channel.abort_silent)
        channel.max_bytes = self.profile.limits.message_bytes

    @property
    def close_code(self) -> int | None:
        """The close code that the peer sent; 1005 if its close frame had no code, None if it sent no close frame."""
        wire = self.channel.wire
        return None if wire is None or wire.close_rcvd is None else int(wire.close_rcvd.code)

    @property
    def close_reason(self) -> str:
        """The reason that the peer sent with its close code; "" without one."""
        wire = self.channel.wire
        return "" if wire is None or wire.close_rcvd is None else wire.close_rcvd.reason

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that both sides agreed on."""
        return None if self.channel.wire is None else self.channel.wire.subprotocol

    def held_bytes(self) -> int:
        return super().held_bytes() + self.channel.held_bytes

    @property
    def received_chunks(self) -> int:
        return self.channel.chunks

    def finish_channel(self) -> None:
        if self.fault is not None:
            self.channel.closing_code = CloseCode.POLICY_VIOLATION
        super().finish_channel()

    def report_invalid(self, fault: ParseError) -> None:
        if fault.code is ParseErrorCode.INVALID_UTF8:
            self.flush()  # send the responses to earlier messages first
            self.channel.fail(CloseCode.INVALID_TEXT, fault)
            self._stop(State.CLOSING)  # what follows is not delivered
        else:
            super().report_invalid(fault)
