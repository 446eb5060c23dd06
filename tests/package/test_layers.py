"""Imports go strictly downward, and there is no cycle of files or folders. All of it is read from the sources.

Imports for type checkers are included: a reader follows them too. `python -m tests.package.test_layers` prints the
figures.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from jsonrpc_fast.cli.main import main as main_of_commands

from ..support.places import PACKAGE, ROOT

pytestmark = pytest.mark.lint

LAYERS = {
    "_version": 1,
    "support": 1,
    "types": 1,
    "codes": 1,
    "errors": 1,
    "profile": 1,
    "framing": 2,
    "hooks": 2,
    "codec": 3,
    "__init__": 4,
    "validator": 4,
    "handlers": 4,
    "transports": 4,
    "session": 5,
    "http": 5,
    "mcp": 6,
    "testing": 6,
    "adapters": 7,
    "cli": 7,
    "__main__": 8,
}
CUSTOMERS = ("mcp", "adapters", "cli")
"""Folders that import nothing of the others but public names."""
BESIDE = {"framing", "codec", "handlers", "transports", "session", "http", "mcp", "testing", "adapters", "cli"}
"""Folders whose files may import each other. Two other modules of one layer may not."""
VOCABULARY = (
    "types",
    "support",
    "codes",
    "errors",
    "profile",
    "_version",
)
"""The lowest layer, in order: each module may import those before it."""
MAY_IMPORT_ASYNCIO = (
    "support",
    "handlers.on_asyncio",
    "handlers.observed",
    "session.blocking_session",
    "session.session",
    "session.calling",
    "session.reconnecting",
    "session.loop_driver",
    "session.streams",
    "session.subscriptions",
    "transports.",
    "http.batching",
    "http.client",
    "http.endpoint",
    "http.guard",
    "http.library",
    "http.upstreams",
    "mcp.client.",
    "mcp.gateway.",
    "mcp.http.",
    "mcp.providers.",
    "mcp.server.",
    "mcp.templates.server",
    "testing.",
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
    """Return the module of a file: `framing` for its `__init__.py`, `codec._core` for a part of the core."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if path.suffix == ".pxi":
        parts = ["codec", "_core"]
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


MODULES = {module_of(path) for path in sources()} | {"codec._core"}


@functools.cache
def imports_of(path: Path) -> list[tuple[int, str, str]]:
    """Return level, module and name of each import in a file."""
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
    """Return the modules of the package that a file imports."""
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


@functools.cache
def imports() -> dict[str, set[str]]:
    """Return the modules that each module imports. They are read once, and not when tests are only collected."""
    found: dict[str, set[str]] = {module: set() for module in MODULES}
    for path in sources():
        found[module_of(path)] |= own_imports_of(path)
    found["codec._core"].discard("codec._scanner")  # the core cimports _scanner.pxd, not _scanner.py
    return found


def may_import(module: str, other: str) -> bool:
    top, below = module.split(".")[0], other.split(".")[0]
    if top == below:
        return top in BESIDE
    if top in VOCABULARY and below in VOCABULARY:
        return VOCABULARY.index(below) < VOCABULARY.index(top)
    return LAYERS[below] < LAYERS[top]


def arrows_up() -> list[tuple[str, str]]:
    """Return the imports that do not go downward."""
    arrows = [(module, other) for module in sorted(MODULES) for other in sorted(imports()[module])]
    return [arrow for arrow in arrows if not may_import(*arrow)]


