"""Simulate conversations from seeds, and check the invariants of sessions after every event.

    python -m tests.isolated.simulation --conversations 1000000
    python -m tests.isolated.simulation --seed 7 --trace        # one again, with all its events

A seed that fails is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from ..simulation.conversation import Conversation

MAX_FAILURES = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--conversations", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="this seed alone")
    parser.add_argument("--trace", action="store_true", help="print each event")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.conversations)
    if options.seed is not None:
        seeds = range(options.seed, options.seed + 1)
    began = time.perf_counter()
    failures = events = 0
    for seed in seeds:
        conversation = Conversation(seed, options.trace)
        try:
            events += conversation.run()
        except Exception:
            failures += 1
            trace = "".join(f"{line}\n" for line in conversation.world.trace or ())
            print(f"{trace}{traceback.format_exc()}python -m {__spec__.name} --seed {seed} --trace", flush=True)
            if failures == MAX_FAILURES:
                break
        else:
            if options.trace:
                print("\n".join(conversation.world.trace or ()))
    seconds = time.perf_counter() - began
    print(f"{len(seeds):,} conversations, {events:,} events, {failures} failures")
    print(f"{len(seeds) / seconds:,.0f} conversations and {events / seconds:,.0f} events a second")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
