"""Tables of rows: what a test of a table checks, and what it reports."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ..support import tables
from ..support.async_tests import make_callable
from ..support.tables import RowsFailed, rows, table


def report_of(test: Callable[[], object]) -> str:
    with pytest.raises(RowsFailed) as caught:
        test()
    return str(caught.value)


def test_every_row_is_checked_and_each_that_fails_is_reported() -> None:
    seen = []

    @rows("number, text", [(1, "one"), (2, b"two"), pytest.param(3, None, id="the third"), (4, "four")])
    def test(number: int, text: str) -> None:
        seen.append(number)
        assert number % 2, "even"
        assert text is not None

    report = report_of(test)
    assert seen == [1, 2, 3, 4]
    first, *lines = report.splitlines()
    assert first == "3 of 4 rows fail (--row IDENTIFIER checks one of them):"
    found = [line for line in lines if line.startswith("[")]
    assert [line.partition(" ")[0] for line in found[::2]] == ["[2-two]", "[4-four]"]
    assert found[1].startswith("[the third] test_tables.py:")
    assert "AssertionError: even" in report


def test_a_row_that_takes_too_long_is_the_last_one() -> None:
    """pytest-timeout ends one row, and would let the next one hang."""
    seen = []

    @rows("number", [1, 2, 3])
    def test(number: int) -> None:
        seen.append(number)
        if number == 2:
            pytest.fail("Timeout (>60.0s) from pytest-timeout.")

    report = report_of(test)
    assert seen == [1, 2]
    assert report.splitlines()[0].startswith("1 of 2 rows fail")


def test_tables_multiply_and_leave_the_fixtures() -> None:
    seen = []

    @rows("a", [1, 2])
    @rows("b, c", [(3, 4), (5, 6)])
    def test(fixture: str, a: int, b: int, c: int) -> None:
        seen.append((fixture, a, b, c))

    assert list(inspect.signature(test).parameters) == ["fixture"]
    test(fixture="f")  # type: ignore[call-arg]
    assert sorted(seen) == [("f", 1, 3, 4), ("f", 1, 5, 6), ("f", 2, 3, 4), ("f", 2, 5, 6)]


def test_an_async_row_that_fails_is_reported() -> None:
    @rows("number", [1, 2, 3])
    async def test(number: int) -> None:
        assert number != 2, "refused"

    item: Any = SimpleNamespace(obj=test, get_closest_marker={}.get)
    make_callable(item)
    assert "1 of 3 rows fail" in report_of(item.obj)


def test_skipped_rows_do_not_fail() -> None:
    @rows("number", [1, 2])
    def test(number: int) -> None:
        if number == 1:
            pytest.skip("not here")

    test()  # type: ignore[call-arg]


def test_a_table_is_skipped_if_all_its_rows_are() -> None:
    with pytest.raises(pytest.skip.Exception, match="not here"):
        rows("number", [1, 2])(lambda number: pytest.skip("not here"))()


def test_an_empty_table_fails() -> None:
    assert report_of(rows("number", [])(lambda number: None)) == "the table has no rows"


def test_one_row_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "chosen", "two#2")
    seen: list[int] = []
    rows("number", [1, 2, 3], ids=["one", "two", "two"])(lambda number: seen.append(number))()
    assert seen == [3]


@rows(
    "names, values, ids",
    [("a, b", [(1,)], None), ("a", [pytest.param(1, marks=pytest.mark.slow)], None), ("a", [1, 2], ["x"])],
)
def test_tables_that_are_refused(names: str, values: list[Any], ids: list[str] | None) -> None:
    with pytest.raises(ValueError, match="row"):
        rows(names, values, ids=ids)


def test_a_parameter_that_the_test_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no parameter other"):
        rows("other", [1])(lambda number: None)


def test_a_table_made_in_a_test() -> None:
    def test() -> None:
        with table() as row:
            for number in range(4):
                with row(f"row {number}"):
                    assert number % 2

    report = report_of(test)
    assert report.startswith("2 of 4 rows fail")
    assert "[row 0]" in report
    assert "[row 2]" in report
