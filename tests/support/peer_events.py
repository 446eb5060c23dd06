"""What the tests of `Peer` share: a line in, and the one event that it has to bring."""

from __future__ import annotations

from jsonrpc_fast.session.events import Event, Fault, InboundRequest
from jsonrpc_fast.session.peer import Peer


def receive(peer: Peer, text: bytes, now: float = 0.0) -> list[Event]:
    return peer.receive_bytes(text + b"\n", now)


def request_from(events: list[Event]) -> InboundRequest:
    [event] = events
    assert isinstance(event, InboundRequest)
    return event


def fault_from(events: list[Event]) -> Fault:
    [event] = events
    assert isinstance(event, Fault)
    return event
