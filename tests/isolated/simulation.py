"""Simulate conversations from seeds, and check the invariants of sessions after every event.

    python -m tests.isolated.simulation --conversations 1000000
    python -m tests.isolated.simulation --seed 7 --trace        # repeats one, with all its events
    python -m tests.isolated.simulation --sessions --seed 7     # repeats one of whole sessions

Most conversations are between two engines. One in twenty is between whole sessions, on a loop with a virtual clock. A
seed that fails is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from collections.abc import Iterable

from ..simulation.conversation import Conversation
from ..simulation.sessions import Talk
from ..support.clock import VirtualLoop

MAX_FAILURES = 20
CONVERSATIONS_PER_TALK = 20


def run_talk(talk: Talk) -> int:
    """Run two sessions to their end, and return the number of their calls."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(talk.run())
    finally:
        loop.close()
    return sum(talk.outcomes.values())


def run(seeds: Iterable[int], of_sessions: bool, shows_trace: bool) -> int:
    """Run a conversation of each seed, print a report, and return how many failed."""
    began = time.perf_counter()
    count = failures = events = 0
    for seed in seeds:
        count += 1
        conversation: Conversation | Talk
        conversation = Talk(seed) if of_sessions else Conversation(seed, shows_trace)
        error = ""
        try:
            events += run_talk(conversation) if isinstance(conversation, Talk) else conversation.run()
        except Exception:
            failures += 1
            level = " --sessions" if of_sessions else ""
            error = f"{traceback.format_exc()}python -m {__spec__.name}{level} --seed {seed} --trace\n"
        if shows_trace:
            print("\n".join(conversation.trace or ()))
        if error:
            print(error, end="", flush=True)
        if failures == MAX_FAILURES:
            break
    seconds = time.perf_counter() - began
    kind, unit = ("pairs of sessions", "calls") if of_sessions else ("conversations", "events")
    print(f"{count:,} {kind}, {events:,} {unit}, {failures} failures")
    print(f"{count / seconds:,.0f} {kind} and {events / seconds:,.0f} {unit} a second", flush=True)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--conversations", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="this seed alone")
    parser.add_argument("--sessions", action="store_true", help="with --seed: of whole sessions")
    parser.add_argument("--trace", action="store_true", help="print each event")
    options = parser.parse_args()
    logging.disable()  # connections that are cut are logged
    if options.seed is not None:
        return bool(run([options.seed], options.sessions, options.trace))
    first, count = options.first, options.conversations
    failures = run(range(first, first + count), False, options.trace)
    failures += run(range(first, first + count // CONVERSATIONS_PER_TALK), True, options.trace)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
