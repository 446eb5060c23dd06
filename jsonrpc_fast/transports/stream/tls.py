"""TLS over a channel of asyncio or uvloop, with a close that loses nothing.

Rules:
  - Both directions end separately, as with TCP: `write_eof` sends close_notify, and reading goes on until the peer's.
    asyncio's own TLS cannot do this: if the peer still sends when it closes, it resets the connection, and the peer
    loses what it has not read yet.
  - A peer that closes the socket without close_notify has ended its stream, too: what it cut off is no valid message.
  - The protocol above is connected when the handshake is done. A handshake that takes too long is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from .transport import read_buffer

HANDSHAKE_SECONDS: Final = 10.0
"""The default of `handshake_seconds`: how long the peer may take to open the connection."""
READ_BYTES: Final = 64 * 1024
"""How many encrypted bytes are read at a time: thousands of records with one byte each, which all take a call."""


class TlsLayer(asyncio.Transport, asyncio.BufferedProtocol):
    """The protocol of a plain channel, and the secured channel of another protocol.

    Args:
        protocol: The protocol above.
        context: The settings; certificates are checked as it says.
        server_hostname: On the client's side, the name that the server's certificate must have; None on the server's.
        admit: Called with the plain channel when it is connected, if given; it drops the connection by returning False.
        leave: Called with the plain channel when it is closed, if given.
        handshake_seconds: How long the handshake may take; None: no limit.

    Attributes:
        opened: On the client's side, done when the handshake is, or has failed.
    """

    def __init__(
        self,
        protocol: asyncio.BufferedProtocol,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        admit: Callable[[asyncio.Transport], bool] | None = None,
        leave: Callable[[asyncio.Transport], None] | None = None,
        handshake_seconds: float | None = HANDSHAKE_SECONDS,
    ) -> None:
        super().__init__()
        self._protocol = protocol
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_hostname is None, server_hostname=server_hostname
        )
        self._admit = admit
        self._leave = leave
        self._handshake_seconds = handshake_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._raw: Any = None
        self._buffer: memoryview  # of encrypted bytes
        self._is_open = False  # the handshake is done: the protocol above is connected, and gets all further events
        self._is_paused = False
        # OpenSSL may hold decrypted data that no event of the socket announces, so reading has turns of its own.
        self._is_read_due = False
        self._unsent = bytearray()  # what TLS does not take before it has read more
        # The close_notify of each side. Both directions end separately (RFC 8446, section 6.1).
        self._has_sent_end = False
        self._has_received_end = False
        self._fault: Exception | None = None
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.opened: asyncio.Future[None] | None = None if server_hostname is None else loop.create_future()

    # The protocol of the plain channel.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast("asyncio.Transport", transport)
        if self._admit is not None and not self._admit(self._raw):
            self._raw.abort()
            return
        self._buffer = read_buffer(READ_BYTES)
        if self._handshake_seconds is not None:
            self._timer = self._loop.call_later(self._handshake_seconds, self._on_handshake_timeout)
        self._continue_handshake()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._has_received_end:
            return  # nothing reads it any more, and kept data would have no bound (RFC 8446, section 6.1)
        self._incoming.write(self._buffer[:nbytes])
        if self._is_open:
            self._read()
        elif not self._raw.is_closing():
            self._continue_handshake()

    def eof_received(self) -> bool:
        self._incoming.write_eof()
        if not self._is_open:
            return False
        return self._end_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._leave is not None:
            self._leave(self._raw)
        if self._is_open:
            self._protocol.connection_lost(self._fault or exc)
        elif self.opened is not None and not self.opened.done():
            self.opened.set_exception(
                self._fault or exc or ConnectionResetError("the peer closed the connection during the TLS handshake")
            )

    def pause_writing(self) -> None:
        if self._is_open:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._is_open:
            self._protocol.resume_writing()

    # The handshake.

    def _continue_handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return
        except (ssl.SSLError, ssl.CertificateError) as fault:
            self._fault = fault
            self._send()  # the alert
            self._raw.close()
            return
        self._send()
        if self._timer is not None:
            self._timer.cancel()
        self._is_open = True
        self._protocol.connection_made(self)
        if self.opened is not None and not self.opened.done():
            self.opened.set_result(None)
        self._schedule_read()

    def _on_handshake_timeout(self) -> None:
        self._fault = TimeoutError("the TLS handshake took too long")
        self._raw.abort()

    def _send(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    # Reading.

    def _schedule_read(self) -> None:
        if not self._is_read_due:
            self._is_read_due = True
            self._loop.call_soon(self._read_soon)

    def _read_soon(self) -> None:
        self._is_read_due = False
        self._read()

    def _read(self) -> None:
        """Pass on what has arrived, until reading is paused."""
        try:
            while not self._is_paused and not self._has_received_end and not self._raw.is_closing():
                if not self._read_once():
                    break
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            if not self._end_received():
                self.close()
        except ssl.SSLError as fault:
            # After this side's close_notify OpenSSL may refuse to read on: what arrives is dropped anyway.
            if not self._has_sent_end:
                self._fault = fault
                self._send()  # the alert
                self._raw.abort()
        if self._unsent:
            self._write_unsent()
        self._send()

    def _read_once(self) -> bool:
        """Pass on one chunk; return whether there may be more."""
        buffer = cast("memoryview", self._protocol.get_buffer(-1))
        filled, has_more = 0, True
        ended: ssl.SSLError | None = None
        while filled < len(buffer) and has_more:
            try:
                count = cast("int", self._tls.read(len(buffer) - filled, cast("bytearray", buffer[filled:])))
                filled += count
                # `read` returns 0 for a close_notify.
                if not count:
                    raise ssl.SSLZeroReturnError
            except ssl.SSLWantReadError:
                has_more = False
            except ssl.SSLError as fault:
                ended, has_more = fault, False
        if filled:
            self._protocol.buffer_updated(filled)
        if ended is not None:
            raise ended
        return has_more

    def _end_received(self) -> bool:
        """The peer sends nothing more. Return whether this side still may."""
        if self._has_received_end:
            return True
        self._has_received_end = True
        return bool(self._protocol.eof_received())

    # The secured channel.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._has_sent_end or self._raw.is_closing():
            return
        if self._unsent:
            self._unsent += data
        else:
            self._encrypt(memoryview(data))
        self._send()

    # A write may have to wait for a read, as in a renegotiation of TLS 1.2.
    def _encrypt(self, data: memoryview) -> None:
        try:
            while data:
                data = data[self._tls.write(data) :]
        except ssl.SSLWantReadError:
            self._unsent += data

    def _write_unsent(self) -> None:
        unsent, self._unsent = self._unsent, bytearray()
        self._encrypt(memoryview(unsent))
        if not self._unsent:
            self._protocol.resume_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._has_sent_end or self._raw.is_closing():
            return
        self._has_sent_end = True
        with contextlib.suppress(ssl.SSLError):  # the peer's close_notify has not arrived, or its data comes first
            self._tls.unwrap()
        self._send()

    def close(self) -> None:
        self.write_eof()
        self._raw.close()

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()

    def is_closing(self) -> bool:
        return bool(self._raw.is_closing())

    def pause_reading(self) -> None:
        self._is_paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._raw.resume_reading()
        self._schedule_read()

    def is_reading(self) -> bool:
        return not self._is_paused

    def get_write_buffer_size(self) -> int:
        return int(self._raw.get_write_buffer_size()) + len(self._unsent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._tls
        if name == "sslcontext":
            return self._tls.context
        if name == "peercert":
            return self._tls.getpeercert()
        if name == "cipher":
            return self._tls.cipher()
        return self._raw.get_extra_info(name, default)
