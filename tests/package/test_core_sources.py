"""What the core's sources must not contain."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import tokenize
import traceback
from types import ModuleType

import pytest

from ..support.pages import table_rows
from ..support.places import PACKAGE, ROOT

pytestmark = pytest.mark.lint

SOURCES = sorted(path for kind in ("pyx", "pxd", "pxi") for path in (PACKAGE / "codec").rglob(f"*.{kind}"))


def comprehensions(source: str) -> list[int]:
    """Return the lines of the list comprehensions in a Cython source."""
    found = []
    opened: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.OP and token.string in "([{":
            opened.append(token.string)
        elif token.type == tokenize.OP and token.string in ")]}" and opened:
            opened.pop()
        elif token.string == "for" and opened and opened[-1] == "[":
            found.append(token.start[0])
    return found


@pytest.mark.ci
def test_there_is_no_list_comprehension() -> None:
    """Cython 3.3 frees an item of a list comprehension twice where the list cannot grow for lack of memory."""
    if not SOURCES:
        pytest.skip("the sources of the core are missing")
    assert {path.name: lines for path in SOURCES if (lines := comprehensions(path.read_text()))} == {}


def test_what_counts_as_a_list_comprehension() -> None:
    assert comprehensions("x = [f(a)\n    for a in b if [1]]\n") == [2]
    assert comprehensions("for i in [1]:\n    f((a for a in b), {a: 1 for a in b})\n") == []


def returns_of_handlers(source: str) -> list[int]:
    """Return the lines of the `return` statements inside `except` clauses."""
    found = []
    indents: list[int] = []  # of the `except` clauses around a line
    for number, line in enumerate(source.splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        while indents and indent <= indents[-1]:
            indents.pop()
        if re.match(r"except\b.*:", text):
            indents.append(indent)
        elif indents and re.match(r"return\b", text):
            found.append(number)
    return found


def test_no_handler_of_an_exception_returns() -> None:
    """Cython 3.3 drops the reference to a traceback there without a check: it is NULL where its allocation failed."""
    if not SOURCES:
        pytest.skip("the sources of the core are missing")
    assert {path.name: lines for path in SOURCES if (lines := returns_of_handlers(path.read_text()))} == {}


def test_what_counts_as_a_return_of_a_handler() -> None:
    assert returns_of_handlers("try:\n    f()\nexcept E:\n    if a:\n\n        return 1\nreturn 2\n") == [6]
    assert returns_of_handlers("try:\n    return f()\nexcept E:\n    pass\nreturn 1\n") == []


def with_statements(source: str) -> list[int]:
    """Return the lines of the `with` statements that call a context manager."""
    lines = enumerate(source.splitlines(), 1)
    return [number for number, line in lines if re.match(r"\s*with\b(?! (nogil|gil)\b)", line)]


def test_there_is_no_with_statement() -> None:
    """Cython 3.3 crashes there after an exception without a traceback, because the memory for one was missing."""
    if not SOURCES:
        pytest.skip("the sources of the core are missing")
    assert {path.name: lines for path in SOURCES if (lines := with_statements(path.read_text()))} == {}


def test_what_counts_as_a_with_statement() -> None:
    assert with_statements("def f():\n    with a.b as c:\n        pass\n") == [2]
    assert with_statements("with nogil:\n    f()\nwithin = 1\n") == []


def test_the_core_names_the_functions_of_the_package_that_it_calls() -> None:
    """Its first lines say which objects are held where Python code runs."""
    core = PACKAGE / "codec" / "_core.pyx"
    if not core.exists():
        pytest.skip("the sources of the core are missing")
    head, _, code = core.read_text().partition("\n\ncimport ")
    named = set(re.findall(r"`(\w+)`", head))
    assert (
        named - set(re.findall(r"\w+", code + "".join([path.read_text() for path in SOURCES if path != core]))) == set()
    )
    imports = [node for node in ast.parse(python_imports(code)).body if isinstance(node, ast.ImportFrom)]
    for path in SOURCES:
        lines = re.findall(r"^ +(from \.+\w[\w.]* import \w+)", path.read_text(), re.MULTILINE)
        imports += [node for line in lines for node in ast.parse(line).body if isinstance(node, ast.ImportFrom)]
    called = set()
    for node in imports:
        module = importlib.import_module("." * node.level + (node.module or ""), "jsonrpc_fast.codec")
        for name in node.names:
            if inspect.isfunction(getattr(module, name.name)):
                called.add(name.asname or name.name)
    assert len(called) > 20
    assert called - named == set()


def test_tracebacks_name_each_function(core: ModuleType) -> None:
    """Cython finds the frames of tracebacks by the number of their line, which is in each part of the core."""
    for call, names in (
        (lambda: core.Response(1, 2, 3), ["call_response", "Response.__init__"]),
        (lambda: core.decode(5), ["call_decode", "call_decode_with", "decode", "bytes_given"]),
        (lambda: core.encode_request(1, 2), ["call_encode_request", "call_line", "write_call", "check_method"]),
        (
            lambda: core.encode_result(1, 2, option=""),
            [
                "call_encode_result",
                "encode_result",
                "result_line_with",
                "write_result",
                "check_option_fast",
                "check_option",
                "check_type",
            ],
        ),
        (lambda: core.encode_error(1, 2, 3), ["call_encode_error", "error_line", "write_error", "check_error"]),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        frames = traceback.extract_tb(caught.tb)[2:]
        found = [frame.name.removeprefix("jsonrpc_fast.codec._core.").partition(" (")[0] for frame in frames]
        assert found == names


def python_imports(code: str) -> str:
    """The imports from the package in a Cython source."""
    return "".join(re.findall(r"^from \.+\w* import (?:\([^)]*\)|.*)\n", code, re.MULTILINE))


def test_each_trick_has_its_row() -> None:
    """A trick that rests on CPython's layout is compiled, switched off and shown by its row in `tricks.pxi` alone."""
    if not SOURCES:
        pytest.skip("the sources of the core are missing")
    texts = {path.name: path.read_text() for path in SOURCES}
    table = texts.pop("tricks.pxi")
    shown = dict(re.findall(r"ROW\((\w+), \"([^\"]+)\"\)", table))
    assert {row[0] for row in table_rows((ROOT / "docs/core.md").read_text(), "`info` says", "what is used")} == {
        *shown.values()
    }
    compiled = set(re.findall(r"#define JSONRPC_FAST_(\w+) \(?(?:JSONRPC_FAST_\w+ &&|1\n)", table))
    switches = {"KNOWN_LAYOUT", "GIL", "DEBUG", "COUNTED"}
    assert compiled - switches == shown.keys()
    # The layout of CPython is nobody else's condition, and each trick is asked for somewhere.
    for name, text in texts.items():
        assert not re.search(r"JSONRPC_FAST_(KNOWN_LAYOUT|GIL|COUNTED)\b|CYTHON_COMPILING_IN_CPYTHON", text), name
    code = "".join(texts.values())
    for trick in shown:
        asked = rf"JSONRPC_FAST_{trick}\b|jsonrpc_fast_uses\({trick}\)|\buses_{trick.lower()}\b"
        assert re.search(asked, code), trick
