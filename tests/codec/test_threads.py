"""Threads that use the same decoders, messages and caches. `tests/isolated/threads.py` runs the same for longer."""

from __future__ import annotations

from types import ModuleType

from ..isolated import threads
from ..support.tables import rows


@rows("max_items", [None, 1])
@rows("framing", threads.FRAMINGS)
def test_a_shared_decoder_returns_each_message_once(impl: ModuleType, framing: str, max_items: int | None) -> None:
    threads.share_a_decoder(impl, framing, max_items, 60)


@rows("framing", threads.FRAMINGS)
def test_torn_messages_do_no_harm(impl: ModuleType, framing: str) -> None:
    threads.tear_messages(impl, framing, 60, 1)


def test_messages_profiles_and_payloads_are_shared(impl: ModuleType) -> None:
    threads.share_messages(impl, 60)
