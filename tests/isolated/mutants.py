"""Mutation testing of the code that implements the rules: how many small faults, one at a time, the tests find.

python tests/isolated/mutants.py --count 25 --out build/mutants.json
python tests/isolated/mutants.py --same-as build/mutants.json    # the same mutants again, after a change

Rules:
- The bodies of functions are mutated, not their annotations and defaults.
- A mutant has a key: its part, file, function, operator and line of code, and the place in the line. The sample is the
  `count` keys of each part with the lowest hash, so changes to other lines do not change it.
- Each mutant runs only with the tests of its part, those of the codec on the pure backend. It is killed if a test fails
  or takes too long. What a test does in another Python process is not mutated.
- The tests of a part are collected once. For each mutant the process forks, and the child replaces the code of the
  function by that of the mutated one. No file is written.
- With `--same-as`, a mutant whose line is no longer there is reported as lost, and is counted on neither side.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import inspect
import itertools
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from _pytest.main import pytest_runtestloop

ROOT: Final = Path(__file__).resolve().parents[2]
SIMULATED: Final = ("engine", "inbound", "calls", "requests")
PARTS: Final = {
    "codec": (
        [f"jsonrpc_fast/codec/{name}.py" for name in ("rules", "_kinds", "_messages", "_pure", "_pure_fast")],
        ["--pure-only", "tests/codec"],
    ),
    "framing": (["jsonrpc_fast/framing"], ["tests/framing"]),
    "handlers": (["jsonrpc_fast/handlers"], ["tests/handlers", "-k", "not uvloop and not debug"]),
    "engine": (
        [f"jsonrpc_fast/session/{name}.py" for name in ("engine", "calls", "requests", "inbound")],
        ["tests/session", "-k", "not random_events and not joined and not uvloop and not debug"],
    ),
    "simulation": ([f"jsonrpc_fast/session/{name}.py" for name in SIMULATED], ["tests/simulation", "-k", "invariants"]),
    "calls": (["jsonrpc_fast/session/calls.py"], ["tests/session/test_calls.py"]),
    "mcp": (["jsonrpc_fast/mcp/protocol"], ["tests/mcp/protocol"]),
    "mcp_http": (["jsonrpc_fast/mcp/http"], ["tests/mcp/http"]),
    "mcp_server": (["jsonrpc_fast/mcp/server"], ["tests/mcp/server"]),
    "gateway": (["jsonrpc_fast/mcp/gateway"], ["tests/mcp/gateway"]),
    "http": (["jsonrpc_fast/http"], ["tests/http"]),
    "transports": (["jsonrpc_fast/transports"], ["tests/transports"]),
    "cli": (["jsonrpc_fast/cli"], ["tests/cli"]),
}
"""The sources of each part, and the arguments of pytest for its tests."""
PAIRS: Final = (
    *((ast.Add, ast.Sub), (ast.BitOr, ast.BitAnd), (ast.And, ast.Or), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)),
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Break, ast.Continue)),
)
"""Operators and statements that stand for each other."""
INSTEAD: Final = (
    *PAIRS,
    *((new, old) for old, new in PAIRS),
    (ast.Lt, ast.GtE),
    (ast.Gt, ast.LtE),
    (ast.USub, ast.UAdd),
)
NOT_RUN: Final = ("annotation", "returns", "decorator_list", "type_params")
OPTIONS: Final = (
    *("-q", "-x", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=120"),
    *("--ci", "--any-cost"),
)
MIN_SECONDS: Final = 20.0
MAX_SECONDS: Final = 1200.0
FORK: Final = multiprocessing.get_context("fork")


def others_of(node: ast.AST) -> list[type[Any]]:
    return [new for old, new in INSTEAD if isinstance(node, old)]


Change = tuple[str, ast.AST, Callable[[], object]]
"""An operator, the node that it changes, and the change, which is made in the tree."""


def changes_of(node: ast.AST) -> Iterator[Change]:
    """Yield what may be changed at a node, but not below it."""
    if isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp):
        yield "AddNot", node, lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.For | ast.AsyncFor):
        yield "NoItems", node, lambda: setattr(node, "iter", ast.Tuple([], ast.Load()))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "DeleteNot", node, lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"Not{node.value}", node, lambda: setattr(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        for number in (node.value + 1, node.value - 1):
            yield "Number", node, partial(setattr, node, "value", number)
    elif isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for new in others_of(operator):
                yield f"{type(operator).__name__}_{new.__name__}", node, partial(node.ops.__setitem__, place, new())
    elif isinstance(node, ast.Break | ast.Continue):
        yield type(node).__name__, node, partial(setattr, node, "__class__", *others_of(node))
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp):
        for new in others_of(node.op):  # not changed itself: the nodes of a tree share their operators
            yield f"{type(node.op).__name__}_{new.__name__}", node, partial(setattr, node, "op", new())


def changes(node: ast.AST) -> Iterator[Change]:
    """Yield all changes at a node and below it."""
    yield from changes_of(node)
    for name, value in ast.iter_fields(node):
        if name not in NOT_RUN:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.arguments):
                    yield from changes(child)


def functions(node: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Yield the statements of all functions and methods, each with the name of its function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from ((outer + child.name, statement) for statement in child.body)
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            yield from functions(child, f"{outer}{child.name}." if isinstance(child, ast.ClassDef) else outer)


def changes_of_file(tree: ast.Module) -> Iterator[tuple[str, Change]]:
    for function, statement in functions(tree):
        yield from ((function, change) for change in changes(statement))


class Mutant(NamedTuple):
    """A fault that can be put into a file."""

    part: str
    path: str
    function: str
    operator: str
    line: str
    place: int
    """The place in the line, among those that the operator changes."""
    occurrence: int
    """The place in the file, among all changes."""

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(self[:-1])

    @property
    def rank(self) -> str:
        return hashlib.sha256("\0".join(map(str, self.key[1:])).encode()).hexdigest()

    def apply(self) -> None:
        """Replace the code of the function that the mutant is in."""
        tree = ast.parse((ROOT / self.path).read_text(encoding="utf-8"))
        _, (_, _, change) = next(itertools.islice(changes_of_file(tree), self.occurrence, None))
        change()
        code: Any = compile(ast.fix_missing_locations(tree), str(ROOT / self.path), "exec", dont_inherit=True)
        found: Any = importlib.import_module(self.path.removesuffix(".py").replace("/", "."))
        for name in self.function.split("."):
            [code] = [const for const in code.co_consts if getattr(const, "co_name", None) == name][-1:]
            found = inspect.getattr_static(found, name)
            for part in ("fget", "func", "__func__", "__wrapped__"):
                found = getattr(found, part, found) if not isinstance(found, type) else found
        found.__code__ = code


def mutants_of(part: str) -> Iterator[Mutant]:
    """Find all mutants of a part."""
    places = [ROOT / place for place in PARTS[part][0]]
    for file in itertools.chain(*[sorted(place.rglob("*.py")) if place.is_dir() else [place] for place in places]):
        source, in_line = file.read_text(encoding="utf-8"), Counter[tuple[str, int]]()
        for occurrence, (function, (operator, node, _)) in enumerate(changes_of_file(ast.parse(source))):
            number = node.lineno  # type: ignore[attr-defined]
            line = source.split("\n")[number - 1].strip()
            path = file.relative_to(ROOT).as_posix()
            yield Mutant(part, path, function, operator, line, in_line[operator, number], occurrence)
            in_line[operator, number] += 1


class Session:
    """A pytest plugin: instead of once, the collected tests run in a child for each mutant.

    Args:
        mutants: The mutants.
        tell: Called with the outcome of each.
    """

    def __init__(self, mutants: list[Mutant], tell: Callable[[tuple[Mutant, str]], object]) -> None:
        self._mutants = mutants
        self._tell = tell

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        from hypothesis import settings  # pytest rewrites its assertions

        settings.register_profile("mutants", settings.default, max_examples=30, derandomize=True, database=None)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        began = time.monotonic()
        if self._outcome(session, None, MAX_SECONDS) != "survived":
            raise RuntimeError("the tests fail without a fault")
        seconds = max(MIN_SECONDS, 3 * (time.monotonic() - began))
        for mutant in self._mutants:
            self._tell((mutant, self._outcome(session, mutant, seconds)))
        return True

    def _outcome(self, session: pytest.Session, mutant: Mutant | None, seconds: float) -> str:
        child = FORK.Process(target=self._run, args=(session, mutant))
        child.start()
        child.join(seconds)
        if child.exitcode is not None:
            return {0: "survived", 3: "not applied"}.get(child.exitcode, "killed")
        assert child.pid is not None
        os.killpg(child.pid, signal.SIGKILL)
        child.join()
        return "killed by the time limit"

    def _run(self, session: pytest.Session, mutant: Mutant | None) -> None:
        status = 3
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            if mutant is not None:
                mutant.apply()
            status = 1
            pytest_runtestloop(session)
            status = int(session.testsfailed > 0)
        finally:
            os._exit(status)  # threads of the tests may still run


def run_part(part: str, mutants: list[Mutant], tell: Callable[[Mutant, str], None]) -> None:
    """Run the tests of a part on its mutants, in a child that has not imported the package yet."""
    reader, writer = FORK.Pipe(duplex=False)

    def collect() -> None:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        reader.close()
        sys.exit(pytest.main([*OPTIONS, *PARTS[part][1]], plugins=[Session(mutants, writer.send)]))

    with tempfile.TemporaryFile() as log:
        child = FORK.Process(target=collect)
        child.start()
        writer.close()
        while reader.poll(None):
            try:
                tell(*reader.recv())
            except EOFError:
                break
        child.join()
        if child.exitcode:
            log.seek(0)
            raise RuntimeError(f"the tests of {part} do not run:\n{log.read().decode(errors='replace')[-5000:]}")


def line_of(row: Any) -> tuple[Any, ...]:
    """Return what is left of a key when its line moves to another file or function."""
    key = tuple(row[name] for name in Mutant._fields[:-1]) if isinstance(row, dict) else row.key
    return key[0], *key[3:]


def same(mutants: Iterable[Mutant], earlier: list[dict[str, Any]]) -> tuple[list[Mutant], list[dict[str, Any]]]:
    """Return the mutants of an earlier run that still exist, and those that are lost."""
    by_line: dict[tuple[Any, ...], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_line[line_of(mutant)].append(mutant)
    found, lost = [], []
    for row in earlier:
        moved = by_line[line_of(row)]
        stayed = [each for each in moved if (each.path, each.function) == (row["path"], row["function"])]
        if stayed or len({each.path + each.function for each in moved}) == 1:
            found.append((stayed or moved)[0])
        else:
            lost.append(row)
    return found, lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=25, help="how many of each part (default: %(default)s)")
    parser.add_argument("--same-as", type=Path, help="the file of an earlier run, whose mutants are taken")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants.json", help="the file of the outcomes")
    parser.add_argument("--part", choices=PARTS, action="append", help="some parts alone")
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    earlier = json.loads(options.same_as.read_text())["mutants"] if options.same_as else []
    rows: list[dict[str, Any]] = []
    all_lost: list[dict[str, Any]] = []

    def tell(mutant: Mutant, outcome: str) -> None:
        row = mutant._asdict() | {"outcome": outcome}
        del row["occurrence"]
        rows.append(row)
        if not outcome.startswith("killed"):
            print(f"{outcome}: {mutant.path} {mutant.function}: {mutant.operator}: {mutant.line}", flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"mutants": rows, "lost": all_lost}, indent=1) + "\n")

    for part in options.part or PARTS:
        found = {mutant.key: mutant for mutant in reversed(list(mutants_of(part)))}.values()
        chosen = sorted(found, key=lambda mutant: mutant.rank)[: options.count]
        if options.same_as:
            chosen, lost = same(found, [row for row in earlier if row["part"] == part])
            all_lost += lost
        print(f"{part}: {len(chosen)} mutants", flush=True)
        run_part(part, chosen, tell)
    report(rows, all_lost, earlier)
    return 0


def report(rows: list[dict[str, Any]], lost: list[dict[str, Any]], earlier: list[dict[str, Any]]) -> None:
    """Print the proportions of killed mutants."""
    killed, total = Counter[str](), Counter[str]()
    for row in rows:
        for part in (row["part"], "all"):
            total[part] += 1
            killed[part] += row["outcome"].startswith("killed")
    for part in total:
        print(f"{part}: {killed[part]} of {total[part]} mutants killed, {killed[part] / total[part]:.1%}")
    if earlier:
        outcomes = {line_of(row): row["outcome"] for row in rows}
        before = [row for row in earlier if line_of(row) in outcomes]
        count = sum(row["outcome"].startswith("killed") for row in before)
        print(f"the same mutants before: {count} of {len(before)} killed; {len(lost)} others are lost with their lines")
        for row in before:
            if row["outcome"].startswith("killed") and outcomes[line_of(row)] == "survived":
                print(f"was killed before: {row['path']} {row['function']}: {row['operator']}: {row['line']}")


if __name__ == "__main__":
    sys.exit(main())
