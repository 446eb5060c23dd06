"""docs/errors.md has every code, hint and exception, with the values of the code."""

from __future__ import annotations

from jsonrpc_fast import codes, errors

from ..support.pages import table_rows
from ..support.places import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


def test_parse_errors() -> None:
    rows = table_rows(PAGE, "code", "response", "what it means", "what to do")
    expected = [(f"`{code.name}`", str(int(code.rpc_code))) for code in codes.ParseErrorCode]
    assert [(code, response) for code, response, _, _ in rows] == expected
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
