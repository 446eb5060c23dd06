"""The documentation site: each public name is in the API reference, and the first steps work as written.

`nox -s docs` builds the site. It fails if a name below has no entry, or if a link leads nowhere.
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
import re
import sys
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any

import pytest

from docs import diagrams
from jsonrpc_fast import codes, errors

from ..support import needs
from ..support.pages import PAGES, Reader, page_name, steps, table_rows, write_scripts
from ..support.places import PACKAGE, ROOT
from ..support.tables import rows, table
from ..support.waiting import free_port

pytestmark = pytest.mark.lint

DOCS = ROOT / "docs"

DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+)", re.MULTILINE)
REFERENCE = "".join([page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md"))])

PRIVATE = ("jsonrpc_fast.codec", "jsonrpc_fast.session.session")
"""Modules whose public names are imported from their parent package."""


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


@pytest.mark.ci
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
                assert missing == [], "each needs a directive on a page of docs/api"


def test_the_list_for_language_models_names_each_page() -> None:
    listed = set(re.findall(r"\]\(([\w/-]+)\.html\)", (DOCS / "llms.txt").read_text(encoding="utf-8")))
    included = {"404", "benchmarks", "changelog", "index", "security"}  # pages that include a file or lead elsewhere
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in [*DOCS.glob("*.md"), *DOCS.glob("deploy/*.md")]}
    assert listed == (pages - included) | {"api/index"}


def test_each_diagram_of_a_page_is_drawn() -> None:
    assert {path.stem for path in diagrams.DIAGRAMS.glob("*.svg")} == {
        diagrams.name_of(text) for text in diagrams.texts()
    }, "run python -m docs.diagrams"


README = ROOT / "README.md"


def test_a_program_that_is_missing_skips_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(needs, "_FOLDERS", ())
    with pytest.raises(pytest.skip.Exception, match=r"^node is not installed: apt-get install nodejs$"):
        needs.require("node")
    assert needs.mark("node").args == (True,)


def follow(page: Path, folder: Path, **variables: str) -> None:
    """Run the code and the commands of a page, in this environment and with free ports in place of 4000 and 8000."""
    ports = {"4000": str(free_port()), "8000": str(free_port())}
    # `python` in an example is the Python that runs the tests.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with Reader(folder, {**own, "PATH": path, "PYTHONPATH": str(PACKAGE.parent), **variables}) as reader:
        for kind, text in steps(page):
            text = re.sub(r"\b(4000|8000)\b", lambda found: ports[found[0]], text)
            if kind == "python":
                reader.run_code(text)
            elif kind == "console":
                reader.run_commands(text)


@pytest.mark.skipif(sys.platform == "win32", reason="the commands are those of a POSIX shell")
@pytest.mark.ci
def test_the_first_page_of_the_site(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed (extra `test`)")
    needs.require("curl")
    follow(ROOT / "docs" / "index.md", tmp_path)


@rows("pure", ["0", "1"])
@rows("page", PAGES, ids=page_name)
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the commands are those of a POSIX shell")
def test_a_page_runs(tmp_path: Path, page: Path, pure: str) -> None:
    if any("mcp" in text for _, text in steps(page)):
        pytest.importorskip("jsonschema_rs", reason="the extra `mcp` is not installed")
        pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    folder = tmp_path / page.stem / pure  # a row has the files of no other one
    folder.mkdir(parents=True)
    follow(page, folder, JSONRPC_FAST_PURE=pure)


def test_the_readme_has_code(tmp_path: Path) -> None:
    assert len(write_scripts(README, tmp_path)) >= 4
    assert (tmp_path / "server.py").is_file()


def headings(text: str) -> set[str]:
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)
    }


@rows("page", PAGES, ids=page_name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)", prose) + re.findall(r"^\[[^\]]+\]:\s*(\S+)", prose, re.MULTILINE):
        if not target.startswith("https://"):
            name, _, anchor = target.partition("#")
            linked = page.parent / name if name else page
            assert linked.is_file(), target
            assert not anchor or anchor in headings(linked.read_text(encoding="utf-8")), target


def test_the_readme_has_no_picture_of_the_repository() -> None:
    """A package index shows only the README."""
    text = README.read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)", text) + re.findall(r"""src=["']?([^"'\s>]+)""", text)
    assert [picture for picture in pictures if not picture.startswith("https://")] == []


def test_the_page_for_contributors_names_every_program_that_tests_start() -> None:
    packages = " ".join(sorted(set(needs.DEBIAN.values())))
    assert f"apt-get install {packages}\n" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_two_commands_of_the_readme() -> None:
    """`.ci/run` runs them as written: the installation and the tests."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    first, second, *_ = "".join(blocks).splitlines()
    assert first.startswith(
        "pip install . && jsonrpc-fast call add a=1 b=2 -- python examples/server.py && jsonrpc-fast check "
    )
    assert second == "pip install -e '.[test]' && pytest -n auto --dist loadfile"


PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


def test_parse_errors() -> None:
    rows = table_rows(PAGE, "code", "response", "what it means", "what to do")
    expected = [(f"`{code.name}`", str(int(code.rpc_code))) for code in codes.ParseErrorCode]
    assert [(code, response) for code, response, _, _ in rows] == expected, "docs/errors.md has them in this order"
    assert all(meaning.endswith(".") and advice.endswith(".") for _, _, meaning, advice in rows)


def test_hints() -> None:
    rows = table_rows(PAGE, "hint", "what it means", "what to do")
    assert [row[0] for row in rows] == [f"`{hint.name}`" for hint in codes.Hint]
    assert all(all(row) for row in rows)


def test_error_codes() -> None:
    rows = table_rows(PAGE, "code", "name", "who sends it, and when", "what to do")
    enums = (codes.ErrorCode, codes.SessionErrorCode, codes.McpErrorCode, codes.LspErrorCode)
    expected = [(str(int(code)), f"`{enum.__name__}.{code.name}`") for enum in enums for code in enum]
    assert [(code, name) for code, name, _, _ in rows] == expected
    assert all(all(row) for row in rows)


def test_exceptions() -> None:
    rows = table_rows(PAGE, "exception", "base", "when", "what to do")
    classes = [
        value for value in vars(errors).values() if isinstance(value, type) and value.__module__ == errors.__name__
    ]
    exceptions = {cls for cls in classes if issubclass(cls, Exception)}
    assert {name for name, *_ in rows} == {f"`{cls.__name__}`" for cls in exceptions}
    for name, base, *rest in rows:
        assert base == f"`{getattr(errors, name.strip('`')).__base__.__name__}`", name
        assert all(rest)


@pytest.mark.skipif(not (ROOT / "jsonrpc_fast").is_dir(), reason="the sources of the package are not here")
@pytest.mark.parametrize(
    "kind", ["a rule", "a field", "a framing", "a command", "a revision", "a channel", "a hook", "an adapter"]
)
def test_each_list_of_contributing_leads_somewhere(kind: str) -> None:
    """A file that a list names exists, and a name beside it is in one of the files that its item names."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [section] = re.findall(rf"^## Adding {kind}\b.*?\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    items = re.split(r"^\d\. ", re.sub(r"```.*?```", "", section, flags=re.DOTALL), flags=re.MULTILINE)[1:]
    assert 2 < len(items) < 7
    for item in items:
        marked = re.findall(r"`([^`]+)`", item)
        paths = [
            name
            for name in marked
            if " " not in name and ("/" in name or re.search(r"\.(py|pxi|md|toml|ndjson)$", name))
        ]
        texts = []
        for path in [path for path in paths if "NAME" not in path]:
            found = [
                p
                for folder in ("", "jsonrpc_fast", "jsonrpc_fast/codec", "jsonrpc_fast/codec/_core_parts")
                if (p := ROOT / folder / path).exists()
            ]
            assert found, path
            files = [file for p in found for file in ([p] if p.is_file() else p.glob("*.py"))]
            texts += [file.read_text(encoding="utf-8") for file in files]
        for name in marked:
            if name not in paths and re.fullmatch(r"\w+", name) and texts:
                assert any(re.search(rf"\b{name}\b", text) for text in texts), (name, paths)
