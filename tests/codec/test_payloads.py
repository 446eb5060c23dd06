"""Payloads that may be `Raw`."""

from __future__ import annotations

from typing import Any

from jsonrpc_fast import UNSET, Raw
from jsonrpc_fast.codec._payloads import decoded

from ..support.tables import rows


@rows(
    ("text", "value"), [(b'{"a":[1,null]}', {"a": [1, None]}), (b" null ", None), (b"0", 0), (b'"\\u00e9"', "\u00e9")]
)
def test_the_value_of_a_raw(text: bytes, value: Any) -> None:
    assert decoded(Raw(text)) == value
    assert type(decoded(Raw(text))) is type(value)


@rows("value", [None, UNSET, 0, "", b"[1]", [Raw(b"1")], {"a": Raw(b"1")}], ids=repr)
def test_any_other_value_is_returned_as_it_is(value: Any) -> None:
    assert decoded(value) is value
