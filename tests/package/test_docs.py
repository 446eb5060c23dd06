"""The documentation site: each public name is in the API reference, and the first steps work as they are written.

`nox -s docs` builds the site. It fails if a name below has no entry, or if a link leads nowhere.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
from types import ModuleType, UnionType
from typing import Any

import pytest

from ..support.places import PACKAGE, ROOT
from ..support.tables import table

DOCS = ROOT / "docs"

DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)", re.MULTILINE)
REFERENCE = "".join([page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md"))])

PRIVATE = ("jsonrpc_fast.codec", "jsonrpc_fast.session.context")
"""Modules whose public names are imported from the package above them."""


def modules_with_public_names() -> list[str]:
    """Return the modules that have an `__all__`."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.Name) and node.id == "__all__" for node in ast.walk(tree)):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return [name for name in found if not name.startswith(PRIVATE)]


def load(name: str) -> ModuleType:
    """Import a module, or skip the test where its library is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(str(error))


@functools.cache
def values_in_reference() -> tuple[set[str], list[Any]]:
    """Return the names of the directives on the API pages, and the objects that they document."""
    names: set[str] = set()
    for kind, name in DIRECTIVE.findall(REFERENCE):
        if kind == "module":
            names |= {f"{name}.{member}" for member in getattr(load(name), "__all__", ())}
        else:
            names.add(name)
    values = []
    for name in names:
        module, _, member = name.rpartition(".")
        values.append(getattr(load(module), member))
    return names, values


def test_each_public_name_is_in_the_api_reference() -> None:
    names, values = values_in_reference()
    values = [value for value in values if callable(value) or isinstance(value, UnionType)]
    with table() as row:
        for module_name in modules_with_public_names():
            with row(module_name):
                module = load(module_name)
                missing = [
                    name
                    for name in module.__all__
                    if f"{module_name}.{name}" not in names
                    and not any(value is getattr(module, name) for value in values)
                ]
                assert missing == []


def test_the_list_for_language_models_names_each_page() -> None:
    listed = set(re.findall(r"\]\(([\w/-]+)\.html\)", (DOCS / "llms.txt").read_text(encoding="utf-8")))
    included = {"benchmarks", "changelog", "index", "security"}  # pages that include a file, and the first page
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in [*DOCS.glob("*.md"), *DOCS.glob("deploy/*.md")]}
    assert listed == (pages - included) | {"api/index"}
