"""The options of a session: all of them are named once more, and wrong values are refused at once."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from jsonrpc_fast.session import Session, SessionOptions
from jsonrpc_fast.transports import memory_pair


def test_the_typed_dict_has_the_options_of_the_constructor() -> None:
    parameters = inspect.signature(Session).parameters.values()
    keywords = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    assert get_type_hints(SessionOptions).keys() == keywords


NAN = float("nan")
INFINITE = float("inf")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_handlers": 0}, ValueError),
        ({"max_handlers": -1}, ValueError),
        ({"max_handlers": None}, TypeError),
        ({"max_handlers": 1.5}, TypeError),
        ({"max_handlers": True}, TypeError),
        ({"max_pending": 0}, ValueError),
        ({"max_inbox": -1}, ValueError),
        ({"inbox_bytes": -1}, ValueError),
        ({"inbox_bytes": None}, TypeError),
        ({"reply_bytes": -1}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"timeout": NAN}, ValueError),
        ({"timeout": "5"}, TypeError),
        ({"timeout": True}, TypeError),
        ({"close_seconds": None}, TypeError),
        ({"close_seconds": -0.1}, ValueError),
        ({"close_seconds": INFINITE}, ValueError),
        ({"end_seconds": -1}, ValueError),
        ({"end_seconds": "5"}, TypeError),
        ({"convention": "lsp"}, TypeError),
        ({"id_factory": 1}, TypeError),
        ({"unique_ids": 1}, TypeError),
        ({"errors": {"1": ValueError}}, TypeError),
        ({"errors": {1: ValueError}}, TypeError),
        ({"reply_policy": "sometimes"}, ValueError),
    ],
)
def test_wrong_values_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        Session(memory_pair()[0], **options)


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": None},
        {"timeout": 0},
        {"timeout": INFINITE},
        {"max_inbox": 0, "inbox_bytes": 0, "reply_bytes": 0},
        {"close_seconds": 0},
        {"end_seconds": None},
        {"end_seconds": 2.5},
    ],
)
def test_the_ends_of_the_ranges_are_taken(options: dict[str, Any]) -> None:
    Session(memory_pair()[0], **options)
