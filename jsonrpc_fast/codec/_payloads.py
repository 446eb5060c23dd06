"""Payloads that may be `Raw`, for the layers above the codec."""

from __future__ import annotations

from typing import Any

from ._backend import Raw


def decoded(value: Any) -> Any:
    """Return the decoded value of a `Raw`, and anything else as it is."""
    return value.decode() if type(value) is Raw else value
