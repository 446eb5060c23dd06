"""What the sources of the core must not hold."""

from __future__ import annotations

import io
import tokenize

import pytest

from ..support.places import PACKAGE

SOURCES = sorted(path for kind in ("pyx", "pxd", "pxi") for path in (PACKAGE / "codec").rglob(f"*.{kind}"))


def comprehensions(source: str) -> list[int]:
    """Return the lines of the list comprehensions in a source of Cython."""
    found = []
    opened: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.OP and token.string in "([{":
            opened.append(token.string)
        elif token.type == tokenize.OP and token.string in ")]}" and opened:
            opened.pop()
        elif token.string == "for" and opened and opened[-1] == "[":
            found.append(token.start[0])
    return found


def test_there_is_no_list_comprehension() -> None:
    """Cython 3.3 frees an item of a list comprehension twice where the list cannot grow for lack of memory."""
    if not SOURCES:
        pytest.skip("the sources of the core are not there")
    assert {path.name: lines for path in SOURCES if (lines := comprehensions(path.read_text()))} == {}


def test_what_counts_as_a_list_comprehension() -> None:
    assert comprehensions("x = [f(a)\n    for a in b if [1]]\n") == [2]
    assert comprehensions("for i in [1]:\n    f((a for a in b), {a: 1 for a in b})\n") == []
