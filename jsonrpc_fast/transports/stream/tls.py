"""TLS as a channel of bytes over a socket, with a close that loses nothing.

Rules:
  - Both directions end separately, as with TCP: `finish` sends close_notify, and reading continues until the peer's.
    asyncio's own TLS cannot do this: if the peer still sends when it closes, it resets the connection, and the peer
    loses what it has not read yet.
  - A peer that closes the socket without close_notify has ended its stream as well. A message that it cut off is
    invalid.
  - A client opens the channel when the handshake is done. On a server the handshake comes first, and whoever serves the
    connection waits for `handshake` and limits its time.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, cast

from ...support import check_type
from ..channel import READ_BYTES, Events
from .transport import LayeredChannel, SocketChannel, read_buffer

if TYPE_CHECKING:
    import ssl as ssl
else:
    try:
        import ssl
    except ImportError:  # a Python that was built without OpenSSL
        ssl = None

HANDSHAKE_SECONDS: Final = 10.0
"""How long a client of a server may take for each handshake, of TLS and of WebSocket."""


def check_context(context: ssl.SSLContext | None) -> None:
    """Check the option `ssl`.

    Raises:
        TypeError: It is not an SSLContext.
    """
    if context is not None:
        check_type("ssl", context, ssl.SSLContext)


def is_certificate_fault(error: Exception) -> bool:
    """Return whether a connection has failed because the certificate of the peer is invalid."""
    return ssl is not None and isinstance(error, ssl.SSLCertVerificationError)


class TlsChannel(LayeredChannel):
    """A channel that encrypts what another one carries.

    On the client's side `server_hostname` is the name that the server's certificate must have; None on the server's.
    """

    socket: SocketChannel

    def __init__(self, socket: SocketChannel, context: ssl.SSLContext, server_hostname: str | None) -> None:
        super().__init__(socket)
        # Encrypted bytes may be thousands of one-byte records, each of which costs a call.
        socket.read_bytes = READ_BYTES
        self._context = context
        self._server_hostname = server_hostname
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._tls: ssl.SSLObject
        self._reads = False
        # OpenSSL may hold decrypted data that no event of the socket announces, so reading schedules its own turns.
        self._is_read_due = False
        self._unsent = bytearray()  # data that TLS does not take before it has read more
        # Whether each side has sent close_notify. Both directions end separately (RFC 8446, section 6.1).
        self._is_finishing = False
        self._has_received_end = False
        self._fault: Exception | None = None
        if server_hostname is None:  # a server: the client's first bytes may come before `open`
            self._begin()

    def _begin(self) -> None:
        """Begin with a new connection."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = self._server_hostname
        self._tls = self.socket.tls = self._context.wrap_bio(
            self._incoming, self._outgoing, server_side=name is None, server_hostname=name
        )
        self._fault = None
        self.handshake: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    # The methods of a channel.

    async def open(self, events: Events) -> None:
        if self._server_hostname is None:
            await super().open(events)
            return
        self.events = events
        self._begin()
        if not await self.shake_hands(self._continue_handshake):
            raise self._fault or ConnectionResetError("the peer closed the connection during the TLS handshake")

    def write(self, data: bytes) -> None:
        if self._unsent:
            self._unsent += data
        else:
            self._encrypt(memoryview(data))
        self._send()

    @property
    def unwritten(self) -> int:
        return super().unwritten + len(self._unsent)

    def set_reading(self, on: bool) -> None:
        self._reads = on
        self.socket.set_reading(on)
        if on and not self._is_read_due:
            self._is_read_due = True
            asyncio.get_running_loop().call_soon(self._read_soon)

    def finish(self) -> None:
        self._is_finishing = True
        if not self._unsent:
            self._send_end()
        if self._has_received_end:
            self.socket.close()
        else:
            self.set_reading(True)

    def abort(self) -> None:
        self.socket.abort()

    # The events of the socket.

    def _received(self, data: Any) -> None:
        if not data:
            self._incoming.write_eof()
            if self._is_open:
                self._end_received()
            else:
                self.socket.abort()
        elif not self._has_received_end:  # after the end nothing is read, so kept data would grow without bound
            self._incoming.write(data)
            if self._is_open:
                self._read()
            elif not self.handshake.done():
                self._continue_handshake()

    def _socket_lost(self, fault: Exception | None) -> None:
        fault = self._fault = self._fault or fault
        was_open = self._is_open
        if not self.handshake.done():
            self.handshake.set_result(False)
        # A client's channel that was not opened reports no loss: `open` raises.
        if was_open or self._server_hostname is None:
            self.events.lost(fault)
            self.socket_events.end()

    # The handshake.

    @property
    def _is_open(self) -> bool:
        """Whether the handshake is done."""
        return self.handshake.done() and not self.handshake.cancelled() and self.handshake.result()

    def _continue_handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
        except (ssl.SSLError, ssl.CertificateError) as fault:
            self._fault = fault
            self._send()  # the alert
            self.socket.close()
        else:
            self._send()
            self.handshake.set_result(True)
            self.set_reading(self._reads)

    def _send(self) -> None:
        if self._outgoing.pending:
            self.socket.write(self._outgoing.read())

    # Reading.

    def _read_soon(self) -> None:
        self._is_read_due = False
        if self._is_open:
            self._read()

    def _read(self) -> None:
        """Pass on what has arrived, until reading is paused."""
        try:
            while self._reads and not self._has_received_end and self._read_once():
                pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._end_received()
        except ssl.SSLError as fault:
            # After this side's close_notify OpenSSL may refuse to read more. Received data is dropped then anyway.
            if not self._is_finishing:
                self._fault = fault
                self._send()  # the alert
                self.socket.abort()
        if self._unsent:
            self._write_unsent()
        self._send()

    def _read_once(self) -> bool:
        """Pass on one chunk; return whether there may be more."""
        buffer = read_buffer()  # that of the socket: its bytes are in `_incoming` by now
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
            self.events.received(buffer[:filled])
        if ended is not None:
            try:
                raise ended
            finally:
                del ended  # its traceback refers to this frame
        return has_more

    def _end_received(self) -> None:
        """The peer sends nothing more."""
        if not self._has_received_end:
            self._has_received_end = True
            self.events.received(b"")
            if self._is_finishing:
                self.socket.close()

    # Writing. A write may have to wait for a read, as in a renegotiation of TLS 1.2.

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
            self.events.drained()
            if self._is_finishing:
                self._send_end()

    def _send_end(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # the peer's close_notify has not arrived, or its data comes first
            self._tls.unwrap()
        self._send()
