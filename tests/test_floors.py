"""Imports go strictly downward (DESIGN section 1), read from the sources."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jsonrpc_fast

PACKAGE = Path(jsonrpc_fast.__file__).resolve().parent
FLOORS = {
    "_version": 0,
    "codes": 0,
    "errors": 0,
    "profile": 0,
    "kinds": 0,
    "framing": 0,
    "sse": 0,
    "hints": 0,
    "_json": 0,
    "_repr": 0,
    "_sources": 0,
    "_pickling": 0,
    "_scanner": 1,
    "_decoder": 1,
    "_core": 1,
    "_pure": 1,
    "codec": 2,
    "__init__": 2,
    "_located": 3,
    "validator": 3,
    "handlers": 3,
    "transports": 4,
    "session": 5,
    "mcp": 6,
    "adapters": 6,
    "serve": 7,
    "tap": 7,
    "cli": 7,
    "__main__": 7,
}
MAY_IMPORT_ASYNCIO = (
    "session/driver",
    "transports/",
    "mcp/client",
    "mcp/relay",
    "mcp/server",
    "adapters/",
    "cli",
)
MAY_REACH_ANY_FLOOR = ("adapters", "cli")
COMPILED = (".pyx", ".pxd", ".pxi")
CIMPORT = re.compile(r"^\s*from\s+(\.*)([\w.]*)\s+c?import\s+(\([^)]*\)|.+)$|^\s*c?import\s+([\w., ]+)$", re.MULTILINE)


def sources() -> list[Path]:
    found = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", *COMPILED)]
    assert len(found) > 15
    return sorted(found)


def module_of(path: Path) -> str:
    """`_core` for all that is compiled into it, `_scanner` for its header, `session/driver` for one in a package."""
    name = path.relative_to(PACKAGE).with_suffix("").as_posix()
    return "_core" if path.suffix == ".pxi" and name.startswith("_core") else name


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports_of(path: Path) -> list[tuple[int, str, str]]:
    """Level, module and name of each import that is made when the program runs."""
    if path.suffix in COMPILED:
        return compiled_imports_of(path.read_text())
    found = []
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and is_type_checking(node):
            pending += node.orelse
            continue
        if isinstance(node, ast.ImportFrom):
            found += [(node.level, node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(0, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "import_module"):
            [target] = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)] or [""]
            level = len(target) - len(target.lstrip("."))
            found.append((level, target.lstrip("."), ""))
        pending += ast.iter_child_nodes(node)
    return found


def compiled_imports_of(text: str) -> list[tuple[int, str, str]]:
    found = []
    for dots, module, names, plain in CIMPORT.findall(text):
        if plain:
            found += [(0, name.strip(), "") for name in plain.split(",")]
        else:
            cleaned = re.sub(r"#.*|[()]", "", names)
            found += [(len(dots), module, name.split()[0]) for name in cleaned.split(",") if name.strip()]
    return found


def own_imports_of(path: Path) -> set[str]:
    """The modules of the package that a module imports, by the names of the floors."""
    found = set()
    here = path.relative_to(PACKAGE).parent.parts
    for level, module, name in imports_of(path):
        if level == 0:
            if module.split(".")[0] != PACKAGE.name:
                continue
            target = module.split(".")[1:] or [name or "__init__"]
        else:
            target = [*here[: len(here) - level + 1], *(module.split(".") if module else [name])]
        found.add(target[0] if target[0] in FLOORS else "__init__")
    return found


def test_each_module_has_a_floor() -> None:
    assert {module_of(path).split("/")[0] for path in sources()} <= FLOORS.keys()


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_import_goes_upward(path: Path) -> None:
    module = module_of(path).split("/")[0]
    if module not in MAY_REACH_ANY_FLOOR:
        assert [name for name in own_imports_of(path) if FLOORS[name] > FLOORS[module]] == []


def test_no_import_goes_round() -> None:
    graph: dict[str, set[str]] = {}
    for path in sources():
        module = module_of(path).split("/")[0]
        graph.setdefault(module, set()).update(own_imports_of(path) - {module})
    while graph:
        leaves = {module for module, below in graph.items() if not below & graph.keys()}
        assert leaves, f"a cycle among {sorted(graph)}"
        graph = {module: below for module, below in graph.items() if module not in leaves}


def test_one_module_imports_orjson() -> None:
    assert [
        module_of(path) for path in sources() if any(name.split(".")[0] == "orjson" for _, name, _ in imports_of(path))
    ] == ["_json"]


def test_asyncio_stays_where_it_belongs() -> None:
    for path in sources():
        if not module_of(path).startswith(MAY_IMPORT_ASYNCIO):
            assert not {name.split(".")[0] for level, name, _ in imports_of(path) if not level} & {"asyncio", "anyio"}


def test_the_reader_of_imports_sees_what_is_there() -> None:
    assert "_json" in own_imports_of(PACKAGE / "_pure.py")
    assert own_imports_of(PACKAGE / "codec.py") == {"_core", "_pure", "_sources", "profile"}
    assert own_imports_of(PACKAGE / "_core.pyx") >= {"_scanner", "_json", "errors", "codes", "profile"}
    assert own_imports_of(PACKAGE / "_decoder.py") == {"codes", "errors", "framing", "hints", "profile"}
    assert compiled_imports_of(
        "from . import errors\nfrom ._a cimport (\n    B,  # x\n    C as D,\n)\ncimport cython"
    ) == [
        (1, "", "errors"),
        (1, "_a", "B"),
        (1, "_a", "C"),
        (0, "cython", ""),
    ]


def modules_after(statement: str, **environment: str) -> set[str]:
    """What a fresh process has loaded after a statement."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    return set(json.loads(run.stdout))


@pytest.mark.parametrize("pure", ["0", "1"])
def test_importing_loads_the_codec_only(pure: str) -> None:
    loaded = modules_after("import jsonrpc_fast", JSONRPC_FAST_PURE=pure)
    more = loaded - modules_after("import orjson")
    assert not more & {
        "asyncio",
        "anyio",
        "msgspec",
        "logging",
        "argparse",
        "tqdm",
        "socket",
        "subprocess",
        "threading",
    }
    own = {name.removeprefix("jsonrpc_fast.") for name in loaded if name.startswith("jsonrpc_fast.")}
    assert {FLOORS[name] for name in own} == {0, 1, 2}
    assert not own & {"cli", "__main__"}
    if "_core" in own:
        assert not own & {"_pure", "_scanner"}  # compiling the patterns of the pure backend takes time
