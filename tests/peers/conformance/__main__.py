"""Prints what the conformance suite finds, for both of its releases, all revisions and both sides.

python -m tests.peers.conformance [server] [client]
"""

from __future__ import annotations

import sys

import pytest

from .suites import Side, everything, is_unfit, summary, table


def main(arguments: list[str]) -> int:
    """Return 0 if all scenarios pass or cannot pass, 1 if one fails, 2 if the suite cannot run."""
    sides: tuple[Side, ...] = tuple(side for side in ("server", "client") if side in arguments or not arguments)
    if set(arguments) - {"server", "client"}:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        results = everything(sides)
    except pytest.skip.Exception as reason:
        print(reason, file=sys.stderr)
        return 2
    print(table(results))
    print(f"\n{summary(results)}")
    return 1 if any(result.outcome == "FAIL" and not is_unfit(result) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
