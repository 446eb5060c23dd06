"""A fixture for tests with hostile messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def unlogged() -> Iterator[None]:
    """The libraries log nothing: a lone surrogate in a captured log ends a worker of pytest-xdist."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
