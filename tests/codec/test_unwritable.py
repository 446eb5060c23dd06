"""The place of a value that cannot be written."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from jsonrpc_fast.codec import unwritable
from jsonrpc_fast.codec.encoders import Encoders
from jsonrpc_fast.codec.unwritable import explained
from jsonrpc_fast.errors import EncodeError

from ..support.tables import rows

BAD = object()
write_notification = partial(unwritable.write_notification, encoders=Encoders())
write_request = partial(unwritable.write_request, encoders=Encoders())


@rows(
    ("params", "place"),
    [
        ([1, BAD], "/1"),
        ({"a": {"~": {"/": [0, (1, BAD)]}}}, "/a/~0/~1/1/1"),
        ({"a": {(): 1}}, "/a"),
        ({(): 1}, "the params"),
        (BAD, "the params"),
        ([*range(2000), BAD], "the params"),
    ],
)
def test_places(params: Any, place: str) -> None:
    assert str(explained(EncodeError("why"), "m", params)) == f"why: {place} of m"


def test_a_default_is_asked_again() -> None:
    def default(value: object) -> Any:
        raise ValueError("secret")

    for write in (
        lambda: write_request(1, "m", [BAD], delimited=False, default=default),
        lambda: write_notification("m", [BAD], delimited=False, default=default),
    ):
        with pytest.raises(EncodeError, match=r": /0 of m$") as caught:
            write()
        assert isinstance(caught.value.__cause__, ValueError)


def test_deep_params() -> None:
    params: Any = []
    for _ in range(5000):
        params = [params]
    with pytest.raises(EncodeError, match=r" of m$"):
        write_request(1, "m", params, delimited=False)


def test_what_is_written() -> None:
    assert write_request(1, "m", [1], delimited=True) == b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}\n'
    assert write_notification("m", None, delimited=False) == b'{"jsonrpc":"2.0","method":"m"}'
