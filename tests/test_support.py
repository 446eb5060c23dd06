"""JSON pointers with the examples of RFC 6901, what an exception ends and undoes, lines on stderr, and settings."""

from __future__ import annotations

import ast
import asyncio
import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast.support import (
    child_of,
    is_failure,
    on_failure,
    pointer_parts,
    pointer_to,
    read_settings,
    reference_target,
    say,
)
from jsonrpc_fast.types import UNSET

from .support.places import PACKAGE
from .support.tables import rows

DOCUMENT: dict[str, Any] = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}
"""The example of section 5."""

REFERENCES = [  # section 6
    ("#", DOCUMENT),
    ("#/foo", ["bar", "baz"]),
    ("#/foo/0", "bar"),
    ("#/", 0),
    ("#/a~1b", 1),
    ("#/c%25d", 2),
    ("#/e%5Ef", 3),
    ("#/g%7Ch", 4),
    ("#/i%5Cj", 5),
    ("#/k%22l", 6),
    ("#/%20", 7),
    ("#/m~0n", 8),
    # The fragment is decoded before it is divided.
    ("#%2Ffoo", UNSET),
    ("#/foo%2F1", "baz"),
    ("#/a%7E1b", 1),
    # Nothing is there, or it is not an index of section 4.
    ("", UNSET),
    ("foo", UNSET),
    ("#foo", UNSET),
    ("other.json#/foo", UNSET),
    ("#/none", UNSET),
    ("#/none/none", UNSET),
    ("#/foo/2", UNSET),
    ("#/foo/00", UNSET),
    ("#/foo/-", UNSET),
    ("#/foo/-1", UNSET),
    ("#/foo/+1", UNSET),
    ("#/foo/\N{ARABIC-INDIC DIGIT ONE}", UNSET),
    ("#/foo/" + "9" * 5000, UNSET),
    ("#/foo/0/0", UNSET),
]


@rows("reference, value", REFERENCES)
def test_a_reference_leads_to(reference: str, value: Any) -> None:
    assert reference_target(DOCUMENT, reference) == value


@given(st.lists(st.text() | st.integers(min_value=0)))
def test_a_pointer_has_the_parts_that_it_was_made_of(parts: list[str | int]) -> None:
    assert pointer_parts(pointer_to(parts)) == [str(part) for part in parts]


@rows("value", [None, True, 1, "0", (1,)])
def test_a_value_without_parts_has_no_children(value: Any) -> None:
    assert child_of(value, "0") is UNSET


class Cancelled(BaseException):
    """Like trio's."""


@rows(
    ("error", "expected"),
    [
        (ValueError(), True),
        (SystemExit(), True),
        (KeyboardInterrupt(), False),
        (Cancelled(), False),
        (None, False),
        (asyncio.CancelledError(), True),  # there is no task that could be cancelled
    ],
)
def test_which_exceptions_fail_only_the_message(error: BaseException | None, expected: bool) -> None:
    assert is_failure(error) is expected


async def test_the_cancellation_of_the_task_itself_passes_on() -> None:
    found = []

    async def wait() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        for waited in (future, asyncio.get_running_loop().create_future()):
            try:
                await waited
            except asyncio.CancelledError as error:
                found.append(is_failure(error))

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert found == [True, False]


@rows("error", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, Cancelled])
async def test_what_was_begun_is_undone_whatever_is_raised(error: type[BaseException]) -> None:
    undone = []

    async def undo() -> None:
        await asyncio.sleep(0)
        undone.append("async")

    with pytest.raises(error), on_failure(lambda: undone.append("sync")):
        raise error
    with pytest.raises(error):
        async with on_failure(lambda: undone.append("sync")):
            raise error
    with pytest.raises(error):
        async with on_failure(undo):
            raise error
    assert undone == ["sync", "sync", "async"]


async def test_nothing_is_undone_without_a_failure() -> None:
    undone: list[str] = []
    with on_failure(lambda: undone.append("sync")):
        pass
    async with on_failure(lambda: undone.append("sync")):
        pass
    assert undone == []


@pytest.mark.ci
def test_few_places_catch_whatever_is_raised() -> None:
    found = []
    for folder in ("handlers", "http", "mcp"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            handlers = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ExceptHandler)]
            names = [ast.unparse(handler.type) if handler.type else "" for handler in handlers]
            found += [path.relative_to(PACKAGE).as_posix() for name in names if name in ("", "BaseException")]
    assert found == ["handlers/awaiting.py", "handlers/awaiting.py", "http/guard.py", "mcp/server/methods.py"]


# Lines on stderr


class Written(io.StringIO):
    """Keeps each write: others may write between two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


def test_a_line_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", written := Written())
    say("a line")
    say("the next")
    assert written.writes == ["a line\n", "the next\n"]
    written.close()
    say("nobody reads it")
    monkeypatch.setattr("sys.stderr", None)
    say("nobody reads it")


def test_nothing_else_prints_to_a_file() -> None:
    prints = re.compile(r"\bprint\((?:[^()]|\([^()]*\))*\bfile=")
    assert prints.search('print(\n    f"a {str(1)}",\n    file=sys.stderr,\n)')
    assert [path.name for path in PACKAGE.rglob("*.py") if prints.search(path.read_text("utf-8"))] == []


# Files of settings


@rows(
    ("data", "why"),
    [
        (b'{"a": "secret",\n // why\n}', "it is not plain JSON, at line 2, column 2"),
        (b'{"a": "secret"', "it is not plain JSON, at line 1, column 15"),
        (b"", "it is not plain JSON, at line 1, column 1"),
        (b'{"secret\xff', "it is not plain JSON: invalid start byte at byte 8"),
        (b"[" * 100_000, "it nests too deeply"),
        (b'{"a": "secret", "a": 2}', "it has the member 'a' twice"),
        (b'{"b": [{"\xc3\xbc": 1, "c": 2, "\\u00fc": 1}]}', "it has the member 'ü' twice"),
    ],
)
def test_settings_that_cannot_be_read(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=r"^it ") as caught:
        read_settings(data)
    assert str(caught.value) == why


def test_settings() -> None:
    assert read_settings(b'\xef\xbb\xbf{"a": {"b": 1}, "c": {"b": 12345678901234567890}}') == {
        "a": {"b": 1},
        "c": {"b": 12345678901234567890},
    }
