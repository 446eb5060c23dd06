"""Imports go strictly downward, file by file, and there is no circle (DESIGN section 1). Read from the sources.

Imports for type checkers count like any others: whoever reads a file reads them too.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jsonrpc_fast

PACKAGE = Path(jsonrpc_fast.__file__).resolve().parent
LAYERS = {
    "_version": 1,
    "types": 1,
    "codes": 1,
    "errors": 1,
    "profile": 1,
    "framing": 2,
    "codec": 3,
    "_repr": 1,
    "__init__": 4,
    "validator": 4,
    "handlers": 4,
    "transports": 4,
    "session": 5,
    "mcp": 6,
    "adapters": 7,
    "cli": 7,
    "__main__": 8,
}
BESIDE = {"framing", "codec", "transports", "session", "mcp", "cli"}
"""Folders whose files may import each other. Other modules of one layer do not know of each other."""
VOCABULARY = ("_repr", "types", "codes", "errors", "profile", "_version")
"""The lowest layer, in its own order: each may import what stands before it."""
MAY_IMPORT_ASYNCIO = (
    "session.session",
    "session.calling",
    "session.serving",
    "session.wait_queue",
    "transports.",
    "mcp.client.",
    "mcp.relay",
    "mcp.server.",
    "mcp.templates.server",
    "adapters.",
    "cli.",
)
COMPILED = (".pyx", ".pxd", ".pxi")
CIMPORT = re.compile(r"^\s*from\s+(\.*)([\w.]*)\s+c?import\s+(\([^)]*\)|.+)$|^\s*c?import\s+([\w., ]+)$", re.MULTILINE)


def sources() -> list[Path]:
    found = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", *COMPILED)]
    assert len(found) > 40
    return sorted(found)


def module_of(path: Path) -> str:
    """The module that a file belongs to: `codec._core` for the parts of the core, `framing` for its `__init__.py`."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if path.suffix == ".pxi":
        parts = ["codec", "_core"]
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


MODULES = {module_of(path) for path in sources()} | {"codec._core"}


def imports_of(path: Path) -> list[tuple[int, str, str]]:
    """Level, module and name of each import in a file, those for type checkers included."""
    if path.suffix in COMPILED:
        return compiled_imports_of(path.read_text())
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found += [(node.level, node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(0, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "import_module"):
            [target] = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)] or [""]
            level = len(target) - len(target.lstrip("."))
            found.append((level, target.lstrip("."), ""))
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
    """The modules of the package that a file imports."""
    found = set()
    folder = path.relative_to(PACKAGE).parent.parts if path.suffix != ".pxi" else ("codec",)
    for level, module, name in imports_of(path):
        if level == 0:
            if module.split(".")[0] != PACKAGE.name:
                continue
            target = module.split(".")[1:]
        else:
            target = [*folder[: len(folder) - level + 1], *(module.split(".") if module else [])]
        longer = ".".join([*target, name])
        dotted = longer if longer in MODULES else ".".join(target) or "__init__"
        assert dotted in MODULES, (path, level, module, name)
        found.add(dotted)
    return found - {module_of(path)}


def graph() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {module: set() for module in MODULES}
    for path in sources():
        found[module_of(path)] |= own_imports_of(path)
    found["codec._core"].discard("codec._scanner")  # _scanner.pxd, which stands beside _scanner.py
    return found


def layer_of(module: str) -> int:
    return LAYERS[module.split(".")[0]]


def may_import(module: str, other: str) -> bool:
    top, below = module.split(".")[0], other.split(".")[0]
    if top == below:
        return top in BESIDE
    if top in VOCABULARY and below in VOCABULARY:
        return VOCABULARY.index(below) < VOCABULARY.index(top)
    return layer_of(other) < layer_of(module)


def test_each_module_has_a_layer() -> None:
    assert {module.split(".")[0] for module in MODULES} == LAYERS.keys()


def test_no_import_goes_upward() -> None:
    assert [(a, b) for a, others in sorted(graph().items()) for b in sorted(others) if not may_import(a, b)] == []


def test_there_is_no_circle() -> None:
    left = graph()
    while left:
        leaves = {module for module, below in left.items() if not below & left.keys()}
        assert leaves, f"a circle among { ({module: sorted(below & left.keys()) for module, below in left.items()}) }"
        left = {module: below for module, below in left.items() if module not in leaves}


def test_one_module_imports_orjson() -> None:
    assert [
        module_of(path) for path in sources() if any(name.split(".")[0] == "orjson" for _, name, _ in imports_of(path))
    ] == ["codec._json"]


def test_asyncio_stays_where_it_belongs() -> None:
    for path in sources():
        if not module_of(path).startswith(MAY_IMPORT_ASYNCIO):
            names = {name.split(".")[0] for level, name, _ in imports_of(path) if not level}
            assert not names & {"asyncio", "anyio"}, path
