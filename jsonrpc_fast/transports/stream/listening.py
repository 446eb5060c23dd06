"""The sockets that servers listen on: bound here, given by the caller, or inherited from the process's parent.

Rules:
  - A server owns the socket that it is given, and closes it when it closes. The same socket in other processes stays
    open.
  - A server removes the path of a Unix socket that it has bound, unless another server has replaced it. The path of a
    given socket belongs to the program that has bound it.
  - No client can connect to a Unix socket before it has its mode.
  - When the process has no more descriptors, asyncio reports that once a second (twice since Python 3.14, which accepts
    one connection more than its backlog in a turn), and retries.
    uvloop reports nothing: libuv accepts the waiting connections with a descriptor in reserve, and closes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import sys
from collections.abc import Callable
from typing import Any

from ...support import check_type
from .transport import is_abstract

Factory = Callable[[], asyncio.BaseProtocol]


def inherited_sockets() -> list[socket.socket]:
    """Return the sockets that systemd, or a launcher that speaks its protocol, has opened for this process.

    The protocol is that of sd_listen_fds(3): LISTEN_FDS and LISTEN_PID in the environment, and descriptors from 3 on.
    The variables are removed, so that a second call and child processes find nothing.

    Returns:
        The sockets in the order of the units; [] if this process was given none.

    Raises:
        ValueError: LISTEN_FDS is not a number of descriptors.
        OSError: A descriptor is not a socket.
    """
    # LISTEN_PID: children inherit the variables of a parent that systemd has started, but not its sockets.
    count, pid = os.environ.pop("LISTEN_FDS", "0"), os.environ.pop("LISTEN_PID", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()):
        return []
    if not (count.isascii() and count.isdecimal()):
        raise ValueError("LISTEN_FDS must be a number of descriptors, 0 or more")
    # SD_LISTEN_FDS_START is 3.
    found = [socket.socket(fileno=3 + index) for index in range(int(count))]
    for inherited in found:
        inherited.set_inheritable(False)
    return found


def check_socket(sock: object, *, is_unix: bool = False) -> None:
    """Check a socket to listen on. Raises TypeError; ValueError if it is closed, connected, not bound, or of another
    kind."""
    check_type("sock", sock, socket.socket)
    assert isinstance(sock, socket.socket)
    if sock.fileno() < 0:
        raise ValueError("sock is closed")
    if sock.type != socket.SOCK_STREAM or (is_unix and not _is_unix(sock)):
        raise ValueError(f"sock must be a {'Unix' if is_unix else 'stream'} socket")
    with contextlib.suppress(OSError):
        sock.getpeername()
        raise ValueError("sock must listen, or be bound to an address: it is connected")
    if not _is_bound(sock):
        raise ValueError("sock must listen, or be bound to an address")


def _is_bound(sock: socket.socket) -> bool:
    """Return whether a socket has an address. If not, asyncio chooses a port, and uvloop fails in `start`."""
    try:
        address = sock.getsockname()
    except OSError:  # Windows
        return False
    return bool(address[1] if sock.family in (socket.AF_INET, socket.AF_INET6) else address)


def _is_unix(sock: socket.socket) -> bool:
    return sys.platform != "win32" and sock.family == socket.AF_UNIX


async def listen_on(loop: asyncio.AbstractEventLoop, factory: Factory, sock: socket.socket) -> asyncio.Server:
    """Listen on a bound socket, or keep listening. It is closed if that fails."""
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(sock.close)
        options: dict[str, Any] = {"backlog": _accepted_at_once(loop)}
        if not _is_unix(sock):
            server = await loop.create_server(factory, sock=sock, **options)
        else:
            if sys.version_info >= (3, 13):
                options["cleanup_socket"] = False  # or the loop removes the path
            try:
                listening = loop.create_unix_server(factory, sock=sock, **options)
            except TypeError:  # an earlier uvloop has no such option, and removes nothing
                if options.pop("cleanup_socket", None) is None:
                    raise
                listening = loop.create_unix_server(factory, sock=sock, **options)
            server = await listening
        _queue(server)
        on_failure.pop_all()
    return server


def _accepted_at_once(loop: asyncio.AbstractEventLoop) -> int:
    """Return the backlog to give to a loop. asyncio's own accept as many connections in a turn, and report a failure of
    accept(2), such as EMFILE, this many times a second, although their reason is the same."""
    return 1 if isinstance(loop, asyncio.SelectorEventLoop) else socket.SOMAXCONN


def _queue(server: asyncio.Server) -> None:
    """Let the kernel queue connections of a server that listens already."""
    for listening in server.sockets:
        with socket.socket(fileno=os.dup(listening.fileno())) as copy:  # asyncio hides `listen`
            copy.listen(socket.SOMAXCONN)


async def listen_on_port(
    loop: asyncio.AbstractEventLoop, factory: Factory, host: str | None, port: int
) -> asyncio.Server:
    """Listen on one port of all addresses of a host, or of the machine."""
    wanted, attempts = port, 10
    for attempt in range(attempts):
        try:
            server = await loop.create_server(factory, host, port, backlog=_accepted_at_once(loop), start_serving=False)
        except OSError:
            if port == wanted or attempt == attempts - 1:
                raise
            port = wanted  # the port is free only on the first address
            continue
        ports = {socket.getsockname()[1] for socket in server.sockets}
        if len(ports) == 1:
            break
        # Port 0 would give each address a different port.
        server.close()
        port = ports.pop()
    await server.start_serving()
    _queue(server)
    return server


def bind_path(path: str | bytes, mode: int | None) -> socket.socket:
    """Return a Unix socket bound to a path. It replaces a stale socket of another server.

    Raises:
        OSError: Another server listens there (EADDRINUSE), or the path cannot be used.
    """
    with contextlib.ExitStack() as on_failure:
        bound = on_failure.enter_context(socket.socket(socket.AF_UNIX))
        if not is_abstract(path):
            _remove_left(path)
        try:
            bound.bind(path)
        except OSError as error:
            if error.errno is not None:
                error.filename = os.fsdecode(path)  # the system does not say which path it means
            raise
        # Set between `bind` and `listen`: until it listens, the socket refuses clients.
        if mode is not None and not is_abstract(path):
            os.chmod(path, mode)
        on_failure.pop_all()
    return bound


def inode_of(path: str | bytes) -> int:
    """Return the inode number of a Unix socket's file; 0 if the path is not a socket."""
    with contextlib.suppress(OSError, ValueError):
        found = os.stat(path)
        if stat.S_ISSOCK(found.st_mode):
            return found.st_ino
    return 0


def _remove_left(path: str | bytes) -> None:
    """Remove the socket of a server that no longer runs. Raises OSError (EADDRINUSE) if a server listens on it."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # a server that does not accept would block
        try:
            probe.connect(path)
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if not inode_of(path):
                raise OSError(errno.EADDRINUSE, "the path exists and is no socket", os.fsdecode(path)) from None
            os.unlink(path)
            return
        except BlockingIOError:
            pass
        except OSError:
            return  # binding reports this
    raise OSError(errno.EADDRINUSE, "another server listens on this path", os.fsdecode(path))
