"""Counts of what the tests are to have less of, found in their sources: waits in real time, and private uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from .places import TESTS

NOT_REAL: Final = {"slow", "virtual_time"}
"""The marks of tests whose waits do not count: they are left out, or turn the clock of a loop."""
PROGRAMS: Final = ("isolated", "fuzz", "peers/adapters", "peers/conformance")
"""Folders of what no test waits for: programs that run for minutes by hand, and every night."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Yield the name, relative to the folder of the tests, and the tree of each source."""
    for path in sorted(TESTS.rglob("*.py")):
        yield path.relative_to(TESTS).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def real_sleeps() -> Iterator[str]:
    """Yield the place of each `asyncio.sleep` or `time.sleep` that takes real time: `file:line`."""
    for name, tree in sources():
        if not name.startswith(PROGRAMS) and not _marks_of(tree) & NOT_REAL:
            yield from (f"{name}:{line}" for line in _sleeps(tree))


def _sleeps(node: ast.AST) -> Iterator[int]:
    decorators = [ast.unparse(decorator) for decorator in getattr(node, "decorator_list", ())]
    if any(mark in decorator for decorator in decorators for mark in NOT_REAL):
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func) in {"asyncio.sleep", "anyio.sleep", "time.sleep"}:
        seconds = node.args[0]
        if not (isinstance(seconds, ast.Constant) and seconds.value == 0):
            yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _sleeps(child)


def _marks_of(tree: ast.Module) -> set[str]:
    """Return the marks that a module gives all its tests."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
            return {node.attr for node in ast.walk(statement.value) if isinstance(node, ast.Attribute)}
    return set()
