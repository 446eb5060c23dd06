"""Mutation testing of the code that carries the rules: how many small faults, put in one at a time, the tests find.

python -m tests.isolated.mutants --count 250 --out build/mutants.json
python -m tests.isolated.mutants --same-as build/mutants.json    # the same mutants again, after a change
python -m tests.isolated.mutants --root ../other                 # in the sources of another working tree

Rules:
- The operators are those of cosmic-ray. Annotations and imports are not mutated, nor what `TYPE_CHECKING` guards.
- A mutant has a key: its file, its function, its operator, its line of code and the place in the line. The sample is
  the `count` keys with the lowest hash, in proportion to the parts, so it does not change with other lines.
- Each mutant runs with the tests of its part alone, in a copy of the working tree, those of the codec on the pure
  backend. It is killed if a test fails or takes too long.
- With `--same-as`, a mutant whose line is no longer there is reported as lost, and counts on neither side.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from ..support.places import ROOT

PARTS: Final = {
    "codec": (["jsonrpc_fast/codec/_pure.py"], ["--pure-only", "tests/codec"], 0.35),
    "framing": (["jsonrpc_fast/framing"], ["tests/framing"], 0.2),
    "handlers": (["jsonrpc_fast/handlers"], ["tests/handlers", "-k", "not uvloop and not debug"], 0.2),
    "peer": (["jsonrpc_fast/session/peer.py"], ["tests/session/test_peer.py", "tests/session/test_session.py"], 0.08),
    "tracker": (["jsonrpc_fast/session/tracker.py"], ["tests/session/test_tracker.py"], 0.07),
    "mcp": (["jsonrpc_fast/mcp/protocol"], ["tests/mcp/protocol"], 0.1),
}
"""The sources of each part, the arguments of pytest for its tests, and its share of the sample."""
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
COPIED: Final = ("jsonrpc_fast", "tests", "benchmarks", "docs", "examples")
MIN_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Mutant:
    """A fault that can be put into a file."""

    part: str
    path: str
    function: str
    operator: str
    line: str
    place: int
    """Which of the places in the line that the operator changes."""
    occurrence: int
    """Which of the places in the file that the operator changes."""

    @property
    def key(self) -> tuple[str, ...]:
        return self.path, self.function, self.operator, self.line, str(self.place)

    @property
    def rank(self) -> str:
        return hashlib.sha256("\0".join(self.key).encode()).hexdigest()


def mutants_of(part: str, root: Path, path: Path) -> Iterator[Mutant]:
    """Find all mutants of a file."""
    source = path.read_text(encoding="utf-8")
    lines = source.split("\n")
    functions, left_out = _places(source)
    nodes = list(ast_nodes(get_ast(source)))
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        in_line = Counter[int]()
        positions = (start[0] for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, line in enumerate(positions):
            if line not in left_out:
                text = lines[line - 1].strip()
                place = path.relative_to(root).as_posix()
                yield Mutant(part, place, functions.get(line, ""), name, text, in_line[line], occurrence)
            in_line[line] += 1


def _places(source: str) -> tuple[dict[int, str], set[int]]:
    """Return the function that each line is in, and the lines that have no mutants."""
    functions: dict[int, str] = {}
    left_out: set[int] = set()

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
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                cover(child.returns)
            if isinstance(child, ast.arg | ast.AnnAssign) and not getattr(child, "value", None):
                cover(child)
            if isinstance(child, ast.Import | ast.ImportFrom):
                cover(child)
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                cover(child)
            visit(child, inner)

    visit(ast.parse(source), "")
    return functions, left_out


def all_mutants(root: Path, parts: Iterable[str]) -> Iterator[Mutant]:
    for part in parts:
        for place in PARTS[part][0]:
            path = root / place
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path] * path.is_file():
                yield from mutants_of(part, root, file)


def sample(mutants: Iterable[Mutant], count: int) -> list[Mutant]:
    """Return the mutants with the lowest hashes, in proportion to the parts."""
    by_part: dict[str, dict[tuple[str, ...], Mutant]] = defaultdict(dict)
    for mutant in mutants:
        by_part[mutant.part].setdefault(mutant.key, mutant)
    found = []
    for part, of_part in by_part.items():
        ranked = sorted(of_part.values(), key=lambda mutant: mutant.rank)
        found += ranked[: round(count * PARTS[part][2])]
    return found


class Workplace:
    """A copy of the working tree, in which one file at a time has a fault."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder = folder
        for name in COPIED:
            if (root / name).is_dir():
                left_out = shutil.ignore_patterns("__pycache__", "node_modules", ".venvs", "build")
                shutil.copytree(root / name, folder / name, ignore=left_out)
        for file in root.iterdir():
            if file.is_file() and file.name != ".git":
                shutil.copy(file, folder)
        self._seconds: dict[str, float] = {}

    def measure(self, part: str) -> float:
        """Return how long the tests of a part take without a fault.

        Raises:
            RuntimeError: They fail.
        """
        if part not in self._seconds:
            self._run(part, 1200)  # fills the caches of compiled files
            began = time.monotonic()
            outcome, output = self._run(part, 1200)
            if outcome != "survived":
                raise RuntimeError(f"the tests of {part} fail without a fault:\n{output}")
            self._seconds[part] = time.monotonic() - began
        return self._seconds[part]

    def outcome(self, mutant: Mutant) -> str:
        seconds = max(MIN_SECONDS, 4 * self.measure(mutant.part))
        file = self._folder / mutant.path
        source = file.read_bytes()
        try:
            operator = get_operator(f"core/{mutant.operator}")()
            file.write_text(mutate_code(source.decode(), operator, mutant.occurrence), encoding="utf-8")
            return self._run(mutant.part, seconds)[0]
        finally:
            file.write_bytes(source)

    def _run(self, part: str, seconds: float) -> tuple[str, str]:
        options = ["-q", "-x", "--no-header", "--tb=line", "-p", "no:cacheprovider", "--hypothesis-seed=7"]
        command = [sys.executable, "-m", "pytest", *options, *PARTS[part][1]]
        settings = {"PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}
        process = subprocess.Popen(
            command,
            cwd=self._folder,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "killed by the time limit", ""
        return "killed" if process.returncode else "survived", output[-4000:]


def key_of(row: dict[str, Any]) -> tuple[str, ...]:
    return row["path"], row["function"], row["operator"], row["line"], str(row["place"])


def same(mutants: Iterable[Mutant], earlier: list[dict[str, Any]]) -> tuple[list[Mutant], list[dict[str, Any]]]:
    """Return the mutants of an earlier run that there still are, and those that are lost."""
    by_key: dict[tuple[str, ...], Mutant] = {}
    by_line: dict[tuple[str, ...], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_key.setdefault(mutant.key, mutant)
        by_line[mutant.key[2:]].append(mutant)
    found, lost = [], []
    for row in earlier:
        key = key_of(row)
        moved = by_line[key[2:]]
        if key in by_key:
            found.append(by_key[key])
        elif len({mutant.path + mutant.function for mutant in moved}) == 1:
            found.append(moved[0])
        else:
            lost.append(row)
    return found, lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=250, help="the size of the sample (default: %(default)s)")
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
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        workplace = Workplace(options.root, Path(folder))
        for part in parts:
            print(f"{part}: its tests take {workplace.measure(part):.1f} s", flush=True)
        for mutant in chosen:
            outcome = workplace.outcome(mutant)
            row = {name: getattr(mutant, name) for name in ("part", "path", "function", "operator", "line", "place")}
            rows.append({**row, "outcome": outcome})
            if outcome == "survived":
                print(f"survived: {mutant.path} {mutant.function}: {mutant.operator}: {mutant.line}", flush=True)
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps({"mutants": rows, "lost": lost}, indent=1) + "\n")
    report(rows, lost, earlier)
    return 0


def report(rows: list[dict[str, Any]], lost: list[dict[str, Any]], earlier: list[dict[str, Any]]) -> None:
    """Print the shares that are killed."""
    killed, total = Counter[str](), Counter[str]()
    for row in rows:
        for part in (row["part"], "all"):
            total[part] += 1
            killed[part] += row["outcome"] != "survived"
    for part in total:
        print(f"{part}: {killed[part]} of {total[part]} mutants killed, {killed[part] / total[part]:.1%}")
    if earlier:
        outcomes = {key_of(row)[2:]: row["outcome"] for row in rows}
        before = [row for row in earlier if key_of(row)[2:] in outcomes]
        count = sum(row["outcome"] != "survived" for row in before)
        print(f"the same mutants before: {count} of {len(before)} killed; {len(lost)} others are lost with their lines")
        for row in before:
            if row["outcome"] != "survived" and outcomes[key_of(row)[2:]] == "survived":
                print(f"was killed before: {row['path']} {row['function']}: {row['operator']}: {row['line']}")


if __name__ == "__main__":
    sys.exit(main())