def cycles(arrows: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules or folders that import each other, directly or through others."""
    reached = {module: set(others) for module, others in arrows.items()}
    for middle in reached:
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    found = [{other for other in reached[module] if module in reached[other]} for module in sorted(reached)]
    return [cycle for at, cycle in enumerate(found) if cycle and cycle not in found[:at]]


def folder_of(module: str) -> str:
    """Return the folder of a module.

    The `__init__.py` of a folder with subfolders exports the names of all of them: it is treated as a folder of its
    own.
    """
    if f"{module}." not in {each[: len(module) + 1] for each in MODULES}:
        return module.rpartition(".")[0] or module
    has_folders = any(each.startswith(f"{module}.") and each.count(".") > module.count(".") + 1 for each in MODULES)
    return f"{module}.__init__" if has_folders else module


def inside(cycles: list[set[str]]) -> str:
    """Return the imports that make cycles of modules or folders: first those of the rarest direction, usually new."""
    found: dict[tuple[str, str], list[str]] = {}
    for module, others in sorted(imports().items()):
        for other in sorted(others):
            folders = folder_of(module), folder_of(other)
            if any({module, other} <= cycle or (len({*folders} & cycle) == 2) for cycle in cycles):
                found.setdefault(folders, []).append(f"{module} imports {other}")
    return "\n".join(line for lines in sorted(found.values(), key=len) for line in lines)


def folder_imports() -> dict[str, set[str]]:
    """Return the other folders that each folder imports."""
    found: dict[str, set[str]] = {folder_of(module): set() for module in MODULES}
    for module, others in imports().items():
        found[folder_of(module)] |= {folder_of(other) for other in others} - {folder_of(module)}
    return found


def offered(module: str) -> set[str]:
    """Return the public names of a module: those of its `__all__`, or else what it defines without an underscore."""
    path = PACKAGE.joinpath(*module.split("."))
    body = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()).body
    for node in body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "__all__"
            and "[" in ast.unparse(node.value)
        ):
            names: list[str] = ast.literal_eval(node.value)
            return set(names)
    found = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    return {name for name in found if not name.startswith("_")}


def public_names() -> set[str]:
    """Return the names that the reference and the packages offer, each with the module from which it is imported."""
    root = ast.literal_eval(re.findall(r"__all__ = (\[.*?\])", (PACKAGE / "__init__.py").read_text(), re.DOTALL)[0])
    found = {
        f"{module}{name}" for module in ("", "types.", "codes.", "errors.", "profile.", "_version.") for name in root
    }
    found |= {f"codec.{name}" for name in offered("codec._backend")}
    for folder in ("framing", "handlers", "transports", "session", "http", "mcp"):
        found |= {f"{folder}.{name}" for name in offered(folder)}
    for page in (ROOT / "docs" / "api").glob("*.md"):
        for kind, name in re.findall(r"^\.\. auto(\w+):: jsonrpc_fast\.(\S+)$", page.read_text(), re.MULTILINE):
            found |= {f"{name}.{each}" for each in offered(name)} if kind == "module" else {name}
    return found


def private_imports_of_customers() -> list[tuple[str, str]]:
    """Return what `mcp/`, `adapters/` and `cli/` import from other folders though it is not public there."""
    public, found = public_names(), []
    for path in sources():
        module = module_of(path)
        if module.split(".")[0] not in CUSTOMERS:
            continue
        folder = path.relative_to(PACKAGE).parent.parts
        for level, source, name in imports_of(path):
            target = [*folder[: len(folder) - level + 1], *(source.split(".") if source else [])]
            full = ".".join([*target, name])
            if level and full not in {*public, *CUSTOMERS} and target[:1] != [module.split(".")[0]]:
                found.append((module, full))
    return found


def test_customers_import_public_names_alone() -> None:
    """MCP, the adapters and the commands are written on what any author can use."""
    found = private_imports_of_customers()
    assert found == [], "use a name of docs/api; a new one gets a docstring and a directive in docs/api/support.md"


def test_an_import_of_a_private_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    [path] = [path for path in sources() if module_of(path) == "cli.info"]
    real = imports_of(path)
    taken = [*real, (2, "codec._json", "loads"), (2, "session.session", "Session"), (2, "codec", "_json")]
    monkeypatch.setitem(globals(), "imports_of", lambda each: taken if each == path else real)
    names = ["codec._json.loads", "session.session.Session", "codec._json"]
    assert private_imports_of_customers() == [("cli.info", name) for name in names]


def test_each_module_has_a_layer() -> None:
    assert {module.split(".")[0] for module in MODULES} == LAYERS.keys(), "give the folder or module a row in LAYERS"


def test_no_import_goes_upward() -> None:
    found = arrows_up()
    assert found == [], "pass what is needed as an argument, or move it down; folders must form no cycle either"


def test_there_is_no_cycle() -> None:
    for arrows in (imports(), folder_imports()):
        found = cycles(arrows)
        assert found == [], inside(found)


def test_an_import_that_goes_up_and_its_cycle_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(imports(), "codes", {"codec._backend"})
    assert arrows_up() == [("codes", "codec._backend")]
    [cycle] = cycles(imports())
    assert cycle >= {"codes", "codec._backend"}
    assert "session.session" not in cycle


def test_a_cycle_of_folders_inside_a_layer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(imports(), "mcp.server.server", imports()["mcp.server.server"] | {"mcp.http.endpoint"})
    assert [{"mcp.http", "mcp.server"} <= cycle for cycle in cycles(folder_imports())] == [True]
    assert inside(cycles(folder_imports())).startswith("mcp.server.server imports mcp.http.endpoint\n")


def test_one_module_imports_orjson() -> None:
    arrows = [(module_of(path), name.split(".")[0]) for path in sources() for _, name, _ in imports_of(path)]
    # Only `codec._json` uses it. `cli.bench` measures it, as it measures json.
    users = {module for module, name in arrows if name == "orjson"}
    assert users == {"codec._json", "cli.bench"}, "use codec.dumps, decode or loads of codec._json"


def test_asyncio_stays_in_the_drivers() -> None:
    for path in sources():
        if not module_of(path).startswith(MAY_IMPORT_ASYNCIO):
            names = {name.split(".")[0] for level, name, _ in imports_of(path) if not level}
            assert not names & {"asyncio", "anyio"}, f"{path}: import it in a driver, or add it to MAY_IMPORT_ASYNCIO"


def test_the_page_shows_every_module_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    tree = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
    shown = dict(re.findall(r"^  (\w+)(?:/|\.py) +([1-8])  ", tree, re.MULTILINE))
    assert shown == {module: str(layer) for module, layer in LAYERS.items()}, "the tree at the top of the page"
    mcp = tree.partition("  mcp/ ")[2].partition("  testing/ ")[0]
    assert set(re.findall(r" (\w+)/ ", mcp)) == {path.parent.name for path in PACKAGE.glob("mcp/*/__init__.py")}
    assert main_of_commands(["--help"]) == 0
    commands = re.findall(r"^    (\w+)  ", capsys.readouterr().out, re.MULTILINE)
    assert f"the commands: {', '.join(commands)}\n" in tree


def main() -> None:
    count = sum(map(len, imports().values()))
    found = f"{len(cycles(imports()))} cycles of files, {len(cycles(folder_imports()))} of folders"
    print(f"{len(MODULES)} modules, {count} imports: {len(arrows_up())} go up, {found}")


if __name__ == "__main__":
    main()
