"""The members that a transport inherits, and the error of `check_transport` for another object."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jsonrpc_fast import JSONRPC, LENIENT, LSP
from jsonrpc_fast.transports import MemoryTransport, Transport, memory_pair
from jsonrpc_fast.transports.protocol import check_transport, is_strict_enough, is_transport

DEFAULTS = {
    "onmessage": None,
    "onerror": None,
    "onclose": None,
    "onend": None,
    "onstop": None,
    "onfail": None,
    "onread": None,
    "kept_bytes": None,
    "dropped_requests": 0,
    "pauses_when_blocked": True,
    "has_exchanges": False,
    "respond": None,
    "profile": None,
    "responds_after_end": False,
    "responds_to_faults": True,
    "waits_for_peer": False,
    "peer": None,
    "received_chunks": None,
    "is_reading": True,
}
METHODS = ["connect", "start", "send", "drain", "pause_reading", "resume_reading", "close", "disconnect"]
STATE = ["is_connected", "write_buffer_bytes"]


class Minimal(Transport):
    """Defines what has no default."""

    is_connected = False
    write_buffer_bytes = 0

    async def connect(self) -> None: ...
    async def start(self) -> None: ...
    def send(self, message: object) -> None: ...
    async def drain(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    async def close(self) -> None: ...
    async def disconnect(self) -> None: ...


class Wrapper:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_the_defaults() -> None:
    transport = Minimal()
    assert {name: getattr(transport, name) for name in DEFAULTS} == DEFAULTS


def test_what_is_a_transport() -> None:
    one, _ = memory_pair()
    assert [is_transport(value) for value in (one, Minimal(), Wrapper(one), MemoryTransport, object(), None)] == [
        True,
        True,
        True,
        True,  # a class has the same names as its instances
        False,
        False,
    ]


def test_the_error_names_what_an_object_lacks() -> None:
    with pytest.raises(TypeError, match=r"^transport must be a Transport, not object$"):
        check_transport(object())
    value = SimpleNamespace(**DEFAULTS, **dict.fromkeys(METHODS), is_connected=True)
    with pytest.raises(
        TypeError, match=r"^transport must be a Transport, not SimpleNamespace, which lacks write_buffer"
    ):
        check_transport(value)
    value.write_buffer_bytes = 0
    check_transport(value)


def test_a_transport_whose_rules_are_not_known_is_not_strict_enough() -> None:
    strict, _ = memory_pair(profile=LSP)
    found = [is_strict_enough(one, JSONRPC) for one in (Minimal(), strict, memory_pair(profile=LENIENT)[0])]
    assert found == [False, is_strict_enough(strict, JSONRPC), False]
    assert is_strict_enough(strict, LSP)
