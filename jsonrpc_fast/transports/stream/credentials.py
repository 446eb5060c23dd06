"""Who is at the other end of a Unix socket."""

from __future__ import annotations

import socket
import struct
from typing import Any, Final, NamedTuple

_OPTION: Final[int | None] = getattr(socket, "SO_PEERCRED", None)  # Linux
_FORMAT: Final = struct.Struct("3i")


class PeerCredentials(NamedTuple):
    """The process at the other end of a Unix socket, when it connected or began to listen.

    Attributes:
        pid: Its id.
        uid: Its user.
        gid: Its group.
    """

    pid: int
    uid: int
    gid: int


def peer_credentials(channel: Any) -> PeerCredentials | None:
    """Return the credentials of the peer of a Unix socket, as the kernel vouches for them; None outside of Linux.

    Args:
        channel: An asyncio transport.
    """
    connected = channel.get_extra_info("socket")
    if _OPTION is None or connected is None:
        return None
    try:
        return PeerCredentials(*_FORMAT.unpack(connected.getsockopt(socket.SOL_SOCKET, _OPTION, _FORMAT.size)))
    except OSError:  # the socket is closed
        return None
