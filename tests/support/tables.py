"""Tables: one test checks every row of a table, and reports every row that fails.

    @rows("text, code", [(b"{", "MALFORMED_JSON"), pytest.param(b"", "MALFORMED_JSON", id="empty")])
    def test_faults(impl, text, code): ...

`rows` takes the arguments of `pytest.mark.parametrize`. Applied several times, it makes a row of each combination.
A test that makes its rows from its fixtures uses `table`:

    with table() as row:
        for name, text in corpus:
            with row(name):
                assert ...

Rules:
- After a row that fails, the other rows are still checked. The report has the identifier, the place and the error of
  each row that fails, and the traceback of the first one. `pytest --row IDENTIFIER` checks only the rows with that
  identifier.
- A table is skipped if all its rows are. An empty table fails. If two rows have the same identifier, the second one
  gets a number.
- Fixtures are made once for a table, but `monkeypatch` is undone after each row, and `caplog` and `capsys` are cleared
  before each row.
- An async test runs each row in its own event loop, like a separate test (see async_tests.py).
"""

from __future__ import annotations

import functools
import inspect
import itertools
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, TypeVar
from unittest import SkipTest

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])
Ids = Iterable[object] | Callable[[Any], object] | None

TIMEOUT: Final = "Timeout (>"
"""The first characters of the failure that pytest-timeout raises."""
SHOWN_ROWS: Final = 30
SHOWN_LINES: Final = 12
MAX_ID: Final = 60

chosen: str | None = None
"""The identifier of the only row to check: the option `--row`."""


class RowsFailed(AssertionError):
    """Some rows of a table fail."""


class Table:
    """A table, with the outcomes of the rows that have been checked."""

    def __init__(self) -> None:
        self._count = 0
        self._failed: list[tuple[str, BaseException]] = []
        self._skipped: list[str] = []

    @contextmanager
    def __call__(self, identifier: object) -> Iterator[None]:
        """Check a row in a `with` block. If it fails, the error is kept for the report, and the test continues."""
        __tracebackhide__ = True
        name = identifier if isinstance(identifier, str) else _short(identifier)
        self._count += 1
        try:
            yield
        except (pytest.skip.Exception, SkipTest) as skipped:
            self._skipped.append(str(skipped))
        except (Exception, pytest.fail.Exception) as error:
            self._failed.append((name, error))
            # pytest-timeout has only one timeout for a test: another such row would hang forever.
            if str(error).startswith(TIMEOUT):
                self.finish()

    def finish(self) -> None:
        """Raise the report of the rows that fail."""
        __tracebackhide__ = True
        if self._failed:
            report = self._report()
            safe = report.encode("utf-8", "backslashreplace").decode()  # workers of pytest-xdist send it as UTF-8
            raise RowsFailed(safe) from (self._failed[0][1] if safe == report else None)
        if not self._count and chosen is None:
            raise RowsFailed("the table has no rows")
        if len(self._skipped) == self._count:
            pytest.skip(self._skipped[0] if self._skipped else f"no row is called {chosen}")

    def _report(self) -> str:
        lines = [f"{len(self._failed)} of {self._count} rows fail (--row IDENTIFIER checks one of them):"]
        for name, error in self._failed[:SHOWN_ROWS]:
            said = str(error).splitlines() or [""]
            lines.append(f"[{name}] {_place(error.__traceback__)}: {type(error).__name__}: {said[0]}")
            lines += [f"    {line}" for line in said[1:SHOWN_LINES]]
        lines += [f"[{name}]" for name, _ in self._failed[SHOWN_ROWS:]]
        return "\n".join(lines)


@contextmanager
def table() -> Iterator[Table]:
    """A table whose rows the test makes. At the end of the block, the rows that fail are reported."""
    __tracebackhide__ = True
    found = Table()
    yield found
    found.finish()


class _Rows:
    """The rows of one test: all combinations of the calls of `rows` above it."""

    def __init__(self, test: Callable[..., Any]) -> None:
        self.test = test
        """The test of one row. If it is a coroutine function, async_tests.py replaces it by a function that runs it."""
        self.names: set[str] = set()
        self._axes: list[list[tuple[str, dict[str, Any]]]] = []

    def add(self, names: Sequence[str], rows: list[tuple[str, dict[str, Any]]]) -> None:
        self.names.update(names)
        self._axes.append(rows)

    def check(self, fixtures: dict[str, Any]) -> None:
        __tracebackhide__ = True
        found = Table()
        for combination in itertools.product(*self._axes):
            name = "-".join(part for part, _ in reversed(combination))
            if chosen is not None and name != chosen:
                continue
            values = {key: value for _, part in combination for key, value in part.items()}
            _clear(fixtures)
            with found(name), pytest.MonkeyPatch.context() as monkeypatch:
                if "monkeypatch" in fixtures:
                    fixtures["monkeypatch"] = monkeypatch
                self.test(**fixtures, **values)
        found.finish()


