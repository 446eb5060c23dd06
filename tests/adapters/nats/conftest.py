"""A real `nats-server` for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jsonrpc_fast.adapters.nats import connection, service, subjects

from ...support.nats_server import NatsServer, nats_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as running:
        yield running


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that hangs is waited for no longer than a tenth of a second."""
    for module in (connection, service, subjects):
        monkeypatch.setattr(module, "CLOSE_SECONDS", 0.1)


@pytest.fixture
def stream_server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path, jetstream=True) as running:
        yield running
