"""How the time of matching a pattern grows."""

from __future__ import annotations

import time

import pytest

from jsonrpc_fast.mcp.protocol.patterns import growth

from ...support.tables import rows


@rows(
    ("pattern", "power"),
    [
        (r"^[a-z]+$", 1),
        (r"(a+)+$", 1),
        (r"(?:a|b){2,}(?i:c)(?P<name>d)", 1),
        (r"^(?!\s*$).+", 1),
        (r"^(?=[(]\))(?![^)\]]+)x", 1),
        (r"^(?!a)b|c", 2),
        (r"^(?!a)b|c(?=d)", 2),
        (r"(?!a)b", 2),
        (r"^(?!a(b))c", 2),
        (r"^(?:a(?=b))*", 2),
        (r"(?<=a)b", 2),
        (r"(?<!a)b", 2),
        (r"(a)\1", 2),
        (r"(?P<n>a)(?P=n)", 2),
        (r"a++b", 2),
        (r"(?>a)", 2),
        (r"(?=a)(?=b)", 2),
        (r"(?=a(?!b))", 3),
        (r"(?=a(?:b(?<=c(?=d))))e", 4),
        (r"[(?=](?=a)", 2),
        (r"(", 1),
    ],
)
def test_growth(pattern: str, power: int) -> None:
    assert growth(pattern) == power


@pytest.mark.slow
@rows("text", ["[", "(?=", "^(?=[", "(", "\\", "^(?=a", "[^]"])
def test_growth_takes_linear_time(text: str) -> None:
    began = time.process_time()
    growth(text * 200_000)
    assert time.process_time() - began < 5
