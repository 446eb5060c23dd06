"""Helpers for the tests of `Peer`: receive a line, and get the only event that it causes."""

from __future__ import annotations

from jsonrpc_fast.session.events import InboundRequest, PeerEvent, PeerFault
from jsonrpc_fast.session.peer import Peer


def receive(peer: Peer, text: bytes, now: float = 0.0) -> list[PeerEvent]:
    return peer.receive_bytes(text + b"\n", now)


def request_from(events: list[PeerEvent]) -> InboundRequest:
    [event] = events
    assert isinstance(event, InboundRequest)
    return event


def fault_from(events: list[PeerEvent]) -> PeerFault:
    [event] = events
    assert isinstance(event, PeerFault)
    return event
