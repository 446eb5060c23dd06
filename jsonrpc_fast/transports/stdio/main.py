"""Run a server on stdin and stdout until it ends, and end the process with the right exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ...errors import ConnectionLost
from ..base import OVERDUE_SECONDS, SERVE_SECONDS, Options, State
from ..options import check_seconds
from .server import StdioServer
from .takeover import fill_closed_descriptors

if TYPE_CHECKING:
    from typing_extensions import Unpack


def run_stdio(
    serve: Callable[[StdioServer], Coroutine[Any, Any, object]],
    *,
    on_signal: Callable[[], object] | None = None,
    grace_seconds: float | None = 5.0,
    **options: Unpack[Options],
) -> int:
    """Runs a server on this process's stdin and stdout until its client or a signal ends it: a program's `main`.

    Args:
        serve: Called with a `StdioServer`: it sets the callbacks and starts it. It may return then, or go on: it is
            cancelled soon after the channel is closed.
        on_signal: Called at the first signal. What is sent by then, or by what it wakes at once, is still written.
        grace_seconds: How long what is being worked on may take after a signal, in seconds; None: as long as it takes.
            A session's handlers finish within it; without a session it is what `onstop` of the transport is given.
        options: Those of `ByteTransport`.

    Returns:
        The exit code, 0 or 1 (see the rules of this module). After a signal it does not return.

    Raises:
        Exception: What `serve` raises.
        TypeError, ValueError: An option is wrong.
    """
    check_seconds("grace_seconds", grace_seconds)
    received: list[signal.Signals] = []

    async def main() -> int:
        loop = asyncio.get_running_loop()
        transport = StdioServer(**options)
        transport._restores_streams = False

        def end(number: signal.Signals) -> None:
            received.append(number)
            if len(received) > 1:
                closing.append(loop.create_task(transport.disconnect()))
                return
            if on_signal is not None:
                on_signal()
            # After what `on_signal` wakes.
            loop.call_soon(transport._ask_to_end, grace_seconds, transport._drain_seconds)
            if grace_seconds is not None:
                # Who is asked may need a moment more to count what it cuts off.
                overdue.append(
                    loop.call_later(grace_seconds + OVERDUE_SECONDS, transport._begin_closing, transport._drain_seconds)
                )

        closing: list[asyncio.Task[None]] = []
        overdue: list[asyncio.TimerHandle] = []
        numbers = (signal.SIGINT, signal.SIGTERM)
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C is a KeyboardInterrupt
            for number in numbers:
                loop.add_signal_handler(number, end, number)
        serving = loop.create_task(serve(transport))
        closed = loop.create_task(transport.wait_closed())
        await asyncio.wait([serving, closed], return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            # The channel is closed, which `serve` may see for itself.
            await asyncio.wait([serving], timeout=SERVE_SECONDS)
            serving.cancel()
        try:
            await serving
        except asyncio.CancelledError:
            pass
        except Exception as error:
            has_no_streams = isinstance(error, ConnectionLost) and transport._state is State.IDLE
            await transport.disconnect()
            if not has_no_streams and not received:
                raise
            if has_no_streams and sys.stderr is not None:
                print(error, file=sys.stderr)
            return 1
        if transport._state is State.IDLE:  # `serve` had no use for it
            await transport.close()
        await closed
        await asyncio.gather(*closing)
        for timer in overdue:
            timer.cancel()
        cut_off = _what_was_cut_off(transport)
        if cut_off and sys.stderr is not None:
            print(cut_off, file=sys.stderr)
        return 1 if cut_off or transport._fault is not None else 0

    fill_closed_descriptors()
    try:
        code = asyncio.run(main())
    except KeyboardInterrupt:  # where the loop handles no signals
        return 130
    if received:
        signal.signal(received[0], signal.SIG_DFL)
        os.kill(os.getpid(), received[0])
    return code


def _what_was_cut_off(transport: StdioServer) -> str:
    """For people; "" for nothing."""
    if transport.unanswered:
        return f"requests that were not answered, because the server ended: {transport.unanswered}"
    if transport._cut_off_bytes:
        return f"bytes that the client did not take in time: {transport._cut_off_bytes}"
    return ""
