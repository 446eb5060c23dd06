"""Rows of the tables in docs/adapters.md."""

from __future__ import annotations

from .library import Library, Works
from .own_tests import Outcomes

SIZES = ("small", "80 kB")
MAX_NAMES = 4
COLUMNS = [f"{work} {size}" for work in ("decode", "encode", "end to end") for size in SIZES]

HEAD = f"""\
| library | adapter | its tests without / with it | {" | ".join(COLUMNS)} |
| --- | --- | --- | {" | ".join("---:" for _ in COLUMNS)} |"""
OTHERS_HEAD = """\
| library | work | small | 80 kB |
| --- | --- | ---: | ---: |"""

WORKS = ("decode", "encode", "end to end", "end to end, 32 in flight")
SIZES_HEAD = f"""\
| library | message | {" | ".join(WORKS)} |
| --- | --- | {" | ".join("---:" for _ in WORKS)} |"""


def ratio(works: Works, name: str) -> str:
    """Return how many times as fast the adapter is; a dash if it was not measured."""
    if name not in works:
        return "-"
    without, with_it = works[name]
    found = without / with_it
    return f"{found:.0f}" if found >= 10 else f"{found:.1f}" if found >= 1.5 else f"{found:.2f}"


def row(library: Library, version: str, lines: int, outcomes: Outcomes | None, works: Works) -> str:
    """Return a row of the first table."""
    tests = "-" if outcomes is None else f"{outcomes.without} / {outcomes.with_it} of {outcomes.total}"
    cells = [f"{library.name} {version}", f"`{library.adapter}`, {lines} lines", tests]
    return "| " + " | ".join(cells + [ratio(works, column) for column in COLUMNS]) + " |"


def other_rows(library: str, works: Works) -> list[str]:
    """Return the rows of the second table, for operations without a column in the first."""
    names = dict.fromkeys(
        name.rsplit(" ", 2 if name.endswith("kB") else 1)[0]
        for name in works
        if name not in COLUMNS and ": " not in name
    )
    return [
        f"| {library} | {name} | " + " | ".join(ratio(works, f"{name} {size}") for size in SIZES) + " |"
        for name in names
    ]


def size_rows(library: str, works: Works) -> list[str]:
    """Return the rows of the third table, for messages of other sizes."""
    sizes = dict.fromkeys(name.split(": ")[1] for name in works if ": " in name)
    return [
        f"| {library} | {size} | " + " | ".join(ratio(works, f"{work}: {size}") for work in WORKS) + " |"
        for size in sizes
    ]


def failure_rows(library: str, failures: dict[str, str]) -> list[str]:
    """Return a line for each reason why tests fail with the adapter, with their names if they are few."""
    rows = []
    for reason in dict.fromkeys(failures.values()):
        tests = [f"`{test}`" for test, found in failures.items() if found == reason]
        rows.append(f"- {library}: {', '.join(tests) if len(tests) <= MAX_NAMES else f'{len(tests)} tests'}: {reason}")
    return rows
