"""TLS settings for a server on localhost and for its clients, with certificates made on the spot."""

from __future__ import annotations

import functools
import ssl
from typing import Any

import pytest


@functools.cache
def _authority() -> Any:
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
