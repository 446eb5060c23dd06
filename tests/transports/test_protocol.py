"""The members that a transport inherits, and the error of `check_transport` for another object."""

from __future__ import annotations

import pytest

from jsonrpc_fast import JSONRPC, LENIENT, LSP
from jsonrpc_fast.transports import MemoryTransport, Transport, memory_pair
from jsonrpc_fast.transports.protocol import check_transport, is_strict_enough

DEFAULTS = {
    "onmessage": None,
    "onerror": None,
    "onclose": None,
    "onend": None,
    "onstop": None,
    "onfail": None,
    "onread": None,
    "onlate": None,
    "kept_bytes": None,
    "dropped_requests": 0,
    "pauses_when_blocked": True,
    "has_exchanges": False,
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


def test_the_defaults() -> None:
    transport = Minimal()
    assert {name: getattr(transport, name) for name in DEFAULTS} == DEFAULTS


def test_what_is_a_transport() -> None:
    for transport in (memory_pair()[0], Minimal()):
        check_transport(transport)
    for value, name in ((object(), "object"), (MemoryTransport, "type"), (None, "NoneType")):
        with pytest.raises(TypeError, match=f"^transport must be a Transport, not {name}$"):
            check_transport(value)


def test_a_transport_whose_rules_are_not_known_is_not_strict_enough() -> None:
    strict, _ = memory_pair(profile=LSP)
    found = [is_strict_enough(one, JSONRPC) for one in (Minimal(), strict, memory_pair(profile=LENIENT)[0])]
    assert found == [False, is_strict_enough(strict, JSONRPC), False]
    assert is_strict_enough(strict, LSP)
