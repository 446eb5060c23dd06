"""Find forbidden things in sources: sleeps in tests, clocks read at import, private names used across modules."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from .places import PACKAGE, TESTS

OF_OTHERS: Final = {
    ("adapters/nats/connection.py", "_transport"),
    ("adapters/nats/service.py", "_closed"),
    ("codec/rules.py", "_fields"),
    ("session/session.py", "_fields"),
}
"""Private names of other libraries that modules of the package use, by module."""
NOT_REAL: Final = {"slow", "virtual_time"}
"""The marks of tests whose sleeps are allowed: they do not run by default, or move the clock of a loop."""
SLEEP: Final = re.compile(r"\bsleep\(")
CLOCK: Final = re.compile(r"\b(time\.(time|monotonic)(_ns)?|(now|utcnow|today)|free_port)\(")
SLEEPS: Final = {"asyncio.sleep", "anyio.sleep", "time.sleep"}
VIRTUAL: Final = ("simulation",)
"""Folders where all time is virtual."""
PROGRAMS: Final = ("isolated", "fuzz", "peers/adapters", "peers/conformance")
"""Folders of programs that run for minutes, by hand and every night, so they may sleep."""
OF_SLOW_TESTS: Final = ("peers/aiorpcx_server.py", "peers/sample_server.py")
"""Programs that only slow tests start, so they may sleep."""
POLLING: Final = ("support/waiting.py", "support/clock.py", "support/asgi_servers.py")
"""The modules that poll a condition every millisecond, sleep in virtual time, or let a server do so."""


def sources(pattern: re.Pattern[str]) -> Iterator[tuple[str, ast.Module]]:
    """Yield the name, relative to the tests, and the syntax tree of each source in which the pattern occurs."""
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS).as_posix()
        if "/." in name:  # environments of peers
            continue
        text = path.read_text(encoding="utf-8")
        if pattern.search(text):
            yield name, _tree(text)


@functools.cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def early_clocks() -> Iterator[str]:
    """Yield `file:line` for each clock that is read and each port that is taken when a module is imported.

    The tests of the module may run minutes later.
    """
    for name, tree in sources(CLOCK):
        if not name.startswith(PROGRAMS):
            yield from (f"{name}:{line}" for line in _early(tree))


def _early(node: ast.AST) -> Iterator[int]:
    if isinstance(node, ast.Call) and CLOCK.search(f"{ast.unparse(node.func)}("):
        yield node.lineno
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        children: Iterable[ast.AST] = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    elif isinstance(node, ast.Lambda) or _is_main(node):
        return
    else:
        children = ast.iter_child_nodes(node)
    for child in children:
        yield from _early(child)


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def real_sleeps() -> Iterator[str]:
    """Yield `file:line` for each `asyncio.sleep` or `time.sleep` that takes real time."""
    for name, tree in sources(SLEEP):
        if not name.startswith(PROGRAMS + OF_SLOW_TESTS + POLLING + VIRTUAL) and not _marks_of(tree) & NOT_REAL:
            yield from (f"{name}:{line}" for line in _sleeps(tree))


def _sleeps(node: ast.AST) -> Iterator[int]:
    decorators = [ast.unparse(decorator) for decorator in getattr(node, "decorator_list", ())]
    if any(mark in decorator for decorator in decorators for mark in NOT_REAL):
        return
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "sleep" and ast.unparse(node.func) in SLEEPS:
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


def private_uses_in_package() -> Iterator[str]:
    """Yield `file name` for each private name that a module of the package uses and only other modules define.

    `OF_OTHERS` lists private names of other libraries that the package happens to define, too.
    """
    trees = {path.relative_to(PACKAGE).as_posix(): _tree(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
    defined = {name: set(_definitions(tree)) for name, tree in trees.items()}
    known = set().union(*defined.values())
    for name, tree in sorted(trees.items()):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                used = [] if _is_own(node.value) else [node.attr]
            elif isinstance(node, ast.ImportFrom):
                used = [alias.name for alias in node.names]
            else:
                continue
            for each in used:
                if each in known and each not in defined[name] and (name, each) not in OF_OTHERS:
                    yield f"{name} {each}"


def _is_own(value: ast.expr) -> bool:
    return ast.unparse(value) in ("self", "cls", "super()")


def _definitions(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            names = [getattr(part, "id", None) or getattr(part, "attr", "") for part in parts]
        else:
            continue
        yield from (name for name in names if name.startswith("_") and not name.startswith("__") and name != "_")
