"""What the sources of the core must not hold."""

from __future__ import annotations

import io
import re
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


def returns_of_handlers(source: str) -> list[int]:
    """Return the lines of the `return` statements inside `except` clauses."""
    found = []
    indents: list[int] = []  # of the `except` clauses around a line
    for number, line in enumerate(source.splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        while indents and indent <= indents[-1]:
            indents.pop()
        if re.match(r"except\b.*:", text):
            indents.append(indent)
        elif indents and re.match(r"return\b", text):
            found.append(number)
    return found


def test_no_handler_of_an_exception_returns() -> None:
    """Cython 3.3 drops the reference to a traceback there without a look: it is NULL where its allocation failed."""
    if not SOURCES:
        pytest.skip("the sources of the core are not there")
    assert {path.name: lines for path in SOURCES if (lines := returns_of_handlers(path.read_text()))} == {}


def test_what_counts_as_a_return_of_a_handler() -> None:
    assert returns_of_handlers("try:\n    f()\nexcept E:\n    if a:\n\n        return 1\nreturn 2\n") == [6]
    assert returns_of_handlers("try:\n    return f()\nexcept E:\n    pass\nreturn 1\n") == []