def rows(names: str | Sequence[str], values: Iterable[Any], *, ids: Ids = None) -> Callable[[Test], Test]:
    """Check a test for each row, as one test.

    Args:
        names: The parameters that a row sets, as a list or separated by commas.
        values: The rows: tuples, or single values for one parameter; `pytest.param` gives a row an identifier.
        ids: The identifiers, or a function of a value; without it they are made of the values.

    Raises:
        ValueError: A row does not have one value for each name, or it has marks.
    """
    split = [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)
    made = _named(split, list(values), ids)

    def decorate(test: Test) -> Test:
        table_of = getattr(test, "rows", None)
        if isinstance(table_of, _Rows):
            table_of.add(split, made)
            wrapper: Any = test
        else:
            table_of = _Rows(test)
            table_of.add(split, made)
            wrapper = _wrapper(test, table_of)
        signature = inspect.signature(test)
        missing = set(split) - set(signature.parameters)
        if missing:
            raise ValueError(f"{test.__name__} has no parameter {', '.join(sorted(missing))}")
        kept = [parameter for name, parameter in signature.parameters.items() if name not in split]
        wrapper.__signature__ = signature.replace(parameters=kept)
        return wrapper  # type: ignore[no-any-return]

    return decorate


def _wrapper(test: Callable[..., Any], table_of: _Rows) -> Callable[..., None]:
    @functools.wraps(test)
    def wrapper(*args: Any, **fixtures: Any) -> None:
        if args:  # a method of a class of tests
            fixtures = {next(iter(inspect.signature(test).parameters)): args[0], **fixtures}
        table_of.check(fixtures)

    del wrapper.__wrapped__  # type: ignore[attr-defined]  # its parameters are not those of the test
    wrapper.rows = table_of  # type: ignore[attr-defined]
    return wrapper


def _named(names: list[str], values: list[Any], ids: Ids) -> list[tuple[str, dict[str, Any]]]:
    given = None if ids is None or callable(ids) else list(ids)
    if given is not None and len(given) != len(values):
        raise ValueError(f"{len(values)} rows have {len(given)} identifiers")
    made, seen = [], Counter[str]()
    for index, row in enumerate(values):
        name = None
        if isinstance(row, type(pytest.param())):
            if row.marks:
                raise ValueError(f"row {index} has marks: it needs a test of its own")
            name, row = row.id, row.values
        elif len(names) == 1:
            row = (row,)
        if len(row) != len(names):
            raise ValueError(f"row {index} has {len(row)} values for {', '.join(names)}")
        if name is None and given is not None:
            name = given[index]
        if name is None:
            parts = [ids(value) if callable(ids) else None for value in row]
            pairs = zip(parts, row, strict=True)
            name = "-".join(_short(value) if part is None else str(part) for part, value in pairs)
        seen[str(name)] += 1
        name = str(name) if seen[str(name)] == 1 else f"{name}#{seen[str(name)]}"
        made.append((name, dict(zip(names, row, strict=True))))
    return made


def _short(value: object) -> str:
    """Return a short identifier of a value."""
    if isinstance(value, bytes):
        text = ascii(value)[2:-1]
    elif isinstance(value, str):
        text = ascii(value)[1:-1]
    else:
        text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= MAX_ID else f"{text[:MAX_ID]}~{len(text)}"


def _place(trace: TracebackType | None) -> str:
    """Return the last line of a traceback that is in a file of the tests."""
    frames = [frame for frame in traceback.extract_tb(trace) if "/tests/" in frame.filename.replace("\\", "/")]
    own = [frame for frame in frames if "/tests/support/" not in frame.filename.replace("\\", "/")] or frames
    return f"{own[-1].filename.replace(chr(92), '/').rpartition('/')[2]}:{own[-1].lineno}" if own else "?"


def _clear(fixtures: dict[str, Any]) -> None:
    if "caplog" in fixtures:
        fixtures["caplog"].clear()
    for name in ("capsys", "capfd"):
        if name in fixtures:
            fixtures[name].readouterr()
