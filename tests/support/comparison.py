"""Compare the two backends. The outcome of a call is a text, which is equal only if the outcomes are equal."""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from jsonrpc_fast.errors import ParseError
from jsonrpc_fast.types import UNSET

from .describe import describe

Backends = tuple[ModuleType, ModuleType]


def outcome(call: Callable[[], Any], show: Callable[[Any], Any] = lambda value: value) -> str:
    """Return what a call returns, as `show` describes it, or what it raises, without addresses and backend names."""
    try:
        found = repr(show(call()))
    except AssertionError:
        raise
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return re.sub(r"jsonrpc_fast\.codec\._(core|pure)\.| at 0x[0-9a-f]+", "", found)


def assert_same(backends: Backends, call: Callable[[ModuleType], Any], show: Callable[[Any], Any] = describe) -> None:
    """Check that a call on each backend has the same outcome."""
    core, pure = backends
    assert outcome(lambda: call(core), show) == outcome(lambda: call(pure), show)


def plain(module: ModuleType, item: Any) -> object:
    """Return a decoded item as built-in objects, which compare by value and type at any depth."""
    if isinstance(item, list):
        return [plain(module, each) for each in item]
    if isinstance(item, ParseError):
        return type(item.id), item
    return type(item).__name__, _plain_payload(module, item)


def _plain_payload(module: ModuleType, value: Any) -> object:
    if isinstance(value, module.Raw):
        return "Raw", bytes(value)
    if isinstance(value, (module.Request, module.Notification, module.Response, module.Error)):
        return [_plain_payload(module, getattr(value, name)) for name in (*value.__match_args__, "extra")]
    return value if value is UNSET else exactly(value)


def exactly(value: Any) -> bytes | str:
    """Return a key for a decoded value. Keys are equal if the values and all their types are equal."""
    try:
        # marshal nests deeper than repr allows, and its version 0 writes equal values as equal bytes.
        return marshal.dumps(value, 0)
    except ValueError:  # a Decimal
        pass
    try:
        return repr(value)
    except RecursionError:
        return "too deep to tell"
