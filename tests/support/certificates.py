"""TLS settings for a server on localhost and for its clients. The certificates are made for each test run."""

from __future__ import annotations

import functools
import ssl
from pathlib import Path
from typing import Any


@functools.cache
def _authority() -> Any:
    import pytest  # programs that use `contexts_of` start without it

    return pytest.importorskip("trustme", reason="trustme is not installed").CA()


def new_client_context() -> ssl.SSLContext:
    """Return the settings of a client that trusts the servers of `contexts`."""
    context = ssl.create_default_context()
    _authority().configure_trust(context)
    return context


@functools.cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the settings of a server and of a client that trusts it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _authority().issue_cert("localhost", "127.0.0.1").configure_cert(server)
    return server, new_client_context()


def write_certificates(folder: Path) -> None:
    """Write the files that `contexts_of` reads, for tests with several processes."""
    _authority().cert_pem.write_to_path(str(folder / "authority.pem"))
    _authority().issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(folder / "server.pem")
    )


def contexts_of(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the same settings as `contexts`, from the files in a folder."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem")
    return server, ssl.create_default_context(cafile=str(folder / "authority.pem"))
