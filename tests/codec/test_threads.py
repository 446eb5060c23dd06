"""Threads that use the same decoders, messages and caches. `tests/isolated/threads.py` runs the same for longer."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType, ModuleType
from typing import Any

from ..isolated import threads
from ..support import needs
from ..support.tables import rows

pytestmark = needs.THREADS


@rows("max_items", [None, 1])
@rows("framing", threads.FRAMINGS)
def test_a_shared_decoder_returns_each_message_once(impl: ModuleType, framing: str, max_items: int | None) -> None:
    threads.share_a_decoder(impl, framing, max_items, 30)


@needs.CPYTHON
def test_a_thread_that_comes_while_the_framing_is_detected_closes_nothing(impl: ModuleType) -> None:
    """The other thread is in the middle of its message, in a collection, when this one begins to read."""
    decoder = impl.Decoder("auto")
    is_inside, may_end = threading.Event(), threading.Event()
    theirs: list[Any] = []
    text = b'{"jsonrpc":"2.0","id":2,"method":"m","params":[' + b"[[]]," * 200 + b"0]}\n"
    other = threading.Thread(target=lambda: theirs.extend(decoder.feed(text)), daemon=True)

    def collect(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and threading.current_thread() is other:
            is_inside.set()
            may_end.wait(10)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            gc.set_threshold(1)
            other.start()
            is_inside.wait(0.2)
        return trace if frame.f_code.co_name == "_settle" else None

    tracer, threshold = sys.gettrace(), gc.get_threshold()
    gc.callbacks.append(collect)
    sys.settrace(trace)
    try:
        ours = decoder.feed(b'{"jsonrpc":"2.0","id":1,"method":"m"}\n')
    finally:
        sys.settrace(tracer)
        gc.set_threshold(*threshold)
        may_end.set()
        gc.callbacks.remove(collect)
        other.join(10)
    assert [item.id for item in ours] == [1]
    assert [item.id for item in theirs] == [2]


@rows("framing", threads.FRAMINGS)
def test_torn_messages_do_no_harm(impl: ModuleType, framing: str) -> None:
    threads.tear_messages(impl, framing, 60, 1)


def test_messages_profiles_and_payloads_are_shared(impl: ModuleType) -> None:
    threads.share_messages(impl, 60)


def test_threads_change_what_others_write(impl: ModuleType) -> None:
    threads.change_payloads(impl, 60)
    threads.change_own_payloads(impl, 60)
