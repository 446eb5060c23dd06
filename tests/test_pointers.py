"""JSON pointers, with the examples of RFC 6901."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jsonrpc_fast._pointers import child_of, parts_of, pointer_to, target_of
from jsonrpc_fast.types import UNSET

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
    assert target_of(DOCUMENT, reference) == value


@given(st.lists(st.text() | st.integers(min_value=0)))
def test_a_pointer_has_the_parts_that_it_was_made_of(parts: list[str | int]) -> None:
    assert parts_of(pointer_to(parts)) == [str(part) for part in parts]


@rows("value", [None, True, 1, "0", (1,)])
def test_a_value_without_parts_has_no_children(value: Any) -> None:
    assert child_of(value, "0") is UNSET
