"""How the time of matching a regular expression grows with the length of the text.

Rules:
  - A pattern without lookaround, backreferences and atomic groups is matched in linear time.
  - The others are matched by backtracking. The number of steps back is limited, but each step may read the whole text:
    the time grows with the square of the length, and by one more power for each level of nested lookaround.
  - Lookahead right after `^` is tried once, which is linear: `^(?!\\s*$).+`.
"""

from __future__ import annotations

import re
from typing import Final

_BACKTRACKS: Final = re.compile(r"\(\?(?:[=!>(]|<[=!]|P=)|\\[1-9gkGK]|[*+?}]\+")
# The groups contain no other group.
_FIRST_LOOKAHEADS: Final = re.compile(r"\^(?:\(\?[=!](?:[^()\\\[\]]|\\.|\[(?:[^\]\\]|\\.)*\])*\))*")
_TOKEN: Final = re.compile(r"\\.|\[(?:[^\]\\]|\\.)*(?:\]|\Z)|\(\?(?:[=!]|<[=!])|[()]", re.DOTALL)


def growth(pattern: str) -> int:
    """Return the power of the text's length with which the time grows, at most: 1 for linear, 2 for quadratic time."""
    first = _FIRST_LOOKAHEADS.match(pattern)
    if first is not None and "|" not in pattern[first.end() :]:  # each alternative may need a ^ of its own
        pattern = pattern[first.end() :]
    if _BACKTRACKS.search(pattern) is None:
        return 1
    groups: list[bool] = []  # whether each open group is a lookaround
    depth, deepest = 0, 1
    for token in _TOKEN.findall(pattern):
        if token[0] == "(":
            groups.append(len(token) > 1)
            depth += groups[-1]
            deepest = max(deepest, depth)
        elif token == ")" and groups:
            depth -= groups.pop()
    return 1 + deepest
