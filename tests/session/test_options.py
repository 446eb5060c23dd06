"""The options of a session: their defaults, their documentation, and wrong values, which are refused at once."""

from __future__ import annotations

import inspect
import re
from typing import Any, get_type_hints

import pytest

from jsonrpc_fast.session import Convention, Rules, Session, SessionOptions
from jsonrpc_fast.transports import memory_pair
from jsonrpc_fast.types import UNSET

DEFAULTS = {
    "timeout": 300.0,
    "convention": None,
    "hooks": None,
    "errors": None,
    "response_policy": UNSET,
    "id_factory": None,
    "default": None,
    "extra": None,
    "context": None,
    "max_calls": 4096,
    "max_handlers": 256,
    "max_inbox": 32768,
    "inbox_bytes": 67108864,
    "response_bytes": 1048576,
    "heartbeat_seconds": None,
    "close_seconds": 5.0,
    "end_seconds": UNSET,
}


def test_each_option_has_a_type_a_default_and_a_description() -> None:
    assert list(get_type_hints(SessionOptions)) == list(DEFAULTS)
    found, changed = Rules(), Rules(timeout=1, max_inbox=0)
    for name, value in DEFAULTS.items():
        if name not in ("convention", "hooks", "errors"):
            assert getattr(found, name) == value
            assert name in ("timeout", "max_inbox") or getattr(changed, name) == value
    assert (changed.timeout, changed.max_inbox) == (1, 0)
    documented = re.findall(r"^    (\w+):", inspect.getdoc(SessionOptions) or "", re.MULTILINE)
    assert documented == list(DEFAULTS)


def test_an_option_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match=r"^a session has no option 'time_out'; did you mean 'timeout'\?$"):
        Session(memory_pair()[0], time_out=1)  # type: ignore[call-arg]


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
        ({"max_calls": 0}, ValueError),
        ({"max_inbox": -1}, ValueError),
        ({"inbox_bytes": -1}, ValueError),
        ({"inbox_bytes": None}, TypeError),
        ({"response_bytes": -1}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"timeout": NAN}, ValueError),
        ({"timeout": "5"}, TypeError),
        ({"timeout": True}, TypeError),
        ({"close_seconds": None}, TypeError),
        ({"close_seconds": -0.1}, ValueError),
        ({"close_seconds": INFINITE}, ValueError),
        ({"end_seconds": -1}, ValueError),
        ({"heartbeat_seconds": 0}, ValueError),
        ({"heartbeat_seconds": 5, "convention": Convention()}, ValueError),
        ({"end_seconds": "5"}, TypeError),
        ({"convention": "lsp"}, TypeError),
        ({"id_factory": 1}, TypeError),
        ({"errors": {"1": ValueError}}, TypeError),
        ({"errors": {1: ValueError}}, TypeError),
        ({"response_policy": "sometimes"}, ValueError),
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
        {"max_inbox": 0, "inbox_bytes": 0, "response_bytes": 0},
        {"close_seconds": 0},
        {"end_seconds": None},
        {"end_seconds": 2.5},
    ],
)
def test_the_limits_of_the_ranges_are_accepted(options: dict[str, Any]) -> None:
    Session(memory_pair()[0], **options)
