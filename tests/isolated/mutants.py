"""Mutation testing of the code that implements the rules: how many small faults, one at a time, the tests find.

python tests/isolated/mutants.py --count 25 --out build/mutants.json
python tests/isolated/mutants.py --same-as build/mutants.json    # the same mutants again, after a change
python tests/isolated/mutants.py --root ../other                 # in the sources of another working tree

Rules:
- The operators are those of cosmic-ray. The bodies of functions are mutated, not their annotations and defaults.
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
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.main import pytest_runtestloop
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

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
OPERATORS: Final = (
    "AddNot",
    "NumberReplacer",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_USub",
    "ZeroIterationForLoop",
    *[f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "BitOr_BitAnd", "BitAnd_BitOr")],
    *[f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")],
    *[f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_GtE", "Gt_LtE")],
)
OPTIONS: Final = (
    "-q",
    "-x",
    "--no-header",
    "--tb=short",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--timeout=120",
    "--ci",
    "--any-cost",
)
Place = tuple[int, int]
"""A line and a column."""
MIN_SECONDS: Final = 20.0
MAX_SECONDS: Final = 1200.0


@dataclass(frozen=True)
class Mutant:
    """A fault that can be put into a file."""

    part: str
    path: str
    function: str
    operator: str
    line: str
    place: int
    """The place in the line, among those that the operator changes."""
    occurrence: int
    """The place in the file, among those that the operator changes."""

    @property
    def key(self) -> tuple[str, ...]:
        return self.part, self.path, self.function, self.operator, self.line, str(self.place)

    @property
    def rank(self) -> str:
        return hashlib.sha256("\0".join(self.key[1:]).encode()).hexdigest()


def mutants_of(part: str, root: Path, path: Path) -> Iterator[Mutant]:
    """Find all mutants of a file."""
    source = path.read_text(encoding="utf-8")
    lines = source.split("\n")
    functions, left_out, annotations = _places(source)
    nodes = list(ast_nodes(get_ast(source)))
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        in_line = Counter[int]()
        positions = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (line, column) in enumerate(positions):
            if line not in left_out and not any(first <= (line, column) < last for first, last in annotations):
                text = lines[line - 1].strip()
                place = path.relative_to(root).as_posix()
                if line in functions:
                    yield Mutant(part, place, functions[line], name, text, in_line[line], occurrence)
            in_line[line] += 1


def _places(source: str) -> tuple[dict[int, str], set[int], list[tuple[Place, Place]]]:
    """Return the function that each line is in, the lines that have no mutants, and the annotations of values."""
    functions: dict[int, str] = {}
    left_out: set[int] = set()
    annotations: list[tuple[Place, Place]] = []

    def cover(node: ast.AST | None) -> None:
        if node is not None and hasattr(node, "lineno"):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}".lstrip(".")
                for line in range(child.lineno, (child.end_lineno or child.lineno) + 1):
                    functions[line] = inner
                    if isinstance(child, ast.ClassDef):
                        del functions[line]
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                cover(child.returns)
                for other in (*child.decorator_list, *child.args.defaults, *child.args.kw_defaults):
                    cover(other)
            if isinstance(child, ast.arg | ast.AnnAssign) and not getattr(child, "value", None):
                cover(child)
            elif isinstance(child, ast.AnnAssign):
                kind = child.annotation
                end = kind.end_lineno or kind.lineno, kind.end_col_offset or kind.col_offset
                annotations.append(((kind.lineno, kind.col_offset), end))
            if isinstance(child, ast.Import | ast.ImportFrom):
                cover(child)
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                cover(child)
            visit(child, inner)

    visit(ast.parse(source), "")
    return functions, left_out, annotations


def all_mutants(root: Path, parts: Iterable[str]) -> Iterator[Mutant]:
    for part in parts:
        for place in PARTS[part][0]:
            path = root / place
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path] * path.is_file():
                yield from mutants_of(part, root, file)


def sample(mutants: Iterable[Mutant], count: int) -> list[Mutant]:
    """Return the mutants of each part with the lowest hashes."""
    by_part: dict[str, dict[tuple[str, ...], Mutant]] = defaultdict(dict)
    for mutant in mutants:
        by_part[mutant.part].setdefault(mutant.key, mutant)
    found = []
    for of_part in by_part.values():
        found += sorted(of_part.values(), key=lambda mutant: mutant.rank)[:count]
    return found


class Session:
    """A pytest plugin: instead of once, the collected tests run in a child for each mutant.

    Args:
        root: The working tree.
        mutants: The mutants.
        tell: Called with the outcome of each.
    """

    def __init__(self, root: Path, mutants: list[Mutant], tell: Callable[[Mutant, str], None]) -> None:
        self._root = root
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
        if self._child(session, None, MAX_SECONDS) != "survived":
            raise RuntimeError("the tests fail without a fault")
        seconds = time.monotonic() - began
        for mutant in self._mutants:
            self._tell(mutant, self._child(session, mutant, max(MIN_SECONDS, 3 * seconds)))
        return True

    def _child(self, session: pytest.Session, mutant: Mutant | None, seconds: float) -> str:
        pid = os.fork()
        if not pid:
            status = 3
            try:
                os.setsid()
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, 0)
                if mutant is not None:
                    self._apply(mutant)
                try:
                    pytest_runtestloop(session)
                finally:
                    status = 1 if session.testsfailed else 0
            finally:
                os._exit(status)
        end = time.monotonic() + seconds
        while True:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return {0: "survived", 3: "not applied"}.get(os.waitstatus_to_exitcode(status), "killed")
            if time.monotonic() > end:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return "killed by the time limit"
            time.sleep(0.01)

    def _apply(self, mutant: Mutant) -> None:
        """Replace the code of the function that the mutant is in."""
        path = self._root / mutant.path
        operator = get_operator(f"core/{mutant.operator}")()
        source = mutate_code(path.read_text(encoding="utf-8"), operator, mutant.occurrence)
        code: Any = compile(source, str(path), "exec", dont_inherit=True)
        found: Any = importlib.import_module(mutant.path.removesuffix(".py").replace("/", "."))
        for name in mutant.function.split("."):
            [code] = [const for const in code.co_consts if getattr(const, "co_name", None) == name][-1:]
            found = inspect.getattr_static(found, name)
            for part in ("fget", "func", "__func__", "__wrapped__"):
                found = getattr(found, part, found) if not isinstance(found, type) else found
            if inspect.isfunction(found):
                break
        found.__code__ = code


def run_part(root: Path, part: str, mutants: list[Mutant], tell: Callable[[Mutant, str], None]) -> None:
    """Run the tests of a part on its mutants, in a child that has not imported the package yet."""
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as log:
        pid = os.fork()
        if not pid:
            status = 1
            try:
                os.close(reader)
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                os.chdir(root)
                sys.path.insert(0, str(root))
                with os.fdopen(writer, "w", buffering=1) as stream:
                    numbers = {mutant: number for number, mutant in enumerate(mutants)}
                    plugin = Session(
                        root, mutants, lambda mutant, outcome: print(numbers[mutant], outcome, file=stream)
                    )
                    status = int(pytest.main([*OPTIONS, *PARTS[part][1]], plugins=[plugin]))
            finally:
                sys.stdout.flush()
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader) as lines:
            for line in lines:
                number, _, outcome = line.rstrip("\n").partition(" ")
                tell(mutants[int(number)], outcome)
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status):
            log.seek(0)
            said = log.read().decode(errors="replace")
            raise RuntimeError(f"the tests of {part} do not run:\n{said[-5000:]}")


def key_of(row: dict[str, Any]) -> tuple[str, ...]:
    return row["part"], row["path"], row["function"], row["operator"], row["line"], str(row["place"])


def same_line(key: tuple[str, ...]) -> tuple[str, ...]:
    """Return what is left of a key when its line moves to another file or function."""
    part, _, _, *line = key
    return part, *line


def same(mutants: Iterable[Mutant], earlier: list[dict[str, Any]]) -> tuple[list[Mutant], list[dict[str, Any]]]:
    """Return the mutants of an earlier run that still exist, and those that are lost."""
    by_key: dict[tuple[str, ...], Mutant] = {}
    by_line: dict[tuple[str, ...], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_key.setdefault(mutant.key, mutant)
        by_line[same_line(mutant.key)].append(mutant)
    found, lost = [], []
    for row in earlier:
        key = key_of(row)
        moved = by_line[same_line(key)]
        if key in by_key:
            found.append(by_key[key])
        elif len({mutant.path + mutant.function for mutant in moved}) == 1:
            found.append(moved[0])
        else:
            lost.append(row)
    return found, lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=25, help="how many of each part (default: %(default)s)")
    parser.add_argument("--root", type=Path, default=ROOT, help="the working tree (default: this one)")
    parser.add_argument("--same-as", type=Path, help="the file of an earlier run, whose mutants are taken")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants.json", help="the file of the outcomes")
    parser.add_argument("--part", choices=PARTS, action="append", help="some parts alone")
    parser.add_argument("--list", action="store_true", help="print the sample only")
    options = parser.parse_args()
    parts = options.part or list(PARTS)
    mutants = all_mutants(options.root, parts)
    lost: list[dict[str, Any]] = []
    earlier: list[dict[str, Any]] = []
    if options.same_as:
        earlier = [row for row in json.loads(options.same_as.read_text())["mutants"] if row["part"] in parts]
        chosen, lost = same(mutants, earlier)
    else:
        chosen = sample(mutants, options.count)
    if options.list:
        for mutant in chosen:
            print(f"{mutant.path} {mutant.function}: {mutant.operator} {mutant.place}: {mutant.line}")
        return 0
    rows: list[dict[str, Any]] = []

    def tell(mutant: Mutant, outcome: str) -> None:
        row = {name: getattr(mutant, name) for name in ("part", "path", "function", "operator", "line", "place")}
        rows.append({**row, "outcome": outcome})
        if outcome == "survived":
            print(f"survived: {mutant.path} {mutant.function}: {mutant.operator}: {mutant.line}", flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"mutants": rows, "lost": lost}, indent=1) + "\n")

    for part in parts:
        of_part = [mutant for mutant in chosen if mutant.part == part]
        if of_part:
            print(f"{part}: {len(of_part)} mutants", flush=True)
            run_part(options.root, part, of_part, tell)
    report(rows, lost, earlier)
    return 0


def report(rows: list[dict[str, Any]], lost: list[dict[str, Any]], earlier: list[dict[str, Any]]) -> None:
    """Print the proportions of killed mutants."""
    killed, total = Counter[str](), Counter[str]()
    for row in rows:
        for part in (row["part"], "all"):
            total[part] += 1
            killed[part] += row["outcome"] != "survived"
    for part in total:
        print(f"{part}: {killed[part]} of {total[part]} mutants killed, {killed[part] / total[part]:.1%}")
    if earlier:
        outcomes = {same_line(key_of(row)): row["outcome"] for row in rows}
        before = [row for row in earlier if same_line(key_of(row)) in outcomes]
        count = sum(row["outcome"] != "survived" for row in before)
        print(f"the same mutants before: {count} of {len(before)} killed; {len(lost)} others are lost with their lines")
        for row in before:
            if row["outcome"] != "survived" and outcomes[same_line(key_of(row))] == "survived":
                print(f"was killed before: {row['path']} {row['function']}: {row['operator']}: {row['line']}")


if __name__ == "__main__":
    sys.exit(main())
