"""The options of transports are checked when they are given."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from jsonrpc_fast.transports import (
    StdioClient,
    StdioServer,
    TcpClient,
    TcpServer,
)

from ..support.transports import echo


@pytest.mark.parametrize("option", ["drain_seconds", "max_faults"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "1", True])
def test_options_of_all_transports(option: str, value: Any) -> None:
    for make in (partial(TcpServer, echo, "127.0.0.1", 0), partial(TcpClient, "127.0.0.1", 1), StdioServer):
        with pytest.raises((TypeError, ValueError), match=option):
            make(**{option: value})


@pytest.mark.parametrize("value", [None, 0, -1, 1.5, True, "1"])
def test_max_connections(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="max_connections"):
        TcpServer(echo, "127.0.0.1", 0, max_connections=value)


@pytest.mark.parametrize("option", ["exit_seconds", "terminate_seconds"])
@pytest.mark.parametrize("value", [None, -1, float("nan"), "1"])
def test_durations_of_a_child(option: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=option):
        StdioClient(["true"], **{option: value})
