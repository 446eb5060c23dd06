"""How many connections a server has, in total and from one host, and how many bytes they hold.

Rules:
  - A connection is counted from its acceptance until its socket is closed, including handshakes.
  - A host is an IPv4 address or the first 64 bits of an IPv6 address, which is what one subscriber gets.
    Connections of a Unix socket come from no host. With a proxy in front all connections come from one. By default one
    host has at most half of the connections, except this machine, where proxies run.
  - The bytes are those received but not delivered, those that a session keeps in its inbox and for its handlers, and
    those sent but not taken by the system. They are added up whenever a 16th of the maximum has been received and
    sent, so they can exceed it by no more than that. Connections that hold the most are dropped until the rest hold no
    more than the maximum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

from ...errors import ConnectionLost
from ...support import check_count
from ...types import Unset
from .transport import Meter, SocketTransport

CHECKS: Final = 16
"""How many times the bytes that connections hold are added up while the maximum is received and sent."""


class Admission(Meter):
    """The connections of one server.

    Args:
        connections: The accepted connections.
        max_connections: The maximum number of open connections.
        max_connections_per_host: The maximum number from one host; None: only `max_connections` applies. The default is
            half of it, for each host but the loopback addresses.
        max_buffered_bytes: The maximum number of bytes that all connections hold; None: no limit.

    Attributes:
        refused: How many connections were refused.
        dropped: How many connections were dropped because all held too many bytes.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
    """

    def __init__(
        self,
        connections: Collection[SocketTransport],
        max_connections: int,
        max_connections_per_host: int | Unset | None,
        max_buffered_bytes: int | None,
    ) -> None:
        check_count("max_connections", max_connections, 1, may_be_none=False)
        is_default = isinstance(max_connections_per_host, Unset)
        if isinstance(max_connections_per_host, Unset):
            max_connections_per_host = (max_connections + 1) // 2
        check_count("max_connections_per_host", max_connections_per_host, 1)
        check_count("max_buffered_bytes", max_buffered_bytes, 1)
        super().__init__()
        if max_buffered_bytes is not None:
            self.check_at: float = max_buffered_bytes / CHECKS
        self._connections = connections
        self._maximum = max_connections
        self._per_host = max_connections_per_host
        self._spares_loopback = is_default
        self._max_bytes = max_buffered_bytes
        self._entered: dict[asyncio.Transport, str] = {}  # the host of each open socket
        self._hosts: dict[str, int] = {}
        self._is_check_due = False
        self._dropped: set[SocketTransport] = set()  # dropped, but not closed yet
        self.refused: int = 0
        self.dropped: int = 0

    @property
    def open(self) -> int:
        """The number of open sockets."""
        return len(self._entered)

    def enter(self, transport: asyncio.Transport) -> bool:
        """Count a new socket. Return False if it has to be closed."""
        # A peer that has already gone has no address, and is counted only in total, like one of a Unix socket.
        host = host_of(transport.get_extra_info("peername"))
        there = self._hosts.get(host, 0)
        is_full = (
            bool(host)
            and self._per_host is not None
            and there >= self._per_host
            and not (self._spares_loopback and (host.startswith("127.") or host == "::"))
        )
        if is_full or len(self._entered) >= self._maximum:
            self.refused += 1
            return False
        self._entered[transport] = host
        self._hosts[host] = there + 1
        return True

    def leave(self, transport: asyncio.Transport) -> None:
        """Remove a closed socket from the count. One that did not enter is ignored."""
        host = self._entered.pop(transport, None)
        if host is not None:
            self._hosts[host] -= 1
            # A host without connections is forgotten: otherwise a client with a whole IPv6 network could fill the dict.
            if not self._hosts[host]:
                del self._hosts[host]

    def released(self, connection: SocketTransport) -> None:
        """Forget a connection that is closed."""
        self._dropped.discard(connection)

    def check_soon(self) -> None:
        """Call `check` soon, because no connection may be dropped inside the `write` of another."""
        if not self._is_check_due:
            self._is_check_due = True
            asyncio.get_running_loop().call_soon(self.check)

    def check(self) -> None:
        """Add up what the connections hold, and drop those that hold the most if that is too much."""
        self._is_check_due = False
        assert self._max_bytes is not None
        self.traffic = 0
        # Not before 256 bytes of traffic for each connection: adding up takes time.
        self.check_at = max(self._max_bytes / CHECKS, 256 * len(self._connections))
        # A dropped connection holds its bytes until asyncio reports the loss, in a later turn. Counting it again would
        # drop others in its place.
        held = [(one.held_bytes(), one) for one in self._connections if one not in self._dropped]
        total = sum(bytes_ for bytes_, _ in held)
        if total <= self._max_bytes:
            return
        # Sorted only by the bytes: connections cannot be compared, which would happen if two hold the same number.
        held.sort(key=lambda item: item[0], reverse=True)
        for bytes_, connection in held:
            if total <= self._max_bytes:
                break
            total -= bytes_
            self.dropped += 1
            self._dropped.add(connection)
            connection.abort(ConnectionLost("the connections of the server hold too many bytes"))


def host_of(address: Any) -> str:
    """Return the host of a peer's address in the format of the `socket` module; "" for a Unix socket."""
    if not isinstance(address, tuple):
        return ""
    host = str(address[0])
    if ":" not in host:
        return host
    import ipaddress  # here: most importers of sessions have no listening socket, and it takes over a millisecond

    parsed = ipaddress.IPv6Address(host)
    # A dual-stack socket reports IPv4 clients as ::ffff:a.b.c.d: by the first 64 bits, all of them would be one host.
    return str(parsed.ipv4_mapped or ipaddress.IPv6Address(int(parsed) >> 64 << 64))
